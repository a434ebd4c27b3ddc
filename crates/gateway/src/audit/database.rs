//! SQLite files of the gateway: opened to write or to read, and kept within a bound.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::store::AuditError;
use crate::limits::AUDIT_BUSY;

/// This program's release.
pub(super) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The first release whose databases have a note of it, and the versions that they have now.
const SINCE: &str = "0.3.0";

/// Which release has first had the version of the tables: an older one that meets a newer version
/// says so.
const WRITTEN: &str = "
    CREATE TABLE IF NOT EXISTS written (version INTEGER PRIMARY KEY, release TEXT NOT NULL) STRICT;
";

/// Characters of a release's name that are shown.
const SHOWN_RELEASE: usize = 32;

/// Who has such a database.
pub(super) fn by(release: Option<&str>) -> String {
    release.map_or_else(
        || "a newer ringway".to_owned(),
        |release| format!("ringway {release} or newer"),
    )
}

/// What is to be installed to read it.
pub(super) fn needed(release: Option<&str>) -> String {
    release.map_or_else(
        || "the release that wrote it".to_owned(),
        |release| format!("{release} or newer"),
    )
}

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
        found => return Err(newer(file, &connection, found, version)),
    }
    connection.execute_batch(WRITTEN).map_err(wrong)?;
    let note = "INSERT INTO written (version, release) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    let noted = connection.execute(note, params![version, SINCE]);
    noted.map_err(wrong)?;
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
        found => Err(newer(file, &connection, found, version)),
    }
}

fn newer(file: &Path, connection: &Connection, found: i64, known: i64) -> AuditError {
    let query = "SELECT release FROM written WHERE version = ?1";
    let release: Option<String> = connection.query_row(query, [found], |row| row.get(0)).ok();
    let shown = |release: String| -> String {
        let plain = release.chars().filter(|c| c.is_ascii_graphic());
        plain.take(SHOWN_RELEASE).collect()
    };
    AuditError::Newer {
        file: file.to_owned(),
        found,
        known,
        release: release.map(shown),
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

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "CREATE TABLE one (value INTEGER); PRAGMA user_version = 1;";

    #[test]
    fn newer_database_names_the_release_needed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.db");
        let connection = open(&file, 1, TABLES).unwrap();
        connection.execute_batch("PRAGMA user_version = 2").unwrap();
        let text = open(&file, 1, TABLES).unwrap_err().to_string();
        assert!(text.contains("a newer ringway (version 2)"), "{text}");
        connection
            .execute("INSERT INTO written VALUES (2, '0.9.0')", [])
            .unwrap();
        for text in [
            open(&file, 1, TABLES).unwrap_err().to_string(),
            read(&file, 1).unwrap_err().to_string(),
        ] {
            assert!(text.contains("install 0.9.0 or newer"), "{text}");
        }
    }
}
