//! Keys of a fixed size.

use std::collections::HashSet;
use std::hash::Hash;

/// A set of keys of a fixed size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet<K: Eq + Hash>(HashSet<K>);

impl<K: Eq + Hash> Default for KeySet<K> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<K: Eq + Hash> KeySet<K> {
    pub(super) fn insert(&mut self, key: K) {
        self.0.insert(key);
    }

    /// The key is one of them.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains(key)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        table::<K>(self.0.capacity())
    }
}

/// Bytes of a hash table with room for so many: seven of eight places are used, and each has a
/// byte beside its key.
pub(super) fn table<K>(capacity: usize) -> usize {
    let places = capacity.saturating_mul(8) / 7;
    places.saturating_mul(size_of::<K>().saturating_add(1))
}
