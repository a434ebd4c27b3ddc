//! Where the authority is, and how that is changed in the life of a ring.
//!
//! Members get the addresses in their invites, and keep them for years. So a change stands in the
//! owner's statement from then on, which is signed and whose number only grows: it reaches members
//! by DNS, while that is still answered at the earlier address, and from each other.

use std::net::SocketAddr;

use rusqlite::{OptionalExtension as _, params};

use super::site::Site;
use super::store::{Store, count_change, immediate};
use super::{Authority, AuthorityError};
use crate::database::DatabaseError;
use crate::endpoint::Endpoint;
use crate::limits::FORMER_ADDRESSES;
use crate::machine;
use crate::statement::Contact;

/// `former_dns` holds where DNS was before, the newest first, a line each; it is null as long as no
/// address was changed. `moves_to` is a router's next address, until it has a certificate for it.
pub(super) const COLUMNS: &str = "
    ALTER TABLE ring ADD COLUMN dns_listen TEXT;
    ALTER TABLE ring ADD COLUMN enrol_listen TEXT;
    ALTER TABLE ring ADD COLUMN former_dns TEXT;
    ALTER TABLE members ADD COLUMN moves_to TEXT;
";

/// Where a server is to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenChange {
    /// At the advertised address if that is this machine's, else at all addresses with its port.
    Automatic,
    /// There.
    At(SocketAddr),
}

impl ListenChange {
    fn address(self) -> Option<SocketAddr> {
        match self {
            ListenChange::Automatic => None,
            ListenChange::At(address) => Some(address),
        }
    }
}

/// What of the authority's addresses is to be another; none: as it is.
#[derive(Clone, Debug, Default)]
pub struct AddressChange {
    /// Where members ask the DNS server.
    pub dns: Option<Endpoint>,
    /// Where that listens.
    pub dns_listen: Option<ListenChange>,
    /// Where members enrol.
    pub enrol: Option<Endpoint>,
    /// Where the enrolment server listens.
    pub enrol_listen: Option<ListenChange>,
}

impl AddressChange {
    /// True if nothing is to be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let advertised = self.dns.is_none() && self.enrol.is_none();
        advertised && self.dns_listen.is_none() && self.enrol_listen.is_none()
    }
}

/// Where a ring's authority is.
#[derive(Clone, Debug, serde::Serialize)]
pub struct RingAddress {
    /// The ring's domain.
    pub domain: String,
    /// Where members ask the DNS server.
    pub dns: Endpoint,
    /// Where that listens.
    pub dns_listen: SocketAddr,
    /// Where members enrol.
    pub enrol: Endpoint,
    /// Where the enrolment server listens.
    pub enrol_listen: SocketAddr,
    /// Where DNS was before, the newest first: members that were told so ask at `dns` now.
    pub former_dns: Vec<Endpoint>,
}

/// Checks where both servers are, and completes where they listen.
pub(super) fn settle(dns: &mut Site, enrol: &mut Site) -> Result<(), AuthorityError> {
    for (what, site) in [("--dns", &mut *dns), ("--enrol", &mut *enrol)] {
        if !site.advertised.is_dialable() {
            let address = site.advertised.clone();
            return Err(AuthorityError::Unreachable { what, address });
        }
        let wrong = |address: &SocketAddr| address.port() == 0 || machine::is_foreign(address);
        if let Some(address) = site.listen.filter(wrong) {
            return Err(AuthorityError::NotHere { what, address });
        }
        site.settle();
    }
    let (dns, enrol) = (dns.binds_at(), enrol.binds_at());
    let overlap =
        dns.ip() == enrol.ip() || dns.ip().is_unspecified() || enrol.ip().is_unspecified();
    if overlap && dns.port() == enrol.port() {
        return Err(AuthorityError::SameAddress(dns));
    }
    Ok(())
}

impl Authority {
    /// Where the authority is, as it stands on disk.
    ///
    /// # Errors
    /// When the database fails.
    pub fn address(&self) -> Result<RingAddress, AuthorityError> {
        let options = self.store.options();
        let former = self.store.former_dns()?;
        Ok(RingAddress {
            domain: options.domain.clone(),
            dns: options.dns.advertised.clone(),
            dns_listen: options.dns.binds_at(),
            enrol: options.enrol.advertised.clone(),
            enrol_listen: options.enrol.binds_at(),
            former_dns: former.unwrap_or_default(),
        })
    }

    /// Changes where the authority is. A server that runs follows within a second; what members are
    /// to know is in the owner's next statement.
    ///
    /// # Errors
    /// When members could not reach it there, it cannot listen there, or this folder is older than
    /// its ring. Nothing has changed then.
    pub fn change_address(
        &mut self,
        change: &AddressChange,
    ) -> Result<RingAddress, AuthorityError> {
        self.check_current()?;
        let options = self.store.options();
        let (mut dns, mut enrol) = (options.dns.clone(), options.enrol.clone());
        let changes = [
            (&mut dns, &change.dns, change.dns_listen),
            (&mut enrol, &change.enrol, change.enrol_listen),
        ];
        for (site, advertised, listen) in changes {
            if let Some(advertised) = advertised {
                site.advertised = advertised.clone();
            }
            if let Some(listen) = listen {
                site.listen = listen.address();
            }
        }
        settle(&mut dns, &mut enrol)?;
        self.store.set_sites(&dns, &enrol)?;
        self.address()
    }
}

impl Store {
    /// Where DNS was before; none if no address was ever changed.
    fn former_dns(&self) -> Result<Option<Vec<Endpoint>>, DatabaseError> {
        let query = "SELECT former_dns FROM ring";
        let stored: Option<Option<String>> = self
            .connection
            .query_row(query, [], |row| row.get(0))
            .optional()
            .map_err(self.fail())?;
        let read = |text: String| text.lines().flat_map(str::parse).collect();
        Ok(stored.flatten().map(read))
    }

