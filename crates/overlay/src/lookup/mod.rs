//! Lookups: who owns a point of the ring.
//!
//! There are two kinds. A member with credentials uses [`verified`] lookups, which take nobody's
//! word alone. Everything else in this file and in `progress` is the plain lookup of Chord, for
//! members without credentials, for comparison, and to find out whether a ring knows this member at
//! all:
//!
//! A plain lookup asks one member after the other. Each answers with members closer before the
//! target, or, if it is the target's predecessor, with the owner and those who follow it. The owner
//! is pinged before it is reported, so that a dead one is skipped.
//!
//! It cannot loop: only members strictly between the answering one and the target become
//! candidates, none is asked twice, and at most [`MAX_HOPS`](crate::limits::MAX_HOPS) are asked. A
//! silent member costs one time limit: at the first repetition the next candidate is asked beside
//! it. When nobody is left to ask, the lookup begins again from this member's own pointers, at most
//! [`MAX_RESTARTS`](crate::limits::MAX_RESTARTS) times.

mod climb;
mod close;
mod paper;
mod progress;
mod verified;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crate::chord::Chord;
use crate::event::{Event, LookupError, LookupFailure, LookupId, RecordId, RouteId};
use crate::key::{Offset, RingKey, between};
use crate::limits::{JOIN_WAYS, MAX_CANDIDATES, MAX_CLOSER, MAX_LOOKUPS};
pub(crate) use crate::lookup::verified::DENSE;
use crate::lookup::verified::Verified;
use crate::message::{Message, RequestId};

/// Who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The caller.
    Caller,
    /// The finger table.
    Finger(Offset),
    /// The own group: who stands around this member, seen from elsewhere.
    Own,
    /// A message whose point's owner is wanted.
    Route(RouteId),
    /// This member itself, to find its place.
    Join,
    /// The members around a record's point.
    Record(RecordId),
    /// This member itself, to see whether a ring knows it.
    Probe,
    /// A random point, to compare what those around it say with what they say to each other.
    Audit,
}

impl Kind {
    /// Whether the lookup goes through the members it is given only, not through the own pointers.
    fn is_from_outside(self) -> bool {
        matches!(self, Kind::Join | Kind::Probe)
    }
}

/// How a member with credentials looks things up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// As Chord does: every answer is believed, if it is possible at all.
    Plain,
    /// As the paper does: every answer is checked with one other member of the answerer's group.
    Paper,
    /// See the crate's documentation: right as long as one honest member is asked at each step.
    #[default]
    Verified,
}

/// What one member can say about the way to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    /// The owner, and who owns the target if it is dead, and so on.
    Owners(Vec<RingKey>),
    /// Members closer before the target, the closest first.
    Closer(Vec<RingKey>),
}

/// One lookup under way.
#[derive(Debug)]
struct Lookup {
    kind: Kind,
    target: RingKey,
    started: Instant,
    deadline: Instant,
    /// When to begin again; none while it runs.
    wake: Option<Instant>,
    /// Members to ask without knowing where they stand: the bootstraps of a join.
    seeds: VecDeque<RingKey>,
    /// Members to ask, the closest before the target first.
    candidates: Vec<RingKey>,
    asked: BTreeSet<RingKey>,
    in_flight: usize,
    /// Who answered.
    hops: Vec<RingKey>,
    /// Who may be the owner, while that is being confirmed.
    owners: VecDeque<RingKey>,
    confirming: bool,
    /// Owners that were silent once. The second time, the next one is the owner.
    silent: BTreeSet<RingKey>,
    restarts: u32,
}

impl Lookup {
    fn add_candidates(&mut self, me: &RingKey, from: &RingKey, keys: &[RingKey]) -> usize {
        let mut added = 0;
        for key in keys {
            if key == me || !between(from, key, &self.target) {
                continue;
            }
            added += 1;
            if !self.asked.contains(key) && !self.candidates.contains(key) {
                self.candidates.push(*key);
            }
        }
        let target = self.target;
        self.candidates.sort_by_key(|key| key.distance_to(&target));
        self.candidates.truncate(MAX_CANDIDATES);
        added
    }

    /// The member to ask next: seeds until one answered, then the closest; suspects last.
    fn next_candidate(&mut self, suspect: impl Fn(&RingKey) -> bool) -> Option<RingKey> {
        if self.hops.is_empty() || self.candidates.is_empty() {
            while let Some(seed) = self.seeds.pop_front() {
                if !self.asked.contains(&seed) {
                    return Some(seed);
                }
            }
        }
        let place = self
            .candidates
            .iter()
            .position(|key| !suspect(key))
            .unwrap_or(0);
        (place < self.candidates.len()).then(|| self.candidates.remove(place))
    }
}

