//! When the next drain is due.

use std::time::{Duration, Instant};

use super::super::tuning::TUNING;

/// The time of the next drain. Drains become rarer, and are spread.
#[derive(Clone, Debug)]
pub(super) struct DrainTimer {
    next: Instant,
    /// Seconds between the last and the next.
    pause: f64,
    /// Spreads the drains of flows that began together.
    spread: u64,
}

impl DrainTimer {
    pub(super) fn new(now: Instant) -> DrainTimer {
        DrainTimer {
            next: now + TUNING.drain.first,
            pause: TUNING.drain.first.as_secs_f64(),
            spread: 0x9e37_79b9,
        }
    }

    /// Whether it is time. A clock that goes back must not put it off.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next || self.next.saturating_duration_since(now) > TUNING.drain.latest
    }

    /// A drain begins, on a path of such a round trip.
    pub(super) fn on_drain(&mut self, now: Instant, rtt: f64) {
        self.pause = (self.pause * 1.5).min(TUNING.drain.pause.as_secs_f64());
        // A quarter more or less, from what this flow has lived through.
        self.spread = self
            .spread
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add((rtt * 1e9) as u64 | 1);
        let part = (self.spread >> 40) as f64 / (1_u64 << 24) as f64;
        let pause = self.pause.max(TUNING.drain.round_trips.get() * rtt) * (0.75 + 0.5 * part);
        self.next = now + Duration::from_secs_f64(pause).min(TUNING.drain.latest);
    }
}
