//! How fast wrong spoken invites and sign-ins may come: in all, and from one source. Sans-IO.
//!
//! Right invites are given back, so that only wrong ones count.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::limits::TryRate;
use crate::shares::source_of;

/// When everything that was taken will have come back.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full: Instant,
}

impl Bucket {
    fn has_one(self, rate: TryRate, now: Instant) -> bool {
        let taken = self.full.saturating_duration_since(now);
        taken + rate.every <= rate.every * rate.burst
    }

    fn take(&mut self, rate: TryRate, now: Instant) {
        self.full = self.full.max(now) + rate.every;
    }
}

/// What has been tried lately.
#[derive(Debug)]
pub(crate) struct Tries {
    rate: TryRate,
    source_rate: TryRate,
    all: Bucket,
    /// No larger than the number of tries that `all` lets pass while a source's bucket fills.
    sources: HashMap<IpAddr, Bucket>,
}

impl Tries {
    /// `rate` bounds all together, `source_rate` those of one source.
    pub(crate) fn new(now: Instant, rate: TryRate, source_rate: TryRate) -> Tries {
        Tries {
            rate,
            source_rate,
            all: Bucket { full: now },
            sources: HashMap::new(),
        }
    }

    /// False if there were too many; else one more is counted.
    pub(crate) fn take(&mut self, from: IpAddr, now: Instant) -> bool {
        self.sources.retain(|_, bucket| bucket.full > now);
        let source = source_of(from);
        let bucket = self.sources.get(&source).copied();
        let mut bucket = bucket.unwrap_or(Bucket { full: now });
        if !bucket.has_one(self.source_rate, now) || !self.all.has_one(self.rate, now) {
            return false;
        }
        bucket.take(self.source_rate, now);
        self.all.take(self.rate, now);
        self.sources.insert(source, bucket);
        true
    }

    /// The last one that was taken from there was right.
    pub(super) fn give_back(&mut self, from: IpAddr) {
        let earlier = |full: Instant, by: Duration| full.checked_sub(by).unwrap_or(full);
        self.all.full = earlier(self.all.full, self.rate.every);
        if let Some(bucket) = self.sources.get_mut(&source_of(from)) {
            bucket.full = earlier(bucket.full, self.source_rate.every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{SPOKEN_RATE, SPOKEN_SOURCE_RATE};

    fn tries(now: Instant) -> Tries {
        Tries::new(now, SPOKEN_RATE, SPOKEN_SOURCE_RATE)
    }

    fn from(last: u32) -> IpAddr {
        IpAddr::V4((0xc000_0200 + last).into())
    }

    /// How many of `tries` at once from there are let through.
    fn passed(tries: &mut Tries, from: IpAddr, now: Instant) -> u32 {
        (0..100).map(|_| u32::from(tries.take(from, now))).sum()
    }

    #[test]
    fn one_source_is_slowed_alone() {
        let now = Instant::now();
        let mut tries = tries(now);
        assert_eq!(passed(&mut tries, from(1), now), SPOKEN_SOURCE_RATE.burst);
        assert!(tries.take(from(2), now));
        let later = now + SPOKEN_SOURCE_RATE.every;
        assert_eq!(passed(&mut tries, from(1), later), 1);
    }

    #[test]
    fn all_sources_together_are_bounded() {
        let now = Instant::now();
        let mut tries = tries(now);
        let all: u32 = (0..1_000)
            .map(|n| u32::from(tries.take(from(n), now)))
            .sum();
        assert_eq!(all, SPOKEN_RATE.burst);
        let later = now + SPOKEN_RATE.every;
        let all: u32 = (0..1_000)
            .map(|n| u32::from(tries.take(from(n), later)))
            .sum();
        assert_eq!(all, 1);
        assert!(tries.sources.len() <= SPOKEN_RATE.burst as usize + 1);
        let much_later = now + SPOKEN_RATE.every * SPOKEN_RATE.burst * 10;
        assert!(tries.take(from(1), much_later));
        assert_eq!(
            tries.sources.len(),
            1,
            "those that wrote nothing lately are forgotten"
        );
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let now = Instant::now();
        let mut tries = tries(now);
        let [one, other]: [IpAddr; 2] =
            ["2001:db8::1", "2001:db8::2:0:0:1"].map(|ip| ip.parse().unwrap());
        for _ in 0..100 {
            assert!(tries.take(one, now));
            tries.give_back(one);
        }
        assert_eq!(passed(&mut tries, one, now), SPOKEN_SOURCE_RATE.burst);
        assert!(!tries.take(other, now));
    }
}
