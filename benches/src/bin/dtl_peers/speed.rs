//! `dtl-peers speed`: how fast a flow is that nothing but the processor limits, and what it costs.
//!
//! Each side is a process of its own on a core of its own. The flows take turns, so that what else
//! the machine does hits all of them alike. A run is three seconds, without the first for
//! throughput; processor time is that of the whole process, user and system, for the bytes that
//! have arrived. The network's own work in the kernel is counted with the process that it
//! interrupts.
//!
//! A run counts if each side had its core: one that had to wait for it for more than 15 % of the
//! time is repeated, a few times. If the machine never becomes quiet the least disturbed one
//! counts, and the figures say nothing about the flow alone; stderr says how long each has waited.
//!
//! `--quick` does one run of each, `--only` leaves flows out, `--json` prints an object a line. The
//! way between two namespaces needs root; without, it is left out and said so.

use std::io::Write as _;

use ringway_benches::{Figure, Names};
use ringway_testbed::Network;

use crate::pair::{self, Measured, Way};
use crate::{Failure, PEERS, ends, libtorrent};

/// Seconds that a run sends.
const SECONDS: f64 = 3.0;
const SECONDS_QUICK: f64 = 2.0;

/// Runs of each flow.
const RUNS: usize = 5;

/// How long a side may wait for its core, of the time of a run.
const DISTURBED: f64 = 0.15;

/// How often a run is tried.
const ATTEMPTS: usize = 3;

/// The flows whose figures are compared with the others'.
const OURS: [&str; 2] = ["ringway-0", "ringway-1"];

/// The other QUIC stacks.
const QUIC: [&str; 6] = [
    "noq-cubic",
    "quinn-cubic",
    "s2n-quic",
    "noq-large",
    "quinn-large",
    "s2n-large",
];

/// Who is to be twice as slow.
const UTP: &str = "utp";

#[derive(Debug, Default)]
struct Options {
    quick: bool,
    json: bool,
    only: Vec<String>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options, Failure> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--only" => {
                    let names = words.next().ok_or("--only needs names, such as tcp,utp")?;
                    for name in names.split(',') {
                        crate::find(name)?;
                        options.only.push(name.to_owned());
                    }
                }
                other => {
                    return Err(format!("`{other}`: speed knows --quick, --json, --only").into());
                }
            }
        }
        Ok(options)
    }

    fn names(&self) -> Vec<&'static str> {
        let wanted = |name: &&str| match self.only.is_empty() {
            true => *name != libtorrent::NAME || libtorrent::python().is_some(),
            false => self.only.iter().any(|only| only == name),
        };
        PEERS.iter().map(|peer| peer.name).filter(wanted).collect()
    }
}

/// All runs of one flow.
#[derive(Debug)]
struct Flow {
    name: &'static str,
    runs: Vec<Measured>,
}

/// Measures and prints.
pub(crate) fn run(words: &[&str]) -> Result<(), Failure> {
    let options = Options::parse(words)?;
    let mut ways = vec![Way::Loopback];
    match Network::available() {
        Ok(()) => ways.push(Way::veth()?),
        Err(reason) => say(&format!("veth is left out: {reason}"))?,
    }
    let (runs, seconds) = match options.quick {
        true => (1, SECONDS_QUICK),
        false => (RUNS, SECONDS),
    };
    let mut figures = Vec::new();
    for way in &ways {
        let names = options.names().into_iter();
        let mut flows: Vec<Flow> = names
            .map(|name| Flow {
                name,
                runs: Vec::new(),
            })
            .collect();
        for turn in 1..=runs {
            for flow in &mut flows {
                say(&format!(
                    "{}: {}, run {turn} of {runs}",
                    way.name(),
                    flow.name
                ))?;
                flow.runs.push(undisturbed(way, flow.name, seconds)?);
            }
        }
        figures.extend(figures_of(way, &flows));
    }
    show(&options, &figures)
}

/// One run in which both sides had their cores, or the nearest to that.
fn undisturbed(way: &Way, name: &str, seconds: f64) -> Result<Measured, Failure> {
    let mut best: Option<Measured> = None;
    for _ in 0..ATTEMPTS {
        let run = pair::run(way, name, seconds)?;
        say(&format!(
            "    {:.2} Gbit/s, {:.2} s/GB, waited {:.2} s",
            run.throughput,
            run.sender + run.receiver,
            run.waited
        ))?;
        if best.is_none_or(|best| run.waited < best.waited) {
            best = Some(run);
        }
        if run.waited <= DISTURBED * seconds {
            break;
        }
    }
    best.ok_or_else(|| "no run".into())
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
struct Metric {
    name: &'static str,
    unit: &'static str,
    of: fn(&Measured) -> f64,
    /// Whether more is better.
    more: bool,
}

const METRICS: [Metric; 4] = [
    Metric {
        name: "throughput",
        unit: "Gbit/s",
        of: |run| run.throughput,
        more: true,
    },
    Metric {
        name: "processor",
        unit: "s/GB",
        of: |run| run.sender + run.receiver,
        more: false,
    },
    Metric {
        name: "processor of the sender",
        unit: "s/GB",
        of: |run| run.sender,
        more: false,
    },
    Metric {
        name: "processor of the receiver",
        unit: "s/GB",
        of: |run| run.receiver,
        more: false,
    },
];

fn figures_of(way: &Way, flows: &[Flow]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for metric in METRICS {
        let figure = |flow: &Flow| {
            let names = Names {
                bench: "dtl speed",
                case: &format!("{}, {}", way.name(), flow.name),
                metric: metric.name,
                unit: metric.unit,
            };
            Figure::of_runs(names, flow.runs.iter().map(metric.of).collect())
        };
        let all: Vec<(&Flow, Figure)> = flows.iter().map(|flow| (flow, figure(flow))).collect();
        let better = |a: f64, b: f64| match metric.more {
            true => a.total_cmp(&b),
            false => b.total_cmp(&a),
        };
        let quic = all.iter().filter(|(flow, _)| QUIC.contains(&flow.name));
        let best = quic.max_by(|a, b| better(a.1.value, b.1.value));
        let utp = all.iter().find(|(flow, _)| flow.name == UTP);
        for (flow, figure) in &all {
            let peers: Vec<_> = match OURS.contains(&flow.name) {
                true => best.into_iter().chain(utp).collect(),
                false => Vec::new(),
            };
            if peers.is_empty() {
                figures.push(figure.clone());
            }
            for (peer, theirs) in peers {
                figures.push(Figure {
                    baseline: Some(peer.name.to_owned()),
                    baseline_value: Some(theirs.value),
                    ratio: Some(figure.value / theirs.value),
                    ..figure.clone()
                });
            }
        }
    }
    figures
}

fn show(options: &Options, figures: &[Figure]) -> Result<(), Failure> {
    if options.json {
        return figures
            .iter()
            .try_for_each(|figure| ends::line(&figure.to_json()?));
    }
    for figure in figures {
        let against = match (&figure.baseline, figure.baseline_value, figure.ratio) {
            (Some(name), Some(value), Some(ratio)) => format!("  {ratio:.2} × {name} ({value:.3})"),
            _ => String::new(),
        };
        ends::line(&format!(
            "{:<24} {:<26} {:>8.3} ± {:.3} {}{against}",
            figure.case, figure.metric, figure.value, figure.deviation, figure.unit
        ))?;
    }
    Ok(())
}

/// Progress, for a person.
fn say(text: &str) -> Result<(), Failure> {
    Ok(writeln!(std::io::stderr(), "{text}")?)
}
