//! Tallies in rings of which a fifth lies: a reader gets what the honest routers have counted,
//! within the error that decision 113 states.

use ringway_overlay::limits::{MAX_COUNTS, MAX_TALLY_AUTHORS};
use ringway_overlay::{Event, RingKey, at_least};
use ringway_sim::{Behaviour, Check, LIE, RingConfig, RingSim, seeds};

use crate::{ok, seconds};

const HOUR: u64 = 3_600;

/// A ring at rest of which every fifth router is malicious, each in another way.
fn ring(seed: u64, routers: usize, behaviours: &[Behaviour]) -> (RingSim, Vec<RingKey>, usize) {
    let config = RingConfig {
        credentials: true,
        check: Check::Honest,
        ..RingConfig::default()
    };
    let mut sim = RingSim::new(seed, config);
    let (mut honest, mut liars) = (Vec::new(), 0);
    for n in 0..routers {
        let key = sim.add();
        if n % 5 == 4 {
            sim.recruit(key, behaviours[liars % behaviours.len()]);
            liars += 1;
        } else {
            honest.push(key);
        }
    }
    sim.settle();
    ok(sim.run_for(seconds(20)));
    (sim, honest, liars)
}

/// What honest router number `router` has counted of name `name` in round `round`.
fn counted(router: usize, name: usize, round: usize) -> u64 {
    ((router * 7 + name * 13) % 40 + 1) as u64 * (round as u64 + 1)
}

fn name(n: usize) -> String {
    format!("mail/192.0.{n}.0/24")
}

fn leave_all(sim: &mut RingSim, honest: &[RingKey], names: usize, round: usize) {
    for (router, key) in honest.iter().enumerate() {
        for n in 0..names {
            assert!(sim.count(*key, &name(n), counted(router, n, round), HOUR));
        }
    }
    ok(sim.run_for(seconds(12)));
    for event in sim.take_records() {
        let Event::Counted { copies, group, .. } = event else {
            panic!("{event:?}");
        };
        assert!(copies * 2 > group, "{copies} of {group}");
    }
}

/// The counts that `reader` finds under each name.
fn read_all(sim: &mut RingSim, reader: RingKey, names: usize) -> Vec<Vec<(RingKey, u64)>> {
    let mut found = Vec::new();
    // One after the other, so that it is known which is which.
    for n in 0..names {
        assert!(sim.tally(reader, &name(n)));
        ok(sim.run_for(seconds(12)));
        for event in sim.take_records() {
            let Event::Tallied { counts, .. } = event else {
                panic!("{event:?}");
            };
            found.push(counts.iter().map(|c| (c.author, c.count)).collect());
        }
    }
    assert_eq!(found.len(), names);
    found
}

/// Every honest router's newest count is found, no older one and no forged one; and the bound that
/// is given to users keeps its promise.
fn assert_right(
    sim: &mut RingSim,
    reader: RingKey,
    honest: &[RingKey],
    names: usize,
    round: usize,
    liars: usize,
) {
    for (n, found) in read_all(sim, reader, names).into_iter().enumerate() {
        let mut true_counts: Vec<u64> = Vec::new();
        for (router, key) in honest.iter().enumerate() {
            let truth = counted(router, n, round);
            let of_it = found.iter().find(|(author, _)| author == key);
            assert_eq!(of_it.map(|(_, count)| *count), Some(truth), "{found:?}");
            true_counts.push(truth);
        }
        let lies: Vec<_> = found
            .iter()
            .filter(|(key, _)| !honest.contains(key))
            .collect();
        assert!(lies.len() <= liars, "{lies:?}");
        true_counts.sort_unstable_by(|a, b| b.cmp(a));
        let truth: u64 = true_counts.iter().sum();
        let hidden: u64 = true_counts.iter().take(liars).sum();
        let bound = at_least(found.iter().map(|(_, count)| *count), liars);
        assert!(
            (truth - hidden..=truth).contains(&bound),
            "{bound} of {truth}"
        );
    }
}

/// Keepers that leave counts out, give old ones, or forge some; authors that sign a thousand
/// million.
#[test]
fn tallies_stay_right_among_lying_routers() {
    for seed in seeds(3) {
        let (mut sim, honest, liars) = ring(seed, 20, &Behaviour::EVERY);
        for round in 0..2 {
            leave_all(&mut sim, &honest, 4, round);
            for reader in [honest[0], honest[9]] {
                assert_right(&mut sim, reader, &honest, 4, round, liars);
            }
        }
    }
}

/// The same where they all do the same, in a ring in which not every router knows all others.
#[test]
fn lying_keepers_hide_no_count_in_larger_ring() {
    let kinds = [Behaviour::Collude, Behaviour::Invent, Behaviour::Stale];
    for (seed, kind) in seeds(3).into_iter().zip(kinds) {
        let (mut sim, honest, liars) = ring(seed, 70, &[kind]);
        leave_all(&mut sim, &honest, 2, 0);
        leave_all(&mut sim, &honest, 2, 1);
        assert_right(&mut sim, honest[3], &honest, 2, 1, liars);
    }
}

/// A malicious router's own counts stand, one each, however many it signs.
#[test]
fn malicious_author_has_one_count_only() {
    let (mut sim, honest, liars) = ring(1, 20, &[Behaviour::Replay]);
    let all: Vec<RingKey> = sim.members();
    leave_all(&mut sim, &honest, 1, 0);
    for key in all.iter().filter(|key| !honest.contains(key)) {
        for more in 0..20 {
            assert!(sim.count(*key, &name(0), LIE + more, HOUR));
        }
    }
    ok(sim.run_for(seconds(12)));
    sim.take_records();
    let found = read_all(&mut sim, honest[2], 1).remove(0);
    let lies: Vec<u64> = found
        .iter()
        .map(|(_, n)| *n)
        .filter(|n| *n >= LIE)
        .collect();
    assert_eq!(lies, vec![LIE + 19; liars]);
    assert_right(&mut sim, honest[5], &honest, 1, 0, liars);
}

/// A count is forgotten at the time that its author has signed, and taken from its author only.
#[test]
fn counts_end_and_are_bounded() {
    let (mut sim, honest, _) = ring(2, 20, &[Behaviour::Replay]);
    assert!(
        !sim.count(honest[0], &name(0), 1, 27 * HOUR),
        "for too long"
    );
    for key in &honest {
        assert!(sim.count(*key, &name(0), 5, 300));
    }
    ok(sim.run_for(seconds(12)));
    assert!(
        honest
            .iter()
            .any(|key| sim.chord(key).unwrap().counts_kept() > 0)
    );
    sim.take_records();
    assert!(!read_all(&mut sim, honest[1], 1)[0].is_empty());
    ok(sim.run_for(seconds(400)));
    assert!(read_all(&mut sim, honest[1], 1)[0].is_empty());
    let kept = honest
        .iter()
        .map(|key| sim.chord(key).unwrap().counts_kept());
    assert_eq!(kept.max(), Some(0));
    const { assert!(MAX_COUNTS > MAX_TALLY_AUTHORS) };
}
