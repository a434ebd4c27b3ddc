//! Paths that are not as textbooks draw them.

use std::time::Duration;

use ringway_dtl::Algorithm;

use super::measure::{beside_all, late_figures};
use super::{Figure, Rival, Setting, Trial, alone};
use crate::bottleneck::{
    Acknowledging, Back, Clock, CoDel, Discipline, Jitter, Path, Red, Wireless,
};

pub(super) const TRIALS: &[Trial] = &[
    Trial {
        name: "wifi",
        play: wifi,
    },
    Trial {
        name: "wifi-fast",
        play: wifi_fast,
    },
    Trial {
        name: "jitter",
        play: jitter,
    },
    Trial {
        name: "clock-fast",
        play: |a, s| clock(a, s, 100e-6),
    },
    Trial {
        name: "clock-slow",
        play: |a, s| clock(a, s, -100e-6),
    },
    Trial {
        name: "acks-25ms",
        play: |a, s| delayed(a, s, 2, 25),
    },
    Trial {
        name: "acks-60ms",
        play: |a, s| delayed(a, s, 2, 60),
    },
    Trial {
        name: "acks-tenth",
        play: tenth,
    },
    Trial {
        name: "acks-bunched",
        play: bunched,
    },
    Trial {
        name: "loss-0.1%",
        play: |a, s| loss(a, s, 0.001),
    },
    Trial {
        name: "loss-1%",
        play: |a, s| loss(a, s, 0.01),
    },
    Trial {
        name: "reordering",
        play: reordering,
    },
    Trial {
        name: "red",
        play: red,
    },
    Trial {
        name: "codel",
        play: codel,
    },
    Trial {
        name: "half-bdp",
        play: |a, s| buffer(a, s, 0.5),
    },
    Trial {
        name: "ten-bdp",
        play: |a, s| buffer(a, s, 10.0),
    },
    Trial {
        name: "four-packets",
        play: four_packets,
    },
    Trial {
        name: "upload-rtt",
        play: |a, s| upload(a, s, None, None),
    },
    Trial {
        name: "upload-one-way",
        play: |a, s| upload(a, s, Some(PERFECT), None),
    },
    Trial {
        name: "upload-told",
        play: |a, s| upload(a, s, Some(PERFECT), Some(TOLD)),
    },
    Trial {
        name: "upload-told-slow",
        play: slow_upload,
    },
    Trial {
        name: "clock-told",
        play: told,
    },
    Trial {
        name: "ten-late",
        play: |a, s| late(a, s, 10.0, 10),
    },
    Trial {
        name: "ten-late-100",
        play: |a, s| late(a, s, 100.0, 10),
    },
    Trial {
        name: "five-late",
        play: |a, s| late(a, s, 10.0, 5),
    },
];

const PERFECT: Clock = Clock {
    offset: Duration::from_secs(1000),
    drift: 0.0,
};

fn usual(algorithm: Algorithm) -> Setting {
    Setting::on(Path::drop_tail(10.0, 20, 2.0), algorithm)
}

/// Alone, beside TCP, and four of its kind.
fn all(setting: &Setting, seed: u64) -> Vec<Figure> {
    [
        alone(setting, seed),
        beside_all(setting, &Rival::ALL, seed),
        late_figures(setting, 4, seed),
    ]
    .concat()
}

fn wifi(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    setting.path.jitter = Jitter::Wireless(Wireless::HOME);
    setting.path.ack_jitter = Jitter::Wireless(Wireless::HOME);
    all(&setting, seed)
}

fn wifi_fast(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = Setting::on(Path::drop_tail(100.0, 20, 2.0), algorithm);
    setting.path.jitter = Jitter::Wireless(Wireless::HOME);
    setting.path.ack_jitter = Jitter::Wireless(Wireless::HOME);
    [
        alone(&setting, seed),
        beside_all(&setting, &[Rival::Cubic], seed),
    ]
    .concat()
}

fn jitter(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    setting.path.jitter = Jitter::Uniform(Duration::from_millis(5));
    all(&setting, seed)
}

