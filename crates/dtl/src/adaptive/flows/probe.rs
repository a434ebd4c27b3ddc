//! Up from priority 0: a bounded probe towards the new share.
//!
//! The share is N of N + 1, as beside one other flow, of all that the path carries. Who had the path to himself a moment ago knows its rate. Who did
//! not learns it while his window doubles: what he has more under way stands in the queue, so that the growth of the round trip tells how
//! fast the queue empties. A loss does not end the probe, because a queue that others keep full has no room for anybody's share: they have to
//! lose, too. The second one does.

use std::time::{Duration, Instant};

/// For how long it goes on, in seconds and in round trips: what a change may take.
const LONGEST: f64 = 2.0;
const LONGEST_ROUND_TRIPS: f64 = 40.0;
const LONGEST_OF_ALL: f64 = 60.0;
/// Losses with which it ends. With a third one flow takes two to three times a CUBIC's share at first (100 Mbit/s, 60 ms).
const LOSSES: u32 = 2;
/// By how much the window and the round trip have to grow in a round to say something of the path's rate.
const LARGER: f64 = 1.2;
const LONGER: f64 = 1.03;
/// Growth ÷ slow start's once it is known how far to go, or that the queue is full.
const NEAR: f64 = 0.5;
/// Share of the best rate from which on a flow uses the path as if it were his.
const OWN: f64 = 0.5;

/// The state of a probe. Sizes in datagrams, times in seconds, rates in datagrams a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Of the path's rate.
    share: f64,
    /// What the path has given or must have, and whether that is all it can.
    rate: f64,
    known: bool,
    ends: Instant,
    losses: u32,
    /// What was under way in the last round, and how long that took.
    last: Option<(f64, f64)>,
}

impl Probe {
    /// Begins with a window and a round trip; `rate` is the best that was ever had.
    pub(super) fn begin(now: Instant, count: f64, window: f64, rate: f64, rtt: f64) -> Probe {
        let longest = LONGEST.max(LONGEST_ROUND_TRIPS * rtt).min(LONGEST_OF_ALL);
        let mut probe = Probe {
            share: 0.0,
            rate,
            known: window >= OWN * rate * rtt,
            ends: now + Duration::from_secs_f64(longest),
            losses: 0,
            last: None,
        };
        probe.set_count(count);
        probe
    }

    /// The priority has changed again.
    pub(super) fn set_count(&mut self, count: f64) {
        self.share = count / (count + 1.0);
    }

    /// The window that it leads to, where the round trip takes `rtt`; infinite as long as that cannot be told.
    pub(super) fn goal(&self, rtt: f64) -> f64 {
        if self.known {
            self.share * self.rate * rtt
        } else {
            f64::INFINITY
        }
    }

    /// A round has ended in which so much came through.
    pub(super) fn look(&mut self, rate: f64, rtt: f64) {
        let window = rate * rtt;
        if let Some((before, shorter)) = self.last.replace((window, rtt))
            && window > before * LARGER
            && rtt > shorter * LONGER
        {
            self.rate = self.rate.max((window - before) / (rtt - shorter));
            self.known = true;
        }
        self.rate = self.rate.max(rate);
    }

    /// A window was cut: what is left of the probe.
    pub(super) fn lost(mut self) -> Option<Probe> {
        self.losses += 1;
        (self.losses < LOSSES).then_some(self)
    }

    /// Growth of the window ÷ that of slow start: what is sent beyond the room in the queue is lost.
    pub(super) fn pace(&self) -> f64 {
        if self.known || self.losses > 0 {
            NEAR
        } else {
            1.0
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        // A clock that goes back must not make it last.
        let left = self.ends.saturating_duration_since(now);
        left.is_zero() || left > Duration::from_secs_f64(LONGEST_OF_ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 1 000 datagrams a second and 20 ms beside a TCP that keeps 10 of them waiting, on which one had little so far.
    fn beside_tcp(count: f64) -> Probe {
        Probe::begin(crate::test_epoch(), count, 1.0, 100.0, 0.03)
    }

    #[test]
    fn a_path_that_was_ones_own_is_known() {
        let probe = Probe::begin(crate::test_epoch(), 3.0, 20.0, 1000.0, 0.02);
        assert!((probe.goal(0.02) - 15.0).abs() < 1e-9);
    }

    #[test]
    fn the_queue_tells_the_rate_of_one_that_was_others() {
        let mut probe = beside_tcp(1.0);
        assert!(probe.goal(0.03).is_infinite());
        // What is under way, and the time for it: each datagram makes it a millisecond longer.
        for (window, rtt) in [(2.0, 0.032), (4.0, 0.034), (8.0, 0.038)] {
            probe.look(window / rtt, rtt);
        }
        assert!((probe.goal(0.04) - 20.0).abs() < 1e-6, "{probe:?}");
        probe.set_count(3.0);
        assert!((probe.goal(0.04) - 30.0).abs() < 1e-6, "{probe:?}");
    }

    #[test]
    fn a_queue_that_becomes_shorter_or_hardly_longer_tells_nothing() {
        let mut probe = beside_tcp(1.0);
        for (window, rtt) in [(2.0, 0.032), (4.0, 0.025), (8.0, 0.0251)] {
            probe.look(window / rtt, rtt);
        }
        assert!(probe.goal(0.03).is_infinite());
    }

    #[test]
    fn it_ends_with_the_second_loss_and_with_time() {
        let began = crate::test_epoch();
        let probe = beside_tcp(1.0);
        assert!(probe.lost().is_some_and(|probe| probe.lost().is_none()));
        let after = |seconds| probe.is_over(began + Duration::from_secs(seconds));
        assert!(!after(1) && after(3));
    }
}
