//! Flows of one program to several peers: what each gets of what they have together, where their
//! packets wait in one queue and where they do not.

use std::time::Duration;

use super::{Figure, Rival, TREMBLES};
use crate::bottleneck::{Acknowledging, Bottleneck, Jitter, Path};
use crate::rivals::{Coupled, Program};

/// Priorities of the three flows.
const WEIGHTS: [f64; 3] = [1.0, 2.0, 4.0];
/// From when on it is looked at what each gets, and until when.
const SETTLED: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(40);
/// How often it is looked whether two are taken to share a queue.
const STEP: Duration = Duration::from_millis(10);
const LONGER: Duration = Duration::from_secs(60);

/// Three flows to three peers, with or without the coupling of their groups.
#[derive(Copy, Clone, Debug)]
pub struct Apart {
    /// How much longer the round trip to each further peer is.
    pub farther: Duration,
    /// Beside one CUBIC.
    pub beside: bool,
    /// Whether the groups are coupled.
    pub coupled: bool,
}

impl Apart {
    /// Plays it on one path.
    #[must_use]
    pub fn play(&self, path: &Path, seed: u64) -> Shares {
        let mut path = path.clone();
        path.ack_jitter = Jitter::Uniform(TREMBLES);
        let mut sim = Bottleneck::new(path, seed);
        let program = Program::new(self.coupled);
        let mut flows = Vec::new();
        for (place, weight) in (0..).zip(WEIGHTS) {
            let start = Duration::from_millis(100 * place + 7 * (seed % 64));
            let control = Box::new(Coupled::new(&program, weight));
            let flow = sim.add(start, control, Acknowledging::EACH);
            sim.set_detour(flow, self.farther * place as u32);
            flows.push(flow);
        }
        let half = Duration::from_millis(500);
        let tcp = self.beside.then(|| {
            let control = Rival::Cubic.control();
            sim.add(half, control, Acknowledging::DELAYED)
        });
        sim.run_until(END);
        let share = |flow: usize| sim.share(flow, SETTLED, END);
        let shares: Vec<f64> = flows.into_iter().map(share).collect();
        let (all, due): (f64, f64) = (shares.iter().sum(), WEIGHTS.iter().sum());
        let off = |(share, weight): (&f64, f64)| ((share / all) / (weight / due) - 1.0).abs();
        Shares {
            off: shares.iter().zip(WEIGHTS).map(off).fold(0.0, f64::max),
            tcp: tcp.map(share),
        }
    }
}

/// What became of the three.
#[derive(Copy, Clone, Debug)]
pub struct Shares {
    /// How far the farthest is from its part, as a part of that.
    pub off: f64,
    /// What the CUBIC beside them has of the path.
    pub tcp: Option<f64>,
}

/// Two flows of one program, of priority 1 and 4, through two queues, each beside a CUBIC or alone
/// there.
#[must_use]
pub fn two_queues(paths: &[Path; 2], beside: bool, seed: u64) -> Vec<Figure> {
    let ((alone, _), (coupled, together)) = (
        separate(paths, beside, false, seed),
        separate(paths, beside, true, seed),
    );
    let kept = alone.iter().zip(&coupled).map(|(alone, with)| with / alone);
    vec![
        Figure::at_most("seconds together", together, 2.0),
        Figure::at_least(
            "what the worse keeps",
            kept.fold(f64::INFINITY, f64::min),
            0.8,
        ),
    ]
}

/// What each has of its path, and for how many seconds they were taken to share one.
fn separate(paths: &[Path; 2], beside: bool, coupled: bool, seed: u64) -> (Vec<f64>, f64) {
    let program = Program::new(coupled);
    let mut sims = Vec::new();
    for (place, path) in (0..).zip(paths) {
        let mut path = path.clone();
        path.ack_jitter = Jitter::Uniform(TREMBLES);
        let mut sim = Bottleneck::new(path, seed.wrapping_add(place));
        let start = Duration::from_millis(13 * (seed % 64) * place);
        let priority = if place == 0 { 1.0 } else { 4.0 };
        let control = Box::new(Coupled::new(&program, priority));
        sim.add(start, control, Acknowledging::EACH);
        if beside {
            let half = Duration::from_millis(500);
            sim.add(half, Rival::Cubic.control(), Acknowledging::DELAYED);
        }
        sims.push(sim);
    }
    let (mut now, mut together) = (Duration::ZERO, Duration::ZERO);
    while now < LONGER {
        now += STEP;
        sims.iter_mut().for_each(|sim| sim.run_until(now));
        if program.together().contains(&2) {
            together += STEP;
        }
    }
    let from = Duration::from_secs(5);
    let shares = sims.iter().map(|sim| sim.share(0, from, LONGER));
    (shares.collect(), together.as_secs_f64())
}
