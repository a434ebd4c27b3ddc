//! SQLite as both the authority and the member use it.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::home;
use crate::limits::MAX_RELEASE;
use crate::text::printable;
use crate::versions::RELEASE;

/// What a database is, and how it came to be as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema {
    /// What it is for its users, such as `state`.
    pub(crate) what: &'static str,
    /// Applied in order, each once; `user_version` counts them.
    pub(crate) migrations: &'static [&'static str],
    /// The first release that has all of them.
    pub(crate) since: &'static str,
}

/// Which release has first had each version: so an older one that meets a newer version can
/// say what it needs. No migration changes this table.
const WRITTEN: &str = "
    CREATE TABLE IF NOT EXISTS written (
        version INTEGER PRIMARY KEY, release TEXT NOT NULL
    ) STRICT;
";

/// Opens or creates the database at `path`, 0600, and brings its schema up to date. A copy of an
/// older one is kept beside it.
pub(crate) fn open(path: &Path, schema: &Schema) -> Result<Connection, DatabaseError> {
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
    let found = version_of(&connection).map_err(fail)?;
    let known = schema.migrations.len();
    if found > known {
        return Err(newer(path, &connection, schema, found));
    }
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
    connection.execute_batch(pragmas).map_err(fail)?;
    if (1..known).contains(&found) {
        keep_copy(path, &connection, schema, found)?;
    }
    migrate(&mut connection, path, schema)?;
    Ok(connection)
}

/// Brings the schema of an open database up to date; `path` is what errors name.
pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    schema: &Schema,
) -> Result<(), DatabaseError> {
    apply(connection, schema)
        .map_err(|source| DatabaseError::new(path, source))?
        .map_err(|found| newer(path, connection, schema, found))
}

fn version_of(connection: &Connection) -> rusqlite::Result<usize> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings the schema up to date, all of it or nothing. Gives the version instead where another
/// program has written a newer one meanwhile.
fn apply(connection: &mut Connection, schema: &Schema) -> rusqlite::Result<Result<(), usize>> {
    let immediate = rusqlite::TransactionBehavior::Immediate;
    let transaction = connection.transaction_with_behavior(immediate)?;
    let (found, known) = (version_of(&transaction)?, schema.migrations.len());
    if found > known {
        return Ok(Err(found));
    }
    for migration in schema.migrations.iter().skip(found) {
        transaction.execute_batch(migration)?;
    }
    transaction.execute_batch(WRITTEN)?;
    transaction.execute(
        "INSERT INTO written (version, release) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        params![known, schema.since],
    )?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(Ok(()))
}

/// Keeps the database as the earlier version that it is, in the file `NAME.vVERSION` beside it.
fn keep_copy(
    path: &Path,
    connection: &Connection,
    schema: &Schema,
    found: usize,
) -> Result<(), DatabaseError> {
    let fail = |source| DatabaseError::new(path, source);
    let beside = |end: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let (copy, new) = (
        beside(format!(".v{found}")),
        beside(format!(".v{found}.{}", std::process::id())),
    );
    // One that is left of a try which a full disk has ended.
    remove(&new)?;
    home::write_private(&new, b"")?;
    // A name need not be UTF-8.
    let into = "VACUUM INTO CAST(?1 AS TEXT)";
    let copied = connection
        .execute(into, [new.as_os_str().as_bytes()])
        .and_then(|_| version_of(&Connection::open(&new)?))
        .map_err(fail);
    match copied {
        Ok(version) if version == found => home::replace(&new, &copy)?,
        // Another program has migrated it meanwhile, and kept its copy.
        Ok(_) => return Ok(remove(&new)?),
        Err(error) => {
            remove(&new)?;
            return Err(error);
        }
    }
    tracing::info!(
        from = found,
        to = schema.migrations.len(),
        copy = %copy.display(),
        "the {} of an earlier release is brought up to date, and a copy of it is kept",
        schema.what
    );
    Ok(())
}

fn remove(path: &Path) -> Result<(), home::HomeError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(home::HomeError::new("removing", path, error))
        }
        _ => Ok(()),
    }
}

fn newer(path: &Path, connection: &Connection, schema: &Schema, found: usize) -> DatabaseError {
    let release = connection.query_row(
        "SELECT release FROM written WHERE version = ?1",
        [found],
        |row| row.get(0),
    );
    DatabaseError::Newer(Newer {
        path: path.display().to_string(),
        what: schema.what,
        found,
        known: schema.migrations.len(),
        // Those before 0.3 left no note.
        release: release.ok(),
    })
}

