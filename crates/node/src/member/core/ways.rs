//! Who is what to us, and by which way a member is reached.

use ringway_overlay::RingKey;
use ringway_transport::{Address, MemberId, RelayAddress};

use super::{Core, Signal};
use crate::certificate::{Certificate, Role};
use crate::control::RouterRef;
use crate::limits::WAYS_THROUGH_PARENTS;
use crate::member::answer::{Reason, Unreachable};

impl Core {
    /// This member.
    pub(in crate::member) fn me(&self) -> MemberId {
        self.membership.certificate.member()
    }

    /// This router's place in the ring; none of a leaf.
    pub(in crate::member) fn own_key(&self) -> Option<RingKey> {
        self.membership.certificate.ring_key()
    }

    /// True if this member is a leaf.
    pub(in crate::member) fn is_leaf_itself(&self) -> bool {
        self.membership.certificate.role() == Role::Leaf
    }

    /// True if a certificate that is at hand gives the member this role.
    pub(in crate::member) fn has_role(&self, member: &MemberId, role: Role) -> bool {
        let certificate = self.directory.cached(member);
        certificate.is_some_and(|certificate| certificate.role() == role)
    }

    pub(in crate::member) fn is_leaf(&self, member: &MemberId) -> bool {
        self.has_role(member, Role::Leaf)
    }

    /// True if this router is linked with us and needs no other in between.
    pub(in crate::member) fn is_parent(&self, member: &MemberId) -> bool {
        self.links.is_direct(member) && self.has_role(member, Role::Router)
    }

    /// Routers that a leaf is linked to without another in between.
    pub(in crate::member) fn parents(&self) -> Vec<MemberId> {
        let up = self.links.up().map(|(member, _)| *member);
        up.filter(|member| self.is_parent(member)).collect()
    }

    /// A router's place in the ring, if its certificate is at hand.
    pub(in crate::member) fn ring_key_of(&self, member: &MemberId) -> Option<RingKey> {
        self.directory.cached(member)?.ring_key()
    }

    /// The name of a member as its certificate has it, or its id.
    pub(in crate::member) fn name_of(&self, member: &MemberId) -> String {
        let certificate = self.directory.cached(member);
        certificate.map_or_else(|| member.to_string(), |known| known.name().to_string())
    }

    /// A router as others show it: by key, and by name if its certificate is at hand.
    pub(in crate::member) fn router_ref(&self, key: &RingKey) -> RouterRef {
        let certificate = self.directory.cached_router(key);
        RouterRef {
            ring_key: key.to_string(),
            name: certificate.map(|certificate| certificate.name().to_string()),
        }
    }

    /// Begins a link if there is none; true if there is one, or one is on its way.
    ///
    /// A leaf has to be found first. If it cannot be looked for, [`Signal::NoWay`] says so, or
    /// [`Signal::NotFound`] once that has failed.
    pub(in crate::member) fn link_to(&mut self, certificate: &Certificate) -> bool {
        let member = certificate.member();
        if self.links.knows(&member) {
            return true;
        }
        let mut addresses = self.network.dial_addresses(certificate);
        addresses.extend(self.ways_through_parents(certificate));
        self.links.connect(self.now, certificate, addresses);
        if certificate.role() != Role::Leaf {
            return self.links.knows(&member);
        }
        if !self.sought.contains(&member) {
            self.find_leaf(certificate, Some(self.no_address()));
        }
        true
    }

    /// Has a leaf looked for, whatever links and dials there are. If that cannot be, and no link is
    /// on its way, those who wait for it are told the reason `otherwise`.
    pub(in crate::member) fn find_leaf(
        &mut self,
        certificate: &Certificate,
        otherwise: Option<Reason>,
    ) {
        self.sought.insert(certificate.member());
        self.signal(Signal::FindLeaf {
            certificate: Box::new(certificate.clone()),
            otherwise,
        });
    }

    /// Why nothing can be sent to a member.
    pub(in crate::member) fn no_address(&self) -> Reason {
        if self.network.is_hidden() {
            Unreachable::Hidden
        } else {
            Unreachable::NoAddress
        }
    }

    /// True if messages of the link with `member` may go to this address.
    pub(in crate::member) fn carries(&self, member: &MemberId, address: &Address) -> bool {
        match address {
            Address::Relay(relay) => self.may_use_relay(member, relay),
            address => self.network.carries(address),
        }
    }

    /// Leaves are behind others, each behind its own parents. A leaf itself reaches routers through
    /// its own parents, and one that hides has no other way to anybody.
    pub(in crate::member) fn may_use_relay(&self, member: &MemberId, relay: &RelayAddress) -> bool {
        let own = self.me();
        if relay.member != *member || relay.parent == own || relay.parent == *member {
            return false;
        }
        if self.is_leaf(member) {
            !self.network.is_hidden() || self.is_parent(&relay.parent)
        } else {
            self.is_leaf_itself() && self.is_parent(&relay.parent)
        }
    }

    /// Addresses of a router by way of our parents, if we are a leaf.
    fn ways_through_parents(&self, certificate: &Certificate) -> Vec<Address> {
        let member = certificate.member();
        if certificate.role() != Role::Router || !self.is_leaf_itself() {
            return Vec::new();
        }
        let parents = self.relays.iter().filter(|parent| **parent != member);
        let parents = parents.filter(|parent| self.is_parent(parent));
        let way = |parent: &MemberId| {
            let parent = *parent;
            Address::Relay(RelayAddress { parent, member })
        };
        parents.take(WAYS_THROUGH_PARENTS).map(way).collect()
    }

    /// True if the member is where private addresses mean what they mean here: the link with it
    /// uses one.
    pub(in crate::member) fn is_at_our_site(&self, member: &MemberId) -> bool {
        let path = self.links.path(member).filter(|_| self.links.is_up(member));
        path.is_some_and(Address::is_private)
    }

    /// True if the member is reached through a router at our own site, where it may be as well.
    pub(in crate::member) fn shares_our_site(&self, member: &MemberId) -> bool {
        match self.links.path(member) {
            Some(Address::Relay(relay)) => self.is_at_our_site(&relay.parent),
            _ => false,
        }
    }
}
