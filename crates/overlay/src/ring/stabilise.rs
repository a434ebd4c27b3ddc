//! Stabilise from the successor, then from the successor's predecessor.

use std::time::Instant;

use rand::seq::IndexedRandom;

use crate::chord::Chord;
use crate::event::Event;
use crate::key::{RingKey, between};
use crate::limits::{LAST_SUCCESSOR_CHANCES, MAX_PENDING_ANSWERS, PENDING_PAUSE};
use crate::message::Message;
use crate::request::Purpose;
use crate::ring::Operation;

impl Chord {
    /// Starts a round of stabilisation, unless another operation runs.
    pub(super) fn start_round(&mut self, now: Instant) {
        if self.ring.operation != Operation::Idle {
            let pause = self.jittered(PENDING_PAUSE);
            self.ring.next_round = Some(now + pause);
            return;
        }
        let interval = self.jittered(self.config.stabilise_interval);
        self.ring.next_round = Some(now + interval);
        self.ring.changed = false;
        self.ring.head_changed = false;
        let head = self.head();
        // In turn: one of the two may say "pending" for ever.
        let heads_turn = std::mem::take(&mut self.ring.heads_turn);
        if !heads_turn && let Some(hidden) = self.hidden_by(now, &head) {
            self.ring.heads_turn = true;
            return self.stabilise_from_predecessor(now, head, hidden);
        }
        match (self.ring.successors.first().copied(), self.ring.predecessor) {
            (Some(successor), _) => {
                self.ring.operation = Operation::FromSuccessor;
                self.request(now, successor, Purpose::FromSuccessor, |id| {
                    Message::GetState { id }
                });
            }
            // Alone, this member is its own successor; its own predecessor is who joined.
            (None, Some(predecessor)) => self.stabilise_from_predecessor(now, self.me, predecessor),
            (None, None) => {}
        }
    }

    /// A neighbour that has answered, and stands before the first successor, which ought to have
    /// named it: it has not heard of it yet, or hides it. Any of them, because one that answers
    /// "pending" for ever must not stand before the others.
    fn hidden_by(&mut self, now: Instant, head: &RingKey) -> Option<RingKey> {
        let before = |key: &RingKey| between(&self.me, key, head);
        let neighbours = self.neighbours.keys().filter(before);
        let hidden: Vec<RingKey> = neighbours
            .filter(|key| self.answered_in_this_pass(now, key))
            .collect();
        hidden.choose(&mut self.rng).copied()
    }

    pub(crate) fn successor_answered(&mut self, now: Instant, from: RingKey, answer: Message) {
        match answer {
            Message::State {
                predecessor,
                successors,
                ..
            } => {
                self.ring.pending_answers = 0;
                self.ring.silences = 0;
                let list = self.list_after(now, from, &successors);
                self.set_successors(list);
                let closer = predecessor.filter(|key| between(&self.me, key, &from));
                match closer.filter(|key| !self.peers.is_suspect(now, key)) {
                    Some(closer) => self.stabilise_from_predecessor(now, from, closer),
                    None => self.end_round(now, Some(from)),
                }
            }
            Message::NotMember { .. } => self.successor_dead(now, from),
            _ => self.try_round_again(now),
        }
    }

    /// The first successor left a request unanswered. The only one gets another chance, and so does
    /// any while this member doubts itself.
    pub(crate) fn successor_silent(&mut self, now: Instant, silent: RingKey) {
        self.ring.silences = self.ring.silences.saturating_add(1);
        let dear = self.ring.successors.len() == 1 || self.doubt() >= 2.0;
        if dear && self.ring.silences < LAST_SUCCESSOR_CHANCES {
            self.ring.stabilise_by(now);
            return self.end_operation(now);
        }
        self.successor_dead(now, silent);
    }

    pub(crate) fn successor_dead(&mut self, now: Instant, dead: RingKey) {
        self.emit(Event::MemberDead(dead));
        self.drop_head(now, dead);
        self.end_operation(now);
    }

