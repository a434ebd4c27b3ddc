//! What scenarios have in common: forming a ring, crashing members safely, asking everybody.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use ringway_overlay::invariant;
use ringway_overlay::{Membership, RingKey};

use crate::report::{Failure, LookupResult};
use crate::ring::RingSim;

/// How the members of a new ring arrive.
#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// One after the other, so far apart.
    Every(Duration),
    /// All at the same moment.
    AtOnce,
}

/// Starts a ring of `count` machines: the first founds it, the others join through the first. Gives
/// their keys in order of arrival. Ends when the last has been started, not when it has joined.
///
/// # Errors
///
/// When a step fails.
pub fn arrive(sim: &mut RingSim, count: usize, arrival: Arrival) -> Result<Vec<RingKey>, Failure> {
    let keys: Vec<RingKey> = (0..count).map(|_| sim.add()).collect();
    let Some((first, rest)) = keys.split_first() else {
        return Ok(keys);
    };
    sim.start(*first);
    for key in rest {
        sim.join(*key, &[*first]);
        if let Arrival::Every(pause) = arrival {
            sim.run_for(pause)?;
        }
    }
    Ok(keys)
}

/// Whether the ring is at rest: `count` members, each with exact successors and predecessor.
///
/// # Errors
///
/// Says what is not as it should be.
pub fn at_rest(sim: &RingSim, count: usize) -> Result<(), String> {
    let live = sim.snapshots();
    let members = live
        .iter()
        .filter(|s| s.state == Membership::Member)
        .count();
    if members != count {
        return Err(format!("{members} members of {count}"));
    }
    invariant::check_ideal(&live, sim.r()).map_err(|violation| violation.to_string())
}

/// Forms a ring of `count` members and waits until it is at rest, at most `limit`. Gives the keys
/// and the time it took after the last arrival.
///
/// # Errors
///
/// When a step fails, or the ring does not come to rest.
pub fn form(
    sim: &mut RingSim,
    count: usize,
    arrival: Arrival,
    limit: Duration,
) -> Result<(Vec<RingKey>, Duration), Failure> {
    let keys = arrive(sim, count, arrival)?;
    let time = sim.run_until(limit, |sim| at_rest(sim, count))?;
    Ok((keys, time))
}

/// Whether `victims` may crash at this moment. These are the preconditions of Zave's proof:
/// afterwards every member still has a live successor (also if it takes an answer that is under
/// way), and r + 1 principals are left; in a ring that is still forming, one.
#[must_use]
pub fn may_crash(sim: &RingSim, victims: &[RingKey]) -> bool {
    let mut live = sim.snapshots();
    live.retain(|snapshot| !victims.contains(&snapshot.key));
    let needed = if sim.formed() { sim.r() + 1 } else { 1 };
    let lives = |key: &RingKey| {
        live.iter()
            .any(|s| s.key == *key && s.state == Membership::Member)
    };
    let keeps = |list: &[RingKey]| list.is_empty() || list.iter().any(&lives);
    let members = || {
        live.iter()
            .filter(|snapshot| snapshot.state == Membership::Member)
    };
    let joining = |key: &RingKey| {
        live.iter()
            .any(|s| s.key == *key && s.state == Membership::Joining)
    };
    // A member takes the answering one and its list, a joining one the list alone.
    let under_way = sim.states_under_way().into_iter().all(|(from, to, list)| {
        let head = (!joining(&to)).then_some(from);
        let taken: Vec<RingKey> = head.into_iter().chain(list).take(sim.r()).collect();
        keeps(&taken)
    });
    under_way
        && members().all(|snapshot| keeps(&snapshot.successors))
        && invariant::principals(&live).len() >= needed
}

/// Chooses `count` random members that may crash together, in at most `tries` draws.
#[must_use]
pub fn choose_victims(
    sim: &RingSim,
    rng: &mut StdRng,
    count: usize,
    tries: usize,
) -> Option<Vec<RingKey>> {
    let mut members = sim.members();
    for _ in 0..tries {
        members.shuffle(rng);
        let victims: Vec<RingKey> = members.iter().take(count).copied().collect();
        if victims.len() == count && may_crash(sim, &victims) {
            return Some(victims);
        }
    }
    None
}

/// Has every member look up each of `targets`, waits for all results, and checks each against the
/// true owner.
///
/// # Errors
///
/// When a step or a lookup fails, or an owner is wrong.
pub fn ask_everybody(
    sim: &mut RingSim,
    targets: &[RingKey],
    limit: Duration,
) -> Result<Vec<LookupResult>, Failure> {
    sim.take_results();
    for from in sim.members() {
        for target in targets {
            if !sim.lookup(from, *target) {
                return Err(sim.failure(format!("{from:?} refuses to look up {target:?}")));
            }
        }
    }
    sim.run_until(limit, |sim| match sim.lookups_running() {
        0 => Ok(()),
        running => Err(format!("{running} lookups still run")),
    })?;
    let results = sim.take_results();
    let live = sim.snapshots();
    for result in &results {
        if result.owner.ok() != invariant::owner(&live, &result.target) {
            return Err(sim.failure(format!("a lookup went wrong: {result:?}")));
        }
    }
    Ok(results)
}

/// Random joins, crashes and restarts: `events` of them, 0.2 to 3 s apart. A member crashes only
/// when [`may_crash`] allows it. Gives the number of machines that run at the end.
///
/// # Errors
///
/// When a step fails.
pub fn churn(sim: &mut RingSim, rng: &mut StdRng, events: usize) -> Result<usize, Failure> {
    let mut down: Vec<RingKey> = Vec::new();
    let mut running = sim.snapshots().len();
    for _ in 0..events {
        let members = sim.members();
        // As from the ring's zone in DNS. What a machine persisted may name the dead only.
        let bootstraps: Vec<RingKey> = members.sample(rng, 3).copied().collect();
        match rng.random_range(0..3) {
            0 => {
                let key = sim.add();
                sim.join(key, &bootstraps);
                running += 1;
            }
            1 if !down.is_empty() => {
                let key = down.swap_remove(rng.random_range(0..down.len()));
                sim.restart_with(key, &bootstraps);
                running += 1;
            }
            _ => {
                let victim = members
                    .choose(rng)
                    .copied()
                    .filter(|key| may_crash(sim, &[*key]));
                if let Some(victim) = victim {
                    sim.crash(victim);
                    down.push(victim);
                    running -= 1;
                }
            }
        }
        sim.run_for(Duration::from_millis(rng.random_range(200..3_000)))?;
    }
    Ok(running)
}

/// Starts `count` machines at the same moment, as after a power cut: the first founds the ring,
/// each other has been told of `told` random ones, and founds a ring of its own when none answers.
/// Gives their keys.
pub fn start_all(sim: &mut RingSim, rng: &mut StdRng, count: usize, told: usize) -> Vec<RingKey> {
    let keys: Vec<RingKey> = (0..count).map(|_| sim.add()).collect();
    for (n, key) in keys.iter().enumerate() {
        let others: Vec<RingKey> = keys.sample(rng, told).copied().collect();
        if n == 0 {
            sim.start(*key);
        } else {
            sim.restart_with(*key, &others);
        }
    }
    keys
}
