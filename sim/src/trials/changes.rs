//! What changes while a flow runs: the path, the application, the priority.

use std::time::Duration;

use ringway_dtl::Algorithm;

use super::{Figure, Rival, Run, Setting, Trial};
use crate::bottleneck::{Jitter, Path, jain};

pub(super) const TRIALS: &[Trial] = &[
    Trial {
        name: "route-longer",
        play: |a, s| route(a, s, 20, 60),
    },
    Trial {
        name: "route-little-longer",
        play: |a, s| route(a, s, 20, 26),
    },
    Trial {
        name: "route-longer-jitter",
        play: route_jitter,
    },
    Trial {
        name: "tcp-for-minutes",
        play: tcp_for_minutes,
    },
    Trial {
        name: "route-shorter",
        play: |a, s| route(a, s, 60, 20),
    },
    Trial {
        name: "rate",
        play: rate,
    },
    Trial {
        name: "application",
        play: application,
    },
    Trial {
        name: "poisoned",
        play: poisoned,
    },
    Trial {
        name: "poisoned-by-tcp",
        play: poisoned_by_tcp,
    },
    Trial {
        name: "figure-6",
        play: |a, s| figure_6(&Setting::on(Path::drop_tail(5.0, 25, 1.0), a), s),
    },
    Trial {
        name: "alone-changes",
        play: alone_changes,
    },
    Trial {
        name: "figure-7",
        play: |a, s| figure_7(&Setting::on(Path::drop_tail(10.0, 25, 2.0), a), s),
    },
];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The route changes in second 30. Fifteen and forty seconds later the path is full again, with a
/// short queue: a longer one has to be seen for ten seconds before it is believed.
fn route(algorithm: Algorithm, seed: u64, from_ms: u64, to_ms: u64) -> Vec<Figure> {
    let path = Path::drop_tail(10.0, from_ms.max(to_ms), 2.0);
    let path = Path {
        rtt: ms(from_ms),
        ..path
    };
    let mut run = Setting::on(path, algorithm).run(seed);
    let flow = run.ours(0.0);
    run.to(30.0);
    run.sim.set_rtt(ms(to_ms));
    run.to(100.0);
    let most = (to_ms as f64 / 8.0).max(3.0);
    vec![
        Figure::at_most("back on the new route, s", run.back(flow, 0.8, 30.0), 15.0),
        Figure::at_least("share from 15 s on", run.share(flow, 45.0, 70.0), 0.9),
        Figure::at_least("share from 40 s on", run.share(flow, 70.0, 100.0), 0.97),
        Figure::at_most("queue from 40 s on, ms", run.wait(70.0, 100.0), most),
        Figure::at_most("dropped, %", run.dropped(flow, 0.0, 100.0) * 100.0, 0.1),
    ]
}

/// The route grows longer where delays tremble by 5 ms.
fn route_jitter(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut path = Path::drop_tail(10.0, 60, 2.0);
    path.rtt = ms(20);
    path.jitter = Jitter::Uniform(ms(5));
    let mut run = Setting::on(path, algorithm).run(seed);
    let flow = run.ours(0.0);
    run.to(30.0);
    run.sim.set_rtt(ms(60));
    run.to(160.0);
    vec![
        Figure::at_most("back on the new route, s", run.back(flow, 0.8, 30.0), 15.0),
        Figure::at_least("share from 15 s on", run.share(flow, 45.0, 160.0), 0.9),
    ]
}

/// A TCP that keeps a queue for three minutes: what never empties is not the path.
fn tcp_for_minutes(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (megabits, rtt, products) in [(10.0, 20, 4.0), (100.0, 60, 1.0)] {
        for (rival, tcp_name) in [(Rival::Cubic, "CUBIC"), (Rival::Reno, "Reno")] {
            let path = Path::drop_tail(megabits, rtt, products);
            let mut run = Setting::on(path, algorithm).run(seed);
            let flow = run.ours(0.0);
            let tcp = run.tcp(10.0, rival);
            run.to(200.0);
            run.sim.stop_at(run.sim.now(), tcp);
            run.to(220.0);
            let (first, last) = (run.share(flow, 20.0, 70.0), run.share(flow, 150.0, 200.0));
            let on = format!("{megabits} Mbit/s, {rtt} ms");
            let back = format!("{on}: back after {tcp_name}, s");
            let takes = |minute| format!("{on}: takes in the {minute} minute of {tcp_name}");
            figures.push(Figure::at_most(takes("first"), first, 0.01));
            figures.push(Figure::at_most(takes("third"), last, 0.01));
            figures.push(Figure::at_most(back, run.back(flow, 0.8, 200.0), 2.0));
        }
    }
    figures
}

