//! What steps of the machine ask for: packets to send, events, windows to scan, packets that wait
//! no more. Every step writes here, and the [`Gateway`](super::Gateway)'s owner polls it.

use std::collections::VecDeque;

use super::event::Event;
use super::quotas::Moved;
use super::reset::{Broken, resets};
use super::{FilePart, FlowId, ScanJob, Verdict};
use crate::limits::MAX_EVENTS;

/// Queues of effects, and what is counted beside them.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Whole IP packets to send.
    pub(super) injections: VecDeque<Vec<u8>>,
    pub(super) events: VecDeque<Event>,
    pub(super) events_dropped: u64,
    /// Packets whose flow was not there.
    pub(super) flows_missing: u64,
    /// Packets that waited, by their tokens, and what becomes of them.
    pub(super) released: VecDeque<(u64, Verdict)>,
    pub(super) scans: VecDeque<ScanJob>,
    /// Parts of audited files.
    pub(super) parts: VecDeque<FilePart>,
    /// What the next audited file is called.
    next_file: u64,
    /// Decided flows that get something else from now on, if who carries them has to know.
    pub(super) moved: Option<VecDeque<Moved>>,
    /// Bytes that flows hold whose contents are followed.
    pub(super) content_held: usize,
    /// The payload to put in place of the packet's own, of the packet that was just handled.
    pub(super) rewritten: Option<Vec<u8>>,
    /// Flows whose contents have come to wait for their time.
    pub(super) timed: Vec<FlowId>,
    /// The flow of the packet at hand, if its contents are followed from now on.
    pub(super) followed: Option<FlowId>,
}

impl Effects {
    /// Keeps an event to be polled, or counts it where too many wait.
    pub(super) fn note(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else {
            self.events_dropped = self.events_dropped.saturating_add(1);
        }
    }

    /// Has both ends of a connection reset.
    pub(super) fn reset(&mut self, broken: &Broken) {
        self.injections.extend(resets(broken));
    }

    /// Packets that waited wait no more.
    pub(super) fn release(&mut self, tokens: Vec<u64>, verdict: Verdict) {
        self.released
            .extend(tokens.into_iter().map(|token| (token, verdict)));
    }

    /// A flow's contents held `before` bytes, and hold `after` now.
    pub(super) fn account(&mut self, before: usize, after: usize) {
        self.content_held = self
            .content_held
            .saturating_sub(before)
            .saturating_add(after);
    }

    /// What the next audited file is called.
    pub(super) fn number_file(&mut self) -> u64 {
        let number = self.next_file;
        self.next_file = number.saturating_add(1);
        number
    }
}
