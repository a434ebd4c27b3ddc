//! Verified lookups: right as long as one honest member is asked at each step.
//!
//! A lookup never takes one member's word. It goes along points that *this* member computes, from
//! its own key to the target, each step by the largest finger offset that does not pass the target.
//! At each step it holds a group around the point that it has reached:
//!
//! 1. The first group is the own finger's ([`Chord::begin_way`]).
//! 2. Three random members of the group are asked whom they know around the next point; of all that
//!    they name, the g nearest certified members are the next group. If these stand too far apart,
//!    others may have been left out, and three more are asked (`climb`).
//! 3. At the target all members of the group are asked for their signed views, and whoever is
//!    nearer is asked too, until nobody new appears. The first member at or after the target that
//!    has answered is the owner (`close`).
//! 4. If the last group is as dense as the ring, that is the result. If not, the lookup takes
//!    another way with more askers, adds what it finds there, and accepts a result that does not
//!    change. After three ways the result is given as unverified.
//!
//! Liars can hide honest members from a step only if all that are asked lie, and from the end only
//! if no honest member near the target is named by anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rand::seq::IndexedRandom;

use crate::chord::Chord;
use crate::credentials::Standing;
use crate::event::{Event, LookupFailure, LookupId};
use crate::group::Density;
use crate::key::{Offset, RingKey, between};
use crate::limits::{MAX_HOPS, MAX_WAYS};
use crate::lookup::{Kind, Rule};
use crate::message::Message;
use crate::request::Purpose;
use crate::view::SignedHeader;

/// A last group up to so much wider than expected is accepted at once.
/// Source: chosen; 12 % of honest groups of nine are wider (a gamma distribution of nine spacings),
/// and 98 % of groups of colluders at 30 % of all.
pub(crate) const DENSE: f64 = 1.4;

/// A last group up to so much wider is accepted if another way found the same.
const PASSABLE: f64 = 2.2;

/// A step's group that is wider than this makes the step ask more members.
pub(super) const SPARSE: f64 = 1.7;

/// Members asked at once in a step of the first way, and of further ways.
const ASKERS: [usize; 2] = [3, 5];

/// What a lookup does at the moment.
#[derive(Debug)]
pub(super) enum Stage {
    /// Asks members around `base` whom they know around `point`.
    Climb {
        /// The point to reach.
        point: RingKey,
        /// Whom one may ask.
        group: Vec<RingKey>,
        /// How many answers are enough.
        wanted: usize,
        /// How many came.
        answers: usize,
    },
    /// Asks the members around the target for their views.
    Close,
}

/// One verified lookup under way.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(super) kind: Kind,
    pub(super) by_the_paper: bool,
    pub(super) target: RingKey,
    pub(super) started: Instant,
    pub(super) deadline: Instant,
    pub(super) stage: Stage,
    /// How many ways have been begun.
    pub(super) ways: usize,
    /// Members to begin at, for one who is outside the ring: one for each way.
    pub(super) seeds: Vec<RingKey>,
    /// Asked in this step, or, while closing, in all.
    pub(super) asked: BTreeSet<RingKey>,
    /// Asked, and not answered so far.
    pub(super) waiting: BTreeSet<RingKey>,
    /// Those of them whose answers are late.
    pub(super) slow: BTreeSet<RingKey>,
    /// Named in this step, or, while closing, in all, and by whom first.
    pub(super) named: BTreeMap<RingKey, RingKey>,
    /// Near the target, of all ways so far.
    pub(super) near: BTreeMap<RingKey, RingKey>,
    /// Answered with a view near the target.
    pub(super) present: BTreeSet<RingKey>,
    /// The numbers of views near the target: of those that came, and of those that a finger was
    /// made from.
    pub(super) numbers: BTreeMap<RingKey, u64>,
    /// What those near the target said, signed.
    pub(super) said: Vec<SignedHeader>,
    /// Near the target, and silent or not in the ring.
    pub(super) absent: BTreeSet<RingKey>,
    /// Keys that have to be proven before the step can go on.
    pub(super) unproven: BTreeSet<RingKey>,
    /// What each member that answered at this step named, for the paper's rule.
    pub(super) claims: Vec<Vec<RingKey>>,
    /// The group that the way before this one ended with.
    pub(super) last: Option<Vec<RingKey>>,
    /// Spacings of the groups met on the way, for one who has no fingers to compare with.
    pub(super) spacings: Vec<f64>,
    /// Who answered first at each step of the present way.
    hops: Vec<RingKey>,
    /// Whether nobody has answered at the present step so far.
    unanswered: bool,
    /// Questions asked so far.
    pub(super) questions: u32,
}

