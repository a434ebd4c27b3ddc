//! Rings whose network is divided so that one side has more than its share of traitors, and is made
//! whole again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use ringway_overlay::RingKey;

use super::churn::People;
use super::{Attack, Outcome, measure, part, placed, ring, traitor};
use crate::report::Failure;
use crate::ring::RingSim;
use crate::seed::spread;

/// A ring, and how its network is divided.
#[derive(Clone, Debug)]
pub struct Divided {
    /// The ring as a whole; its `traitors` is the share of the larger side. Its lookups begin when
    /// the ring is one again.
    pub attack: Attack,
    /// Members of the smaller side.
    pub small: usize,
    /// The share of them that are traitors.
    pub traitors: f64,
    /// For how long the network is divided.
    pub lasts: Duration,
    /// For how long it may take after that until the ring is one again.
    pub patience: Duration,
    /// Time between that and the lookups.
    pub settles: Duration,
}

/// What became of a divided ring.
#[derive(Clone, Debug, Default)]
pub struct Reunion {
    /// Honest members, and those of them on the smaller side.
    pub honest: usize,
    /// Of the honest of the smaller side.
    pub cut_off: usize,
    /// Honest members whose first successor hid no honest one, at the end of the division.
    pub placed_before: usize,
    /// The same at the end.
    pub placed: usize,
    /// Time after the network was whole until that was all of them; none if it did not come about.
    pub after: Option<Duration>,
    /// Honest members that know traitors only around them, though an honest one stands there.
    pub eclipsed: usize,
    /// Lookups of honest members after that.
    pub outcome: Outcome,
}

/// Divides a ring at rest, lets the division stand, makes the network whole, and sees what becomes
/// of the ring.
///
/// # Errors
///
/// When the run does not get on.
pub fn divided(divided: &Divided) -> Result<Reunion, Failure> {
    let attack = &divided.attack;
    let mut rng = StdRng::from_seed(spread(attack.seed, u64::MAX));
    let mut sim = ring(attack);
    let mut keys: Vec<RingKey> = (0..attack.members).map(|_| sim.add()).collect();
    keys.shuffle(&mut rng);
    let (small, large) = keys.split_at(divided.small.min(keys.len()));
    let of_small = small.iter().take(part(divided.traitors, small.len()));
    let of_large = large.iter().take(part(attack.traitors, large.len()));
    let traitors: BTreeSet<RingKey> = of_small.chain(of_large).copied().collect();
    for (n, key) in traitors.iter().enumerate() {
        sim.recruit(*key, traitor(attack, n));
    }
    let is_honest = |key: &&RingKey| !traitors.contains(*key);
    let honest: Vec<RingKey> = keys.iter().filter(is_honest).copied().collect();
    sim.settle();
    sim.run_for(attack.before)?;
    sim.divide(small.iter().map(|key| (*key, 1)).collect());
    sim.run_for(divided.lasts)?;
    let mut reunion = Reunion {
        honest: honest.len(),
        cut_off: small.iter().filter(is_honest).count(),
        placed_before: placed(&sim),
        ..Reunion::default()
    };
    sim.divide(BTreeMap::new());
    let began = sim.now();
    while reunion.after.is_none() && sim.now() - began < divided.patience {
        sim.run_for(Duration::from_secs(1))?;
        if placed(&sim) == honest.len() {
            reunion.after = Some(sim.now() - began);
        }
    }
    // Fingers are a matter of some rounds after pointers.
    sim.run_for(divided.settles)?;
    reunion.placed = placed(&sim);
    reunion.eclipsed = honest.iter().filter(|key| eclipsed(&sim, key)).count();
    let traitors = traitors.into_iter().collect();
    let people = People { honest, traitors };
    measure(attack, &mut sim, people, &mut rng, &mut reunion.outcome)?;
    Ok(reunion)
}

/// Whether all that `key` knows around it are traitors, though there is an honest member within its
/// true group.
fn eclipsed(sim: &RingSim, key: &RingKey) -> bool {
    let members = sim.members();
    let place = members.partition_point(|member| member < key);
    let reach = sim.group_size() / 2;
    let around = (1..=reach).flat_map(|n| [place + n, place + members.len() - n]);
    let mut around = around.filter_map(|at| members.get(at % members.len()));
    let honest = |other: &RingKey| other != key && sim.behaviour(other).is_none();
    let group = sim
        .chord(key)
        .map(|chord| chord.group())
        .unwrap_or_default();
    around.any(honest) && !group.iter().any(honest)
}
