//! Another key for a member that stays what it is: its name, its role, its address.
//!
//! The owner asks for it (`Authority::ask_rotation`), or has the member's request in hand. No
//! other can begin it: a thief of a key cannot make it another's by itself.

use std::time::Duration;

use ringway_transport::MemberId;
use rusqlite::{OptionalExtension as _, params};

use super::sign_in::follow;
use super::store::{Store, count_change, immediate, record};
use super::{Authority, AuthorityError, MemberEntry, random};
use crate::certificate::{Certificate, CertificateFields, Name, RingId};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::limits::{ADMISSION_AGE, CLOCK_SKEW, REPLACED_KEPT, REVOCATIONS, ROTATION_ASKED};
use crate::rotation::{RotationReply, RotationRequest};
use crate::statement::Serials;

/// A member that has another key.
#[derive(Clone, Debug)]
pub struct Rotated {
    /// The certificate for the new key.
    pub certificate: Certificate,
    /// Serial of the one that it replaces.
    pub replaces: u64,
    /// What the member is to be given.
    pub reply: RotationReply,
    /// True if the key was changed before, and this is only another copy of the reply.
    pub again: bool,
}

/// What the authority knows of the member that asks for another key.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) certificate: Certificate,
    pub(super) revoked: Option<u64>,
    pub(super) replaced_by: Option<u64>,
    /// Until when it may change its key by itself, Unix seconds.
    pub(super) asked: Option<u64>,
}

pub(super) const UNKNOWN: &str = "the key in the request is no member's";
pub(super) const REVOKED: &str = "the member is revoked: it can only join again, by another invite";
const OTHER_KEY: &str = "the member has another new key already: if it was not you, somebody has stolen the old one, so have the member revoked";

impl Authority {
    /// Asks the member with this name to change its key, which it does by itself as soon as it
    /// learns it. Gives the member, and until when.
    ///
    /// # Errors
    /// When no member has the name, its certificate has ended, the time is out of range, or the
    /// statement is full.
    pub fn ask_rotation(
        &mut self,
        name: &str,
        within: Duration,
    ) -> Result<MemberEntry, AuthorityError> {
        let seconds = within.as_secs();
        if !ROTATION_ASKED.contains(&seconds) {
            return Err(AuthorityError::RotationTime);
        }
        self.check_current()?;
        let now = unix_seconds();
        let serial = self.active(name, now)?;
        self.room_to_rotate(serial, now)?;
        self.store.ask_rotation(serial, now + seconds)?;
        self.entry(serial, name)
    }

    /// Gives a member another certificate, by its request. The owner has said whose: a request of
    /// anybody else is refused.
    ///
    /// # Errors
    /// When the request is another member's, too old or for another ring, or the member's
    /// certificate has ended.
    pub fn rotate(
        &mut self,
        request: &RotationRequest,
        name: &str,
    ) -> Result<Rotated, AuthorityError> {
        let holder = self.holder(request)?;
        if holder.certificate.name().as_str() != name {
            return Err(AuthorityError::OtherMembersRequest {
                named: name.to_owned(),
                found: holder.certificate.name().to_string(),
            });
        }
        self.grant_rotation(request, holder)
    }

    /// As [`Authority::rotate`], for one that has come by itself: the owner must have asked for it.
    pub(crate) fn rotate_asked(
        &mut self,
        request: &RotationRequest,
    ) -> Result<Rotated, AuthorityError> {
        let holder = self.holder(request)?;
        let asked = holder.asked.is_some_and(|until| until > unix_seconds());
        if !asked && holder.replaced_by.is_none() {
            return Err(AuthorityError::EnrolmentRefused(
                "the ring's owner has not asked this member for another key, or the time for it is over: `ringway ring rotate` asks",
            ));
        }
        self.grant_rotation(request, holder)
    }

