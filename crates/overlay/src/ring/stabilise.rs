//! Stabilise from the successor, then from the successor's predecessor.

use rand::seq::IndexedRandom;

use crate::context::Cx;
use crate::event::Event;
use crate::group::neighbours::Neighbours;
use crate::key::{RingKey, between};
use crate::limits::{LAST_SUCCESSOR_CHANCES, MAX_PENDING_ANSWERS, PENDING_PAUSE};
use crate::message::Message;
use crate::request::Purpose;
use crate::ring::{Operation, Ring};

impl Ring {
    /// Starts a round of stabilisation, unless another operation runs.
    pub(super) fn start_round(&mut self, cx: &mut Cx<'_>, group: &Neighbours) {
        if self.operation != Operation::Idle {
            let pause = cx.jittered(PENDING_PAUSE);
            self.next_round = Some(cx.now + pause);
            return;
        }
        let interval = cx.jittered(cx.config.stabilise_interval);
        self.next_round = Some(cx.now + interval);
        self.changed = false;
        self.head_changed = false;
        let head = self.head();
        // In turn: one of the two may say "pending" for ever.
        let heads_turn = std::mem::take(&mut self.heads_turn);
        if !heads_turn && let Some(hidden) = self.hidden_by(cx, group, &head) {
            self.heads_turn = true;
            return self.stabilise_from_predecessor(cx, head, hidden);
        }
        match (
            self.pointers.successors.first().copied(),
            self.pointers.predecessor,
        ) {
            (Some(successor), _) => {
                self.operation = Operation::FromSuccessor;
                cx.request(successor, Purpose::FromSuccessor, |id| Message::GetState {
                    id,
                });
            }
            // Alone, this member is its own successor; its own predecessor is who joined.
            (None, Some(predecessor)) => self.stabilise_from_predecessor(cx, self.me, predecessor),
            (None, None) => {}
        }
    }

    /// A neighbour that has answered, and stands before the first successor, which ought to have
    /// named it: it has not heard of it yet, or hides it. Any of them, because one that answers
    /// "pending" for ever must not stand before the others.
    fn hidden_by(&self, cx: &mut Cx<'_>, group: &Neighbours, head: &RingKey) -> Option<RingKey> {
        let before = |key: &RingKey| between(&self.me, key, head);
        let neighbours = group.keys().filter(before);
        let hidden: Vec<RingKey> = neighbours
            .filter(|key| group.answered_in_this_pass(cx, key))
            .collect();
        hidden.choose(cx.rng).copied()
    }

    pub(crate) fn successor_answered(
        &mut self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        from: RingKey,
        answer: Message,
    ) {
        match answer {
            Message::State {
                predecessor,
                successors,
                ..
            } => {
                self.pending_answers = 0;
                self.silences = 0;
                let list = self.list_after(cx, group, from, &successors);
                self.set_successors(cx, list);
                let closer = predecessor.filter(|key| between(&self.me, key, &from));
                // A suspect would cost a time limit, and the next round sees it again.
                match closer.filter(|key| !cx.is_suspect(key)) {
                    Some(closer) => self.stabilise_from_predecessor(cx, from, closer),
                    None => self.end_round(cx, Some(from)),
                }
            }
            Message::NotMember { .. } => self.successor_dead(cx, from),
            _ => self.try_round_again(cx, group),
        }
    }

    /// The first successor left a request unanswered. The only one gets another chance, and so does
    /// any while this member doubts itself.
    pub(crate) fn successor_silent(&mut self, cx: &mut Cx<'_>, silent: RingKey) {
        self.silences = self.silences.saturating_add(1);
        let dear = self.pointers.successors.len() == 1 || cx.health_multiplier() >= 2.0;
        if dear && self.silences < LAST_SUCCESSOR_CHANCES {
            self.stabilise_by(cx.now);
            return self.end_operation(cx);
        }
        self.successor_dead(cx, silent);
    }

    pub(crate) fn successor_dead(&mut self, cx: &mut Cx<'_>, dead: RingKey) {
        cx.emit(Event::MemberDead(dead));
        self.drop_head(cx, dead);
        self.end_operation(cx);
    }