/// 10, 2 and 10 Mbit/s again.
fn rate(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let (fast, slow) = (1_250_000, 250_000);
    let mut run = Setting::on(Path::drop_tail(10.0, 40, 2.0), algorithm).run(seed);
    let flow = run.ours(0.0);
    run.to(20.0);
    run.sim.set_rate(slow);
    run.to(60.0);
    run.sim.set_rate(fast);
    run.to(100.0);
    let at_slow = run.rate(flow, 25.0, 60.0) / slow as f64;
    // A packet takes 6 ms.
    let queue = run.wait(25.0, 60.0);
    vec![
        Figure::at_least("share at 2 Mbit/s", at_slow, 0.95),
        Figure::at_most("queue at 2 Mbit/s, ms", queue, 12.0),
        Figure::at_most("back at 10 Mbit/s, s", run.back(flow, 0.8, 60.0), 5.0),
        Figure::at_least("share at 10 Mbit/s", run.share(flow, 66.0, 100.0), 0.97),
        Figure::at_most(
            "dropped after, %",
            run.dropped(flow, 25.0, 100.0) * 100.0,
            0.1,
        ),
    ]
}

/// Ten seconds with a fifth of the path's rate to send, ten seconds with more than fits, and so on.
fn application(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut run = Setting::on(Path::drop_tail(10.0, 20, 4.0), algorithm).run(seed);
    let flow = run.ours(0.0);
    let mut back: f64 = 0.0;
    let mut worst: f64 = 0.0;
    for phase in 1..=5 {
        let begin = 20.0 * f64::from(phase);
        run.to(begin - 10.0);
        run.sim.set_supply(flow, Some(250_000.0));
        run.to(begin);
        run.sim.set_supply(flow, None);
        run.to(begin + 2.5);
        back = back.max(run.back(flow, 0.8, begin));
        worst = worst.max(run.wait(begin, begin + 1.0));
    }
    vec![
        Figure::at_most("back, s", back, 2.0),
        Figure::at_most("queue in the first second, ms", worst, 5.0),
        Figure::at_most("dropped, %", run.dropped(flow, 0.0, 102.5) * 100.0, 0.1),
    ]
}

fn fairness(run: &Run, flows: &[usize], from: f64, to: f64) -> f64 {
    let shares: Vec<f64> = flows.iter().map(|f| run.share(*f, from, to)).collect();
    jain(&shares)
}

/// The second begins in the first one's queue, with a route that has never been seen empty.
fn poisoned(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (megabits, rtt) in [(10.0, 20), (10.0, 60), (100.0, 20)] {
        let path = Path::drop_tail(megabits, rtt, 4.0);
        let mut run = Setting::on(path, algorithm).run(seed);
        let flows = [run.ours(0.0), run.ours(15.0)];
        run.to(90.0);
        // Two share it.
        let most = (rtt as f64 / 4.0).max(5.0);
        let on = |what| format!("{megabits} Mbit/s, {rtt} ms: {what}");
        let jain = fairness(&run, &flows, 30.0, 90.0);
        figures.push(Figure::at_least(on("Jain"), jain, 0.99));
        figures.push(Figure::at_most(on("queue, ms"), run.wait(30.0, 90.0), most));
    }
    figures
}

/// Both begin while a TCP fills a deep queue, one before and one after a sawtooth's half.
fn poisoned_by_tcp(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut run = Setting::on(Path::drop_tail(10.0, 20, 6.0), algorithm).run(seed);
    let tcp = run.tcp(0.0, Rival::Cubic);
    let flows = [run.ours(10.0), run.ours(17.0)];
    run.to(40.0);
    let yielded: f64 = flows.iter().map(|f| run.share(*f, 20.0, 40.0)).sum();
    run.sim.stop_at(run.sim.now(), tcp);
    run.to(110.0);
    let together = flows.iter().map(|f| run.share(*f, 45.0, 110.0)).sum();
    vec![
        Figure::at_most("share beside TCP", yielded, 0.03),
        Figure::at_least("Jain", fairness(&run, &flows, 45.0, 110.0), 0.99),
        Figure::at_least("together", together, 0.95),
        Figure::at_most("queue, ms", run.wait(45.0, 110.0), 5.0),
    ]
}