impl Verified {
    pub(super) fn askers(&self) -> usize {
        if self.by_the_paper {
            return 2;
        }
        ASKERS[usize::from(self.ways > 1)]
    }

    pub(super) fn asks(&mut self, key: RingKey) {
        self.asked.insert(key);
        self.waiting.insert(key);
        self.questions = self.questions.saturating_add(1);
    }

    pub(super) fn waits_no_more(&mut self, key: &RingKey) {
        self.waiting.remove(key);
        self.slow.remove(key);
    }

    pub(super) fn answered(&mut self, by: RingKey) {
        if std::mem::take(&mut self.unanswered) {
            self.hops.push(by);
        }
    }

    /// How many are expected to answer soon.
    pub(super) fn expected(&self) -> usize {
        self.waiting.len().saturating_sub(self.slow.len())
    }

    fn forgets_whom_it_waits_for(&mut self) {
        self.waiting.clear();
        self.slow.clear();
        self.unproven.clear();
        self.unanswered = true;
    }

    pub(super) fn begins_step(&mut self, stage: Stage) {
        self.stage = stage;
        self.asked.clear();
        self.named.clear();
        self.claims.clear();
        self.forgets_whom_it_waits_for();
    }

    pub(super) fn begins_to_close(&mut self, me: Option<RingKey>) {
        self.stage = Stage::Close;
        self.forgets_whom_it_waits_for();
        self.named = self.near.clone();
        self.present.extend(me);
        // Whoever was asked on the way was asked another question.
        self.asked = self.present.union(&self.absent).copied().collect();
    }
}

impl Chord {
    /// Starts a verified lookup. `seeds` is where to begin from outside the ring.
    pub(super) fn start_verified(
        &mut self,
        now: Instant,
        kind: Kind,
        target: RingKey,
        seeds: Vec<RingKey>,
    ) -> LookupId {
        self.lookups.next = self.lookups.next.wrapping_add(1);
        let id = LookupId(self.lookups.next);
        let lookup = Verified {
            kind,
            by_the_paper: kind == Kind::Caller && self.config.lookups == Rule::Paper,
            target,
            started: now,
            deadline: now + self.lookup_timeout(),
            stage: Stage::Close,
            ways: 0,
            seeds,
            asked: BTreeSet::new(),
            waiting: BTreeSet::new(),
            slow: BTreeSet::new(),
            named: BTreeMap::new(),
            near: BTreeMap::new(),
            present: BTreeSet::new(),
            numbers: BTreeMap::new(),
            said: Vec::new(),
            absent: BTreeSet::new(),
            unproven: BTreeSet::new(),
            claims: Vec::new(),
            last: None,
            spacings: Vec::new(),
            hops: Vec::new(),
            unanswered: true,
            questions: 0,
        };
        self.lookups.verified.insert(id, lookup);
        self.begin_way(now, id);
        id
    }

    /// Begins a way to the target, the first or another one.
    pub(super) fn begin_way(&mut self, now: Instant, id: LookupId) {
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        lookup.ways = lookup.ways.saturating_add(1);
        lookup.hops.clear();
        let (kind, target, ways) = (lookup.kind, lookup.target, lookup.ways);
        if let Some(seed) = lookup.seeds.pop() {
            return self.climb_from(now, id, seed, vec![seed]);
        }
        if let Kind::Finger(offset) = kind {
            return self.climb_to_finger(now, id, offset, target);
        }
        if kind == Kind::Own {
            return match self.any_finger() {
                Some((point, group)) => self.climb_from(now, id, point, group),
                None => self.way_lost(now, id),
            };
        }
        let group = self.own_group().to_vec();
        if ways == 1 && self.knows_everybody() {
            let owner = group.iter().min_by_key(|key| target.distance_to(key));
            return self.confirm_nearby(now, id, owner.copied().unwrap_or(self.me));
        }
        if ways == 1 && self.is_nearby(&target) {
            return self.close(now, id, &group);
        }
        match self.first_step(&target, ways) {
            Some((point, group)) => self.climb_from(now, id, point, group),
            None => self.close(now, id, &group),
        }
    }

