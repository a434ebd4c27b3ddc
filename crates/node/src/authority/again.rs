//! Members that join again, by a new invite: with the key that they had where its certificate has
//! only run out, and with another one else.

use std::net::SocketAddr;

use ringway_transport::MemberId;

use super::renew::renew;
use super::sign_in::forget;
use super::store::{Store, count_change, immediate, spend, withdraw};
use super::{Authority, AuthorityError};
use crate::certificate::{Certificate, Name};

/// A member whose certificate has run out, and that has another for the same key.
pub(super) struct Back {
    /// The serial of the one that has run out.
    old: u64,
    pub(super) certificate: Certificate,
}

impl Authority {
    /// A certificate for a key that this ring knows, good until `ends`, Unix seconds; none if it
    /// does not know the key. It counts when it is stored.
    pub(super) fn recertify(
        &mut self,
        name: &Name,
        member: MemberId,
        address: Option<SocketAddr>,
        now: u64,
        ends: u64,
    ) -> Result<Option<Back>, AuthorityError> {
        let Some(holder) = self.store.holder(&member, &self.ring_id())? else {
            return Ok(None);
        };
        let known = &holder.certificate;
        // What was revoked or replaced may be in other hands.
        if holder.revoked.is_some() || holder.replaced_by.is_some() {
            return Err(AuthorityError::KeyIsOver(
                "this key was revoked or replaced: join with another key",
            ));
        }
        if known.not_after() > now {
            return Err(AuthorityError::EnrolmentRefused(
                "this key is a member already, and needs no invite: start `ringway node`",
            ));
        }
        if known.name() != name || known.address() != address {
            return Err(AuthorityError::KeyIsOver(
                "this key has another name or address in this ring: join with another key",
            ));
        }
        self.check_current()?;
        let certificate = self.next_of(known, now, ends)?;
        let old = known.serial();
        Ok(Some(Back { old, certificate }))
    }
}

impl Store {
    /// As [`Store::use_invite`].
    pub(super) fn use_invite_again(
        &mut self,
        id: &[u8; 8],
        back: &Back,
        now: u64,
    ) -> Result<(), AuthorityError> {
        self.take_back(back, now, |connection| {
            spend(connection, id, &back.certificate)
        })
    }

    /// As [`Store::admit`].
    pub(super) fn admit_again(&mut self, back: &Back, now: u64) -> Result<(), AuthorityError> {
        let name = back.certificate.name();
        self.take_back(back, now, |connection| {
            withdraw(connection, name.as_str()).map(|_| ())
        })
    }

    /// Also does what belongs to it, or nothing of both. Who signed in for the member before is
    /// forgotten first.
    pub(super) fn take_back(
        &mut self,
        back: &Back,
        now: u64,
        also: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<()>,
    ) -> Result<(), AuthorityError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        if !renew(&transaction, back.old, &back.certificate, now).map_err(&fail)? {
            // A revocation, or another that got its name, has been faster.
            return Err(AuthorityError::KeyIsOver(
                "this key was revoked or replaced: join with another key",
            ));
        }
        forget(&transaction, &back.certificate.member()).map_err(&fail)?;
        also(&transaction).map_err(&fail)?;
        count_change(&transaction).map_err(&fail)?;
        Ok(transaction.commit().map_err(&fail)?)
    }
}