/// What a change of priority comes to. The flow has settled after the longer of 2 s and 40 round
/// trips. `soon` is its share of the path in the four seconds after that, `later` in the minute
/// after that. `least` is the least share in half a second of the first four seconds, `before` the
/// share in the 30 s before the change. `dropped` is what the change cost in drops.
struct Changed {
    before: f64,
    soon: f64,
    later: f64,
    least: f64,
    dropped: f64,
}

fn change(run: &mut Run, flow: usize, priority: f64, settle: f64) -> Changed {
    let at = run.sim.now().as_secs_f64();
    run.sim.set_priority(flow, priority);
    run.to(at + settle + 60.0);
    let halves = (0..8).map(|n| at + 0.5 * f64::from(n));
    let least = halves.map(|from| run.share(flow, from, from + 0.5));
    Changed {
        before: run.share(flow, at - 30.0, at),
        soon: run.share(flow, at + settle, at + settle + 4.0),
        later: run.share(flow, at + settle, at + settle + 60.0),
        least: least.fold(f64::INFINITY, f64::min),
        dropped: (run.dropped(flow, at, at + settle)
            - run.dropped(flow, at + settle, at + settle + 60.0))
        .max(0.0),
    }
}

/// When a flow has to be at its new share, in seconds after the change: two, or forty round trips
/// if they are longer.
pub(super) fn due(setting: &Setting) -> f64 {
    (40.0 * setting.path.rtt.as_secs_f64()).max(2.0)
}

/// The paper's Figure 6, and back to 0: beside one TCP from 0 to 1 to 2 to 0.
pub(super) fn figure_6(setting: &Setting, seed: u64) -> Vec<Figure> {
    let due = due(setting);
    let mut run = setting.run(seed);
    let flow = run.ours(0.0);
    run.tcp(0.0, Rival::Cubic);
    run.to(60.0);
    let yielded = run.share(flow, 20.0, 60.0);
    let one = change(&mut run, flow, 1.0, due);
    let two = change(&mut run, flow, 2.0, due);
    let zero = change(&mut run, flow, 0.0, due);
    vec![
        Figure::at_most("share at 0", yielded, 0.03),
        Figure::at_least("0 to 1: soon ÷ later", one.soon / one.later, 0.6),
        Figure::at_most("0 to 1: soon ÷ later, no more", one.soon / one.later, 1.6),
        Figure::at_most("0 to 1: more drops, %", one.dropped * 100.0, 2.0),
        Figure::at_least("1 to 2: soon ÷ later", two.soon / two.later, 0.6),
        Figure::at_most("1 to 2: soon ÷ later, no more", two.soon / two.later, 1.6),
        Figure::at_least("1 to 2: least ÷ before", two.least / two.before, 0.3),
        Figure::at_most("1 to 2: more drops, %", two.dropped * 100.0, 2.0),
        Figure::at_most("2 to 0: share soon", zero.soon, 0.03),
        Figure::at_most("2 to 0: share later", zero.later, 0.03),
    ]
}

