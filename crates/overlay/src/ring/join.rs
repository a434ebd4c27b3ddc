//! Join: find the place, take over the list of the member before it, and be in the ring.

use std::time::{Duration, Instant};

use rand::seq::SliceRandom;

use crate::context::Cx;
use crate::credentials::Standing;
use crate::effect::Effect;
use crate::event::{LookupFailure, Membership, Waiting};
use crate::key::{RingKey, between};
use crate::limits::{
    JOIN_ATTEMPTS, JOIN_BACKOFF_MAX, JOIN_BACKOFF_MIN, MAX_JOIN_REFUSALS, MAX_JOIN_STEPS,
    MAX_KNOWN, MAX_PENDING_ANSWERS, PENDING_PAUSE, RESUME_ALONE_AFTER,
};
use crate::lookup::inquiry::{Around, Asker, Found, Inquiry, Origin, Rule};
use crate::message::Message;
use crate::request::{Purpose, Requests};
use crate::ring::{Ring, clockwise_prefix, own_place_rule};
use crate::trust::Trust;

/// Where a member on its way into the ring is.
#[derive(Debug, Default)]
pub(crate) struct Joining {
    /// When to try again; none while a try runs.
    pub(super) retry_at: Option<Instant>,
    /// Tries that failed since the last that found somebody.
    failures: u32,
    /// Members that the caller named.
    bootstraps: Vec<RingKey>,
    /// When to found a ring of one, if this member was in the ring before, and since when it waits
    /// for that.
    alone_at: Option<Instant>,
    alone_since: Option<Instant>,
    /// The future predecessor, to be asked again because it was pending.
    pending: Option<RingKey>,
    /// How often in a row the answer was "pending".
    pending_answers: u32,
    /// The future predecessor that was asked last, and how often in a row it did not let this
    /// member in.
    asked: Option<RingKey>,
    refusals: u32,
    /// How many were asked one after the other, each because the one before named it.
    steps: u32,
    /// Who stands around the own key, as a verified lookup has found: they answered just now.
    pub(super) around: Vec<RingKey>,
}

impl Joining {
    pub(super) fn next_due(&self) -> Option<Instant> {
        [self.retry_at, self.alone_at].into_iter().flatten().min()
    }
}

impl Ring {
    /// Begins to join the ring that one of `bootstraps` is in. For a member they are only
    /// remembered.
    pub(crate) fn join(&mut self, cx: &mut Cx<'_>, bootstraps: &[RingKey]) {
        let others = bootstraps
            .iter()
            .filter(|key| **key != self.me)
            .take(MAX_KNOWN);
        let bootstraps: Vec<RingKey> = others.copied().collect();
        bootstraps.iter().rev().for_each(|key| cx.peers.learn(*key));
        if self.is_member() {
            return;
        }
        self.membership = Membership::Joining;
        let retry_at = Some(cx.now);
        self.joining = Joining {
            bootstraps,
            retry_at,
            ..Joining::default()
        };
        cx.requests.forget(|purpose| *purpose == Purpose::Join);
    }

    /// On its way after a crash: if no member answers for long, this member founds a ring of one.
    pub(crate) fn resume(&mut self, cx: &mut Cx<'_>) {
        if !self.is_member() {
            self.joining.alone_at = Some(cx.now + cx.jittered(RESUME_ALONE_AFTER));
            self.joining.alone_since = Some(cx.now);
        }
    }

    /// What this member waits for on its way into the ring; none if it is not on its way.
    pub(crate) fn waiting(&self, requests: &Requests, trust: &Trust) -> Option<Waiting> {
        let joining = self.membership == Membership::Joining;
        joining.then(|| Waiting {
            answers_of: requests.asked(),
            failures: self.joining.failures,
            ended_views: trust.ended_views(),
        })
    }

