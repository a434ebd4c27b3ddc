//! Priorities that change while data flows.

use super::case::{Outcome, PACKET_BITS, jain, series};
use super::cell::Cell;
use super::flow::Kind;
use super::watch::{STEP, Watch};
use ringway_terminal::Failure;

/// Seconds of the paper's Figures 6 and 7 here; there 480.
pub(super) const FIGURE: f64 = 120.0;
/// Seconds between changes, and of a run with three of them.
const STAGE: f64 = 25.0;
pub(super) const CHANGE: f64 = 4.0 * STAGE;
/// A flow has to be at its new share after so many seconds, or so many round trips where they are
/// longer.
const SECONDS: f64 = 2.0;
const ROUND_TRIPS: f64 = 40.0;

/// When a flow has to be at its new share, in seconds after the change.
pub(super) fn due(cell: &Cell) -> f64 {
    SECONDS.max(ROUND_TRIPS * cell.rtt_ms as f64 / 1e3)
}

/// Seconds after `from` until the mean of a second is for the first time within a quarter of what
/// it is in the second half of the time until `to`.
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

pub(super) fn figure_6(watch: &mut Watch<'_>, kind: &Kind) -> Result<Outcome, Failure> {
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

pub(super) fn figure_7(watch: &mut Watch<'_>, kind: &Kind) -> Result<Outcome, Failure> {
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
    let rates = |from, to| watch.rates_of(&flows, from, to);
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
        ("jain-two-2", jain(third.get(3..).unwrap_or_default())),
    ]);
    // The last of those that change.
    let last = |flows: &[usize], from, to| {
        let times = flows.iter().map(|flow| settled(watch, *flow, from, to));
        times.fold(0.0, f64::max)
    };
    let changed = [
        ("to-1", last(flows.get(1..).unwrap_or_default(), four, two)),
        (
            "to-2",
            last(flows.get(3..).unwrap_or_default(), two, FIGURE),
        ),
    ];
    let changed = changed.map(|(name, time)| (name.to_owned(), time));
    outcome.values.extend(changed);
    let names = ["0", "1", "1", "1, 2", "1, 2"];
    let named: Vec<_> = flows.iter().copied().zip(names).collect();
    outcome.series = series(watch, &named);
    Ok(outcome)
}

/// What a change costs: packets lost, and the longest time in which nothing came, until the new
/// share has to be there, and afterwards.
pub(super) fn change(watch: &mut Watch<'_>, kind: &Kind) -> Result<Outcome, Failure> {
    let tcp = watch.start(&Kind::Tcp("cubic"))?;
    let flow = watch.start(kind)?;
    watch.until(STAGE);
    let within = due(watch.line().cell());
    let mut values = Vec::new();
    for (index, priority) in [4.0_f64, 0.0, 1.0].into_iter().enumerate() {
        let from = STAGE * (index + 1) as f64;
        let to = from + STAGE;
        let packets = |watch: &Watch<'_>| watch.packets(&[flow]).unwrap_or_default();
        let before = packets(watch);
        watch.set_priority(flow, priority)?;
        watch.until(from + within);
        let changed = packets(watch);
        watch.until(to);
        let after = packets(watch);
        values.extend([
            (format!("to-{priority}"), settled(watch, flow, from, to)),
            (format!("loss-to-{priority}"), changed.lost_since(before)),
            (format!("loss-at-{priority}"), after.lost_since(changed)),
            (
                format!("silence-to-{priority}"),
                watch.silence(flow, from, from + within),
            ),
            (
                format!("silence-at-{priority}"),
                watch.silence(flow, from + within, to),
            ),
        ]);
    }
    Ok(Outcome {
        values: values.into_iter().collect(),
        series: series(watch, &[(tcp, "TCP CUBIC"), (flow, "1, 4, 0, 1")]),
    })
}
