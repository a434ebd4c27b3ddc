//! Join: find the place, take over the list of the member before it, and be in the ring.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::seq::SliceRandom;

use crate::chord::Chord;
use crate::credentials::Standing;
use crate::event::{Membership, Waiting};
use crate::key::{RingKey, between};
use crate::limits::{
    JOIN_BACKOFF_MAX, JOIN_BACKOFF_MIN, MAX_JOIN_REFUSALS, MAX_JOIN_STEPS, MAX_KNOWN,
    MAX_PENDING_ANSWERS, PENDING_PAUSE, RESUME_ALONE_AFTER,
};
use crate::message::Message;
use crate::request::Purpose;
use crate::ring::clockwise_prefix;

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

impl Chord {
    /// Joins the ring that one of `bootstraps` is in. They are tried in random order until one
    /// answers, and again and again with pauses of 0.2 s to 5 s. The event `Joined` tells the end.
    ///
    /// At most 64 bootstraps are used. For a member of a ring, they are only remembered.
    pub fn join(&mut self, now: Instant, bootstraps: &[RingKey]) {
        let others = bootstraps
            .iter()
            .filter(|key| **key != self.me)
            .take(MAX_KNOWN);
        let bootstraps: Vec<RingKey> = others.copied().collect();
        bootstraps
            .iter()
            .rev()
            .for_each(|key| self.peers.learn(*key));
        if self.is_member() {
            return;
        }
        self.ring.membership = Membership::Joining;
        let retry_at = Some(now);
        self.ring.joining = Joining {
            bootstraps,
            retry_at,
            ..Joining::default()
        };
        self.cancel_join_lookup();
        self.requests.forget(|purpose| *purpose == Purpose::Join);
    }

    /// Joins again after a crash, through the members that were persisted. The ring may still point
    /// to this member from before: then it takes its old place at once.
    ///
    /// If no member of a ring answers for about 10 s, this member founds a ring of one: perhaps all
    /// were restarted at once. Rings that arise in this way find each other and become one.
    pub fn resume(&mut self, now: Instant, known: &[RingKey]) {
        self.join(now, known);
        if !self.is_member() {
            self.ring.joining.alone_at = Some(now + self.jittered(RESUME_ALONE_AFTER));
            self.ring.joining.alone_since = Some(now);
        }
    }

