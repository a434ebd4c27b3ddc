//! [`Known`]: what a member knows of the ring: its neighbours, its group and its fingers, to read.

use rand::Rng;

use crate::finger::Fingers;
use crate::group::neighbours::Neighbours;
use crate::group::{DENSE, Density};
use crate::key::{Offset, RingKey, between};
use crate::ring::pointers::Pointers;

/// A reading view of three machines. The parts that find a way through the ring get it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) pointers: &'a Pointers,
    pub(crate) group: &'a Neighbours,
    pub(crate) fingers: &'a Fingers,
}

impl<'a> Known<'a> {
    pub(crate) fn me(&self) -> RingKey {
        self.group.me()
    }

    /// This member's group: itself and the neighbours around it, clockwise.
    pub(crate) fn own_group(&self) -> &'a [RingKey] {
        self.group.members()
    }

    /// Whether the ring is so small that all its members are in the own group: then no neighbour
    /// names anybody else, and no finger holds anybody else.
    pub(crate) fn is_everybody(&self) -> bool {
        let group = self.own_group();
        group.len() < self.group.size()
            && (self.pointers.is_alone() || group.len() > 1)
            && self
                .pointers
                .successors
                .iter()
                .all(|key| group.contains(key))
            && self.group.named().all(|key| group.contains(key))
            && self.fingers.keys().all(|key| group.contains(&key))
    }

    /// How far members stand from each other, as far as this one can tell.
    pub(crate) fn density(&self) -> Density {
        let g = self.group.size();
        let fingers = self.fingers.entries().iter();
        // A part of a group says nothing of how dense the ring is.
        let whole = fingers.filter(|finger| finger.group.len() >= g);
        let widths = whole.map(|finger| finger.width);
        Density::estimate(self.own_group(), self.is_everybody(), widths, g)
    }

    /// Whether members seem to be missing from the own group.
    pub(crate) fn has_gaps(&self) -> bool {
        self.density().stretch(self.own_group()) > DENSE && !self.is_everybody()
    }

    /// Whether a point lies within the own group, so that there is no way to it.
    pub(crate) fn is_nearby(&self, point: &RingKey) -> bool {
        let group = self.own_group();
        let ends = group.first().zip(group.last());
        ends.is_some_and(|(first, last)| point == last || between(first, point, last))
            && self.density().stretch(group) <= DENSE
    }

    /// The offset of the nearest finger that is worth having; none where the own group holds the
    /// whole ring. `groups`: whether fingers are groups, or single owners.
    pub(crate) fn first_finger(&self, groups: bool) -> Option<Offset> {
        if groups {
            let spacing = self.density().spacing;
            let any = !self.is_everybody() && spacing > 0.0;
            return any.then(|| Offset::reaching(2.0 * spacing));
        }
        let last = self.pointers.successors.last()?;
        let first = Offset::reaching(self.me().share_to(last));
        (first != Offset::MAX).then_some(first)
    }

    /// Whether this member is who a message to `target` is for.
    pub(crate) fn owns(&self, target: &RingKey) -> bool {
        match self.pointers.predecessor {
            _ if *target == self.me() => true,
            Some(predecessor) => between(&predecessor, target, &self.me()),
            None => {
                self.pointers.successors.is_empty()
                    || self.near_owner(target, |_| true) == Some(self.me())
            }
        }
    }

    /// The owner of `target` if the own group reaches over it: the first of those that are `usable`
    /// at or after it.
    pub(crate) fn near_owner(
        &self,
        target: &RingKey,
        usable: impl Fn(&RingKey) -> bool,
    ) -> Option<RingKey> {
        if let Some(head) = self.pointers.successors.first()
            && (target == head || between(&self.me(), target, head))
            && usable(head)
        {
            return Some(*head);
        }
        let group = self.own_group();
        if let Some(owner) = owner_within(group, target, &usable) {
            return Some(owner);
        }
        // A ring that is smaller than a group has no gap between the last and the first.
        let whole = self.is_everybody();
        group.iter().find(|key| whole && usable(key)).copied()
    }

    /// Those nearby, and one of each finger, each once and without this member. With the fingers
    /// in base 16 everybody is a few steps from a member that tells these, and hears it from
    /// dozens, so that neither malicious routers nor lost messages keep it from anybody.
    pub(crate) fn near_and_far(&self, rng: &mut impl Rng) -> Vec<RingKey> {
        let mut keys = self.own_group().to_vec();
        keys.extend(self.fingers.one_of_each(rng));
        keys.extend(self.pointers.keys());
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| *key != self.me());
        keys
    }
}

/// The first usable member at or after `target`, if `group`, which is in clockwise order, reaches
/// over it.
pub(crate) fn owner_within(
    group: &[RingKey],
    target: &RingKey,
    usable: impl Fn(&RingKey) -> bool,
) -> Option<RingKey> {
    let (first, last) = (group.first()?, group.last()?);
    let place = first.distance_to(target);
    if place > first.distance_to(last) {
        return None;
    }
    let mut after = group.iter().filter(|key| first.distance_to(key) >= place);
    after.find(|key| usable(key)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> RingKey {
        let mut bytes = [0; 32];
        bytes[0] = n;
        RingKey::from_bytes(bytes)
    }

    #[test]
    fn a_group_names_owners_within_it_only() {
        let group: Vec<RingKey> = [250, 255, 3, 9].map(key).to_vec();
        let owner = |target: u8| owner_within(&group, &key(target), |_| true);
        assert_eq!(owner(251), Some(key(255)));
        assert_eq!(owner(255), Some(key(255)));
        assert_eq!(owner(0), Some(key(3)));
        assert_eq!(owner(9), Some(key(9)));
        assert_eq!(owner(10), None);
        assert_eq!(owner(250), Some(key(250)));
        assert_eq!(owner(249), None);
        assert_eq!(
            owner_within(&group, &key(0), |k| *k != key(3)),
            Some(key(9))
        );
    }
}
