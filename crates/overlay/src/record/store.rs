//! What one member keeps for others.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::Record;
use crate::credentials::MEMBER_LEN;
use crate::key::RingKey;
use crate::limits::{MAX_RECORDS, MAX_RECORDS_OF_MEMBER};

#[derive(Debug)]
struct Kept {
    author: [u8; MEMBER_LEN],
    record: Record,
}

/// Records by their points, within bounds for each author and for all.
#[derive(Debug, Default)]
pub(crate) struct Store {
    kept: BTreeMap<RingKey, Kept>,
    of: BTreeMap<[u8; MEMBER_LEN], usize>,
}

impl Store {
    pub(crate) fn get(&self, point: &RingKey) -> Option<&Record> {
        self.kept.get(point).map(|kept| &kept.record)
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The number of the record that is kept there.
    pub(crate) fn number(&self, point: &RingKey) -> Option<u64> {
        self.get(point).map(|record| record.number)
    }

    /// Keeps a record whose author has been verified. False if there is no room for it, or a newer
    /// one is there.
    pub(crate) fn keep(&mut self, author: [u8; MEMBER_LEN], record: Record) -> bool {
        let point = Record::point(&author, &record.name);
        if let Some(kept) = self.kept.get_mut(&point) {
            let takes = record.is_newer_than(&kept.record);
            let same = kept.record == record;
            if takes {
                kept.record = record;
            }
            return takes || same;
        }
        let count = self.of.get(&author).copied().unwrap_or(0);
        if count >= MAX_RECORDS_OF_MEMBER || self.kept.len() >= MAX_RECORDS {
            return false;
        }
        self.of.insert(author, count.saturating_add(1));
        self.kept.insert(point, Kept { author, record });
        true
    }

    /// Forgets what `unwanted` names.
    pub(crate) fn forget(
        &mut self,
        unwanted: impl Fn(&RingKey, &[u8; MEMBER_LEN], &Record) -> bool,
    ) {
        let Store { kept, of } = self;
        kept.retain(|point, kept| {
            let goes = unwanted(point, &kept.author, &kept.record);
            if goes && let Some(count) = of.get_mut(&kept.author) {
                *count = count.saturating_sub(1);
            }
            !goes
        });
        of.retain(|_, count| *count > 0);
    }

    /// Points and numbers from `after` on, without it; from the beginning if there is none.
    pub(crate) fn from(&self, after: Option<RingKey>) -> impl Iterator<Item = (RingKey, u64)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let kept = self.kept.range((start, Bound::Unbounded));
        kept.map(|(point, kept)| (*point, kept.record.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, number: u64, value: &str) -> Record {
        Record {
            certificate: Vec::new(),
            name: name.into(),
            value: value.into(),
            number,
            expires: 10,
            signature: [0; 64],
        }
    }

    #[test]
    fn only_newer_records_replace_older_ones() {
        let mut store = Store::default();
        let point = Record::point(&[1; 32], b"a");
        assert!(store.keep([1; 32], record("a", 2, "two")));
        assert!(!store.keep([1; 32], record("a", 1, "one")));
        assert!(store.keep([1; 32], record("a", 2, "two")), "it is there");
        assert_eq!(store.get(&point).unwrap().value, b"two");
        // Whichever comes first, all keep the same of two with one number.
        assert!(store.keep([1; 32], record("a", 2, "twofold")));
        assert!(!store.keep([1; 32], record("a", 2, "two")));
        assert_eq!(store.len(), 1);
        assert!(store.keep([2; 32], record("a", 1, "another member's")));
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn one_member_fills_its_own_part_only() {
        let mut store = Store::default();
        for n in 0..MAX_RECORDS_OF_MEMBER {
            assert!(store.keep([1; 32], record(&n.to_string(), 1, "")));
        }
        assert!(!store.keep([1; 32], record("one more", 1, "")));
        assert!(store.keep([1; 32], record("0", 2, "a change")));
        assert!(store.keep([2; 32], record("0", 1, "")));
        store.forget(|_, _, record| record.number == 2);
        assert!(store.keep([1; 32], record("one more", 1, "")));
    }

    #[test]
    fn all_members_together_are_bounded() {
        let mut store = Store::default();
        let members = u8::try_from(MAX_RECORDS / MAX_RECORDS_OF_MEMBER).unwrap();
        for author in 1..=members {
            for n in 0..MAX_RECORDS_OF_MEMBER {
                assert!(store.keep([author; 32], record(&n.to_string(), 1, "")));
            }
        }
        assert_eq!(store.len(), MAX_RECORDS);
        assert!(!store.keep([0; 32], record("one more", 1, "")));
        assert!(store.keep([1; 32], record("0", 2, "a change")));
        store.forget(|_, _, record| record.number == 2);
        assert!(store.keep([0; 32], record("one more", 1, "")));
    }

    #[test]
    fn all_of_it_is_walked_through_in_pieces() {
        let mut store = Store::default();
        for n in 0..20 {
            store.keep([1; 32], record(&n.to_string(), n, ""));
        }
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let some: Vec<_> = store.from(after).take(7).collect();
            let Some((last, _)) = some.last() else { break };
            after = Some(*last);
            seen.extend(some.iter().map(|(_, number)| *number));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    }
}
