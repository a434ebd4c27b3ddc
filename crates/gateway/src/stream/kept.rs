//! Copies of segments behind a gap, and the tokens of packets that wait there.

use std::collections::BTreeMap;

use crate::limits::AHEAD_OVERHEAD;

/// Bytes behind a gap by their place in the stream. No two parts overlap: of each byte the first copy is here.
#[derive(Debug, Default)]
pub(super) struct Kept {
    parts: BTreeMap<u64, Box<[u8]>>,
    cost: usize,
}

/// The place behind `count` bytes from `at`.
pub(super) fn after(at: u64, count: usize) -> u64 {
    at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Bytes from `from` to `to`, as an index.
fn between(from: u64, to: u64) -> usize {
    usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)
}

impl Kept {
    /// Memory held, with an allowance for each part.
    pub(super) fn held(&self) -> usize {
        self.cost
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The place behind the last kept byte.
    pub(super) fn end(&self) -> Option<u64> {
        self.parts
            .last_key_value()
            .map(|(&at, part)| after(at, part.len()))
    }

    /// Parts that share bytes with `at..end`, last first.
    fn overlapping(&self, at: u64, end: u64) -> impl Iterator<Item = (u64, &[u8])> {
        self.parts
            .range(..end)
            .rev()
            .map(|(&start, part)| (start, &**part))
            .take_while(move |(start, part)| after(*start, part.len()) > at)
    }

    /// Whether these bytes differ from first copies.
    pub(super) fn differs(&self, at: u64, bytes: &[u8]) -> bool {
        self.overlapping(at, after(at, bytes.len()))
            .any(|(start, part)| {
                let first = part.get(between(start, at)..).unwrap_or_default();
                let now = bytes.get(between(at, start)..).unwrap_or_default();
                first.iter().zip(now).any(|(first, now)| first != now)
            })
    }

    /// Puts the first copies in place of these bytes.
    pub(super) fn correct(&self, at: u64, bytes: &mut [u8]) {
        for (start, part) in self.overlapping(at, after(at, bytes.len())) {
            let first = part.get(between(start, at)..).unwrap_or_default();
            let now = bytes.get_mut(between(at, start)..).unwrap_or_default();
            for (now, first) in now.iter_mut().zip(first) {
                *now = *first;
            }
        }
    }

    /// Keeps those of the bytes of which there is no copy yet: all, or none if that costs more than `room` or makes
    /// more than `parts` parts. Answers how many bytes were new.
    pub(super) fn insert(
        &mut self,
        at: u64,
        bytes: &[u8],
        room: usize,
        parts: usize,
    ) -> Option<usize> {
        let end = after(at, bytes.len());
        let mut holes = Vec::new();
        let mut until = end;
        for (start, part) in self.overlapping(at, end) {
            let stop = after(start, part.len());
            if stop < until {
                holes.push((stop, until));
            }
            until = start;
        }
        if at < until {
            holes.push((at, until));
        }
        let new = holes.iter().fold(0_usize, |sum, &(from, to)| {
            sum.saturating_add(between(from, to))
        });
        let cost = new.saturating_add(holes.len().saturating_mul(AHEAD_OVERHEAD));
        if cost > room || self.parts.len().saturating_add(holes.len()) > parts {
            return None;
        }
        for (from, to) in holes {
            let part = bytes.get(between(at, from)..between(at, to));
            self.parts.insert(from, part.unwrap_or_default().into());
        }
        self.cost = self.cost.saturating_add(cost);
        Some(new)
    }

    /// Takes out the first part if the stream has come as far as its beginning.
    pub(super) fn take_due(&mut self, next: u64) -> Option<(u64, Box<[u8]>)> {
        let first = self
            .parts
            .first_entry()
            .filter(|part| *part.key() <= next)?;
        let (at, part) = first.remove_entry();
        self.cost = self
            .cost
            .saturating_sub(part.len().saturating_add(AHEAD_OVERHEAD));
        Some((at, part))
    }
}

/// Tokens of packets that wait for a gap to be filled, by the place behind their last byte.
#[derive(Debug)]
pub(super) struct Held<T> {
    tokens: BTreeMap<(u64, u64), T>,
    serial: u64,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self {
            tokens: BTreeMap::new(),
            serial: 0,
        }
    }
}

impl<T> Held<T> {
    pub(super) fn held(&self) -> usize {
        self.tokens.len().saturating_mul(AHEAD_OVERHEAD)
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn push(&mut self, end: u64, token: T) {
        self.tokens.insert((end, self.serial), token);
        self.serial = self.serial.wrapping_add(1);
    }

    /// The next token of which all bytes lie before `next`.
    pub(super) fn take_due(&mut self, next: u64) -> Option<T> {
        let first = self
            .tokens
            .first_entry()
            .filter(|token| token.key().0 <= next)?;
        Some(first.remove())
    }
}