    fn any_finger(&mut self) -> Option<(RingKey, Vec<RingKey>)> {
        let finger = self.fingers.entries().choose(&mut self.rng)?;
        Some((self.me.plus(finger.offset), finger.group.clone()))
    }

    /// Whether a point lies within the own group, so that there is no way to it.
    fn is_nearby(&self, target: &RingKey) -> bool {
        let group = self.own_group();
        let ends = group.first().zip(group.last());
        ends.is_some_and(|(first, last)| target == last || between(first, target, last))
            && self.density().stretch(group) <= DENSE
    }

    fn confirm_nearby(&mut self, now: Instant, id: LookupId, owner: RingKey) {
        if owner == self.me {
            let group = self.own_group().to_vec();
            return self.verified_done(now, id, owner, group, true);
        }
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        lookup.questions = lookup.questions.saturating_add(1);
        self.request(now, owner, Purpose::Nearby(id), |id| Message::Ping { id });
    }

    pub(crate) fn nearby_answered(
        &mut self,
        now: Instant,
        id: LookupId,
        from: RingKey,
        answer: Option<&Message>,
    ) {
        let group = self.own_group().to_vec();
        match answer {
            Some(Message::Pong { member: true, .. }) => {
                self.verified_done(now, id, from, group, true);
            }
            _ => {
                if let Some(lookup) = self.lookups.verified.get_mut(&id) {
                    lookup.absent.insert(from);
                }
                self.close(now, id, &group);
            }
        }
    }

    /// An answer is late: the lookup goes on without it, if it can.
    pub(crate) fn verified_slow(&mut self, now: Instant, id: LookupId, slow: RingKey) {
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        if lookup.waiting.contains(&slow) {
            lookup.slow.insert(slow);
        }
        match lookup.stage {
            Stage::Climb { .. } => self.climb_on(now, id),
            Stage::Close => self.close_on(now, id),
        }
    }

    /// The finger to begin with, and its point: the largest within the way, or, for further ways, a
    /// random one of the largest. Who has no such finger yet begins with the own group, whose
    /// members have similar ones.
    fn first_step(&mut self, target: &RingKey, ways: usize) -> Option<(RingKey, Vec<RingKey>)> {
        let within = Offset::within(&self.me.distance_to(target))?;
        let fingers = self.fingers.entries().iter();
        let usable: Vec<_> = fingers.filter(|f| f.offset <= within).collect();
        let finger = if ways <= 1 {
            let best = usable.last().copied();
            match best.filter(|finger| finger.offset == within) {
                Some(finger) => Some(finger),
                None if self.knows_everybody() => return None,
                None => return Some((self.me, self.neighbours.keys().collect())),
            }
        } else {
            let some = usable.get(usable.len().saturating_sub(16)..)?;
            some.choose(&mut self.rng).copied()
        }?;
        Some((self.me.plus(finger.offset), finger.group.clone()))
    }

    /// Whether a key may be used: a certified router, and not one that is known to lie.
    pub(super) fn is_usable(&self, key: &RingKey) -> bool {
        self.standing(key) == Standing::Certified
    }

    /// Whether this member stands in the ring that the lookup is about, and knows how dense that
    /// is. A probe is about a ring that may be another one.
    pub(super) fn stands_in(&self, id: LookupId) -> bool {
        let lookup = self.lookups.verified.get(&id);
        self.is_member() && lookup.is_none_or(|lookup| lookup.kind != Kind::Probe)
    }

    /// How dense the ring is, for this lookup.
    pub(super) fn density_for(&self, id: LookupId) -> Density {
        if self.stands_in(id) {
            return self.density();
        }
        let spacings = self
            .lookups
            .verified
            .get(&id)
            .map(|l| l.spacings.as_slice());
        Density::of(spacings.unwrap_or_default(), self.config.group)
    }

