//! Bytes that were delivered and that the receiver may still lack.

use std::collections::VecDeque;

use crate::limits::PART_OVERHEAD;

/// Memory that an emptied window keeps for the next bytes, in bytes: one burst of a young
/// connection.
const IDLE_CAPACITY: usize = 16_384;
/// Memory that a chunk of a long window takes at least, in bytes, so that small segments share it.
const CHUNK: usize = 4_096;

/// How the old part of a segment compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeated {
    /// The same bytes, or bytes that the receiver has acknowledged.
    Same,
    /// Other bytes from this position of the segment to the end of its old part at the latest.
    Differs(usize),
    /// Not acknowledged and not remembered.
    Forgotten,
}

/// The last delivered bytes. All positions are counted back from the next byte of the stream.
///
/// They lie in chunks of what came at once: a window that grows copies nothing that it has, and one
/// that shrinks gives memory back. Each is at least as long as all that was remembered when it was
/// begun, or [`CHUNK`]: so there are few.
#[derive(Debug, Default)]
pub(super) struct Window {
    chunks: VecDeque<Vec<u8>>,
    /// Bytes at the beginning of the first chunk that are not remembered any more.
    forgotten: usize,
    /// Bytes that are remembered.
    length: usize,
    cost: usize,
    /// Delivered bytes that are not acknowledged; at least those remembered.
    unacknowledged: u64,
}

impl Window {
    /// Memory held, with an allowance for each chunk.
    pub(super) fn held(&self) -> usize {
        self.cost
    }

    /// Remembers delivered bytes: at most `bound` in all, and at most `room` more memory than is
    /// held.
    pub(super) fn push(&mut self, new: &[u8], bound: usize, room: usize) {
        self.unacknowledged = self
            .unacknowledged
            .saturating_add(u64::try_from(new.len()).unwrap_or(u64::MAX));
        let limit = self.cost.saturating_add(room);
        let new = last(new, bound);
        self.forget(self.length.saturating_add(new.len()).saturating_sub(bound));
        let rest = self.fill(new);
        if rest.is_empty() {
            return;
        }
        while self.capacity_for(rest.len(), limit) == 0 && !self.chunks.is_empty() {
            self.forget_chunk();
        }
        // What follows must join what is remembered: all of it, or its end and nothing before.
        let room = self.capacity_for(rest.len(), limit);
        let rest = if room == 0 {
            last(rest, limit.saturating_sub(PART_OVERHEAD))
        } else {
            rest
        };
        if rest.is_empty() {
            return;
        }
        let mut chunk = Vec::with_capacity(room.max(rest.len()));
        chunk.extend_from_slice(rest);
        self.cost = self.cost.saturating_add(cost(&chunk));
        self.length = self.length.saturating_add(rest.len());
        self.chunks.push_back(chunk);
    }

    /// Puts bytes where the last chunk has room; returns those for which it has none.
    fn fill<'a>(&mut self, new: &'a [u8]) -> &'a [u8] {
        let Some(chunk) = self.chunks.back_mut() else {
            return new;
        };
        let room = chunk.capacity().saturating_sub(chunk.len());
        let (now, rest) = new.split_at(room.min(new.len()));
        chunk.extend_from_slice(now);
        self.length = self.length.saturating_add(now.len());
        rest
    }

    /// Capacity of a further chunk for so many bytes; 0 if the limit has no room for it.
    fn capacity_for(&self, bytes: usize, limit: usize) -> usize {
        let left = limit
            .saturating_sub(self.cost)
            .saturating_sub(PART_OVERHEAD);
        if bytes > left {
            return 0;
        }
        bytes.max(self.length.min(CHUNK)).min(left)
    }

    /// The receiver lacks at most the last `left` bytes.
    pub(super) fn acknowledge(&mut self, left: u64) {
        if left >= self.unacknowledged {
            return;
        }
        self.unacknowledged = left;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        self.forget(self.length.saturating_sub(left));
    }

    /// Forgets the oldest bytes.
    fn forget(&mut self, mut bytes: usize) {
        while let Some(first) = self.chunks.front_mut() {
            let here = first.len().saturating_sub(self.forgotten);
            if here > bytes {
                self.forgotten = self.forgotten.saturating_add(bytes);
                self.length = self.length.saturating_sub(bytes);
                return;
            }
            bytes = bytes.saturating_sub(here);
            if self.chunks.len() == 1 && self.cost <= IDLE_CAPACITY {
                if let Some(only) = self.chunks.front_mut() {
                    only.clear();
                }
                self.forgotten = 0;
                self.length = 0;
                return;
            }
            self.forget_chunk();
        }
    }

    /// Forgets the oldest chunk, and gives its memory back.
    fn forget_chunk(&mut self) {
        if let Some(first) = self.chunks.pop_front() {
            self.length = self
                .length
                .saturating_sub(first.len().saturating_sub(self.forgotten));
            self.cost = self.cost.saturating_sub(cost(&first));
            self.forgotten = 0;
        }
    }

    /// Compares bytes of which the first lies `behind` bytes before the next byte of the stream.
    pub(super) fn compare(&self, behind: usize, old: &[u8]) -> Repeated {
        let unacknowledged = usize::try_from(self.unacknowledged).unwrap_or(usize::MAX);
        let from = behind.saturating_sub(unacknowledged);
        let known_from = behind.saturating_sub(self.length);
        if from < known_from.min(old.len()) {
            return Repeated::Forgotten;
        }
        let mut known = old.get(known_from..).unwrap_or_default();
        for first in self.copies(behind.saturating_sub(known_from)) {
            let (now, rest) = known.split_at(first.len().min(known.len()));
            if first.get(..now.len()) != Some(now) {
                return Repeated::Differs(known_from);
            }
            known = rest;
            if known.is_empty() {
                break;
            }
        }
        Repeated::Same
    }

    /// The first copies of the bytes that lie `behind` bytes before the next byte of the stream,
    /// and of those after.
    pub(super) fn copies(&self, behind: usize) -> impl Iterator<Item = &[u8]> {
        let mut skipped = self
            .forgotten
            .saturating_add(self.length.saturating_sub(behind));
        self.chunks.iter().map(move |chunk| {
            let from = skipped.min(chunk.len());
            skipped = skipped.saturating_sub(from);
            chunk.get(from..).unwrap_or_default()
        })
    }
}

/// The last bytes, at most so many.
fn last(bytes: &[u8], most: usize) -> &[u8] {
    bytes
        .get(bytes.len().saturating_sub(most)..)
        .unwrap_or_default()
}

fn cost(chunk: &Vec<u8>) -> usize {
    chunk.capacity().saturating_add(PART_OVERHEAD)
}
