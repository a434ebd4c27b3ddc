//! Priorities that change in the cells that are measured beside the kernel's TCP, with twenty seeds
//! each, as in the cells' own tests.

use ringway_dtl::Algorithm;
use ringway_sim::trials::{Cell, Figure, table};

use crate::trials::{Short, all_hold};

fn plays(name: &str, play: fn(&Cell, Algorithm, u64) -> Vec<Figure>, short: &[Short]) {
    let cell = table().into_iter().find(|cell| cell.name == name);
    let cell = cell.unwrap_or_else(|| panic!("there is no cell {name}"));
    all_hold(
        name,
        20,
        |seed| play(&cell, Algorithm::default(), seed),
        short,
    );
}

/// One flow beside a CUBIC, from 0 to 1 to 2 to 0 (the paper's Figure 6), and from 1 to 4 to 0.
fn changes(name: &str, short: &[Short]) {
    plays(name, Cell::changes, short);
}

/// Five flows, of which four go from 0 to 1 and two of these to 2 (the paper's Figure 7).
fn five(name: &str, short: &[Short]) {
    plays(name, Cell::five, short);
}

#[test]
fn changes_at_ten_megabits_20_ms_1_product() {
    changes(
        "10 Mbit/s, 20 ms, 1 BDP, drop-tail",
        &[("0 to 1: more drops, %", 2.1)],
    );
}

#[test]
fn changes_at_ten_megabits_20_ms_4_products() {
    changes(
        "10 Mbit/s, 20 ms, 4 BDP, drop-tail",
        &[
            ("0 to 1: more drops, %", 6.3),
            ("1 to 4: s", 2.6),
            ("1 to 4: more drops, %", 2.5),
        ],
    );
}

#[test]
fn changes_at_ten_megabits_60_ms_1_product() {
    changes(
        "10 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &[
            ("0 to 1: more drops, %", 3.6),
            ("1 to 2: soon ÷ later", 0.47),
            ("1 to 2: more drops, %", 2.1),
            ("2 to 0: share soon", 0.15),
            ("1 to 4: s", 2.6),
            ("4 to 0: TCP at once, of without", 0.845),
            ("4 to 0: TCP, of without", 0.98),
        ],
    );
}

#[test]
fn changes_at_hundred_megabits_20_ms_1_product() {
    changes(
        "100 Mbit/s, 20 ms, 1 BDP, drop-tail",
        &[
            ("2 to 0: share soon", 0.2),
            ("1 to 4: s", 2.4),
            ("4 to 0: TCP at once, of without", 0.88),
            ("4 to 0: TCP, of without", 0.98),
            ("4 to 0: share later", 0.04),
        ],
    );
}

#[test]
fn changes_at_hundred_megabits_60_ms_1_product() {
    changes(
        "100 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &[
            ("0 to 1: more drops, %", 3.6),
            ("2 to 0: share soon", 0.57),
            ("2 to 0: share later", 0.09),
            ("1 to 4: s", 22.6),
            ("1 to 4: soon ÷ later", 0.505),
            ("4 to 0: TCP, of without", 0.98),
            ("4 to 0: share later", 0.12),
        ],
    );
}

#[test]
fn changes_at_one_megabit_60_ms_1_product() {
    changes(
        "1 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &[
            ("share at 0", 0.16),
            ("0 to 1: soon ÷ later", 0.56),
            ("0 to 1: soon ÷ later, no more", 1.8),
            ("0 to 1: more drops, %", 13.8),
            ("1 to 2: more drops, %", 4.0),
            ("2 to 0: share soon", 0.05),
            ("1 to 4: more drops, %", 6.3),
            ("4 to 0: TCP at once, of without", 0.605),
            ("4 to 0: TCP, of without", 0.965),
        ],
    );
}

#[test]
fn changes_at_codel() {
    changes(
        "10 Mbit/s, 20 ms, 10 BDP, CoDel",
        &[("4 to 0: TCP, of without", 0.975)],
    );
}

#[test]
fn changes_at_red() {
    changes(
        "10 Mbit/s, 20 ms, 8 BDP, RED",
        &[("4 to 0: TCP at once, of without", 0.885)],
    );
}

#[test]
fn five_at_ten_megabits_20_ms_1_product() {
    five("10 Mbit/s, 20 ms, 1 BDP, drop-tail", &[]);
}

#[test]
fn five_at_ten_megabits_20_ms_4_products() {
    five("10 Mbit/s, 20 ms, 4 BDP, drop-tail", &[]);
}

#[test]
fn five_at_ten_megabits_60_ms_1_product() {
    five(
        "10 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &[
            ("Jain of four at 1", 0.97),
            ("two at 2 ÷ two at 1, no more", 3.3),
        ],
    );
}

#[test]
fn five_at_hundred_megabits_20_ms_1_product() {
    five("100 Mbit/s, 20 ms, 1 BDP, drop-tail", &[]);
}

#[test]
fn five_at_hundred_megabits_60_ms_1_product() {
    five(
        "100 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &[("Jain of two at 2", 0.96)],
    );
}

#[test]
fn five_at_one_megabit_60_ms_1_product() {
    five(
        "1 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &[("Jain of five at 0", 0.69)],
    );
}

#[test]
fn five_at_codel() {
    five("10 Mbit/s, 20 ms, 10 BDP, CoDel", &[]);
}

#[test]
fn five_at_red() {
    five("10 Mbit/s, 20 ms, 8 BDP, RED", &[]);
}
