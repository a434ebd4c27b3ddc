//! What is kept of transfers that are more than one file for one member.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::transfer::Record;
use crate::transfer::bundle::Bundle;

/// The table of them.
pub(super) const MIGRATION: &str = "
    CREATE TABLE bundles (
        id BLOB NOT NULL, direction TEXT NOT NULL, bundle BLOB NOT NULL, PRIMARY KEY (id, direction)
    ) STRICT;
";

/// Stores what the transfer is, if it is more than one file.
pub(super) fn put(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let Some(bundle) = &record.bundle else {
        return Ok(());
    };
    connection
        .execute(
            "INSERT INTO bundles VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET bundle = ?3",
            params![&record.id.0[..], record.direction.as_str(), bundle.encode()],
        )
        .map(drop)
}

/// Adds to transfers what they are, and forgets that of transfers that are forgotten.
pub(super) fn complete(connection: &Connection, records: &mut [Record]) -> rusqlite::Result<()> {
    connection.execute(
        "DELETE FROM bundles WHERE NOT EXISTS
         (SELECT 1 FROM transfers WHERE transfers.id = bundles.id AND transfers.direction = bundles.direction)",
        [],
    )?;
    let query = "SELECT bundle FROM bundles WHERE id = ?1 AND direction = ?2";
    let mut statement = connection.prepare(query)?;
    for record in records {
        let key = params![&record.id.0[..], record.direction.as_str()];
        let bytes: Option<Vec<u8>> = statement.query_row(key, |row| row.get(0)).optional()?;
        record.bundle = bytes.and_then(|bytes| Bundle::decode(&bytes));
    }
    Ok(())
}
