//! A path and those who will share it.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ringway_dtl::{Algorithm, Config};

use crate::bottleneck::{Acknowledging, Bottleneck, Clock, Control, Path};
use crate::rivals::{Bbr, Cubic, Priorities, Reno};

/// A model of TCP.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// [`Cubic`].
    Cubic,
    /// [`Reno`].
    Reno,
    /// [`Bbr`].
    Bbr,
}

impl Rival {
    /// All of them.
    pub const ALL: [Rival; 3] = [Rival::Cubic, Rival::Reno, Rival::Bbr];

    /// A new flow of it.
    #[must_use]
    pub fn control(self) -> Box<dyn Control> {
        match self {
            Rival::Cubic => Box::new(Cubic::default()),
            Rival::Reno => Box::new(Reno::default()),
            Rival::Bbr => Box::new(Bbr::default()),
        }
    }
}

/// A path, and what our flows on it are like.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The path.
    pub path: Path,
    /// The rules of our flows.
    pub algorithm: Algorithm,
    /// How our receivers acknowledge.
    pub acknowledging: Acknowledging,
    /// Our receivers' clock, if they say when packets came.
    pub clock: Option<Clock>,
    /// How often they say so at most, apart from acknowledgements; with each otherwise.
    pub told: Option<Duration>,
    /// Whether a CUBIC fills the way back, from the beginning.
    pub upload: bool,
}

impl Setting {
    /// Our flows as they are by default, on `path`.
    #[must_use]
    pub fn on(path: Path, algorithm: Algorithm) -> Setting {
        Setting {
            path,
            algorithm,
            acknowledging: Acknowledging::EACH,
            clock: None,
            told: None,
            upload: false,
        }
    }

    /// An idle path.
    #[must_use]
    pub fn run(&self, seed: u64) -> Run {
        let mut run = Run {
            sim: Bottleneck::new(self.path.clone(), seed),
            setting: self.clone(),
            starts: StdRng::from_seed(crate::seed::spread(seed, 2)),
        };
        if self.upload {
            let tcp = Rival::Cubic.control();
            run.sim
                .add_backwards(Duration::ZERO, tcp, Acknowledging::DELAYED);
        }
        run
    }
}

/// A simulation of a setting. Flows begin up to a second later than they are told, by the seed.
#[derive(Debug)]
pub struct Run {
    /// The simulation.
    pub sim: Bottleneck,
    setting: Setting,
    starts: StdRng,
}

impl Run {
    fn about(&mut self, at: f64) -> Duration {
        seconds(at + self.starts.random::<f64>())
    }

    /// A flow of ours that begins in second `at`.
    pub fn ours(&mut self, at: f64) -> usize {
        let config = Config {
            algorithm: self.setting.algorithm,
            ..Config::default()
        };
        let start = self.about(at);
        let mut control = Priorities::scavenger(config);
        if let Some(every) = self.setting.told {
            control = control.told_every(every);
        }
        let flow = self
            .sim
            .add(start, Box::new(control), self.setting.acknowledging);
        if let Some(clock) = self.setting.clock {
            self.sim.set_clock(flow, clock);
        }
        flow
    }

    /// A TCP that begins in second `at`.
    pub fn tcp(&mut self, at: f64, rival: Rival) -> usize {
        let start = self.about(at);
        self.sim.add(start, rival.control(), Acknowledging::DELAYED)
    }

    /// Runs to second `to`.
    pub fn to(&mut self, to: f64) {
        self.sim.run_until(seconds(to));
    }

    /// Share of the path that a flow had between two seconds.
    #[must_use]
    pub fn share(&self, flow: usize, from: f64, to: f64) -> f64 {
        self.sim.share(flow, seconds(from), seconds(to))
    }

    /// Mean rate of a flow between two seconds, bytes a second.
    #[must_use]
    pub fn rate(&self, flow: usize, from: f64, to: f64) -> f64 {
        let bytes = self.sim.series(flow).bytes(seconds(from), seconds(to));
        bytes as f64 / (to - from)
    }

    /// Seconds after `from` until a flow has `share` of the path for half a second.
    #[must_use]
    pub fn back(&self, flow: usize, share: f64, from: f64) -> f64 {
        let rate = share * self.sim.path().rate as f64;
        let at = self
            .sim
            .series(flow)
            .reaches(rate, seconds(from), seconds(0.5));
        at.map_or(f64::INFINITY, |at| at.as_secs_f64() - from)
    }

    /// Median of the queueing delay between two seconds, in milliseconds.
    #[must_use]
    pub fn wait(&self, from: f64, to: f64) -> f64 {
        self.sim
            .median_wait(seconds(from), seconds(to))
            .as_secs_f64()
            * 1e3
    }

    /// Packets that the queue dropped of a flow ÷ its packets that it let pass.
    #[must_use]
    pub fn dropped(&self, flow: usize, from: f64, to: f64) -> f64 {
        self.sim.dropped(flow, seconds(from), seconds(to))
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}
