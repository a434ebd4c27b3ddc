//! A token bucket: how many bytes the cap allows by now.

use std::time::{Duration, Instant};

use crate::limits::{BURST_TIME, MAX_BURST, MAX_GRANT, MIN_BURST};

/// Tokens are kept in billionths of a byte, so that no rate loses anything to rounding.
const BYTE: u128 = 1_000_000_000;

/// A cap in bytes per second, with at most one burst saved up.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: u64,
    tokens: u128,
    filled: Option<Instant>,
}

impl Bucket {
    /// A full bucket. A rate of 0 allows nothing.
    pub(super) fn new(rate: u64) -> Bucket {
        Bucket {
            rate,
            tokens: tokens(burst(rate)),
            filled: None,
        }
    }

    /// Another rate from now on; what is saved up stays, up to the new burst.
    pub(super) fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
        self.tokens = self.tokens.min(tokens(burst(rate)));
    }

    /// Largest piece that is granted at once, in bytes.
    pub(super) fn quantum(&self) -> u64 {
        burst(self.rate).min(MAX_GRANT)
    }

    /// Adds what the time since the last call allows. A `now` before it adds nothing.
    pub(super) fn refill(&mut self, now: Instant) {
        let filled = *self.filled.get_or_insert(now);
        let passed = now.duration_since(filled).as_nanos();
        let more = passed.saturating_mul(u128::from(self.rate));
        self.tokens = self
            .tokens
            .saturating_add(more)
            .min(tokens(burst(self.rate)));
        self.filled = Some(filled.max(now));
    }

    /// Takes `bytes` if they are there.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let rest = self.tokens.checked_sub(tokens(bytes));
        if let Some(rest) = rest {
            self.tokens = rest;
        }
        rest.is_some()
    }

    /// Gives back what was taken and not used.
    pub(super) fn give_back(&mut self, bytes: u64) {
        let all = self.tokens.saturating_add(tokens(bytes));
        self.tokens = all.min(tokens(burst(self.rate)));
    }

    /// When `bytes` can be taken, seen from the last refill; `None` when never, or when no clock
    /// can measure.
    pub(super) fn ready_at(&self, bytes: u64) -> Option<Instant> {
        let missing = tokens(bytes).saturating_sub(self.tokens);
        let filled = self.filled?;
        if missing == 0 {
            return Some(filled);
        }
        if self.rate == 0 || bytes > burst(self.rate) {
            return None;
        }
        let wait = missing.div_ceil(u128::from(self.rate));
        filled.checked_add(Duration::from_nanos(u64::try_from(wait).ok()?))
    }
}

fn tokens(bytes: u64) -> u128 {
    u128::from(bytes).saturating_mul(BYTE)
}

/// The most that is saved up at `rate` bytes per second, in bytes.
fn burst(rate: u64) -> u64 {
    if rate == 0 {
        return 0;
    }
    let saved = u128::from(rate).saturating_mul(BURST_TIME.as_nanos()) / BYTE;
    u64::try_from(saved)
        .unwrap_or(MAX_BURST)
        .clamp(MIN_BURST, MAX_BURST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_exactly_when_it_says() {
        for rate in [1, 3, 999, 100_000, 12_500_000_000] {
            let start = crate::test_epoch();
            let mut bucket = Bucket::new(rate);
            bucket.refill(start);
            assert!(bucket.take(burst(rate)));
            let wanted = bucket.quantum();
            let ready = bucket.ready_at(wanted).unwrap();
            bucket.refill(ready - Duration::from_nanos(1));
            assert!(!bucket.take(wanted), "rate {rate}: early");
            bucket.refill(ready);
            assert!(bucket.take(wanted), "rate {rate}: late");
        }
    }

    #[test]
    fn a_rate_of_zero_allows_nothing() {
        let mut bucket = Bucket::new(0);
        bucket.refill(crate::test_epoch());
        assert!(!bucket.take(1));
        assert_eq!(bucket.ready_at(1), None);
    }

    #[test]
    fn saves_no_more_than_a_burst() {
        let start = crate::test_epoch();
        let mut bucket = Bucket::new(1_000_000);
        bucket.refill(start);
        bucket.refill(start + Duration::from_secs(3600));
        bucket.give_back(u64::MAX);
        assert!(bucket.take(20_000));
        assert!(!bucket.take(1));
        bucket.refill(start);
        assert!(!bucket.take(1), "time ran backwards");
    }
}
