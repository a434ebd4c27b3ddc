//! Another certificate for a member that stays what it is, with the same key: before its old one
//! ends.
//!
//! The older certificate is not replaced: it is good until its own end, and so are those who know
//! only that. It stands in the table `renewed`, because a revocation has to end both.

use rusqlite::{OptionalExtension as _, params};

use super::rotate::{Holder, REVOKED, UNKNOWN};
use super::store::{Store, count_change, immediate};
use super::{Authority, AuthorityError};
use crate::certificate::{Certificate, CertificateFields, RingId};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::limits::{CLOCK_SKEW, REPLACED_KEPT};
use crate::renewal::{self, by_dns};

/// A member that has a newer certificate.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// The newer one.
    pub certificate: Certificate,
    /// True if it was issued before, and this is only another copy.
    pub again: bool,
}

impl Authority {
    /// Gives a member that has proven to hold the key of the certificate `shown` another one, if
    /// it is time. Asked again, it gives the same one again.
    pub(crate) fn renew_asked(&mut self, shown: &[u8]) -> Result<Renewed, AuthorityError> {
        self.renew_at(shown, unix_seconds())
    }

    /// As [`Authority::renew_asked`], for a request that has come by DNS; none if it is no
    /// member's.
    pub(crate) fn renew_by_dns(
        &mut self,
        request: &by_dns::Request,
    ) -> Result<Option<Renewed>, AuthorityError> {
        self.renew_by_dns_at(request, unix_seconds())
    }

    fn renew_by_dns_at(
        &mut self,
        request: &by_dns::Request,
        now: u64,
    ) -> Result<Option<Renewed>, AuthorityError> {
        let ring = self.ring_id();
        let Some(own) = self.store.certificate_with(request.serial, &ring)? else {
            return Ok(None);
        };
        if request.is_by(&own.member(), &ring) {
            self.hearing().note(&own.member(), None);
            self.renew_at(own.as_bytes(), now).map(Some)
        } else {
            Ok(None)
        }
    }

    fn renew_at(&mut self, shown: &[u8], now: u64) -> Result<Renewed, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        let ring = self.ring_id();
        let shown = Certificate::decode(shown, &ring)
            .map_err(|_| refuse("what was shown is no certificate of this ring"))?;
        let holder = self.store.holder(&shown.member(), &ring)?;
        let holder = holder.ok_or(refuse(UNKNOWN))?;
        let known = good(&holder)?;
        if known.serial() > shown.serial() {
            // The answer was lost on its way.
            let certificate = known.clone();
            return Ok(Renewed {
                certificate,
                again: true,
            });
        }
        // A folder that was restored from a backup may know an older one; this owner has signed
        // the one that is shown as well.
        let newest = if known.serial() >= shown.serial() {
            known.clone()
        } else if self.store.take_renewal(known.serial(), &shown, now)? {
            shown
        } else {
            return Err(refuse(REVOKED));
        };
        if newest.check_time(now).is_err() {
            return Err(refuse(
                "the member's certificate has run out: it can only join again, by another invite",
            ));
        }
        if now < renewal::renewable_from(&newest) {
            return Err(refuse(
                "two thirds of the certificate's time are not over yet: it is not renewed before",
            ));
        }
        let lasting = self.store.options().ends(now);
        let (member, has) = (newest.member(), newest.not_after());
        let persons = self.store.persons();
        let ends = persons.renewed_until(&member, has, now, lasting)?;
        self.check_current()?;
        let certificate = self.next_of(&newest, now, ends)?;
        if self
            .store
            .take_renewal(newest.serial(), &certificate, now)?
        {
            Ok(Renewed {
                certificate,
                again: false,
            })
        } else {
            // A revocation, or another key, has been faster.
            Err(refuse(REVOKED))
        }
    }

    /// The next certificate of the same member, good until `ends`: all but the time and the serial
    /// is as before.
    pub(super) fn next_of(
        &mut self,
        old: &Certificate,
        now: u64,
        ends: u64,
    ) -> Result<Certificate, AuthorityError> {
        let fields = CertificateFields {
            member: old.member(),
            name: old.name().clone(),
            address: old.address(),
            nonce: old.nonce(),
            not_before: now.saturating_sub(CLOCK_SKEW.as_secs()),
            not_after: ends,
            serial: self.store.next_serial()?,
        };
        Ok(Certificate::issue(&self.root, &fields))
    }
}

