//! Ring maintenance after Zave: `join`, `stabilise` and `rectify`, one operation at a time.
//!
//! A member has a predecessor and a list of r successors. Each of the operations below asks one
//! other member and then changes the own state at once. Two rules make that as good as an atomic
//! step:
//!
//! - One operation runs at a time ([`Operation`]); notifications that come meanwhile wait.
//! - While its query is open, a member answers state queries with "pending", so that no member
//!   reads a state that is about to change. Pings it answers at once.
//!
//! The step counts as done at the moment at which the asked member answered: the asker's old state
//! has been invisible since before that.
//!
//! Zave's lists always have r entries, with a made-up entry `last + 1` after a removal. Here the
//! list just gets shorter: no member stands between `last` and `last + 1`, so none is skipped
//! either way. A list never reaches past its own member, so in a ring of m < r + 1 members it has m
//! − 1 entries; in a ring of one it is empty, and the member is its own successor.
//!
//! Source: Zave, "Reasoning about Identifier Spaces: How to Make Chord Correct", IEEE TSE 43(12),
//! 2017, §IV.

mod join;
pub(crate) mod pointers;
mod rectify;
mod reunite;
mod stabilise;

use std::collections::VecDeque;
use std::time::Instant;

use crate::context::Cx;
use crate::effect::Effect;
use crate::event::{Event, Membership};
use crate::group::neighbours::Neighbours;
use crate::key::RingKey;
use crate::limits::REUNITE_INTERVAL;
use crate::lookup::inquiry::Rule;
use crate::message::{Message, RequestId};
use crate::request::{Purpose, Request};

pub(crate) use join::Joining;
use pointers::Pointers;

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
    me: RingKey,
    membership: Membership,
    pointers: Pointers,
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

