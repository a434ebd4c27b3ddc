//! Parts of a whole that come in any order: of each byte the first copy is kept.

use std::collections::BTreeMap;

use crate::limits::PART_OVERHEAD;

/// Bytes by their position in the whole. No two parts overlap: of each byte the first copy is here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    parts: BTreeMap<u64, Box<[u8]>>,
    cost: usize,
}

/// The position behind `count` bytes from `at`.
pub(crate) fn after(at: u64, count: usize) -> u64 {
    at.saturating_add(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Bytes from `from` to `to`, as an index.
fn between(from: u64, to: u64) -> usize {
    usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)
}

impl Ranges {
    /// Memory held, with an allowance for each part.
    pub(crate) fn held(&self) -> usize {
        self.cost
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The position behind the last kept byte.
    pub(crate) fn end(&self) -> Option<u64> {
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
    pub(crate) fn differs(&self, at: u64, bytes: &[u8]) -> bool {
        self.overlapping(at, after(at, bytes.len()))
            .any(|(start, part)| {
                let first = part.get(between(start, at)..).unwrap_or_default();
                let now = bytes.get(between(at, start)..).unwrap_or_default();
                first.iter().zip(now).any(|(first, now)| first != now)
            })
    }

    /// Puts the first copies in place of these bytes.
    pub(crate) fn correct(&self, at: u64, bytes: &mut [u8]) {
        for (start, part) in self.overlapping(at, after(at, bytes.len())) {
            let first = part.get(between(start, at)..).unwrap_or_default();
            let now = bytes.get_mut(between(at, start)..).unwrap_or_default();
            for (now, first) in now.iter_mut().zip(first) {
                *now = *first;
            }
        }
    }

    /// Keeps those of the bytes of which there is no copy yet: all, or none if that costs more than
    /// `room` or makes more than `parts` parts. Returns how many bytes were new.
    pub(crate) fn insert(
        &mut self,
        at: u64,
        bytes: &[u8],
        room: usize,
        parts: usize,
    ) -> Option<usize> {
        let end = after(at, bytes.len());
        let mut holes = Vec::new();
        // Parts come last first, so what lies between one and the next is a hole.
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
        let cost = new.saturating_add(holes.len().saturating_mul(PART_OVERHEAD));
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

    /// Takes out the first part if it begins at `next` or before.
    pub(crate) fn take_due(&mut self, next: u64) -> Option<(u64, Box<[u8]>)> {
        let first = self
            .parts
            .first_entry()
            .filter(|part| *part.key() <= next)?;
        let (at, part) = first.remove_entry();
        self.cost = self
            .cost
            .saturating_sub(part.len().saturating_add(PART_OVERHEAD));
        Some((at, part))
    }
}
