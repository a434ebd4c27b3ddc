//! What is measured in a cell: each case is one run of some seconds over a line of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ringway_dtl::Algorithm;
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::changes;
use super::deadline;
use super::flow::{Clocks, Kind, Peers};
use super::line::Line;
use super::watch::{Packets, STEP, Watch};
use ringway_terminal::Failure;

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
            Contender::Ringway => Kind::Ours(Algorithm::Adaptive, priority, Clocks::Reported),
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
    /// One flow of this priority and one kernel CUBIC start together. Of the kernel: so many CUBICs
    /// and one more; below 1 its inverse.
    Worth(f64),
    /// Two flows of priority 1.
    Equal,
    /// Flows of priorities 1, 2 and 4 from one program to one peer.
    Weights,
    /// The same to three peers: a congestion control for each, and what the program finds out of
    /// their queues.
    Peers,
    /// The same from three programs, which know nothing of each other.
    Apart,
    /// Beside one kernel CUBIC a priority goes from 1 to 4, to 0, and back to 1.
    Change,
    /// The paper's Figure 6, at four times the speed: priority 0, 1 and 2 beside a TCP.
    Figure6,
    /// The paper's Figure 7, at four times the speed: five flows of changing priority.
    Figure7,
    /// Beside one kernel CUBIC a file has to be there by a time.
    Deadline,
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
            Case::Weights => f.write_str("weights"),
            Case::Peers => f.write_str("weights-peers"),
            Case::Apart => f.write_str("weights-apart"),
            Case::Change => f.write_str("change"),
            Case::Figure6 => f.write_str("figure-6"),
            Case::Figure7 => f.write_str("figure-7"),
            Case::Deadline => f.write_str("deadline"),
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
    pub(super) fn of(values: &[(&str, f64)]) -> Outcome {
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
        let part = if quick { 0.5 } else { 1.0 };
        // A slow line takes longer to say the same, and windows of hundreds of packets need longer
        // to come to their shares.
        let slow = if (5.0..50.0).contains(&cell.rate) {
            1.0
        } else {
            2.0
        };
        Times {
            settle: if quick { 5.0 } else { 8.0 } * slow,
            measure: 30.0 * slow * part,
            gap: 4.0 * slow,
            back: 12.0 * slow * part,
        }
    }

    /// About how long a case takes.
    pub(super) fn of(&self, case: Case) -> f64 {
        let once = self.settle + self.measure;
        match case {
            Case::Alone
            | Case::Equal
            | Case::Weights
            | Case::Peers
            | Case::Apart
            | Case::Worth(_) => once,
            Case::Upload | Case::Tcp(_) => once + self.settle,
            Case::Beside(_) => once + self.settle + self.back,
            Case::Late(flows) => self.gap * f64::from(flows) + once,
            Case::Change => changes::CHANGE,
            Case::Figure6 | Case::Figure7 => changes::FIGURE,
            Case::Deadline => deadline::LONGEST,
        }
    }
}

/// Priorities of flows of one program.
const WEIGHTS: [f64; 3] = [1.0, 2.0, 4.0];
/// Bits of a full packet.
pub(super) const PACKET_BITS: f64 = 12_000.0;
/// Part of the line's rate that a scavenger has again when it is back, in payload.
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
        Case::Weights => weights(&mut watch, contender, Peers::One, times),
        Case::Peers => weights(&mut watch, contender, Peers::Each, times),
        Case::Apart => apart(&mut watch, &WEIGHTS.map(flow), times),
        Case::Change => changes::change(&mut watch, &flow(1.0)),
        Case::Figure6 => changes::figure_6(&mut watch, &flow(0.0)),
        Case::Figure7 => changes::figure_7(&mut watch, &flow(0.0)),
        Case::Deadline => deadline::run(&mut watch, &flow(0.0)),
    }
}

/// The sample that so great a part of all is not greater than.
fn part(sorted: &[f64], part: f64) -> f64 {
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

fn alone(watch: &mut Watch<'_>, kind: &Kind, times: Times) -> Result<Outcome, Failure> {
    let flow = watch.start(kind)?;
    let from = watch.now() + times.settle;
    watch.until(from);
    let before = watch.packets(&[flow]);
    let to = from + times.measure;
    watch.until(to);
    let queueing = watch.queueing(from, to);
    let mut outcome = Outcome::of(&[
        ("rate", watch.rate(flow, from, to)),
        ("queueing", part(&queueing, 0.5)),
        ("queueing-95", part(&queueing, 0.95)),
    ]);
    insert_loss(watch, &[flow], before, &mut outcome);
    Ok(outcome)
}

/// What some flows have lost since then, where they tell.
fn insert_loss(watch: &Watch<'_>, flows: &[usize], then: Option<Packets>, outcome: &mut Outcome) {
    if let (Some(then), Some(now)) = (then, watch.packets(flows)) {
        outcome
            .values
            .insert("loss".to_owned(), now.lost_since(then));
    }
}

/// What a scavenger gets whose way back is full, and what that costs the flow that fills it.
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
    watch.until(from);
    let flows: Vec<usize> = scavenger.into_iter().collect();
    let before = watch.packets(&flows);
    let segments = watch.segments()?;
    let to = from + times.measure;
    watch.until(to);
    let again = watch.segments()?.lost_since(segments);
    watch.stop(tcp);
    let mut outcome = Outcome::of(&[
        ("tcp", watch.rate(tcp, from, to)),
        ("tcp-again", again),
        ("queueing", part(&watch.queueing(from, to), 0.5)),
    ]);
    if let Some(scavenger) = scavenger {
        insert_loss(watch, &flows, before, &mut outcome);
        watch.until(to + times.back);
        let own = watch.rate(scavenger, from, to);
        outcome.values.insert("scavenger".to_owned(), own);
        let whole = watch.line().cell().rate;
        let steps = (times.back / STEP) as u32;
        let mut ends = (1..=steps).map(|step| to + f64::from(step) * STEP);
        let back = ends.find(|end| watch.rate(scavenger, end - WINDOW, *end) >= BACK * whole);
        let back = back.map_or(times.back, |end| end - to);
        outcome.values.insert("back".to_owned(), back);
    }
    Ok(outcome)
}

