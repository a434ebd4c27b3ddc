//! The priority controller in the simulator: what it does alone, beside TCP, beside its kind, and
//! with N flows' worth.
//!
//! `cargo run --release -p ringway-sim --example priorities -- [paper|default] [SEEDS] [PARTS]
//! [CELL] [N,N]`
//!
//! Parts: `a`lone, what TCP `k`eeps, `j`ain with late-comers, `n` flows' worth, the same
//! `t`rembling: hosts that take up to 0.3 ms to answer, `c`hanges from 0 to 1 to 2 beside 1, 4 and
//! 10 CUBICs. Medians of the seeds. Cells whose names contain CELL; only these N.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program for those who work on the algorithm, not for users"
)]

use std::time::Duration;

use ringway_dtl::{Algorithm, Config};
use ringway_sim::bottleneck::{
    Acknowledging, Bottleneck, CoDel, Control, Discipline, Jitter, Path, Red, jain, median,
};
use ringway_sim::rivals::{Bbr, Cubic, Priorities, Reno};
use ringway_sim::trials::{TREMBLES, worth, worth_of_flows};

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

fn alone_of(path: &Path, config: &Config, seeds: u64) {
    let tcps = ["cubic", "reno", "bbr"].map(|tcp| {
        let all = (1..=seeds).map(|s| alone(path, rival(tcp), Acknowledging::DELAYED, s));
        let (shares, queues): (Vec<_>, Vec<_>) = all
            .map(|(share, queue, _)| (share, queue.as_secs_f64() * 1e3))
            .unzip();
        (tcp, median(shares), median(queues))
    });
    let mine: Vec<_> = (1..=seeds)
        .map(|s| alone(path, ours(config, 0.0), Acknowledging::EACH, s))
        .collect();
    println!(
        "alone: {:.3}, queue {:.1} ms, loss {:.2} %",
        median(mine.iter().map(|m| m.0).collect()),
        median(mine.iter().map(|m| m.1.as_secs_f64() * 1e3).collect()),
        median(mine.iter().map(|m| m.2 * 100.0).collect())
    );
    for (tcp, share, queue) in tcps {
        println!("{tcp} alone: {share:.3}, queue {queue:.1} ms");
    }
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

fn flows_worth(n: f64, path: &Path, config: &Config, seeds: u64) {
    let mine = (1..=seeds).map(|s| worth(path, config.algorithm, n, s));
    let real = (1..=seeds).map(|s| worth_of_flows(path, n, s));
    let (mine, real) = (median(mine.collect()), median(real.collect()));
    println!("N = {n}: {mine:.2} of real {real:.2}: {:.2}", mine / real);
}

/// Seconds from `from` until the mean of a second is within a quarter of what it is in the second
/// half of the time until `to`.
fn settled(sim: &Bottleneck, flow: usize, from: f64, to: f64) -> f64 {
    let usual = sim.share(flow, secs(f64::midpoint(from, to)), secs(to));
    let ends = (10..=((to - from) * 10.0) as u32).map(|step| from + f64::from(step) / 10.0);
    let near = |end: &f64| {
        let share = sim.share(flow, secs(end - 1.0), secs(*end));
        (share - usual).abs() <= (usual / 4.0).max(0.02)
    };
    ends.into_iter()
        .find(near)
        .map_or(to - from, |end| end - from)
}

/// Seconds from 0 to 1 and from 1 to 2 beside so many CUBICs, and the shares then, of one CUBIC's.
fn changed(path: &Path, config: &Config, rivals: u32, seed: u64) -> [f64; 8] {
    let mut path = path.clone();
    path.ack_jitter = Jitter::Uniform(TREMBLES);
    let mut sim = Bottleneck::new(path, seed);
    let tcps: Vec<usize> = (0..rivals)
        .map(|k| sim.add(secs(0.3) * k, rival("cubic"), Acknowledging::DELAYED))
        .collect();
    let flow = sim.add(secs(0.2), ours(config, 0.0), Acknowledging::EACH);
    let one = 60.0 + seed as f64 * 0.77;
    let (two, end) = (one + 30.0, one + 60.0);
    sim.run_until(secs(one));
    sim.set_priority(flow, 1.0);
    sim.run_until(secs(two));
    sim.set_priority(flow, 2.0);
    sim.run_until(secs(end));
    let share = |from: f64, to: f64| {
        let shares = tcps.iter().map(|tcp| sim.share(*tcp, secs(from), secs(to)));
        let tcp = shares.sum::<f64>() / f64::from(rivals);
        sim.share(flow, secs(from), secs(to)) / tcp.max(1e-3)
    };
    [
        settled(&sim, flow, one, two),
        settled(&sim, flow, two, end),
        share(one + 2.0, one + 6.0),
        share(one + 5.0, two),
        share(two + 2.0, two + 6.0),
        share(two + 5.0, end),
        100.0 * sim.dropped(flow, secs(one), secs(one + 2.0)),
        100.0 * sim.dropped(flow, secs(one + 5.0), secs(two)),
    ]
}

fn changes(path: &Path, config: &Config, rivals: u32, seeds: u64) {
    let got: Vec<_> = (1..=seeds)
        .map(|s| changed(path, config, rivals, s))
        .collect();
    let [one, two, soon, later, soon_two, later_two, dropped, usually] =
        std::array::from_fn(|index| median(got.iter().map(|g| g[index]).collect()));
    println!(
        "beside {rivals}: 0 to 1: {one:.1} s, of TCP's {soon:.2} after 2 s, {later:.2} after 5 s; dropped {dropped:.1} % and {usually:.1} % then; 1 to 2: {two:.1} s, {soon_two:.2}, {later_two:.2}"
    );
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
    let wanted = arguments.next().unwrap_or_default();
    let numbers: Vec<f64> = match arguments.next() {
        Some(numbers) => numbers.split(',').map(|n| n.parse().unwrap()).collect(),
        None => vec![0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0],
    };
    let cells = cells().into_iter();
    for Cell { name, path } in cells.filter(|cell| cell.name.contains(&wanted)) {
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
        if parts.contains('c') {
            for rivals in [1, 4, 10] {
                changes(&path, &config, rivals, seeds);
            }
        }
        let mut path = path;
        if parts.contains('t') {
            path.ack_jitter = Jitter::Uniform(TREMBLES);
        }
        if parts.contains(['n', 't']) {
            for n in &numbers {
                flows_worth(*n, &path, &config, seeds);
            }
        }
    }
}
