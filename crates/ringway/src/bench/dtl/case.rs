//! What is measured in a cell: each case is one run of some seconds over a line of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ringway_dtl::Algorithm;
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::flow::{Clocks, Kind};
use super::line::Line;
use super::watch::{STEP, Watch};
use crate::failure::Failure;

/// Whose flows are measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contender {
    /// Our default algorithm.
    Ringway,
    /// The same without readings of the receiver's clock: by round trips alone.
    RoundTrips,
    /// The paper's, in the same program.
    Paper,
    /// CUBIC of the QUIC stack below ours.
    Noq,
    /// The kernel's TCP.
    Kernel,
    /// A case of the program given by `--beside`.
    Beside(String),
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contender::Ringway => "ringway",
            Contender::RoundTrips => "ringway-rtt",
            Contender::Paper => "paper",
            Contender::Noq => "noq-cubic",
            Contender::Kernel => "kernel",
            Contender::Beside(name) => name,
        })
    }
}

impl Contender {
    /// Its flow at this priority, if it has such a thing.
    fn flow(&self, priority: f64, beside: Option<&Path>) -> Kind {
        match self {
            Contender::Ringway => Kind::Ours(Algorithm::Adaptive, priority, Clocks::Told),
            Contender::RoundTrips => Kind::Ours(Algorithm::Adaptive, priority, Clocks::None),
            Contender::Paper => Kind::Ours(Algorithm::Paper, priority, Clocks::None),
            Contender::Noq => Kind::Noq,
            Contender::Kernel => Kind::Tcp("cubic"),
            Contender::Beside(name) => {
                Kind::Beside(beside.map(PathBuf::from).unwrap_or_default(), name.clone())
            }
        }
    }
}

/// What happens in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Case {
    /// A scavenger, or whatever the contender has, has the line to itself.
    Alone,
    /// The same while a kernel CUBIC fills the way back.
    Upload,
    /// The kernel's TCP has the line to itself, with the times of [`Case::Beside`].
    Tcp(&'static str),
    /// A scavenger runs; the kernel's TCP comes, and goes.
    Beside(&'static str),
    /// So many scavengers that start one after the other.
    Late(u32),
    /// One flow of this priority and one kernel CUBIC start together. Of the kernel: so many CUBICs and one more; below 1 its inverse.
    Worth(f64),
    /// Two flows of priority 1.
    Equal,
    /// The paper's Figure 6, at four times the speed: priority 0, 1 and 2 beside a TCP.
    Figure6,
    /// The paper's Figure 7, at four times the speed: five flows of changing priority.
    Figure7,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Alone => f.write_str("alone"),
            Case::Upload => f.write_str("upload"),
            Case::Tcp(control) => write!(f, "tcp-{control}"),
            Case::Beside(control) => write!(f, "beside-{control}"),
            Case::Late(flows) => write!(f, "late-{flows}"),
            Case::Worth(priority) => write!(f, "worth-{priority}"),
            Case::Equal => f.write_str("equal"),
            Case::Figure6 => f.write_str("figure-6"),
            Case::Figure7 => f.write_str("figure-7"),
        }
    }
}

/// A flow's rates over time, for a plot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) name: String,
    /// Seconds and megabits per second.
    pub(super) points: Vec<(f64, f64)>,
}

/// What a run came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) values: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) series: Vec<Series>,
}

impl Outcome {
    fn of(values: &[(&str, f64)]) -> Outcome {
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        Outcome {
            values: values.collect(),
            series: Vec::new(),
        }
    }
}

/// The times of a run, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Until flows are up to speed.
    settle: f64,
    /// Over which rates are taken.
    measure: f64,
    /// Between late-comers.
    gap: f64,
    /// In which a scavenger may come back.
    back: f64,
}

impl Times {
    pub(super) fn new(cell: &Cell, quick: bool) -> Times {
        let quick = if quick { 0.5 } else { 1.0 };
        // A slow line takes longer to say the same, and windows of hundreds of packets need longer to come to their shares.
        let slow = if (5.0..50.0).contains(&cell.rate) {
            1.0
        } else {
            2.0
        };
        Times {
            settle: 8.0 * slow,
            measure: 30.0 * slow * quick,
            gap: 4.0 * slow,
            back: 12.0 * slow,
        }
    }

