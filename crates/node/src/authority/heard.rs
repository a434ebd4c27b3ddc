//! When each member last showed itself to the authority by its key, and the version of its program.
//!
//! That is an enrolment, a renewal, another key, a departure, or a report, which members make each
//! day. It is kept apart from the members: losing it loses no membership.

use std::collections::BTreeMap;

use ringway_transport::MemberId;
use rusqlite::params;

use super::store::Tables;
use super::{Authority, AuthorityError};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;

/// What was heard of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// Unix seconds.
    pub(super) at: u64,
    pub(super) version: Option<String>,
}

/// When members were heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hearing<'a>(Tables<'a>);

impl<'a> Hearing<'a> {
    pub(super) fn of(tables: Tables<'a>) -> Hearing<'a> {
        Hearing(tables)
    }

    /// Notes that a member has shown itself now; without a version the one that is known stays.
    /// It is no reason for the member's request to fail.
    pub(crate) fn note(&self, member: &MemberId, version: Option<&str>) {
        let query = "INSERT INTO heard VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE
            SET at = max(at, ?2), version = ifnull(?3, version)";
        let member = member.as_bytes();
        let arguments = params![&member[..], unix_seconds(), version];
        let heard = self.0.connection.execute(query, arguments);
        if let Err(error) = heard.map_err(self.0.fail()) {
            tracing::warn!(%error, "when a member was heard could not be noted");
        }
    }

    /// Of all members, by id.
    pub(super) fn all(&self) -> Result<BTreeMap<[u8; 32], Heard>, DatabaseError> {
        let fail = self.0.fail();
        let query = "SELECT member, at, version FROM heard";
        let mut statement = self.0.connection.prepare(query).map_err(&fail)?;
        let rows = statement
            .query_map([], |row| {
                let (at, version) = (row.get(1)?, row.get(2)?);
                Ok((row.get(0)?, Heard { at, version }))
            })
            .map_err(&fail)?;
        rows.collect::<Result<_, _>>().map_err(fail)
    }
}

impl Authority {
    /// When members were heard.
    pub(crate) fn hearing(&self) -> Hearing<'_> {
        self.store.hearing()
    }

    /// A report of a member in good standing.
    pub(crate) fn take_report(
        &mut self,
        member: &MemberId,
        version: &str,
    ) -> Result<(), AuthorityError> {
        let ring = self.ring_id();
        let holder = self.store.holder(member, &ring)?;
        let refuse = AuthorityError::EnrolmentRefused;
        holder.ok_or(refuse(super::rotate::UNKNOWN))?;
        let version = crate::text::printable(version, crate::limits::VERSION_CHARACTERS);
        self.hearing().note(member, Some(&version));
        Ok(())
    }
}