    fn holder(&self, request: &RotationRequest) -> Result<Holder, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        if request.ring() != self.ring_id() {
            return Err(refuse("the request is for another ring"));
        }
        let holder = self.store.holder(&request.member(), &self.ring_id())?;
        let holder = holder.ok_or(refuse(UNKNOWN))?;
        // It may have been renewed since.
        let (newest, named) = (holder.certificate.serial(), request.serial());
        if newest != named && !self.store.was_renewed(named, newest)? {
            return Err(refuse(UNKNOWN));
        }
        if holder.revoked.is_some() && holder.replaced_by.is_none() {
            Err(refuse(REVOKED))
        } else {
            Ok(holder)
        }
    }

    fn grant_rotation(
        &mut self,
        request: &RotationRequest,
        holder: Holder,
    ) -> Result<Rotated, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        let now = unix_seconds();
        let replaces = holder.certificate.serial();
        // The first reply may have been lost, so the same request gets the same certificate.
        let again = holder.replaced_by.is_some();
        let certificate = if again {
            let next = self.store.holder(&request.next(), &self.ring_id())?;
            let next = next.filter(|next| Some(next.certificate.serial()) == holder.replaced_by);
            match next.ok_or(refuse(OTHER_KEY))? {
                Holder {
                    revoked: Some(_), ..
                } => return Err(refuse(REVOKED)),
                next => next.certificate,
            }
        } else {
            self.replace(request, &holder.certificate, now)?
        };
        let statement = self.statement()?;
        let reply = RotationReply {
            certificate: certificate.clone(),
            statement,
        };
        Ok(Rotated {
            certificate,
            replaces,
            reply,
            again,
        })
    }

    fn replace(
        &mut self,
        request: &RotationRequest,
        old: &Certificate,
        now: u64,
    ) -> Result<Certificate, AuthorityError> {
        let refuse = AuthorityError::EnrolmentRefused;
        self.check_current()?;
        if now.abs_diff(request.created()) > ADMISSION_AGE.as_secs() {
            return Err(refuse(
                "the request is older than 30 days, or the member's clock is wrong: let it make another with `ringway rotate --offline`",
            ));
        }
        if old.check_time(now).is_err() {
            return Err(refuse(
                "the member's certificate has run out: it can only join again, by another invite",
            ));
        }
        if self.store.knows_member(&request.next())? {
            return Err(refuse(
                "the new key is a member's already or was revoked: remove `identity.next` in the member's home, and let it make another request",
            ));
        }
        self.room_to_rotate(old.serial(), now)?;
        let moves_to = self.store.moves_to(old.serial(), now)?;
        if let Some(to) = moves_to
            && self.store.address_taken(to)?
        {
            return Err(refuse(
                "another router has the address that this one is to move to: `ringway ring move` names another",
            ));
        }
        let lasting = self.store.options().ends(now);
        let counts = self.store.persons().ends(&old.member())?;
        let fields = CertificateFields {
            member: request.next(),
            name: old.name().clone(),
            // A router that moves is elsewhere from now on.
            address: moves_to.or(old.address()),
            // A router's new position is drawn again, as for one that has joined: it is then not
            // taken for the one that is gone.
            nonce: random()?,
            not_before: now.saturating_sub(CLOCK_SKEW.as_secs()),
            not_after: counts.map_or(lasting, |until| until.min(lasting)),
            serial: self.store.next_serial()?,
        };
        let certificate = Certificate::issue(&self.root, &fields);
        if self.store.replace(old.serial(), &certificate, now)? {
            Ok(certificate)
        } else {
            // A revocation, or another request, has been faster.
            Err(refuse(REVOKED))
        }
    }

    /// Whether the statement has room for what a rotation needs, given that this certificate is
    /// asked for already or not.
    pub(super) fn room_to_rotate(&self, serial: u64, now: u64) -> Result<(), AuthorityError> {
        let mut serials = self.store.serials(now)?;
        serials.asked.remove(&serial);
        let needed = 2 * self.store.certificates_held(serial, now)?;
        if serials.count() + needed <= REVOCATIONS {
            Ok(())
        } else {
            Err(AuthorityError::TooManyRevocations)
        }
    }

    /// Serial of the certificate of the member with this name, if that is good.
    pub(super) fn active(&self, name: &str, now: u64) -> Result<u64, AuthorityError> {
        let unknown = || AuthorityError::UnknownMember(name.to_owned());
        let label: Name = name.parse().map_err(|_| unknown())?;
        let members = self.members()?;
        let mut named = members
            .iter()
            .filter(|entry| entry.name == label.as_str())
            .peekable();
        if named.peek().is_none() {
            return Err(unknown());
        }
        let standing = named.find(|entry| entry.revoked.is_none());
        let standing = standing.ok_or_else(|| AuthorityError::AlreadyRevoked(name.to_owned()))?;
        if standing.expires > now {
            Ok(standing.serial)
        } else {
            Err(AuthorityError::RunOut(name.to_owned()))
        }
    }
}

