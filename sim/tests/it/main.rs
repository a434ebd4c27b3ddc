//! Scenarios of the ring on a simulated network. After every step that changes a member's state,
//! the simulator asserts Zave's invariant; the tests assert what else must come true.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]

mod cells;
mod churn;
mod deadlines;
mod death;
mod determinism;
mod digests;
mod formation;
mod forming;
mod lookups;
mod loss;
mod model;
mod overload;
mod partition;
mod peers;
mod priorities;
mod records;
mod restart;
mod routes;
mod secure;
mod steps;
mod tallies;
mod traces;
mod trials;
mod worth;

use std::time::Duration;

use ringway_sim::scenario::{Arrival, form};
use ringway_sim::{Behaviour, RingConfig, RingSim};

/// The value of `result`; a failure ends the test with its message, which names the seed.
fn ok<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|failure| panic!("{failure}"))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A ring of `count` members at rest, on a network without loss; without certificates, so that they
/// have no groups and convict none.
fn ring_at_rest(seed: u64, count: usize) -> (RingSim, Vec<ringway_overlay::RingKey>) {
    at_rest_by(seed, count, RingConfig::default())
}

/// The same of members with certificates.
fn certified_ring_at_rest(seed: u64, count: usize) -> (RingSim, Vec<ringway_overlay::RingKey>) {
    let config = RingConfig {
        credentials: true,
        ..RingConfig::default()
    };
    at_rest_by(seed, count, config)
}

fn at_rest_by(
    seed: u64,
    count: usize,
    config: RingConfig,
) -> (RingSim, Vec<ringway_overlay::RingKey>) {
    let mut sim = RingSim::new(seed, config);
    let arrival = Arrival::Every(Duration::from_millis(200));
    let (keys, _) = ok(form(&mut sim, count, arrival, seconds(60)));
    (sim, keys)
}

/// What traitors do, one run after the other: each kind by itself, those that hinder lookups
/// together, and all together.
fn attackers() -> impl Iterator<Item = (Option<Behaviour>, &'static [Behaviour])> {
    let hinder: &'static [Behaviour] = &Behaviour::ALL;
    let every: &'static [Behaviour] = &Behaviour::EVERY;
    let kinds = Behaviour::ALL.into_iter().chain(Behaviour::OTHERS);
    let alone = kinds.map(move |kind| (Some(kind), hinder));
    let together = [hinder, every];
    alone.chain(together.map(|mixture| (None, mixture)))
}
