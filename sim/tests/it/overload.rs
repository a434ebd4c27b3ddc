//! Machines that have more to do than they can: members that start all at once must form a ring all
//! the same, and the dead must be found out.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_sim::scenario::{at_rest, start_all};
use ringway_sim::{Check, Load, RingConfig, RingSim, seeds};

use crate::{ok, seconds};

fn on_a_machine(seed: u64, load: Load) -> RingSim {
    let config = RingConfig {
        check: Check::Nothing,
        credentials: true,
        ..RingConfig::default()
    };
    let mut sim = RingSim::new(seed, config);
    sim.set_load(load);
    sim
}

/// One machine for all, which can do what a ring of a hundred at rest wants, but not much more.
fn slow() -> Load {
    Load {
        machines: 1,
        message: Duration::from_micros(500),
        first: Duration::from_millis(5),
        patience: seconds(2),
    }
}

/// On a machine that cannot keep up.
#[test]
fn members_started_at_once_form_a_ring() {
    for seed in seeds(2) {
        let mut sim = on_a_machine(seed, slow());
        start_all(&mut sim, &mut StdRng::seed_from_u64(seed), 100, 8);
        // By fixed time-outs it takes 163 and 173 s, and a third of the members are alone
        // meanwhile.
        ok(sim.run_until(seconds(130), |sim| at_rest(sim, 100)));
    }
}

#[test]
fn deaths_after_the_rush_are_noticed_soon() {
    let mut sim = on_a_machine(1, slow());
    let keys = start_all(&mut sim, &mut StdRng::seed_from_u64(1), 40, 8);
    ok(sim.run_until(seconds(120), |sim| at_rest(sim, 40)));
    ok(sim.run_for(seconds(30)));
    sim.crash(keys[7]);
    ok(sim.run_until(seconds(8), |sim| at_rest(sim, 39)));
}