    /// About how long a case takes.
    pub(super) fn of(&self, case: Case) -> f64 {
        let once = self.settle + self.measure;
        match case {
            Case::Alone | Case::Equal | Case::Worth(_) => once,
            Case::Upload | Case::Tcp(_) => once + self.settle,
            Case::Beside(_) => once + self.settle + self.back,
            Case::Late(flows) => self.gap * f64::from(flows) + once,
            Case::Figure6 | Case::Figure7 => FIGURE,
        }
    }
}

/// Seconds of the paper's Figures 6 and 7 here; there 480.
const FIGURE: f64 = 120.0;
/// Bits of a full packet.
const PACKET_BITS: f64 = 12_000.0;
/// Part of the line that a scavenger has again when it is back.
const BACK: f64 = 0.8;
/// Seconds over which it is looked whether it is back.
const WINDOW: f64 = 0.5;

/// Runs one case over a line.
pub(super) fn run(
    line: &Line,
    contender: &Contender,
    beside: Option<&Path>,
    case: Case,
    times: Times,
) -> Result<Outcome, Failure> {
    let flow = |priority| contender.flow(priority, beside);
    let mut watch = Watch::begin(line)?;
    match case {
        Case::Alone => alone(&mut watch, &flow(0.0), times),
        Case::Upload => upload(&mut watch, &flow(0.0), times),
        Case::Tcp(control) => beside_tcp(&mut watch, None, control, times),
        Case::Beside(control) => beside_tcp(&mut watch, Some(&flow(0.0)), control, times),
        Case::Late(flows) => late(&mut watch, &flow(0.0), flows, times),
        Case::Worth(priority) if *contender == Contender::Kernel => {
            parallel(&mut watch, priority, times)
        }
        Case::Worth(priority) => worth(&mut watch, &flow(priority), times),
        Case::Equal => equal(&mut watch, &flow(1.0), times),
        Case::Figure6 => figure_6(&mut watch, &flow(0.0)),
        Case::Figure7 => figure_7(&mut watch, &flow(0.0)),
    }
}

fn alone(watch: &mut Watch<'_>, kind: &Kind, times: Times) -> Result<Outcome, Failure> {
    let flow = watch.start(kind)?;
    let from = watch.now() + times.settle;
    watch.until(from);
    let before = watch.packets(flow);
    let to = from + times.measure;
    watch.until(to);
    let queueing = watch.queueing(from, to);
    let part = |part: f64| {
        let index = (queueing.len() as f64 * part) as usize;
        queueing.get(index).copied().unwrap_or(f64::NAN)
    };
    let mut outcome = Outcome::of(&[
        ("rate", watch.rate(flow, from, to)),
        ("queueing", part(0.5)),
        ("queueing-95", part(0.95)),
    ]);
    if let (Some(before), Some(after)) = (before, watch.packets(flow)) {
        let sent = after.0.saturating_sub(before.0).max(1) as f64;
        let lost = after.1.saturating_sub(before.1) as f64;
        outcome.values.insert("loss".to_owned(), lost / sent);
    }
    Ok(outcome)
}

/// What a scavenger gets whose way back is full, and what that costs whoever fills it.
fn upload(watch: &mut Watch<'_>, kind: &Kind, times: Times) -> Result<Outcome, Failure> {
    let back = watch.start(&Kind::Upload("cubic"))?;
    watch.until(watch.now() + times.settle);
    let flow = watch.start(kind)?;
    let from = watch.now() + times.settle;
    let to = from + times.measure;
    watch.until(to);
    Ok(Outcome::of(&[
        ("rate", watch.rate(flow, from, to)),
        ("upload", watch.rate(back, from, to)),
    ]))
}

