//! SQLite files of the gateway: opened to write or to read, and kept within a bound.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::store::AuditError;
use crate::limits::AUDIT_BUSY;

/// Opens a file to write it; makes it, with these tables, where there is none, readable by its
/// owner alone.
///
/// # Errors
/// The file cannot be opened, or another version wrote it.
pub(super) fn open(file: &Path, version: i64, tables: &str) -> Result<Connection, AuditError> {
    let wrong = |error| AuditError::Database(file.to_owned(), error);
    // SQLite makes its other files as it finds this one.
    let made = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(file);
    made.map_err(|error| AuditError::File(file.to_owned(), error))?;
    let connection = Connection::open(file).map_err(wrong)?;
    connection.busy_timeout(AUDIT_BUSY).map_err(wrong)?;
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(wrong)?;
    match version_of(&connection).map_err(wrong)? {
        0 => connection.execute_batch(tables).map_err(wrong)?,
        found if found == version => {}
        other => return Err(AuditError::Version(file.to_owned(), other)),
    }
    Ok(connection)
}

/// Opens a file to search it, also while a gateway writes it.
///
/// # Errors
/// There is none, or another version wrote it.
pub(super) fn read(file: &Path, version: i64) -> Result<Connection, AuditError> {
    let wrong = |error| AuditError::Database(file.to_owned(), error);
    // The database's own words for this do not say it.
    if let Err(error) = std::fs::File::open(file)
        && error.kind() == io::ErrorKind::PermissionDenied
    {
        let words = format!("{error}: it is another user's; as root it can be read");
        return Err(AuditError::File(
            file.to_owned(),
            io::Error::new(error.kind(), words),
        ));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(wrong)?;
    connection.busy_timeout(AUDIT_BUSY).map_err(wrong)?;
    match version_of(&connection).map_err(wrong)? {
        found if found == version => Ok(connection),
        other => Err(AuditError::Version(file.to_owned(), other)),
    }
}

fn version_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Deletes by `delete` until the pages in use take at most `bytes`, with a tenth to spare. `delete`
/// takes away some of the oldest rows and returns how many. Returns how many rows went. The file
/// keeps its size: what is free in it is used again.
///
/// # Errors
/// The database fails.
pub(super) fn shrink_to(
    connection: &Connection,
    bytes: u64,
    mut delete: impl FnMut(&Connection) -> rusqlite::Result<usize>,
) -> rusqlite::Result<u64> {
    let page = pragma(connection, "page_size")?;
    let used = || -> rusqlite::Result<u64> {
        let pages = pragma(connection, "page_count")?;
        Ok(pages.saturating_sub(pragma(connection, "freelist_count")?))
    };
    let most = bytes.checked_div(page).unwrap_or(0);
    if used()? <= most {
        return Ok(0);
    }
    let aim = most.saturating_sub(most / 10);
    let mut forgotten = 0_u64;
    // How many bytes a row takes is known only once its pages are free, so this goes in steps.
    while used()? > aim {
        let gone = delete(connection)?;
        // All rows are gone: what is left are the schema's own pages.
        if gone == 0 {
            break;
        }
        forgotten = forgotten.saturating_add(u64::try_from(gone).unwrap_or(u64::MAX));
    }
    Ok(forgotten)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    let value: i64 = connection.pragma_query_value(None, name, |row| row.get(0))?;
    Ok(u64::try_from(value).unwrap_or(0))
}
