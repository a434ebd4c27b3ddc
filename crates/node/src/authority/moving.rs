//! Another address for a router whose machine has moved: by another certificate, for another key.
//!
//! A router's position is derived from its address, so a moved router is a new one to the ring. It
//! goes the way of a member that changes its key (`rotate`): the owner's statement asks it, and it
//! comes for the certificate by itself. The old certificate, which leads to where nothing listens,
//! ends at that moment, and those who have business with its holder follow to the new one.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use rusqlite::params;

use super::store::{Store, count_change, immediate, parsed_option};
use super::{Authority, AuthorityError, MemberEntry};
use crate::clock::unix_seconds;
use crate::database::DatabaseError;
use crate::endpoint::Endpoint;
use crate::limits::ROTATION_ASKED;

/// Where a router moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewAddress {
    /// To that address and port.
    Socket(SocketAddr),
    /// To that address, with the port that it has.
    Ip(IpAddr),
}

/// Why a text names no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an IP address is needed, with a port if that is another one than before, such as 192.0.2.9, 192.0.2.9:7400 or [2001:db8::9]:7400"
)]
pub struct InvalidNewAddress;

impl FromStr for NewAddress {
    type Err = InvalidNewAddress;

    fn from_str(text: &str) -> Result<NewAddress, InvalidNewAddress> {
        let socket = text.parse().map(NewAddress::Socket).ok();
        let ip = || text.parse().map(NewAddress::Ip).ok();
        socket.or_else(ip).ok_or(InvalidNewAddress)
    }
}

impl Authority {
    /// Asks the router with this name to go on at another address, which it does by itself as soon
    /// as it learns it. A move that has not been made yet is called off by naming the address that
    /// the router has.
    ///
    /// # Errors
    /// When no router has the name, others could not reach it there, another router has the
    /// address, its certificate has ended, the time is out of range, or the statement is full.
    pub fn ask_move(
        &mut self,
        name: &str,
        to: NewAddress,
        within: Duration,
    ) -> Result<MemberEntry, AuthorityError> {
        let seconds = within.as_secs();
        if !ROTATION_ASKED.contains(&seconds) {
            return Err(AuthorityError::RotationTime);
        }
        self.check_current()?;
        let now = unix_seconds();
        let serial = self.active(name, now)?;
        let entry = self.entry(serial, name)?;
        let from = entry.address;
        let from = from.ok_or_else(|| AuthorityError::NoRouter(name.to_owned()))?;
        let to = match to {
            NewAddress::Socket(to) => to,
            NewAddress::Ip(ip) => SocketAddr::new(ip, from.port()),
        };
        if to == from {
            if entry.moves_to.is_none() {
                return Err(AuthorityError::IsThere(name.to_owned(), to));
            }
            self.store.set_move(serial, None, None)?;
            return self.entry(serial, name);
        }
        if !Endpoint::from(to).is_dialable() {
            return Err(AuthorityError::NotDialable(to));
        }
        if self.store.address_taken(to)? {
            return Err(AuthorityError::AddressTaken(to));
        }
        self.room_to_rotate(serial, now)?;
        self.store.set_move(serial, Some(now + seconds), Some(to))?;
        self.entry(serial, name)
    }
}

impl Store {
    /// Until when the router may move by itself, and where to; nowhere calls it off.
    fn set_move(
        &mut self,
        serial: u64,
        until: Option<u64>,
        to: Option<SocketAddr>,
    ) -> Result<(), DatabaseError> {
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let change = "UPDATE members SET asked = ?2, moves_to = ?3 WHERE serial = ?1";
        let to = to.map(|to| to.to_string());
        transaction
            .execute(change, params![serial, until, to])
            .map_err(&fail)?;
        count_change(&transaction).map_err(&fail)?;
        transaction.commit().map_err(fail)
    }

    /// Where the router with this certificate is to go on, if it is asked to at `now`.
    pub(super) fn moves_to(
        &self,
        serial: u64,
        now: u64,
    ) -> Result<Option<SocketAddr>, DatabaseError> {
        let query = "SELECT (SELECT moves_to FROM members WHERE serial = ?1 AND asked > ?2)";
        self.connection
            .query_row(query, params![serial, now], |row| parsed_option(row, 0))
            .map_err(self.fail())
    }
}

#[cfg(test)]
mod tests {
    use ringway_transport::Signer as _;

    use super::*;
    use crate::authority::{InitOptions, MemberState, Rotated};
    use crate::certificate::Certificate;
    use crate::identity::Identity;
    use crate::rotation::RotationRequest;

    const WEEK: Duration = Duration::from_secs(7 * 86_400);

    struct Owner {
        authority: Authority,
        _folder: tempfile::TempDir,
    }