    /// Removes the first successor and lets the next one know who comes before it now.
    pub(super) fn drop_head(&mut self, now: Instant, dead: RingKey) {
        self.peers.suspect(now, dead);
        self.ring.silences = 0;
        let rest = self
            .ring
            .successors
            .iter()
            .skip_while(|key| **key == dead)
            .copied()
            .collect();
        self.set_successors(rest);
        match self.ring.successors.first() {
            Some(head) => self.send(*head, Message::Notify),
            None => {
                self.emit(Event::Isolated);
                self.ring.next_probe = Some(now);
            }
        }
        self.ring.stabilise_by(now);
    }

    pub(super) fn stabilise_from_predecessor(
        &mut self,
        now: Instant,
        successor: RingKey,
        closer: RingKey,
    ) {
        self.ring.operation = Operation::FromPredecessor { successor };
        self.request(now, closer, Purpose::FromPredecessor, |id| {
            Message::GetState { id }
        });
    }

    pub(crate) fn successors_predecessor_answered(
        &mut self,
        now: Instant,
        from: RingKey,
        answer: Message,
    ) {
        match answer {
            Message::State { successors, .. } => {
                self.ring.pending_answers = 0;
                if self.ring.operation
                    == (Operation::FromPredecessor {
                        successor: self.head(),
                    })
                {
                    let list = self.list_after(now, from, &successors);
                    self.set_successors(list);
                }
                self.end_round(now, Some(self.head()));
            }
            Message::NotMember { .. } => self.successors_predecessor_dead(now, from),
            _ => self.try_round_again(now),
        }
    }

    pub(crate) fn successors_predecessor_dead(&mut self, now: Instant, dead: RingKey) {
        self.peers.suspect(now, dead);
        if self.head() == self.me && self.ring.predecessor == Some(dead) {
            // Alone, to notify the successor is to rectify the own predecessor.
            self.set_predecessor(None);
        }
        self.end_round(now, Some(self.head()));
    }

    /// The first successor, or the member itself in a ring of one.
    pub(super) fn head(&self) -> RingKey {
        self.ring.successors.first().copied().unwrap_or(self.me)
    }

    fn end_round(&mut self, now: Instant, notify: Option<RingKey>) {
        if let Some(successor) = notify.filter(|key| *key != self.me) {
            self.send(successor, Message::Notify);
        }
        if self.ring.changed {
            // A closer successor may know a closer one still; another list changes the lists before
            // it.
            let part = if self.ring.head_changed { 16 } else { 4 };
            let soon = self.jittered(self.config.stabilise_interval / part);
            self.ring.stabilise_by(now + soon);
        }
        self.end_operation(now);
    }

    /// The asked member is pending. Meanwhile this one is not, so that a circle of waiting members
    /// cannot form.
    fn try_round_again(&mut self, now: Instant) {
        self.ring.pending_answers = self.ring.pending_answers.saturating_add(1);
        if self.ring.pending_answers <= MAX_PENDING_ANSWERS {
            let pause = self.jittered(PENDING_PAUSE) + self.jittered(PENDING_PAUSE) / 2;
            self.ring.stabilise_by(now + pause);
        } else {
            self.ring.pending_answers = 0;
            self.complete_list(now);
        }
        self.end_operation(now);
    }

    /// The first successor says "pending" again and again, so its list is not to be had: neighbours
    /// that it would have named belong into the own one.
    fn complete_list(&mut self, now: Instant) {
        if self.ring.operation == Operation::FromSuccessor
            && let Some((head, rest)) = self.ring.successors.clone().split_first()
        {
            let list = self.list_after(now, *head, rest);
            self.set_successors(list);
        }
    }

    /// A member says that its successor may have changed; only this one's successor may say so.
    pub(crate) fn handle_hint(&mut self, now: Instant, from: RingKey) {
        if self.ring.successors.first() == Some(&from) {
            let pause = self.jittered(PENDING_PAUSE);
            self.ring.stabilise_by(now + pause);
        }
    }
}
