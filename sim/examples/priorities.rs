//! The priority controller in the simulator: what it does alone, beside TCP, beside its kind, and with N flows' worth.
//!
//! `cargo run --release -p ringway-sim --example priorities -- [paper|default] [SEEDS] [PARTS]`
//!
//! Parts: `a`lone, what TCP `k`eeps, `j`ain of late-comers, `n` flows' worth. Medians of the seeds.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program for whoever works on the algorithm, not for users"
)]

use std::time::Duration;

use ringway_dtl::{Algorithm, Config};
use ringway_sim::bottleneck::{
    Acknowledging, Bottleneck, CoDel, Control, Discipline, Path, Red, jain, median,
};
use ringway_sim::rivals::{Bbr, Cubic, Priorities, Reno};

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

struct Cell {
    name: String,
    path: Path,
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (megabits, rtt, products) in [
        (10.0, 20, 1.0),
        (10.0, 20, 4.0),
        (10.0, 60, 1.0),
        (100.0, 20, 1.0),
        (100.0, 60, 1.0),
        (1.0, 60, 1.0),
    ] {
        cells.push(Cell {
            name: format!("{megabits} Mbit/s {rtt} ms {products} BDP"),
            path: Path::drop_tail(megabits, rtt, products),
        });
    }
    let mut codel = Path::drop_tail(10.0, 20, 10.0);
    codel.discipline = Discipline::CoDel(CoDel::default());
    cells.push(Cell {
        name: "10 Mbit/s 20 ms CoDel".into(),
        path: codel,
    });
    let mut red = Path::drop_tail(10.0, 20, 8.0);
    red.discipline = Discipline::Red(Red::of(red.buffer));
    cells.push(Cell {
        name: "10 Mbit/s 20 ms RED".into(),
        path: red,
    });
    cells
}

fn ours(config: &Config, priority: f64) -> Box<dyn Control> {
    Box::new(Priorities::new(priority, config.clone()).unwrap())
}

fn rival(name: &str) -> Box<dyn Control> {
    match name {
        "cubic" => Box::new(Cubic::default()),
        "reno" => Box::new(Reno::default()),
        _ => Box::new(Bbr::default()),
    }
}

fn span(path: &Path) -> Duration {
    if path.rate > 5_000_000 {
        secs(60.0)
    } else {
        secs(100.0)
    }
}

fn alone(
    path: &Path,
    control: Box<dyn Control>,
    ack: Acknowledging,
    seed: u64,
) -> (f64, Duration, f64) {
    let mut sim = Bottleneck::new(path.clone(), seed);
    let flow = sim.add(Duration::ZERO, control, ack);
    let end = span(path);
    sim.run_until(end);
    (
        sim.share(flow, secs(10.0), end),
        sim.median_wait(secs(10.0), end),
        sim.loss(flow),
    )
}

fn kept(path: &Path, config: &Config, name: &str, seed: u64) -> (f64, Option<Duration>) {
    let end = span(path) + secs(20.0);
    let mut base = Bottleneck::new(path.clone(), seed);
    let tcp = base.add(secs(10.0), rival(name), Acknowledging::DELAYED);
    base.run_until(end);
    let without = base.share(tcp, secs(15.0), end);
    let mut sim = Bottleneck::new(path.clone(), seed);
    let scavenger = sim.add(Duration::ZERO, ours(config, 0.0), Acknowledging::EACH);
    let tcp = sim.add(secs(10.0), rival(name), Acknowledging::DELAYED);
    sim.stop_at(end, tcp);
    sim.run_until(end + secs(30.0));
    let back = sim
        .series(scavenger)
        .reaches(0.8 * path.rate as f64, end, secs(0.5));
    (
        sim.share(tcp, secs(15.0), end) / without,
        back.map(|at| at - end),
    )
}

fn late_comers(path: &Path, config: &Config, count: u32, seed: u64) -> (f64, f64) {
    let mut sim = Bottleneck::new(path.clone(), seed);
    let flows: Vec<usize> = (0..count)
        .map(|n| sim.add(secs(10.0) * n, ours(config, 0.0), Acknowledging::EACH))
        .collect();
    let from = secs(10.0) * count + secs(20.0);
    let to = from + secs(60.0);
    sim.run_until(to);
    let shares: Vec<f64> = flows
        .iter()
        .map(|flow| sim.share(*flow, from, to))
        .collect();
    (jain(&shares), shares.iter().sum())
}

