//! Verified lookups: right as long as one honest member is asked at each step.
//!
//! A lookup never takes one member's word. It goes along points that *this* member computes, from
//! its own key to the target, each step by the largest finger offset that does not pass the target.
//! At each step it holds a group around the point that it has reached:
//!
//! 1. The first group is that of the own finger of exactly the largest offset that fits; without it
//!    the own group is, and from outside one seed
//!    ([`begin_attempt`](VerifiedLookups::begin_attempt)). To a target within the own group no
//!    steps are needed.
//! 2. Three random members of the group are asked whom they know around the next point; of all that
//!    they name, the g nearest certified members are the next group. If these stand too far apart,
//!    others may have been left out, and three more are asked (`iterate`).
//! 3. At the target all members of the group are asked for their signed views, and so are those
//!    that are nearer, until none is new or only a few are late. The first member at or after the
//!    target that has answered is the owner (`finalise`).
//! 4. If the last group is as dense as the ring, that is the result. If not, the lookup makes
//!    another attempt with more askers, adds what it finds there, and accepts a group that does
//!    not change and is at most `PASSABLE` (2.2) times as wide. After three attempts, from outside
//!    after one for each seed, the result is given as unverified.
//!
//! `around` picks the g keys that stand around a point. `Density::stretch` is how many times as
//! wide as the ring's spacing suggests a group is; up to `DENSE` (1.4) it is dense.
//!
//! Liars can hide honest members from a step only if all that are asked lie, and from the end only
//! if no honest member near the target is named by any.
//!
//! ```text
//!  start -> begin_attempt -> Iterate -> Finalise -> judge -> done -> LookupEnd
//!                ^              |           |          |
//!                |              +-----------+----------+
//!                |                          v
//!                +-------------------- next_attempt -> done or fail -> LookupEnd
//!
//!  begin_attempt, by Origin
//!    Own:       begin_here
//!    AnyFinger: a random finger -> iterate_from; there is none -> attempt_failed
//!    Finger:    iterate_to_finger -> Iterate; all of the group are asked
//!    Members:   the next seed -> iterate_from; none is left -> attempt_failed
//!  begin_here
//!    first attempt, the own group is the whole ring (is_everybody) -> confirm_nearby
//!      -> this member is the owner -> done(verified)
//!      -> Ping to the owner -> nearby_answered -> a member -> done(verified)
//!                                              -> absent -> Finalise with the own group
//!    first attempt, the target lies within a dense own group (is_nearby) -> Finalise with it
//!    first_step (iterate.rs)
//!      -> the finger; on the first attempt, where none has exactly the largest offset that fits,
//!         the own group -> iterate_from
//!      -> the target is the own key, or on a further attempt no finger fits -> Finalise with the
//!         own group
//!  iterate_from
//!    next offset of two spacings or more -> Iterate at the point that far on
//!    smaller -> Finalise; from a group of one, or by the paper's rule -> Iterate at the target
//!  Iterate (iterate.rs)
//!    -> iterate_from, the next step; finalise, at the target; attempt_failed, none to go on with
//!    -> by the paper's rule (paper.rs) done(verified), at the target
//!  Finalise (finalise.rs)
//!    -> judge, with those that have answered; attempt_failed, none has
//!  judge
//!    dense, and this member is in the ring or no seed is left -> done(verified)
//!    for a finger, or by AnyFinger -> done(dense or not)
//!    else -> next_attempt, with the owner
//!  attempt_failed -> next_attempt, with the owner of the attempt before, if there was one
//!  next_attempt
//!    an attempt is left (own: fewer than MAX_ATTEMPTS; outside: a seed) -> begin_attempt
//!    an owner -> done(not verified); none -> fail(NoRoute)
//!  from any stage
//!    slow: an answer is late -> proceed -> iterate or continue_finalising, without it
//!    handle_room: it found no room for a request, and others have ended -> proceed
//!    handle_timed_out: one deadline for all attempts -> fail(TimedOut)
//!    fail_all: this member leaves -> fail(Left); take_of: cancelled, no LookupEnd
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rand::seq::IndexedRandom;

use crate::context::Cx;
use crate::effect::Effect;
use crate::event::{LookupFailure, LookupId};
use crate::group::{DENSE, Density};
use crate::key::RingKey;
use crate::known::Known;
use crate::limits::{MAX_ATTEMPTS, MAX_HOPS};
use crate::lookup::inquiry::{Around, Asker, Found, Inquiry, LookupEnd, Origin, Rule, Views};
use crate::lookup::iterate::first_step;
use crate::message::Message;
use crate::request::Purpose;
use crate::view::SignedHeader;

