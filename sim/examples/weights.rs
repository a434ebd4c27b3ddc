//! How far three flows of one program to three peers are from 1 : 2 : 4 in the simulator, and what
//! two flows through two queues lose by being compared.
//!
//! `cargo run --release -p ringway-sim --example weights -- [SEEDS] [FILTER]`; FILTER is a part of
//! a cell's name, or `apart`.

#![allow(
    clippy::print_stdout,
    reason = "a program for those who work on the algorithm, not for users"
)]

use std::time::Duration;

use ringway_sim::bottleneck::{Path, median};
use ringway_sim::seeds;
use ringway_sim::trials::{Apart, table, two_queues};

fn one_queue(name: &str, path: &Path, seeds: &[u64]) {
    for (farther, beside) in [(0, false), (0, true), (20, false), (20, true)] {
        let play = |coupled| {
            let apart = Apart {
                farther: Duration::from_millis(farther),
                beside,
                coupled,
            };
            let shares = seeds.iter().map(|seed| apart.play(path, *seed));
            shares.collect::<Vec<_>>()
        };
        let (alone, coupled) = (play(false), play(true));
        let off = |shares: &[_]| {
            shares
                .iter()
                .map(|s: &ringway_sim::trials::Shares| s.off * 100.0)
                .collect()
        };
        let tcp = |shares: &[ringway_sim::trials::Shares]| {
            median(shares.iter().filter_map(|s| s.tcp).collect())
        };
        let worst = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
        println!(
            "{name}, each {farther} ms farther{}: {:.1} % off, at worst {:.1}; coupled {:.1}, at worst {:.1}{}",
            if beside { ", beside a CUBIC" } else { "" },
            median(off(&alone)),
            worst(off(&alone)),
            median(off(&coupled)),
            worst(off(&coupled)),
            if beside {
                format!("; CUBIC has {:.3}, {:.3}", tcp(&alone), tcp(&coupled))
            } else {
                String::new()
            }
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|count| count.parse().ok());
    let seeds = seeds(count.unwrap_or(5));
    let filter = arguments.next().unwrap_or_default();
    for cell in table() {
        if cell.name.contains(&filter) {
            one_queue(&cell.name, &cell.path, &seeds);
        }
    }
    if !"apart".contains(&filter) {
        return;
    }
    let pairs = [
        ((10.0, 20), (10.0, 20)),
        ((10.0, 20), (10.0, 60)),
        ((100.0, 20), (10.0, 20)),
        ((100.0, 60), (100.0, 60)),
        ((100.0, 60), (1.0, 60)),
    ];
    for (one, other) in pairs {
        for beside in [false, true] {
            let paths = [one, other].map(|(rate, rtt)| Path::drop_tail(rate, rtt, 1.0));
            let runs = seeds.iter().map(|seed| two_queues(&paths, beside, *seed));
            let runs: Vec<_> = runs.collect();
            let values = |place: usize| runs.iter().filter_map(move |run| run.get(place));
            let longest = values(0).map(|figure| figure.value).fold(0.0, f64::max);
            let least = values(1)
                .map(|figure| figure.value)
                .fold(f64::INFINITY, f64::min);
            println!(
                "apart, {one:?} and {other:?}, beside CUBICs {beside}: together for {longest:.1} s at most, the worse keeps {least:.2} at least"
            );
        }
    }
}
