//! What the coupling does with queues that are one, and with queues that are not.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const TICK: Duration = Duration::from_millis(10);
const SECOND: u32 = 100;

/// Groups whose windows are as the coupling leaves them.
struct Bench {
    coupling: Coupling,
    now: Instant,
    groups: Vec<(CoupledGroup, f64, f64)>,
    /// What gets through of what each window is worth, and what has.
    through: Vec<(f64, f64)>,
}

impl Bench {
    /// Of groups of these weights and windows in bytes.
    fn new(groups: &[(f64, f64)]) -> Bench {
        let mut coupling = Coupling::new();
        let mut join = |&(weight, window)| (coupling.join().unwrap(), weight, window);
        let groups: Vec<_> = groups.iter().map(&mut join).collect();
        Bench {
            through: vec![(1.0, 0.0); groups.len()],
            coupling,
            now: crate::test_epoch(),
            groups,
        }
    }

    /// So many ticks, in which packets wait for as long as `waits` says of a group and a tick. Each
    /// gets through what its window is worth.
    fn run(&mut self, ticks: u32, mut waits: impl FnMut(usize, u32) -> Duration) {
        for tick in 0..ticks {
            self.now += TICK;
            let through = self.through.iter_mut();
            let groups = self.groups.iter_mut().zip(through).enumerate();
            for (index, ((id, weight, window), (part, got))) in groups {
                let bytes = *window * *part * TICK.as_secs_f64() / 0.04;
                *got += bytes;
                let rtt = Duration::from_millis(20) + waits(index, tick);
                let standing = Standing {
                    weight: *weight,
                    window: *window as u64,
                    smoothed: Duration::from_millis(40),
                };
                let look = Look {
                    sent: self.now - rtt,
                    rtt,
                    bytes: bytes as u64,
                };
                *window *= self.coupling.exchange(self.now, *id, &standing, &look);
            }
        }
    }

    fn together(&self) -> Vec<usize> {
        let ids = self.groups.iter().map(|(id, ..)| *id);
        ids.map(|id| self.coupling.together(id)).collect()
    }

    fn windows(&self) -> Vec<f64> {
        self.groups.iter().map(|(.., window)| *window).collect()
    }

    fn all(&self) -> f64 {
        self.windows().iter().sum()
    }
}

/// A queue that fills and empties in its own way: a sum of waves whose lengths have no common
/// measure.
fn queue(seed: u64, tick: u32) -> Duration {
    let seconds = f64::from(tick) * TICK.as_secs_f64() + seed as f64 * 17.3;
    let waves = [1.9, 3.1, 5.3].map(|wave| (seconds * wave * (1.0 + seed as f64 / 7.0)).sin());
    Duration::from_secs_f64(0.02 + 0.006 * waves.iter().sum::<f64>())
}

#[test]
fn one_queue_is_divided_by_priority() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (2.0, 60_000.0), (4.0, 60_000.0)]);
    bench.run(3 * SECOND, |_, tick| queue(0, tick));
    assert_eq!(bench.together(), [1, 1, 1], "nothing is known so soon");
    assert_eq!(bench.windows(), [60_000.0; 3]);
    bench.run(20 * SECOND, |_, tick| queue(0, tick + 3 * SECOND));
    assert_eq!(bench.together(), [3, 3, 3]);
    let [first, second, third] = [0, 1, 2].map(|index| bench.groups[index].0);
    let others: Vec<CoupledGroup> = bench.coupling.others(second).collect();
    assert_eq!(others, [first, third]);
    for (window, weight) in bench.windows().into_iter().zip([1.0, 2.0, 4.0]) {
        let due = bench.all() * weight / 7.0;
        assert!((window / due - 1.0).abs() < 0.02, "{:?}", bench.windows());
    }
    assert!(
        (bench.all() / 180_000.0 - 1.0).abs() < 0.02,
        "{:?}",
        bench.windows()
    );
}

#[test]
fn what_gets_through_counts_not_the_window() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (1.0, 60_000.0)]);
    bench.through[0].0 = 0.8;
    bench.run(20 * SECOND, |_, tick| queue(0, tick));
    let before = [bench.through[0].1, bench.through[1].1];
    bench.run(20 * SECOND, |_, tick| queue(0, tick));
    let got = [0, 1].map(|index| bench.through[index].1 - before[index]);
    assert!((got[0] / got[1] - 1.0).abs() < 0.02, "{got:?}");
}

#[test]
fn the_lengths_of_their_paths_do_not_matter() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (1.0, 20_000.0)]);
    let far = Duration::from_millis(150);
    // What left at the same moment waited for as long, and the answer comes later from far away.
    bench.run(20 * SECOND, |index, tick| match index {
        0 => queue(0, tick),
        _ => far + queue(0, tick.saturating_sub(15)),
    });
    assert_eq!(bench.together(), [2, 2]);
}

#[test]
fn different_queues_are_left_alone() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (4.0, 60_000.0)]);
    for _ in 0..6 {
        bench.run(10 * SECOND, |index, tick| queue(index as u64 + 1, tick));
        assert_eq!(bench.together(), [1, 1]);
    }
    assert_eq!(bench.windows(), [60_000.0, 60_000.0]);
}

#[test]
fn two_queues_of_one_pace_stay_two() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (4.0, 60_000.0)]);
    // Each has jitter of its own.
    let ramp = |index: usize, tick: u32| {
        let jitter = (u64::from(tick) * (37 + 54 * index as u64)) % 101;
        Duration::from_micros(u64::from(tick % 800) * 100 + jitter * 20)
    };
    bench.run(8 * SECOND, ramp);
    assert_eq!(bench.together(), [1, 1]);
}

