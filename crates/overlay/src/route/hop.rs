//! Whom a message is handed to next, and what is remembered of those who took some.
//!
//! Near targets are sent directly to their owner: the own group knows it, or the group of the
//! finger does, the one behind the target included, if it is as dense as the ring or has the very
//! member that is meant. So does, at first, what a member sends itself where it has met those
//! around the target, in rings that are small enough to know one another. For others one member of
//! the farthest finger before the target is drawn at random, among those that precede the target,
//! so that each hop comes nearer. A retry takes the fingers in another order: with the distance as
//! hexadecimal digits, the first try takes the first digit first, the second try the second, so
//! that both visit other points of the ring until shortly before the target.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};

use super::{KnownPeer, Routing};
use crate::context::Cx;
use crate::group::DENSE;
use crate::group::Density;
use crate::key::{Offset, RingKey};
use crate::known::{Known, owner_within};
use crate::limits::{DENSITY_TIME, LEAST_PREFERENCE, MAX_MET, MAX_PREFERENCES};

/// How many of the messages that somebody took on were answered: 1 for all. Only those are kept
/// that are not as good as new.
#[derive(Debug, Default)]
pub(super) struct Preferences {
    shares: BTreeMap<RingKey, f64>,
}

/// What a member has done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    /// An answer came back through it.
    Answered,
    /// It said that it has the message, and no answer came back.
    NoAnswer,
    /// It did not say anything.
    Silent,
}

/// The weight of the newest in the mean.
const NEWEST: f64 = 1.0 / 8.0;

impl Preferences {
    pub(super) fn note(&mut self, member: RingKey, conduct: Conduct) {
        let known = self.shares.get(&member).copied();
        let share = match (conduct, known) {
            (Conduct::Answered, None) => return,
            (Conduct::Answered, Some(share)) => share + (1.0 - share) * NEWEST,
            (Conduct::NoAnswer, share) => share.unwrap_or(1.0) * (1.0 - NEWEST),
            (Conduct::Silent, share) => share.unwrap_or(1.0) / 2.0,
        };
        if share > 0.99 {
            self.shares.remove(&member);
        } else if known.is_some() || self.shares.len() < MAX_PREFERENCES {
            self.shares.insert(member, share);
        }
    }

    fn weight(&self, member: &RingKey) -> f64 {
        let share = self.shares.get(member).copied().unwrap_or(1.0);
        share.max(LEAST_PREFERENCE)
    }

    /// One of `candidates`, those that are preferred more often.
    fn draw(&self, candidates: &[RingKey], rng: &mut impl Rng) -> Option<RingKey> {
        if self.shares.is_empty() {
            let last = candidates.len().checked_sub(1)?;
            return candidates.get(rng.random_range(0..=last)).copied();
        }
        let all: f64 = candidates.iter().map(|key| self.weight(key)).sum();
        let mut left = rng.random::<f64>() * all;
        let drawn = candidates.iter().find(|key| {
            left -= self.weight(key);
            left < 0.0
        });
        drawn.or(candidates.last()).copied()
    }
}

impl Routing {
    /// The ring's density, now or a moment ago: each message asks, and to look through all fingers
    /// costs more than the rest of the choice.
    fn density_lately(&mut self, cx: &mut Cx<'_>, known: Known<'_>) -> Density {
        match self.density {
            Some((at, density)) if cx.now < at + DENSITY_TIME => density,
            _ => {
                let density = known.density();
                self.density = Some((cx.now, density));
                density
            }
        }
    }

    /// The owner of `target` if the own group knows it, if it has been met, or if those who have
    /// been met around it stand as close to each other as members of the ring do.
    pub(super) fn known_owner(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        target: &RingKey,
    ) -> Option<RingKey> {
        let density = self.density_lately(cx, known);
        let usable =
            |key: &RingKey| *key != cx.me && !cx.is_suspect(key) && !cx.trust.is_convicted(key);
        let met = &self.known_peers;
        let near = known.near_owner(target, usable);
        if near.is_some() || met.len() > MAX_MET {
            return near;
        }
        let is_silent = |key: &RingKey| {
            let until = met.get(key).and_then(|known| known.silent_until);
            until.is_some_and(|until| cx.now < until)
        };
        let found = if met.contains_key(target) {
            Some(*target).filter(usable)
        } else {
            let around = met_around(met, target, cx.config.group);
            // Where fewer have been met some stand on both sides.
            let first = around.first()?;
            let mut pairs = around.windows(2);
            let apart = pairs.all(|pair| first.distance_to(&pair[0]) < first.distance_to(&pair[1]));
            let dense = apart && density.stretch(&around) <= DENSE;
            dense.then(|| owner_within(&around, target, usable))?
        };
        // The member next after a silent one is not the owner.
        found.filter(|owner| !is_silent(owner))
    }

