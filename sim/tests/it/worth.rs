//! Priority N beside one CUBIC compared with N CUBICs beside one, in the cells that are measured
//! beside the kernel's TCP: medians of five seeds, as of five runs there, four times.

use ringway_dtl::Algorithm;
use ringway_sim::seeds;
use ringway_sim::trials::{Worth, table, worth_as_flows};

/// What the quotient has to lie within as long as it is not yet what it should be.
type Short = (f64, f64, f64);

/// Every median of five is what it has to be, or what is said here. What is said here has to be
/// needed by one of them at least.
fn is_worth(name: &str, numbers: &[f64], short: &[Short]) {
    let cell = table().into_iter().find(|cell| cell.name == name);
    let cell = cell.unwrap_or_else(|| panic!("there is no cell {name}"));
    let seeds = seeds(20);
    let mut wrong = Vec::new();
    for n in numbers {
        let worth = |five| worth_as_flows(&cell.path, Algorithm::default(), *n, five);
        let medians: Vec<_> = seeds.chunks(5).map(worth).collect();
        let quotients: Vec<String> = medians
            .iter()
            .map(|worth| format!("{:.2}", worth.quotient()))
            .collect();
        let known = short.iter().find(|(number, ..)| number == n);
        let reached = medians.iter().all(|worth| worth.holds());
        let holds = known.map_or(reached, |(_, least, most)| {
            let within = |worth: &Worth| (*least..=*most).contains(&worth.quotient());
            !reached && medians.iter().all(within)
        });
        if !holds {
            wrong.push(format!("{n}: {quotients:?}"));
        }
    }
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
}

const ALL: [f64; 8] = [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0];

#[test]
fn ten_megabits_20_ms_1_product() {
    is_worth(
        "10 Mbit/s, 20 ms, 1 BDP, drop-tail",
        &ALL,
        &[(0.5, 1.0, 1.2), (2.0, 1.0, 1.15)],
    );
}

#[test]
fn ten_megabits_20_ms_4_products() {
    is_worth(
        "10 Mbit/s, 20 ms, 4 BDP, drop-tail",
        &ALL,
        &[
            (0.25, 1.1, 1.25),
            (0.5, 1.05, 1.25),
            (1.0, 1.2, 1.4),
            (2.0, 1.1, 1.25),
            (3.0, 1.1, 1.3),
            (4.0, 1.1, 1.25),
        ],
    );
}

#[test]
fn ten_megabits_60_ms_1_product() {
    is_worth(
        "10 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &ALL,
        &[
            (0.25, 0.65, 0.9),
            (0.5, 0.75, 0.95),
            (1.0, 0.9, 1.25),
            (2.0, 1.25, 1.45),
            (3.0, 1.15, 1.55),
            (4.0, 1.3, 1.55),
            (6.0, 1.4, 1.65),
            (8.0, 1.3, 1.5),
        ],
    );
}

/// The other numbers take minutes.
const SOME: [f64; 3] = [1.0, 2.0, 4.0];

#[test]
fn a_hundred_megabits_20_ms_1_product() {
    is_worth(
        "100 Mbit/s, 20 ms, 1 BDP, drop-tail",
        &SOME,
        &[(2.0, 1.0, 1.25), (4.0, 1.2, 1.4)],
    );
}

#[test]
fn a_hundred_megabits_60_ms_1_product() {
    is_worth(
        "100 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &SOME,
        &[(1.0, 0.6, 0.85), (2.0, 0.7, 1.15), (4.0, 0.85, 1.3)],
    );
}

#[test]
fn one_megabit_60_ms_1_product() {
    is_worth(
        "1 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &ALL,
        &[
            (0.25, 0.3, 0.4),
            (0.5, 0.5, 0.9),
            (1.0, 0.65, 0.85),
            (2.0, 1.3, 2.2),
            (4.0, 1.85, 2.05),
            (6.0, 3.5, 7.0),
            (8.0, 11.5, 15.0),
        ],
    );
}

#[test]
fn codel() {
    is_worth("10 Mbit/s, 20 ms, 10 BDP, CoDel", &ALL, &[]);
}

#[test]
fn red() {
    is_worth("10 Mbit/s, 20 ms, 8 BDP, RED", &ALL, &[]);
}