/// All lookups of one member.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    running: BTreeMap<LookupId, Lookup>,
    verified: BTreeMap<LookupId, Verified>,
    next: u64,
}

impl Lookups {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let times = self
            .running
            .values()
            .map(|l| l.wake.map_or(l.deadline, |w| w.min(l.deadline)));
        times
            .chain(self.verified.values().map(|l| l.deadline))
            .min()
    }

    fn count(&self, wanted: impl Fn(Kind) -> bool) -> usize {
        let plain = self.running.values().map(|lookup| lookup.kind);
        let verified = self.verified.values().map(|lookup| lookup.kind);
        plain.chain(verified).filter(|kind| wanted(*kind)).count()
    }
}

impl Chord {
    /// Starts to look up the owner of `target`: the member at it, or else the next one clockwise.
    /// The answer comes as the event `LookupDone` or `LookupFailed`, perhaps at once.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring, or 128 lookups run already.
    pub fn lookup(&mut self, now: Instant, target: RingKey) -> Result<LookupId, LookupError> {
        if !self.is_member() {
            return Err(LookupError::NotMember);
        }
        let running = self.lookups.count(|kind| kind == Kind::Caller);
        if running >= MAX_LOOKUPS {
            return Err(LookupError::TooMany(running));
        }
        Ok(match self.rule() {
            Rule::Plain => self.start_lookup(now, Kind::Caller, target, VecDeque::new()),
            Rule::Verified | Rule::Paper => {
                self.start_verified(now, Kind::Caller, target, Vec::new())
            }
        })
    }

    fn rule(&self) -> Rule {
        if self.credentials.is_some() {
            self.config.lookups
        } else {
            Rule::Plain
        }
    }

    pub(crate) fn start_finger_lookup(&mut self, now: Instant, offset: Offset, target: RingKey) {
        let kind = Kind::Finger(offset);
        if self.lookups.count(|kind| matches!(kind, Kind::Finger(_))) != 0 {
            return;
        }
        if self.credentials.is_some() {
            self.start_verified(now, kind, target, Vec::new());
        } else {
            self.start_lookup(now, kind, target, VecDeque::new());
        }
    }

    /// Looks up who stands around this member, from a random finger on.
    pub(crate) fn start_own_lookup(&mut self, now: Instant) {
        if self.lookups.count(|kind| kind == Kind::Own) == 0 {
            self.start_verified(now, Kind::Own, self.me, Vec::new());
        }
    }

    /// As a caller's lookup, which it must not differ from.
    pub(crate) fn start_audit(&mut self, now: Instant, point: RingKey) {
        if self.lookups.count(|kind| kind == Kind::Audit) == 0 {
            self.start_verified(now, Kind::Audit, point, Vec::new());
        }
    }

    pub(crate) fn start_join_lookup(&mut self, now: Instant, seeds: VecDeque<RingKey>) {
        if self.credentials.is_some() {
            let seeds = seeds.into_iter().take(JOIN_WAYS).collect();
            self.start_verified(now, Kind::Join, self.me, seeds);
        } else {
            self.start_lookup(now, Kind::Join, self.me, seeds);
        }
    }

    pub(crate) fn start_record_lookup(&mut self, now: Instant, id: RecordId, point: RingKey) {
        self.start_verified(now, Kind::Record(id), point, Vec::new());
    }

    pub(crate) fn start_route_lookup(&mut self, now: Instant, id: RouteId, point: RingKey) {
        if self.lookups.count(|kind| matches!(kind, Kind::Route(_))) >= MAX_LOOKUPS {
            return self.route_lookup_failed(id, LookupFailure::NoRoute);
        }
        self.start_verified(now, Kind::Route(id), point, Vec::new());
    }

    pub(crate) fn start_probe_lookup(&mut self, now: Instant, seeds: VecDeque<RingKey>) {
        if self.lookups.count(|kind| kind == Kind::Probe) != 0 {
            return;
        }
        if self.credentials.is_some() {
            self.start_verified(now, Kind::Probe, self.me, seeds.into());
        } else {
            let seeds = seeds.into_iter().take(1).collect();
            self.start_lookup(now, Kind::Probe, self.me, seeds);
        }
    }