/// One-way delays by a clock that drifts, for long enough that the drift is several times the
/// target.
fn clock(algorithm: Algorithm, seed: u64, drift: f64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    let offset = PERFECT.offset;
    setting.clock = Some(Clock { offset, drift });
    let mut run = setting.run(seed);
    let flow = run.ours(0.0);
    run.to(300.0);
    let mut figures = vec![
        Figure::at_least("share after 4 minutes", run.share(flow, 240.0, 300.0), 0.97),
        Figure::at_most("queue, ms", run.wait(240.0, 300.0), 3.0),
    ];
    figures.extend(beside_all(&setting, &[Rival::Cubic], seed));
    figures
}

fn delayed(algorithm: Algorithm, seed: u64, every: u32, ms: u64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    let delay = Duration::from_millis(ms);
    setting.acknowledging = Acknowledging {
        every,
        delay,
        pushed: false,
    };
    all(&setting, seed)
}

/// One acknowledgement for ten packets, as fast receivers send it.
fn tenth(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = Setting::on(Path::drop_tail(100.0, 20, 2.0), algorithm);
    let delay = Duration::from_millis(25);
    setting.acknowledging = Acknowledging {
        every: 10,
        delay,
        pushed: false,
    };
    [
        alone(&setting, seed),
        beside_all(&setting, &[Rival::Cubic], seed),
    ]
    .concat()
}

/// Acknowledgements that leave together every 8 ms, as over a cable modem that asks for its turn.
fn bunched(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    setting.path.ack_jitter = Jitter::Turns(Duration::from_millis(8));
    all(&setting, seed)
}

fn loss(algorithm: Algorithm, seed: u64, loss: f64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    setting.path.loss = loss;
    all(&setting, seed)
}

fn reordering(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    setting.path.reordering = 0.01;
    all(&setting, seed)
}

fn red(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = Setting::on(Path::drop_tail(10.0, 20, 8.0), algorithm);
    setting.path.discipline = Discipline::Red(Red::of(setting.path.buffer));
    all(&setting, seed)
}

fn codel(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = Setting::on(Path::drop_tail(10.0, 20, 10.0), algorithm);
    setting.path.discipline = Discipline::CoDel(CoDel::default());
    all(&setting, seed)
}

fn buffer(algorithm: Algorithm, seed: u64, products: f64) -> Vec<Figure> {
    let path = Path::drop_tail(10.0, 20, products);
    all(&Setting::on(path, algorithm), seed)
}

fn four_packets(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    setting.path.buffer = 6_000;
    all(&setting, seed)
}

/// How often members tell their clock.
const TOLD: Duration = Duration::from_millis(50);

/// As members tell each other, with nothing on the way back: no worse than without.
fn told(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    setting.clock = Some(Clock {
        drift: -100e-6,
        ..PERFECT
    });
    setting.told = Some(TOLD);
    all(&setting, seed)
}

/// A CUBIC fills the way back, whose queue is 100 ms long.
fn upload(
    algorithm: Algorithm,
    seed: u64,
    clock: Option<Clock>,
    told: Option<Duration>,
) -> Vec<Figure> {
    let mut setting = usual(algorithm);
    setting.told = told;
    setting.upload = true;
    setting.clock = clock;
    setting.path.back = Some(Back {
        rate: 250_000,
        buffer: 25_000,
    });
    all(&setting, seed)
}

/// The same on a line of 1 Mbit/s, where a flow at its floor sends one packet in two seconds.
fn slow_upload(algorithm: Algorithm, seed: u64) -> Vec<Figure> {
    let mut setting = Setting::on(Path::drop_tail(1.0, 60, 2.0), algorithm);
    setting.upload = true;
    setting.clock = Some(PERFECT);
    setting.told = Some(TOLD);
    setting.path.back = Some(Back {
        rate: 25_000,
        buffer: 12_500,
    });
    alone(&setting, seed)
}

fn late(algorithm: Algorithm, seed: u64, megabits: f64, count: u32) -> Vec<Figure> {
    let path = Path::drop_tail(megabits, 20, 2.0);
    late_figures(&Setting::on(path, algorithm), count, seed)
}
