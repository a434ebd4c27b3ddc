//! Members whose people have signed in: who that was is kept beside the member, and `ringway ring
//! members` shows it.
//!
//! The table `signed_in` is by the member's key. A sign-in may count for a time only (`until`): no
//! certificate of the member is good for longer, and none is renewed that is. A member that joins
//! again by an invite is no person's from then on, and a changed key stays the person's.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::store::{Store, Tables, immediate, record};
use super::{Authority, AuthorityError, Enrolled};
use crate::certificate::{Certificate, RingId};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::sso::{JoinLink, Refused, SignedIn};
use ringway_transport::MemberId;

/// The table, as it was first.
pub(super) const MIGRATION: &str = "
    CREATE TABLE signed_in (
        member BLOB PRIMARY KEY, issuer TEXT NOT NULL, subject TEXT NOT NULL,
        shown TEXT NOT NULL, user TEXT NOT NULL, groups TEXT NOT NULL,
        at INTEGER NOT NULL, until INTEGER
    ) STRICT;
    CREATE INDEX signed_in_by_person ON signed_in (issuer, subject);
";

/// Who has signed in for a member.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SsoEntry {
    /// What people know the person by, such as its mail address.
    pub person: String,
    /// The issuer's address.
    pub issuer: String,
    /// What the issuer gives to no other person.
    pub subject: String,
    /// The groups by which it was admitted; none where everybody may join.
    pub groups: Vec<String>,
    /// When it signed in last, Unix seconds.
    pub at: u64,
    /// From when on it has to sign in again, Unix seconds; none: never.
    pub until: Option<u64>,
}

impl Authority {
    /// What tells new members which ring this is, and where. No secret.
    #[must_use]
    pub fn join_link(&self) -> JoinLink {
        let options = self.store.options();
        JoinLink {
            ring: self.ring_id(),
            domain: options.domain.clone(),
            enrol: options.enrol.advertised.clone(),
        }
    }

    /// Whether this key may begin a sign-in, and of which ring it becomes a member.
    pub(crate) fn may_sign_in(&self, member: &MemberId) -> Result<RingId, AuthorityError> {
        self.check_current()?;
        let holder = self.store.holder(member, &self.ring_id())?;
        let over = holder.is_some_and(|holder| holder.revoked.is_some());
        // What was revoked or replaced may be in other hands.
        if over {
            return Err(AuthorityError::KeyIsOver(
                "this key was revoked or replaced: join with another key",
            ));
        }
        Ok(self.ring_id())
    }

    /// Makes the key of a person that has signed in a member. A member of the same person stays
    /// what it is, and its sign-in counts from now.
    pub(crate) fn enrol_signed_in(
        &mut self,
        asked: &SignedIn,
    ) -> Result<(Enrolled, Option<u64>), AuthorityError> {
        let now = unix_seconds();
        let until = asked.again.map(|again| now + again.as_secs());
        let certificate = self.certify_signed_in(asked, now, until)?;
        let enrolled = Enrolled {
            certificate,
            statement: self.statement()?,
            routers: self.store.routers(&self.ring_id(), &asked.member)?,
        };
        Ok((enrolled, until))
    }

    fn certify_signed_in(
        &mut self,
        asked: &SignedIn,
        now: u64,
        until: Option<u64>,
    ) -> Result<Certificate, AuthorityError> {
        let member = asked.member;
        let holder = self.store.holder(&member, &self.ring_id())?;
        let standing = holder.filter(|holder| holder.revoked.is_none());
        if let Some(known) = &standing {
            // Else a person could take over what another has, or what the owner has invited.
            if !self.store.persons().is_persons(&member, asked)? {
                let name = known.certificate.name().to_string();
                return Err(Refused::OtherPerson(name).into());
            }
            if known.certificate.not_after() > now {
                // Its daemon renews the certificate by itself, as long as the sign-in counts.
                self.store.persons().again(asked, now, until)?;
                return Ok(known.certificate.clone());
            }
        }
        self.store.persons().check(asked, now)?;
        let lasting = self.store.options().ends(now);
        let ends = until.map_or(lasting, |until| until.min(lasting));
        if let Some(back) = self.recertify(&asked.name, member, asked.address, now, ends)? {
            self.store
                .take_back(&back, now, |connection| keep(connection, asked, now, until))?;
            return Ok(back.certificate);
        }
        let certificate =
            self.certify_until(asked.name.clone(), member, asked.address, now, ends)?;
        self.store
            .admit_signed_in(&certificate, asked, now, until)?;
        Ok(certificate)
    }
}

/// Writes down who has signed in for a member, with the change that this is for.
fn keep(
    connection: &Connection,
    asked: &SignedIn,
    now: u64,
    until: Option<u64>,
) -> rusqlite::Result<()> {
    let person = &asked.person;
    // A group may have any character, and this form reads back what was written.
    let groups = serde_json::Value::from(person.groups.clone()).to_string();
    connection.execute(
        "INSERT OR REPLACE INTO signed_in VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            &asked.member.as_bytes()[..],
            person.issuer,
            person.subject,
            person.shown,
            person.user,
            groups,
            now,
            until
        ],
    )?;
    Ok(())
}

/// The member with this key is no person's any more: it joins by an invite.
pub(super) fn forget(connection: &Connection, member: &MemberId) -> rusqlite::Result<()> {
    let query = "DELETE FROM signed_in WHERE member = ?1";
    connection.execute(query, params![&member.as_bytes()[..]])?;
    Ok(())
}

