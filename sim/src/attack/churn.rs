//! Members that come and go while a ring is looked at: honest ones, traitors, and ones that have
//! been there before.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};
use ringway_overlay::RingKey;

use super::{Attack, traitor, whole};
use crate::report::Failure;
use crate::ring::RingSim;

/// Of those who run already, so many random honest ones are who a newcomer has been told of, as by
/// the ring's zone in DNS.
const TOLD: usize = 5;

/// Who is in a ring.
#[derive(Clone, Debug, Default)]
pub(super) struct People {
    pub(super) honest: Vec<RingKey>,
    pub(super) traitors: Vec<RingKey>,
}

/// Time that passes while members come and go, evenly: as many as crash in an hour come in it.
#[derive(Debug)]
pub(super) struct Churn<'a> {
    attack: &'a Attack,
    /// Time between two events.
    every: Option<Duration>,
    /// Until the next one.
    next: Duration,
    /// Honest members that have crashed.
    down: Vec<RingKey>,
    /// How many came or went.
    pub(super) changes: usize,
}

impl Attack {
    /// Members that come or go in a second, on average.
    fn changes_a_second(&self) -> f64 {
        2.0 * self.churn * whole(self.members) / 3_600.0
    }

    /// The same with its lookups over as long as it takes until so many members have come or gone,
    /// if that is longer.
    #[must_use]
    pub fn until_changes(mut self, changes: u32) -> Attack {
        let takes = f64::from(changes) / self.changes_a_second();
        if let Ok(takes) = Duration::try_from_secs_f64(takes) {
            self.over = self.over.max(takes);
        }
        self
    }
}

impl<'a> Churn<'a> {
    pub(super) fn new(attack: &'a Attack) -> Churn<'a> {
        // No member comes or goes: it would take for ever.
        let every = Duration::try_from_secs_f64(1.0 / attack.changes_a_second()).ok();
        Churn {
            attack,
            every,
            next: every.unwrap_or_default(),
            down: Vec::new(),
            changes: 0,
        }
    }

    /// Lets time pass.
    pub(super) fn pass(
        &mut self,
        sim: &mut RingSim,
        people: &mut People,
        rng: &mut StdRng,
        mut time: Duration,
    ) -> Result<(), Failure> {
        while let Some(every) = self.every.filter(|_| self.next <= time) {
            sim.run_for(self.next)?;
            time -= self.next;
            self.next = every;
            self.change(sim, people, rng);
        }
        self.next = self.next.saturating_sub(time);
        sim.run_for(time)
    }

    /// One crashes, or one comes. Traitors do both as often as there are many of them.
    fn change(&mut self, sim: &mut RingSim, people: &mut People, rng: &mut StdRng) {
        self.changes += 1;
        let of_traitors = rng.random_bool(self.attack.traitors.clamp(0.0, 1.0));
        let party = match of_traitors {
            true => &mut people.traitors,
            false => &mut people.honest,
        };
        if rng.random_bool(0.5) && party.len() > 2 {
            let victim = party.swap_remove(rng.random_range(0..party.len()));
            sim.crash(victim);
            if !of_traitors {
                self.down.push(victim);
            }
            return;
        }
        let told: Vec<RingKey> = people.honest.sample(rng, TOLD).copied().collect();
        if of_traitors {
            let key = sim.add();
            sim.recruit(key, traitor(self.attack, self.changes));
            sim.join(key, &told);
            people.traitors.push(key);
        } else {
            people.honest.push(self.come(sim, rng, &told));
        }
    }

    /// An honest one comes: every second one that may has been there before.
    fn come(&mut self, sim: &mut RingSim, rng: &mut impl Rng, told: &[RingKey]) -> RingKey {
        if !self.down.is_empty() && rng.random_bool(0.5) {
            let key = self.down.swap_remove(rng.random_range(0..self.down.len()));
            sim.restart_with(key, told);
            return key;
        }
        let key = sim.add();
        sim.join(key, told);
        key
    }
}
