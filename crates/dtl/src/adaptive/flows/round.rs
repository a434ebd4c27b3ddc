//! The round trips of a round.

use crate::adaptive::tuning::TUNING;

/// The round trips of a round, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    /// The shortest of the first ones, which HyStart looks at.
    pub(super) shortest: f64,
    /// How many those are so far.
    pub(super) samples: u32,
    sum: f64,
    count: u32,
}

impl Default for RoundTrips {
    fn default() -> RoundTrips {
        RoundTrips {
            shortest: f64::INFINITY,
            samples: 0,
            sum: 0.0,
            count: 0,
        }
    }
}

impl RoundTrips {
    pub(super) fn add(&mut self, rtt: f64) {
        self.sum += rtt;
        self.count = self.count.saturating_add(1);
        if self.samples < TUNING.flows.hystart_samples {
            self.shortest = self.shortest.min(rtt);
            self.samples += 1;
        }
    }

    /// `None` if there were none.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}
