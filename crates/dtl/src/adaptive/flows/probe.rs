//! Up from priority 0: a bounded probe towards the new share.
//!
//! The share is N of N + 1, as beside one other flow, of all that the path carries. Who had the
//! path to himself a moment ago knows its rate. Who did not learns it while his window doubles:
//! what he has more under way stands in the queue, so that the growth of the round trip shows how
//! fast the queue empties. A loss does not end the probe, because a queue that others keep full has
//! no room for anybody's share: they have to lose, too. As many do as bring a CUBIC down to what is
//! left to it: two for one flow, five for four (`TUNING.probe.left`).

use std::time::{Duration, Instant};

use crate::adaptive::tuning::TUNING;

/// What a flow has known of the path before the probe. Sizes in datagrams, times in seconds, rates
/// in datagrams a second.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Before {
    pub(in super::super) window: f64,
    pub(in super::super) rtt: f64,
    /// The best rate that it ever had.
    pub(in super::super) rate: f64,
    /// Since when it has looked at the path.
    pub(in super::super) began: Instant,
    /// Number of the next packet: what was sent before it is not the probe's.
    pub(in super::super) next: u64,
}

/// What was in flight in a round, and how long that took. Units as in [`Before`].
#[derive(Clone, Copy, Debug)]
struct Seen {
    window: f64,
    rtt: f64,
}

/// The state of a probe. Units as in [`Before`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Of the path's rate.
    share: f64,
    /// Overflows with which it ends.
    most: u32,
    /// What the path has given or must have, and how many rounds are missing until that counts as
    /// all that it can.
    rate: f64,
    missing: u32,
    began: Instant,
    ends: Instant,
    /// Overflows, and the first packet that was sent after the last.
    overflows: u32,
    answered: u64,
    /// The last round.
    last: Option<Seen>,
}

impl Probe {
    pub(super) fn begin(now: Instant, count: f64, before: &Before) -> Probe {
        let longest = TUNING
            .probe
            .longest
            .as_secs_f64()
            .max(TUNING.probe.longest_round_trips.get() * before.rtt);
        let longest = Duration::from_secs_f64(longest).min(TUNING.probe.longest_of_all);
        // Who has just come into others' queue has had no more than what he has now.
        let settled = now.saturating_duration_since(before.began) >= longest;
        let own = before.window >= TUNING.probe.own.get() * before.rate * before.rtt;
        let mut probe = Probe {
            share: 0.0,
            most: 0,
            rate: before.rate,
            missing: if settled && own {
                0
            } else {
                TUNING.probe.rounds
            },
            began: now,
            ends: now + longest,
            overflows: 0,
            answered: before.next,
            last: None,
        };
        probe.set_count(count);
        probe
    }

    /// The priority has changed again.
    pub(super) fn set_count(&mut self, count: f64) {
        self.share = count / (count + 1.0);
        self.most = ((count + 1.0).ln() / -TUNING.probe.left.get().ln()).ceil() as u32;
    }

    /// The window that it leads to, where the round trip takes `rtt`; infinite as long as that
    /// is not known.
    pub(super) fn goal(&self, rtt: f64) -> f64 {
        if self.missing == 0 {
            self.share * self.rate * rtt
        } else {
            f64::INFINITY
        }
    }

    /// A round has ended in which so much came through.
    pub(super) fn look(&mut self, rate: f64, rtt: f64) {
        let window = rate * rtt;
        if let Some(before) = self.last.replace(Seen { window, rtt })
            && window > before.window * TUNING.probe.larger.get()
            && rtt > before.rtt * TUNING.probe.longer.get()
        {
            self.rate = self.rate.max((window - before.window) / (rtt - before.rtt));
            self.missing = self.missing.saturating_sub(1);
        }
        self.rate = self.rate.max(rate);
    }

    /// A round of `rtt` has ended in which the application had too little to send: it says nothing,
    /// and takes no time of the probe's.
    pub(super) fn rest(&mut self, rtt: f64) {
        self.last = None;
        let rtt = Duration::try_from_secs_f64(rtt).unwrap_or(TUNING.probe.longest_of_all);
        self.ends = (self.ends + rtt.min(TUNING.probe.longest_of_all))
            .min(self.began + TUNING.probe.longest_of_all);
    }