/// A database of a later release.
#[derive(Debug)]
pub struct Newer {
    /// The file.
    path: String,
    what: &'static str,
    /// Its version, and the newest that this program reads.
    found: usize,
    known: usize,
    /// The first release that has that version.
    release: Option<String>,
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Newer {
            path,
            what,
            found,
            known,
            release,
        } = self;
        // A number says nothing to whom it does not know.
        let (by, install) = match release {
            Some(release) => {
                let release = printable(release, MAX_RELEASE);
                (
                    format!("ringway {release} or newer"),
                    format!("{release} or newer"),
                )
            }
            None => (
                "a newer ringway".to_owned(),
                "the release that wrote it".to_owned(),
            ),
        };
        write!(
            f,
            "{path} is of {by} ({what} {found}), this is ringway {RELEASE} ({what} {known}): install {install}; nothing was changed"
        )
    }
}

/// Why the database could not be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file could not be made.
    #[error(transparent)]
    Create(#[from] home::HomeError),
    /// A newer version of the program wrote it.
    #[error("{0}")]
    Newer(Newer),
    /// SQLite refused.
    #[error("the database {path} failed: {source}{}", mend(source))]
    Sqlite {
        /// The file.
        path: String,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
}

/// What is to be done about a file that is none of SQLite's, or was damaged.
fn mend(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            ": it is damaged. An authority's comes back by `ringway ring restore`; a member moves its home away and joins again by another invite"
        }
        Some(rusqlite::ErrorCode::DiskFull) => ": the disk is full: make room, and start again",
        Some(rusqlite::ErrorCode::ReadOnly) => {
            ": it may not be written: see its owner and its mode"
        }
        _ => "",
    }
}

impl DatabaseError {
    pub(crate) fn new(path: &Path, source: rusqlite::Error) -> DatabaseError {
        DatabaseError::Sqlite {
            path: path.display().to_string(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_database_is_named_with_its_mend() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        home::write_private(&path, &[0x5a; 5_000]).unwrap();
        let error = open(&path, &FIRST).unwrap_err().to_string();
        assert!(error.contains("joins again by another invite"), "{error}");
    }

    const FIRST: Schema = Schema {
        what: "state",
        migrations: &["CREATE TABLE one (value TEXT NOT NULL) STRICT;"],
        since: "0.1.0",
    };
    const SECOND: Schema = Schema {
        what: "state",
        migrations: &[
            "CREATE TABLE one (value TEXT NOT NULL) STRICT;",
            "ALTER TABLE one ADD COLUMN more INTEGER NOT NULL DEFAULT 7;",
        ],
        since: "0.9.0",
    };

    fn values(connection: &Connection, what: &str) -> rusqlite::Result<String> {
        connection.query_row(&format!("SELECT {what} FROM one"), [], |row| row.get(0))
    }

    #[test]
    fn older_state_is_migrated_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let first = open(&path, &FIRST).unwrap();
        first
            .execute("INSERT INTO one VALUES ('kept')", [])
            .unwrap();
        drop(first);
        let copy = folder.path().join("state.db.v1");
        assert!(!copy.exists());
        let second = open(&path, &SECOND).unwrap();
        assert_eq!(values(&second, "value || more").unwrap(), "kept7");
        home::check_private(&copy).unwrap();
        // The release before opens the copy as it was.
        let before = open(&copy, &FIRST).unwrap();
        assert_eq!(values(&before, "value").unwrap(), "kept");
        std::fs::remove_file(&copy).unwrap();
        open(&path, &SECOND).unwrap();
        assert!(!copy.exists(), "it is migrated once");
    }

    #[test]
    fn newer_state_is_refused_with_its_release() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let second = open(&path, &SECOND).unwrap();
        second
            .execute("INSERT INTO one (value) VALUES ('kept')", [])
            .unwrap();
        drop(second);
        let before = std::fs::read(&path).unwrap();
        let refused = open(&path, &FIRST).unwrap_err().to_string();
        let wanted = format!(
            "state.db is of ringway 0.9.0 or newer (state 2), this is ringway {RELEASE} (state 1): install 0.9.0 or newer; nothing was changed"
        );
        assert!(refused.ends_with(&wanted), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        // Without the note the number alone is known.
        let second = open(&path, &SECOND).unwrap();
        second.execute("DROP TABLE written", []).unwrap();
        let refused = open(&path, &FIRST).unwrap_err().to_string();
        assert!(refused.contains("a newer ringway (state 2)"), "{refused}");
    }

    #[test]
    fn state_of_release_before_has_no_note() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        drop(open(&path, &FIRST).unwrap());
        let raw = Connection::open(&path).unwrap();
        raw.execute("DROP TABLE written", []).unwrap();
        drop(raw);
        let again = open(&path, &FIRST).unwrap();
        let noted: String = again
            .query_row("SELECT release FROM written", [], |row| row.get(0))
            .unwrap();
        assert_eq!(noted, "0.1.0");
    }
}