/// What TCP gets, and when the scavenger is back after it.
fn beside_tcp(
    watch: &mut Watch<'_>,
    kind: Option<&Kind>,
    control: &'static str,
    times: Times,
) -> Result<Outcome, Failure> {
    let scavenger = kind.map(|kind| watch.start(kind)).transpose()?;
    watch.until(watch.now() + times.settle);
    let tcp = watch.start(&Kind::Tcp(control))?;
    let from = watch.now() + times.settle;
    let to = from + times.measure;
    watch.until(to);
    watch.stop(tcp);
    let mut outcome = Outcome::of(&[("tcp", watch.rate(tcp, from, to))]);
    if let Some(scavenger) = scavenger {
        watch.until(to + times.back);
        let own = watch.rate(scavenger, from, to);
        outcome.values.insert("scavenger".to_owned(), own);
        // Of what it has at the end: a rate that no protocol reaches is nobody's measure.
        let usual = watch.rate(scavenger, to + times.back / 2.0, to + times.back);
        let whole = usual.max(watch.rate(scavenger, times.settle / 2.0, times.settle));
        let steps = (times.back / STEP) as u32;
        let mut ends = (1..=steps).map(|step| to + f64::from(step) * STEP);
        let back = ends.find(|end| watch.rate(scavenger, end - WINDOW, *end) >= BACK * whole);
        let back = back.map_or(times.back, |end| end - to);
        outcome.values.insert("back".to_owned(), back);
    }
    Ok(outcome)
}

fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), rate| {
        (sum + rate, squares + rate * rate)
    });
    if squares > 0.0 {
        sum * sum / (rates.len() as f64 * squares)
    } else {
        0.0
    }
}

fn late(watch: &mut Watch<'_>, kind: &Kind, count: u32, times: Times) -> Result<Outcome, Failure> {
    let mut flows = Vec::new();
    for _ in 0..count {
        flows.push(watch.start(kind)?);
        watch.until(watch.now() + times.gap);
    }
    let from = watch.now() + times.settle;
    let to = from + times.measure;
    watch.until(to);
    let rates: Vec<f64> = flows
        .iter()
        .map(|flow| watch.rate(*flow, from, to))
        .collect();
    Ok(Outcome::of(&[
        ("jain", jain(&rates)),
        ("rate", rates.iter().sum()),
    ]))
}

fn worth(watch: &mut Watch<'_>, kind: &Kind, times: Times) -> Result<Outcome, Failure> {
    let tcp = watch.start(&Kind::Tcp("cubic"))?;
    let flow = watch.start(kind)?;
    shares(watch, &[flow], tcp, times)
}

/// N kernel flows against one, or one against the inverse of N.
fn parallel(watch: &mut Watch<'_>, priority: f64, times: Times) -> Result<Outcome, Failure> {
    let (many, inverse) = if priority < 1.0 {
        (1.0 / priority, true)
    } else {
        (priority, false)
    };
    let mut flows = Vec::new();
    let one = watch.start(&Kind::Tcp("cubic"))?;
    for _ in 0..many.round() as u32 {
        flows.push(watch.start(&Kind::Tcp("cubic"))?);
    }
    let mut outcome = shares(watch, &flows, one, times)?;
    if inverse {
        let shares = outcome.values.get_mut("share");
        shares.into_iter().for_each(|share| *share = 1.0 / *share);
    }
    Ok(outcome)
}

/// What some flows get for each bit of another.
fn shares(
    watch: &mut Watch<'_>,
    flows: &[usize],
    other: usize,
    times: Times,
) -> Result<Outcome, Failure> {
    let from = watch.now() + times.settle;
    let to = from + times.measure;
    watch.until(to);
    let ours: f64 = flows.iter().map(|flow| watch.rate(*flow, from, to)).sum();
    let theirs = watch.rate(other, from, to);
    // Whoever got nothing got less than a packet: shares stay numbers.
    let packet = PACKET_BITS / 1e6 / times.measure;
    let share = ours.max(packet) / theirs.max(packet);
    let mut outcome = Outcome::of(&[("ours", ours), ("tcp", theirs), ("share", share)]);
    if let [flow] = flows
        && let Some((sent, lost)) = watch.packets(*flow)
    {
        let loss = lost as f64 / sent.max(1) as f64;
        outcome.values.insert("loss".to_owned(), loss);
        outcome.series = series(watch, &[(*flow, "ours"), (other, "TCP CUBIC")]);
    }
    Ok(outcome)
}

