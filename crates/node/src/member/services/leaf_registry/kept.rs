//! The HELLOs of leaves that a router keeps for those who look for them. Sans-IO.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Instant;

use bytes::Bytes;
use ringway_overlay::RingKey;
use ringway_transport::{Hello, MemberId, Referral};

use crate::limits::{LEAF_ENTRIES, LEAF_ENTRIES_PER_ROUTER, LEAF_ENTRY_BYTES, LEAF_ENTRY_TIME};

/// Where the ring keeps what is known of a leaf.
pub(in crate::member) fn key_of(member: &MemberId) -> RingKey {
    let mut name = b"ringway leaf".to_vec();
    name.extend_from_slice(member.as_bytes());
    RingKey::point(&name)
}

/// A leaf's HELLO, and receipts of those who have proved its addresses.
#[derive(Clone, Debug)]
pub(super) struct LeafEntry {
    pub(super) hello: Hello,
    pub(super) referral: Referral,
}

impl LeafEntry {
    /// The HELLO with these receipts.
    pub(super) fn new(hello: Hello, receipts: Vec<Bytes>) -> Option<LeafEntry> {
        let referral = Referral::new(hello.encoded().clone(), receipts).ok()?;
        Some(LeafEntry { hello, referral })
    }

    /// As it is on the wire; none if it is too long or its HELLO is not good. Receipts are looked
    /// at when they are needed.
    pub(super) fn decode(bytes: &[u8]) -> Option<LeafEntry> {
        if bytes.len() > LEAF_ENTRY_BYTES {
            return None;
        }
        let referral = Referral::decode(bytes).ok()?;
        let hello = Hello::decode(referral.hello()).ok()?;
        Some(LeafEntry { hello, referral })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        self.referral.encode()
    }
}

/// What the fuzzer tries: what is taken can be passed on.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    if let Some(entry) = LeafEntry::decode(data) {
        assert!(LeafEntry::decode(&entry.encode()).is_some());
    }
}

#[derive(Debug)]
struct Kept {
    entry: LeafEntry,
    /// The router that has brought it.
    by: MemberId,
    since: Instant,
}

/// The newest HELLO of each leaf.
#[derive(Debug, Default)]
pub(super) struct KeptHellos {
    kept: BTreeMap<MemberId, Kept>,
    /// The same by age, of each router that has brought some.
    ages: BTreeMap<MemberId, BTreeSet<(Instant, MemberId)>>,
}

impl KeptHellos {
    /// Keeps a HELLO that the router `by` has brought, in the place of an older one of its member.
    /// False if it is refused.
    pub(super) fn put(&mut self, now: Instant, by: MemberId, entry: LeafEntry) -> bool {
        let hello = &entry.hello;
        let member = hello.member();
        let known = self.kept.get(&member);
        let newest = known.is_none_or(|kept| kept.entry.hello.sequence() <= hello.sequence());
        if !newest || entry.encode().len() > LEAF_ENTRY_BYTES {
            return false;
        }
        self.remove(&member);
        if self.ages.get(&by).map_or(0, BTreeSet::len) >= LEAF_ENTRIES_PER_ROUTER {
            self.remove_oldest(|router| *router == by);
        } else if self.kept.len() >= LEAF_ENTRIES {
            self.remove_oldest(|_| true);
        }
        let since = now;
        self.ages.entry(by).or_default().insert((since, member));
        let kept = Kept { entry, by, since };
        self.kept.insert(member, kept);
        true
    }

    /// Where `member` is, if that has been renewed recently.
    pub(super) fn get(&self, now: Instant, member: &MemberId) -> Option<&LeafEntry> {
        let kept = self.kept.get(member)?;
        (now < kept.since + LEAF_ENTRY_TIME).then_some(&kept.entry)
    }

