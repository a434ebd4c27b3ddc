//! Tallies: what routers have counted under one name, kept by the group around the name's point.
//!
//! Each router signs what it has counted itself, and no more: a tally is the set of these counts,
//! one for each router. A router leaves its own count only, with those who keep it and over its own
//! link, so that no router can leave another's, old or new. Of one router's counts the largest
//! stands, so that copies are merged in any order. A count ends at the time that its author has
//! signed; until then its author leaves it again now and then, so that keepers which have come
//! since get it, too.
//!
//! What holds against malicious routers, and what cannot: [`at_least`], and decision 113.
//!
//! - `store`: the counts that this router keeps. `keep`: what it answers. `find`: leaving a count,
//!   and reading a tally. `groups`: who keeps the names that are counted all the time.

mod find;
mod groups;
mod keep;
mod store;

pub(crate) use find::{Operations, Own};
pub(crate) use keep::Keeping;

use crate::credentials::{Credentials, SIGNATURE_LEN};
use crate::key::RingKey;
use crate::limits::MAX_COUNT_LIFETIME;

const CONTEXT: &[u8] = b"ringway count 1";
const POINT: &[u8] = b"ringway tally point 1";

/// What one router has counted under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The router.
    pub author: RingKey,
    /// How many; it only grows.
    pub count: u64,
    /// Seconds since 1970 after which no router keeps it.
    pub expires: u64,
    /// By the author, of the [`statement`](Self::statement).
    pub signature: [u8; SIGNATURE_LEN],
}

impl Count {
    /// Where the tally of this name stands on the ring.
    #[must_use]
    pub fn point(name: &[u8]) -> RingKey {
        RingKey::point(&[POINT, name].concat())
    }

    /// The bytes that the author signs. A router's key is one ring's only, and so is the statement.
    #[must_use]
    pub fn statement(author: &RingKey, point: &RingKey, count: u64, expires: u64) -> Vec<u8> {
        let (count, expires) = (count.to_be_bytes(), expires.to_be_bytes());
        let parts: [&[u8]; 5] = [
            CONTEXT,
            author.as_bytes(),
            point.as_bytes(),
            &count,
            &expires,
        ];
        parts.concat()
    }

    /// One that the owner of `credentials` signs in its own name.
    pub(crate) fn sign(
        credentials: &dyn Credentials,
        author: RingKey,
        point: &RingKey,
        count: u64,
        expires: u64,
    ) -> Count {
        let statement = Count::statement(&author, point, count, expires);
        Count {
            author,
            count,
            expires,
            signature: credentials.sign(&statement),
        }
    }

    /// Whether its author has signed it for `point`. False where its certificate is not at hand.
    #[must_use]
    pub fn is_genuine(&self, credentials: &dyn Credentials, point: &RingKey) -> bool {
        let statement = Count::statement(&self.author, point, self.count, self.expires);
        credentials.verify(&self.author, &statement, &self.signature) == Some(true)
    }

    /// Whether it counts at `unix` seconds: neither past its time nor meant to stay for longer than
    /// any may.
    #[must_use]
    pub fn is_current(&self, unix: u64) -> bool {
        let latest = unix.saturating_add(MAX_COUNT_LIFETIME.as_secs());
        (unix..=latest).contains(&self.expires)
    }

    /// Whether it replaces another one of the same author and point.
    #[must_use]
    pub fn is_newer_than(&self, other: &Count) -> bool {
        (self.count, self.expires) > (other.count, other.expires)
    }
}

/// How many were certainly counted by honest routers, if at most `liars` of those that have counted
/// lie: the sum of all counts but the `liars` largest.
///
/// It is never more than what the honest ones have counted, whatever the others sign: of n counts
/// the n − k smallest sum to no more than any n − k of them, and at least n − k are honest. It is
/// less than that by at most the k largest honest counts. Omitting a count makes it smaller only.
#[must_use]
pub fn at_least(counts: impl IntoIterator<Item = u64>, liars: usize) -> u64 {
    let mut counts: Vec<u64> = counts.into_iter().collect();
    counts.sort_unstable();
    let smallest = counts.len().saturating_sub(liars);
    counts
        .into_iter()
        .take(smallest)
        .fold(0, u64::saturating_add)
}

/// Why a count cannot be left, or a tally cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TallyError {
    /// This member is not in the ring.
    #[error("this router is not in the ring yet; wait for the event Joined")]
    NotMember,
    /// Too many run.
    #[error("{0} tallies are being read or added to already; wait until one ends")]
    TooMany(usize),
    /// No router would keep it.
    #[error("the count has expired, or is meant to stay for too long")]
    Invalid,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_are_of_the_smallest_counts() {
        assert_eq!(at_least([5, 1, 1_000_000, 2], 1), 8);
        assert_eq!(at_least([5, 1], 2), 0);
        assert_eq!(at_least([5], 4), 0);
        assert_eq!(at_least([u64::MAX, u64::MAX], 0), u64::MAX);
    }

    proptest! {
        /// The error that decision 113 states, whatever liars sign and keepers omit of the liars'.
        #[test]
        fn liars_never_raise_the_bound(
            honest in proptest::collection::vec(0..1_000_000_u64, 0..20),
            lies in proptest::collection::vec(any::<u64>(), 0..5),
            more in 0..3_usize,
        ) {
            let liars = lies.len() + more;
            let truth: u64 = honest.iter().sum();
            let mut largest = honest.clone();
            largest.sort_unstable_by(|a, b| b.cmp(a));
            let hidden: u64 = largest.iter().take(liars).sum();
            let found = at_least(honest.into_iter().chain(lies), liars);
            prop_assert!(found <= truth);
            prop_assert!(found >= truth - hidden);
        }
    }
}
