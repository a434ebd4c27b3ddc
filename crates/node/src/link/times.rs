//! The time in handshakes: which of a member's initiations are newer than all that became a link.
//!
//! As in WireGuard (§5.1 of its paper), but no member is refused for an old time: a clock may be
//! set back. An initiation that is not new may be a recorded one. Its sender has to prove its
//! address with a cookie, and its slot is given to a new one where there is no other.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_transport::MemberId;

use crate::limits::TIMES_REMEMBERED;

/// Times are microseconds since 1970, by the clock of who shows them.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The clock and the date at the start.
    began: Option<(Instant, u64)>,
    /// What was shown last.
    last: u64,
    /// The latest that each member has shown in a handshake that became a link.
    known: BTreeMap<MemberId, u64>,
}

impl Times {
    pub(super) fn begin(&mut self, now: Instant, date: u64) {
        self.began = Some((now, date));
    }

    /// The time for a handshake; later than any shown before, whatever the clock does.
    pub(super) fn next(&mut self, now: Instant) -> u64 {
        let (then, date) = self.began.unwrap_or((now, 0));
        let passed = now.saturating_duration_since(then).as_micros();
        let time = date.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        self.last = time.max(self.last.saturating_add(1));
        self.last
    }

    /// Whether no handshake of `member` with this time or a later one has become a link. Of members
    /// without a link so far, those from before our start are not new.
    pub(super) fn is_new(&self, member: &MemberId, time: u64) -> bool {
        let began = self.began.map_or(0, |(_, date)| date);
        time > self.known.get(member).copied().unwrap_or(began)
    }

    /// A handshake with `member`, which has shown `time`, has become a link.
    pub(super) fn learn(&mut self, member: MemberId, time: u64) {
        let known = self.known.entry(member).or_default();
        *known = time.max(*known);
        if self.known.len() > TIMES_REMEMBERED {
            let oldest = self.known.iter().min_by_key(|(_, time)| **time);
            if let Some(oldest) = oldest.map(|(member, _)| *member) {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_only_grow_and_are_bounded() {
        let now = Instant::now();
        let mut times = Times::default();
        times.begin(now, 1_000);
        let first = times.next(now);
        assert_eq!(first, 1_000);
        assert_eq!(times.next(now), first + 1);
        assert_eq!(times.next(now + Duration::from_millis(1)), 2_000);
        let member = |n: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            MemberId::new(bytes)
        };
        assert!(!times.is_new(&member(1), 1_000), "from before our start");
        times.learn(member(1), 5_000);
        times.learn(member(1), 4_000);
        assert!(!times.is_new(&member(1), 5_000) && times.is_new(&member(1), 5_001));
        for n in 2..TIMES_REMEMBERED + 10 {
            times.learn(member(n), 6_000);
        }
        assert_eq!(times.known.len(), TIMES_REMEMBERED);
        assert!(times.is_new(&member(1), 1_001), "the oldest is forgotten");
    }
}