/// Its certificate, unless it has ended.
fn good(holder: &Holder) -> Result<&Certificate, AuthorityError> {
    let refuse = AuthorityError::EnrolmentRefused;
    match (holder.replaced_by, holder.revoked) {
        (Some(_), _) => Err(refuse(
            "the member has another key: the certificate for its old one is not renewed",
        )),
        (None, Some(_)) => Err(refuse(REVOKED)),
        (None, None) => Ok(&holder.certificate),
    }
}

impl Store {
    /// Puts `new` in the place of the certificate with the serial `old`, which stays good. False if
    /// that has ended.
    pub(super) fn take_renewal(
        &mut self,
        old: u64,
        new: &Certificate,
        now: u64,
    ) -> Result<bool, DatabaseError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let taken = renew(&transaction, old, new, now).map_err(&fail)?;
        if taken {
            count_change(&transaction).map_err(&fail)?;
            transaction.commit().map_err(fail)?;
        }
        Ok(taken)
    }

    /// How many certificates of this member are good, or say whose its key is: as many serials does
    /// a statement need that ends them.
    pub(super) fn certificates_held(&self, serial: u64, now: u64) -> Result<usize, DatabaseError> {
        let query = "SELECT 1 + count(*) FROM renewed WHERE newest = ?1 AND expires + ?3 > ?2";
        let kept = REPLACED_KEPT.as_secs();
        self.connection
            .query_row(query, params![serial, now, kept], |row| row.get(0))
            .map_err(self.fail())
    }
}

impl Store {
    /// The newest certificate of a member in good standing, if that has this serial.
    fn certificate_with(
        &self,
        serial: u64,
        ring: &RingId,
    ) -> Result<Option<Certificate>, DatabaseError> {
        // Serials are times, and fit; numbers of strangers need not.
        let Ok(serial) = i64::try_from(serial) else {
            return Ok(None);
        };
        let query = "SELECT certificate FROM members WHERE serial = ?1 AND revoked IS NULL";
        let found: Option<Vec<u8>> = self
            .connection
            .query_row(query, params![serial], |row| row.get(0))
            .optional()
            .map_err(self.fail())?;
        Ok(found.and_then(|bytes| Certificate::decode(&bytes, ring).ok()))
    }

    /// True if the certificate with the serial `old` is an older one of the member whose newest is
    /// `newest`.
    pub(super) fn was_renewed(&self, old: u64, newest: u64) -> Result<bool, DatabaseError> {
        let query = "SELECT EXISTS (SELECT 1 FROM renewed WHERE serial = ?1 AND newest = ?2)";
        self.connection
            .query_row(query, params![old, newest], |row| row.get(0))
            .map_err(self.fail())
    }
}

/// As [`Store::take_renewal`], as part of another change.
pub(super) fn renew(
    connection: &rusqlite::Connection,
    old: u64,
    new: &Certificate,
    now: u64,
) -> rusqlite::Result<bool> {
    let serial = new.serial();
    let query = "SELECT EXISTS (SELECT 1 FROM ended WHERE serial = ?1)";
    let ended: bool = connection.query_row(query, params![serial], |row| row.get(0))?;
    if ended {
        return Ok(false);
    }
    let keep = "INSERT INTO renewed SELECT serial, ?2, expires FROM members
        WHERE serial = ?1 AND revoked IS NULL";
    if connection.execute(keep, params![old, serial])? == 0 {
        return Ok(false);
    }
    let change = "UPDATE members SET serial = ?2, certificate = ?3, issued = ?4, expires = ?5
        WHERE serial = ?1";
    let (bytes, expires) = (new.as_bytes(), new.not_after());
    connection.execute(change, params![old, serial, bytes, now, expires])?;
    // What pointed to the old certificate points to the newest one.
    for follow in [
        "UPDATE renewed SET newest = ?2 WHERE newest = ?1",
        "UPDATE members SET replaced_by = ?2 WHERE replaced_by = ?1",
        "UPDATE ended SET replaced_by = ?2 WHERE replaced_by = ?1",
    ] {
        connection.execute(follow, params![old, serial])?;
    }
    let forget = "DELETE FROM renewed WHERE expires + ?2 <= ?1";
    connection.execute(forget, params![now, REPLACED_KEPT.as_secs()])?;
    let above = "UPDATE ring SET serial = max(serial, ?1)";
    connection.execute(above, params![serial])?;
    Ok(true)
}

#[cfg(test)]
mod tests;