    /// What the owner's statement says of where the authority is: nothing, as long as that is where
    /// it was at first.
    pub(super) fn contact(&self) -> Result<Option<Contact>, DatabaseError> {
        let options = self.options();
        let former = self.former_dns()?;
        Ok(former.map(|former| Contact {
            dns: options.dns.advertised.clone(),
            enrol: options.enrol.advertised.clone(),
            former,
        }))
    }

    pub(super) fn set_sites(&mut self, dns: &Site, enrol: &Site) -> Result<(), DatabaseError> {
        let before = self.options();
        let moves = before.dns.advertised != dns.advertised;
        let stated = moves || before.enrol.advertised != enrol.advertised;
        let mut former = self.former_dns()?;
        if stated {
            let list = former.get_or_insert_default();
            if moves {
                list.insert(0, before.dns.advertised.clone());
            }
            let mut seen = Vec::new();
            // A member that was told the address of now needs no other.
            list.retain(|place| {
                let is_new = *place != dns.advertised && !seen.contains(place);
                seen.push(place.clone());
                is_new
            });
            list.truncate(FORMER_ADDRESSES);
        }
        let former = former.map(|list| {
            let lines: Vec<String> = list.iter().map(Endpoint::to_string).collect();
            lines.join("\n")
        });
        let fail = self.fail();
        let transaction = immediate(&mut self.connection).map_err(&fail)?;
        let listen = |site: &Site| site.listen.map(|at| at.to_string());
        let change = "UPDATE ring SET dns = ?1, dns_listen = ?2, enrol = ?3, enrol_listen = ?4, former_dns = ?5";
        let values = params![
            dns.advertised.to_string(),
            listen(dns),
            enrol.advertised.to_string(),
            listen(enrol),
            former
        ];
        transaction.execute(change, values).map_err(&fail)?;
        count_change(&transaction).map_err(&fail)?;
        transaction.commit().map_err(fail)?;
        self.read_options()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::authority::InitOptions;

    fn ring(folder: &std::path::Path) -> Authority {
        let options = InitOptions {
            domain: "ring.test".to_owned(),
            dns: "127.0.0.1:7453".parse().unwrap(),
            enrol: "127.0.0.1:7410".parse().unwrap(),
            successors: 3,
            group: 9,
            lifetime: Duration::from_secs(86_400),
        };
        Authority::init(&folder.join("owner"), &options).unwrap()
    }

    fn to(dns: &str) -> AddressChange {
        AddressChange {
            dns: Some(dns.parse().unwrap()),
            ..AddressChange::default()
        }
    }

    #[test]
    fn changes_are_stated_with_higher_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let mut authority = ring(folder.path());
        let first = authority.statement().unwrap();
        assert_eq!(first.contact(), None);
        let changed = authority
            .change_address(&to("ring.example.org:53"))
            .unwrap();
        assert!(changed.dns_listen.ip().is_unspecified(), "{changed:?}");
        let second = authority.statement().unwrap();
        assert!(second.number() > first.number());
        let contact = second.contact().unwrap();
        assert_eq!(contact.dns.to_string(), "ring.example.org:53");
        assert_eq!(contact.enrol.to_string(), "127.0.0.1:7410");
        assert_eq!(contact.former, ["127.0.0.1:7453".parse().unwrap()]);
        // Back again: who was told the name is told the address.
        authority.change_address(&to("127.0.0.1:7453")).unwrap();
        let third = Authority::open(authority.folder())
            .unwrap()
            .statement()
            .unwrap();
        let contact = third.contact().unwrap();
        assert_eq!(contact.dns.to_string(), "127.0.0.1:7453");
        assert_eq!(contact.former, ["ring.example.org:53".parse().unwrap()]);
        for port in 1_000..1_020 {
            let next = to(&format!("127.0.0.1:{port}"));
            authority.change_address(&next).unwrap();
        }
        let former = authority.address().unwrap().former_dns;
        assert_eq!(former.len(), FORMER_ADDRESSES);
        assert_eq!(former[0], "127.0.0.1:1018".parse().unwrap());
    }

    #[test]
    fn impossible_addresses_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut authority = ring(folder.path());
        let listen = |address: &str| AddressChange {
            dns_listen: Some(ListenChange::At(address.parse().unwrap())),
            ..AddressChange::default()
        };
        for (change, words) in [
            (to("0.0.0.0:53"), "cannot be given to members"),
            (to("127.0.0.1:7410"), "different ports"),
            (listen("0.0.0.0:7410"), "different ports"),
            (listen("192.0.2.7:53"), "no address of this machine"),
            (listen("127.0.0.1:0"), "no address of this machine"),
        ] {
            let refused = authority.change_address(&change).unwrap_err();
            assert!(refused.is_usage());
            assert!(refused.to_string().contains(words), "{refused}");
        }
        let address = authority.address().unwrap();
        assert_eq!(address.dns_listen.to_string(), "127.0.0.1:7453");
        assert_eq!(authority.statement().unwrap().contact(), None);
        // Where it listens is no news for members.
        let changed = authority.change_address(&listen("0.0.0.0:7453")).unwrap();
        assert_eq!(changed.dns_listen.to_string(), "0.0.0.0:7453");
        assert_eq!(authority.statement().unwrap().contact(), None);
        let back = AddressChange {
            dns_listen: Some(ListenChange::Automatic),
            ..AddressChange::default()
        };
        let changed = authority.change_address(&back).unwrap();
        assert_eq!(changed.dns_listen.to_string(), "127.0.0.1:7453");
    }
}
