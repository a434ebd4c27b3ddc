//! What our HELLO says, and to whom.

use ringway_transport::{Address, AddressDescriptor, Hello, HelloError, MemberId, limits};

use super::Core;

/// Addresses of ours that are others' doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::member) struct Lent {
    /// By way of the parents.
    pub(in crate::member) relays: Vec<Address>,
    /// From where the parents hear us.
    pub(in crate::member) observed: Vec<Address>,
    /// A port of our home router.
    pub(in crate::member) mapped: Option<Address>,
}

impl Lent {
    fn all(&self) -> impl Iterator<Item = &Address> {
        let relays = self.relays.iter();
        relays.chain(&self.observed).chain(&self.mapped)
    }
}

/// What we say of ourselves beside the addresses of our transports.
#[derive(Debug)]
pub(in crate::member) struct OwnHello {
    /// Number of this start.
    sequence: u64,
    lent: Lent,
    /// How often that has changed.
    changes: u64,
}

impl OwnHello {
    pub(super) fn new(sequence: u64) -> OwnHello {
        OwnHello {
            sequence,
            lent: Lent::default(),
            changes: 0,
        }
    }
}

/// To whom a HELLO is said. A later one says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::member) enum View {
    /// A router that is linked directly: it needs no other to reach us.
    Router,
    /// All who ask the ring.
    Registered,
    /// As [`View::Router`], at our site.
    RouterAtSite,
    /// A leaf, or a router that reaches us through another: everything, but nothing private.
    Relayed,
    /// As [`View::Relayed`]; what private addresses our parents see leads from there to us.
    RelayedAtSite,
    /// A leaf that is linked directly, at our site.
    AtSite,
}

impl View {
    fn number(self) -> u64 {
        match self {
            View::Router => 0,
            View::Registered => 1,
            View::RouterAtSite => 2,
            View::Relayed => 3,
            View::RelayedAtSite => 4,
            View::AtSite => 5,
        }
    }

    fn names_relays(self) -> bool {
        !matches!(self, View::Router | View::RouterAtSite)
    }

    fn names_observed(self) -> bool {
        matches!(self, View::Relayed | View::RelayedAtSite | View::AtSite)
    }
}

impl Core {
    /// Addresses that others lend us have changed, unless they are those that our HELLO names
    /// already; true if they have.
    pub(in crate::member) fn lend(&mut self, lent: Lent) -> bool {
        if lent == self.own_hello.lent {
            return false;
        }
        let own = self.network.addresses().into_iter();
        let own = own.map(|descriptor| descriptor.address);
        self.validator
            .set_own_addresses(own.chain(lent.all().cloned()).collect());
        self.own_hello.lent = lent;
        self.own_hello.changes += 1;
        true
    }

    fn view_of(&self, member: &MemberId) -> View {
        let direct = self.links.is_direct(member);
        let at_site = self.is_at_our_site(member);
        match (self.is_leaf(member) || !direct, at_site) {
            (false, false) => View::Router,
            (false, true) => View::RouterAtSite,
            (true, true) => View::AtSite,
            (true, false) if self.shares_our_site(member) => View::RelayedAtSite,
            (true, false) => View::Relayed,
        }
    }

    /// Our HELLO for one who is linked.
    pub(super) fn hello_for(&self, member: &MemberId) -> Result<Hello, HelloError> {
        self.hello(self.view_of(member))
    }

    /// Private addresses are told only to members of the same site: elsewhere they lead nowhere, or
    /// to somebody else. Where we are heard from is told only to those who could not reach us
    /// otherwise. What has changed and what says more has the higher number.
    pub(in crate::member) fn hello(&self, view: View) -> Result<Hello, HelloError> {
        let mut addresses = self.network.addresses();
        let at_site = matches!(view, View::RouterAtSite | View::AtSite);
        addresses.retain(|descriptor| at_site || !descriptor.address.is_private());
        let OwnHello {
            sequence,
            lent,
            changes,
        } = &self.own_hello;
        let Lent {
            relays,
            observed,
            mapped,
        } = lent;
        let relays = relays.iter().filter(|_| view.names_relays());
        let heard = at_site || view == View::RelayedAtSite;
        let observed = observed.iter();
        let observed = observed.filter(|a| view.names_observed() && (heard || !a.is_private()));
        let mapped = mapped.iter().filter(|a| at_site || !a.is_private());
        // The most direct first: the last ones are those that do not fit.
        for address in mapped.chain(observed).chain(relays) {
            if addresses.len() < limits::HELLO_ADDRESSES {
                addresses.push(AddressDescriptor::observed(address.clone()));
            }
        }
        let changes = (*changes).min((1 << 28) - 1);
        let sequence = (sequence << 31) | (changes << 3) | view.number();
        Hello::sign(&self.identity, sequence, addresses)
    }
}
