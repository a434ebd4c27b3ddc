//! A folder that was restored from a backup: it serves what it knows and signs nothing, until its
//! owner promotes it to be the ring's authority.
//!
//! A promotion begins a term (`term`). From then on every statement of the authority before is an
//! older one to all members, even one that it writes later. When it comes back it is told by
//! members, by a DNS server of the owner's, or by the promoted one itself, and is fenced: it signs
//! nothing either.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::restore::Own;
use super::site::Site;
use super::store::{Store, Tables, count_change, immediate};
use super::term::{next_term, term_of};
use super::{Authority, AuthorityError, Recovered};
use crate::clock::{unix_micros, unix_seconds};
use crate::database::DatabaseError;
use crate::endpoint::Endpoint;
use crate::statement::Statement;

/// What a folder may do for its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase", tag = "standing")]
pub enum Standing {
    /// It signs.
    Authority,
    /// It was restored, and waits to be promoted.
    Standby {
        /// When the backup was made, Unix seconds.
        backup: u64,
    },
    /// Another folder was promoted.
    Fenced {
        /// In which term this one was the authority.
        term: u64,
        /// Which term it is now.
        now: u64,
    },
    /// Its ring knows more than it.
    Old,
}

/// What `ringway ring promote` has done.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Promoted {
    /// Which term of the ring's authority this is; the first was 0.
    pub term: u64,
    /// When the backup was made that this goes on from, Unix seconds; none for a fenced folder.
    pub backup: Option<u64>,
    /// What members had brought.
    #[serde(flatten)]
    pub recovered: Recovered,
}

impl Authority {
    /// What this folder may do.
    ///
    /// # Errors
    /// When the database fails.
    pub fn standing(&self) -> Result<Standing, AuthorityError> {
        if let Some(backup) = self.store.standby().backup()? {
            return Ok(Standing::Standby { backup });
        }
        let known = self.store.generation()?;
        let found = self.store.news().found(&self.ring_id())?;
        let Some(newest) = found.iter().map(Statement::number).max() else {
            return Ok(Standing::Authority);
        };
        let (term, now) = (term_of(known), term_of(newest));
        Ok(if now > term {
            Standing::Fenced { term, now }
        } else {
            Standing::Old
        })
    }

    /// Makes this folder, a standby's or a fenced one, the ring's authority from now on.
    ///
    /// # Errors
    /// When it is the authority already, is an old copy, the clock is behind the backup, or there
    /// are no more terms.
    pub fn promote(&mut self) -> Result<Promoted, AuthorityError> {
        let (backup, now) = match self.standing()? {
            Standing::Authority => return Err(AuthorityError::NothingToPromote),
            Standing::Standby { backup } => (Some(backup), unix_seconds()),
            Standing::Fenced { .. } => (None, unix_seconds()),
            // Members can bring what was stated in this very term: that is what `recover` is for.
            Standing::Old => {
                return self
                    .check_current()
                    .and(Err(AuthorityError::NothingToPromote));
            }
        };
        if let Some(ahead) = backup
            .and_then(|made| made.checked_sub(now))
            .filter(|s| *s > 0)
        {
            return Err(AuthorityError::ClockBehind(ahead));
        }
        let ring = self.ring_id();
        let own = self.store.standby().own_place()?.unwrap_or_default();
        let (mut recovered, number) = self.store.promote(&ring, now)?;
        if own.dns.is_some() || own.enrol.is_some() {
            let options = self.store.options();
            let dns = here(own.dns.as_ref(), &options.dns);
            let enrol = here(own.enrol.as_ref(), &options.enrol);
            self.store.set_sites(&dns, &enrol)?;
            recovered.statement = self.store.generation()?;
        }
        Ok(Promoted {
            term: term_of(number),
            backup,
            recovered,
        })
    }
}

/// What a standby's folder is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standby<'a>(Tables<'a>);

