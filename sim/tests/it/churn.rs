//! Random joins, crashes and restarts, within the preconditions of Zave's proof.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_sim::scenario::{Arrival, arrive, at_rest, churn, form};
use ringway_sim::{RingConfig, RingSim, seeds};

use crate::{ok, seconds};

#[test]
fn a_formed_ring_keeps_the_full_invariant() {
    for seed in seeds(20) {
        let mut sim = RingSim::new(seed, RingConfig::default());
        ok(form(
            &mut sim,
            8,
            Arrival::Every(Duration::from_millis(300)),
            seconds(60),
        ));
        let running = ok(churn(&mut sim, &mut StdRng::seed_from_u64(seed), 40));
        ok(sim.run_until(seconds(60), |sim| at_rest(sim, running)));
    }
}

#[test]
fn a_forming_ring_keeps_its_structure() {
    for seed in seeds(20) {
        let mut sim = RingSim::new(seed, RingConfig::default());
        ok(arrive(&mut sim, 2, Arrival::AtOnce));
        let running = ok(churn(&mut sim, &mut StdRng::seed_from_u64(seed), 40));
        ok(sim.run_until(seconds(60), |sim| at_rest(sim, running)));
    }
}