    impl Owner {
        fn new() -> Owner {
            let folder = tempfile::tempdir().unwrap();
            let options = InitOptions {
                domain: "ring.test".to_owned(),
                dns: "127.0.0.1:7453".parse().unwrap(),
                enrol: "127.0.0.1:7410".parse().unwrap(),
                successors: 3,
                group: 9,
                lifetime: crate::limits::CERTIFICATE_LIFETIME,
            };
            let authority = Authority::init(folder.path(), &options).unwrap();
            Owner {
                authority,
                _folder: folder,
            }
        }

        fn member(&mut self, name: &str, address: Option<SocketAddr>) -> (Identity, Certificate) {
            let (key, now) = (Identity::generate().unwrap(), unix_seconds());
            let name = name.parse().unwrap();
            let certificate = self.authority.certify(name, key.member(), address, now);
            let certificate = certificate.unwrap();
            self.authority.store.admit(&certificate, now).unwrap();
            (key, certificate)
        }

        fn router(&mut self, name: &str, address: &str) -> (Identity, Certificate) {
            self.member(name, Some(address.parse().unwrap()))
        }

        fn rotates(
            &mut self,
            old: &Identity,
            own: &Certificate,
        ) -> Result<Rotated, AuthorityError> {
            let (new, ring) = (Identity::generate().unwrap(), self.authority.ring_id());
            let request = RotationRequest::new(old, &new, &ring, own, unix_seconds());
            self.authority.rotate_asked(&request)
        }
    }

    fn to(text: &str) -> NewAddress {
        text.parse().unwrap()
    }

    #[test]
    fn the_next_certificate_names_the_new_address() {
        let mut owner = Owner::new();
        let (key, own) = owner.router("oslo", "192.0.2.7:7400");
        owner.router("lima", "192.0.2.8:7400");
        let moving = owner
            .authority
            .ask_move("oslo", to("192.0.2.9"), WEEK)
            .unwrap();
        let there: SocketAddr = "192.0.2.9:7400".parse().unwrap();
        assert_eq!(moving.moves_to, Some(there));
        assert_eq!(moving.address, own.address(), "until it has done it");
        let rotated = owner.rotates(&key, &own).unwrap();
        let certificate = &rotated.certificate;
        assert_eq!(certificate.address(), Some(there));
        assert_eq!(certificate.name(), own.name());
        assert_ne!(certificate.ring_key(), own.ring_key());
        assert_eq!(
            rotated.reply.statement.heir(own.serial()),
            Some(certificate.serial())
        );
        let entries = owner.authority.members().unwrap();
        let oslo: Vec<_> = entries
            .iter()
            .filter(|entry| entry.name == "oslo")
            .collect();
        assert_eq!(oslo[0].state, MemberState::Replaced);
        assert_eq!((oslo[1].address, oslo[1].moves_to), (Some(there), None));
        // Its old address is free for another, its new one is not.
        let refused = owner.authority.ask_move("lima", to("192.0.2.9:7400"), WEEK);
        assert!(matches!(refused, Err(AuthorityError::AddressTaken(_))));
        owner
            .authority
            .ask_move("lima", to("192.0.2.7:7400"), WEEK)
            .unwrap();
    }

    #[test]
    fn impossible_moves_are_refused() {
        let mut owner = Owner::new();
        owner.router("oslo", "192.0.2.7:7400");
        owner.router("lima", "192.0.2.8:7400");
        owner.member("alice", None);
        for (name, address) in [
            ("quito", "192.0.2.9:7400"),
            ("alice", "192.0.2.9:7400"),
            ("oslo", "192.0.2.7:7400"),
            ("oslo", "192.0.2.8:7400"),
            ("oslo", "0.0.0.0:7400"),
            ("oslo", "192.0.2.9:0"),
        ] {
            let refused = owner
                .authority
                .ask_move(name, to(address), WEEK)
                .unwrap_err();
            assert!(refused.is_usage(), "{name} {address}: {refused}");
        }
        assert!("oslo".parse::<NewAddress>().is_err());
    }

    #[test]
    fn moves_can_be_called_off_and_run_out() {
        let mut owner = Owner::new();
        let (key, own) = owner.router("oslo", "192.0.2.7:7400");
        owner
            .authority
            .ask_move("oslo", to("192.0.2.9"), WEEK)
            .unwrap();
        let stays = owner
            .authority
            .ask_move("oslo", to("192.0.2.7"), WEEK)
            .unwrap();
        assert_eq!((stays.moves_to, stays.rotate_until), (None, None));
        assert!(owner.rotates(&key, &own).is_err(), "nobody has asked it");
        // A move that was not made in time is not made by a later change of the key.
        owner
            .authority
            .ask_move("oslo", to("192.0.2.9"), WEEK)
            .unwrap();
        let serial = own.serial();
        owner
            .authority
            .store
            .set_move(serial, Some(1), Some(([192, 0, 2, 9], 7400).into()))
            .unwrap();
        owner.authority.ask_rotation("oslo", WEEK).unwrap();
        let rotated = owner.rotates(&key, &own).unwrap();
        assert_eq!(rotated.certificate.address(), own.address());
    }
}
