//! Rings that form while some of those who join are traitors from their first moment on.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use ringway_overlay::{RingKey, between};

use super::churn::People;
use super::{Attack, Outcome, measure, part, rest, ring, traitor};
use crate::report::Failure;
use crate::ring::RingSim;
use crate::seed::spread;

/// How a ring forms.
#[derive(Clone, Debug)]
pub struct Forming {
    /// The ring that is to be, and what is looked up in it. Its `before` begins when the ring has
    /// settled.
    pub attack: Attack,
    /// Routers that come at the same moment.
    pub burst: usize,
    /// Time between two such moments.
    pub pause: Duration,
    /// Of those who run already, honest or not, so many random ones are who a newcomer has been
    /// told of, as by the ring's zone in DNS.
    pub told: usize,
    /// How long the ring may take to settle after the last has come.
    pub patience: Duration,
}

impl Forming {
    /// One router every 200 ms, each told of five.
    #[must_use]
    pub fn new(attack: Attack) -> Forming {
        Forming {
            attack,
            burst: 1,
            pause: Duration::from_millis(200),
            told: 5,
            patience: Duration::from_secs(300),
        }
    }
}

/// How a ring has formed, and what lookups found in it.
#[derive(Clone, Debug, Default)]
pub struct Formed {
    /// Honest routers.
    pub honest: usize,
    /// Time that each of them took to join, in order. Who did not is missing.
    pub joined_after: Vec<Duration>,
    /// Time after the last had come until no honest member's first successor hid another honest
    /// one; none if that did not come about.
    pub settled_after: Option<Duration>,
    /// Honest members of whom that was so at the end of that time.
    pub placed: usize,
    /// Lookups in the ring that has formed.
    pub outcome: Outcome,
}

/// Forms a ring and looks up points in it.
///
/// # Errors
///
/// When a step fails: what is asserted of honest members did not hold.
pub fn forming(forming: &Forming) -> Result<Formed, Failure> {
    let attack = &forming.attack;
    let mut rng = StdRng::from_seed(spread(attack.seed, u64::MAX));
    let mut sim = ring(attack);
    let (people, arrived) = arrive(forming, &mut sim, &mut rng)?;
    let began = sim.now();
    let mut formed = Formed {
        honest: people.honest.len(),
        ..Formed::default()
    };
    while formed.settled_after.is_none() && sim.now() - began < forming.patience {
        sim.run_for(Duration::from_millis(500))?;
        if placed(&sim) == people.honest.len() {
            formed.settled_after = Some(sim.now() - began);
        }
    }
    formed.placed = placed(&sim);
    let took = |(key, at): &(RingKey, Duration)| Some(*sim.joined().get(key)? - *at);
    formed.joined_after = arrived.iter().filter_map(took).collect();
    formed.joined_after.sort_unstable();
    formed.outcome = rest(attack, &mut sim)?;
    measure(attack, &mut sim, people, &mut rng, &mut formed.outcome)?;
    Ok(formed)
}

type Arrived = (People, Vec<(RingKey, Duration)>);

/// All come. Gives who they are, and when each honest one came. The founder is honest: it is the
/// ring owner's own.
fn arrive(forming: &Forming, sim: &mut RingSim, rng: &mut StdRng) -> Result<Arrived, Failure> {
    let attack = &forming.attack;
    let others = attack.members.saturating_sub(1);
    let traitors = part(attack.traitors, attack.members);
    let mut roles: Vec<Option<usize>> = (0..others).map(|n| (n < traitors).then_some(n)).collect();
    roles.shuffle(rng);
    let founder = sim.add();
    sim.start(founder);
    let mut running = vec![founder];
    let (mut people, mut arrived) = (People::default(), Vec::new());
    people.honest.push(founder);
    for burst in roles.chunks(forming.burst.max(1)) {
        let mut came = Vec::new();
        for role in burst {
            let key = sim.add();
            match role {
                Some(n) => {
                    sim.recruit(key, traitor(attack, *n));
                    people.traitors.push(key);
                }
                None => {
                    people.honest.push(key);
                    arrived.push((key, sim.now()));
                }
            }
            let told: Vec<RingKey> = running.sample(rng, forming.told).copied().collect();
            sim.join(key, &told);
            came.push(key);
        }
        running.extend(came);
        sim.run_for(forming.pause.mul_f64(rng.random_range(0.5..1.5)))?;
    }
    Ok((people, arrived))
}

/// How many honest members have a first successor that hides no honest member: between the two
/// stands none.
#[must_use]
pub fn placed(sim: &RingSim) -> usize {
    let honest = |key: &RingKey| sim.behaviour(key).is_none();
    let members: Vec<RingKey> = sim.members().into_iter().filter(honest).collect();
    let next = members.iter().cycle().skip(1);
    let right = members.iter().zip(next).filter(|(key, next)| {
        let head = sim.chord(key).and_then(|chord| chord.successors().first());
        head.is_some_and(|head| head == *next || between(key, head, next))
    });
    right.count()
}
