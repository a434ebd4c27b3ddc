//! Packets for members that cannot be dialled: a router with a link to such a member passes them
//! on.
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
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use ringway_transport::{Address, MemberId, RelayAddress, limits::RELAY_MTU};

use self::queue::{Passed, RelayQueue};
use crate::certificate::{Certificate, Role};
use crate::limits::{LOOKED_UP, UNRESOLVED, UNRESOLVED_MESSAGES};
use crate::link::LinkMessage;
use crate::member::core::{Core, Outcome, Signal};
use crate::member::counters::counters;
use crate::member::service::{Handled, Service};
use crate::state::StateError;

counters! {
    /// What this service counts.
    Counters {
        relay_over_relay_refused,
        relay_packets_dropped,
        relay_packets_passed_on,
        relay_packets_refused,
        relayed_packets_refused,
        relays_unknown,
        relays_unreachable,
        relays_unresolved_dropped,
    }
}

/// What is on its way through others, or through us.
#[derive(Debug)]
pub(in crate::member) struct Relay {
    queue: RelayQueue,
    /// Messages for routers whose certificates are being looked for.
    unresolved: BTreeMap<MemberId, Vec<LinkMessage>>,
    counted: Counters,
}

impl Relay {
    /// Sends a packet of a link by way of a router; makes a link with the router first where there
    /// is none.
    pub(in crate::member) fn send(
        &mut self,
        core: &mut Core,
        relay: RelayAddress,
        packet: Vec<u8>,
    ) {
        let RelayAddress { parent, member } = relay;
        let message = LinkMessage::Relay {
            to: (*member.as_bytes()).into(),
            packet: packet.into(),
        };
        if core.links.knows(&parent) {
            if !core.links.send_directly(core.now, &parent, message) {
                self.counted.relay_over_relay_refused += 1;
            }
            return;
        }
        // What waits for the link with the router leaves once that is up.
        match core.directory.cached(&parent) {
            Some(certificate) => self.send_to_relay(core, &certificate, vec![message]),
            None => self.resolve(core, parent, Some(message)),
        }
    }

    fn send_to_relay(&mut self, core: &mut Core, parent: &Certificate, messages: Vec<LinkMessage>) {
        if parent.role() != Role::Router || !core.link_to(parent) {
            self.counted.relays_unreachable += 1;
            return;
        }
        for message in messages {
            core.links
                .send_directly(core.now, &parent.member(), message);
        }
    }

    fn resolve(&mut self, core: &Core, parent: MemberId, message: Option<LinkMessage>) {
        let unresolved = &mut self.unresolved;
        if let Some(messages) = unresolved.get_mut(&parent) {
            if messages.len() < UNRESOLVED_MESSAGES {
                messages.extend(message);
            }
            return;
        }
        if unresolved.len() >= UNRESOLVED {
            self.counted.relays_unresolved_dropped += 1;
            return;
        }
        // DNS may take seconds, for which this task does not wait.
        unresolved.insert(parent, message.into_iter().collect());
        let directory = Arc::clone(&core.directory);
        let outcomes = core.outcomes.clone();
        tokio::spawn(async move {
            let found = directory.find(&parent.to_string()).await;
            if let Err(error) = &found {
                tracing::info!(%error, "a relay could not be looked up");
            }
            let outcome = Outcome::MemberResolved(parent, found.ok().map(Box::new));
            if outcomes.send(outcome).await.is_err() {
                tracing::debug!("the member's task has ended");
            }
        });
    }

    fn resolved(&mut self, core: &mut Core, parent: &MemberId, certificate: Option<&Certificate>) {
        let messages = self.unresolved.remove(parent);
        let (Some(messages), Some(certificate)) = (messages, certificate) else {
            self.counted.relays_unknown += 1;
            return;
        };
        self.send_to_relay(core, certificate, messages);
    }

    /// We are asked to pass a packet on.
    fn take(&mut self, core: &mut Core, passed: Passed) {
        let Passed { from, to, packet } = &passed;
        let refused = core.chord.is_none() || packet.len() > RELAY_MTU || from == to;
        if refused || !core.links.is_direct(from) {
            self.counted.relay_packets_refused += 1;
            return;
        }
        let from_a_leaf = core.is_leaf(from);
        if from_a_leaf && !core.links.is_up(to) && self.link_for_a_leaf(core, *to) {
            // The leaf's handshake repeats itself.
            self.counted.relay_packets_dropped += 1;
            return;
        }
        // There is no relaying over a relay, and none between routers.
        if !core.links.is_direct(to) || !(from_a_leaf || core.is_leaf(to)) {
            self.counted.relay_packets_refused += 1;
            return;
        }
        if !self.queue.handle_packet(passed) {
            self.counted.relay_packets_dropped += 1;
        }
    }

    /// A leaf of ours wants a packet passed on to a router that we have no link with: one is begun.
    /// False if that is no router.
    fn link_for_a_leaf(&mut self, core: &mut Core, to: MemberId) -> bool {
        if to == core.me() || core.network.relay_rate() == 0 {
            return false;
        }
        match core.directory.cached(&to) {
            Some(router) if router.role() == Role::Router => core.link_to(&router),
            Some(_) => false,
            None if self.unresolved.len() < LOOKED_UP => {
                self.resolve(core, to, None);
                true
            }
            None => false,
        }
    }

    /// A packet has come through a router. Who has sent it is for the link to find out.
    fn take_relayed(&mut self, core: &mut Core, parent: MemberId, from: MemberId, packet: &[u8]) {
        let nested = !core.links.is_direct(&parent);
        let looped = from == core.me() || from == parent;
        if nested || looped || !core.has_role(&parent, Role::Router) {
            self.counted.relayed_packets_refused += 1;
            return;
        }
        let path = Address::Relay(RelayAddress {
            parent,
            member: from,
        });
        core.links.handle_packet(core.now, path, packet);
    }

    /// Passes on what may leave now.
    fn pass_on(&mut self, core: &mut Core) {
        let now = core.now;
        // The user may have changed it.
        self.queue.set_rate(core.network.relay_rate());
        while let Some(Passed { from, to, packet }) = self.queue.poll_transmit(now) {
            let message = LinkMessage::Relayed {
                from: (*from.as_bytes()).into(),
                packet: packet.into(),
            };
            if core.links.is_up(&to) && core.links.send_directly(now, &to, message) {
                self.counted.relay_packets_passed_on += 1;
            } else {
                self.counted.relay_packets_dropped += 1;
            }
        }
    }
}

impl Service for Relay {
    type Command = Infallible;

    /// Passes on at most as many bytes per second as configured; 0 is nothing.
    fn start(core: &mut Core) -> Result<Relay, StateError> {
        Ok(Relay {
            queue: RelayQueue::new(core.network.relay_rate()),
            unresolved: BTreeMap::new(),
            counted: Counters::default(),
        })
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        match message {
            LinkMessage::Relay { to, packet } => {
                let passed = Passed {
                    from: member,
                    to: MemberId::new(**to),
                    packet: std::mem::take(&mut **packet),
                };
                self.take(core, passed);
            }
            LinkMessage::Relayed { from, packet } => {
                self.take_relayed(core, member, MemberId::new(**from), packet);
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }

    fn on_signal(&mut self, core: &mut Core, signal: &Signal) {
        if let Signal::MemberResolved {
            member,
            certificate,
        } = signal
        {
            self.resolved(core, member, certificate.as_deref());
        }
    }

    fn on_room(&mut self, core: &mut Core) {
        self.pass_on(core);
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
