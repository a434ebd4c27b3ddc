//! Whole runs are the same as those that were recorded: every message with sender, receiver, bytes
//! and virtual time, and every event, in order.
//!
//! A change that is meant to change nothing must leave the hashes in `traces.txt` as they are. A
//! change of behaviour gives others: the failing test prints the lines to put in their place.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use ringway_overlay::{Config, Destination, RingKey, Rule};
use ringway_sim::scenario::{Arrival, arrive};
use ringway_sim::{Behaviour, Check, Link, RingConfig, RingSim, Trace, seeds};

use crate::{ok, seconds};

const MEMBERS: usize = 255;
const ROUNDS: usize = 16;
/// What every run gave when it was recorded: kind, seed, hash, entries.
const RECORDED: &str = include_str!("traces.txt");

/// Which members, and what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// With credentials, all honest.
    Honest,
    /// Three of ten are malicious, in every way there is.
    Malicious,
    /// Without credentials.
    Plain,
    /// Lookups by the paper's rule, a tenth of the members malicious.
    Paper,
    /// A smaller ring that forms from nothing, on a network that loses much.
    Forming,
}

const KINDS: [Kind; 5] = [
    Kind::Honest,
    Kind::Malicious,
    Kind::Plain,
    Kind::Paper,
    Kind::Forming,
];

impl Kind {
    fn malicious_in_ten(self) -> usize {
        match self {
            Kind::Malicious => 3,
            Kind::Paper => 1,
            Kind::Honest | Kind::Plain | Kind::Forming => 0,
        }
    }

    fn config(self) -> RingConfig {
        let rule = if self == Kind::Paper {
            Rule::Paper
        } else {
            Rule::Verified
        };
        RingConfig {
            overlay: Config {
                lookups: rule,
                ..Config::default()
            },
            link: Link {
                loss: if self == Kind::Forming { 0.1 } else { 0.01 },
                duplicates: 0.01,
                ..Link::default()
            },
            check: Check::Nothing,
            credentials: self != Kind::Plain,
        }
    }
}

/// The ring before anything is asked of it, and its honest members.
fn ring(kind: Kind, seed: u64) -> (RingSim, Vec<RingKey>) {
    let mut sim = RingSim::new(seed, kind.config());
    sim.trace_output();
    if kind == Kind::Forming {
        let keys = ok(arrive(&mut sim, 40, Arrival::AtOnce));
        ok(sim.run_for(seconds(40)));
        return (sim, keys);
    }
    let mut honest = Vec::new();
    let mut behaviours = Behaviour::EVERY.into_iter().cycle();
    for n in 0..MEMBERS {
        let key = sim.add();
        match behaviours
            .next()
            .filter(|_| n % 10 < kind.malicious_in_ten())
        {
            Some(behaviour) => sim.recruit(key, behaviour),
            None => honest.push(key),
        }
    }
    sim.settle();
    ok(sim.run_for(seconds(4)));
    (sim, honest)
}

/// Asks for everything that a member can be asked for.
fn commands(sim: &mut RingSim, honest: &[RingKey], rng: &mut StdRng, round: usize) {
    let somebody = |rng: &mut StdRng| *honest.choose(rng).unwrap();
    for _ in 0..2 {
        let (from, point) = (somebody(rng), RingKey::from_bytes(rng.random()));
        sim.lookup(from, point);
        let to = RingKey::from_bytes(rng.random());
        sim.route(somebody(rng), Destination::Point(to), b"to a point");
        let (from, to) = (somebody(rng), somebody(rng));
        sim.route(from, Destination::Member(to), b"to a member");
        sim.route(from, Destination::Member(to), b"to the same");
    }
    let author = somebody(rng);
    let name = format!("record {}", round % 5);
    let record = sim.record(author, &name, "value", round as u64 + 1, 3_600);
    sim.put(author, record);
    sim.get(somebody(rng), author, &name);
    if round == ROUNDS / 2 {
        sim.state(somebody(rng), 1);
    }
}

/// Has members come, die and return; and divides the network for some rounds.
fn changes(sim: &mut RingSim, honest: &mut Vec<RingKey>, rng: &mut StdRng, round: usize) {
    match round % 8 {
        1 => {
            let bootstraps: Vec<RingKey> = honest.sample(rng, 3).copied().collect();
            let key = sim.add();
            sim.join(key, &bootstraps);
            honest.push(key);
        }
        2 => {
            let from = rng.random_range(0..honest.len() - 3);
            honest[from..from + 2]
                .iter()
                .for_each(|key| sim.crash(*key));
        }
        4 => {
            let keys = honest.iter().copied();
            sim.divide(keys.enumerate().map(|(n, key)| (key, n % 2)).collect());
        }
        5 => {
            sim.leave(honest.swap_remove(0));
        }
        6 => sim.divide([].into()),
        7 => honest.iter().for_each(|key| sim.restart(*key)),
        _ => {}
    }
}

fn play(kind: Kind, seed: u64) -> Trace {
    let (mut sim, mut honest) = ring(kind, seed);
    let mut rng = StdRng::seed_from_u64(seed);
    for round in 0..ROUNDS {
        commands(&mut sim, &honest, &mut rng, round);
        ok(sim.run_for(Duration::from_millis(700)));
        changes(&mut sim, &mut honest, &mut rng, round);
    }
    ok(sim.run_for(seconds(12)));
    sim.trace()
}

fn compare(kind: Kind, seeds: Vec<u64>) {
    let (mut changed, mut lines) = (Vec::new(), String::new());
    for seed in seeds {
        let trace = play(kind, seed);
        let line = format!("{kind:?} {seed} {:016x} {}", trace.hash(), trace.length());
        if !RECORDED.lines().any(|recorded| recorded == line) {
            changed.push(seed);
        }
        lines += &line;
        lines.push('\n');
    }
    assert!(
        changed.is_empty(),
        "the runs of seeds {changed:?} are not those that were recorded; these are:\n{lines}"
    );
}

#[test]
fn one_seed_of_each_kind_runs_as_recorded() {
    KINDS.iter().for_each(|kind| compare(*kind, seeds(1)));
}

mod all_seeds_run_as_recorded {
    use super::*;

    #[test]
    #[ignore = "twenty runs of 255 members take a quarter of a minute"]
    fn honest() {
        compare(Kind::Honest, seeds(20));
    }

    #[test]
    #[ignore = "twenty runs of 255 members take a quarter of a minute"]
    fn malicious() {
        compare(Kind::Malicious, seeds(20));
    }

    #[test]
    #[ignore = "twenty runs of 255 members take a quarter of a minute"]
    fn plain() {
        compare(Kind::Plain, seeds(20));
    }

    #[test]
    #[ignore = "twenty runs of 255 members take a quarter of a minute"]
    fn paper() {
        compare(Kind::Paper, seeds(20));
    }

    #[test]
    #[ignore = "twenty runs take a quarter of a minute"]
    fn forming() {
        compare(Kind::Forming, seeds(20));
    }
}
