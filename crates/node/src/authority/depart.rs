//! A member leaves the ring for good, by its own wish: its certificate ends as a revoked one does.

use rusqlite::params;

use super::store::{Store, count_change, immediate};
use super::{Authority, AuthorityError};
use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::limits::REVOCATIONS;

impl Authority {
    /// Ends the membership of the one that has proven to hold the key of the certificate `shown`.
    /// One whose membership has ended already has what it wants.
    pub(crate) fn depart(&mut self, shown: &[u8]) -> Result<Certificate, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        let ring = self.ring_id();
        let shown = Certificate::decode(shown, &ring)
            .map_err(|_| refuse("what was shown is no certificate of this ring"))?;
        let holder = self.store.holder(&shown.member(), &ring)?;
        let holder = holder.ok_or(refuse(super::rotate::UNKNOWN))?;
        if holder.revoked.is_some() {
            return Ok(holder.certificate);
        }
        self.check_current()?;
        let (serial, now) = (holder.certificate.serial(), unix_seconds());
        let needed = self.store.certificates_held(serial, now)?;
        if self.store.serials(now)?.count() + needed > REVOCATIONS {
            return Err(AuthorityError::TooManyRevocations);
        }
        self.store.depart(serial, now)?;
        Ok(holder.certificate)
    }
}

impl Store {
    fn depart(&mut self, serial: u64, now: u64) -> Result<(), DatabaseError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let end = "UPDATE members SET revoked = ?2, departed = ?2, asked = NULL
            WHERE serial = ?1 AND revoked IS NULL";
        // A renewal or a revocation may have been faster; the member asks again then.
        if transaction
            .execute(end, params![serial, now])
            .map_err(&fail)?
            > 0
        {
            count_change(&transaction).map_err(&fail)?;
        }
        transaction.commit().map_err(fail)
    }
}
