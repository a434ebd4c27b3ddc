//! Delays: the smoothed round-trip time, and how much of a delay is queueing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::{MAX_RTT, MIN_RTT};

/// How long one entry of the base history lasts. Source: the paper §4.1, "observed every minute".
const MINUTE: Duration = Duration::from_secs(60);

/// The round-trip time: smoothed, and the shortest.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
    shortest: Option<Duration>,
}

impl RoundTrip {
    /// Takes one sample and returns it without the receiver's delay.
    pub(crate) fn update(&mut self, rtt: Duration, receive_delay: Duration) -> Duration {
        let rtt = rtt.clamp(MIN_RTT, MAX_RTT);
        let shortest = self.shortest.map_or(rtt, |shortest| shortest.min(rtt));
        self.shortest = Some(shortest);
        // The receiver's word is taken only as far as a real round trip of this path bears it out
        // (RFC 9002 §5.3).
        let honest = rtt.saturating_sub(receive_delay);
        let sample = if honest >= shortest { honest } else { rtt };
        self.smoothed = Some(match self.smoothed {
            // RFC 6298 §2.3, α = 1/8. Both are at most MAX_RTT: no overflow.
            Some(smoothed) => (smoothed * 7 + sample) / 8,
            None => sample,
        });
        sample
    }

    /// Smoothed RTT.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }
}

/// Base delay and queueing delay of one kind of delay sample. Source: the paper §4.1.
#[derive(Clone, Debug)]
pub(crate) struct DelayHistory {
    /// The smallest delay of each of the last minutes, newest first; `None` for a minute without
    /// samples.
    minutes: VecDeque<Option<Duration>>,
    /// When the newest minute began.
    minute_began: Instant,
    /// The last samples, newest first.
    filter: VecDeque<Duration>,
    minutes_kept: usize,
    samples_kept: usize,
}

impl DelayHistory {
    pub(crate) fn new(now: Instant, minutes: usize, samples: usize) -> DelayHistory {
        DelayHistory {
            minutes: VecDeque::from([None]),
            minute_began: now,
            filter: VecDeque::new(),
            minutes_kept: minutes.max(1),
            samples_kept: samples.max(1),
        }
    }

    pub(crate) fn update(&mut self, now: Instant, delay: Duration) {
        self.roll(now);
        if let Some(newest) = self.minutes.front_mut() {
            *newest = Some(newest.map_or(delay, |smallest| smallest.min(delay)));
        }
        self.filter.push_front(delay);
        self.filter.truncate(self.samples_kept);
    }

    /// The smallest delay of the minutes that are kept.
    pub(crate) fn base(&self) -> Option<Duration> {
        self.minutes.iter().flatten().min().copied()
    }

    /// The smallest of the last samples, less the base.
    pub(crate) fn queueing(&self) -> Option<Duration> {
        let recent = *self.filter.iter().min()?;
        Some(recent.saturating_sub(self.base()?))
    }

    /// Opens the minute that `now` is in and forgets those that are too old.
    fn roll(&mut self, now: Instant) {
        let passed = now.duration_since(self.minute_began).as_secs() / MINUTE.as_secs();
        let Ok(passed) = u32::try_from(passed) else {
            return self.forget(now);
        };
        if usize::try_from(passed).is_ok_and(|passed| passed < self.minutes_kept) {
            for _ in 0..passed {
                self.minutes.push_front(None);
            }
            self.minutes.truncate(self.minutes_kept);
            // Not `now`: minutes would grow by the time between samples.
            let began = self.minute_began.checked_add(MINUTE * passed);
            self.minute_began = began.unwrap_or(now);
        } else {
            self.forget(now);
        }
    }

    fn forget(&mut self, now: Instant) {
        self.minutes = VecDeque::from([None]);
        self.minute_began = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch() -> Instant {
        crate::test_epoch()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn smoothing_follows_rfc_6298() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.smoothed(), None);
        rtt.update(ms(80), Duration::ZERO);
        rtt.update(ms(160), Duration::ZERO);
        assert_eq!(rtt.smoothed(), Some(ms(90)));
    }

    #[test]
    fn receive_delay_counts_down_to_the_shortest_rtt() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.update(ms(20), Duration::ZERO), ms(20));
        assert_eq!(rtt.update(ms(50), ms(25)), ms(25));
        assert_eq!(rtt.update(ms(50), ms(40)), ms(50));
        assert_eq!(rtt.update(Duration::MAX, Duration::ZERO), MAX_RTT);
    }

    #[test]
    fn the_filter_ignores_a_lone_spike() {
        let mut delays = DelayHistory::new(epoch(), 13, 3);
        assert_eq!(delays.queueing(), None);
        for delay in [20, 120, 30] {
            delays.update(epoch(), ms(delay));
        }
        assert_eq!(delays.queueing(), Some(Duration::ZERO));
        delays.update(epoch(), ms(90));
        assert_eq!(delays.queueing(), Some(ms(10)));
        assert_eq!(delays.base(), Some(ms(20)));
    }

    #[test]
    fn the_base_expires_after_its_minutes() {
        let mut delays = DelayHistory::new(epoch(), 13, 3);
        delays.update(epoch(), ms(20));
        let minutes = |n: u64| epoch() + Duration::from_secs(60 * n);
        for minute in 1..=12 {
            delays.update(minutes(minute), ms(50));
            assert_eq!(delays.base(), Some(ms(20)), "minute {minute}");
        }
        delays.update(minutes(13), ms(50));
        assert_eq!(delays.base(), Some(ms(50)));
        delays.update(minutes(100), ms(70));
        assert_eq!(delays.base(), Some(ms(70)));
    }

    #[test]
    fn a_clock_that_goes_back_keeps_the_history() {
        let mut delays = DelayHistory::new(epoch() + ms(500_000), 13, 3);
        delays.update(epoch() + ms(500_000), ms(20));
        delays.update(epoch(), ms(50));
        assert_eq!(delays.base(), Some(ms(20)));
    }
}
