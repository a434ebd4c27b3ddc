//! The same seed gives the same run.

use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_sim::scenario::{Arrival, arrive, churn};
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
fn the_same_seed_gives_the_same_trace_and_another_another() {
    let first = trace(1);
    assert_eq!(first, trace(1));
    assert_ne!(first, trace(2));
}
