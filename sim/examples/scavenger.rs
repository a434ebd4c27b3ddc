//! What priority 0 does in the simulator.
//!
//! `cargo run --release -p ringway-sim --example scavenger -- [paper]
//! trials|table|changes|five|matrix [SEEDS] [FILTER]`
//!
//! `trials`: everything that it has to stand, of which the tests play a part. `table`: the cells
//! that are measured against the kernel's TCP. `changes`, `five`: changes of priority in these
//! cells, of one flow and of five. `matrix`: 108 paths. FILTER is a part of a name. Of each figure
//! the median, the worst, and how many seeds miss what it has to be.

#![allow(
    clippy::print_stdout,
    reason = "a program for those who work on the algorithm, not for users"
)]

use ringway_dtl::Algorithm;
use ringway_sim::bottleneck::median;
use ringway_sim::trials::{Bound, Figure, matrix, table, trials};

/// Figures of the same name in many runs.
fn print(runs: &[Vec<Figure>]) {
    let Some(first) = runs.first() else {
        return;
    };
    for (place, figure) in first.iter().enumerate() {
        let of_place = runs.iter().filter_map(|run| run.get(place));
        let values: Vec<f64> = of_place.clone().map(|figure| figure.value).collect();
        let missed = of_place.filter(|figure| !figure.holds()).count();
        let (sign, bound, worst) = match figure.bound {
            Bound::AtLeast(bound) => {
                let worst = values.iter().copied().fold(f64::INFINITY, f64::min);
                ('≥', bound, worst)
            }
            Bound::AtMost(bound) => {
                let worst = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                ('≤', bound, worst)
            }
        };
        let verdict = match missed {
            0 => String::new(),
            missed => format!("  MISSED by {missed} of {}", runs.len()),
        };
        println!(
            "  {:<32} {:>8.3}  worst {worst:>8.3}  {sign} {bound}{verdict}",
            figure.name,
            median(values)
        );
    }
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let algorithm = match arguments.first().map(String::as_str) {
        Some("paper") => {
            arguments.remove(0);
            Algorithm::Paper
        }
        _ => Algorithm::default(),
    };
    let mut arguments = arguments.into_iter();
    let what = arguments.next().unwrap_or_else(|| "trials".into());
    let seeds: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let filter = arguments.next().unwrap_or_default();
    if what == "trials" {
        for trial in trials() {
            if trial.name.contains(&filter) {
                println!("== {}", trial.name);
                let play = |seed| (trial.play)(algorithm, seed);
                print(&(1..=seeds).map(play).collect::<Vec<_>>());
            }
        }
        return;
    }
    let cells = if what == "matrix" { matrix() } else { table() };
    for cell in cells {
        if cell.name.contains(&filter) {
            println!("== {}", cell.name);
            let play = |seed| match what.as_str() {
                "changes" => cell.changes(algorithm, seed),
                "five" => cell.five(algorithm, seed),
                _ => cell.play(algorithm, seed),
            };
            print(&(1..=seeds).map(play).collect::<Vec<_>>());
        }
    }
}