/// Beside one TCP from 1 to 4, and down to 0. What is given up at once is seen at what the TCP then
/// has: as much as if the flow had ended, for it needs time to grow into the room, and priority 0
/// may have meanwhile what no flow uses.
pub(super) fn four_and_none(setting: &Setting, seed: u64) -> Vec<Figure> {
    let due = due(setting);
    let (up, down) = (72.0, 72.0 + due + 60.0);
    let four = || {
        let mut run = setting.run(seed);
        // It has seen the path before the TCP came.
        let flow = run.ours(0.0);
        let tcp = run.tcp(10.0, Rival::Cubic);
        run.to(12.0);
        run.sim.set_priority(flow, 1.0);
        run.to(up);
        let four = change(&mut run, flow, 4.0, due);
        (run, flow, tcp, four)
    };
    let (mut ended, gone, without, _) = four();
    ended.sim.stop_at(ended.sim.now(), gone);
    ended.to(down + due + 60.0);
    let (mut run, flow, tcp, four) = four();
    let zero = change(&mut run, flow, 0.0, due);
    let keeps = |from, to| match ended.share(without, from, to) {
        // One that waits for a time-out has nothing to lose.
        none if none <= 0.0 => 1.0,
        alone => run.share(tcp, from, to) / alone,
    };
    // At three quarters of what is due beside one TCP.
    let there = run.back(flow, 0.75 * 4.0 / 5.0, up);
    vec![
        Figure::at_most("1 to 4: s", there, due),
        Figure::at_least("1 to 4: soon ÷ later", four.soon / four.later, 0.6),
        Figure::at_most("1 to 4: soon ÷ later, no more", four.soon / four.later, 1.6),
        Figure::at_least("1 to 4: least ÷ before", four.least / four.before, 0.3),
        Figure::at_most("1 to 4: more drops, %", four.dropped * 100.0, 2.0),
        Figure::at_least(
            "4 to 0: TCP at once, of without",
            keeps(down, down + due),
            0.9,
        ),
        Figure::at_least(
            "4 to 0: TCP, of without",
            keeps(down, down + due + 60.0),
            0.99,
        ),
        Figure::at_most("4 to 0: share later", zero.later, 0.03),
    ]
}

/// The same with no flow beside it: nothing may stall.
fn alone_changes(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (megabits, rtt) in [(10.0, 20), (10.0, 60), (100.0, 20)] {
        let mut run = Setting::on(Path::drop_tail(megabits, rtt, 1.0), algorithm).run(seed);
        let flow = run.ours(0.0);
        run.to(31.0);
        let settle = (0.04 * rtt as f64).max(2.0);
        let [one, two, zero] = [1.0, 2.0, 0.0].map(|p| change(&mut run, flow, p, settle));
        let on = |what| format!("{megabits} Mbit/s, {rtt} ms, {what}");
        figures.extend([
            Figure::at_least(on("0 to 1: least half second"), one.least, 0.7),
            Figure::at_most(on("0 to 1: more drops, %"), one.dropped * 100.0, 0.1),
            Figure::at_least(on("1 to 2: least half second"), two.least, 0.7),
            Figure::at_most(on("1 to 2: more drops, %"), two.dropped * 100.0, 0.1),
            Figure::at_least(on("2 to 0: least half second"), zero.least, 0.7),
            Figure::at_least(on("2 to 0: soon"), zero.soon, 0.9),
            Figure::at_most(on("2 to 0: more drops, %"), zero.dropped * 100.0, 0.1),
        ]);
    }
    figures
}

/// The paper's Figure 7: five flows, of which four go to 1 and two of these to 2, and one stays at
/// 0.
pub(super) fn figure_7(setting: &Setting, seed: u64) -> Vec<Figure> {
    let mut run = setting.run(seed);
    let flows: Vec<usize> = (0..5).map(|n| run.ours(f64::from(n))).collect();
    run.to(120.0);
    let polite = fairness(&run, &flows, 40.0, 120.0);
    for flow in &flows[1..] {
        run.sim.set_priority(*flow, 1.0);
    }
    run.to(230.0);
    let ones = fairness(&run, &flows[1..], 122.0, 230.0);
    let yields = run.share(flows[0], 122.0, 230.0);
    for flow in &flows[3..] {
        run.sim.set_priority(*flow, 2.0);
    }
    run.to(360.0);
    let sum = |flows: &[usize]| {
        flows
            .iter()
            .map(|f| run.share(*f, 232.0, 360.0))
            .sum::<f64>()
    };
    let ratio = sum(&flows[3..]) / sum(&flows[1..3]);
    vec![
        Figure::at_least("Jain of five at 0", polite, 0.99),
        Figure::at_least("Jain of four at 1", ones, 0.98),
        Figure::at_most("share at 0 beside four at 1", yields, 0.03),
        Figure::at_least("two at 2 ÷ two at 1", ratio, 1.4),
        Figure::at_most("two at 2 ÷ two at 1, no more", ratio, 3.0),
        Figure::at_least(
            "Jain of two at 2",
            fairness(&run, &flows[3..], 232.0, 360.0),
            0.98,
        ),
        Figure::at_most(
            "share at 0 beside all",
            run.share(flows[0], 232.0, 360.0),
            0.03,
        ),
    ]
}
