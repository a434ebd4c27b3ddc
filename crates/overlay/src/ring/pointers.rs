//! [`Pointers`]: who stands next to this member on the ring.

use crate::key::RingKey;

/// The predecessor and the successor list. `Ring` changes them; every machine reads them.
#[derive(Debug, Default)]
pub(crate) struct Pointers {
    /// None in a ring of one and outside.
    pub(crate) predecessor: Option<RingKey>,
    /// Nearest first; empty in a ring of one and outside.
    pub(crate) successors: Vec<RingKey>,
}

impl Pointers {
    /// The successors, nearest first, and then the predecessor.
    pub(crate) fn keys(&self) -> impl Iterator<Item = RingKey> {
        self.successors.iter().copied().chain(self.predecessor)
    }

    /// The first successor; none in a ring of one.
    pub(crate) fn head(&self) -> Option<RingKey> {
        self.successors.first().copied()
    }

    pub(crate) fn contains(&self, key: &RingKey) -> bool {
        self.predecessor == Some(*key) || self.successors.contains(key)
    }

    /// Whether this member is the only one of its ring.
    pub(crate) fn is_alone(&self) -> bool {
        self.successors.is_empty() && self.predecessor.is_none()
    }
}
