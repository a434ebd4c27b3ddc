//! [`Nodes`]: the machines, found by a hash, and in the order of their keys.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use ringway_overlay::RingKey;

use super::Node;
use crate::trust::FirstBytes;

/// All machines. Each step of the simulation begins with finding one: in a large ring a tree would
/// take most of the time of a step.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: Vec<Node>,
    places: HashMap<RingKey, usize, BuildHasherDefault<FirstBytes>>,
    sorted: BTreeMap<RingKey, usize>,
}

impl Nodes {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn insert(&mut self, key: RingKey, node: Node) {
        let place = self.all.len();
        self.all.push(node);
        self.places.insert(key, place);
        self.sorted.insert(key, place);
    }

    pub(super) fn get(&self, key: &RingKey) -> Option<&Node> {
        self.all.get(*self.places.get(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &RingKey) -> Option<&mut Node> {
        self.all.get_mut(*self.places.get(key)?)
    }

    /// All of them, by key.
    pub(super) fn values(&self) -> impl Iterator<Item = &Node> {
        self.sorted
            .values()
            .filter_map(|place| self.all.get(*place))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = RingKey> {
        self.sorted.keys().copied()
    }

    /// All of them clockwise, from `point` on.
    pub(super) fn from(&self, point: &RingKey) -> impl Iterator<Item = (RingKey, &Node)> {
        let after = self.sorted.range(point..).chain(self.sorted.range(..point));
        after.filter_map(|(key, place)| Some((*key, self.all.get(*place)?)))
    }
}
