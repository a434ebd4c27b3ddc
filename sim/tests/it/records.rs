//! Records in rings whose members come, go and lie: a member that asks gets the newest.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use ringway_overlay::{Event, Membership, RingKey};
use ringway_sim::{Behaviour, Check, RingConfig, RingSim, seeds};

use crate::{ok, seconds};

const DAY: u64 = 24 * 3600;

fn secure() -> RingConfig {
    RingConfig {
        credentials: true,
        check: Check::Honest,
        ..RingConfig::default()
    }
}

/// A ring at rest of which this share are traitors of all kinds, and its honest members.
fn ring(seed: u64, members: usize, traitors: f64) -> (RingSim, Vec<RingKey>) {
    let mut sim = RingSim::new(seed, secure());
    let mut honest = Vec::new();
    let mut behaviours = Behaviour::ALL.into_iter().cycle();
    for n in 0..members {
        let key = sim.add();
        let before = (n as f64 * traitors) as usize;
        if ((n + 1) as f64 * traitors) as usize > before {
            sim.recruit(key, behaviours.next().unwrap());
        } else {
            honest.push(key);
        }
    }
    sim.settle();
    ok(sim.run_for(seconds(20)));
    (sim, honest)
}

fn name(n: usize) -> String {
    format!("record {n}")
}

/// Puts `count` records by as many authors, each `value`, and counts those that most of the group
/// say they have.
fn put_all(sim: &mut RingSim, honest: &[RingKey], count: usize, value: &str, number: u64) -> usize {
    for n in 0..count {
        let author = honest[n % honest.len()];
        let record = sim.record(author, &name(n), value, number, DAY);
        assert!(sim.put(author, record));
    }
    ok(sim.run_for(seconds(12)));
    let stored = sim.take_records().into_iter();
    let most = stored.filter(
        |event| matches!(event, Event::RecordStored { copies, group, .. } if copies * 2 > *group),
    );
    most.count()
}

/// How many of the records somebody finds with this value.
fn found(sim: &mut RingSim, honest: &[RingKey], authors: &[RingKey], value: &str) -> usize {
    let mut rng = StdRng::seed_from_u64(7);
    for (n, author) in authors.iter().enumerate() {
        let from = honest.choose(&mut rng).unwrap();
        assert!(sim.get(*from, *author, &name(n)));
    }
    ok(sim.run_for(seconds(12)));
    let found = sim.take_records().into_iter();
    let right = found.filter(|event| {
        matches!(event, Event::RecordFound { record: Some(record), .. } if record.value == value.as_bytes())
    });
    right.count()
}

#[test]
fn values_are_found_in_rings_of_any_size() {
    for (seed, members) in seeds(5).into_iter().zip([1, 2, 5, 9, 60]) {
        let (mut sim, honest) = ring(seed, members, 0.0);
        let authors: Vec<RingKey> = honest.iter().copied().cycle().take(20).collect();
        assert_eq!(
            put_all(&mut sim, &honest, 20, "one", 1),
            20,
            "{members} members"
        );
        assert_eq!(
            found(&mut sim, &honest, &authors, "one"),
            20,
            "{members} members"
        );
        // A newer one replaces it, an older one does not come back.
        assert_eq!(put_all(&mut sim, &honest, 20, "three", 3), 20);
        put_all(&mut sim, &honest, 20, "two", 2);
        assert_eq!(
            found(&mut sim, &honest, &authors, "three"),
            20,
            "{members} members"
        );
    }
}

/// Nor do they bring back an old one.
#[test]
fn three_of_ten_malicious_routers_hide_no_value() {
    for seed in seeds(3) {
        let (mut sim, honest) = ring(seed, 120, 0.3);
        let authors: Vec<RingKey> = honest[..60].to_vec();
        assert_eq!(put_all(&mut sim, &honest, 60, "old", 1), 60, "seed {seed}");
        assert_eq!(put_all(&mut sim, &honest, 60, "new", 2), 60, "seed {seed}");
        assert_eq!(found(&mut sim, &honest, &authors, "new"), 60, "seed {seed}");
    }
}

#[test]
fn copies_outlive_the_members_that_held_them_first() {
    for seed in seeds(2) {
        let (mut sim, mut honest) = ring(seed, 40, 0.2);
        let authors: Vec<RingKey> = honest[..30].to_vec();
        put_all(&mut sim, &honest, 30, "kept", 1);
        let mut rng = StdRng::seed_from_u64(seed);
        let first = honest.clone();
        // One after the other, everybody honest who was there is replaced.
        for old in first {
            let bootstraps: Vec<RingKey> = honest.sample(&mut rng, 3).copied().collect();
            let key = sim.add();
            sim.join(key, &bootstraps);
            honest.push(key);
            ok(sim.run_for(Duration::from_millis(rng.random_range(3_000..9_000))));
            if rng.random_bool(0.5) {
                sim.leave(old);
            }
            sim.crash(old);
            honest.retain(|key| *key != old);
            ok(sim.run_for(Duration::from_millis(rng.random_range(3_000..9_000))));
        }
        ok(sim.run_for(seconds(20)));
        let outside = |n: &usize| sim.chord(&honest[*n]).unwrap().state() != Membership::Member;
        let outside: Vec<usize> = (0..honest.len()).filter(outside).collect();
        assert!(outside.is_empty(), "{outside:?} of {}", honest.len());
        assert_eq!(
            found(&mut sim, &honest, &authors, "kept"),
            30,
            "seed {seed}"
        );
    }
}

#[test]
fn copies_survive_groups_dying_three_by_three() {
    for seed in seeds(2) {
        let (mut sim, mut honest) = ring(seed, 60, 0.0);
        let authors: Vec<RingKey> = honest[..40].to_vec();
        put_all(&mut sim, &honest, 40, "kept", 1);
        let mut rng = StdRng::seed_from_u64(seed);
        // Three that stand side by side die at once, and as many newcomers come, until as many have
        // died as there were: faster than rounds of offers.
        for _ in 0..20 {
            honest.sort_unstable();
            let place = rng.random_range(0..honest.len() - 3);
            honest
                .drain(place..place + 3)
                .for_each(|key| sim.crash(key));
            for _ in 0..3 {
                let bootstraps: Vec<RingKey> = honest.sample(&mut rng, 5).copied().collect();
                let key = sim.add();
                sim.join(key, &bootstraps);
                honest.push(key);
            }
            ok(sim.run_for(seconds(4)));
        }
        ok(sim.run_for(seconds(30)));
        assert_eq!(
            found(&mut sim, &honest, &authors, "kept"),
            40,
            "seed {seed}"
        );
    }
}

#[test]
fn restarted_members_regain_copies_until_they_expire() {
    let (mut sim, honest) = ring(1, 30, 0.0);
    let authors: Vec<RingKey> = honest[..20].to_vec();
    for (n, author) in authors.iter().enumerate() {
        let record = sim.record(*author, &name(n), "short", 1, 600);
        assert!(sim.put(*author, record));
    }
    ok(sim.run_for(seconds(12)));
    sim.take_records();
    // Faster than anybody notices, but one after the other.
    for key in &honest {
        sim.crash(*key);
        sim.restart(*key);
        ok(sim.run_for(seconds(8)));
    }
    assert_eq!(found(&mut sim, &honest, &authors, "short"), 20);
    ok(sim.run_for(seconds(600)));
    assert_eq!(found(&mut sim, &honest, &authors, "short"), 0);
    let left = honest.iter().filter_map(|key| sim.chord(key));
    assert_eq!(left.map(|chord| chord.records_kept()).sum::<usize>(), 0);
}
