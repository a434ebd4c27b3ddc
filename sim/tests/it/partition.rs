//! What no proof of Chord covers and every network does: it falls apart, or all of it is restarted.
//! There are several rings then, so nothing is asserted until the network is whole; afterwards
//! there must be one ring again.

use std::collections::BTreeMap;

use ringway_overlay::RingKey;
use ringway_sim::attack::{Attack, Divided, divided};
use ringway_sim::scenario::{ask_everybody, at_rest};
use ringway_sim::{Behaviour, Check, RingConfig, RingSim, seeds};

use crate::{certified_ring_at_rest, ok, ring_at_rest, seconds};

/// Divides a ring of `count` for a minute into parts by the member's place, and makes it whole
/// again.
fn divide_and_reunite(seed: u64, count: usize, part: impl Fn(usize) -> usize) {
    divide_by(RingSim::divide, (seed, ring_at_rest(seed, count).0), part);
}

/// The same, by any way of dividing, of any ring.
fn divide_by(
    divide: impl Fn(&mut RingSim, BTreeMap<RingKey, usize>),
    (seed, mut sim): (u64, RingSim),
    part: impl Fn(usize) -> usize,
) {
    let count = sim.members().len();
    ok(sim.run_for(seconds(20)));
    sim.set_check(Check::Nothing);
    let parts: BTreeMap<_, _> = sim
        .members()
        .into_iter()
        .enumerate()
        .map(|(place, key)| (key, part(place)))
        .collect();
    divide(&mut sim, parts);
    ok(sim.run_for(seconds(60)));
    assert!(
        at_rest(&sim, count).is_err(),
        "seed {seed}: the network was not divided"
    );
    sim.divide(BTreeMap::new());
    ok(sim.run_until(seconds(240), |sim| at_rest(sim, count)));
    sim.set_check(Check::Full);
    let targets = [sim.members()[0]];
    ok(ask_everybody(&mut sim, &targets, seconds(10)));
    assert!(sim.convicted().is_empty(), "seed {seed}: all are honest");
}

#[test]
fn two_halves_become_one_ring_again() {
    for seed in seeds(5) {
        divide_and_reunite(seed, 16, |place| place / 8);
        divide_and_reunite(seed, 16, |place| place % 2);
    }
}

#[test]
fn one_that_was_cut_off_comes_back() {
    for seed in seeds(5) {
        divide_and_reunite(seed, 8, |place| usize::from(place == 3));
    }
}

/// Each was cut off from all others.
#[test]
fn single_members_become_one_ring_again() {
    for seed in seeds(5) {
        divide_and_reunite(seed, 8, |place| place);
    }
}

/// Who is not heard takes those for alive that it hears, and asks them in vain; who hears none
/// takes them for dead.
#[test]
fn parts_divided_one_way_become_one_ring_again() {
    for seed in seeds(5) {
        for (count, parts) in [(16, 8), (16, 1), (8, 4)] {
            let place_in = |place: usize| place / parts % 2;
            let sim = (seed, ring_at_rest(seed, count).0);
            divide_by(RingSim::divide_one_way, sim, place_in);
        }
        // One that hears no other, and one that no other hears.
        for (one, others) in [(1, 0), (0, 1)] {
            let part = |place: usize| if place == 3 { one } else { others };
            divide_by(
                RingSim::divide_one_way,
                (seed, ring_at_rest(seed, 8).0),
                part,
            );
        }
    }
}

#[test]
fn certified_parts_reunite_and_convict_no_member() {
    for seed in seeds(3) {
        let sim = || (seed, certified_ring_at_rest(seed, 16).0);
        divide_by(RingSim::divide, sim(), |place| place / 8);
        divide_by(RingSim::divide, sim(), |place| usize::from(place == 3));
        divide_by(RingSim::divide_one_way, sim(), |place| place / 8);
        divide_by(RingSim::divide_one_way, sim(), |place| place % 2);
        divide_by(RingSim::divide_one_way, sim(), |place| {
            usize::from(place == 3)
        });
    }
}

