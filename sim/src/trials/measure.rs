//! What is measured on every path: alone, beside a TCP, beside its kind.

use super::{Figure, Rival, Setting, TREMBLES};
use crate::bottleneck::{Jitter, jain};

/// When a flow that began at 0 has settled.
const SETTLED: f64 = 12.0;

/// For how long to look at a path: long enough for a TCP to go up and down some times.
fn span(setting: &Setting) -> f64 {
    let path = &setting.path;
    // A CUBIC needs about this long to come back to a window of so many packets (RFC 9438: K), and
    // the longer queue.
    let packets = path.rate as f64 * path.rtt.as_secs_f64() / 1500.0;
    let cubic = (packets * 0.3 / 0.4).cbrt();
    (6.0 * cubic).clamp(40.0, 100.0)
}

/// The flow alone: its share ÷ a CUBIC's, the queue that it keeps, what it loses.
#[must_use]
pub fn alone(setting: &Setting, seed: u64) -> Vec<Figure> {
    let end = SETTLED + 40.0;
    let mut tcp = setting.run(seed);
    let cubic = tcp.tcp(0.0, Rival::Cubic);
    tcp.to(end);
    let mut run = setting.run(seed);
    let flow = run.ours(0.0);
    run.to(end);
    let share = run.share(flow, SETTLED, end) / tcp.share(cubic, SETTLED, end);
    let base = setting.path.rtt.as_secs_f64() * 1e3;
    let most = (base / 8.0).max(3.0);
    vec![
        Figure::at_least("alone ÷ CUBIC", share, 0.97),
        Figure::at_most("queue, ms", run.wait(SETTLED, end), most),
        Figure::at_most("dropped, %", run.dropped(flow, 0.0, end) * 100.0, 0.1),
    ]
}

/// What became of a TCP.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Beside {
    /// Its throughput beside the flow ÷ alone.
    pub kept: f64,
    /// Seconds from its end until the flow has 80 % of the path.
    pub back: f64,
}

/// A TCP that begins ten seconds after the flow, and ends.
#[must_use]
pub fn beside(setting: &Setting, rival: Rival, seed: u64) -> Beside {
    let end = 10.0 + span(setting);
    let mut without = setting.run(seed);
    // The same draw as below.
    without.ours(end + 100.0);
    let alone = without.tcp(10.0, rival);
    without.to(end);
    let mut run = setting.run(seed);
    let flow = run.ours(0.0);
    let tcp = run.tcp(10.0, rival);
    run.to(end);
    run.sim.stop_at(run.sim.now(), tcp);
    run.to(end + 20.0);
    Beside {
        kept: run.share(tcp, 15.0, end) / without.share(alone, 15.0, end),
        back: run.back(flow, 0.8, end),
    }
}

/// As figures, for each TCP.
#[must_use]
pub(super) fn beside_all(setting: &Setting, rivals: &[Rival], seed: u64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for rival in rivals {
        let (kept, back) = match rival {
            Rival::Cubic => ("CUBIC keeps", "back after CUBIC, s"),
            Rival::Reno => ("Reno keeps", "back after Reno, s"),
            Rival::Bbr => ("BBR keeps", "back after BBR, s"),
        };
        let got = beside(setting, *rival, seed);
        figures.push(Figure::at_least(kept, got.kept, 0.99));
        figures.push(Figure::at_most(back, got.back, 2.0));
    }
    figures
}

/// Two flows of priority 1 that begin within a second: how fair they are, over two minutes.
#[must_use]
pub(super) fn equals(setting: &Setting, seed: u64) -> Figure {
    let mut setting = setting.clone();
    setting.path.ack_jitter = Jitter::Uniform(TREMBLES);
    let mut run = setting.run(seed);
    let flows = [run.ours(0.0), run.ours(0.0)];
    for flow in flows {
        run.sim.set_priority(flow, 1.0);
    }
    let to = SETTLED + 120.0;
    run.to(to);
    let shares = flows.map(|flow| run.share(flow, SETTLED, to));
    Figure::at_least("Jain of two of priority 1", jain(&shares), 0.99)
}

/// What became of scavengers that began one after the other.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Late {
    /// Jain's index of their shares.
    pub jain: f64,
    /// Their shares together.
    pub together: f64,
    /// Median of the queueing delay, in milliseconds.
    pub queue: f64,
    /// What the queue dropped of theirs, as a share.
    pub dropped: f64,
}

/// `count` scavengers, ten seconds apart; a minute, from twenty seconds after the last on.
#[must_use]
pub fn late_comers(setting: &Setting, count: u32, seed: u64) -> Late {
    let mut run = setting.run(seed);
    let begin = |n: u32| run.ours(10.0 * f64::from(n));
    let flows: Vec<usize> = (0..count).map(begin).collect();
    let from = 10.0 * f64::from(count) + 20.0;
    let to = from + 60.0;
    run.to(to);
    let shares: Vec<f64> = flows.iter().map(|f| run.share(*f, from, to)).collect();
    let dropped = flows.iter().map(|f| run.dropped(*f, 0.0, to));
    Late {
        jain: jain(&shares),
        together: shares.iter().sum(),
        queue: run.wait(from, to),
        dropped: dropped.sum::<f64>() / f64::from(count),
    }
}

/// As figures.
#[must_use]
pub(super) fn late_figures(setting: &Setting, count: u32, seed: u64) -> Vec<Figure> {
    let late = late_comers(setting, count, seed);
    vec![
        Figure::at_least("Jain", late.jain, 0.99),
        Figure::at_least("together", late.together, 0.95),
        Figure::at_most("lost by late-comers, %", late.dropped * 100.0, 0.1),
    ]
}

/// Only how fair they are.
#[must_use]
pub(super) fn late_jain(setting: &Setting, count: u32, seed: u64) -> Figure {
    let name = match count {
        2 => "Jain of 2",
        4 => "Jain of 4",
        _ => "Jain of 10",
    };
    Figure::at_least(name, late_comers(setting, count, seed).jain, 0.99)
}
