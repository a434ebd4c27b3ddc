//! Messages that travel through the ring, from router to router, to a member or to the owner of a
//! point.
//!
//! A router that forwards one draws the next router at random from the group of the farthest finger
//! before the target, so that no router stands on every way between two others (`hop`). A message
//! crosses three times:
//!
//! 1. `Route` goes from hop to hop to its target (`pass`); its payload says who sends it.
//! 2. `Reached` comes back the same way: the receiver's answer, sealed for the sender, with a
//!    number of its own choice.
//! 3. `Confirm` goes there once more, sealed for the receiver, with that number. Only now is the
//!    message delivered (`arrive`).
//!
//! A receiver that is not confirmed asks again, at last directly, so that no router on the way can
//! keep a message from it whose sender believes that it has arrived. So the sender knows who has
//! it, and the receiver that the sender has sent it now: neither those on the way nor a message
//! that was recorded can deceive them. What is sent to a member is sealed for it. What is sent to a
//! point can be read by those on the way, because it is not known before whose it is. The member
//! that claims the point is believed: the answer says which of the two.
//!
//! What comes directly from its sender, as `Own`, and has not been held back, needs no more than
//! the link that it comes over: it is delivered at once, and `Delivered` tells the sender
//! (`direct`).
//!
//! A message that is not answered in time goes again by another group (`send`), and at last
//! directly to its receiver, who for a point is looked up first. Routers tell each other what they
//! have taken on if its answer takes long, so that a dead one is passed by at once; a router that
//! takes on messages whose answers do not come is chosen less. That is an opinion, and no evidence.
//!
//! Source: "Our Brothers' Keepers" §3.5, and §4.2 for the three crossings.

mod arrive;
mod direct;
mod hop;
pub(crate) mod outcome;
mod pass;
mod patience;
mod payload;
mod send;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::context::Cx;
use crate::group::Density;
use crate::key::RingKey;
use crate::known::Known;
use crate::limits::{MAX_KNOWN_PEERS, SILENT_TIME};
use crate::message::{Message, RequestId};

pub use outcome::{Destination, RouteError, RouteFailure};

use arrive::Arrivals;
use direct::{Clock, Delivered};
use hop::Preferences;
use pass::Forwards;
use patience::Patience;
use send::Outbox;

/// What is known of a member that has proved to be there once.
#[derive(Debug, Default)]
struct KnownPeer {
    /// What it told last of its time; 0 if nothing.
    clock: u64,
    /// It left a message unanswered: until then others are asked first.
    silent_until: Option<Instant>,
}

/// A message as one neighbour names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop {
    neighbour: RingKey,
    /// The neighbour's number for the message.
    number: RequestId,
}

/// A message as it comes from a neighbour.
#[derive(Debug)]
struct Inbound {
    previous: Hop,
    target: RingKey,
    hops_left: u8,
    /// Of its own messages the neighbour says what it was told last of this member's time.
    told: Option<u64>,
    payload: Vec<u8>,
}

/// An answer as it comes back from the neighbour that was handed the message.
#[derive(Debug)]
struct Reached {
    /// This member's number for the message.
    id: RequestId,
    /// The neighbour's number, for the confirmation.
    label: RequestId,
    /// The neighbour's time.
    clock: u64,
    payload: Vec<u8>,
}

/// All that is routed by, through and to one member.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    forwards: Forwards,
    outbox: Outbox,
    arrivals: Arrivals,
    delivered: Delivered,
    /// Members that have this member's certificate: it is not sent to them again.
    known_peers: BTreeMap<RingKey, KnownPeer>,
    clock: Clock,
    preferences: Preferences,
    /// As it was found last.
    density: Option<(Instant, Density)>,
    /// How long a neighbour takes to show that it has a message.
    hops: Patience,
    /// How long an answer takes.
    answers: Patience,
}