impl Store {
    /// The member that has, or had, this key.
    pub(super) fn holder(
        &self,
        member: &MemberId,
        ring: &RingId,
    ) -> Result<Option<Holder>, DatabaseError> {
        let query =
            "SELECT certificate, revoked, replaced_by, asked FROM members WHERE member = ?1";
        type Stored = (Vec<u8>, Option<u64>, Option<u64>, Option<u64>);
        let found: Option<Stored> = self
            .connection
            .query_row(query, params![&member.as_bytes()[..]], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()
            .map_err(self.fail())?;
        Ok(found.and_then(|(bytes, revoked, replaced_by, asked)| {
            let certificate = Certificate::decode(&bytes, ring).ok()?;
            Some(Holder {
                certificate,
                revoked,
                replaced_by,
                asked,
            })
        }))
    }

    fn ask_rotation(&mut self, serial: u64, until: u64) -> Result<(), DatabaseError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        // A move that was not made in its time is not made now.
        let asked =
            "UPDATE members SET moves_to = CASE WHEN asked > ?3 THEN moves_to END, asked = ?2
            WHERE serial = ?1";
        transaction
            .execute(asked, params![serial, until, unix_seconds()])
            .map_err(&fail)?;
        count_change(&transaction).map_err(&fail)?;
        transaction.commit().map_err(fail)
    }

    /// Ends the certificate with the serial `old`, and records the one in its place: both or
    /// neither. False if it had ended already.
    fn replace(
        &mut self,
        old: u64,
        certificate: &Certificate,
        now: u64,
    ) -> Result<bool, DatabaseError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let ended = "UPDATE members SET revoked = ?2, replaced_by = ?3, asked = NULL WHERE serial = ?1 AND revoked IS NULL";
        let ended = transaction.execute(ended, params![old, now, certificate.serial()]);
        if ended.map_err(&fail)? == 0 {
            return Ok(false);
        }
        record(&transaction, certificate, now).map_err(&fail)?;
        follow(&transaction, old, &certificate.member()).map_err(&fail)?;
        transaction.commit().map_err(fail)?;
        Ok(true)
    }

    /// What the ring's statement says of certificates.
    pub(super) fn serials(&self, now: u64) -> Result<Serials, DatabaseError> {
        let fail = self.fail();
        let replaced = "SELECT serial, replaced_by FROM members
            WHERE replaced_by IS NOT NULL AND max(expires, revoked + ?2) > ?1
            UNION SELECT renewed.serial, replaced_by FROM renewed JOIN members ON members.serial = newest
            WHERE replaced_by IS NOT NULL AND max(renewed.expires, revoked + ?2) > ?1
            UNION SELECT serial, replaced_by FROM ended WHERE replaced_by IS NOT NULL AND expires > ?1";
        let mut replaced = self.connection.prepare(replaced).map_err(&fail)?;
        let replaced = replaced.query_map(params![now, REPLACED_KEPT.as_secs()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
        let replaced = replaced.map_err(&fail)?;
        let asked =
            "SELECT serial FROM members WHERE asked > ?1 AND revoked IS NULL AND expires > ?1";
        let mut asked = self.connection.prepare(asked).map_err(&fail)?;
        let asked = asked
            .query_map(params![now], |row| row.get(0))
            .map_err(&fail)?;
        Ok(Serials {
            revoked: self.revoked_serials(now)?,
            replaced: replaced.collect::<Result<_, _>>().map_err(&fail)?,
            asked: asked.collect::<Result<_, _>>().map_err(&fail)?,
        })
    }
}

#[cfg(test)]
mod tests;
