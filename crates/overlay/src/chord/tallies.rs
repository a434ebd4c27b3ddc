//! What callers do with tallies.

use std::time::Instant;

use super::Chord;
use crate::event::TallyId;
use crate::key::RingKey;
use crate::tally::{Own, TallyError};

impl Chord {
    /// Leaves what this router has counted at `point` ([`Count::point`](crate::Count::point)) with
    /// the routers around it, until `expires`, in seconds since 1970. A larger count replaces it.
    /// The answer comes as the event `Counted` or `TallyFailed`.
    ///
    /// # Errors
    ///
    /// When this member is not in the ring or has no credentials, when the count has expired or
    /// would stay for longer than 26 hours, or when 128 operations run.
    pub fn count(
        &mut self,
        now: Instant,
        point: RingKey,
        count: u64,
        expires: u64,
    ) -> Result<TallyId, TallyError> {
        let own = Own {
            keeping: &mut self.counts,
            neighbours: &self.neighbours,
        };
        let cx = &mut cx!(self, now);
        let id = self.tallies.count(cx, own, point, count, expires);
        self.settle(now);
        id
    }

    /// Reads what routers have counted at `point`. The answer comes as the event `Tallied` or
    /// `TallyFailed`.
    ///
    /// # Errors
    ///
    /// As [`count`](Self::count).
    pub fn tally(&mut self, now: Instant, point: RingKey) -> Result<TallyId, TallyError> {
        let own = Own {
            keeping: &mut self.counts,
            neighbours: &self.neighbours,
        };
        let id = self.tallies.read(&mut cx!(self, now), own, point);
        self.settle(now);
        id
    }

    /// Counts that this router keeps for others.
    #[must_use]
    pub fn counts_kept(&self) -> usize {
        self.counts.len()
    }
}
