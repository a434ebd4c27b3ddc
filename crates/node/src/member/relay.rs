//! Packets for members that nobody can dial: a router with a link to such a member passes them on.
//!
//! ```text
//! A ── Relay { to: B, packet } ──▶ router ── Relayed { from: A, packet } ──▶ B
//! ```
//!
//! The packet is one of the link between A and B, sealed from end to end; for that link the router
//! is a path like any other, `relay://ROUTER/B`. One of the two has to be a leaf, and each has to
//! have a link with the router that needs no relay itself. Where a leaf wants another router, the
//! one in between makes its link with that.

mod queue;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ringway_overlay::{Record, RingKey};
use ringway_transport::{Address, MemberId, RelayAddress, limits::RELAY_MTU};

use self::queue::{Passed, RelayQueue};
use super::runtime::Runtime;
use super::{Outcome, RecordOutcome};
use crate::certificate::{Certificate, Role};
use crate::limits::{LOOKED_UP, UNRESOLVED, UNRESOLVED_MESSAGES, WAYS_THROUGH_PARENTS};
use crate::link::LinkMessage;

/// What is on its way through others, or through us.
#[derive(Debug)]
pub(super) struct Relaying {
    queue: RelayQueue,
    /// Messages for routers whose certificates are being looked for.
    unresolved: BTreeMap<MemberId, Vec<LinkMessage>>,
}

impl Relaying {
    /// Passes on at most `rate` bytes per second; 0 is nothing.
    pub(super) fn new(rate: u64) -> Relaying {
        Relaying {
            queue: RelayQueue::new(rate),
            unresolved: BTreeMap::new(),
        }
    }

    /// When [`Runtime::pass_on`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }
}

impl Runtime {
    /// What leaves, their parents and those who look for leaves say.
    pub(super) fn handle_leaf_message(
        &mut self,
        now: Instant,
        member: MemberId,
        message: LinkMessage,
    ) {
        match message {
            LinkMessage::Relay { to, packet } => {
                self.take_relay(now, member, MemberId::new(*to), packet.into());
            }
            LinkMessage::Relayed { from, packet } => {
                self.take_relayed(now, member, MemberId::new(*from), &packet);
            }
            LinkMessage::Register { hello } => self.take_registration(now, member, &hello),
            LinkMessage::Keep { referral, copies } => {
                self.take_hello_to_keep(now, member, &referral, copies);
            }
            LinkMessage::FindLeaf { id, member: leaf } => {
                self.answer_search(now, member, id, MemberId::new(*leaf));
            }
            LinkMessage::LeafFound { id, referral } => {
                self.take_found_leaf(
                    now,
                    member,
                    id,
                    referral.as_ref().map(|bytes| bytes.as_slice()),
                );
            }
            LinkMessage::Observed { address, relays } => {
                self.take_observed(now, member, address, relays);
            }
            LinkMessage::PutRecord { id, record } => match Record::decode(&record) {
                Ok(record) => self.record_for_leaf(now, member, id, Ok(record)),
                Err(_) => self.count("records_malformed"),
            },
            // Whoever passes it on, it is the owner's.
            LinkMessage::Statement(bytes) if self.directory.take_statement(&bytes) => {
                self.end_revoked();
            }
            LinkMessage::GetRecord { id, point } => {
                self.record_for_leaf(now, member, id, Err(RingKey::from_bytes(*point)));
            }
            LinkMessage::RecordReply {
                id,
                copies,
                answers,
                group,
                verified,
                record,
            } => {
                let record = record.and_then(|bytes| Record::decode(&bytes).ok());
                let outcome = RecordOutcome {
                    copies,
                    answers,
                    group,
                    verified,
                    record: record.map(Box::new),
                };
                self.record_from_parent(now, member, id, outcome);
            }
            _ => {}
        }
    }

    /// True if messages of the link with `member` may go to this address.
    pub(super) fn carries(&self, member: &MemberId, address: &Address) -> bool {
        match address {
            Address::Relay(relay) => self.may_use_relay(member, relay),
            address => self.network.carries(address),
        }
    }

    /// Leaves are behind others, each behind its own parents. A leaf itself reaches routers through
    /// its own parents, and one that hides has no other way to anybody.
    pub(super) fn may_use_relay(&self, member: &MemberId, relay: &RelayAddress) -> bool {
        let own = self.membership.certificate.member();
        if relay.member != *member || relay.parent == own || relay.parent == *member {
            return false;
        }
        match self.is_leaf(member) {
            true => !self.network.is_hidden() || self.is_parent(&relay.parent),
            false => self.is_a_leaf_itself() && self.is_parent(&relay.parent),
        }
    }

    /// Addresses of a router by way of our parents, if we are a leaf.
    pub(super) fn ways_through_parents(&self, certificate: &Certificate) -> Vec<Address> {
        let member = certificate.member();
        if certificate.role() != Role::Router || !self.is_a_leaf_itself() {
            return Vec::new();
        }
        let parents = self.parents.that_relay().filter(|p| **p != member);
        let parents = parents.filter(|parent| self.is_parent(parent));
        let way = |parent: &MemberId| {
            let parent = *parent;
            Address::Relay(RelayAddress { parent, member })
        };
        parents.take(WAYS_THROUGH_PARENTS).map(way).collect()
    }

    fn is_a_leaf_itself(&self) -> bool {
        self.membership.certificate.role() == Role::Leaf
    }

    /// True if this router is linked with us and needs nobody in between.
    pub(super) fn is_parent(&self, member: &MemberId) -> bool {
        self.links.is_direct(member) && self.has_role(member, Role::Router)
    }

