//! [`Output`]: what comes out of a member: messages, events, counters; and effects, for
//! other machines.

use std::collections::VecDeque;

use crate::effect::Effect;
use crate::event::{Counters, Event, Transmit};
use crate::key::RingKey;
use crate::limits::MAX_OUTPUT;
use crate::message::Message;

/// What waits for the caller, in order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) counters: Counters,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    /// What the last step of a machine left for others.
    pub(crate) effects: Vec<Effect>,
}

impl Output {
    /// Queues a message. It is dropped and counted if the caller has not fetched those before it.
    pub(crate) fn send(&mut self, to: RingKey, message: Message) {
        if self.transmits.len() >= MAX_OUTPUT {
            self.counters.output_dropped += 1;
            return;
        }
        self.transmits.push_back(Transmit { to, message });
    }

    /// Queues an event, as [`send`](Self::send) does a message.
    pub(crate) fn emit(&mut self, event: Event) {
        if self.events.len() >= MAX_OUTPUT {
            self.counters.output_dropped += 1;
            return;
        }
        self.events.push_back(event);
    }

    pub(crate) fn next_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
