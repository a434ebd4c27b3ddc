//! The same seed gives the same run.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_dtl::Algorithm;
use ringway_sim::bottleneck::{Discipline, Jitter, Path, Red};
use ringway_sim::scenario::{Arrival, arrive, churn};
use ringway_sim::trials::{Rival, Setting};
use ringway_sim::{Link, RingConfig, RingSim, Trace};

use crate::ok;

fn trace(seed: u64) -> Trace {
    let link = Link {
        duplicates: 0.02,
        ..Link::default()
    };
    let mut sim = RingSim::new(
        seed,
        RingConfig {
            link,
            ..RingConfig::default()
        },
    );
    ok(arrive(&mut sim, 12, Arrival::AtOnce));
    ok(churn(&mut sim, &mut StdRng::seed_from_u64(seed), 20));
    assert!(sim.steps() > 1_000);
    sim.trace()
}

#[test]
fn only_the_same_seed_gives_the_same_trace() {
    let first = trace(1);
    assert_eq!(first, trace(1));
    assert_ne!(first, trace(2));
}

/// A path on which everything that chance decides is at work: trembling delays, loss, a queue that
/// drops at random.
#[test]
fn so_does_a_bottleneck() {
    let play = |seed| {
        let mut path = Path::drop_tail(10.0, 20, 4.0);
        path.discipline = Discipline::Red(Red::of(path.buffer));
        path.jitter = Jitter::Uniform(Duration::from_millis(2));
        path.loss = 0.001;
        let mut run = Setting::on(path, Algorithm::default()).run(seed);
        let flows = [run.ours(0.0), run.ours(1.0), run.tcp(5.0, Rival::Cubic)];
        run.to(20.0);
        let bytes = |flow| {
            let second = |n| run.rate(flow, f64::from(n), f64::from(n + 1)) as u64;
            (0..20).map(second).collect::<Vec<u64>>()
        };
        flows.map(bytes)
    };
    let first = play(1);
    assert_eq!(first, play(1));
    assert_ne!(first, play(2));
}