    /// The first `most` after `last` that were renewed recently and that `wanted` wants, in order
    /// of their members.
    pub(super) fn some(
        &self,
        now: Instant,
        last: Option<MemberId>,
        most: usize,
        wanted: impl Fn(&MemberId) -> bool,
    ) -> Vec<&LeafEntry> {
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let kept = self.kept.range((after, Bound::Unbounded));
        let wanted = kept.filter(|(member, _)| wanted(member));
        let fresh = wanted.filter_map(|(member, _)| self.get(now, member));
        fresh.take(most).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Forgets what was not renewed, and whatever `ended` says.
    pub(super) fn tidy(&mut self, now: Instant, ended: impl Fn(&MemberId) -> bool) {
        let over = |kept: &Kept| now >= kept.since + LEAF_ENTRY_TIME;
        let gone = self.kept.iter();
        let gone: Vec<MemberId> = gone
            .filter(|(member, kept)| over(kept) || ended(member))
            .map(|(member, _)| *member)
            .collect();
        for member in gone {
            self.remove(&member);
        }
    }

    fn remove(&mut self, member: &MemberId) {
        let Some(kept) = self.kept.remove(member) else {
            return;
        };
        if let Some(ages) = self.ages.get_mut(&kept.by) {
            ages.remove(&(kept.since, *member));
            if ages.is_empty() {
                self.ages.remove(&kept.by);
            }
        }
    }

    fn remove_oldest(&mut self, of: impl Fn(&MemberId) -> bool) {
        let fitting = self.ages.iter().filter(|(router, _)| of(router));
        let oldest = fitting.filter_map(|(_, ages)| ages.first()).min();
        if let Some((_, member)) = oldest.copied() {
            self.remove(&member);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::identity::Identity;

    fn hello(identity: &Identity, sequence: u64) -> LeafEntry {
        let hello = Hello::sign(identity, sequence, Vec::new()).unwrap();
        LeafEntry::new(hello, Vec::new()).unwrap()
    }

    fn router(n: u8) -> MemberId {
        MemberId::new([n; 32])
    }

    #[test]
    fn the_newest_counts_until_it_is_not_renewed() {
        use ringway_transport::Signer as _;
        let leaf = Identity::generate().unwrap();
        let mut kept = KeptHellos::default();
        let start = Instant::now();
        assert!(kept.put(start, router(1), hello(&leaf, 5)));
        assert!(!kept.put(start, router(2), hello(&leaf, 4)), "an older one");
        let later = start + LEAF_ENTRY_TIME - Duration::from_secs(1);
        assert!(kept.put(later, router(2), hello(&leaf, 5)), "a renewal");
        let found = |kept: &KeptHellos, at| {
            kept.get(at, &leaf.member())
                .map(|found| found.hello.sequence())
        };
        assert_eq!(found(&kept, later + Duration::from_secs(60)), Some(5));
        assert_eq!(found(&kept, later + LEAF_ENTRY_TIME), None);
        kept.tidy(later + LEAF_ENTRY_TIME, |_| false);
        assert_eq!((kept.len(), kept.ages.len()), (0, 0));
    }

    #[test]
    fn who_has_ended_is_forgotten() {
        let (gone, stays) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let mut kept = KeptHellos::default();
        let now = Instant::now();
        for leaf in [&gone, &stays] {
            kept.put(now, router(1), hello(leaf, 1));
        }
        use ringway_transport::Signer as _;
        kept.tidy(now, |member| *member == gone.member());
        assert!(kept.get(now, &gone.member()).is_none());
        assert!(kept.get(now, &stays.member()).is_some());
    }

    #[test]
    fn one_router_pushes_out_its_own_only() {
        use ringway_transport::Signer as _;
        let mut kept = KeptHellos::default();
        let start = Instant::now();
        let other = Identity::generate().unwrap();
        kept.put(start, router(2), hello(&other, 1));
        let mut leaves = Vec::new();
        for n in 0..=u64::try_from(LEAF_ENTRIES_PER_ROUTER).unwrap() {
            let leaf = Identity::generate().unwrap();
            let at = start + Duration::from_millis(1 + n);
            assert!(kept.put(at, router(1), hello(&leaf, 1)));
            leaves.push(leaf.member());
        }
        assert_eq!(kept.len(), LEAF_ENTRIES_PER_ROUTER + 1);
        assert!(kept.get(start, &other.member()).is_some());
        assert!(kept.get(start, &leaves[0]).is_none(), "its oldest");
        assert!(kept.get(start, leaves.last().unwrap()).is_some());
    }
}