    pub(super) fn is_leaf(&self, member: &MemberId) -> bool {
        self.has_role(member, Role::Leaf)
    }

    pub(super) fn has_role(&self, member: &MemberId, role: Role) -> bool {
        let certificate = self.directory.cached(member);
        certificate.is_some_and(|certificate| certificate.role() == role)
    }

    /// Sends a packet of a link by way of a router; makes a link with the router first where there
    /// is none.
    pub(super) fn send_by_relay(&mut self, now: Instant, relay: RelayAddress, packet: Vec<u8>) {
        let RelayAddress { parent, member } = relay;
        let message = LinkMessage::Relay {
            to: (*member.as_bytes()).into(),
            packet: packet.into(),
        };
        if self.links.knows(&parent) {
            if !self.links.send_directly(now, &parent, message) {
                self.count("relay_over_relay_refused");
            }
            return;
        }
        match self.directory.cached(&parent) {
            Some(certificate) => self.send_to_relay(now, &certificate, vec![message]),
            None => self.resolve_relay(parent, Some(message)),
        }
    }

    fn send_to_relay(&mut self, now: Instant, parent: &Certificate, messages: Vec<LinkMessage>) {
        if parent.role() != Role::Router || !self.link_to(now, parent) {
            return self.count("relays_unreachable");
        }
        for message in messages {
            self.links.send_directly(now, &parent.member(), message);
        }
    }

    fn resolve_relay(&mut self, parent: MemberId, message: Option<LinkMessage>) {
        let unresolved = &mut self.relaying.unresolved;
        if let Some(messages) = unresolved.get_mut(&parent) {
            if messages.len() < UNRESOLVED_MESSAGES {
                messages.extend(message);
            }
            return;
        }
        if unresolved.len() >= UNRESOLVED {
            return self.count("relays_unresolved_dropped");
        }
        unresolved.insert(parent, message.into_iter().collect());
        let directory = Arc::clone(&self.directory);
        let outcomes = self.outcomes.clone();
        tokio::spawn(async move {
            let found = directory.find(&parent.to_string()).await;
            if let Err(error) = &found {
                tracing::info!(%error, "a relay could not be looked up");
            }
            let outcome = Outcome::RelayResolved(parent, found.ok().map(Box::new));
            if outcomes.send(outcome).await.is_err() {
                tracing::debug!("the member's task has ended");
            }
        });
    }

    pub(super) fn relay_resolved(
        &mut self,
        now: Instant,
        parent: MemberId,
        certificate: Option<Box<Certificate>>,
    ) {
        let messages = self.relaying.unresolved.remove(&parent);
        let (Some(messages), Some(certificate)) = (messages, certificate) else {
            return self.count("relays_unknown");
        };
        self.send_to_relay(now, &certificate, messages);
    }

    /// We are asked to pass a packet on.
    pub(super) fn take_relay(
        &mut self,
        now: Instant,
        from: MemberId,
        to: MemberId,
        packet: Vec<u8>,
    ) {
        let refused = self.chord.is_none() || packet.len() > RELAY_MTU || from == to;
        if refused || !self.links.is_direct(&from) {
            return self.count("relay_packets_refused");
        }
        let from_a_leaf = self.is_leaf(&from);
        if from_a_leaf && !self.links.is_up(&to) && self.link_for_a_leaf(now, to) {
            // The leaf's handshake repeats itself.
            return self.count("relay_packets_dropped");
        }
        if !self.links.is_direct(&to) || !(from_a_leaf || self.is_leaf(&to)) {
            return self.count("relay_packets_refused");
        }
        if !self
            .relaying
            .queue
            .handle_packet(Passed { from, to, packet })
        {
            self.count("relay_packets_dropped");
        }
    }

    /// A leaf of ours wants a packet passed on to a router that we have no link with: one is begun.
    /// False if that is no router.
    fn link_for_a_leaf(&mut self, now: Instant, to: MemberId) -> bool {
        let own = self.membership.certificate.member();
        if to == own || self.network.relay_rate() == 0 {
            return false;
        }
        match self.directory.cached(&to) {
            Some(router) if router.role() == Role::Router => self.link_to(now, &router),
            Some(_) => false,
            None if self.relaying.unresolved.len() < LOOKED_UP => {
                self.resolve_relay(to, None);
                true
            }
            None => false,
        }
    }

    /// Passes on what may leave now; true if there was anything.
    pub(super) fn pass_on(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(Passed { from, to, packet }) = self.relaying.queue.poll_transmit(now) {
            let message = LinkMessage::Relayed {
                from: (*from.as_bytes()).into(),
                packet: packet.into(),
            };
            match self.links.is_up(&to) && self.links.send_directly(now, &to, message) {
                true => self.count("relay_packets_passed_on"),
                false => self.count("relay_packets_dropped"),
            }
            moved = true;
        }
        moved
    }

    /// A packet has come through a router. Who has sent it is for the link to find out.
    pub(super) fn take_relayed(
        &mut self,
        now: Instant,
        parent: MemberId,
        from: MemberId,
        packet: &[u8],
    ) {
        let own = self.membership.certificate.member();
        let nested = !self.links.is_direct(&parent);
        if nested || from == own || from == parent || !self.has_role(&parent, Role::Router) {
            return self.count("relayed_packets_refused");
        }
        let path = Address::Relay(RelayAddress {
            parent,
            member: from,
        });
        self.links.handle_packet(now, path, packet);
    }
}