impl Ring {
    /// Outside any ring.
    pub(crate) fn new(me: RingKey) -> Ring {
        Ring {
            me,
            membership: Membership::Outside,
            pointers: Pointers::default(),
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

    pub(crate) fn is_member(&self) -> bool {
        self.membership == Membership::Member
    }

    pub(crate) fn membership(&self) -> Membership {
        self.membership
    }

    pub(crate) fn pointers(&self) -> &Pointers {
        &self.pointers
    }

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

    /// Founds a ring of one, also instead of joining.
    pub(crate) fn found(&mut self, cx: &mut Cx<'_>) {
        cx.requests.forget(|purpose| *purpose == Purpose::Join);
        self.become_member(cx, None, Vec::new());
    }

    pub(crate) fn due(&mut self, cx: &mut Cx<'_>, group: &Neighbours) {
        if self.next_due().is_none_or(|due| due > cx.now) {
            return;
        }
        match self.membership {
            Membership::Outside => {}
            Membership::Joining => self.join_due(cx),
            Membership::Member => {
                let now = cx.now;
                let due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
                if due(self.next_round) {
                    self.start_round(cx, group);
                }
                if due(self.next_probe) {
                    self.start_probe(cx);
                }
            }
        }
    }

    /// A request of ring maintenance has its answer from `request.to`, or never will.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        request: &Request,
        answer: Option<Message>,
    ) {
        let from = request.to;
        match (request.purpose, answer) {
            (Purpose::FromSuccessor, Some(answer)) => {
                self.successor_answered(cx, group, from, answer);
            }
            (Purpose::FromSuccessor, None) => self.successor_silent(cx, from),
            (Purpose::FromPredecessor, Some(answer)) => {
                self.successors_predecessor_answered(cx, group, from, answer);
            }
            (Purpose::FromPredecessor, None) => self.successors_predecessor_dead(cx, from),
            (Purpose::Rectify, Some(answer)) => self.predecessor_answered(cx, &answer),
            (Purpose::Rectify, None) => self.predecessor_dead(cx, from),
            (Purpose::Join, Some(answer)) => self.join_answered(cx, from, answer),
            (Purpose::Join, None) => self.join_failed(cx),
            _ => {}
        }
    }

    pub(crate) fn answer_state(&self, cx: &mut Cx<'_>, from: RingKey, id: RequestId) {
        let answer = if !self.is_member() {
            Message::NotMember { id }
        } else if self.operation == Operation::Idle {
            let (predecessor, successors) =
                (self.pointers.predecessor, self.pointers.successors.clone());
            Message::State {
                id,
                predecessor,
                successors,
            }
        } else {
            Message::Pending { id }
        };
        cx.send(from, answer);
    }

    pub(crate) fn become_member(
        &mut self,
        cx: &mut Cx<'_>,
        predecessor: Option<RingKey>,
        successors: Vec<RingKey>,
    ) {
        self.membership = Membership::Member;
        self.operation = Operation::Idle;
        self.notifications.clear();
        let around = std::mem::take(&mut self.joining.around);
        self.joining = Joining::default();
        self.pointers.predecessor = predecessor;
        self.pointers.successors = successors;
        self.next_round = Some(cx.now);
        self.next_probe = Some(cx.now + cx.jittered(REUNITE_INTERVAL));
        cx.emit(Event::Joined);
        self.neighbours_changed(cx);
        cx.effect(Effect::Joined(around));
    }

    fn neighbours_changed(&self, cx: &mut Cx<'_>) {
        let nearest = self.pointers.head().into_iter();
        for key in nearest.chain(self.pointers.predecessor) {
            cx.peers.learn(key);
        }
        let predecessor = self.pointers.predecessor;
        let successors = self.pointers.successors.clone();
        cx.emit(Event::NeighboursChanged {
            predecessor,
            successors,
        });
    }

    fn set_predecessor(&mut self, cx: &mut Cx<'_>, predecessor: Option<RingKey>) {
        if self.pointers.predecessor != predecessor {
            self.vouched_until = None;
            self.pointers.predecessor = predecessor;
            self.neighbours_changed(cx);
        }
    }

    fn set_successors(&mut self, cx: &mut Cx<'_>, successors: Vec<RingKey>) {
        if self.pointers.successors != successors {
            self.head_changed |= self.pointers.successors.first() != successors.first();
            self.pointers.successors = successors;
            self.changed = true;
            self.neighbours_changed(cx);
        }
    }

    /// The list that follows from `head` being the first successor and `rest` its own list.
    ///
    /// Neighbours that answered themselves belong into it even if the head leaves them out; but
    /// none beyond the last that the head names, because a member that stands between would be
    /// skipped.
    fn list_after(
        &self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        head: RingKey,
        rest: &[RingKey],
    ) -> Vec<RingKey> {
        let all = std::iter::once(&head).chain(rest);
        let list = clockwise_prefix(&self.me, all, cx.config.successors);
        let last = list.last().copied().unwrap_or(head);
        if last == head {
            return list;
        }
        let known: Vec<RingKey> = group.keys().collect();
        let left_out = known
            .into_iter()
            .filter(|key| crate::key::between(&head, key, &last) && !list.contains(key));
        let (neighbours, doubtful): (Vec<RingKey>, Vec<RingKey>) =
            left_out.partition(|key| group.answered_lately(cx, key));
        // A neighbour that the head leaves out is dead, or the head lies: it is asked at once.
        for key in doubtful {
            group.contact(cx, key);
        }
        if neighbours.is_empty() {
            return list;
        }
        let mut list: Vec<RingKey> = list.into_iter().chain(neighbours).collect();
        list.sort_unstable_by_key(|key| self.me.distance_to(key));
        list.dedup();
        list.truncate(cx.config.successors);
        list
    }

    /// A member is not to be pointed to any more.
    pub(crate) fn forget_pointer(&mut self, cx: &mut Cx<'_>, key: &RingKey) {
        if self.pointers.predecessor == Some(*key) {
            self.set_predecessor(cx, None);
        }
        if self.operation == Operation::Idle && self.pointers.successors.first() == Some(key) {
            self.drop_head(cx, *key);
        }
    }

    /// The operation is over; the notifications that waited are next.
    fn end_operation(&mut self, cx: &mut Cx<'_>) {
        self.operation = Operation::Idle;
        while self.operation == Operation::Idle {
            let Some(notifier) = self.notifications.pop_front() else {
                break;
            };
            self.rectify(cx, notifier);
        }
    }
}

/// How the own place is looked up.
fn own_place_rule(cx: &Cx<'_>) -> Rule {
    if cx.trust.has_credentials() {
        Rule::Verified
    } else {
        Rule::Plain
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
