//! The counts that one router keeps for others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::Count;
use crate::key::RingKey;
use crate::limits::{COUNTS_IN_MESSAGE, MAX_COUNTS, MAX_TALLY_AUTHORS};

/// Counts by point and author, within bounds for each point and for all.
#[derive(Debug, Default)]
pub(super) struct Store {
    points: BTreeMap<RingKey, BTreeMap<RingKey, Count>>,
    /// The points at which each author has one.
    of: BTreeMap<RingKey, BTreeSet<RingKey>>,
    kept: usize,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.kept
    }

    /// The points at which there are any.
    pub(super) fn points(&self) -> impl Iterator<Item = RingKey> {
        self.points.keys().copied()
    }

    pub(super) fn get(&self, point: &RingKey, author: &RingKey) -> Option<&Count> {
        self.points.get(point)?.get(author)
    }

    /// All at a point, in the order of their authors.
    pub(super) fn at(&self, point: &RingKey) -> impl Iterator<Item = &Count> {
        self.points
            .get(point)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Those at a point that are current, from the author after `after` on: as many as one message
    /// takes.
    pub(super) fn page(&self, point: &RingKey, after: Option<RingKey>, unix: u64) -> Vec<Count> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let counts = self.points.get(point).into_iter();
        let counts = counts.flat_map(|counts| counts.range((start, Bound::Unbounded)));
        let current = counts
            .map(|(_, count)| *count)
            .filter(|count| count.is_current(unix));
        current.take(COUNTS_IN_MESSAGE).collect()
    }

    /// Keeps a count that has been verified, unless a larger one of its author is there, or there
    /// is no room for it.
    pub(super) fn keep(&mut self, point: RingKey, count: Count) {
        let author = count.author;
        if let Some(kept) = self
            .points
            .get_mut(&point)
            .and_then(|counts| counts.get_mut(&author))
        {
            if count.is_newer_than(kept) {
                *kept = count;
            }
            return;
        }
        if !self.has_room_at(&point, &author) || !self.has_room_for(&author) {
            return;
        }
        self.points.entry(point).or_default().insert(author, count);
        self.of.entry(author).or_default().insert(point);
        self.kept = self.kept.saturating_add(1);
    }

    /// Makes room in the tally at `point`: of too many authors those stay whose keys come first
    /// after the point. No router chooses its key, so that no router can choose who stays, and all
    /// keepers keep the same.
    fn has_room_at(&mut self, point: &RingKey, author: &RingKey) -> bool {
        let Some(counts) = self.points.get(point) else {
            return true;
        };
        if counts.len() < MAX_TALLY_AUTHORS {
            return true;
        }
        let distance = |author: &RingKey| point.distance_to(author);
        let last = counts.keys().copied().max_by_key(distance);
        match last.filter(|last| distance(author) < distance(last)) {
            Some(last) => self.remove(point, &last),
            None => return false,
        }
        true
    }

    /// Makes room among all: who has most there loses one, so that none can push others' out.
    fn has_room_for(&mut self, author: &RingKey) -> bool {
        if self.kept < MAX_COUNTS {
            return true;
        }
        let own = self.of.get(author).map_or(0, BTreeSet::len);
        let most = self.of.iter().max_by_key(|(_, points)| points.len());
        let Some((most, points)) = most.filter(|(_, points)| points.len() > own.saturating_add(1))
        else {
            return false;
        };
        if let (most, Some(point)) = (*most, points.first().copied()) {
            self.remove(&point, &most);
        }
        true
    }

    fn remove(&mut self, point: &RingKey, author: &RingKey) {
        if let Some(counts) = self.points.get_mut(point) {
            counts.remove(author);
            if counts.is_empty() {
                self.points.remove(point);
            }
        }
        if let Some(points) = self.of.get_mut(author) {
            points.remove(point);
            if points.is_empty() {
                self.of.remove(author);
            }
        }
        self.kept = self.kept.saturating_sub(1);
    }

    /// Forgets what `unwanted` names.
    pub(super) fn forget(&mut self, unwanted: impl Fn(&RingKey, &Count) -> bool) {
        let all = self.points.iter();
        let all = all.flat_map(|(point, counts)| counts.values().map(move |count| (point, count)));
        let named = all.filter(|(point, count)| unwanted(point, count));
        let named: Vec<_> = named.map(|(point, count)| (*point, count.author)).collect();
        for (point, author) in named {
            self.remove(&point, &author);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> RingKey {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&(n as u64).to_be_bytes());
        RingKey::from_bytes(bytes)
    }

    fn count(author: usize, count: u64) -> Count {
        Count {
            author: key(author),
            count,
            expires: 100,
            signature: [0; 64],
        }
    }

    #[test]
    fn the_largest_count_of_each_author_stays() {
        let mut store = Store::default();
        store.keep(key(5), count(1, 7));
        store.keep(key(5), count(1, 3));
        store.keep(key(5), count(2, 4));
        assert_eq!(store.get(&key(5), &key(1)).unwrap().count, 7);
        assert_eq!(store.page(&key(5), None, 0).len(), 2);
        assert_eq!(store.page(&key(5), Some(key(1)), 0)[0].count, 4);
        assert!(store.page(&key(5), None, 101).is_empty(), "expired");
        store.forget(|_, count| count.author == key(1));
        assert_eq!(store.len(), 1);
    }

    #[test]
    fn full_tallies_keep_authors_in_any_order() {
        let authors = 2 * MAX_TALLY_AUTHORS;
        let (mut forth, mut back) = (Store::default(), Store::default());
        for n in 0..authors {
            forth.keep(key(3), count(n, 1));
            back.keep(key(3), count(authors - 1 - n, 1));
        }
        let kept = |store: &Store| store.at(&key(3)).map(|c| c.author).collect::<Vec<_>>();
        assert_eq!(kept(&forth), kept(&back));
        assert_eq!(forth.len(), MAX_TALLY_AUTHORS);
        assert!(forth.get(&key(3), &key(3)).is_some());
        assert!(forth.get(&key(3), &key(2)).is_none(), "next before it");
    }

    #[test]
    fn flooding_author_pushes_no_other_out() {
        let mut store = Store::default();
        for n in 0..100 {
            store.keep(key(n), count(7, 1));
        }
        for n in 0..MAX_COUNTS + 100 {
            store.keep(key(n), count(8, 1));
        }
        assert_eq!(store.len(), MAX_COUNTS);
        assert!((0..100).all(|n| store.get(&key(n), &key(7)).is_some()));
        // And others find room at its cost.
        for n in 0..200 {
            store.keep(key(n), count(9, 1));
        }
        assert!((0..200).all(|n| store.get(&key(n), &key(9)).is_some()));
        assert_eq!(store.len(), MAX_COUNTS);
    }
}
