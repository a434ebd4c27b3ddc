//! Ring maintenance after Zave: `join`, `stabilise` and `rectify`, one operation at a time.
//!
//! A member has a predecessor and a list of r successors. Each of the operations below asks one
//! other member and then changes the own state at once. Two rules make that as good as an atomic
//! step:
//!
//! - One operation runs at a time ([`Operation`]); notifications that come meanwhile wait.
//! - While its query is open, a member answers state queries with "pending", so that nobody reads a
//!   state that is about to change. Pings it answers at once.
//!
//! The step counts as done at the moment at which the asked member answered: the asker's old state
//! has been invisible since before that.
//!
//! Zave's lists always have r entries, with a made-up entry `last + 1` after a removal. Here the
//! list just gets shorter: nobody stands between `last` and `last + 1`, so no member is skipped
//! either way. A list never reaches past its own member, so in a ring of m < r + 1 members it has m
//! − 1 entries; in a ring of one it is empty, and the member is its own successor.
//!
//! Source: Zave, "Reasoning about Identifier Spaces: How to Make Chord Correct", IEEE TSE 43(12),
//! 2017, §IV.

mod join;
mod leave;
mod rectify;
mod reunite;
mod stabilise;

use std::collections::VecDeque;
use std::time::Instant;

use crate::chord::Chord;
use crate::event::{Event, Membership};
use crate::key::RingKey;
use crate::limits::REUNITE_INTERVAL;
use crate::message::{Message, RequestId};
use crate::request::Purpose;

pub(crate) use join::Joining;

/// The one operation that may change this member's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Operation {
    #[default]
    Idle,
    /// Asked the first successor for its state.
    FromSuccessor,
    /// Asked the successor's predecessor for its state; `successor` is the member itself if alone.
    FromPredecessor { successor: RingKey },
    /// Pinged the predecessor, because `notifier` claims its place.
    Rectify { notifier: RingKey },
}

/// One member's pointers, and what it is doing about them.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) membership: Membership,
    pub(crate) predecessor: Option<RingKey>,
    pub(crate) successors: Vec<RingKey>,
    operation: Operation,
    notifications: VecDeque<RingKey>,
    joining: Joining,
    /// Until when the predecessor's last answer to a ping counts.
    vouched_until: Option<Instant>,
    next_round: Option<Instant>,
    next_probe: Option<Instant>,
    /// Probes since this member became a ring of one.
    probes_alone: u32,
    /// When a neighbour was lost last.
    lost: Option<Instant>,
    pending_answers: u32,
    /// Whether the next round begins with the first successor even if a neighbour stands before
    /// it.
    heads_turn: bool,
    /// Sets of tries that the only successor left unanswered.
    silences: u32,
    /// Whether the list, and whether its head, is another one than at the start of the round: then
    /// the next comes sooner.
    changed: bool,
    head_changed: bool,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring {
            membership: Membership::Outside,
            predecessor: None,
            successors: Vec::new(),
            operation: Operation::Idle,
            notifications: VecDeque::new(),
            joining: Joining::default(),
            vouched_until: None,
            next_round: None,
            next_probe: None,
            probes_alone: 0,
            lost: None,
            pending_answers: 0,
            heads_turn: false,
            silences: 0,
            changed: false,
            head_changed: false,
        }
    }
}

impl Ring {
    /// Brings the next round of stabilisation forward to `time`; never puts it off.
    pub(crate) fn stabilise_by(&mut self, time: Instant) {
        if self.membership == Membership::Member {
            self.next_round = Some(self.next_round.map_or(time, |next| next.min(time)));
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        match self.membership {
            Membership::Outside => None,
            Membership::Joining => self.joining.next_due(),
            Membership::Member => [self.next_round, self.next_probe]
                .into_iter()
                .flatten()
                .min(),
        }
    }
}

impl Chord {
    /// Founds a ring of one, also instead of joining. Does nothing if this member is in a ring.
    pub fn start_ring(&mut self, now: Instant) {
        if self.is_member() {
            return;
        }
        self.cancel_join_lookup();
        self.requests.forget(|purpose| *purpose == Purpose::Join);
        self.become_member(now, None, Vec::new());
    }

    pub(crate) fn ring_due(&mut self, now: Instant) {
        if self.ring.next_due().is_none_or(|due| due > now) {
            return;
        }
        match self.ring.membership {
            Membership::Outside => {}
            Membership::Joining => self.join_due(now),
            Membership::Member => {
                let due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
                if due(self.ring.next_round) {
                    self.start_round(now);
                }
                if due(self.ring.next_probe) {
                    self.start_probe(now);
                }
            }
        }
    }

