//! An authority whose folder is older than its ring: it was restored from a backup, or copied.
//!
//! Members bring the newest statement of the owner that they know, and their own certificates. What
//! this folder knows nothing of is kept. Until `ringway ring recover` has taken it in, nothing is
//! signed: a statement without what was forgotten would bring revoked members back.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::renew::renew;
use super::store::{Store, Tables, count_change, immediate, record};
use super::{Authority, AuthorityError, Standing};
use crate::certificate::{Certificate, RingId};
use crate::clock::{time_of, unix_seconds};
use crate::database::DatabaseError;
use crate::limits::{CERTIFICATE_LIFETIME, FOUND_CERTIFICATES, FOUND_STATEMENTS};
use crate::statement::{Statement, StatementError};

/// What `ringway ring recover` has taken in.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Recovered {
    /// Number of the ring's statement from now on.
    pub statement: u64,
    /// Names of members that this folder knew as active, and that are revoked or have another key.
    pub ended: Vec<String>,
    /// Names of members that this folder did not know.
    pub members: Vec<String>,
    /// Certificates that have ended, and whose members are not known here.
    pub unknown: usize,
}

/// What a member that has brought something is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// It is known here.
    Known,
    /// It is not: this folder is older than the ring.
    News,
    /// It is not, and another folder is the authority now.
    Superseded,
}

impl Authority {
    /// Takes in what a member has brought: a statement that this owner has signed, and the member's
    /// certificate.
    pub(crate) fn take_brought(
        &mut self,
        statement: &[u8],
        certificate: &[u8],
    ) -> Result<Brought, AuthorityError> {
        let ring = self.ring_id();
        let foreign = |_: StatementError| {
            AuthorityError::EnrolmentRefused("what was brought is no statement of this ring")
        };
        let statement = Statement::decode(statement, &ring).map_err(foreign)?;
        let news = self.store.news().keep(&statement)?;
        // Each member knows its own certificate, and may come later than all others.
        if let Ok(certificate) = Certificate::decode(certificate, &ring)
            && !self.store.news().knows_certificate(&certificate)?
        {
            self.store.news().keep_certificate(&certificate)?;
            if self.check_current().is_ok() {
                let names = self.store.admit_brought(&ring, unix_seconds())?;
                tracing::warn!(
                    ?names,
                    "members are known again that this folder had forgotten"
                );
            }
        }
        Ok(match (news, self.standing()?) {
            (false, _) => Brought::Known,
            (true, Standing::Fenced { .. }) => Brought::Superseded,
            (true, _) => Brought::News,
        })
    }

    /// Whether this folder may be signed from.
    ///
    /// # Errors
    /// When it is older than what members know, a standby's, or another one was promoted.
    pub fn check_current(&self) -> Result<(), AuthorityError> {
        match self.standing()? {
            Standing::Authority => Ok(()),
            Standing::Standby { backup } => Err(AuthorityError::Standby { backup }),
            Standing::Fenced { term, now } => Err(AuthorityError::Fenced { term, now }),
            Standing::Old => {
                let known = self.store.generation()?;
                let found = self.store.news().found(&self.ring_id())?;
                let found = found.iter().map(Statement::number).max().unwrap_or(known);
                Err(AuthorityError::Restored { known, found })
            }
        }
    }

    /// Takes over all that members have brought: from then on the ring's statement says again who
    /// is revoked and whose key is another, and goes on from a number above all others.
    ///
    /// # Errors
    /// When members have brought nothing that is not known, this is a standby, another folder was
    /// promoted, or the database fails.
    pub fn recover(&mut self) -> Result<Recovered, AuthorityError> {
        match self.check_current() {
            Ok(()) => return Err(AuthorityError::NothingFound),
            Err(AuthorityError::Restored { .. }) => {}
            // What a promoted authority has stated is not to be taken over in passing.
            Err(error) => return Err(error),
        }
        let ring = self.ring_id();
        Ok(self.store.recover(&ring, unix_seconds())?)
    }
}

/// What was brought that this folder knows nothing of.
#[derive(Clone, Copy, Debug)]
pub(super) struct News<'a>(Tables<'a>);