    /// What this member waits for on its way into the ring; none if it is not on its way.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting> {
        let joining = self.ring.membership == Membership::Joining;
        joining.then(|| Waiting {
            answers_of: self.requests.asked(),
            failures: self.ring.joining.failures,
            ended_views: self.neighbours.ended,
        })
    }

    pub(super) fn join_due(&mut self, now: Instant) {
        let due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if due(self.ring.joining.alone_at) {
            // Where all is late, others may be there all the same.
            let since = self.ring.joining.alone_since.unwrap_or(now);
            let earliest = since + RESUME_ALONE_AFTER.mul_f64(self.doubt() - 0.25);
            if earliest > now {
                self.ring.joining.alone_at = Some(earliest);
                return;
            }
            self.start_ring(now);
            // Those who did not answer may come later, or be a ring of their own: they are out of
            // sight as if they were lost.
            self.ring.lost = Some(now);
            self.ring.next_probe = Some(now);
        } else if due(self.ring.joining.retry_at) {
            self.try_to_join(now);
        }
    }

    fn try_to_join(&mut self, now: Instant) {
        self.ring.joining.retry_at = None;
        if let Some(predecessor) = self.ring.joining.pending.take() {
            return self.ask_future_predecessor(now, predecessor);
        }
        let mut seeds = self.ring.joining.bootstraps.clone();
        for key in self.peers.known() {
            if !seeds.contains(&key) {
                seeds.push(key);
            }
        }
        seeds.retain(|key| self.standing(key) != Standing::Refused);
        seeds.shuffle(&mut self.rng);
        if seeds.is_empty() {
            return self.join_failed(now);
        }
        self.start_join_lookup(now, VecDeque::from(seeds));
    }

    /// A lookup found who stands around the own key; `verified` says whether that is sure.
    pub(crate) fn place_found(&mut self, now: Instant, group: &[RingKey], verified: bool) {
        let me = self.me;
        let others = group.iter().filter(|key| **key != me);
        let Some(predecessor) = others.min_by_key(|key| key.distance_to(&me)).copied() else {
            return self.join_failed(now);
        };
        let joining = &mut self.ring.joining;
        joining.steps = 0;
        let around = group.iter().copied().filter(|key| verified && *key != me);
        joining.around = around.collect();
        if joining.asked != Some(predecessor) {
            joining.asked = Some(predecessor);
            joining.refusals = 0;
        }
        if joining.refusals < MAX_JOIN_REFUSALS || !verified {
            return self.ask_future_predecessor(now, predecessor);
        }
        // It is there, and lets nobody in: a traitor. Those after this member are known from
        // others.
        let list = self.with_those_around(Vec::new(), &predecessor);
        self.take_place(now, predecessor, list);
    }

    /// The lookup for the own key ended at `predecessor`, which says that the own place is after
    /// it.
    pub(crate) fn ask_future_predecessor(&mut self, now: Instant, predecessor: RingKey) {
        self.request(now, predecessor, Purpose::Join, |id| Message::GetState {
            id,
        });
    }

    pub(crate) fn join_answered(&mut self, now: Instant, from: RingKey, answer: Message) {
        if !matches!(answer, Message::NotMember { .. }) {
            self.ring_seen(now);
        }
        match answer {
            Message::State { successors, .. } if self.place_is_after(&from, &successors) => {
                let others = successors.iter().filter(|key| **key != self.me);
                let mut list = clockwise_prefix(&self.me, others, self.config.successors);
                if list.is_empty() {
                    // The predecessor is alone, so it is the successor too.
                    list.push(from);
                }
                let last = list.last().copied().unwrap_or(from);
                let list = self.with_those_around(list, &last);
                self.take_place(now, from, list);
            }
            Message::State { successors, .. } => match self.nearer_before(&from, &successors) {
                Some(next) => {
                    self.ring.joining.steps += 1;
                    self.ask_future_predecessor(now, next);
                }
                None => self.join_failed(now),
            },
            Message::Pending { .. } if self.ring.joining.pending_answers < MAX_PENDING_ANSWERS => {
                self.ring.joining.pending_answers += 1;
                self.ring.joining.pending = Some(from);
                let pause = self.jittered(PENDING_PAUSE);
                self.ring.joining.retry_at = Some(now + pause);
            }
            _ => self.join_failed(now),
        }
    }

    /// In the ring at last. Traitors may have led this member to a place among themselves, so for a
    /// while it probes as often as if the ring had been divided.
    fn take_place(&mut self, now: Instant, predecessor: RingKey, list: Vec<RingKey>) {
        self.become_member(now, Some(predecessor), list);
        if self.credentials.is_some() {
            self.ring.lost = Some(now);
        }
    }

    /// The list that the future predecessor gave, with those that it left out and that have
    /// answered themselves; none beyond `last`, because whoever stands between may be unknown.
    fn with_those_around(&self, mut list: Vec<RingKey>, last: &RingKey) -> Vec<RingKey> {
        let around = self.ring.joining.around.iter().copied();
        list.extend(around.filter(|key| key == last || between(&self.me, key, last)));
        list.sort_unstable_by_key(|key| self.me.distance_to(key));
        list.dedup();
        list.truncate(self.config.successors);
        list
    }

    /// A member of a ring answered: there is one to join, so none is to be founded.
    pub(crate) fn ring_seen(&mut self, now: Instant) {
        if self.ring.joining.alone_at.is_some() {
            self.ring.joining.alone_at = Some(now + RESUME_ALONE_AFTER);
            self.ring.joining.alone_since = Some(now);
        }
    }

    /// Of the successors of `predecessor` the one that is nearest before this member, if it may be
    /// asked: one that says nothing of its group is found by no lookup, and stands before this
    /// member all the same.
    fn nearer_before(&self, predecessor: &RingKey, list: &[RingKey]) -> Option<RingKey> {
        // A plain lookup passes nobody by for what it says of its group.
        if self.credentials.is_none() || self.ring.joining.steps >= MAX_JOIN_STEPS {
            return None;
        }
        let before = list
            .iter()
            .filter(|key| between(predecessor, key, &self.me));
        let known = before.filter(|key| self.standing(key) == Standing::Certified);
        known.min_by_key(|key| key.distance_to(&self.me)).copied()
    }

    /// Whether this member belongs directly after `predecessor`, whose list is `list`. A list that
    /// still begins with this member is from before its restart.
    fn place_is_after(&self, predecessor: &RingKey, list: &[RingKey]) -> bool {
        let head = list.first().unwrap_or(predecessor);
        *head == self.me || between(predecessor, &self.me, head)
    }

    pub(crate) fn join_failed(&mut self, now: Instant) {
        let joining = &mut self.ring.joining;
        joining.pending_answers = 0;
        joining.refusals = joining.refusals.saturating_add(1);
        let factor = 1_u32.checked_shl(joining.failures.min(8)).unwrap_or(1);
        joining.failures = joining.failures.saturating_add(1);
        let pause: Duration = JOIN_BACKOFF_MIN
            .saturating_mul(factor)
            .min(JOIN_BACKOFF_MAX)
            .mul_f64(self.doubt());
        let pause = self.jittered(pause);
        self.ring.joining.retry_at = Some(now + pause);
    }
}