/// A last group up to so much wider is accepted if another attempt found the same.
const PASSABLE: f64 = 2.2;

/// A step's group that is wider than this makes the step ask more members.
pub(super) const SPARSE: f64 = 1.7;

/// Members asked at once in a step of the first attempt, and of further ones.
const ASKERS: [usize; 2] = [3, 5];

/// What a lookup does at the moment.
#[derive(Debug)]
pub(super) enum Stage {
    /// Asks members around `base` whom they know around `point`.
    Iterate {
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
    Finalise,
}

impl Stage {
    pub(super) fn iterate(point: RingKey, group: Vec<RingKey>, wanted: usize) -> Stage {
        Stage::Iterate {
            point,
            wanted: wanted.min(group.len()).max(1),
            group,
            answers: 0,
        }
    }
}

/// One verified lookup under way.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(super) asker: Asker,
    pub(super) origin: Origin,
    pub(super) by_the_paper: bool,
    /// Whether each view that comes is compared with what its author said before.
    pub(super) compares_all: bool,
    pub(super) target: RingKey,
    pub(super) started: Instant,
    pub(super) deadline: Instant,
    pub(super) stage: Stage,
    /// How many attempts have been begun.
    pub(super) attempts: usize,
    /// Asked in this step, or, in `Finalise`, in all.
    pub(super) asked: BTreeSet<RingKey>,
    /// Asked, and not answered so far.
    pub(super) waiting: BTreeSet<RingKey>,
    /// Those of them whose answers are late.
    pub(super) slow: BTreeSet<RingKey>,
    /// Named in this step, or, in `Finalise`, in all, and by whom first.
    pub(super) named: BTreeMap<RingKey, RingKey>,
    /// Near the target, of all attempts so far.
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
    /// The group that the attempt before this one ended with.
    pub(super) last: Option<Vec<RingKey>>,
    /// Spacings of the groups met on the way, for one who has no fingers to compare with.
    pub(super) spacings: Vec<f64>,
    /// Who answered first at each step of the present attempt.
    hops: Vec<RingKey>,
    /// Whether no member has answered at the present step so far.
    unanswered: bool,
    /// Questions asked so far.
    pub(super) questions: u32,
}

impl Verified {
    /// Whether there is no further member to begin at.
    fn is_last_seed(&self) -> bool {
        match &self.origin {
            Origin::Members(seeds) => seeds.is_empty(),
            Origin::Own | Origin::AnyFinger | Origin::Finger(_) => true,
        }
    }

    pub(super) fn askers(&self) -> usize {
        if self.by_the_paper {
            return 2;
        }
        ASKERS[usize::from(self.attempts > 1)]
    }

    pub(super) fn note_asked(&mut self, key: RingKey) {
        self.asked.insert(key);
        self.waiting.insert(key);
        self.questions = self.questions.saturating_add(1);
    }

    pub(super) fn stop_waiting(&mut self, key: &RingKey) {
        self.waiting.remove(key);
        self.slow.remove(key);
    }

    pub(super) fn note_hop(&mut self, by: RingKey) {
        if std::mem::take(&mut self.unanswered) {
            self.hops.push(by);
        }
    }

    /// How many are expected to answer soon.
    pub(super) fn expected(&self) -> usize {
        self.waiting.len().saturating_sub(self.slow.len())
    }

    fn clear_waiting(&mut self) {
        self.waiting.clear();
        self.slow.clear();
        self.unproven.clear();
        self.unanswered = true;
    }

    pub(super) fn begin_step(&mut self, stage: Stage) {
        self.stage = stage;
        self.asked.clear();
        self.named.clear();
        self.claims.clear();
        self.clear_waiting();
    }

    pub(super) fn begin_finalising(&mut self, me: Option<RingKey>) {
        self.stage = Stage::Finalise;
        self.clear_waiting();
        self.named = self.near.clone();
        self.present.extend(me);
        // Members that were asked on the way were asked another question.
        self.asked = self.present.union(&self.absent).copied().collect();
    }
}

/// All verified lookups of one member.
#[derive(Debug, Default)]
pub(super) struct VerifiedLookups {
    pub(super) running: BTreeMap<LookupId, Verified>,
    /// Those that want to ask somebody, and found no room for a request.
    pub(super) without_room: BTreeSet<LookupId>,
}

