//! Messages through the ring, from router to router: over a link of their own where they have met,
//! and by others where not, or where none can be had.
//!
//! The first byte of a message's body says what it is for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_overlay::{Destination, Event, RingKey, RouteError, RouteId};
use ringway_transport::MemberId;
use tokio::sync::{mpsc, oneshot};

use super::echo::answer;
use super::runtime::Runtime;
use super::{Command, LookupFailed, MemberHandle};
use crate::limits::RING_MESSAGES_UNREAD;

/// What a message through the ring is for.
mod kind {
    /// To be answered by the overlay, and for nothing else.
    pub(super) const PROBE: u8 = 0;
    /// For an application.
    pub(super) const APPLICATION: u8 = 1;
}

/// What became of a message through the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The router that has it.
    pub by: RingKey,
    /// Whether that is certainly who was meant; if not, it is a router that claims the point.
    pub verified: bool,
    /// How many ways it took.
    pub ways: u32,
    /// Time until its answer came.
    pub elapsed: Duration,
}

/// A message that has come through the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingMessage {
    /// The router that sent it.
    pub from: RingKey,
    /// The router's member, if its certificate is still at hand.
    pub member: Option<MemberId>,
    /// What it says.
    pub body: Bytes,
}

pub(super) type Reply = oneshot::Sender<Result<Delivered, LookupFailed>>;

/// Messages of this member that are under way, and where those of others go.
#[derive(Debug)]
pub(super) struct Through {
    waiting: BTreeMap<RouteId, Reply>,
    inbox: mpsc::Sender<RingMessage>,
}

impl Through {
    pub(super) fn new() -> (Through, mpsc::Receiver<RingMessage>) {
        let (inbox, arrived) = mpsc::channel(RING_MESSAGES_UNREAD);
        let through = Through {
            waiting: BTreeMap::new(),
            inbox,
        };
        (through, arrived)
    }
}

impl MemberHandle {
    async fn through(&self, to: Destination, body: Vec<u8>) -> Result<Delivered, LookupFailed> {
        let answer = self.ask(|reply| Command::Through { to, body, reply }).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }

    /// Sends a message through the ring that nobody reads, to see whether it arrives.
    pub(crate) async fn probe_through(&self, to: Destination) -> Result<Delivered, LookupFailed> {
        self.through(to, vec![kind::PROBE]).await
    }

    /// Sends an application's message through the ring.
    pub(crate) async fn send_through(
        &self,
        to: Destination,
        body: &[u8],
    ) -> Result<Delivered, LookupFailed> {
        self.through(to, [&[kind::APPLICATION], body].concat())
            .await
    }
}

impl Runtime {
    pub(super) fn send_through(
        &mut self,
        now: Instant,
        to: Destination,
        body: &[u8],
        reply: Reply,
    ) {
        let Some(chord) = &mut self.chord else {
            return answer(reply, Err(LookupFailed::Leaf));
        };
        match chord.route(now, to, body) {
            Ok(id) => drop(self.through.waiting.insert(id, reply)),
            Err(RouteError::NotMember) => answer(reply, Err(LookupFailed::NotInRing)),
            Err(error) => answer(reply, Err(LookupFailed::Overlay(error.to_string()))),
        }
    }

    /// Takes in what the overlay says about messages through the ring; false if it is about
    /// anything else.
    pub(super) fn take_through_event(&mut self, event: &Event) -> bool {
        match event {
            Event::RouteDone {
                id,
                by,
                verified,
                tries,
                elapsed,
            } => {
                let delivered = Delivered {
                    by: *by,
                    verified: *verified,
                    ways: *tries,
                    elapsed: *elapsed,
                };
                if let Some(reply) = self.through.waiting.remove(id) {
                    answer(reply, Ok(delivered));
                }
            }
            Event::RouteFailed { id, reason } => {
                if let Some(reply) = self.through.waiting.remove(id) {
                    answer(reply, Err(LookupFailed::Overlay(reason.to_string())));
                }
            }
            Event::Routed { from, body, .. } => self.came_through(*from, body),
            _ => return false,
        }
        true
    }

    fn came_through(&mut self, from: RingKey, body: &[u8]) {
        match body.split_first() {
            Some((&kind::PROBE, [])) => {}
            Some((&kind::APPLICATION, body)) => {
                let certificate = self.directory.cached_router(&from);
                let message = RingMessage {
                    from,
                    member: certificate.map(|certificate| certificate.member()),
                    body: Bytes::copy_from_slice(body),
                };
                if self.through.inbox.try_send(message).is_err() {
                    self.count("ring_messages_unread");
                }
            }
            _ => self.count("ring_messages_malformed"),
        }
    }
}
