//! How much of a database's file is in use, and how to make room in it.

use rusqlite::Connection;

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
