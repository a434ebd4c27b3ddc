//! Plain lookups, as Chord has them.
//!
//! A plain lookup asks one member after the other. Each answers with members closer before the
//! target, or, if it is the target's predecessor, with the owner and those who follow it. The owner
//! is pinged before it is reported, so that a dead one is skipped. A lookup from outside ends with
//! the first member that claims to be the predecessor.
//!
//! It cannot loop: only members strictly between the answering one and the target become
//! candidates, none is asked twice, and at most [`MAX_HOPS`] are asked. A silent member costs one
//! time limit: at the first repetition the next candidate is asked beside it. When no candidate is
//! left to ask, the lookup begins again from this member's own pointers, at most [`MAX_RESTARTS`]
//! times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use super::answer::{Towards, towards};
use super::inquiry::{Around, Asker, Found, Inquiry, LookupEnd, Origin};
use crate::context::Cx;
use crate::effect::Effect;
use crate::event::{LookupFailure, LookupId};
use crate::key::{RingKey, between};
use crate::known::Known;
use crate::limits::{LOOKUP_PARALLEL, MAX_CANDIDATES, MAX_HOPS, MAX_RESTARTS};
use crate::message::Message;
use crate::request::Purpose;

/// One lookup under way.
#[derive(Debug)]
struct Lookup {
    asker: Asker,
    /// Whether it goes through the members it is given only, not through the own pointers.
    outside: bool,
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
        let trusted = self.candidates.iter().position(|key| !suspect(key));
        let index = trusted.unwrap_or(0);
        (index < self.candidates.len()).then(|| self.candidates.remove(index))
    }
}

/// All plain lookups of one member.
#[derive(Debug, Default)]
pub(super) struct PlainLookups {
    running: BTreeMap<LookupId, Lookup>,
}

impl PlainLookups {
    pub(super) fn next_due(&self) -> Option<Instant> {
        let running = self.running.values();
        let times = running.map(|l| l.wake.map_or(l.deadline, |wake| wake.min(l.deadline)));
        times.min()
    }

    pub(super) fn askers(&self) -> impl Iterator<Item = Asker> {
        self.running.values().map(|lookup| lookup.asker)
    }

    pub(super) fn start(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        inquiry: Inquiry,
    ) {
        let outside = inquiry.origin.is_outside();
        let seeds = match inquiry.origin {
            Origin::Members(seeds) => VecDeque::from(seeds),
            Origin::Own | Origin::AnyFinger | Origin::Finger(_) => VecDeque::new(),
        };
        let lookup = Lookup {
            asker: inquiry.asker,
            outside,
            target: inquiry.target,
            started: cx.now,
            deadline: cx.now + cx.lookup_timeout(),
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
        self.running.insert(id, lookup);
        self.begin(cx, known, id);
    }

    /// Takes out those of askers like this one.
    pub(super) fn take_of(&mut self, asker: Asker) -> Vec<LookupId> {
        let alike = self.running.extract_if(.., |_, l| l.asker.is_like(asker));
        alike.map(|(id, _)| id).collect()
    }

    pub(super) fn fail_all(&mut self, cx: &mut Cx<'_>, reason: LookupFailure) {
        let ids: Vec<LookupId> = self.running.keys().copied().collect();
        for id in ids {
            self.fail(cx, id, reason);
        }
    }

    /// Those whose time is over, or that begin again.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = LookupId> {
        let due = move |l: &Lookup| l.deadline <= now || l.wake.is_some_and(|wake| wake <= now);
        let running = self.running.iter();
        running.filter(move |(_, l)| due(l)).map(|(id, _)| *id)
    }

    pub(super) fn handle_due(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        let Some(lookup) = self.running.get(&id) else {
            return;
        };
        if lookup.deadline <= cx.now {
            self.fail(cx, id, LookupFailure::TimedOut);
        } else {
            self.begin(cx, known, id);
        }
    }

    /// Begins a lookup, for the first time or again, from this member's own pointers.
    fn begin(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        let me = cx.me;
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        let target = lookup.target;
        lookup.wake = None;
        // Ring maintenance may have changed the way meanwhile: all may be asked again.
        lookup.asked.clear();
        lookup.candidates.clear();
        lookup.hops.clear();
        lookup.confirming = false;
        lookup.in_flight = 0;
        cx.requests.forget(|purpose| purpose.lookup() == Some(id));
        if lookup.outside {
            return self.step(cx, id);
        }
        let predecessor = known.pointers.predecessor;
        let mine = predecessor.is_some_and(|key| between(&key, &target, &me));
        if mine || target == me {
            return self.done(cx, id, me, None);
        }
        match towards(cx, known, &target) {
            Towards::Owners(owners) => self.confirm(cx, id, owners),
            Towards::Closer(closer) => {
                lookup.add_candidates(&me, &me, &closer);
                self.step(cx, id);
            }
        }
    }

