//! Lookups in a ring with traitors in it: how many find the owner, and what they cost.

mod audit;
mod churn;
mod divided;
mod forming;
mod routing;

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use ringway_overlay::{Config, Membership, RingKey, Rule};

pub use audit::{Convictions, furtive};
pub use divided::{Divided, Reunion, divided};
pub use forming::{Formed, Forming, forming, placed};
pub use routing::{Deliveries, Receivers, deliveries};

use self::churn::{Churn, People};
use crate::adversary::Behaviour;
use crate::network::Link;
use crate::report::{Check, Failure, LookupResult, RingConfig};
use crate::ring::RingSim;
use crate::seed::spread;

/// One ring under attack.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The run's seed.
    pub seed: u64,
    /// Members of the ring.
    pub members: usize,
    /// The share of them that are traitors, 0 to 1.
    pub traitors: f64,
    /// What the traitors do; none for all of `mixture`.
    pub behaviour: Option<Behaviour>,
    /// What they do where they do not all do the same: evenly mixed, above 1 000 members without
    /// those that are convicted at once.
    pub mixture: &'static [Behaviour],
    /// How honest members look things up.
    pub rule: Rule,
    /// Lookups of honest members, for random points.
    pub lookups: usize,
    /// Share of the members that crash, and of those that join, in an hour: honest ones and
    /// traitors alike. Few do in seconds: [`until_changes`](Self::until_changes).
    pub churn: f64,
    /// Share of the messages that are lost.
    pub loss: f64,
    /// Virtual time before the first lookup.
    pub before: Duration,
    /// Virtual time over which the lookups begin.
    pub over: Duration,
    /// The settings of every member.
    pub overlay: Config,
}

impl Attack {
    /// A ring of `members` of which `traitors` are, with `lookups` verified lookups over 20
    /// seconds, without churn and loss.
    #[must_use]
    pub fn new(seed: u64, members: usize, traitors: f64, lookups: usize) -> Attack {
        Attack {
            seed,
            members,
            traitors,
            behaviour: None,
            mixture: &Behaviour::ALL,
            rule: Rule::Verified,
            lookups,
            churn: 0.0,
            loss: 0.0,
            before: Duration::from_secs(10),
            over: Duration::from_secs(20),
            overlay: Config::default(),
        }
    }
}

/// In larger rings the mixture leaves out those who are convicted within seconds: a proof against
/// each of thousands goes to everybody, which takes hours to simulate and only helps the honest.
const MANY: usize = 1_000;

/// For how long a statement of the ring's owner may travel.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the lookups of an [`Attack`] ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All of them.
    pub lookups: usize,
    /// Found the owner.
    pub right: usize,
    /// Of these, as verified.
    pub verified: usize,
    /// Found another member, and said that it was not verified.
    pub flagged: usize,
    /// Found another member, and said that it was verified.
    pub wrong: usize,
    /// Found no member.
    pub failed: usize,
    /// The first twenty that did not find the owner, with who would have been right.
    pub mistakes: Vec<(LookupResult, Vec<RingKey>)>,
    /// Messages of each lookup, in order: two for each question.
    pub messages: Vec<u32>,
    /// Members that answered on the way to the group of the target, on average.
    pub steps: f64,
    /// Virtual time of each lookup, in order.
    pub elapsed: Vec<Duration>,
    /// Traitors that were convicted.
    pub convicted: usize,
    /// Honest members that were convicted. Must be none.
    pub innocent: usize,
    /// Messages per member and second, before the lookups.
    pub idle_rate: f64,
    /// Bytes of these messages per member and second, without what links and networks add to each.
    pub idle_bytes: f64,
    /// Virtual time from the start of the ring until each convicted traitor was convicted by
    /// somebody, in order.
    pub convicted_after: Vec<Duration>,
    /// Virtual time after which each honest member but one had heard what that one learned from
    /// the ring's owner, in order.
    pub told: Vec<Duration>,
    /// How many were to hear it.
    pub to_tell: usize,
    /// Members that came or went while points were looked up.
    pub changes: usize,
}

impl Outcome {
    /// The share of lookups that found the owner.
    #[must_use]
    pub fn success(&self) -> f64 {
        share(self.right, self.lookups)
    }

    /// The share of lookups that found the owner and said that it was not verified.
    #[must_use]
    pub fn found_in_doubt(&self) -> f64 {
        share(self.right.saturating_sub(self.verified), self.lookups)
    }