    /// Whom to hand a message for `target` to: none of `avoid`; `attempt` says which of the ways to
    /// begin with. None if there is no member before the target.
    pub(super) fn next_hop(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        target: &RingKey,
        avoid: &[RingKey],
        attempt: usize,
    ) -> Option<RingKey> {
        let (now, me, peers, trust) = (cx.now, cx.me, &*cx.peers, &*cx.trust);
        let usable = |key: &RingKey| {
            *key != me
                && !avoid.contains(key)
                && !peers.is_suspect(now, key)
                && !trust.is_convicted(key)
        };
        if let Some(owner) = known.near_owner(target, usable) {
            return Some(owner);
        }
        let distance = me.distance_to(target);
        let before = |key: &&RingKey| me.distance_to(key) <= distance && usable(key);
        let digits = Offset::digits(&distance);
        let ways = digits.filter_map(|offset| known.fingers.get(offset));
        let mut ways: Vec<_> = ways.collect();
        if !ways.is_empty() {
            let first = attempt.checked_rem(ways.len()).unwrap_or(0);
            ways.rotate_left(first);
        }
        let farthest = Offset::within(&distance);
        let fingers = known.fingers.entries();
        let (before_it, behind) =
            fingers.split_at(fingers.partition_point(|finger| Some(finger.offset) <= farthest));
        // The finger behind the target may have the owner in its group. Whom it has not says
        // nothing where it is thinner than the ring.
        if let Some(finger) = behind.first()
            && let Some(owner) = owner_within(&finger.group, target, usable)
            && (owner == *target || known.density().stretch(&finger.group) <= DENSE)
        {
            return Some(owner);
        }
        let others = before_it.iter().rev();
        for finger in ways.into_iter().chain(others) {
            if let Some(owner) = owner_within(&finger.group, target, usable) {
                return Some(owner);
            }
            let candidates: Vec<RingKey> = finger.group.iter().filter(before).copied().collect();
            if !candidates.is_empty() {
                return self.preferences.draw(&candidates, cx.rng);
            }
        }
        let near = known.own_group().iter().chain(&known.pointers.successors);
        let candidates: Vec<RingKey> = near.filter(before).copied().collect();
        self.preferences.draw(&candidates, cx.rng)
    }
}

/// The `g` nearest around `target` of those that have been met, clockwise; some of them twice where
/// there are fewer.
fn met_around(met: &BTreeMap<RingKey, KnownPeer>, target: &RingKey, g: usize) -> Vec<RingKey> {
    let before = met.range(..target).rev().chain(met.iter().rev());
    let mut around: Vec<RingKey> = before.take(g / 2).map(|(key, _)| *key).collect();
    around.reverse();
    let after = met.range(target..).chain(met);
    around.extend(after.take(g.saturating_sub(g / 2)).map(|(key, _)| *key));
    around
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn key(n: u8) -> RingKey {
        let mut bytes = [0; 32];
        bytes[0] = n;
        RingKey::from_bytes(bytes)
    }

    #[test]
    fn silent_hops_are_chosen_less_for_a_time() {
        let mut preferences = Preferences::default();
        let (good, bad) = (key(1), key(2));
        for _ in 0..40 {
            preferences.note(bad, Conduct::NoAnswer);
            preferences.note(good, Conduct::Answered);
        }
        let mut rng = StdRng::seed_from_u64(1);
        let mut drawn = |preferences: &Preferences| {
            let draws = (0..1_000).map(|_| preferences.draw(&[good, bad], &mut rng));
            draws.filter(|key| *key == Some(bad)).count()
        };
        let less = drawn(&preferences);
        assert!((5..80).contains(&less), "{less} of 1000");
        for _ in 0..60 {
            preferences.note(bad, Conduct::Answered);
        }
        assert!(drawn(&preferences) > 400);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut preferences = Preferences::default();
        for n in 0..u32::try_from(MAX_PREFERENCES).unwrap() + 9 {
            preferences.note(RingKey::point(&n.to_be_bytes()), Conduct::Silent);
        }
        assert_eq!(preferences.shares.len(), MAX_PREFERENCES);
    }
}