/// Throughput of `n` flows' worth ÷ one CUBIC beside it; with `config` none: N real ones.
fn against(path: &Path, config: Option<&Config>, n: f64, seed: u64) -> (f64, f64) {
    let mut sim = Bottleneck::new(path.clone(), seed);
    let mut flows = Vec::new();
    match config {
        Some(config) => flows.push(sim.add(secs(0.0), ours(config, n), Acknowledging::EACH)),
        None => {
            for k in 0..(n as u32) {
                flows.push(sim.add(secs(0.1) * k, rival("cubic"), Acknowledging::DELAYED));
            }
        }
    }
    let one = sim.add(secs(0.5), rival("cubic"), Acknowledging::DELAYED);
    let end = span(path) * 2;
    sim.run_until(end);
    let mine: f64 = flows
        .iter()
        .map(|flow| sim.share(*flow, secs(10.0), end))
        .sum();
    let other = sim.share(one, secs(10.0), end);
    (mine / other, mine + other)
}

fn alone_of(path: &Path, config: &Config, seeds: u64) {
    let cubic = (1..=seeds).map(|s| alone(path, rival("cubic"), Acknowledging::DELAYED, s).0);
    let mine: Vec<_> = (1..=seeds)
        .map(|s| alone(path, ours(config, 0.0), Acknowledging::EACH, s))
        .collect();
    println!(
        "alone: {:.3} of cubic {:.3}, queue {:.1} ms, loss {:.2} %",
        median(mine.iter().map(|m| m.0).collect()),
        median(cubic.collect()),
        median(mine.iter().map(|m| m.1.as_secs_f64() * 1e3).collect()),
        median(mine.iter().map(|m| m.2 * 100.0).collect())
    );
}

fn kept_by(tcp: &str, path: &Path, config: &Config, seeds: u64) {
    let got: Vec<_> = (1..=seeds).map(|s| kept(path, config, tcp, s)).collect();
    let back = |back: Option<Duration>| back.map_or(f64::INFINITY, |back| back.as_secs_f64());
    println!(
        "{tcp} keeps {:.3}, back after {:.2} s",
        median(got.iter().map(|g| g.0).collect()),
        median(got.iter().map(|g| back(g.1)).collect())
    );
}

fn scavengers(count: u32, path: &Path, config: &Config, seeds: u64) {
    let got: Vec<_> = (1..=seeds)
        .map(|s| late_comers(path, config, count, s))
        .collect();
    println!(
        "{count} scavengers: jain {:.3}, together {:.3}",
        median(got.iter().map(|g| g.0).collect()),
        median(got.iter().map(|g| g.1).collect())
    );
}

fn worth(n: f64, path: &Path, config: &Config, seeds: u64) {
    let mine = (1..=seeds).map(|s| against(path, Some(config), n, s).0);
    let real = (1..=seeds).map(|s| match n < 1.0 {
        true => 1.0 / against(path, None, 1.0 / n, s).0,
        false => against(path, None, n, s).0,
    });
    let (mine, real) = (median(mine.collect()), median(real.collect()));
    println!("N = {n}: {mine:.2} of real {real:.2}: {:.2}", mine / real);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let which = arguments.next().unwrap_or_default();
    let seeds: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(3);
    let parts = arguments.next().unwrap_or_else(|| "akjn".into());
    let algorithm = match which.as_str() {
        "paper" => Algorithm::Paper,
        _ => Algorithm::default(),
    };
    let config = Config {
        algorithm,
        ..Config::default()
    };
    for Cell { name, path } in cells() {
        println!("== {name}");
        if parts.contains('a') {
            alone_of(&path, &config, seeds);
        }
        if parts.contains('k') {
            for tcp in ["cubic", "reno", "bbr"] {
                kept_by(tcp, &path, &config, seeds);
            }
        }
        if parts.contains('j') {
            for count in [2, 4, 10] {
                scavengers(count, &path, &config, seeds);
            }
        }
        if parts.contains('n') {
            for n in [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0] {
                worth(n, &path, &config, seeds);
            }
        }
    }
}
