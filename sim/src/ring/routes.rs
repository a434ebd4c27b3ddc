//! Messages through a simulated ring.

use ringway_overlay::{Destination, Event, RingKey, RouteId};

use super::RingSim;

impl RingSim {
    /// Has a member send `body` through the ring; none if it does not run or refused.
    pub fn route(&mut self, from: RingKey, to: Destination, body: &[u8]) -> Option<RouteId> {
        let now = self.instant();
        self.with(from, |chord| chord.route(now, to, body).ok())?
    }

    /// What became of messages since the last call, in order, each with the member that says so.
    pub fn take_routes(&mut self) -> Vec<(RingKey, Event)> {
        std::mem::take(&mut self.routes)
    }

    /// How often all members together have handed on somebody else's message.
    #[must_use]
    pub fn handed_on(&self) -> u64 {
        let running = self.nodes.values().filter_map(|node| node.chord.as_ref());
        running.map(|chord| chord.counters().routed_on).sum()
    }
}
