//! Start-time fair queueing: whose turn it is.
//!
//! Source: Goyal, Vin, Cheng, "Start-time fair queueing", SIGCOMM 1996. Each flow has a start tag,
//! in virtual time. The smallest tag is served; serving n bytes at weight w moves it by n/w. A flow
//! that comes back begins at the present.

use std::collections::BTreeSet;

use crate::limits::MIN_WEIGHT;
use crate::priority::Priority;

use super::FlowId;

/// Virtual time per byte at weight 1. At weight 1000 a byte still takes 4 million units: rounding
/// is below 10⁻⁶.
const PER_BYTE: f64 = 4_294_967_296.0;

/// The flows of one class that want to send, by start tag.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    now: u128,
    ready: BTreeSet<(u128, FlowId)>,
}

impl Queue {
    /// The present in virtual time: no flow in the queue has a smaller tag.
    pub(super) fn now(&self) -> u128 {
        self.now
    }

    pub(super) fn first(&self) -> Option<FlowId> {
        self.ready.first().map(|&(_, id)| id)
    }

    /// Lets a flow in that was last served up to `tag`; returns the tag it starts with.
    pub(super) fn enter(&mut self, tag: u128, id: FlowId) -> u128 {
        let tag = tag.max(self.now);
        self.ready.insert((tag, id));
        tag
    }

    pub(super) fn leave(&mut self, tag: u128, id: FlowId) {
        self.ready.remove(&(tag, id));
    }

    /// The flow with this tag, which must be the smallest, is being served.
    pub(super) fn advance(&mut self, tag: u128) {
        self.now = self.now.max(tag);
    }
}

/// How far a byte of a flow of this priority moves its tag. Flows of priority 0 are equal among
/// themselves.
pub(super) fn cost_per_byte(priority: Priority) -> u128 {
    let weight = if priority.is_scavenger() {
        1.0
    } else {
        priority.get().max(MIN_WEIGHT)
    };
    // Between 4e6 and 4e12: exact enough, and never zero.
    (PER_BYTE / weight) as u128
}