    pub(super) fn join_due(&mut self, cx: &mut Cx<'_>) {
        let due = |time: Option<Instant>| time.is_some_and(|time| time <= cx.now);
        if due(self.joining.alone_at) {
            // Where all is late, others may be there all the same.
            let since = self.joining.alone_since.unwrap_or(cx.now);
            let earliest = since + RESUME_ALONE_AFTER.mul_f64(cx.health_multiplier() - 0.25);
            if earliest > cx.now {
                self.joining.alone_at = Some(earliest);
                return;
            }
            cx.effect(Effect::FoundRing);
        } else if due(self.joining.retry_at) {
            self.try_to_join(cx);
        }
    }

    /// No member has answered for long: a ring of one.
    pub(crate) fn found_alone(&mut self, cx: &mut Cx<'_>) {
        self.found(cx);
        // Those who did not answer may come later, or be a ring of their own: they are out of
        // sight as if they were lost.
        self.lost = Some(cx.now);
        self.next_probe = Some(cx.now);
    }

    fn try_to_join(&mut self, cx: &mut Cx<'_>) {
        self.joining.retry_at = None;
        if let Some(predecessor) = self.joining.pending.take() {
            return self.ask_future_predecessor(cx, predecessor);
        }
        let mut seeds = self.joining.bootstraps.clone();
        for key in cx.peers.known() {
            if !seeds.contains(&key) {
                seeds.push(key);
            }
        }
        seeds.retain(|key| cx.standing(key) != Standing::Refused);
        // At random, so that those named first do not carry all newcomers.
        seeds.shuffle(cx.rng);
        if seeds.is_empty() {
            return self.join_failed(cx);
        }
        let rule = own_place_rule(cx);
        if rule == Rule::Verified {
            seeds.truncate(JOIN_ATTEMPTS);
        }
        let inquiry = Inquiry::new(Asker::Place, self.me, rule);
        cx.effect(Effect::LookUp(Box::new(
            inquiry.from(Origin::Members(seeds)),
        )));
    }

    /// The lookup of the own key has ended.
    pub(crate) fn place_looked_up(
        &mut self,
        cx: &mut Cx<'_>,
        result: Result<Found, LookupFailure>,
    ) {
        match result.map(|found| found.around) {
            Ok(Around::Views(views)) => self.place_found(cx, &views.group, views.verified),
            Ok(Around::Claimed(Some(predecessor))) => {
                self.ask_future_predecessor(cx, predecessor);
            }
            Ok(Around::Claimed(None)) | Err(_) => self.join_failed(cx),
        }
    }

    /// A lookup found who stands around the own key; `verified` says whether that is sure.
    fn place_found(&mut self, cx: &mut Cx<'_>, group: &[RingKey], verified: bool) {
        let me = self.me;
        let others = group.iter().filter(|key| **key != me);
        let Some(predecessor) = others.min_by_key(|key| key.distance_to(&me)).copied() else {
            return self.join_failed(cx);
        };
        let joining = &mut self.joining;
        joining.steps = 0;
        let around = group.iter().copied().filter(|key| verified && *key != me);
        joining.around = around.collect();
        if joining.asked != Some(predecessor) {
            joining.asked = Some(predecessor);
            joining.refusals = 0;
        }
        if joining.refusals < MAX_JOIN_REFUSALS || !verified {
            return self.ask_future_predecessor(cx, predecessor);
        }
        // It is there, and lets no member in: a malicious router. Those after this member are known
        // from others.
        let list = self.with_those_around(cx, Vec::new(), &predecessor);
        self.take_place(cx, predecessor, list);
    }

    /// The lookup for the own key ended at `predecessor`, which says that the own place is after
    /// it.
    fn ask_future_predecessor(&mut self, cx: &mut Cx<'_>, predecessor: RingKey) {
        cx.request(predecessor, Purpose::Join, |id| Message::GetState { id });
    }

