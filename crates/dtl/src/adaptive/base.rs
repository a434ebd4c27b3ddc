//! The path's delay without a queue, and its jitter.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::tuning::TUNING;

/// Smallest values of slices of time, newest first.
#[derive(Clone, Debug)]
struct Smallest {
    slices: VecDeque<f64>,
    began: Instant,
    width: Duration,
    count: usize,
    /// Slices that have not been counted, less those that have been since.
    held: u32,
}

impl Smallest {
    fn new(now: Instant, width: Duration, count: usize) -> Smallest {
        Smallest {
            slices: VecDeque::from([f64::INFINITY]),
            began: now,
            width,
            count,
            held: 0,
        }
    }

    /// The newest slice goes on until `now`: nothing is forgotten for the time being.
    fn hold(&mut self, now: Instant) {
        while self.held < TUNING.base.held_slices
            && now.saturating_duration_since(self.began) >= self.width
        {
            self.began += self.width;
            self.held += 1;
        }
    }

    /// The newest slice goes on for the time in which none looked: silence says nothing of the
    /// path. What lasts longer than ten minutes does.
    fn skip(&mut self, silence: Duration) {
        if silence >= self.width && silence < self.width.saturating_mul(TUNING.base.held_slices) {
            self.began += silence;
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
            self.held = self.held.saturating_sub(1);
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

/// What the two ways of a round trip waited for.
#[derive(Copy, Clone, Debug)]
struct BothWays {
    at: Instant,
    there: f64,
    back: f64,
}

/// Looks at both ways of round trips, of which the way there is known as well.
#[derive(Clone, Debug)]
struct Looks {
    /// The least and the second: one way there that seemed short, as one whose packet is not known
    /// for sure may, must not make all others look long for a minute.
    base: [Smallest; 2],
    latest: VecDeque<BothWays>,
}

impl Looks {
    fn new(now: Instant) -> Looks {
        Looks {
            base: [(); 2].map(|()| Smallest::new(now, TUNING.base.slice, TUNING.base.slices)),
            latest: VecDeque::new(),
        }
    }

    /// Of a round trip that waited for `waited`, the part of the way there, which took `one_way` by
    /// two clocks.
    fn look(&mut self, now: Instant, waited: f64, one_way: f64) -> f64 {
        let [least, second] = &mut self.base;
        let before = least.get();
        least.update(now, one_way);
        second.update(now, before.map_or(one_way, |before| before.max(one_way)));
        let base = second.get().unwrap_or(one_way);
        let there = (one_way - base).clamp(0.0, waited.max(0.0));
        self.latest.push_front(BothWays {
            at: now,
            there,
            back: waited - there,
        });
        self.latest.truncate(TUNING.base.looks);
        there
    }

    /// What waits on the way back, as far as it is known.
    fn back(&self, now: Instant) -> f64 {
        let fresh =
            |look: &&BothWays| now.saturating_duration_since(look.at) <= TUNING.base.look_kept;
        let latest = self.latest.front().filter(fresh);
        latest.map_or(0.0, |look| look.back)
    }

    /// What waits on the way there, if there is a queue on the way back that makes round trips say
    /// nothing about it.
    fn there(&self, now: Instant, base: f64) -> Option<f64> {
        let enough = TUNING
            .base
            .back_least
            .as_secs_f64()
            .max(base * TUNING.base.back_share.get());
        let queued = |look: &&BothWays| {
            look.back > enough && now.saturating_duration_since(look.at) <= TUNING.base.look_kept
        };
        let agree = self.latest.iter().filter(queued).count() == TUNING.base.looks;
        let latest = self.latest.front().filter(|_| agree)?;
        Some(latest.there)
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
    /// When a round trip was last taken.
    updated: Instant,
    looks: Looks,
    noise: Smallest,
    steady: Option<Steady>,
    /// When a queue on the way back last made looks count.
    dim: Option<Instant>,
    /// What the last packets waited for, newest first; infinite where there were none.
    recent: [f64; TUNING.base.recent],
}

impl Base {
    pub(super) fn new(now: Instant) -> Base {
        Base {
            round_trip: Smallest::new(now, TUNING.base.slice, TUNING.base.slices),
            updated: now,
            looks: Looks::new(now),
            noise: Smallest::new(now, TUNING.base.slice, TUNING.base.slices),
            steady: None,
            dim: None,
            recent: [f64::INFINITY; TUNING.base.recent],
        }
    }

    /// A queue that is not for us to empty hides the base: what was seen before it stays known.
    pub(super) fn hold(&mut self, now: Instant) {
        self.round_trip.hold(now);
        for smallest in &mut self.looks.base {
            smallest.hold(now);
        }
    }

    /// Takes a round trip and, where it is measured, the time of the way there by two clocks; how
    /// long the packet waited on the way there.
    ///
    /// What the way there says counts only if it is less than what the round trip says: a queue on
    /// the way back is not ours to avoid, and a clock that drifts can then make nothing worse
    /// than it is without it. Where only some round trips are known so, and they show a queue on
    /// the way back, the latest of them stands for the others: to take its way back off theirs
    /// would be wrong by as much as that queue has grown since.
    ///
    /// The round trip may have been longer by `error`: it makes the base no shorter than that, and
    /// nothing wait longer than it says.
    pub(super) fn update(
        &mut self,
        now: Instant,
        rtt: f64,
        error: f64,
        one_way: Option<f64>,
    ) -> f64 {
        let silence = now.saturating_duration_since(self.updated);
        self.updated = now;
        self.round_trip.skip(silence);
        for smallest in &mut self.looks.base {
            smallest.skip(silence);
        }
        self.round_trip.update(now, rtt + error);
        let waited = self.waited(rtt);
        let there = one_way.map(|one_way| self.looks.look(now, waited, one_way));
        self.recent.rotate_right(1);
        self.recent[0] = there.unwrap_or(waited);
        if let Some(there) = there {
            return there;
        }
        // No reading came with this packet: the latest ones count if the way back has a queue.
        let Some(there) = self.looks.there(now, rtt - waited) else {
            return waited;
        };
        self.dim = Some(now);
        waited.min(there)
    }

    /// The least that one of the last packets waited for, to be shown: on the way there where that
    /// is known of each, else on both ways.
    pub(super) fn recent(&self) -> Option<f64> {
        let least = self.recent.into_iter().fold(f64::INFINITY, f64::min);
        least.is_finite().then_some(least)
    }

    /// Takes the time of the way there that has become known later than the round trip that it
    /// belongs to; what that waited for on the way back.
    pub(super) fn look_back(&mut self, now: Instant, rtt: f64, one_way: f64) -> f64 {
        let waited = self.waited(rtt);
        waited - self.looks.look(now, waited, one_way)
    }

    fn waited(&self, rtt: f64) -> f64 {
        (rtt - self.round_trip.get().unwrap_or(rtt)).max(0.0)
    }

    /// The round trip without a queue.
    pub(super) fn get(&self) -> Option<f64> {
        self.round_trip.get()
    }

    /// Whether what is known of the way there hangs on single looks, or did lately, because a
    /// queue on the way back makes round trips say nothing about it.
    pub(super) fn is_seen_dimly(&self, now: Instant) -> bool {
        let lately = |at| now.saturating_duration_since(at) < TUNING.base.dim_kept;
        self.dim.is_some_and(lately)
    }

    /// Over some rounds, delays were by so much longer than the least of them.
    pub(super) fn add_noise(&mut self, now: Instant, noise: f64) {
        self.noise.update(now, noise);
    }

    /// By how much delays are longer than the least when it is quiet. What was quietest in the last
    /// minute counts: queues come and go.
    pub(super) fn noise(&self) -> f64 {
        self.noise.get().unwrap_or(0.0)
    }

    /// A round trip while nothing of ours was in the queue. Queues of others come and go: what
    /// stays within `band`, and jitter, is the path itself.
    pub(super) fn drained_sample(&mut self, now: Instant, rtt: f64, band: f64) {
        let around = band + 2.0 * self.noise();
        // Nor is what waits on the way back.
        let rtt = rtt - self.looks.back(now);
        let steady = match self.steady {
            Some(known) if (known.most - rtt).max(rtt - known.least) <= around => Steady {
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
        if longer && lasted >= TUNING.base.steady && steady.looks >= TUNING.base.steady_looks {
            self.round_trip = Smallest::new(now, TUNING.base.slice, TUNING.base.slices);
            self.round_trip.update(now, steady.least);
            self.looks = Looks::new(now);
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
    fn one_way_delays_rule_out_the_way_back() {
        let mut base = Base::new(at(0));
        assert_eq!(base.update(at(0), 0.020, 0.0, Some(5.010)), 0.0);
        assert!((base.update(at(1), 0.120, 0.0, None) - 0.100).abs() < 1e-9);
        assert!((base.update(at(1), 0.120, 0.0, Some(5.011)) - 0.001).abs() < 1e-9);
    }

    #[test]
    fn between_looks_the_latest_one_counts() {
        let mut base = Base::new(at(0));
        let ms = |ms: u64| at(0) + Duration::from_millis(ms);
        base.update(ms(0), 0.020, 0.0, None);
        base.look_back(ms(0), 0.020, 5.010);
        base.look_back(ms(50), 0.020, 5.010);
        // 100 ms wait on the way back from now on: it is not known at once.
        for look in [100, 150] {
            assert!((base.update(ms(look), 0.120, 0.0, None) - 0.100).abs() < 1e-9);
            base.look_back(ms(look), 0.120, 5.011);
        }
        base.look_back(ms(200), 0.120, 5.012);
        assert!((base.update(ms(201), 0.150, 0.0, None) - 0.002).abs() < 1e-9);
        // A look without a queue on the way back ends it at once, and silence does.
        assert!((base.update(ms(9000), 0.120, 0.0, None) - 0.100).abs() < 1e-9);
        base.look_back(ms(250), 0.022, 5.012);
        assert!((base.update(ms(251), 0.120, 0.0, None) - 0.100).abs() < 1e-9);
    }

    #[test]
    fn a_hidden_base_is_kept_for_ten_minutes() {
        let after = |seconds, held: bool| {
            let mut base = Base::new(at(0));
            base.update(at(0), 0.020, 0.0, Some(5.010));
            for second in 1..=seconds {
                if held {
                    base.hold(at(second));
                }
                base.update(at(second), 0.060, 0.0, Some(5.050));
            }
            // The base, and what the way there is taken to have waited for: by clocks that is not
            // more.
            let queue = base.recent().unwrap();
            (base.get().unwrap(), (queue * 1e3).round())
        };
        assert_eq!(after(50, false), (0.020, 40.0));
        assert_eq!(after(70, false), (0.060, 0.0));
        assert_eq!(after(600, true), (0.020, 40.0));
        assert_eq!(after(800, true), (0.060, 0.0));
    }

    #[test]
    fn silence_forgets_nothing_for_ten_minutes() {
        let after = |silence| {
            let mut base = Base::new(at(0));
            base.update(at(0), 0.020, 0.0, Some(5.010));
            base.update(at(silence), 0.060, 0.0, Some(5.050));
            (base.get().unwrap(), (base.recent().unwrap() * 1e3).round())
        };
        for silence in [9, 30, 70, 590] {
            assert_eq!(after(silence), (0.020, 0.0), "{silence}");
        }
        assert_eq!(after(700), (0.060, 0.0));
    }

    #[test]
    fn one_late_reading_spoils_nothing() {
        let mut base = Base::new(at(0));
        for look in 0..10 {
            // The word came 30 ms late once: the way back seemed long, and the way there short.
            let one_way = if look == 5 { 4.980 } else { 5.010 };
            base.update(at(look), 0.020, 0.0, Some(one_way));
        }
        assert!(base.update(at(11), 0.120, 0.0, Some(5.011)) < 0.0011);
    }

    #[test]
    fn a_drifting_clock_adds_nothing() {
        let mut base = Base::new(at(0));
        base.update(at(0), 0.020, 0.0, Some(1.0));
        assert!((base.update(at(50), 0.021, 0.0, Some(1.5)) - 0.001).abs() < 1e-9);
    }

    #[test]
    fn an_uncertain_round_trip_makes_no_path_shorter() {
        let mut base = Base::new(at(0));
        assert_eq!(base.update(at(0), 0.020, 0.0, None), 0.0);
        // Read from the socket 3 ms after the clock: it came then, or any time before.
        assert_eq!(base.update(at(1), 0.018, 0.003, None), 0.0);
        assert!((base.update(at(2), 0.022, 0.003, None) - 0.002).abs() < 1e-9);
        assert_eq!(base.get(), Some(0.020));
    }

    #[test]
    fn only_a_steady_delay_is_another_route() {
        for (moves, expected) in [(0.0, 0.060), (0.010, 0.020)] {
            let mut base = Base::new(at(0));
            base.update(at(0), 0.020, 0.0, None);
            for second in 1..30 {
                let rtt = 0.060 + moves * (second % 2) as f64;
                base.update(at(second), rtt, 0.0, None);
                base.drained_sample(at(second), rtt, 0.001);
            }
            assert_eq!(base.get(), Some(expected));
        }
    }
}
