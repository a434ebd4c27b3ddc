//! Rectify: who is the predecessor, after somebody claimed to be.

use crate::context::Cx;
use crate::event::Event;
use crate::key::{RingKey, between};
use crate::limits::MAX_NOTIFICATIONS;
use crate::message::Message;
use crate::request::Purpose;
use crate::ring::{Operation, Ring};

impl Ring {
    pub(crate) fn handle_notification(&mut self, cx: &mut Cx<'_>, notifier: RingKey) {
        if !self.is_member() || self.notifications.contains(&notifier) {
            return;
        }
        if self.operation == Operation::Idle {
            self.rectify(cx, notifier);
        } else if self.notifications.len() < MAX_NOTIFICATIONS {
            self.notifications.push_back(notifier);
        } else {
            cx.out.counters.notifications_dropped += 1;
        }
    }

    /// Takes `notifier` as predecessor if it is closer, or if the present one is dead.
    pub(super) fn rectify(&mut self, cx: &mut Cx<'_>, notifier: RingKey) {
        match self.pointers.predecessor {
            None => self.adopt_predecessor(cx, notifier),
            Some(present) if present == notifier => {}
            Some(present) if between(&present, &notifier, &self.me) => {
                self.adopt_predecessor(cx, notifier);
                // It pointed here, and now somebody stands between.
                cx.send(present, Message::StabiliseSoon);
            }
            // It answered a moment ago; a peer that notifies without end must not keep this member
            // pending.
            Some(_) if self.vouched_until.is_some_and(|until| until > cx.now) => {}
            Some(present) => {
                self.operation = Operation::Rectify { notifier };
                cx.request(present, Purpose::Rectify, |id| Message::Ping { id });
            }
        }
    }

    pub(crate) fn predecessor_answered(&mut self, cx: &mut Cx<'_>, answer: &Message) {
        if let Message::Pong { member: false, .. } = answer
            && let Some(dead) = self.pointers.predecessor
        {
            return self.predecessor_dead(cx, dead);
        }
        self.vouched_until = Some(cx.now + cx.config.stabilise_interval / 2);
        self.end_operation(cx);
    }

    pub(crate) fn predecessor_dead(&mut self, cx: &mut Cx<'_>, dead: RingKey) {
        cx.emit(Event::MemberDead(dead));
        cx.peers.suspect(cx.now, dead);
        if let Operation::Rectify { notifier } = self.operation {
            self.adopt_predecessor(cx, notifier);
        }
        self.end_operation(cx);
    }

    fn adopt_predecessor(&mut self, cx: &mut Cx<'_>, predecessor: RingKey) {
        self.set_predecessor(cx, Some(predecessor));
        if self.pointers.successors.is_empty() {
            // Alone until now: the member that joined is also the successor.
            self.stabilise_by(cx.now);
        }
    }
}
