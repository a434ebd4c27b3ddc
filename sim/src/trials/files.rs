//! Transfers over paths that reorder packets, or have a short queue.

use std::time::Duration;

use ringway_dtl::{Algorithm, Config};

use super::{Figure, Rival, Setting, Trial};
use crate::bottleneck::{Acknowledging, Control, PACKET, Path};
use crate::rivals::Priorities;

pub(super) const TRIALS: &[Trial] = &[
    Trial {
        name: "scatter-0ms",
        play: |a, s| scatter(a, s, 0),
    },
    Trial {
        name: "scatter-1ms",
        play: |a, s| scatter(a, s, 1),
    },
    Trial {
        name: "scatter-3ms",
        play: |a, s| scatter(a, s, 3),
    },
    Trial {
        name: "scatter-5ms",
        play: |a, s| scatter(a, s, 5),
    },
    Trial {
        name: "scatter-20ms",
        play: |a, s| scatter(a, s, 20),
    },
    Trial {
        name: "three-packets-10ms",
        play: |a, s| three_packets(a, s, 10),
    },
    Trial {
        name: "three-packets-20ms",
        play: |a, s| three_packets(a, s, 20),
    },
    Trial {
        name: "three-packets-40ms",
        play: |a, s| three_packets(a, s, 40),
    },
];

/// Bytes of a file.
const FILE: u64 = 6_000_000;
/// Longest time that a transfer may take, in seconds.
const LONGEST: u64 = 100;

/// 20 Mbit/s and 40 ms; each packet takes up to so many milliseconds longer.
fn scatter(algorithm: Algorithm, seed: u64, ms: u64) -> Vec<Figure> {
    let mut path = Path::drop_tail(20.0, 40, 1.0);
    path.scatter = Duration::from_millis(ms);
    let setting = Setting::on(path, algorithm);
    let cubic = takes(
        &setting,
        seed,
        FILE,
        Rival::Cubic.control(),
        Acknowledging::DELAYED,
    );
    let one = takes(
        &setting,
        seed,
        FILE,
        ours(algorithm, 1.0),
        setting.acknowledging,
    );
    let zero = takes(
        &setting,
        seed,
        FILE,
        ours(algorithm, 0.0),
        setting.acknowledging,
    );
    vec![
        Figure::at_most("CUBIC, s", cubic, 0.25 * LONGEST as f64),
        Figure::at_most("priority 1 ÷ CUBIC", one / cubic, 1.3),
        Figure::at_most("priority 0 ÷ 1", zero / one, 1.3),
    ]
}

/// 10 Mbit/s with a queue of three packets. The kernel's CUBIC takes 11.9 s for 10 MB. The
/// model of it, which sends in bursts, takes up to 90.
fn three_packets(algorithm: Algorithm, seed: u64, rtt: u64) -> Vec<Figure> {
    let mut path = Path::drop_tail(10.0, rtt, 1.0);
    path.buffer = 3 * PACKET;
    let setting = Setting::on(path, algorithm);
    let takes = |priority| {
        let control = ours(algorithm, priority);
        takes(&setting, seed, 10_000_000, control, setting.acknowledging)
    };
    vec![
        Figure::at_most("priority 1, s", takes(1.0), 1.2 * 11.9),
        Figure::at_most("priority 0, s", takes(0.0), 1.2 * 11.9),
    ]
}

fn ours(algorithm: Algorithm, priority: f64) -> Box<dyn Control> {
    let config = Config {
        algorithm,
        ..Config::default()
    };
    match Priorities::new(priority, config) {
        Ok(control) => Box::new(control),
        Err(error) => panic!("{error}"),
    }
}

/// How long a file takes, in seconds.
fn takes(
    setting: &Setting,
    seed: u64,
    file: u64,
    control: Box<dyn Control>,
    acknowledging: Acknowledging,
) -> f64 {
    let mut run = setting.run(seed);
    let flow = run.sim.add(Duration::ZERO, control, acknowledging);
    run.sim.run_until(Duration::from_secs(LONGEST));
    let came = run.sim.series(flow).came(file);
    came.map_or(f64::INFINITY, |came| came.as_secs_f64())
}