pub(super) fn jain(rates: &[f64]) -> f64 {
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
    watch.until(from);
    let before = watch.packets(&flows);
    let to = from + times.measure;
    watch.until(to);
    let rates = watch.rates_of(&flows, from, to);
    let mut outcome = Outcome::of(&[("jain", jain(&rates)), ("rate", rates.iter().sum())]);
    insert_loss(watch, &flows, before, &mut outcome);
    Ok(outcome)
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
    let ours: f64 = watch.rates_of(flows, from, to).iter().sum();
    let theirs = watch.rate(other, from, to);
    // A flow that got nothing got less than a packet: shares stay numbers.
    let packet = PACKET_BITS / 1e6 / times.measure;
    let share = ours.max(packet) / theirs.max(packet);
    let mut outcome = Outcome::of(&[("ours", ours), ("tcp", theirs), ("share", share)]);
    if let [flow] = flows
        && let Some(packets) = watch.packets(&[*flow])
    {
        let loss = packets.lost_since(Packets::default());
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
    let rates = watch.rates_of(&flows, from, to);
    Ok(Outcome::of(&[
        ("jain", jain(&rates)),
        ("rate", rates.iter().sum()),
    ]))
}

/// How far flows of one program are from the parts that their priorities give them.
fn weights(
    watch: &mut Watch<'_>,
    contender: &Contender,
    peers: Peers,
    times: Times,
) -> Result<Outcome, Failure> {
    let Contender::Ringway = contender else {
        return Err(Failure::failed(format_args!(
            "{contender} has no flows of different priorities of one program"
        )));
    };
    let flows = watch.start_together(&WEIGHTS, peers)?;
    Ok(off(watch, &flows, times))
}

fn apart(watch: &mut Watch<'_>, kinds: &[Kind], times: Times) -> Result<Outcome, Failure> {
    let flows = kinds.iter().map(|kind| watch.start(kind));
    let flows = flows.collect::<Result<Vec<_>, _>>()?;
    Ok(off(watch, &flows, times))
}

/// How far flows are from the parts that [`WEIGHTS`] give them.
fn off(watch: &mut Watch<'_>, flows: &[usize], times: Times) -> Outcome {
    let from = watch.now() + times.settle;
    let to = from + times.measure;
    watch.until(to);
    let rates = watch.rates_of(flows, from, to);
    Outcome::of(&[
        ("off", farthest(&rates, &WEIGHTS)),
        ("rate", rates.iter().sum()),
    ])
}

/// The greatest deviation of a share from what is due to it, as a part of that; no number if
/// nothing arrived.
fn farthest(rates: &[f64], weights: &[f64]) -> f64 {
    let (all, due) = (rates.iter().sum::<f64>(), weights.iter().sum::<f64>());
    if all <= 0.0 {
        return f64::NAN;
    }
    let off = |(rate, weight): (&f64, &f64)| ((rate / all) / (weight / due) - 1.0).abs();
    rates.iter().zip(weights).map(off).fold(0.0, f64::max)
}

pub(super) fn series(watch: &Watch<'_>, flows: &[(usize, &str)]) -> Vec<Series> {
    let named = flows.iter().map(|(flow, name)| Series {
        name: (*name).to_owned(),
        points: watch.rates(*flow, 1.0),
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is 1/n where one of n has all.
    #[test]
    fn jain_is_one_for_equal_shares() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!(jain(&[0.0, 0.0]).abs() < 1e-12);
    }

    #[test]
    fn what_is_farthest_from_its_part_counts() {
        assert!(farthest(&[10.0, 20.0, 40.0], &WEIGHTS).abs() < 1e-12);
        // A fifth instead of a seventh.
        let off = farthest(&[20.0, 20.0, 60.0], &WEIGHTS);
        assert!((off - 0.4).abs() < 1e-12, "{off}");
        assert!(farthest(&[0.0; 3], &WEIGHTS).is_nan());
    }
}