    pub(super) fn join_answered(&mut self, cx: &mut Cx<'_>, from: RingKey, answer: Message) {
        if !matches!(answer, Message::NotMember { .. }) {
            self.ring_seen(cx.now);
        }
        match answer {
            Message::State { successors, .. } if self.place_is_after(&from, &successors) => {
                let others = successors.iter().filter(|key| **key != self.me);
                let mut list = clockwise_prefix(&self.me, others, cx.config.successors);
                if list.is_empty() {
                    // The predecessor is alone, so it is the successor too.
                    list.push(from);
                }
                let last = list.last().copied().unwrap_or(from);
                let list = self.with_those_around(cx, list, &last);
                self.take_place(cx, from, list);
            }
            Message::State { successors, .. } => match self.nearer_before(cx, &from, &successors) {
                Some(next) => {
                    self.joining.steps += 1;
                    self.ask_future_predecessor(cx, next);
                }
                None => self.join_failed(cx),
            },
            Message::Pending { .. } if self.joining.pending_answers < MAX_PENDING_ANSWERS => {
                self.joining.pending_answers += 1;
                self.joining.pending = Some(from);
                let pause = cx.jittered(PENDING_PAUSE);
                self.joining.retry_at = Some(cx.now + pause);
            }
            _ => self.join_failed(cx),
        }
    }

    /// In the ring at last. Traitors may have led this member to a place among themselves, so for a
    /// while it probes as often as if the ring had been divided.
    fn take_place(&mut self, cx: &mut Cx<'_>, predecessor: RingKey, list: Vec<RingKey>) {
        self.become_member(cx, Some(predecessor), list);
        if cx.trust.has_credentials() {
            self.lost = Some(cx.now);
        }
    }

    /// The list that the future predecessor gave, with those that it left out and that have
    /// answered themselves; none beyond `last`, because those that stand between may be unknown.
    fn with_those_around(
        &self,
        cx: &Cx<'_>,
        mut list: Vec<RingKey>,
        last: &RingKey,
    ) -> Vec<RingKey> {
        let around = self.joining.around.iter().copied();
        list.extend(around.filter(|key| key == last || between(&self.me, key, last)));
        list.sort_unstable_by_key(|key| self.me.distance_to(key));
        list.dedup();
        list.truncate(cx.config.successors);
        list
    }

    /// A member of a ring answered: there is one to join, so none is to be founded.
    pub(crate) fn ring_seen(&mut self, now: Instant) {
        if self.joining.alone_at.is_some() {
            self.joining.alone_at = Some(now + RESUME_ALONE_AFTER);
            self.joining.alone_since = Some(now);
        }
    }

    /// Of the successors of `predecessor` the one that is nearest before this member, if it may be
    /// asked: one that says nothing of its group is found by no lookup, and stands before this
    /// member all the same.
    fn nearer_before(
        &self,
        cx: &Cx<'_>,
        predecessor: &RingKey,
        list: &[RingKey],
    ) -> Option<RingKey> {
        // A plain lookup passes no member by for what it says of its group.
        if !cx.trust.has_credentials() || self.joining.steps >= MAX_JOIN_STEPS {
            return None;
        }
        let before = list
            .iter()
            .filter(|key| between(predecessor, key, &self.me));
        let known = before.filter(|key| cx.standing(key) == Standing::Certified);
        known.min_by_key(|key| key.distance_to(&self.me)).copied()
    }

    /// Whether this member belongs directly after `predecessor`, whose list is `list`. A list that
    /// still begins with this member is from before its restart.
    fn place_is_after(&self, predecessor: &RingKey, list: &[RingKey]) -> bool {
        let head = list.first().unwrap_or(predecessor);
        *head == self.me || between(predecessor, &self.me, head)
    }

    pub(super) fn join_failed(&mut self, cx: &mut Cx<'_>) {
        let joining = &mut self.joining;
        joining.pending_answers = 0;
        joining.refusals = joining.refusals.saturating_add(1);
        let factor = 1_u32.checked_shl(joining.failures.min(8)).unwrap_or(1);
        joining.failures = joining.failures.saturating_add(1);
        let pause: Duration = JOIN_BACKOFF_MIN
            .saturating_mul(factor)
            .min(JOIN_BACKOFF_MAX)
            .mul_f64(cx.health_multiplier());
        let pause = cx.jittered(pause);
        self.joining.retry_at = Some(cx.now + pause);
    }
}