/// How many honest members have the true next member as their first successor, and how many are
/// honest.
fn placed(sim: &RingSim, traitors: &[RingKey]) -> (usize, usize) {
    let members = sim.members();
    let honest = members.iter().filter(|key| !traitors.contains(key));
    let right = honest.clone().filter(|key| {
        let next = members.iter().find(|other| other > key);
        let next = next.or(members.first());
        sim.chord(key).and_then(|chord| chord.successors().first()) == next
    });
    (right.count(), honest.count())
}

#[test]
fn malicious_routers_do_not_keep_parts_apart() {
    for seed in seeds(3) {
        let config = RingConfig {
            check: Check::Nothing,
            credentials: true,
            ..RingConfig::default()
        };
        let mut sim = RingSim::new(seed, config);
        let keys: Vec<RingKey> = (0..60).map(|_| sim.add()).collect();
        let traitors = &keys[..24];
        let hide = |key: &RingKey| sim.recruit(*key, Behaviour::Hide);
        traitors.iter().for_each(hide);
        sim.settle();
        ok(sim.run_for(seconds(20)));
        let mut members = sim.members();
        members.sort_unstable();
        let parts = members.into_iter().enumerate();
        sim.divide(parts.map(|(place, key)| (key, place % 2)).collect());
        ok(sim.run_for(seconds(240)));
        let (right, honest) = placed(&sim, traitors);
        assert!(right < honest / 2, "seed {seed}: not divided");
        sim.divide(BTreeMap::new());
        // By plain lookups a third of the honest members have not found their places after four
        // minutes.
        ok(sim.run_for(seconds(90)));
        assert_eq!(placed(&sim, traitors), (36, 36), "seed {seed}");
        let mut convicted = sim.convicted().keys();
        assert!(
            convicted.all(|key| traitors.contains(key)),
            "seed {seed}: an honest member is convicted"
        );
    }
}

/// The smaller side, twenty of sixty, has twelve traitors, the larger one twelve among forty. While
/// they are apart, most of what an honest member of the smaller side hears of those around it is
/// what its traitors say.
#[test]
fn honest_members_of_a_malicious_side_come_back() {
    let kinds = [
        Behaviour::Collude,
        Behaviour::Camouflage,
        Behaviour::Pending,
        Behaviour::Hide,
    ];
    for behaviour in kinds.into_iter().map(Some).chain([None]) {
        for seed in seeds(1) {
            let attack = Attack {
                behaviour,
                before: seconds(20),
                ..Attack::new(seed, 60, 0.3, 100)
            };
            let reunion = ok(divided(&Divided {
                attack,
                small: 20,
                traitors: 0.6,
                lasts: seconds(240),
                // A probe of each within 38 s; without probes it took up to 49 s.
                patience: seconds(40),
                settles: seconds(60),
            }));
            let which = format!("seed {seed}, {behaviour:?}");
            assert_eq!((reunion.honest, reunion.cut_off), (36, 8), "{which}");
            assert!(reunion.placed_before < 36, "{which}: not divided");
            assert!(reunion.after.is_some(), "{which}: {reunion:?}");
            assert_eq!(reunion.placed, 36, "{which}");
            assert_eq!(reunion.eclipsed, 0, "{which}");
            assert_eq!(reunion.outcome.innocent, 0, "{which}");
            assert!(reunion.outcome.right >= 95, "{which}: {reunion:?}");
        }
    }
}

#[test]
fn a_ring_restarted_as_a_whole_comes_back() {
    for seed in seeds(10) {
        let (mut sim, keys) = ring_at_rest(seed, 5);
        sim.set_check(Check::Nothing);
        keys.iter().for_each(|key| sim.crash(*key));
        ok(sim.run_for(seconds(5)));
        keys.iter().for_each(|key| sim.restart(*key));
        ok(sim.run_until(seconds(60), |sim| at_rest(sim, 5)));
    }
}
