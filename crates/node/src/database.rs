//! SQLite as both the authority and the member use it.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::home;

/// Opens or creates the database at `path`, 0600, and brings its schema up to date.
///
/// `migrations` are applied in order, each once; `user_version` counts them.
pub(crate) fn open(path: &Path, migrations: &[&str]) -> Result<Connection, DatabaseError> {
    let fail = |source| DatabaseError::new(path, source);
    if !path.exists() {
        // SQLite would create the file readable by others.
        home::write_private(path, b"")?;
    }
    home::check_private(path)?;
    let mut connection = Connection::open(path).map_err(fail)?;
    connection
        .busy_timeout(Duration::from_secs(10))
        .map_err(fail)?;
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
    connection.execute_batch(pragmas).map_err(fail)?;
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(fail)?;
    let done: usize = transaction
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(fail)?;
    if done > migrations.len() {
        return Err(DatabaseError::Newer {
            path: path.display().to_string(),
        });
    }
    for migration in migrations.iter().skip(done) {
        transaction.execute_batch(migration).map_err(fail)?;
    }
    transaction
        .pragma_update(None, "user_version", migrations.len())
        .map_err(fail)?;
    transaction.commit().map_err(fail)?;
    Ok(connection)
}

/// Why the database could not be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file could not be made.
    #[error(transparent)]
    Create(#[from] home::HomeError),
    /// A newer version of the program wrote it.
    #[error("{path} was written by a newer version of ringway: use that version")]
    Newer {
        /// The file.
        path: String,
    },
    /// SQLite refused.
    #[error("the database {path} failed: {source}")]
    Sqlite {
        /// The file.
        path: String,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
}

impl DatabaseError {
    pub(crate) fn new(path: &Path, source: rusqlite::Error) -> DatabaseError {
        DatabaseError::Sqlite {
            path: path.display().to_string(),
            source,
        }
    }
}
