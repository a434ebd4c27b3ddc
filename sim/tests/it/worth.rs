//! Priority N beside one CUBIC compared with N CUBICs beside one, in the cells that are measured beside the kernel's TCP: the median of five seeds, as of
//! five runs there.

use ringway_dtl::Algorithm;
use ringway_sim::seeds;
use ringway_sim::trials::{table, worth_as_flows};

/// What the quotient has to lie within as long as it is not yet what it should be.
type Short = (f64, f64, f64);

fn is_worth(name: &str, numbers: &[f64], short: &[Short]) {
    let cell = table().into_iter().find(|cell| cell.name == name);
    let cell = cell.unwrap_or_else(|| panic!("there is no cell {name}"));
    let seeds = seeds(5);
    let mut wrong = Vec::new();
    for n in numbers {
        let worth = worth_as_flows(&cell.path, Algorithm::default(), *n, &seeds);
        let known = short.iter().find(|(number, ..)| number == n);
        let holds = known.map_or(worth.holds(), |(_, least, most)| {
            !worth.holds() && (*least..=*most).contains(&worth.quotient())
        });
        if !holds {
            wrong.push(format!("{n}: {:.2}, {worth:?}", worth.quotient()));
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
        &[(0.5, 1.1, 1.25)],
    );
}

#[test]
fn ten_megabits_20_ms_4_products() {
    is_worth(
        "10 Mbit/s, 20 ms, 4 BDP, drop-tail",
        &ALL,
        &[
            (0.25, 1.1, 1.25),
            (1.0, 1.15, 1.4),
            (2.0, 1.1, 1.35),
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
            (0.25, 0.6, 0.8),
            (0.5, 0.65, 0.9),
            (2.0, 1.3, 1.55),
            (3.0, 1.1, 1.3),
            (4.0, 1.2, 1.5),
            (6.0, 1.4, 1.75),
            (8.0, 1.2, 1.5),
        ],
    );
}

#[test]
fn a_hundred_megabits_20_ms_1_product() {
    is_worth(
        "100 Mbit/s, 20 ms, 1 BDP, drop-tail",
        &[1.0, 2.0, 4.0],
        &[(4.0, 1.1, 1.4)],
    );
}

#[test]
fn one_megabit_60_ms_1_product() {
    is_worth(
        "1 Mbit/s, 60 ms, 1 BDP, drop-tail",
        &ALL,
        &[
            (0.25, 0.25, 0.45),
            (0.5, 0.4, 0.65),
            (2.0, 1.8, 2.5),
            (4.0, 1.6, 2.2),
            (6.0, 5.0, 8.0),
            (8.0, 10.0, 15.0),
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