    /// Asks one more member, if the lookup may. Without anybody to ask or to wait for, it begins
    /// again.
    pub(super) fn step(&mut self, cx: &mut Cx<'_>, id: LookupId) {
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        if lookup.confirming || lookup.wake.is_some() || lookup.in_flight >= LOOKUP_PARALLEL {
            return;
        }
        let may_ask = lookup.asked.len() < MAX_HOPS && cx.requests.has_room();
        let next = if may_ask {
            lookup.next_candidate(|key| cx.is_suspect(key))
        } else {
            None
        };
        match next {
            Some(next) => {
                lookup.asked.insert(next);
                lookup.in_flight += 1;
                let target = lookup.target;
                cx.request(next, Purpose::Hop(id), |id| Message::FindOwner {
                    id,
                    target,
                });
            }
            // While somebody is still to answer the way is not lost.
            None if lookup.in_flight == 0 => self.begin_again(cx, id),
            None => {}
        }
    }

    /// A member says who is closer, or who the owner is; or it is silent.
    pub(super) fn hop_answered(
        &mut self,
        cx: &mut Cx<'_>,
        id: LookupId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let me = cx.me;
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        lookup.in_flight = lookup.in_flight.saturating_sub(1);
        let is_member = matches!(answer, Some(Message::Closer { .. } | Message::Owner { .. }));
        // From outside no member is known to be in a ring before the first answer.
        if lookup.outside && is_member {
            cx.effect(Effect::RingSeen);
        }
        match answer {
            Some(Message::Closer { candidates, .. }) => {
                lookup.hops.push(from);
                if lookup.add_candidates(&me, &from, &candidates) == 0 {
                    cx.count_malformed();
                }
            }
            Some(Message::Owner { owners, .. }) => return self.owners_named(cx, id, from, owners),
            Some(_) => cx.effect(Effect::NotInRing(from)),
            None => {}
        }
        self.step(cx, id);
    }

    /// The member `from` says that it is the target's predecessor, and who follows it.
    fn owners_named(&mut self, cx: &mut Cx<'_>, id: LookupId, from: RingKey, owners: Vec<RingKey>) {
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        let claimed = owners.first().copied();
        let Some(owner) = claimed.filter(|owner| may_own(&from, &lookup.target, owner)) else {
            cx.count_malformed();
            return self.step(cx, id);
        };
        lookup.hops.push(from);
        if lookup.outside {
            self.done(cx, id, owner, Some(from));
        } else if !lookup.confirming {
            self.confirm(cx, id, owners);
        }
    }

    /// Takes the first of `owners` that lives as the owner.
    fn confirm(&mut self, cx: &mut Cx<'_>, id: LookupId, owners: Vec<RingKey>) {
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        lookup.owners = VecDeque::from(owners);
        lookup.confirming = true;
        lookup.wake = None;
        self.confirm_next(cx, id);
    }

    fn confirm_next(&mut self, cx: &mut Cx<'_>, id: LookupId) {
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        match lookup.owners.pop_front() {
            Some(owner) if owner == cx.me => self.done(cx, id, owner, None),
            Some(owner) => cx.request(owner, Purpose::Confirm(id), |id| Message::Ping { id }),
            None => self.begin_again(cx, id),
        }
    }

    /// The owner answers a ping, or does not. It may be dead, or its messages lost: the way is
    /// asked once more, since the ring finds out about the dead meanwhile. Silent for the second
    /// time, it counts as dead.
    pub(super) fn owner_answered(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        match answer {
            Some(Message::Pong { member: true, .. }) => self.done(cx, id, from, None),
            None if lookup.silent.insert(from) => self.begin(cx, known, id),
            _ => self.confirm_next(cx, id),
        }
    }

    fn begin_again(&mut self, cx: &mut Cx<'_>, id: LookupId) {
        let pause = cx.jittered(cx.timeout());
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        lookup.restarts = lookup.restarts.saturating_add(1);
        if lookup.outside || lookup.restarts > MAX_RESTARTS {
            return self.fail(cx, id, LookupFailure::NoRoute);
        }
        lookup.wake = Some(cx.now + pause);
    }

    /// `claimed_by`: who says that it is the target's predecessor, if no other confirmed it.
    fn done(&mut self, cx: &mut Cx<'_>, id: LookupId, owner: RingKey, claimed_by: Option<RingKey>) {
        let Some(lookup) = self.take(cx, id) else {
            return;
        };
        let found = Found {
            owner,
            questions: u32::try_from(lookup.hops.len()).unwrap_or(u32::MAX),
            hops: lookup.hops,
            elapsed: cx.now.saturating_duration_since(lookup.started),
            around: Around::Claimed(claimed_by),
        };
        cx.effect(Effect::LookupEnded(Box::new(LookupEnd {
            id,
            asker: lookup.asker,
            target: lookup.target,
            result: Ok(found),
        })));
    }

    fn fail(&mut self, cx: &mut Cx<'_>, id: LookupId, reason: LookupFailure) {
        let Some(lookup) = self.take(cx, id) else {
            return;
        };
        cx.effect(Effect::LookupEnded(Box::new(LookupEnd {
            id,
            asker: lookup.asker,
            target: lookup.target,
            result: Err(reason),
        })));
    }

    /// Forgets a lookup and its open requests.
    fn take(&mut self, cx: &mut Cx<'_>, id: LookupId) -> Option<Lookup> {
        cx.requests.forget(|purpose| purpose.lookup() == Some(id));
        self.running.remove(&id)
    }
}

/// Whether `from` can be the predecessor of `target` and `owner` its successor: the target lies
/// after the one, up to the other. A member that names itself says that it is alone, or the target.
fn may_own(from: &RingKey, target: &RingKey, owner: &RingKey) -> bool {
    target == owner || between(from, target, owner)
}