    pub(crate) fn cancel_join_lookup(&mut self) {
        let joins = self
            .lookups
            .running
            .extract_if(.., |_, l| l.kind == Kind::Join);
        let verified = self
            .lookups
            .verified
            .extract_if(.., |_, l| l.kind == Kind::Join);
        for id in joins.map(|(id, _)| id).chain(verified.map(|(id, _)| id)) {
            self.requests.forget(|purpose| purpose.lookup() == Some(id));
        }
    }

    pub(crate) fn fail_all_lookups(&mut self, now: Instant, reason: LookupFailure) {
        let ids: Vec<LookupId> = self.lookups.running.keys().copied().collect();
        for id in ids {
            if let Some(Lookup {
                kind: Kind::Caller,
                target,
                ..
            }) = self.end_lookup(id)
            {
                self.emit(Event::LookupFailed { id, target, reason });
            }
        }
        let verified: Vec<LookupId> = self.lookups.verified.keys().copied().collect();
        for id in verified {
            self.fail_verified(now, id, reason);
        }
    }

    pub(crate) fn lookups_due(&mut self, now: Instant) {
        let due = |l: &Lookup| l.deadline <= now || l.wake.is_some_and(|wake| wake <= now);
        let lookups = self
            .lookups
            .running
            .iter()
            .filter(|(_, lookup)| due(lookup));
        let ids: Vec<LookupId> = lookups.map(|(id, _)| *id).collect();
        for id in ids {
            let late = self
                .lookups
                .running
                .get(&id)
                .is_some_and(|l| l.deadline <= now);
            if late {
                self.fail_lookup(now, id, LookupFailure::TimedOut);
            } else {
                self.begin(now, id);
            }
        }
        let verified = self.lookups.verified.iter();
        let late = verified.filter(|(_, lookup)| lookup.deadline <= now);
        let late: Vec<LookupId> = late.map(|(id, _)| *id).collect();
        for id in late {
            self.fail_verified(now, id, LookupFailure::TimedOut);
        }
    }

    pub(crate) fn answer_owner(
        &mut self,
        now: Instant,
        from: RingKey,
        id: RequestId,
        target: RingKey,
    ) {
        let answer = if !self.is_member() {
            Message::NotMember { id }
        } else {
            match self.towards(now, &target) {
                Towards::Owners(owners) => Message::Owner { id, owners },
                Towards::Closer(mut candidates) => {
                    candidates.truncate(MAX_CLOSER);
                    Message::Closer { id, candidates }
                }
            }
        };
        self.send(from, answer);
    }

    /// What this member, being in the ring, knows about the way to `target`.
    pub(crate) fn towards(&self, now: Instant, target: &RingKey) -> Towards {
        let Some(head) = self.ring.successors.first() else {
            return Towards::Owners(vec![self.me]);
        };
        if *target == self.me {
            return Towards::Owners(vec![self.me]);
        }
        if target == head || between(&self.me, target, head) {
            return Towards::Owners(self.ring.successors.clone());
        }
        let pointers = self
            .ring
            .successors
            .iter()
            .copied()
            .chain(self.fingers.keys());
        let mut closer: Vec<RingKey> = pointers
            .filter(|key| between(&self.me, key, target))
            .collect();
        closer.sort_by_key(|key| (self.peers.is_suspect(now, key), key.distance_to(target)));
        closer.dedup();
        Towards::Closer(closer)
    }

    /// Time after which a lookup fails, as things are.
    fn lookup_timeout(&self) -> Duration {
        self.config.lookup_timeout.mul_f64(self.doubt())
    }

    fn start_lookup(
        &mut self,
        now: Instant,
        kind: Kind,
        target: RingKey,
        seeds: VecDeque<RingKey>,
    ) -> LookupId {
        self.lookups.next = self.lookups.next.wrapping_add(1);
        let id = LookupId(self.lookups.next);
        let lookup = Lookup {
            kind,
            target,
            started: now,
            deadline: now + self.lookup_timeout(),
            wake: None,
            seeds,
            candidates: Vec::new(),
            asked: BTreeSet::new(),
            in_flight: 0,
            hops: Vec::new(),
            owners: VecDeque::new(),
            confirming: false,
            silent: BTreeSet::new(),
            restarts: 0,
        };
        self.lookups.running.insert(id, lookup);
        self.begin(now, id);
        id
    }
}