impl<'a> News<'a> {
    pub(super) fn of(tables: Tables<'a>) -> News<'a> {
        News(tables)
    }

    /// Serials of all certificates that are known to have ended, also those that have expired
    /// since.
    pub(super) fn ended_serials(&self) -> Result<BTreeSet<u64>, DatabaseError> {
        ended_serials(self.0.connection).map_err(self.0.fail())
    }

    /// True if the member has this certificate here, or a newer one.
    fn knows_certificate(&self, certificate: &Certificate) -> Result<bool, DatabaseError> {
        let query = "SELECT EXISTS (SELECT 1 FROM members WHERE member = ?1 AND serial >= ?2)";
        let member = certificate.member();
        let arguments = params![&member.as_bytes()[..], certificate.serial()];
        let known = self
            .0
            .connection
            .query_row(query, arguments, |row| row.get(0));
        known.map_err(self.0.fail())
    }

    /// Keeps a statement, if it says what is not known here; answers whether it does.
    pub(super) fn keep(&self, statement: &Statement) -> Result<bool, DatabaseError> {
        let fail = self.0.fail();
        // Another process may recover the folder meanwhile: what was news before would stay, and
        // the folder would count as an old copy again.
        let transaction =
            Transaction::new_unchecked(self.0.connection, TransactionBehavior::Immediate)
                .map_err(&fail)?;
        let known = ended_serials(&transaction).map_err(&fail)?;
        let generation = "SELECT generation FROM ring";
        let generation = transaction.query_row(generation, [], |row| row.get(0));
        let news = !statement.is_known_at(generation.map_err(&fail)?, &known);
        if news {
            keep_found(&transaction, statement).map_err(&fail)?;
        }
        transaction.commit().map_err(&fail)?;
        Ok(news)
    }

    pub(super) fn found(&self, ring: &RingId) -> Result<Vec<Statement>, DatabaseError> {
        found(self.0.connection, ring).map_err(self.0.fail())
    }

    /// One for each member; past the bound no more are taken.
    fn keep_certificate(&self, certificate: &Certificate) -> Result<(), DatabaseError> {
        let keep = "INSERT OR IGNORE INTO found_certificates SELECT ?1, ?2
            WHERE (SELECT count(*) FROM found_certificates) < ?3";
        let (serial, bytes) = (certificate.serial(), certificate.as_bytes());
        let kept = self
            .0
            .connection
            .execute(keep, params![serial, bytes, FOUND_CERTIFICATES]);
        kept.map(|_| ()).map_err(self.0.fail())
    }
}

impl Store {
    /// Takes the certificates in that have been brought, where nothing else has to be.
    fn admit_brought(&mut self, ring: &RingId, now: u64) -> Result<Vec<String>, DatabaseError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let names = admit_found(&transaction, ring, now).map_err(&fail)?;
        let clear = "DELETE FROM found_certificates";
        transaction.execute(clear, []).map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        Ok(names)
    }

    /// All or nothing.
    fn recover(&mut self, ring: &RingId, now: u64) -> Result<Recovered, DatabaseError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let mut recovered = take_found(&transaction, ring, now).map_err(&fail)?;
        // The next statement has to be newer than all that members know.
        let above = "UPDATE ring SET generation = ?1";
        transaction
            .execute(above, params![recovered.statement])
            .map_err(&fail)?;
        count_change(&transaction).map_err(&fail)?;
        let query = "SELECT generation FROM ring";
        let statement = transaction.query_row(query, [], |row| row.get(0));
        recovered.statement = statement.map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        Ok(recovered)
    }
}

/// Takes in what has been brought. The statement that it gives back is the newest one that is known
/// anywhere.
pub(super) fn take_found(
    transaction: &Transaction<'_>,
    ring: &RingId,
    now: u64,
) -> rusqlite::Result<Recovered> {
    // What is deleted below has been read here: members may bring more until it begins.
    let statements = found(transaction, ring)?;
    let newest = "SELECT generation FROM ring";
    let newest = transaction.query_row(newest, [], |row| row.get(0))?;
    let mut recovered = Recovered {
        statement: newest,
        ..Recovered::default()
    };
    for statement in &statements {
        recovered.statement = recovered.statement.max(statement.number());
        for (serial, replaced_by) in statement.ended() {
            let ended = end(transaction, serial, replaced_by, now)?;
            recovered.ended.extend(ended);
        }
    }
    recovered.members = admit_found(transaction, ring, now)?;
    let query = "SELECT count(*) FROM ended WHERE expires > ?1";
    recovered.unknown = transaction.query_row(query, params![now], |row| row.get(0))?;
    for table in ["found", "found_certificates"] {
        let clear = format!("DELETE FROM {table}");
        transaction.execute(&clear, [])?;
    }
    Ok(recovered)
}

