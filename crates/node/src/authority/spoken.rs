//! Spoken invites at the authority: which one is meant, and how many wrong tries it has left.

use rusqlite::{OptionalExtension, params};
use zeroize::Zeroizing;

use super::store::Store;
use super::{Authority, AuthorityError};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::enrol::Refusal;
use crate::invite::WORDS;
use crate::limits::SPOKEN_TRIES;

/// A spoken invite that may be tried.
#[derive(Debug)]
pub(crate) struct OpenSpoken {
    /// The invite in its long form.
    pub(crate) id: [u8; 8],
    /// What the words stand for.
    pub(crate) secret: Zeroizing<[u8; WORDS]>,
}

impl Authority {
    /// The invite with this number, if it may be tried.
    pub(crate) fn spoken_invite(
        &self,
        number: u32,
    ) -> Result<Result<OpenSpoken, Refusal>, AuthorityError> {
        let Some(entry) = self.store.spoken_invite(number)? else {
            return Ok(Err(Refusal::Unknown));
        };
        let burnt = entry.wrong >= SPOKEN_TRIES;
        Ok(match entry.used {
            true if burnt => Err(Refusal::Used),
            false if burnt => Err(Refusal::Burnt),
            false if entry.expires <= unix_seconds() => Err(Refusal::Expired),
            // A used one too: its user may repeat a join that was cut off, and nobody else is let in.
            _ => Ok(entry.open),
        })
    }

    /// Counts a try, before anybody looks whether it is right: how many are left then, or none if there was none.
    pub(crate) fn charge_try(&mut self, number: u32) -> Result<Option<u8>, AuthorityError> {
        let wrong = self.store.charge_try(number)?;
        Ok(wrong.map(|wrong| SPOKEN_TRIES.saturating_sub(wrong)))
    }

    /// The try that was counted last was right.
    pub(crate) fn refund_try(&mut self, number: u32) -> Result<(), AuthorityError> {
        Ok(self.store.refund_try(number)?)
    }
}

struct Entry {
    open: OpenSpoken,
    expires: u64,
    used: bool,
    wrong: u8,
}

impl Store {
    fn spoken_invite(&self, number: u32) -> Result<Option<Entry>, DatabaseError> {
        let query =
            "SELECT id, words, expires, used_by IS NOT NULL, wrong FROM invites WHERE number = ?1";
        self.connection
            .query_row(query, params![number], |row| {
                Ok(Entry {
                    open: OpenSpoken {
                        id: row.get(0)?,
                        secret: Zeroizing::new(row.get(1)?),
                    },
                    expires: row.get(2)?,
                    used: row.get(3)?,
                    wrong: row.get(4)?,
                })
            })
            .optional()
            .map_err(self.fail())
    }

    /// One statement, so that tries at the same moment are counted one by one.
    fn charge_try(&self, number: u32) -> Result<Option<u8>, DatabaseError> {
        let query =
            "UPDATE invites SET wrong = wrong + 1 WHERE number = ?1 AND wrong < ?2 RETURNING wrong";
        self.connection
            .query_row(query, params![number, SPOKEN_TRIES], |row| row.get(0))
            .optional()
            .map_err(self.fail())
    }

    fn refund_try(&self, number: u32) -> Result<(), DatabaseError> {
        let query = "UPDATE invites SET wrong = wrong - 1 WHERE number = ?1 AND wrong > 0";
        let done = self.connection.execute(query, params![number]);
        done.map(|_| ()).map_err(self.fail())
    }
}