/// The member whose certificate had the serial `old` has another key: it stays the person's.
pub(super) fn follow(connection: &Connection, old: u64, next: &MemberId) -> rusqlite::Result<()> {
    let query = "INSERT OR REPLACE INTO signed_in
        SELECT ?2, issuer, subject, shown, user, groups, at, until
        FROM signed_in JOIN members USING (member) WHERE serial = ?1";
    connection.execute(query, params![old, &next.as_bytes()[..]])?;
    Ok(())
}

/// Who has signed in for which member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Persons<'a>(Tables<'a>);

impl<'a> Persons<'a> {
    pub(super) fn of(tables: Tables<'a>) -> Persons<'a> {
        Persons(tables)
    }

    /// Who has signed in for the member with this key.
    pub(super) fn signed_in(&self, member: &[u8]) -> Result<Option<SsoEntry>, DatabaseError> {
        let query = "SELECT shown, issuer, subject, groups, at, until FROM signed_in
            WHERE member = ?1";
        let found = self.0.connection.query_row(query, params![member], |row| {
            let groups: String = row.get(3)?;
            Ok(SsoEntry {
                person: row.get(0)?,
                issuer: row.get(1)?,
                subject: row.get(2)?,
                groups: serde_json::from_str(&groups).unwrap_or_default(),
                at: row.get(4)?,
                until: row.get(5)?,
            })
        });
        found.optional().map_err(self.0.fail())
    }

    /// Until when its person's sign-in counts; none where it counts for ever, or no one has.
    pub(super) fn ends(&self, member: &MemberId) -> Result<Option<u64>, DatabaseError> {
        let entry = self.signed_in(member.as_bytes())?;
        Ok(entry.and_then(|entry| entry.until))
    }

    fn is_persons(&self, member: &MemberId, asked: &SignedIn) -> Result<bool, DatabaseError> {
        let (issuer, subject) = (&asked.person.issuer, &asked.person.subject);
        let entry = self.signed_in(member.as_bytes())?;
        Ok(entry.is_some_and(|entry| entry.issuer == *issuer && entry.subject == *subject))
    }

    fn again(&self, asked: &SignedIn, now: u64, until: Option<u64>) -> Result<(), DatabaseError> {
        keep(self.0.connection, asked, now, until).map_err(self.0.fail())
    }

    /// Whether the person may have one more machine.
    fn check(&self, asked: &SignedIn, now: u64) -> Result<(), AuthorityError> {
        let fail = self.0.fail();
        let person = &asked.person;
        // The first person with this name part has it, so that no one passes for another,
        // while one of its members is in good standing.
        let query = "SELECT EXISTS (SELECT 1 FROM signed_in JOIN members USING (member)
            WHERE user = ?1 AND (issuer, subject) <> (?2, ?3) AND revoked IS NULL AND expires > ?4)";
        let (issuer, subject) = (&person.issuer, &person.subject);
        let taken: bool = self
            .0
            .connection
            .query_row(query, params![person.user, issuer, subject, now], |row| {
                row.get(0)
            })
            .map_err(&fail)?;
        if taken && !person.user.is_empty() {
            return Err(Refused::UserTaken(person.user.clone()).into());
        }
        let query = "SELECT name FROM signed_in JOIN members USING (member)
            WHERE issuer = ?1 AND subject = ?2 AND revoked IS NULL AND expires > ?3 ORDER BY name";
        let mut statement = self.0.connection.prepare(query).map_err(&fail)?;
        let names = statement
            .query_map(params![issuer, subject, now], |row| row.get(0))
            .map_err(&fail)?;
        let machines: Vec<String> = names.collect::<Result<_, _>>().map_err(&fail)?;
        if u32::try_from(machines.len()).is_ok_and(|count| count < asked.machines) {
            return Ok(());
        }
        let refused = Refused::TooMany {
            person: person.shown.clone(),
            machines,
            most: asked.machines,
        };
        Err(refused.into())
    }

    /// Until when a certificate of this member may be good if it is issued `now`, and others are
    /// good until `lasting`; refused if the one that it has, which ends at `has`, is good for as
    /// long as its person's sign-in counts.
    pub(super) fn renewed_until(
        &self,
        member: &MemberId,
        has: u64,
        now: u64,
        lasting: u64,
    ) -> Result<u64, AuthorityError> {
        match self.ends(member)? {
            Some(until) if has >= until || now >= until => Err(Refused::SignInAgain.into()),
            Some(until) => Ok(until.min(lasting)),
            None => Ok(lasting),
        }
    }
}

impl Store {
    /// As [`Store::admit`], with who has signed in: both or neither. An open invite for the name
    /// keeps it, because the owner has promised it to somebody.
    fn admit_signed_in(
        &mut self,
        certificate: &Certificate,
        asked: &SignedIn,
        now: u64,
        until: Option<u64>,
    ) -> Result<(), AuthorityError> {
        let fail = self.fail();
        let name = certificate.name();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        // Within the transaction: a command of the owner may be giving the name away now.
        let query = "SELECT EXISTS (SELECT 1 FROM members
                WHERE name = ?1 AND revoked IS NULL AND expires > ?2)
            OR EXISTS (SELECT 1 FROM invites WHERE name = ?1 AND used_by IS NULL AND expires > ?2)";
        let taken: bool = transaction
            .query_row(query, params![name.as_str(), now], |row| row.get(0))
            .map_err(&fail)?;
        if taken {
            return Err(Refused::NameTaken(name.to_string()).into());
        }
        record(&transaction, certificate, now).map_err(&fail)?;
        keep(&transaction, asked, now, until).map_err(&fail)?;
        Ok(transaction.commit().map_err(&fail)?)
    }
}

#[cfg(test)]
mod tests;