    /// A packet was lost; `next` is the next one's number. True if the probe is over. What is lost
    /// together is one overflow, whichever flow's it was.
    pub(super) fn lost(&mut self, packet: u64, next: u64) -> bool {
        if packet >= self.answered {
            self.answered = next;
            self.overflows += 1;
        }
        self.overflows >= self.most
    }

    /// Growth of the window ÷ that of slow start: what is sent beyond the room in the queue is
    /// lost.
    pub(super) fn pace(&self) -> f64 {
        if self.missing == 0 || self.overflows > 0 {
            TUNING.probe.near.get()
        } else {
            1.0
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        // A clock that goes back must not make it last.
        let left = self.ends.saturating_duration_since(now);
        left.is_zero() || left > TUNING.probe.longest_of_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow that had a window of `window` of a path of 20 ms, and once a rate, for ten seconds.
    fn before(window: f64, rate: f64) -> Before {
        Before {
            window,
            rtt: 0.02,
            rate,
            began: crate::test_epoch(),
            next: 100,
        }
    }

    fn now() -> Instant {
        crate::test_epoch() + Duration::from_secs(10)
    }

    /// A path of 1 000 datagrams a second beside a TCP that keeps 10 of them waiting, of which one
    /// had little so far.
    fn beside_tcp(count: f64) -> Probe {
        Probe::begin(now(), count, &before(0.5, 100.0))
    }

    #[test]
    fn a_path_that_was_ones_own_is_known() {
        let probe = Probe::begin(now(), 3.0, &before(20.0, 1000.0));
        assert!((probe.goal(0.02) - 15.0).abs() < 1e-9);
        // Of one that was met a second ago it is not known whose it is.
        let early = crate::test_epoch() + Duration::from_secs(1);
        assert!(
            Probe::begin(early, 3.0, &before(20.0, 1000.0))
                .goal(0.02)
                .is_infinite()
        );
    }

    #[test]
    fn the_queue_shows_a_shared_paths_rate() {
        let mut probe = beside_tcp(1.0);
        assert!(probe.goal(0.03).is_infinite());
        // What is under way, and the time for it: each datagram makes it a millisecond longer.
        for (window, rtt) in [(2.0, 0.032), (4.0, 0.034), (8.0, 0.038)] {
            probe.look(window / rtt, rtt);
        }
        assert!((probe.goal(0.04) - 20.0).abs() < 1e-6, "{probe:?}");
        probe.set_count(3.0);
        assert!((probe.goal(0.04) - 30.0).abs() < 1e-6, "{probe:?}");
    }

    #[test]
    fn a_queue_that_hardly_grows_shows_nothing() {
        let mut probe = beside_tcp(1.0);
        for (window, rtt) in [(2.0, 0.032), (4.0, 0.025), (8.0, 0.0251), (16.0, 0.0252)] {
            probe.look(window / rtt, rtt);
        }
        assert!(probe.goal(0.03).is_infinite());
        // Nor does one round alone, in which others may have grown.
        probe.look(32.0 / 0.03, 0.03);
        assert!(probe.goal(0.03).is_infinite());
    }

    #[test]
    fn it_ends_with_the_second_overflow() {
        let mut probe = beside_tcp(1.0);
        assert!(!probe.lost(99, 120), "sent before the probe");
        assert!(!probe.lost(105, 120));
        assert!(!probe.lost(107, 121), "lost together with the first");
        assert!(probe.lost(120, 130));
    }

    #[test]
    fn only_time_with_data_ends_it() {
        let mut probe = beside_tcp(1.0);
        let after = |seconds| now() + Duration::from_secs(seconds);
        assert!(!probe.is_over(after(1)) && probe.is_over(after(3)));
        for _ in 0..100 {
            probe.rest(0.05);
        }
        assert!(!probe.is_over(after(3)) && probe.is_over(after(8)));
        for _ in 0..10_000 {
            probe.rest(0.05);
        }
        assert!(probe.is_over(after(60)));
    }
}