    /// Removes the first successor and lets the next one know who comes before it now.
    pub(super) fn drop_head(&mut self, cx: &mut Cx<'_>, dead: RingKey) {
        cx.peers.suspect(cx.now, dead);
        self.silences = 0;
        let rest = self
            .pointers
            .successors
            .iter()
            .skip_while(|key| **key == dead)
            .copied()
            .collect();
        self.set_successors(cx, rest);
        match self.pointers.successors.first() {
            // It has to learn who comes before it now.
            Some(head) => cx.send(*head, Message::Notify),
            None => {
                cx.emit(Event::Isolated);
                self.next_probe = Some(cx.now);
            }
        }
        self.stabilise_by(cx.now);
    }

    pub(super) fn stabilise_from_predecessor(
        &mut self,
        cx: &mut Cx<'_>,
        successor: RingKey,
        closer: RingKey,
    ) {
        self.operation = Operation::FromPredecessor { successor };
        cx.request(closer, Purpose::FromPredecessor, |id| Message::GetState {
            id,
        });
    }

    pub(crate) fn successors_predecessor_answered(
        &mut self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        from: RingKey,
        answer: Message,
    ) {
        match answer {
            Message::State { successors, .. } => {
                self.pending_answers = 0;
                // The head may have been dropped since the question.
                if self.operation
                    == (Operation::FromPredecessor {
                        successor: self.head(),
                    })
                {
                    let list = self.list_after(cx, group, from, &successors);
                    self.set_successors(cx, list);
                }
                self.end_round(cx, Some(self.head()));
            }
            Message::NotMember { .. } => self.successors_predecessor_dead(cx, from),
            _ => self.try_round_again(cx, group),
        }
    }

    pub(crate) fn successors_predecessor_dead(&mut self, cx: &mut Cx<'_>, dead: RingKey) {
        cx.peers.suspect(cx.now, dead);
        if self.head() == self.me && self.pointers.predecessor == Some(dead) {
            // Alone, to notify the successor is to rectify the own predecessor.
            self.set_predecessor(cx, None);
        }
        self.end_round(cx, Some(self.head()));
    }

    /// The first successor, or the member itself in a ring of one.
    pub(crate) fn head(&self) -> RingKey {
        self.pointers.successors.first().copied().unwrap_or(self.me)
    }

    fn end_round(&mut self, cx: &mut Cx<'_>, notify: Option<RingKey>) {
        if let Some(successor) = notify.filter(|key| *key != self.me) {
            cx.send(successor, Message::Notify);
        }
        if self.changed {
            // A closer successor may know a closer one still; another list changes the lists before
            // it.
            let part = if self.head_changed { 16 } else { 4 };
            let soon = cx.jittered(cx.config.stabilise_interval / part);
            self.stabilise_by(cx.now + soon);
        }
        self.end_operation(cx);
    }

    /// The asked member is pending. Meanwhile this one is not, so that a circle of waiting members
    /// cannot form.
    fn try_round_again(&mut self, cx: &mut Cx<'_>, group: &Neighbours) {
        self.pending_answers = self.pending_answers.saturating_add(1);
        if self.pending_answers <= MAX_PENDING_ANSWERS {
            let pause = cx.jittered(PENDING_PAUSE) + cx.jittered(PENDING_PAUSE) / 2;
            self.stabilise_by(cx.now + pause);
        } else {
            self.pending_answers = 0;
            self.complete_list(cx, group);
        }
        self.end_operation(cx);
    }

    /// The first successor says "pending" again and again, so its list is not to be had: neighbours
    /// that it would have named belong into the own one.
    fn complete_list(&mut self, cx: &mut Cx<'_>, group: &Neighbours) {
        if self.operation == Operation::FromSuccessor
            && let Some((head, rest)) = self.pointers.successors.clone().split_first()
        {
            let list = self.list_after(cx, group, *head, rest);
            self.set_successors(cx, list);
        }
    }

    /// A member says that its successor may have changed; only this one's successor may say so.
    pub(crate) fn handle_hint(&mut self, cx: &mut Cx<'_>, from: RingKey) {
        if self.pointers.successors.first() == Some(&from) {
            let pause = cx.jittered(PENDING_PAUSE);
            self.stabilise_by(cx.now + pause);
        }
    }
}