impl Routing {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let times = [
            self.forwards.next_due(),
            self.outbox.next_due(),
            self.arrivals.next_due(),
        ];
        times.into_iter().flatten().min()
    }

    /// This member's certificate has reached `member`, which has proven so.
    fn remember(&mut self, member: RingKey) {
        if self.known_peers.len() < MAX_KNOWN_PEERS {
            self.known_peers.entry(member).or_default();
        }
    }

    fn is_known_peer(&self, member: &RingKey) -> bool {
        self.known_peers.contains_key(member)
    }

    /// What `member` told last of its time.
    fn clock_of(&self, member: &RingKey) -> u64 {
        self.known_peers.get(member).map_or(0, |known| known.clock)
    }

    /// A member has answered over the link with it.
    fn note_direct_answer(&mut self, member: RingKey, clock: u64) {
        if let Some(known_peer) = self.known_peers.get_mut(&member) {
            known_peer.clock = clock;
            known_peer.silent_until = None;
        }
    }

    /// A member has left a message of this one unanswered: for a while others are asked first, and
    /// after a second time it is no acquaintance any more.
    fn was_silent(&mut self, now: Instant, member: &RingKey) {
        let Some(known_peer) = self.known_peers.get_mut(member) else {
            return;
        };
        match known_peer.silent_until {
            Some(until) if until <= now => self.forget(member),
            _ => known_peer.silent_until = Some(now + SILENT_TIME),
        }
    }

    /// `member` is in the ring no more.
    pub(crate) fn forget(&mut self, member: &RingKey) {
        self.known_peers.remove(member);
    }
}

impl Routing {
    pub(crate) fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        from: RingKey,
        message: Message,
    ) {
        if !cx.member || !cx.trust.has_credentials() {
            return;
        }
        match message {
            Message::Route {
                id,
                target,
                hops_left,
                payload,
            } => {
                let forward = Inbound {
                    previous: Hop {
                        neighbour: from,
                        number: id,
                    },
                    target,
                    hops_left,
                    told: None,
                    payload,
                };
                self.handle_inbound(cx, known, forward);
            }
            // Only the neighbour's own may be delivered at once.
            Message::Own {
                id,
                target,
                hops_left,
                clock,
                payload,
            } => {
                let forward = Inbound {
                    previous: Hop {
                        neighbour: from,
                        number: id,
                    },
                    target,
                    hops_left,
                    told: Some(clock),
                    payload,
                };
                self.handle_inbound(cx, known, forward);
            }
            Message::TakenOn { ids } => self.handle_accepted(cx, from, &ids),
            Message::Reached {
                id,
                label,
                clock,
                payload,
            } => {
                let reached = Reached {
                    id,
                    label,
                    clock,
                    payload,
                };
                self.handle_reached(cx, from, reached);
            }
            Message::Confirm { id, payload } => self.handle_confirm(cx, from, id, payload),
            Message::Delivered { id, clock } => self.delivered(cx, from, id, clock),
            _ => {}
        }
    }

    /// A message has come to this member, or on its way to another.
    fn handle_inbound(&mut self, cx: &mut Cx<'_>, known: Known<'_>, inbound: Inbound) {
        if !cx.peers.may_route(cx.now, inbound.previous.neighbour) {
            cx.out.counters.rate_limited += 1;
        } else if known.owns(&inbound.target) {
            self.arrived(cx, &inbound);
        } else {
            self.forward_inbound(cx, known, inbound);
        }
    }

    /// This member leaves: nothing that waits is waited for any more.
    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>) {
        self.fail_all_routes(cx, RouteFailure::Left);
        *self = Routing {
            outbox: std::mem::take(&mut self.outbox),
            // Links go on, and so does what may come over them.
            delivered: std::mem::take(&mut self.delivered),
            clock: std::mem::take(&mut self.clock),
            ..Routing::default()
        };
    }
}

/// Times in the order in which they come, each for one id. One that is done is dropped from the
/// front.
type Watch = VecDeque<(Instant, RequestId)>;
