//! Messages through a ring with traitors in it: how many arrive, and by how many ways they had to
//! go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use ringway_overlay::{Destination, Event, RingKey, RouteId};

use super::churn::Churn;
use super::{Attack, form, share, somebody, whole};
use crate::report::Failure;
use crate::ring::RingSim;
use crate::seed::spread;

/// Time in which the last messages may arrive.
const LAST: Duration = Duration::from_secs(12);

/// How messages of honest members ended.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// All of them.
    pub sent: usize,
    /// Their sender knows that they have arrived.
    pub known: usize,
    /// Of these, as verified.
    pub verified: usize,
    /// Delivered to whom they were for.
    pub delivered: usize,
    /// Delivered to anybody else, or twice, or without having been sent.
    pub amiss: usize,
    /// How many of those that are known to have arrived took one way, two, and so on; none were to
    /// a point of the sender's own, and the fourth is the straight one.
    pub by_ways: BTreeMap<u32, usize>,
    /// Virtual time until the sender knew, in order.
    pub elapsed: Vec<Duration>,
    /// Hops of a message, on average over all ways.
    pub hops: f64,
    /// Members that came or went meanwhile.
    pub changes: usize,
}

impl Deliveries {
    /// The share of messages that were delivered.
    #[must_use]
    pub fn success(&self) -> f64 {
        share(self.delivered, self.sent)
    }

    /// The share of messages that are known to have arrived by the first way, if they needed one.
    #[must_use]
    pub fn at_once(&self) -> f64 {
        let at_once = self.by_ways.range(..2).map(|(_, count)| count);
        share(at_once.sum(), self.sent)
    }
}

/// Where messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receivers {
    /// Honest members.
    Members,
    /// Points that honest members own.
    Points,
}

/// A message. A member that starts again counts its messages from the beginning, so that its number
/// is not enough to tell it.
#[derive(Debug)]
struct UnderWay {
    from: RingKey,
    id: RouteId,
    to: Vec<RingKey>,
    body: Vec<u8>,
}

/// Sends `attack.lookups` messages through the ring.
///
/// # Errors
///
/// When a step of the simulation fails.
pub fn deliveries(attack: &Attack, receivers: Receivers) -> Result<Deliveries, Failure> {
    let mut rng = StdRng::from_seed(spread(attack.seed, u64::MAX));
    let (mut sim, mut people) = form(attack, &mut rng);
    sim.run_for(attack.before)?;
    let pause = attack.over / u32::try_from(attack.lookups.max(1)).unwrap_or(u32::MAX);
    let mut churn = Churn::new(attack);
    let mut outcome = Deliveries::default();
    let mut under_way = Vec::new();
    let before = sim.handed_on();
    for n in 0..attack.lookups {
        let receiver = receiver(&sim, &people.honest, &mut rng, receivers);
        let from = somebody(&sim, &people.honest, &mut rng);
        if let (Some((to, owners)), Some(from)) = (receiver, from)
            && from != to.key()
        {
            outcome.sent += 1;
            let body = n.to_be_bytes().to_vec();
            if let Some(id) = sim.route(from, to, &body) {
                let to = owners;
                under_way.push(UnderWay { from, id, to, body });
            }
        }
        churn.pass(&mut sim, &mut people, &mut rng, pause)?;
    }
    sim.run_for(LAST)?;
    outcome.changes = churn.changes;
    let handed_on = sim.handed_on() - before;
    outcome.hops = 1.0 + handed_on as f64 / whole(outcome.sent.max(1));
    judge(sim.take_routes(), &under_way, &mut outcome);
    outcome.elapsed.sort_unstable();
    Ok(outcome)
}

fn receiver(
    sim: &RingSim,
    honest: &[RingKey],
    rng: &mut StdRng,
    receivers: Receivers,
) -> Option<(Destination, Vec<RingKey>)> {
    match receivers {
        Receivers::Members => {
            let running = honest.iter().filter(|key| sim.chord(key).is_some());
            let running: Vec<&RingKey> = running.collect();
            let key = **running.choose(rng)?;
            Some((Destination::Member(key), vec![key]))
        }
        Receivers::Points => {
            let points = (0..100).map(|_| RingKey::from_bytes(rng.random()));
            points
                .map(|point| (Destination::Point(point), sim.owners(&point)))
                .find(|(_, owners)| owners.iter().all(|key| sim.behaviour(key).is_none()))
        }
    }
}

fn judge(events: Vec<(RingKey, Event)>, under_way: &[UnderWay], outcome: &mut Deliveries) {
    let mut arrived = BTreeSet::new();
    for (who, event) in events {
        match event {
            Event::RouteDone {
                id,
                verified,
                tries,
                elapsed,
                ..
            } if under_way.iter().any(|m| (m.from, m.id) == (who, id)) => {
                outcome.known += 1;
                outcome.verified += usize::from(verified);
                *outcome.by_ways.entry(tries).or_default() += 1;
                outcome.elapsed.push(elapsed);
            }
            Event::Routed { from, body, .. } => {
                let of_this = |message: &UnderWay| {
                    message.from == from && message.body == body && message.to.contains(&who)
                };
                let right = under_way.iter().any(of_this) && arrived.insert((from, body));
                outcome.delivered += usize::from(right);
                outcome.amiss += usize::from(!right);
            }
            _ => {}
        }
    }
}
