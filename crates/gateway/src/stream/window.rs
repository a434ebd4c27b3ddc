//! Bytes that were delivered and that the receiver may still lack.

use std::collections::VecDeque;

/// Memory that an emptied window keeps for the next bytes, in bytes: one burst of a young connection.
const IDLE_CAPACITY: usize = 16_384;

/// How the old part of a segment compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeated {
    /// The same bytes, or bytes that the receiver has acknowledged.
    Same,
    /// Other bytes from this place of the segment to the end of its old part at the latest.
    Differs(usize),
    /// Not acknowledged and not remembered.
    Forgotten,
}

/// The last delivered bytes. All places are counted back from the next byte of the stream.
#[derive(Debug, Default)]
pub(super) struct Window {
    bytes: VecDeque<u8>,
    /// Delivered bytes that are not acknowledged; at least those remembered.
    unacknowledged: u64,
}

impl Window {
    /// Memory held.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Remembers delivered bytes: at most `bound` in all, and at most `room` more memory than is held.
    pub(super) fn push(&mut self, new: &[u8], bound: usize, room: usize) {
        self.unacknowledged = self
            .unacknowledged
            .saturating_add(u64::try_from(new.len()).unwrap_or(u64::MAX));
        let wanted = self.bytes.len().saturating_add(new.len());
        let capacity = self.grown(wanted.min(bound), bound, room);
        let over = wanted.saturating_sub(capacity.min(bound));
        let from_old = over.min(self.bytes.len());
        self.bytes.drain(..from_old);
        self.bytes
            .extend(new.get(over.saturating_sub(from_old)..).unwrap_or_default());
    }

    /// Makes place for `wanted` bytes, doubling where the room allows; answers the place there is.
    fn grown(&mut self, wanted: usize, bound: usize, room: usize) -> usize {
        let capacity = self.bytes.capacity();
        if wanted <= capacity {
            return capacity;
        }
        let most = capacity.saturating_add(room);
        let target = capacity.saturating_mul(2).min(bound).max(wanted).min(most);
        if target > capacity {
            self.bytes
                .reserve_exact(target.saturating_sub(self.bytes.len()));
        }
        target
    }

    /// The receiver lacks at most the last `left` bytes.
    pub(super) fn acknowledge(&mut self, left: u64) {
        if left >= self.unacknowledged {
            return;
        }
        self.unacknowledged = left;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let over = self.bytes.len().saturating_sub(left);
        self.bytes.drain(..over);
        if self.bytes.is_empty() && self.bytes.capacity() > IDLE_CAPACITY {
            self.bytes = VecDeque::new();
        }
    }

    /// Compares bytes of which the first lies `behind` bytes before the next byte of the stream.
    pub(super) fn compare(&self, behind: usize, old: &[u8]) -> Repeated {
        let unacknowledged = usize::try_from(self.unacknowledged).unwrap_or(usize::MAX);
        let from = behind.saturating_sub(unacknowledged);
        let known_from = behind.saturating_sub(self.bytes.len());
        if from < known_from.min(old.len()) {
            return Repeated::Forgotten;
        }
        let known = old.get(known_from..).unwrap_or_default();
        if self
            .copies(behind.saturating_sub(known_from))
            .zip(known)
            .all(|(first, now)| first == now)
        {
            Repeated::Same
        } else {
            Repeated::Differs(known_from)
        }
    }

    /// The first copies of the bytes that lie `behind` bytes before the next byte of the stream, and of those after.
    pub(super) fn copies(&self, behind: usize) -> impl Iterator<Item = &u8> {
        let from = self.bytes.len().saturating_sub(behind);
        self.bytes.range(from..)
    }
}
