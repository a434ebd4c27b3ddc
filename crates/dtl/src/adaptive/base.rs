//! The path's delay without a queue, and how much delays tremble on it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long one entry of the history lasts.
const SLICE: Duration = Duration::from_secs(10);
/// Entries: a base is forgotten after a minute in which the queue never emptied. Drains empty it many times in that time.
const SLICES: usize = 6;
/// For how long delays have to stay where they are, while nothing of ours is in the queue, to be those of another route.
const STEADY: Duration = Duration::from_secs(10);
/// And how often they have to be seen so.
const STEADY_LOOKS: u32 = 3;

/// Smallest values of slices of time, newest first.
#[derive(Clone, Debug)]
struct Smallest {
    slices: VecDeque<f64>,
    began: Instant,
    width: Duration,
    count: usize,
}

impl Smallest {
    fn new(now: Instant, width: Duration, count: usize) -> Smallest {
        Smallest {
            slices: VecDeque::from([f64::INFINITY]),
            began: now,
            width,
            count,
        }
    }

    fn update(&mut self, now: Instant, value: f64) {
        // A clock that goes back must not make a slice last for ever.
        self.began = self.began.min(now);
        // After a long silence only the slices that are kept have to be opened.
        for _ in 0..self.count {
            if now.saturating_duration_since(self.began) < self.width {
                break;
            }
            self.began += self.width;
            self.slices.push_front(f64::INFINITY);
        }
        if now.saturating_duration_since(self.began) >= self.width {
            self.began = now;
        }
        self.slices.truncate(self.count);
        if let Some(newest) = self.slices.front_mut() {
            *newest = newest.min(value);
        }
    }

    fn get(&self) -> Option<f64> {
        let least = self.slices.iter().copied().fold(f64::INFINITY, f64::min);
        least.is_finite().then_some(least)
    }
}

/// Delays that stay where they are.
#[derive(Copy, Clone, Debug)]
struct Steady {
    since: Instant,
    looks: u32,
    least: f64,
    most: f64,
}

/// Base delay and noise of one path, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Base {
    round_trip: Smallest,
    one_way: Smallest,
    noise: Smallest,
    steady: Option<Steady>,
}

impl Base {
    pub(super) fn new(now: Instant) -> Base {
        Base {
            round_trip: Smallest::new(now, SLICE, SLICES),
            one_way: Smallest::new(now, SLICE, SLICES),
            noise: Smallest::new(now, SLICE, SLICES),
            steady: None,
        }
    }

    /// Takes a round trip and, where it is measured, the time of the way there by two clocks; how long the packet waited.
    ///
    /// What the way there says counts only if it is less than what the round trip says: a queue on the way back is not ours to
    /// avoid, and a clock that drifts can then make nothing worse than it is without it.
    pub(super) fn update(&mut self, now: Instant, rtt: f64, one_way: Option<f64>) -> f64 {
        self.round_trip.update(now, rtt);
        let waited = rtt - self.round_trip.get().unwrap_or(rtt);
        let Some(one_way) = one_way else {
            return waited;
        };
        self.one_way.update(now, one_way);
        waited.min(one_way - self.one_way.get().unwrap_or(one_way))
    }

    /// The round trip without a queue.
    pub(super) fn get(&self) -> Option<f64> {
        self.round_trip.get()
    }

    /// Over some rounds, delays were by so much longer than the least of them.
    pub(super) fn trembles(&mut self, now: Instant, noise: f64) {
        self.noise.update(now, noise);
    }

    /// By how much delays are longer than the least when it is quiet. What was quietest in the last minute counts: queues come and go.
    pub(super) fn noise(&self) -> f64 {
        self.noise.get().unwrap_or(0.0)
    }

    /// A round trip while nothing of ours was in the queue. Queues of others come and go: what stays within `band` is the path itself.
    pub(super) fn without_us(&mut self, now: Instant, rtt: f64, band: f64) {
        let steady = match self.steady {
            Some(known) if (known.most - rtt).max(rtt - known.least) <= band => Steady {
                looks: known.looks.saturating_add(1),
                least: known.least.min(rtt),
                most: known.most.max(rtt),
                ..known
            },
            _ => Steady {
                since: now,
                looks: 1,
                least: rtt,
                most: rtt,
            },
        };
        self.steady = Some(steady);
        let lasted = now.saturating_duration_since(steady.since);
        let longer = self.get().is_some_and(|base| steady.least > base + band);
        if longer && lasted >= STEADY && steady.looks >= STEADY_LOOKS {
            self.round_trip = Smallest::new(now, SLICE, SLICES);
            self.round_trip.update(now, steady.least);
            self.one_way = Smallest::new(now, SLICE, SLICES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        crate::test_epoch() + Duration::from_secs(seconds)
    }

    #[test]
    fn a_queue_on_the_way_back_counts_only_without_one_way_delays() {
        let mut base = Base::new(at(0));
        assert_eq!(base.update(at(0), 0.020, Some(5.010)), 0.0);
        assert!((base.update(at(1), 0.120, None) - 0.100).abs() < 1e-9);
        assert!((base.update(at(1), 0.120, Some(5.011)) - 0.001).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_drifts_adds_nothing_to_the_round_trip() {
        let mut base = Base::new(at(0));
        base.update(at(0), 0.020, Some(1.0));
        assert!((base.update(at(50), 0.021, Some(1.5)) - 0.001).abs() < 1e-9);
    }

    #[test]
    fn a_delay_that_stays_is_another_route_and_one_that_moves_is_not() {
        for (moves, expected) in [(0.0, 0.060), (0.010, 0.020)] {
            let mut base = Base::new(at(0));
            base.update(at(0), 0.020, None);
            for second in 1..30 {
                let rtt = 0.060 + moves * (second % 2) as f64;
                base.update(at(second), rtt, None);
                base.without_us(at(second), rtt, 0.001);
            }
            assert_eq!(base.get(), Some(expected));
        }
    }
}
