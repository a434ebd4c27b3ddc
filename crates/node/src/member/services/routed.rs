//! Messages through the ring, from router to router: over a link of their own where they have met,
//! and by others where not, or where none can be had.
//!
//! The first byte of a message's body says what it is for.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use ringway_overlay::{Destination, Event, RingKey, RouteError, RouteId};
use ringway_transport::MemberId;
use tokio::sync::{mpsc, oneshot};

use crate::limits::RING_MESSAGES_UNREAD;
use crate::member::answer::{LookupFailed, answer};
use crate::member::core::Core;
use crate::member::counters::counters;
use crate::member::handle::MemberHandle;
use crate::member::service::Service;
use crate::state::StateError;

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

type Reply = oneshot::Sender<Result<Delivered, LookupFailed>>;

/// A message is to be sent through the ring.
#[derive(Debug)]
pub(in crate::member) struct Command {
    to: Destination,
    body: Vec<u8>,
    reply: Reply,
}

counters! {
    /// What this service counts.
    Counters {
        ring_messages_malformed,
        ring_messages_unread,
    }
}

/// Routed messages of this member that are under way, and where those of others go.
#[derive(Debug)]
pub(in crate::member) struct RoutedMessages {
    waiting: BTreeMap<RouteId, Reply>,
    inbox: mpsc::Sender<RingMessage>,
    counted: Counters,
}

impl MemberHandle {
    async fn through(&self, to: Destination, body: Vec<u8>) -> Result<Delivered, LookupFailed> {
        let answer = self.ask(|reply| Command { to, body, reply }).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }

    /// Sends a message through the ring that no program reads, to see whether it arrives.
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

impl RoutedMessages {
    /// Where messages of others arrive from now on.
    pub(in crate::member) fn open_inbox(&mut self) -> mpsc::Receiver<RingMessage> {
        let (inbox, arrived) = mpsc::channel(RING_MESSAGES_UNREAD);
        self.inbox = inbox;
        arrived
    }

    fn end(&mut self, id: &RouteId, outcome: Result<Delivered, LookupFailed>) {
        if let Some(reply) = self.waiting.remove(id) {
            answer(reply, outcome);
        }
    }

    fn take(&mut self, core: &Core, from: RingKey, body: &[u8]) {
        match body.split_first() {
            Some((&kind::PROBE, [])) => {}
            Some((&kind::APPLICATION, body)) => {
                let certificate = core.directory.cached_router(&from);
                let message = RingMessage {
                    from,
                    member: certificate.map(|certificate| certificate.member()),
                    body: Bytes::copy_from_slice(body),
                };
                if self.inbox.try_send(message).is_err() {
                    self.counted.ring_messages_unread += 1;
                }
            }
            _ => self.counted.ring_messages_malformed += 1,
        }
    }
}

impl Service for RoutedMessages {
    type Command = Command;

    fn start(_core: &mut Core) -> Result<RoutedMessages, StateError> {
        // No program reads it yet.
        let (inbox, _) = mpsc::channel(1);
        Ok(RoutedMessages {
            waiting: BTreeMap::new(),
            inbox,
            counted: Counters::default(),
        })
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        let Command { to, body, reply } = command;
        let Some(chord) = &mut core.chord else {
            return answer(reply, Err(LookupFailed::Leaf));
        };
        match chord.route(core.now, to, &body) {
            Ok(id) => drop(self.waiting.insert(id, reply)),
            Err(RouteError::NotMember) => answer(reply, Err(LookupFailed::NotInRing)),
            Err(error) => answer(reply, Err(LookupFailed::Overlay(error.to_string()))),
        }
    }

    fn on_ring(&mut self, core: &mut Core, event: &Event) {
        match event {
            Event::RouteDone {
                id,
                by,
                verified,
                tries,
                elapsed,
            } => {
                // Who has asked may have restarted: then nothing waits under this number.
                let delivered = Delivered {
                    by: *by,
                    verified: *verified,
                    ways: *tries,
                    elapsed: *elapsed,
                };
                self.end(id, Ok(delivered));
            }
            Event::RouteFailed { id, reason } => {
                self.end(id, Err(LookupFailed::Overlay(reason.to_string())));
            }
            Event::Routed { from, body, .. } => self.take(core, *from, body),
            _ => {}
        }
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
