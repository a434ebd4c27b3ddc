//! The deadlines of transfers, as stored.

use rusqlite::params;

use super::{Result, State};
use crate::transfer::{KeptDeadline, TransferId};

impl State {
    /// Stores the deadline of a transfer, instead of one that it had.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn put_deadline(&self, id: &TransferId, kept: &KeptDeadline) -> Result<()> {
        self.connection()
            .execute(
                "INSERT OR REPLACE INTO deadlines VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    &id.0[..],
                    kept.by,
                    kept.since,
                    kept.most,
                    kept.steers,
                    kept.arrived
                ],
            )
            .map_err(self.fail())?;
        Ok(())
    }

    /// All deadlines of transfers that are known; others are forgotten.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) fn deadlines(&self) -> Result<Vec<(TransferId, KeptDeadline)>> {
        let connection = self.connection();
        let forget = "DELETE FROM deadlines WHERE id NOT IN
            (SELECT id FROM transfers WHERE direction = 'send')";
        connection.execute(forget, []).map_err(self.fail())?;
        let query = "SELECT id, by, since, most, steers, arrived FROM deadlines";
        let mut statement = connection.prepare(query).map_err(self.fail())?;
        let rows = statement.query_map([], |row| {
            let kept = KeptDeadline {
                by: row.get(1)?,
                since: row.get(2)?,
                most: row.get(3)?,
                steers: row.get(4)?,
                arrived: row.get(5)?,
            };
            Ok((TransferId(row.get(0)?), kept))
        });
        rows.map_err(self.fail())?
            .collect::<std::result::Result<_, _>>()
            .map_err(self.fail())
    }
}