impl VerifiedLookups {
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.running.values().map(|lookup| lookup.deadline).min()
    }

    pub(super) fn askers(&self) -> impl Iterator<Item = Asker> {
        self.running.values().map(|lookup| lookup.asker)
    }

    /// Takes out those of askers like this one.
    pub(super) fn take_of(&mut self, asker: Asker) -> impl Iterator<Item = LookupId> {
        let alike = self
            .running
            .extract_if(.., move |_, l| l.asker.is_like(asker));
        alike.map(|(id, _)| id)
    }

    pub(super) fn fail_all(&mut self, cx: &mut Cx<'_>, reason: LookupFailure) {
        let ids: Vec<LookupId> = self.running.keys().copied().collect();
        for id in ids {
            self.fail(cx, id, reason);
        }
    }

    /// Those whose time is over.
    pub(super) fn timed_out(&self, now: Instant) -> impl Iterator<Item = LookupId> {
        let over = self.running.iter().filter(move |(_, l)| l.deadline <= now);
        over.map(|(id, _)| *id)
    }

    pub(super) fn is_running(&self, id: LookupId) -> bool {
        self.running.contains_key(&id)
    }

    pub(super) fn handle_timed_out(&mut self, cx: &mut Cx<'_>, id: LookupId) {
        self.fail(cx, id, LookupFailure::TimedOut);
    }

    pub(super) fn start(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        inquiry: Inquiry,
    ) {
        let lookup = Verified {
            asker: inquiry.asker,
            origin: inquiry.origin,
            by_the_paper: inquiry.rule == Rule::Paper,
            compares_all: inquiry.compares_all,
            target: inquiry.target,
            started: cx.now,
            deadline: cx.now + cx.lookup_timeout(),
            stage: Stage::Finalise,
            attempts: 0,
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
        self.running.insert(id, lookup);
        self.begin_attempt(cx, known, id);
    }

    /// Begins an attempt to reach the target, the first or another one.
    pub(super) fn begin_attempt(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        lookup.attempts = lookup.attempts.saturating_add(1);
        lookup.hops.clear();
        let (target, attempts) = (lookup.target, lookup.attempts);
        match &mut lookup.origin {
            Origin::Own => self.begin_here(cx, known, id, target, attempts),
            Origin::Finger(offset) => {
                let offset = *offset;
                self.iterate_to_finger(cx, known, id, offset);
            }
            // Chosen at random, so that no other can prepare what this member sees of itself.
            Origin::AnyFinger => match known.fingers.entries().choose(cx.rng) {
                Some(finger) => {
                    let (point, group) = (cx.me.plus(finger.offset), finger.group.clone());
                    self.iterate_from(cx, known, id, point, group);
                }
                None => self.attempt_failed(cx, known, id),
            },
            Origin::Members(seeds) => match seeds.pop() {
                Some(seed) => self.iterate_from(cx, known, id, seed, vec![seed]),
                None => self.attempt_failed(cx, known, id),
            },
        }
    }

    /// Begins an attempt at what this member knows of the ring.
    fn begin_here(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        target: RingKey,
        attempts: usize,
    ) {
        let group = known.own_group().to_vec();
        if attempts == 1 && known.is_everybody() {
            let owner = group.iter().min_by_key(|key| target.distance_to(key));
            return self.confirm_nearby(cx, known, id, owner.copied().unwrap_or(cx.me));
        }
        if attempts == 1 && known.is_nearby(&target) {
            return self.finalise(cx, known, id, &group);
        }
        match first_step(cx, known, &target, attempts) {
            Some((point, group)) => self.iterate_from(cx, known, id, point, group),
            None => self.finalise(cx, known, id, &group),
        }
    }

    /// Ends the lookup with the owner that this member knows, because it knows the whole ring, once
    /// that one has answered.
    fn confirm_nearby(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId, owner: RingKey) {
        if owner == cx.me {
            let group = known.own_group().to_vec();
            return self.done(cx, id, owner, group, true);
        }
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        lookup.questions = lookup.questions.saturating_add(1);
        cx.request(owner, Purpose::Nearby(id), |id| Message::Ping { id });
    }

    /// The owner in a ring that this member knows all of has answered, or has not.
    pub(crate) fn nearby_answered(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let group = known.own_group().to_vec();
        match answer {
            Some(Message::Pong { member: true, .. }) => {
                self.done(cx, id, from, group, true);
            }
            _ => {
                if let Some(lookup) = self.running.get_mut(&id) {
                    // Its neighbours own the point then, and say so themselves.
                    lookup.absent.insert(from);
                }
                self.finalise(cx, known, id, &group);
            }
        }
    }

    /// An answer is late: the lookup goes on without it, if it can.
    pub(super) fn slow(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId, slow: RingKey) {
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        if lookup.waiting.contains(&slow) {
            lookup.slow.insert(slow);
        }
        self.proceed(cx, known, id);
    }

    /// Requests have ended: those that found no room for theirs go on, the eldest first, as far as
    /// there is some now. Returns whether any did.
    pub(super) fn handle_room(&mut self, cx: &mut Cx<'_>, known: Known<'_>) -> bool {
        let mut any = false;
        while !self.without_room.is_empty() && cx.requests.has_room() {
            // It comes back to the set if the room does not suffice.
            if let Some(id) = self.without_room.pop_first() {
                self.proceed(cx, known, id);
                any = true;
            }
        }
        any
    }

    /// Asks whom else it needs to, or ends what the lookup does at the moment.
    pub(super) fn proceed(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        match self.running.get(&id).map(|lookup| &lookup.stage) {
            Some(Stage::Iterate { .. }) => self.iterate(cx, known, id),
            Some(Stage::Finalise) => self.continue_finalising(cx, known, id),
            None => {}
        }
    }

    /// Whether this member stands in the ring that the lookup is about, and knows how dense that
    /// is. A probe is about a ring that may be another one.
    pub(super) fn stands_in(&self, cx: &Cx<'_>, id: LookupId) -> bool {
        let lookup = self.running.get(&id);
        cx.member && lookup.is_none_or(|lookup| !lookup.origin.is_outside())
    }

    /// How dense the ring is, for this lookup.
    pub(super) fn density_for(&self, cx: &Cx<'_>, known: Known<'_>, id: LookupId) -> Density {
        if self.stands_in(cx, id) {
            return known.density();
        }
        let spacings = self.running.get(&id).map(|l| l.spacings.as_slice());
        Density::of(spacings.unwrap_or_default(), cx.config.group)
    }

    /// An attempt has ended with `group`, all of whose members answered.
    pub(super) fn judge(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        group: Vec<RingKey>,
    ) {
        let mut stretch = self.density_for(cx, known, id).stretch(&group);
        let me_outside = !cx.member;
        if !me_outside && !self.stands_in(cx, id) {
            stretch = stretch.max(known.density().stretch(&group));
        }
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        let target = lookup.target;
        let Some(owner) = group
            .iter()
            .min_by_key(|key| target.distance_to(key))
            .copied()
        else {
            return self.next_attempt(cx, known, id, group, None);
        };
        let same = lookup.last.as_ref() == Some(&group);
        let dense = stretch <= DENSE || (same && stretch <= PASSABLE);
        // Who has nothing of its own to compare with takes all its attempts.
        let verified = dense && (!me_outside || lookup.is_last_seed());
        // Fingers are judged again at every step that uses them.
        let finger = matches!(lookup.origin, Origin::Finger(_) | Origin::AnyFinger);
        if verified || finger {
            return self.done(cx, id, owner, group, dense);
        }
        self.next_attempt(cx, known, id, group, Some(owner));
    }

    fn next_attempt(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        group: Vec<RingKey>,
        owner: Option<RingKey>,
    ) {
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        let more = if lookup.origin.is_outside() {
            !lookup.is_last_seed()
        } else {
            lookup.attempts < MAX_ATTEMPTS
        };
        // The next attempt is accepted if it ends with the same.
        lookup.last = Some(group.clone());
        match owner {
            _ if more => self.begin_attempt(cx, known, id),
            Some(owner) => self.done(cx, id, owner, group, false),
            None => self.fail(cx, id, LookupFailure::NoRoute),
        }
    }

    /// A step found no member to go on with.
    pub(super) fn attempt_failed(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        let lost = self.running.get(&id);
        let group = lost.and_then(|l| l.last.clone()).unwrap_or_default();
        let target = lost.map(|l| l.target);
        let owner = target.and_then(|t| group.iter().min_by_key(|k| t.distance_to(k)).copied());
        self.next_attempt(cx, known, id, group, owner);
    }

    pub(super) fn done(
        &mut self,
        cx: &mut Cx<'_>,
        id: LookupId,
        owner: RingKey,
        group: Vec<RingKey>,
        verified: bool,
    ) {
        let Some(mut lookup) = self.take(cx, id) else {
            return;
        };
        lookup.hops.truncate(MAX_HOPS);
        let found = Found {
            owner,
            hops: lookup.hops,
            questions: lookup.questions,
            elapsed: cx.now.saturating_duration_since(lookup.started),
            around: Around::Views(Views {
                group,
                verified,
                numbers: lookup.numbers,
                said: lookup.said,
            }),
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
    fn take(&mut self, cx: &mut Cx<'_>, id: LookupId) -> Option<Verified> {
        cx.requests.forget(|purpose| purpose.lookup() == Some(id));
        self.without_room.remove(&id);
        self.running.remove(&id)
    }
}
