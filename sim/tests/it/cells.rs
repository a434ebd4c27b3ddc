//! The cells that are measured beside the kernel's TCP, with twenty seeds each, fast lines with
//! six: every figure is what it has to be in every run, or what is said here as long as it is not
//! (docs/explanation/priority.md says why).

use ringway_dtl::Algorithm;
use ringway_sim::trials::table;

use crate::trials::{Short, all_hold};

fn plays(name: &str, short: &[Short]) {
    plays_often(name, 20, short);
}

fn plays_often(name: &str, seeds: u64, short: &[Short]) {
    let cell = table().into_iter().find(|cell| cell.name == name);
    let cell = cell.unwrap_or_else(|| panic!("there is no cell {name}"));
    all_hold(
        name,
        seeds,
        |seed| cell.play(Algorithm::default(), seed),
        short,
    );
}

#[test]
fn ten_megabits_20_ms_1_product() {
    plays(
        "10 Mbit/s, 20 ms, 1 BDP, drop-tail",
        &[
            ("back after Reno, s", 2.9),
            ("BBR keeps", 0.975),
            ("back after BBR, s", 2.4),
            ("Jain of 10", 0.875),
        ],
    );
}

#[test]
fn ten_megabits_20_ms_4_products() {
    plays(
        "10 Mbit/s, 20 ms, 4 BDP, drop-tail",
        &[
            ("BBR keeps", 0.98),
            ("back after BBR, s", 2.4),
            ("Jain of 10", 0.9),
            ("Jain of two of priority 1", 0.985),
        ],
    );
}

#[test]
fn ten_megabits_60_ms_1_product() {
    plays(
        "10 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &[
            ("back after CUBIC, s", 2.3),
            ("back after Reno, s", 2.2),
            ("BBR keeps", 0.965),
            ("back after BBR, s", 3.4),
            ("Jain of 10", 0.975),
            ("Jain of two of priority 1", 0.97),
        ],
    );
}

const FAST_20_MS: (&str, &[Short]) = ("100 Mbit/s, 20 ms, 1 BDP, drop-tail", &[]);

const FAST_60_MS: (&str, &[Short]) = (
    "100 Mbit/s, 60 ms, 1 BDP, drop-tail",
    &[
        ("back after CUBIC, s", 2.1),
        ("back after BBR, s", 3.0),
        ("Jain of two of priority 1", 0.945),
    ],
);

/// A seed of a fast line takes as long as ten of a slow one.
const FAST_SEEDS: u64 = 6;

#[test]
fn a_hundred_megabits_20_ms_1_product() {
    plays_often(FAST_20_MS.0, FAST_SEEDS, FAST_20_MS.1);
}

#[test]
fn a_hundred_megabits_60_ms_1_product() {
    plays_often(FAST_60_MS.0, FAST_SEEDS, FAST_60_MS.1);
}

#[test]
#[ignore = "twenty seeds of both fast lines take ten minutes: make test-long"]
fn a_hundred_megabits_with_every_seed() {
    plays(FAST_20_MS.0, FAST_20_MS.1);
    plays(FAST_60_MS.0, FAST_60_MS.1);
}

/// Five packets in flight: a packet's own time is more than the delay that is aimed at.
#[test]
fn one_megabit_60_ms_1_product() {
    plays(
        "1 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &[
            ("queue, ms", 24.1),
            ("dropped, %", 0.13),
            ("CUBIC keeps", 0.95),
            ("back after CUBIC, s", 5.7),
            ("Reno keeps", 0.82),
            ("back after Reno, s", 6.2),
            ("BBR keeps", 0.975),
            ("back after BBR, s", 6.9),
            ("Jain of 2", 0.86),
            ("Jain of 4", 0.66),
            ("Jain of 10", 0.615),
        ],
    );
}

#[test]
fn codel() {
    plays(
        "10 Mbit/s, 20 ms, 10 BDP, CoDel",
        &[
            ("CUBIC keeps", 0.975),
            ("back after CUBIC, s", 2.6),
            ("Reno keeps", 0.97),
            ("back after Reno, s", 2.5),
            ("BBR keeps", 0.98),
            ("back after BBR, s", 2.5),
            ("Jain of 10", 0.88),
        ],
    );
}

#[test]
fn red() {
    plays(
        "10 Mbit/s, 20 ms, 8 BDP, RED",
        &[
            ("Reno keeps", 0.985),
            ("BBR keeps", 0.98),
            ("back after BBR, s", 2.4),
            ("Jain of 10", 0.9),
        ],
    );
}