/// Serials of all certificates that are known to have ended.
fn ended_serials(connection: &Connection) -> rusqlite::Result<BTreeSet<u64>> {
    let query = "SELECT serial FROM members WHERE revoked IS NOT NULL
        UNION SELECT renewed.serial FROM renewed JOIN members ON members.serial = newest
        WHERE revoked IS NOT NULL
        UNION SELECT serial FROM ended";
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

/// Keeps a statement that was brought; the newest ones stay.
fn keep_found(connection: &Connection, statement: &Statement) -> rusqlite::Result<()> {
    let keep = "INSERT OR IGNORE INTO found VALUES (?1, ?2)";
    connection.execute(keep, params![statement.number(), statement.as_bytes()])?;
    let bound = "DELETE FROM found WHERE number NOT IN
        (SELECT number FROM found ORDER BY number DESC LIMIT ?1)";
    connection.execute(bound, params![FOUND_STATEMENTS])?;
    Ok(())
}

/// Statements that were brought, the oldest first.
fn found(connection: &Connection, ring: &RingId) -> rusqlite::Result<Vec<Statement>> {
    let mut query = connection.prepare("SELECT statement FROM found ORDER BY number")?;
    let rows = query.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
    let mut found = Vec::new();
    for bytes in rows {
        found.extend(Statement::decode(&bytes?, ring).ok());
    }
    Ok(found)
}

/// Ends a certificate as a statement does that this folder has forgotten. Gives the member's name
/// if it was in good standing here.
fn end(
    connection: &Connection,
    serial: u64,
    replaced_by: Option<u64>,
    now: u64,
) -> rusqlite::Result<Option<String>> {
    let ended = "UPDATE members SET revoked = ?2, replaced_by = ?3, asked = NULL
        WHERE serial = ?1 AND revoked IS NULL RETURNING name";
    let name: Option<String> = connection
        .query_row(ended, params![serial, now, replaced_by], |row| row.get(0))
        .optional()?;
    let query = "SELECT EXISTS (SELECT 1 FROM members WHERE serial = ?1)";
    let known: bool = connection.query_row(query, params![serial], |row| row.get(0))?;
    if !known {
        let expires = time_of(serial).unwrap_or(now) + CERTIFICATE_LIFETIME.as_secs();
        let note = "INSERT OR REPLACE INTO ended VALUES (?1, ?2, ?3)";
        connection.execute(note, params![serial, replaced_by, expires])?;
    }
    // No serial that the owner has given out comes again, whatever the clock says.
    let highest = serial.max(replaced_by.unwrap_or(0));
    let above = "UPDATE ring SET serial = max(serial, ?1)";
    connection.execute(above, params![highest])?;
    Ok(name)
}

/// Records the members whose certificates have been brought and have not ended, oldest first, as
/// they joined.
fn admit_found(connection: &Connection, ring: &RingId, now: u64) -> rusqlite::Result<Vec<String>> {
    let mut query =
        connection.prepare("SELECT certificate FROM found_certificates ORDER BY serial")?;
    let found: Vec<Vec<u8>> = query
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut names = Vec::new();
    for certificate in found {
        let Ok(certificate) = Certificate::decode(&certificate, ring) else {
            continue;
        };
        let serial = certificate.serial();
        let query = "SELECT EXISTS (SELECT 1 FROM ended WHERE serial = ?1)";
        let ended: bool = connection.query_row(query, params![serial], |row| row.get(0))?;
        if ended || certificate.not_after() <= now {
            continue;
        }
        if renewed_since(connection, &certificate, now)? {
            names.push(certificate.name().to_string());
            continue;
        }
        if knows(connection, &certificate)? {
            continue;
        }
        if is_in_use(connection, &certificate, now)? {
            tracing::warn!(name = %certificate.name(), serial, "another member has its name or its address: it stays unknown here");
            continue;
        }
        record(connection, &certificate, now)?;
        // The invite that it has used here was open again.
        super::store::withdraw(connection, certificate.name().as_str())?;
        let above = "UPDATE ring SET serial = max(serial, ?1)";
        connection.execute(above, params![serial])?;
        names.push(certificate.name().to_string());
    }
    Ok(names)
}

/// Takes the certificate in if it is a newer one of a member that is in good standing here.
fn renewed_since(
    connection: &Connection,
    certificate: &Certificate,
    now: u64,
) -> rusqlite::Result<bool> {
    let query = "SELECT serial FROM members WHERE member = ?1 AND serial < ?2 AND revoked IS NULL";
    let member = certificate.member();
    let arguments = params![&member.as_bytes()[..], certificate.serial()];
    let older: Option<u64> = connection
        .query_row(query, arguments, |row| row.get(0))
        .optional()?;
    match older {
        Some(older) => renew(connection, older, certificate, now),
        None => Ok(false),
    }
}

fn is_in_use(
    connection: &Connection,
    certificate: &Certificate,
    now: u64,
) -> rusqlite::Result<bool> {
    let address = certificate.address().map(|address| address.to_string());
    let query = "SELECT EXISTS (SELECT 1 FROM members
        WHERE (name = ?1 OR address = ?2) AND revoked IS NULL AND expires > ?3)";
    let name = certificate.name().as_str();
    connection.query_row(query, params![name, address, now], |row| row.get(0))
}

fn knows(connection: &Connection, certificate: &Certificate) -> rusqlite::Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM members WHERE member = ?1 OR serial = ?2)";
    let member = certificate.member();
    let arguments = params![&member.as_bytes()[..], certificate.serial()];
    connection.query_row(query, arguments, |row| row.get(0))
}

#[cfg(test)]
mod tests;
