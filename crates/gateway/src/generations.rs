//! A bounded map that forgets what is old.

use std::collections::HashMap;
use std::hash::Hash;

/// A bounded map.
///
/// Two generations: when the younger is full the older is dropped, so that use costs the same at
/// any size.
#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    bound: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// Holds at most this many entries.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            bound,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.make_room();
        self.young.insert(key, value);
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// What is remembered of a key, to be changed; it counts as young again.
    pub(crate) fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let mut known = None;
        if !self.young.contains_key(&key) {
            known = self.old.remove(&key);
            self.make_room();
        }
        self.young
            .entry(key)
            .or_insert_with(|| known.unwrap_or_default())
    }

    fn make_room(&mut self) {
        if self.young.len() >= self.bound.div_euclid(2) {
            self.old = std::mem::take(&mut self.young);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len().saturating_add(self.old.len())
    }
}