    /// The share of lookups that gave a wrong owner as verified.
    #[must_use]
    pub fn accepted_wrong(&self) -> f64 {
        share(self.wrong, self.lookups)
    }

    /// The mean number of messages.
    #[must_use]
    pub fn mean_messages(&self) -> f64 {
        let sum: f64 = self.messages.iter().copied().map(f64::from).sum();
        sum / whole(self.messages.len().max(1))
    }

    /// The number of messages that one lookup in a hundred exceeds.
    #[must_use]
    pub fn p99_messages(&self) -> u32 {
        let at = self.messages.len().saturating_mul(99) / 100;
        self.messages.get(at).copied().unwrap_or(0)
    }

    /// The time after which 99 of 100 honest members had heard what the ring's owner states; none
    /// if they had not.
    #[must_use]
    pub fn told_99(&self) -> Option<Duration> {
        let at = self.to_tell.saturating_mul(99).div_ceil(100);
        self.told.get(at.checked_sub(1)?).copied()
    }

    /// The time that half of the lookups take longer than.
    #[must_use]
    pub fn median_time(&self) -> Duration {
        let at = self.elapsed.len() / 2;
        self.elapsed.get(at).copied().unwrap_or_default()
    }
}

fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn share(part: usize, of: usize) -> f64 {
    whole(part) / whole(of.max(1))
}

/// `share` of `count`, rounded.
fn part(share: f64, count: usize) -> usize {
    let wanted = share * whole(count);
    (0..count).take_while(|n| whole(*n) + 0.5 < wanted).count()
}

/// Forms the ring, lets it rest, and looks up random points from random honest members.
///
/// # Errors
///
/// When the run does not get on.
pub fn run(attack: &Attack) -> Result<Outcome, Failure> {
    let mut rng = StdRng::from_seed(spread(attack.seed, u64::MAX));
    let (mut sim, people) = form(attack, &mut rng);
    let mut outcome = rest(attack, &mut sim)?;
    measure(attack, &mut sim, people, &mut rng, &mut outcome)?;
    Ok(outcome)
}

/// Looks up random points from random honest members while members come and go, and judges what
/// came of it.
fn measure(
    attack: &Attack,
    sim: &mut RingSim,
    mut people: People,
    rng: &mut StdRng,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let pause = attack.over / u32::try_from(attack.lookups.max(1)).unwrap_or(u32::MAX);
    let mut churn = Churn::new(attack);
    // Who owned a target when its lookup began: members come and go while it runs.
    let mut before: BTreeMap<RingKey, Vec<RingKey>> = BTreeMap::new();
    for _ in 0..attack.lookups {
        let target = RingKey::from_bytes(rng.random());
        let begun = somebody(sim, &people.honest, rng).is_some_and(|from| sim.lookup(from, target));
        if begun {
            before.insert(target, sim.owners(&target));
        } else {
            outcome.lookups += 1;
            outcome.failed += 1;
        }
        churn.pass(sim, &mut people, rng, pause)?;
        take_in(sim, &before, outcome);
    }
    sim.run_for(Duration::from_secs(12))?;
    take_in(sim, &before, outcome);
    outcome.changes = churn.changes;
    if attack.rule == Rule::Verified {
        outcome.told = tell(sim, &people.honest, rng, PATIENCE)?;
        outcome.to_tell = people.honest.len().saturating_sub(1);
    }
    outcome.steps /= whole(outcome.lookups.max(1));
    outcome.messages.sort_unstable();
    outcome.elapsed.sort_unstable();
    let convicted = sim.convicted().keys();
    let (innocent, guilty): (Vec<RingKey>, Vec<RingKey>) =
        convicted.partition(|key| sim.behaviour(key).is_none());
    outcome.convicted = guilty.len();
    outcome.innocent = innocent.len();
    let times = guilty.iter().filter_map(|key| sim.convicted().get(key));
    outcome.convicted_after = times.copied().collect();
    outcome.convicted_after.sort_unstable();
    Ok(())
}

/// Has one honest member learn of a statement of the ring's owner, and gives the virtual time after
/// which each other honest member has heard of it, in order; those who have not within `patience`
/// are missing.
///
/// # Errors
/// When the run does not get on.
pub fn news(attack: &Attack, patience: Duration) -> Result<(Vec<Duration>, usize), Failure> {
    let mut rng = StdRng::from_seed(spread(attack.seed, u64::MAX));
    let (mut sim, People { honest, .. }) = form(attack, &mut rng);
    sim.run_for(attack.before)?;
    let times = tell(&mut sim, &honest, &mut rng, patience)?;
    Ok((times, honest.len().saturating_sub(1)))
}

