//! What a caller may have a member do.

use std::collections::BTreeMap;
use std::time::Instant;

use rand::RngExt;

use super::Chord;
use crate::event::{
    LeaveRefused, LookupError, LookupFailure, LookupId, RecordId, RouteId, Snapshot,
};
use crate::finger::Finger;
use crate::key::{Offset, RingKey};
use crate::known::Known;
use crate::limits::{MAX_LOOKUPS, MAX_STATEMENT};
use crate::lookup::TooMany;
use crate::lookup::inquiry::{Asker, Inquiry, Rule};
use crate::message::Message;
use crate::news;
use crate::proof::Proof;
use crate::record::{Record, RecordError};
use crate::ring::Ring;
use crate::route::{Destination, RouteError};

impl Chord {
    /// Founds a ring of one, also instead of joining. Does nothing if this member is in a ring.
    pub fn start_ring(&mut self, now: Instant) {
        if self.ring.is_member() {
            return;
        }
        self.lookups.cancel(&mut cx!(self, now), Asker::Place);
        self.ring.found(&mut cx!(self, now));
        self.settle(now);
    }

    /// Joins the ring that one of `bootstraps` is in. They are tried in random order until one
    /// answers, and again and again with pauses of 0.2 s to 5 s. The event `Joined` tells the end.
    ///
    /// At most 64 bootstraps are used. For a member of a ring, they are only remembered.
    pub fn join(&mut self, now: Instant, bootstraps: &[RingKey]) {
        if !self.ring.is_member() {
            self.lookups.cancel(&mut cx!(self, now), Asker::Place);
        }
        self.ring.join(&mut cx!(self, now), bootstraps);
    }

    /// Joins again after a crash, through the members that were persisted. The ring may still point
    /// to this member from before: then it takes its old place at once.
    ///
    /// If no member of a ring answers for about 10 s, this member founds a ring of one: perhaps all
    /// were restarted at once. Rings that arise in this way find each other and become one.
    pub fn resume(&mut self, now: Instant, known: &[RingKey]) {
        self.join(now, known);
        self.ring.resume(&mut cx!(self, now));
    }

    /// Has this member sign its views in the form that builds of release 0.2 read, while such are
    /// near it: they take no other router for a neighbour. Such views prove nothing against it; all
    /// else is the same.
    pub fn sign_earlier_views(&mut self, now: Instant, earlier: bool) {
        self.neighbours.set_earlier(&cx!(self, now), earlier);
        self.settle(now);
    }

    /// Starts to look up the owner of `target`: the member at it, or else the next one clockwise.
    /// The answer comes as the event `LookupDone` or `LookupFailed`, perhaps at once.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring, or 128 lookups of the caller run already.
    pub fn lookup(&mut self, now: Instant, target: RingKey) -> Result<LookupId, LookupError> {
        if !self.ring.is_member() {
            return Err(LookupError::NotMember);
        }
        let rule = if self.shared.trust.has_credentials() {
            self.shared.config.lookups
        } else {
            Rule::Plain
        };
        let inquiry = Inquiry::new(Asker::Caller, target, rule).at_most(MAX_LOOKUPS);
        let started = self
            .lookups
            .start(&mut cx!(self, now), known!(self), inquiry);
        self.settle(now);
        started.map_err(|TooMany(running)| LookupError::TooMany(running))
    }

    /// Leaves a record with the members around its point. The answer comes as the event
    /// `RecordStored` or `RecordFailed`.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring or has no credentials, when the record is not one that
    /// others would keep, or when 128 operations run.
    pub fn put(&mut self, now: Instant, record: Record) -> Result<RecordId, RecordError> {
        let id = self.operations.put(&mut cx!(self, now), record);
        self.settle(now);
        id
    }