fn equal(watch: &mut Watch<'_>, kind: &Kind, times: Times) -> Result<Outcome, Failure> {
    let flows = [watch.start(kind)?, watch.start(kind)?];
    let from = watch.now() + times.settle;
    let to = from + times.measure;
    watch.until(to);
    let rates = flows.map(|flow| watch.rate(flow, from, to));
    Ok(Outcome::of(&[
        ("jain", jain(&rates)),
        ("rate", rates.iter().sum()),
    ]))
}

fn series(watch: &Watch<'_>, flows: &[(usize, &str)]) -> Vec<Series> {
    let named = flows.iter().map(|(flow, name)| Series {
        name: (*name).to_owned(),
        points: watch.rates(*flow, 1.0),
    });
    named.collect()
}

/// Seconds after `from` until the mean of a second is within a quarter of what it is in the rest of the time until `to`.
fn settled(watch: &Watch<'_>, flow: usize, from: f64, to: f64) -> f64 {
    let usual = watch.rate(flow, f64::midpoint(from, to), to);
    let steps = ((to - from) / STEP) as u32;
    let mut ends = (10..=steps).map(|step| from + f64::from(step) * STEP);
    let near = |end: &f64| {
        let rate = watch.rate(flow, end - 1.0, *end);
        (rate - usual).abs() <= (usual / 4.0).max(0.02 * watch.line().cell().rate)
    };
    ends.find(near).map_or(to - from, |end| end - from)
}

fn figure_6(watch: &mut Watch<'_>, kind: &Kind) -> Result<Outcome, Failure> {
    let tcp = watch.start(&Kind::Tcp("cubic"))?;
    let flow = watch.start(kind)?;
    let (one, two) = (FIGURE / 2.0, FIGURE * 0.75);
    watch.until(one);
    watch.set_priority(flow, 1.0)?;
    watch.until(two);
    watch.set_priority(flow, 2.0)?;
    watch.until(FIGURE);
    let share = |from: f64, to: f64| {
        let packet = PACKET_BITS / 1e6 / (to - from);
        watch.rate(flow, from, to) / watch.rate(tcp, from, to).max(packet)
    };
    let mut outcome = Outcome::of(&[
        ("share-0", share(10.0, one)),
        ("share-1", share(one + 5.0, two)),
        ("share-2", share(two + 5.0, FIGURE)),
        ("to-1", settled(watch, flow, one, two)),
        ("to-2", settled(watch, flow, two, FIGURE)),
    ]);
    outcome.series = series(watch, &[(tcp, "TCP CUBIC"), (flow, "0, 1, 2")]);
    Ok(outcome)
}

fn figure_7(watch: &mut Watch<'_>, kind: &Kind) -> Result<Outcome, Failure> {
    let mut flows = Vec::new();
    for _ in 0..5 {
        flows.push(watch.start(kind)?);
    }
    let (four, two) = (FIGURE / 4.0, FIGURE / 2.0);
    watch.until(four);
    for flow in flows.iter().skip(1) {
        watch.set_priority(*flow, 1.0)?;
    }
    watch.until(two);
    for flow in flows.iter().skip(3) {
        watch.set_priority(*flow, 2.0)?;
    }
    watch.until(FIGURE);
    let rates = |from: f64, to: f64| -> Vec<f64> {
        flows
            .iter()
            .map(|flow| watch.rate(*flow, from, to))
            .collect()
    };
    let (first, second, third) = (
        rates(10.0, four),
        rates(four + 5.0, two),
        rates(two + 5.0, FIGURE),
    );
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let part =
        |rates: &[f64], from: usize, to: usize| mean(rates.get(from..to).unwrap_or_default());
    let mut outcome = Outcome::of(&[
        ("jain-all-0", jain(&first)),
        ("jain-four-1", jain(second.get(1..).unwrap_or_default())),
        (
            "scavenger-beside",
            part(&second, 0, 1) / second.iter().sum::<f64>(),
        ),
        ("two-of-one", part(&third, 3, 5) / part(&third, 1, 3)),
    ]);
    let names = ["0", "1", "1", "1, 2", "1, 2"];
    let named: Vec<_> = flows.iter().copied().zip(names).collect();
    outcome.series = series(watch, &named);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equals_and_one_in_n_for_a_monopoly() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!(jain(&[0.0, 0.0]).abs() < 1e-12);
    }
}