impl<'a> Standby<'a> {
    pub(super) fn of(tables: Tables<'a>) -> Standby<'a> {
        Standby(tables)
    }

    /// When the backup was made that this standby's folder has; none if it is no standby's.
    pub(super) fn backup(&self) -> Result<Option<u64>, DatabaseError> {
        let query = "SELECT backup FROM standby";
        let found = self.0.connection.query_row(query, [], |row| row.get(0));
        found.optional().map_err(self.0.fail())
    }

    /// Where a standby is to be reached once it is promoted; none if this is no standby's folder.
    pub(super) fn own_place(&self) -> Result<Option<Own>, DatabaseError> {
        let query = "SELECT dns, enrol FROM standby";
        let found = self.0.connection.query_row(query, [], |row| {
            let place = |text: Option<String>| text.and_then(|text| text.parse().ok());
            Ok(Own {
                dns: place(row.get(0)?),
                enrol: place(row.get(1)?),
            })
        });
        found.optional().map_err(self.0.fail())
    }

    /// # Errors
    /// When this is a standby's folder.
    pub(super) fn check_none(&self) -> Result<(), AuthorityError> {
        match self.backup()? {
            Some(backup) => Err(AuthorityError::Standby { backup }),
            None => Ok(()),
        }
    }
}

impl Store {
    /// From now on this is a standby's folder.
    pub(super) fn stand_by(&mut self, backup: u64, own: &Own) -> Result<(), DatabaseError> {
        let fail = self.fail();
        let options = self.options().clone();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let text = |place: &Option<Endpoint>| place.as_ref().map(Endpoint::to_string);
        let stand = "INSERT OR REPLACE INTO standby VALUES (1, ?1, ?2, ?3)";
        transaction
            .execute(stand, params![backup, text(&own.dns), text(&own.enrol)])
            .map_err(&fail)?;
        // It listens on this machine at once. What the owner has stated stays as it is: a statement
        // with that number is in the ring already.
        for (column, place, site) in [
            ("dns_listen", &own.dns, &options.dns),
            ("enrol_listen", &own.enrol, &options.enrol),
        ] {
            let listen = here(place.as_ref(), site).binds_at().to_string();
            let set = format!("UPDATE ring SET {column} = ?1");
            transaction.execute(&set, params![listen]).map_err(&fail)?;
        }
        transaction.commit().map_err(fail)?;
        self.read_options()
    }

    /// All or nothing; gives the number of the new statement, too.
    fn promote(
        &mut self,
        ring: &crate::certificate::RingId,
        now: u64,
    ) -> Result<(Recovered, u64), AuthorityError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let mut recovered = super::recover::take_found(&transaction, ring, now).map_err(&fail)?;
        let Some(number) = begin_term(&transaction, recovered.statement).map_err(&fail)? else {
            return Err(AuthorityError::NoMoreTerms);
        };
        recovered.statement = number;
        transaction.commit().map_err(&fail)?;
        Ok((recovered, number))
    }
}

/// Where this machine is reached by `place`, or where the authority was, and where it listens:
/// there if it can.
fn here(place: Option<&Endpoint>, site: &Site) -> Site {
    let mut here = Site {
        advertised: place.unwrap_or(&site.advertised).clone(),
        listen: None,
    };
    here.settle();
    here
}

/// Begins the term after that of the statement `newest`; none if there is none.
fn begin_term(transaction: &Transaction<'_>, newest: u64) -> rusqlite::Result<Option<u64>> {
    let Some(number) = next_term(newest, unix_micros()) else {
        return Ok(None);
    };
    set_term(transaction, number)?;
    Ok(Some(number))
}

fn set_term(connection: &Connection, number: u64) -> rusqlite::Result<()> {
    // The zone counts on, and so do serials: both are above the clock.
    count_change(connection)?;
    connection.execute("UPDATE ring SET generation = ?1", params![number])?;
    let tell = "INSERT OR IGNORE INTO former SELECT ring.enrol FROM standby, ring
        WHERE standby.enrol <> ring.enrol";
    connection.execute(tell, [])?;
    connection.execute("DELETE FROM standby", [])?;
    Ok(())
}

#[cfg(test)]
mod tests;
