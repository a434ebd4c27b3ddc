//! How much this member has to doubt itself before it takes others for dead.
//!
//! When a machine has more to do than it can, answers come late, and a member that waits for them
//! sees silence. To take that for death, to ask others instead and to look for what was lost is
//! more work still: a ring that is overloaded once can stay so for ever. So each member measures
//! two things that no silence can change, and that honest machines show only when they are slow:
//!
//! - how late its own timers are handled;
//! - how long answers take, also those that come after their request was given up. The median
//!   counts, and the dead do not answer. Members that give half of the answers, as two neighbours
//!   may, can lengthen it, and so make this member slow to believe in deaths, but nothing else.
//!
//! Their larger one, in time-outs, is the *multiplier* (local health): 1 for a healthy member, up
//! to [`MAX_HEALTH_MULTIPLIER`]. Time-outs are as many times as long, and what can wait is done so
//! much less often.
//!
//! Source: Dadgar, Phillips and Currey, "Lifeguard: Local Health Awareness for More Accurate
//! Failure Detection", 2018, whose local health goes by unanswered probes: here malicious routers
//! could raise those at will. Rhea and others, "Handling Churn in a DHT", 2004, §4.3, for
//! time-outs by what answers take; Bronson and others, "Metastable Failures in Distributed
//! Systems", 2021, for why repair must not feed on its own failure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::key::RingKey;
use crate::limits::{HEALTH_SAMPLES, MAX_GIVEN_UP, MAX_HEALTH_MULTIPLIER};
use crate::message::RequestId;

/// A request that was given up.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    id: RequestId,
    to: RingKey,
    sent: Instant,
}

/// What a member knows of its own slowness.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// How long the latest answers took, the oldest first.
    times: VecDeque<Duration>,
    /// Their median; zero before there are enough.
    usual: Duration,
    /// How late own timers are: at once as late as the latest, and forgotten slowly.
    lateness: Duration,
    /// Requests whose answers may still come.
    given_up: VecDeque<GivenUp>,
}

impl Health {
    /// An answer came after so long.
    pub(crate) fn answered(&mut self, time: Duration) {
        if self.times.len() >= HEALTH_SAMPLES {
            self.times.pop_front();
        }
        self.times.push_back(time);
        let mut sorted = [Duration::MAX; HEALTH_SAMPLES];
        let known = sorted.iter_mut().zip(&self.times);
        known.for_each(|(to, from)| *to = *from);
        let enough = self.times.len() >= HEALTH_SAMPLES / 2;
        let middle = self.times.len().saturating_sub(1) / 2;
        let (_, median, _) = sorted.select_nth_unstable(middle);
        self.usual = if enough { *median } else { Duration::ZERO };
    }

    /// A timer that was due at `due` is handled at `now`. What is later than `most` counts as that.
    pub(crate) fn handled(&mut self, now: Instant, due: Instant, most: Duration) {
        let late = now.saturating_duration_since(due).min(most);
        let forgotten = self.lateness.mul_f64(0.875) + late / 8;
        self.lateness = late.max(forgotten);
    }

    /// A request is given up, and its answer may come later.
    pub(crate) fn gave_up(&mut self, id: RequestId, to: RingKey, sent: Instant) {
        if self.given_up.len() >= MAX_GIVEN_UP {
            self.given_up.pop_front();
        }
        self.given_up.push_back(GivenUp { id, to, sent });
    }

    /// An answer to no open request; true if it belongs to one that was given up.
    pub(crate) fn answered_late(&mut self, now: Instant, from: RingKey, id: RequestId) -> bool {
        let belongs = |request: &GivenUp| request.id == id && request.to == from;
        let Some(at) = self.given_up.iter().position(belongs) else {
            return false;
        };
        if let Some(request) = self.given_up.remove(at) {
            self.answered(now.saturating_duration_since(request.sent));
        }
        true
    }

    /// By how much this member's time-outs have to be longer than `timeout`: 1 to
    /// [`MAX_HEALTH_MULTIPLIER`].
    pub(crate) fn multiplier(&self, timeout: Duration) -> f64 {
        let slow = self.usual.max(self.lateness).saturating_mul(2);
        (slow.as_secs_f64() / timeout.as_secs_f64()).clamp(1.0, MAX_HEALTH_MULTIPLIER)
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test needs some moment to begin at"
)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(500);

    #[test]
    fn late_answers_raise_the_multiplier() {
        let mut health = Health::default();
        health.answered(Duration::from_secs(1));
        assert_eq!(health.multiplier(TIMEOUT), 1.0, "one answer says nothing");
        (0..HEALTH_SAMPLES).for_each(|_| health.answered(Duration::from_secs(1)));
        assert_eq!(health.multiplier(TIMEOUT), 4.0);
        (0..HEALTH_SAMPLES).for_each(|_| health.answered(Duration::from_secs(60)));
        assert_eq!(health.multiplier(TIMEOUT), MAX_HEALTH_MULTIPLIER);
        (0..HEALTH_SAMPLES).for_each(|_| health.answered(Duration::from_millis(40)));
        assert_eq!(health.multiplier(TIMEOUT), 1.0);
    }

    #[test]
    fn fewer_than_half_do_not_raise_the_multiplier() {
        let mut health = Health::default();
        for n in 0..10 * HEALTH_SAMPLES {
            let slow = n % 5 < 2;
            health.answered(Duration::from_millis(if slow { 9_000 } else { 50 }));
            assert_eq!(health.multiplier(TIMEOUT), 1.0);
        }
    }

    #[test]
    fn a_late_timer_counts_at_once_then_fades() {
        let mut health = Health::default();
        let now = Instant::now();
        health.handled(now + Duration::from_secs(3_600), now, 4 * TIMEOUT);
        assert_eq!(health.multiplier(TIMEOUT), MAX_HEALTH_MULTIPLIER);
        (0..20).for_each(|_| health.handled(now, now, TIMEOUT));
        assert_eq!(health.multiplier(TIMEOUT), 1.0);
    }

    #[test]
    fn only_requested_answers_count_as_late() {
        let mut health = Health::default();
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(2));
        let (peer, other) = (RingKey::ZERO, RingKey::MAX);
        for id in 0..20 {
            health.gave_up(id, peer, now);
            assert!(!health.answered_late(later, other, id));
            assert!(!health.answered_late(later, peer, id + 1));
            assert!(health.answered_late(later, peer, id));
            assert!(!health.answered_late(later, peer, id), "only once");
        }
        assert!(health.multiplier(TIMEOUT) > 1.0);
    }
}
