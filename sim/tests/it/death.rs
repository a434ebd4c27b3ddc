//! Members crash, come back, and leave.

use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_overlay::Membership;
use ringway_sim::scenario::{ask_everybody, at_rest, choose_victims, may_crash};
use ringway_sim::seeds;

use crate::{certified_ring_at_rest, ok, ring_at_rest, seconds};

#[test]
fn five_heal_after_one_of_them_dies() {
    for seed in seeds(20) {
        let (mut sim, keys) = ring_at_rest(seed, 5);
        let victim = keys[usize::try_from(seed % 5).unwrap()];
        assert!(may_crash(&sim, &[victim]));
        sim.crash(victim);
        ok(sim.run_until(seconds(8), |sim| at_rest(sim, 4)));
    }
}

#[test]
fn sixty_four_heal_after_one_then_eight_die() {
    for seed in seeds(3) {
        let (mut sim, _) = ring_at_rest(seed, 64);
        let mut rng = StdRng::seed_from_u64(seed);
        let mut left = 64;
        for count in [1, 8] {
            let victims = choose_victims(&sim, &mut rng, count, 1_000).expect("eight may crash");
            victims.iter().for_each(|key| sim.crash(*key));
            left -= count;
            ok(sim.run_until(seconds(15), |sim| at_rest(sim, left)));
        }
    }
}

#[test]
fn r_less_one_neighbours_may_die_together() {
    for seed in seeds(5) {
        let (mut sim, _) = ring_at_rest(seed, 16);
        let victims: Vec<_> = sim
            .members()
            .into_iter()
            .skip(4)
            .take(sim.r() - 1)
            .collect();
        assert!(may_crash(&sim, &victims));
        victims.iter().for_each(|key| sim.crash(*key));
        ok(sim.run_until(seconds(15), |sim| at_rest(sim, 14)));
    }
}

/// Neighbours die together, others leave; all come back.
#[test]
fn certified_members_die_and_return_without_convictions() {
    for seed in seeds(5) {
        let (mut sim, _) = certified_ring_at_rest(seed, 16);
        let members = sim.members();
        let neighbours = &members[4..4 + sim.r() - 1];
        assert!(may_crash(&sim, neighbours));
        neighbours.iter().for_each(|key| sim.crash(*key));
        ok(sim.run_until(seconds(15), |sim| at_rest(sim, 14)));
        neighbours.iter().for_each(|key| sim.restart(*key));
        ok(sim.run_until(seconds(15), |sim| at_rest(sim, 16)));
        for key in [members[0], members[9]] {
            // It says so, and answers nothing any more.
            assert!(sim.leave(key));
            sim.crash(key);
            ok(sim.run_until(seconds(5), |sim| at_rest(sim, 15)));
            sim.restart(key);
            ok(sim.run_until(seconds(15), |sim| at_rest(sim, 16)));
        }
        ok(ask_everybody(&mut sim, &members[..2], seconds(10)));
        assert!(sim.convicted().is_empty(), "seed {seed}: all are honest");
    }
}

#[test]
fn r_neighbours_may_not_die_together() {
    let (sim, _) = ring_at_rest(1, 16);
    let victims: Vec<_> = sim.members().into_iter().skip(4).take(sim.r()).collect();
    assert!(!may_crash(&sim, &victims));
}

#[test]
fn lookups_succeed_at_once_after_a_death() {
    for seed in seeds(5) {
        let (mut sim, _) = ring_at_rest(seed, 16);
        ok(sim.run_for(seconds(10)));
        let victim = sim.members()[3];
        let targets = [victim, sim.members()[9]];
        sim.crash(victim);
        let results = ok(ask_everybody(&mut sim, &targets, seconds(10)));
        assert_eq!(results.len(), 30);
    }
}

#[test]
fn a_member_restarted_at_once_regains_its_place() {
    for seed in seeds(20) {
        let (mut sim, keys) = ring_at_rest(seed, 5);
        let victim = keys[usize::try_from(seed % 5).unwrap()];
        sim.crash(victim);
        sim.restart(victim);
        ok(sim.run_until(seconds(2), |sim| at_rest(sim, 5)));
    }
}

#[test]
fn a_member_restarted_after_healing_joins_within_seconds() {
    for seed in seeds(10) {
        let (mut sim, keys) = ring_at_rest(seed, 5);
        sim.crash(keys[2]);
        ok(sim.run_until(seconds(8), |sim| at_rest(sim, 4)));
        sim.restart(keys[2]);
        ok(sim.run_until(seconds(5), |sim| at_rest(sim, 5)));
    }
}

#[test]
fn one_of_two_dies_and_comes_back() {
    for seed in seeds(10) {
        let (mut sim, keys) = ring_at_rest(seed, 2);
        sim.set_check(ringway_sim::Check::Nothing);
        sim.crash(keys[0]);
        ok(sim.run_until(seconds(8), |sim| at_rest(sim, 1)));
        sim.restart(keys[0]);
        ok(sim.run_until(seconds(5), |sim| at_rest(sim, 2)));
    }
}

#[test]
fn a_member_may_leave_only_large_rings() {
    for seed in seeds(5) {
        let (mut sim, keys) = ring_at_rest(seed, 6);
        assert!(sim.leave(keys[1]));
        ok(sim.run_until(seconds(3), |sim| at_rest(sim, 5)));
        assert!(sim.leave(keys[2]));
        ok(sim.run_until(seconds(3), |sim| at_rest(sim, 4)));
        assert!(
            !sim.leave(keys[3]),
            "seed {seed}: three would be left, and r + 1 is 4"
        );
        let chord = sim.chord(&keys[2]).expect("it runs");
        assert_eq!(chord.state(), Membership::Outside);
    }
}