    /// A way has ended with `group`, all of whose members answered.
    pub(super) fn judge(&mut self, now: Instant, id: LookupId, group: Vec<RingKey>) {
        let mut stretch = self.density_for(id).stretch(&group);
        let me_outside = !self.is_member();
        if !me_outside && !self.stands_in(id) {
            stretch = stretch.max(self.density().stretch(&group));
        }
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        let target = lookup.target;
        let Some(owner) = group
            .iter()
            .min_by_key(|key| target.distance_to(key))
            .copied()
        else {
            return self.another_way(now, id, group, None);
        };
        let same = lookup.last.as_ref() == Some(&group);
        let dense = stretch <= DENSE || (same && stretch <= PASSABLE);
        // Who has nothing of its own to compare with takes all its ways.
        let verified = dense && (!me_outside || lookup.seeds.is_empty());
        // Fingers are judged again at every step that uses them.
        let finger = matches!(lookup.kind, Kind::Finger(_) | Kind::Own);
        if verified || finger {
            return self.verified_done(now, id, owner, group, dense);
        }
        self.another_way(now, id, group, Some(owner));
    }

    fn another_way(
        &mut self,
        now: Instant,
        id: LookupId,
        group: Vec<RingKey>,
        owner: Option<RingKey>,
    ) {
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        let more = if lookup.kind.is_from_outside() {
            !lookup.seeds.is_empty()
        } else {
            lookup.ways < MAX_WAYS
        };
        lookup.last = Some(group.clone());
        match owner {
            _ if more => self.begin_way(now, id),
            Some(owner) => self.verified_done(now, id, owner, group, false),
            None => self.fail_verified(now, id, LookupFailure::NoRoute),
        }
    }

    /// A step found nobody to go on with.
    pub(super) fn way_lost(&mut self, now: Instant, id: LookupId) {
        let lost = self.lookups.verified.get(&id);
        let group = lost.and_then(|l| l.last.clone()).unwrap_or_default();
        let target = lost.map(|l| l.target);
        let owner = target.and_then(|t| group.iter().min_by_key(|k| t.distance_to(k)).copied());
        self.another_way(now, id, group, owner);
    }

    pub(super) fn verified_done(
        &mut self,
        now: Instant,
        id: LookupId,
        owner: RingKey,
        group: Vec<RingKey>,
        verified: bool,
    ) {
        let Some(lookup) = self.end_verified(id) else {
            return;
        };
        self.tell_neighbours(&group, &lookup.said, lookup.kind == Kind::Audit);
        match lookup.kind {
            Kind::Audit => {}
            Kind::Finger(offset) => self.finger_found(offset, group, lookup.numbers),
            Kind::Join => self.place_found(now, &group, verified),
            Kind::Own => group.iter().for_each(|key| self.consider(now, *key)),
            Kind::Record(id) => self.record_group_found(now, id, &group, verified),
            Kind::Route(id) => self.route_owner_found(now, id, owner, verified),
            Kind::Probe => self.around_found(now, &group),
            Kind::Caller => {
                let mut hops = lookup.hops;
                hops.truncate(MAX_HOPS);
                self.emit(Event::LookupDone {
                    id,
                    target: lookup.target,
                    owner,
                    group,
                    verified,
                    hops,
                    questions: lookup.questions,
                    elapsed: now.saturating_duration_since(lookup.started),
                });
            }
        }
    }

    pub(super) fn fail_verified(&mut self, now: Instant, id: LookupId, reason: LookupFailure) {
        let Some(lookup) = self.end_verified(id) else {
            return;
        };
        match lookup.kind {
            Kind::Finger(offset) => self.finger_not_found(offset),
            Kind::Join => self.join_failed(now),
            Kind::Own | Kind::Probe | Kind::Audit => {}
            Kind::Record(id) => self.record_failed(id, reason),
            Kind::Route(id) => self.route_lookup_failed(id, reason),
            Kind::Caller => self.emit(Event::LookupFailed {
                id,
                target: lookup.target,
                reason,
            }),
        }
    }

    pub(super) fn end_verified(&mut self, id: LookupId) -> Option<Verified> {
        self.requests.forget(|purpose| purpose.lookup() == Some(id));
        self.lookups.verified.remove(&id)
    }
}
