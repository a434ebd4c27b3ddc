//! Token buckets that bound what validation sends, per address and per advertiser.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::limits;

/// How many at once, and how long one more takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Tokens of a full bucket.
    pub(super) burst: u32,
    /// Time in which one token is earned; not zero.
    pub(super) interval: Duration,
}

pub(super) const ADVERTISER_RATE: Rate = Rate {
    burst: limits::ADVERTISER_BUDGET,
    interval: limits::ADVERTISER_BUDGET_INTERVAL,
};
pub(super) const PONG_RATE: Rate = Rate {
    burst: limits::PONG_BUDGET,
    interval: limits::PONG_BUDGET_INTERVAL,
};

const ADDRESS_RATE: Rate = Rate {
    burst: limits::ADDRESS_BUDGET,
    interval: limits::ADDRESS_BUDGET_INTERVAL,
};

/// A token bucket, kept as the time at which it is (or was) full again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    full_at: Instant,
}

impl Bucket {
    pub(super) const fn full(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// `None` if a token is there, else when there will be one.
    pub(super) fn wait(&self, now: Instant, rate: Rate) -> Option<Instant> {
        // With one token left the bucket is full after all but one interval.
        let slack = rate.interval.saturating_mul(rate.burst.saturating_sub(1));
        let missing = self.full_at.saturating_duration_since(now);
        let wait = missing.checked_sub(slack).filter(|w| !w.is_zero())?;
        now.checked_add(wait)
    }

    /// Takes a token; false if none is there.
    pub(super) fn take(&mut self, now: Instant, rate: Rate) -> bool {
        if self.wait(now, rate).is_some() {
            return false;
        }
        let from = self.full_at.max(now);
        self.full_at = from.checked_add(rate.interval).unwrap_or(from);
        true
    }

    fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }
}

/// One bucket for each address, whoever advertises it.
#[derive(Debug, Default)]
pub(super) struct AddressBudgets {
    buckets: BTreeMap<Address, Bucket>,
}

impl AddressBudgets {
    /// `None` if the address may get a PING, else when to ask again.
    pub(super) fn wait(&mut self, now: Instant, address: Address) -> Option<Instant> {
        if let Some(bucket) = self.buckets.get(&address) {
            return bucket.wait(now, ADDRESS_RATE);
        }
        if self.buckets.len() >= limits::VALIDATOR_ADDRESSES {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        if self.buckets.len() < limits::VALIDATOR_ADDRESSES {
            return None;
        }
        now.checked_add(limits::ADDRESS_BUDGET_INTERVAL)
    }

    /// Takes what [`Self::wait`] has found.
    pub(super) fn take(&mut self, now: Instant, address: Address) {
        let full = Bucket::full(now);
        let bucket = self.buckets.entry(address).or_insert(full);
        bucket.take(now, ADDRESS_RATE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_then_one_per_interval() {
        let rate = Rate {
            burst: 3,
            interval: Duration::from_secs(10),
        };
        let start = Instant::now();
        let mut bucket = Bucket::full(start);
        assert_eq!((0..5).filter(|_| bucket.take(start, rate)).count(), 3);
        let next = bucket.wait(start, rate).unwrap();
        assert_eq!(next, start + Duration::from_secs(10));
        assert!(!bucket.take(next - Duration::from_nanos(1), rate));
        assert!(bucket.take(next, rate));
        assert!(!bucket.take(next, rate));
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..5).filter(|_| bucket.take(later, rate)).count(), 3);
    }
}
