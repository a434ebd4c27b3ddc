//! Flows of one program to several peers: in one queue they get the parts that their priorities
//! give them, and no other flow less for it; in queues of their own they are left alone.

use std::time::Duration;

use ringway_sim::bottleneck::{Path, median};
use ringway_sim::seeds;
use ringway_sim::trials::{Apart, Shares, table, two_queues};

const NEAR: Apart = Apart {
    farther: Duration::ZERO,
    beside: false,
    coupled: true,
};
/// Each peer is 20 ms farther away than the one before.
const FAR: Apart = Apart {
    farther: Duration::from_millis(20),
    ..NEAR
};
const BESIDE: Apart = Apart {
    beside: true,
    ..NEAR
};

fn played(name: &str, apart: Apart, count: u64) -> Vec<Shares> {
    let cell = table().into_iter().find(|cell| cell.name == name);
    let cell = cell.unwrap_or_else(|| panic!("there is no cell {name}"));
    let seeds = seeds(count).into_iter();
    seeds.map(|seed| apart.play(&cell.path, seed)).collect()
}

/// In every run each has its part of what all have, within so much.
fn have_their_parts(name: &str, apart: Apart, count: u64, within: f64) {
    let offs: Vec<f64> = played(name, apart, count)
        .iter()
        .map(|run| run.off)
        .collect();
    let worst = offs.iter().copied().fold(0.0, f64::max);
    assert!(worst <= within, "{name}, {apart:?}: {offs:?}");
}

#[test]
fn of_ten_megabits_each_has_its_part() {
    for (name, farther) in [
        ("10 Mbit/s, 20 ms, 1 BDP, drop-tail", 0.1),
        ("10 Mbit/s, 20 ms, 4 BDP, drop-tail", 0.05),
        ("10 Mbit/s, 60 ms, 1 BDP, drop-tail", 0.05),
        ("10 Mbit/s, 20 ms, 10 BDP, CoDel", 0.1),
        ("10 Mbit/s, 20 ms, 8 BDP, RED", 0.05),
    ] {
        have_their_parts(name, NEAR, 20, 0.05);
        have_their_parts(name, FAR, 5, farther);
    }
}

#[test]
fn of_a_hundred_megabits_each_has_its_part() {
    for name in [
        "100 Mbit/s, 20 ms, 1 BDP, drop-tail",
        "100 Mbit/s, 60 ms, 1 BDP, drop-tail",
    ] {
        have_their_parts(name, NEAR, 3, 0.05);
        have_their_parts(name, FAR, 2, 0.05);
    }
}

#[test]
fn what_each_has_without_it_is_far_off() {
    let name = "10 Mbit/s, 60 ms, 1 BDP, drop-tail";
    let apart = Apart {
        coupled: false,
        ..NEAR
    };
    let runs = played(name, apart, 3);
    assert!(runs.iter().all(|run| run.off >= 0.1), "{runs:?}");
}

#[test]
fn a_stranger_keeps_what_it_has_beside_them() {
    let name = "10 Mbit/s, 20 ms, 4 BDP, drop-tail";
    let of = |coupled| {
        let runs = played(name, Apart { coupled, ..BESIDE }, 10);
        let worst = runs.iter().map(|run| run.off).fold(0.0, f64::max);
        (
            median(runs.iter().filter_map(|run| run.tcp).collect()),
            worst,
        )
    };
    let ((alone, _), (beside, worst)) = (of(false), of(true));
    assert!(worst <= 0.05, "{worst}");
    let kept = beside / alone;
    assert!((0.85..=1.25).contains(&kept), "{alone} {beside}");
}

#[test]
fn separate_queues_are_not_taken_for_one() {
    for (one, other, count) in [
        ((10.0, 20), (10.0, 20), 5),
        ((10.0, 20), (10.0, 60), 5),
        ((100.0, 20), (10.0, 20), 2),
        ((100.0, 60), (100.0, 60), 2),
    ] {
        let paths = [one, other].map(|(rate, rtt)| Path::drop_tail(rate, rtt, 1.0));
        for beside in [false, true] {
            for seed in seeds(count) {
                let figures = two_queues(&paths, beside, seed);
                let holds = figures.iter().all(|figure| figure.holds());
                assert!(
                    holds,
                    "{one:?}, {other:?}, {beside}, seed {seed}: {figures:?}"
                );
            }
        }
    }
}
