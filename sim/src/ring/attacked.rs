//! Rings that begin at rest, and have traitors in them.

use std::collections::BTreeMap;
use std::time::Duration;

use ringway_overlay::{Membership, RingKey, Snapshot, invariant};

use super::RingSim;
use crate::adversary::Behaviour;
use crate::report::Failure;

impl RingSim {
    /// Turns a machine into a traitor.
    pub fn recruit(&mut self, key: RingKey, behaviour: Behaviour) {
        self.adversary.recruit(key, behaviour);
    }

    /// What a machine does, if it is a traitor.
    #[must_use]
    pub fn behaviour(&self, key: &RingKey) -> Option<Behaviour> {
        self.adversary.behaviour(key)
    }

    /// Starts all machines that do not run as members of one ring at rest, with all pointers and
    /// fingers as they should be. Their groups fill within some seconds.
    pub fn settle(&mut self) {
        let keys: Vec<RingKey> = self.nodes.keys().collect();
        let (g, r) = (self.config.overlay.group, self.r());
        let spacing = 1.0 / f64::from(u32::try_from(keys.len().max(1)).unwrap_or(u32::MAX));
        let nth = |at: usize| keys.get(at % keys.len().max(1)).copied();
        for (place, key) in keys.iter().enumerate() {
            let others = (1..keys.len()).take(r);
            let state = Snapshot {
                key: *key,
                state: Membership::Member,
                predecessor: nth(place + keys.len() - 1).filter(|other| other != key),
                successors: others.filter_map(|n| nth(place + n)).collect(),
            };
            self.boot(*key, |chord, now, _| {
                let around = |point: &RingKey| {
                    let at = keys.partition_point(|key| key < point) + keys.len();
                    let before = (g - 1) / 2;
                    (at - before..at - before + g).filter_map(nth).collect()
                };
                let points = if keys.len() > 2 * g {
                    chord.finger_points(spacing)
                } else {
                    Vec::new()
                };
                let points = points.into_iter();
                let fingers = points.map(|(offset, point)| (offset, around(&point)));
                chord.restore(now, &state, fingers.collect());
                // Members that it met long ago, elsewhere.
                let strangers = (1..=8).filter_map(|n| nth(place + keys.len() * n / 9));
                let strangers: Vec<RingKey> = strangers.collect();
                chord.join(now, &strangers);
            });
        }
    }

    /// Who has been convicted by anybody, and when first.
    #[must_use]
    pub fn convicted(&self) -> &BTreeMap<RingKey, Duration> {
        &self.convicted
    }

    /// Members of a group, g.
    #[must_use]
    pub fn group_size(&self) -> usize {
        self.config.overlay.group
    }

    /// When each member joined first.
    #[must_use]
    pub fn joined(&self) -> &BTreeMap<RingKey, Duration> {
        &self.joined
    }

    /// What no traitor may change: [`Check::Honest`](crate::Check::Honest).
    pub(super) fn check_honest(&self, live: &[Snapshot]) -> Result<(), Failure> {
        let honest = |key: &RingKey| self.behaviour(key).is_none();
        if let Some(victim) = self.convicted.keys().find(|key| honest(key)) {
            return Err(self.failure(format!("{victim:?} is honest, and convicted")));
        }
        let mut honest = live.iter().filter(|snapshot| honest(&snapshot.key));
        let verdict = honest.try_for_each(invariant::check_order);
        verdict.map_err(|violation| self.failure(violation.to_string()))
    }

    /// Who may be named as the owner of `target`: the member that owns it, and, if that is a
    /// traitor that cannot always be told from the dead, those after it up to one that can.
    #[must_use]
    pub fn owners(&self, target: &RingKey) -> Vec<RingKey> {
        let members = self.nodes.from(target).filter(|(key, node)| {
            let chord = node.chord.as_ref();
            chord.is_some_and(|chord| chord.state() == Membership::Member)
                && !self.convicted.contains_key(key)
        });
        let mut owners = Vec::new();
        for (key, _) in members {
            owners.push(key);
            let fades = matches!(
                self.behaviour(&key),
                Some(Behaviour::Silent | Behaviour::Selective | Behaviour::Leave)
            );
            if !fades {
                break;
            }
        }
        owners
    }
}