#[test]
fn queues_that_do_not_stir_say_nothing() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (4.0, 60_000.0)]);
    let jitter = |_, tick: u32| Duration::from_micros(u64::from(tick * 37 % 101) * 5);
    bench.run(20 * SECOND, jitter);
    assert_eq!(bench.together(), [1, 1]);
}

#[test]
fn what_was_given_by_mistake_comes_back() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (4.0, 60_000.0)]);
    bench.run(6 * SECOND, |_, tick| queue(0, tick));
    assert_eq!(bench.together(), [2, 2]);
    let given = bench.windows()[0];
    assert!(given < 50_000.0, "{given}");
    bench.run(10 * SECOND, |index, tick| queue(index as u64 + 1, tick));
    assert_eq!(bench.together(), [1, 1]);
    for window in bench.windows() {
        assert!(
            (window / 60_000.0 - 1.0).abs() < 0.1,
            "{:?}",
            bench.windows()
        );
    }
}

#[test]
fn an_idle_group_leaves_its_part_to_others() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (1.0, 60_000.0)]);
    bench.run(20 * SECOND, |_, tick| queue(0, tick));
    assert_eq!(bench.together(), [2, 2]);
    bench.groups[0].1 = 0.0;
    bench.groups[1].2 = 120_000.0;
    bench.run(10 * SECOND, |_, tick| queue(0, tick));
    assert!(bench.windows()[1] > 119_000.0, "{:?}", bench.windows());
    bench.groups[0].1 = 1.0;
    bench.run(5 * SECOND, |_, tick| queue(0, tick));
    let [one, other] = bench.windows()[..] else {
        unreachable!("there are two")
    };
    assert!((one / other - 1.0).abs() < 0.05, "{one} {other}");
}

#[test]
fn a_group_left_alone_keeps_its_window() {
    for (seconds, leaves) in [(6, true), (6, false), (20, false)] {
        let mut bench = Bench::new(&[(1.0, 60_000.0), (4.0, 60_000.0)]);
        bench.run(seconds * SECOND, |_, tick| queue(0, tick));
        assert_eq!(bench.together(), [2, 2]);
        let before = bench.windows()[1];
        assert!(before > 70_000.0, "{before}");
        if leaves {
            bench.coupling.leave(bench.now, bench.groups[0].0);
        } else {
            bench.groups[0].1 = 0.0;
        }
        bench.run(SECOND / 2, |_, tick| queue(0, tick));
        let after = bench.windows()[1];
        assert!(
            (after / before - 1.0).abs() < 0.05,
            "{seconds} s, leaves {leaves}: {before} to {after}"
        );
    }
}

#[test]
fn plans_for_a_silent_group_lapse() {
    let mut bench = Bench::new(&[(1.0, 60_000.0), (4.0, 60_000.0)]);
    bench.run(6 * SECOND, |_, tick| queue(0, tick));
    assert_eq!(bench.together(), [2, 2]);
    let (id, weight, window) = bench.groups.pop().unwrap();
    bench.run(2 * SECOND, |_, tick| queue(0, tick));
    let standing = Standing {
        weight,
        window: window as u64,
        smoothed: TICK,
    };
    let look = Look {
        sent: bench.now,
        rtt: TICK,
        bytes: 1000,
    };
    let factor = bench.coupling.exchange(bench.now, id, &standing, &look);
    assert!((factor - 1.0).abs() < f64::EPSILON, "{factor}");
}

#[test]
fn groups_are_bounded_and_forgotten_after_leaving() {
    let mut coupling = Coupling::new();
    let ids: Vec<_> = (0..MAX_COUPLED).map(|_| coupling.join().unwrap()).collect();
    assert_eq!(coupling.join(), Err(CouplingIsFull));
    let now = crate::test_epoch();
    assert!(coupling.leave(now, ids[3]));
    assert!(!coupling.leave(now, ids[3]));
    assert_eq!(coupling.together(ids[3]), 0);
    assert_eq!(coupling.others(ids[3]).count(), 0);
    let standing = Standing {
        weight: 1.0,
        window: 1000,
        smoothed: TICK,
    };
    let look = Look {
        sent: now,
        rtt: TICK,
        bytes: 1000,
    };
    let factor = coupling.exchange(now, ids[3], &standing, &look);
    assert!((factor - 1.0).abs() < f64::EPSILON);
    coupling.join().unwrap();
}

proptest! {
    #[test]
    fn absurd_input_keeps_factors_near_one(
        reports in proptest::collection::vec(
            (0..3_usize, any::<f64>(), any::<u64>(), 0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40, any::<u64>()),
            1..300,
        ),
    ) {
        let mut coupling = Coupling::new();
        let ids = [(); 3].map(|()| coupling.join().unwrap());
        let epoch = crate::test_epoch();
        for (index, weight, window, smoothed, now, rtt, bytes) in reports {
            let at = epoch + Duration::from_micros(now);
            let rtt = Duration::from_micros(rtt);
            let standing = Standing { weight, window, smoothed: Duration::from_micros(smoothed) };
            let look = Look { sent: at.checked_sub(rtt).unwrap_or(epoch), rtt, bytes };
            let factor = coupling.exchange(at, ids[index], &standing, &look);
            prop_assert!((0.2..=5.0).contains(&factor), "{factor}");
        }
    }
}
