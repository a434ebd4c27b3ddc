//! Rectify: who is the predecessor, after somebody claimed to be.

use std::time::Instant;

use crate::chord::Chord;
use crate::event::Event;
use crate::key::{RingKey, between};
use crate::limits::MAX_NOTIFICATIONS;
use crate::message::Message;
use crate::request::Purpose;
use crate::ring::Operation;

impl Chord {
    pub(crate) fn handle_notification(&mut self, now: Instant, notifier: RingKey) {
        if !self.is_member() || self.ring.notifications.contains(&notifier) {
            return;
        }
        if self.ring.operation == Operation::Idle {
            self.rectify(now, notifier);
        } else if self.ring.notifications.len() < MAX_NOTIFICATIONS {
            self.ring.notifications.push_back(notifier);
        } else {
            self.counters.notifications_dropped += 1;
        }
    }

    /// Takes `notifier` as predecessor if it is closer, or if the present one is dead.
    pub(super) fn rectify(&mut self, now: Instant, notifier: RingKey) {
        match self.ring.predecessor {
            None => self.adopt_predecessor(now, notifier),
            Some(present) if present == notifier => {}
            Some(present) if between(&present, &notifier, &self.me) => {
                self.adopt_predecessor(now, notifier);
                // It pointed here, and now somebody stands between.
                self.send(present, Message::StabiliseSoon);
            }
            // It answered a moment ago; whoever notifies without end must not keep this member
            // pending.
            Some(_) if self.ring.vouched_until.is_some_and(|until| until > now) => {}
            Some(present) => {
                self.ring.operation = Operation::Rectify { notifier };
                self.request(now, present, Purpose::Rectify, |id| Message::Ping { id });
            }
        }
    }

    pub(crate) fn predecessor_answered(&mut self, now: Instant, answer: &Message) {
        if let Message::Pong { member: false, .. } = answer
            && let Some(dead) = self.ring.predecessor
        {
            return self.predecessor_dead(now, dead);
        }
        self.ring.vouched_until = Some(now + self.config.stabilise_interval / 2);
        self.end_operation(now);
    }

    pub(crate) fn predecessor_dead(&mut self, now: Instant, dead: RingKey) {
        self.emit(Event::MemberDead(dead));
        self.peers.suspect(now, dead);
        if let Operation::Rectify { notifier } = self.ring.operation {
            self.adopt_predecessor(now, notifier);
        }
        self.end_operation(now);
    }

    fn adopt_predecessor(&mut self, now: Instant, predecessor: RingKey) {
        self.set_predecessor(Some(predecessor));
        if self.ring.successors.is_empty() {
            // Alone until now: whoever joined is also the successor.
            self.ring.stabilise_by(now);
        }
    }
}
