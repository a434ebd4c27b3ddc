//! What a priority above 0 is worth: beside one CUBIC, and compared with as many CUBICs.

use std::time::Duration;

use ringway_dtl::{Algorithm, Config};

use super::Rival;
use crate::bottleneck::{
    Acknowledging, Bottleneck, Control, Discipline, Jitter, PACKET, Path, median,
};
use crate::rivals::Priorities;

/// For how long a host may be busy with something else when it should answer. Where hosts answer at
/// once, all packets come to the queue in step for ever, and the order of events decides who loses.
pub const TREMBLES: Duration = Duration::from_micros(300);
/// When flows that began together have settled.
const SETTLED: Duration = Duration::from_secs(10);

/// Throughput of some flows ÷ that of one CUBIC beside them. The flow that begins first has the
/// path to itself for a moment, and keeps some of it for long where windows are large: each does so
/// with every second seed.
fn beside_one(path: &Path, flows: Vec<(Box<dyn Control>, Acknowledging)>, seed: u64) -> f64 {
    let half = Duration::from_millis(500);
    let (first, second) = match seed % 2 {
        0 => (half, Duration::ZERO),
        _ => (Duration::ZERO, half),
    };
    let mut sim = Bottleneck::new(path.clone(), seed);
    let mut start = first;
    let mut begin = |(control, acknowledging)| {
        let flow = sim.add(start, control, acknowledging);
        start += Duration::from_millis(100);
        flow
    };
    let flows: Vec<usize> = flows.into_iter().map(&mut begin).collect();
    let one = sim.add(second, Rival::Cubic.control(), Acknowledging::DELAYED);
    // Windows of many packets take long to go up and down.
    let end = Duration::from_secs(if path.rate > 5_000_000 { 120 } else { 200 });
    sim.run_until(end);
    let ours: f64 = flows
        .iter()
        .map(|flow| sim.share(*flow, SETTLED, end))
        .sum();
    ours / sim.share(one, SETTLED, end)
}

/// A flow of priority `n` beside one CUBIC: its throughput ÷ the CUBIC's.
///
/// # Panics
/// If `n` is no priority.
#[must_use]
#[allow(
    clippy::expect_used,
    reason = "a program for experiments: what is wrong in it should be seen at once"
)]
pub fn worth(path: &Path, algorithm: Algorithm, n: f64, seed: u64) -> f64 {
    let config = Config {
        algorithm,
        ..Config::default()
    };
    let ours = Priorities::new(n, config).expect("a priority");
    beside_one(path, vec![(Box::new(ours), Acknowledging::EACH)], seed)
}

/// `n` CUBICs beside one: their throughput ÷ its. Below 1 what one has beside 1 ÷ n.
#[must_use]
pub fn worth_of_flows(path: &Path, n: f64, seed: u64) -> f64 {
    let flow = |_| (Rival::Cubic.control(), Acknowledging::DELAYED);
    let many = |n: f64| beside_one(path, (0..n.round() as u32).map(flow).collect(), seed);
    if n < 1.0 {
        many(1.0 / n).recip()
    } else {
        many(n)
    }
}

/// Priority `n` ÷ `n` CUBICs, at the medians of so many seeds, where hosts take their time to
/// answer; and how far from 1 that may be.
#[must_use]
pub fn worth_as_flows(path: &Path, algorithm: Algorithm, n: f64, seeds: &[u64]) -> Worth {
    let mut path = path.clone();
    path.ack_jitter = Jitter::Uniform(TREMBLES);
    let ours = median(
        seeds
            .iter()
            .map(|seed| worth(&path, algorithm, n, *seed))
            .collect(),
    );
    let flows = median(
        seeds
            .iter()
            .map(|seed| worth_of_flows(&path, n, *seed))
            .collect(),
    );
    // A queue that is managed holds little for long.
    let queue = match path.discipline {
        Discipline::DropTail => path.buffer as f64,
        Discipline::Red(_) | Discipline::CoDel(_) => 0.0,
    };
    let room = path.rate as f64 * path.rtt.as_secs_f64() + queue;
    let least = room / PACKET as f64 * n.min(1.0) / (n + 1.0);
    Worth {
        ours,
        flows,
        within: if least >= 8.0 { (0.9, 1.1) } else { (0.7, 1.4) },
    }
}

/// What priority N and N CUBICs have of what one CUBIC beside them has.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Worth {
    /// Priority N.
    pub ours: f64,
    /// N CUBICs.
    pub flows: f64,
    /// What the quotient of the two has to lie within: a share of few packets tells less.
    pub within: (f64, f64),
}

impl Worth {
    /// What priority N has of what N CUBICs have.
    #[must_use]
    pub fn quotient(&self) -> f64 {
        self.ours / self.flows
    }

    /// Whether it is what it has to be.
    #[must_use]
    pub fn holds(&self) -> bool {
        (self.within.0..=self.within.1).contains(&self.quotient())
    }
}