fn tell(
    sim: &mut RingSim,
    honest: &[RingKey],
    rng: &mut StdRng,
    patience: Duration,
) -> Result<Vec<Duration>, Failure> {
    let Some(first) = somebody(sim, honest, rng) else {
        return Ok(Vec::new());
    };
    let began = sim.now();
    sim.state(first, 1);
    sim.run_for(patience)?;
    let others = honest.iter().filter(|key| **key != first);
    let heard = others.filter_map(|key| sim.heard().get(key));
    let mut times: Vec<Duration> = heard.map(|at| at.saturating_sub(began)).collect();
    times.sort_unstable();
    Ok(times)
}

/// A ring without members, in which is asserted what traitors cannot change.
fn ring(attack: &Attack) -> RingSim {
    let mut overlay = attack.overlay.clone();
    overlay.lookups = attack.rule;
    let config = RingConfig {
        overlay,
        link: Link {
            loss: attack.loss,
            ..Link::default()
        },
        check: Check::Honest,
        credentials: true,
    };
    RingSim::new(attack.seed, config)
}

/// What the traitor number `n` does.
fn traitor(attack: &Attack, n: usize) -> Behaviour {
    if let Some(behaviour) = attack.behaviour {
        return behaviour;
    }
    let few = attack.members <= MANY;
    let mixed = attack.mixture.iter().filter(|kind| few || !kind.shows());
    mixed.cycle().nth(n).copied().unwrap_or(Behaviour::Silent)
}

/// The ring with its traitors.
fn form(attack: &Attack, rng: &mut StdRng) -> (RingSim, People) {
    let mut sim = ring(attack);
    let mut keys: Vec<RingKey> = (0..attack.members).map(|_| sim.add()).collect();
    keys.shuffle(rng);
    let traitors = part(attack.traitors, attack.members);
    for (n, key) in keys.iter().take(traitors).enumerate() {
        sim.recruit(*key, traitor(attack, n));
    }
    let honest = keys.split_off(traitors);
    sim.settle();
    let traitors = keys;
    (sim, People { honest, traitors })
}

/// Lets time pass before the lookups, and counts the messages and the bytes per member and second
/// in the second half of it.
fn rest(attack: &Attack, sim: &mut RingSim) -> Result<Outcome, Failure> {
    sim.run_for(attack.before / 2)?;
    let (messages, bytes) = (sim.messages(), sim.bytes());
    sim.run_for(attack.before / 2)?;
    let per_member = |count: u64| {
        let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        count / whole(attack.members) / (attack.before / 2).as_secs_f64()
    };
    Ok(Outcome {
        idle_rate: per_member(sim.messages() - messages),
        idle_bytes: per_member(sim.bytes() - bytes),
        ..Outcome::default()
    })
}

/// An honest member that is in the ring.
fn somebody(sim: &RingSim, honest: &[RingKey], rng: &mut StdRng) -> Option<RingKey> {
    let in_ring = |key: &RingKey| {
        let chord = sim.chord(key);
        chord.is_some_and(|chord| chord.state() == Membership::Member)
    };
    // Few are on their way into the ring, so a few draws are enough.
    let draws = (0..100).filter_map(|_| honest.choose(rng).copied());
    draws.into_iter().find(in_ring)
}

fn take_in(sim: &mut RingSim, before: &BTreeMap<RingKey, Vec<RingKey>>, outcome: &mut Outcome) {
    for result in sim.take_results() {
        outcome.lookups += 1;
        let mut right = sim.owners(&result.target);
        right.extend(before.get(&result.target).into_iter().flatten());
        outcome.messages.push(result.questions.saturating_mul(2));
        outcome.steps += whole(result.hops.len());
        outcome.elapsed.push(result.elapsed);
        match result.owner {
            Ok(owner) if right.contains(&owner) => {
                outcome.right += 1;
                outcome.verified += usize::from(result.verified);
                continue;
            }
            Ok(_) if result.verified => outcome.wrong += 1,
            Ok(_) => outcome.flagged += 1,
            Err(_) => outcome.failed += 1,
        }
        if outcome.mistakes.len() < 20 {
            outcome.mistakes.push((result, right));
        }
    }
}
