//! Lookups in a ring at rest.

use ringway_overlay::RingKey;
use ringway_sim::scenario::ask_everybody;
use ringway_sim::seeds;

use crate::{ok, ring_at_rest, seconds};

#[test]
fn every_member_finds_every_points_owner() {
    for seed in seeds(3) {
        let (mut sim, keys) = ring_at_rest(seed, 64);
        let points = (0..4_u8).map(|n| RingKey::point(&[n]));
        let targets: Vec<RingKey> = points
            .chain([keys[7], RingKey::ZERO, RingKey::MAX])
            .collect();
        let results = ok(ask_everybody(&mut sim, &targets, seconds(10)));
        assert_eq!(results.len(), 64 * targets.len());
    }
}

#[test]
fn fingers_shorten_the_way() {
    for seed in seeds(2) {
        let (mut sim, keys) = ring_at_rest(seed, 64);
        // The first pass over twenty fingers takes some seconds, and joins made some of it in vain.
        ok(sim.run_for(seconds(60)));
        let results = ok(ask_everybody(&mut sim, &keys[..8], seconds(10)));
        let longest = results
            .iter()
            .map(|result| result.hops.len())
            .max()
            .unwrap_or(0);
        assert!(longest <= 6, "seed {seed}: {longest} hops");
        let sum: usize = results.iter().map(|result| result.hops.len()).sum();
        assert!(
            sum <= 2 * results.len(),
            "seed {seed}: {sum} hops in {}",
            results.len()
        );
        for key in &keys {
            let fingers = sim.chord(key).expect("it runs").fingers();
            let mut distinct = fingers.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), fingers.len(), "seed {seed}");
            assert!(
                (4..=24).contains(&fingers.len()),
                "seed {seed}: {} fingers",
                fingers.len()
            );
        }
    }
}

#[test]
fn a_lone_members_lookup_ends_at_once() {
    let (mut sim, keys) = ring_at_rest(1, 1);
    assert!(sim.lookup(keys[0], RingKey::point(b"anything")));
    let results = sim.take_results();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].owner, Ok(keys[0]));
    assert!(results[0].hops.is_empty());
}
