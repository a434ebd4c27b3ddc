//! A ring forms from its first member.

use std::time::Duration;

use ringway_sim::scenario::{Arrival, arrive, at_rest, form};
use ringway_sim::{RingConfig, RingSim, seeds};

use crate::{ok, seconds};

#[test]
fn five_at_once_form_a_ring_within_seconds() {
    for seed in seeds(20) {
        let mut sim = RingSim::new(seed, RingConfig::default());
        ok(form(&mut sim, 5, Arrival::AtOnce, seconds(10)));
        assert!(sim.formed(), "seed {seed}");
    }
}

#[test]
fn small_bursts_of_every_size_form_a_ring() {
    for seed in seeds(5) {
        for count in 1..=12 {
            let mut sim = RingSim::new(seed, RingConfig::default());
            ok(form(&mut sim, count, Arrival::AtOnce, seconds(60)));
        }
    }
}

#[test]
fn sixty_four_one_by_one_form_a_ring() {
    for seed in seeds(2) {
        let mut sim = RingSim::new(seed, RingConfig::default());
        let arrival = Arrival::Every(Duration::from_millis(500));
        ok(form(&mut sim, 64, arrival, seconds(30)));
    }
}

#[test]
fn sixty_four_at_once_form_a_ring() {
    for seed in seeds(2) {
        let mut sim = RingSim::new(seed, RingConfig::default());
        ok(form(&mut sim, 64, Arrival::AtOnce, seconds(60)));
    }
}

#[test]
fn members_started_before_the_first_find_it_later() {
    for seed in seeds(5) {
        let mut sim = RingSim::new(seed, RingConfig::default());
        let keys: Vec<_> = (0..5).map(|_| sim.add()).collect();
        keys[1..].iter().for_each(|key| sim.join(*key, &keys));
        ok(sim.run_for(seconds(20)));
        assert!(sim.members().is_empty());
        sim.start(keys[0]);
        ok(sim.run_until(seconds(20), |sim| at_rest(sim, 5)));
    }
}

#[test]
fn a_second_burst_joins_through_any_member() {
    for seed in seeds(5) {
        let mut sim = RingSim::new(seed, RingConfig::default());
        let first = ok(arrive(&mut sim, 6, Arrival::AtOnce));
        ok(sim.run_for(seconds(1)));
        let second: Vec<_> = (0..6).map(|_| sim.add()).collect();
        for (key, bootstrap) in second.iter().zip(&first) {
            sim.join(*key, &[*bootstrap]);
        }
        ok(sim.run_until(seconds(60), |sim| at_rest(sim, 12)));
    }
}
