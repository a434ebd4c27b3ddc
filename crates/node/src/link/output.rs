//! What the links have for the caller: packets to send, and events.

use std::collections::VecDeque;
use std::time::Instant;

use ringway_transport::Address;

use super::Event;
use crate::limits::{LINK_OUTPUT, RECEIVE_ROOM, RECEIVER_PAUSE};

/// Packets and events that wait to be polled. What finds no room is dropped and counted.
#[derive(Debug, Default)]
pub(super) struct Output {
    packets: VecDeque<(Address, Vec<u8>)>,
    events: VecDeque<Event>,
    /// Packets and events that were not taken in time.
    pub(super) dropped: u64,
}

impl Output {
    pub(super) fn transmit(&mut self, path: Address, packet: Vec<u8>) {
        if self.packets.len() >= LINK_OUTPUT {
            self.dropped += 1;
            return;
        }
        self.packets.push_back((path, packet));
    }

    pub(super) fn emit(&mut self, event: Event) {
        // An event that reports a state is never dropped; there are at most two of those for each
        // link.
        let may_drop = matches!(event, Event::Message(..));
        if may_drop && self.events.len() >= LINK_OUTPUT {
            self.dropped += 1;
            return;
        }
        self.events.push_back(event);
    }

    pub(super) fn poll_transmit(&mut self) -> Option<(Address, Vec<u8>)> {
        self.packets.pop_front()
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// Our buffers, shared between those who fill them.
#[derive(Debug)]
pub(super) struct Room {
    counted: Option<Instant>,
    /// Members that sent messages when they were last counted, at least 1.
    talking: u32,
}

impl Room {
    pub(super) fn new() -> Room {
        Room {
            counted: None,
            talking: 1,
        }
    }

    /// Bytes that each may have under way; `talking` counts who sends.
    pub(super) fn share(&mut self, now: Instant, talking: impl FnOnce() -> usize) -> u32 {
        if self.counted.is_none_or(|at| now >= at + RECEIVER_PAUSE) {
            self.counted = Some(now);
            self.talking = u32::try_from(talking()).unwrap_or(u32::MAX).max(1);
        }
        RECEIVE_ROOM / self.talking
    }
}