    pub(crate) fn answer_state(&mut self, from: RingKey, id: RequestId) {
        let answer = if !self.is_member() {
            Message::NotMember { id }
        } else if self.ring.operation == Operation::Idle {
            let (predecessor, successors) = (self.ring.predecessor, self.ring.successors.clone());
            Message::State {
                id,
                predecessor,
                successors,
            }
        } else {
            Message::Pending { id }
        };
        self.send(from, answer);
    }

    pub(crate) fn become_member(
        &mut self,
        now: Instant,
        predecessor: Option<RingKey>,
        successors: Vec<RingKey>,
    ) {
        self.ring.membership = Membership::Member;
        self.ring.operation = Operation::Idle;
        self.ring.notifications.clear();
        let around = std::mem::take(&mut self.ring.joining.around);
        self.ring.joining = Joining::default();
        self.ring.predecessor = predecessor;
        self.ring.successors = successors;
        self.ring.next_round = Some(now);
        self.ring.next_probe = Some(now + self.jittered(REUNITE_INTERVAL));
        let first = self.first_finger(now);
        self.fingers.start(first);
        if self.credentials.is_some() {
            self.neighbours.begin(now);
            self.keeping.start(now);
            self.plan_audit(now);
            // They do not know this member before it speaks to them, if those in between hide it.
            around.into_iter().for_each(|key| self.consider(now, key));
        }
        self.emit(Event::Joined);
        self.neighbours_changed();
    }

    fn neighbours_changed(&mut self) {
        for key in self
            .ring
            .successors
            .first()
            .copied()
            .into_iter()
            .chain(self.ring.predecessor)
        {
            self.peers.learn(key);
        }
        let predecessor = self.ring.predecessor;
        let successors = self.ring.successors.clone();
        self.emit(Event::NeighboursChanged {
            predecessor,
            successors,
        });
    }

    fn set_predecessor(&mut self, predecessor: Option<RingKey>) {
        if self.ring.predecessor != predecessor {
            self.ring.vouched_until = None;
            self.ring.predecessor = predecessor;
            self.neighbours_changed();
        }
    }

    fn set_successors(&mut self, successors: Vec<RingKey>) {
        if self.ring.successors != successors {
            self.ring.head_changed |= self.ring.successors.first() != successors.first();
            self.ring.successors = successors;
            self.ring.changed = true;
            self.neighbours_changed();
        }
    }

    /// The list that follows from `head` being the first successor and `rest` its own list.
    ///
    /// Neighbours that answered themselves belong into it even if the head leaves them out; but
    /// none beyond the last that the head names, because whoever stands between would be
    /// skipped.
    fn list_after(&mut self, now: Instant, head: RingKey, rest: &[RingKey]) -> Vec<RingKey> {
        let all = std::iter::once(&head).chain(rest);
        let list = clockwise_prefix(&self.me, all, self.config.successors);
        let last = list.last().copied().unwrap_or(head);
        if last == head {
            return list;
        }
        let known: Vec<RingKey> = self.neighbours.keys().collect();
        let left_out = known
            .into_iter()
            .filter(|key| crate::key::between(&head, key, &last) && !list.contains(key));
        let (neighbours, doubtful): (Vec<RingKey>, Vec<RingKey>) =
            left_out.partition(|key| self.answered_lately(now, key));
        // Whoever the head leaves out is dead, or the head lies: it is asked at once.
        for key in doubtful {
            self.contact(now, key);
        }
        if neighbours.is_empty() {
            return list;
        }
        let mut list: Vec<RingKey> = list.into_iter().chain(neighbours).collect();
        list.sort_unstable_by_key(|key| self.me.distance_to(key));
        list.dedup();
        list.truncate(self.config.successors);
        list
    }

    /// A member is not to be pointed to any more.
    pub(crate) fn forget_pointer(&mut self, now: Instant, key: &RingKey) {
        if self.ring.predecessor == Some(*key) {
            self.set_predecessor(None);
        }
        if self.ring.operation == Operation::Idle && self.ring.successors.first() == Some(key) {
            self.drop_head(now, *key);
        }
    }

    /// The operation is over; the notifications that waited are next.
    fn end_operation(&mut self, now: Instant) {
        self.ring.operation = Operation::Idle;
        while self.ring.operation == Operation::Idle {
            let Some(notifier) = self.ring.notifications.pop_front() else {
                break;
            };
            self.rectify(now, notifier);
        }
    }
}

/// The longest part of `keys` from its start that goes clockwise from `me` without reaching `me`
/// again; at most `limit`. What another member says about its list is cut where it makes no sense.
fn clockwise_prefix<'a>(
    me: &RingKey,
    keys: impl IntoIterator<Item = &'a RingKey>,
    limit: usize,
) -> Vec<RingKey> {
    let mut list: Vec<RingKey> = Vec::with_capacity(limit);
    for key in keys {
        let after = list.last().unwrap_or(me);
        if list.len() >= limit || !crate::key::between(after, key, me) {
            break;
        }
        list.push(*key);
    }
    list
}