    /// Looks for the newest record at `point` ([`Record::point`]). The answer comes as the event
    /// `RecordFound` or `RecordFailed`.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn get(&mut self, now: Instant, point: RingKey) -> Result<RecordId, RecordError> {
        let id = self.operations.get(&mut cx!(self, now), point);
        self.settle(now);
        id
    }

    /// Leaves the ring at once, and tells the neighbours.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring, or does not know r + 1 others: the ring must keep r + 1
    /// principals. It cannot know whether others leave at the same time, nor whether those it knows
    /// are principals; two members must therefore not be told to leave a small ring at once.
    pub fn leave(&mut self, now: Instant) -> Result<(), LeaveRefused> {
        if !self.ring.is_member() {
            return Err(LeaveRefused::NotMember);
        }
        let others = self.ring.pointers().keys().chain(self.neighbours.keys());
        let mut others: Vec<RingKey> = others.chain(self.fingers.keys()).collect();
        others.sort_unstable();
        others.dedup();
        let needed = self.shared.config.successors.saturating_add(1);
        if others.len() < needed {
            let left = others.len();
            return Err(LeaveRefused::TooFewMembers { left, needed });
        }
        for key in others {
            self.shared.out.send(key, Message::Leaving);
        }
        self.ring = Ring::new(self.shared.me);
        self.fingers.stop();
        self.neighbours.stop();
        self.shared.trust.forget_ended_views();
        self.audits.stop();
        self.keeping.stop();
        // A part that waits for a lookup is notified of its end before its own work is ended.
        let cx = &mut cx!(self, now);
        self.lookups.fail_all(cx, LookupFailure::Left);
        self.settle(now);
        self.operations
            .fail_all(&mut cx!(self, now), LookupFailure::Left);
        self.tallies
            .fail_all(&mut cx!(self, now), LookupFailure::Left);
        self.routing.stop(&mut cx!(self, now));
        self.shared.requests.forget(|_| true);
        Ok(())
    }

    /// Tells everybody a statement of the ring's owner that this member has learned elsewhere.
    /// False if it is too long to be told so.
    pub fn spread(&mut self, statement: &[u8]) -> bool {
        if statement.len() > MAX_STATEMENT {
            return false;
        }
        if self.ring.is_member() {
            let keys = known!(self).near_and_far(&mut self.shared.rng);
            news::spread(&mut self.shared.out, keys.into_iter(), statement);
        }
        true
    }

    /// Takes in what was proven before this start, so that it need not be proven again. What is no
    /// proof changes nothing.
    pub fn recall(&mut self, now: Instant, proof: Proof) {
        self.witness.recall(&mut cx!(self, now), proof);
        self.settle(now);
    }

    /// Puts the member into the ring at the place that `state` describes, with these fingers, as if
    /// it had been there for long. For simulations of rings that are too large to be formed one
    /// by one.
    pub fn restore(
        &mut self,
        now: Instant,
        state: &Snapshot,
        fingers: Vec<(Offset, Vec<RingKey>)>,
    ) {
        let (predecessor, successors) = (state.predecessor, state.successors.clone());
        let cx = &mut cx!(self, now);
        self.ring.become_member(cx, predecessor, successors);
        self.settle(now);
        let fingers = fingers.into_iter().filter(|(_, group)| !group.is_empty());
        let fingers = fingers.map(|(offset, group)| Finger::new(offset, group, BTreeMap::new()));
        // As if they had been looked up at different times.
        let next = now
            + self
                .shared
                .config
                .finger_interval
                .mul_f64(self.shared.rng.random());
        self.fingers.restore(fingers.collect(), next);
    }

    /// Sends `body` through the ring. What becomes of it comes as the event `RouteDone` or
    /// `RouteFailed`; the receiver gets the event `Routed`.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring or has no credentials, when the receiver is this member
    /// or its certificate is not at hand, when the body has more than 400 bytes, or when 4 096
    /// messages are under way.
    pub fn route(
        &mut self,
        now: Instant,
        to: Destination,
        body: &[u8],
    ) -> Result<RouteId, RouteError> {
        let id = self
            .routing
            .route(&mut cx!(self, now), known!(self), to, body);
        self.settle(now);
        id
    }
}
