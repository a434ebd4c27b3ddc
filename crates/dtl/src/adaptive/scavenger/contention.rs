//! What shows that others need the path, and that they no longer do.

use std::time::{Duration, Instant};

use super::super::tuning::TUNING;

/// What to do at an empty queue of a contested path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Others may need it again in a moment.
    Wait,
    /// Send a trickle.
    Probe,
    /// They have gone.
    Return,
}

/// Rounds in a row with a queue that is not the work of scavengers.
#[derive(Copy, Clone, Debug)]
struct Foreign {
    rounds: u32,
    since: Instant,
}

/// What rounds have shown of others.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Contention {
    foreign: Option<Foreign>,
    /// Since when the queue is empty.
    empty_since: Option<Instant>,
    /// Rounds of a probe since then.
    probed: u32,
    /// When a return last met others, if none has come to its end since.
    mistaken: Option<Instant>,
}

/// Until when the path counts as contested that is contested now.
pub(super) fn until(now: Instant, rtt: f64) -> Instant {
    let kept = TUNING.contention.kept.as_secs_f64();
    let time = kept.max(TUNING.contention.kept_round_trips.get() * rtt);
    now + Duration::from_secs_f64(time.min(TUNING.contention.most.as_secs_f64()))
}

impl Contention {
    /// A round has ended, with or without a queue that is not the work of scavengers: true if there
    /// have been enough of them to say that others need the path.
    pub(super) fn on_round(&mut self, now: Instant, foreign: bool) -> bool {
        if !foreign {
            self.foreign = None;
            return false;
        }
        let mut run = self.foreign.unwrap_or(Foreign {
            rounds: 0,
            since: now,
        });
        run.rounds = run.rounds.saturating_add(1);
        self.foreign = Some(run);
        let lasted = now.saturating_duration_since(run.since);
        run.rounds >= TUNING.contention.rounds && lasted >= TUNING.contention.lasts
    }

    /// Whether a return has met others lately: they leave the queue empty now and then without
    /// having gone, as a TCP does after a loss where a queue is managed or short.
    pub(super) fn is_careful(&self, now: Instant) -> bool {
        let lately = |at| now.saturating_duration_since(at) < TUNING.returns.careful;
        self.mistaken.is_some_and(lately)
    }

    /// The window is what it was before others came.
    pub(super) fn on_share(&mut self) {
        self.mistaken = None;
    }

    /// There is a queue, by which a return has `met` others or not.
    pub(super) fn on_queue(&mut self, now: Instant, met: bool) {
        if met {
            self.mistaken = Some(now);
        }
        self.empty_since = None;
        self.probed = 0;
    }

    /// A round has ended without a queue.
    pub(super) fn on_empty(&mut self, now: Instant) {
        self.empty_since.get_or_insert(now);
    }

    /// What to do after such a round, if the path is contested.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        let (returns, since) = (&TUNING.returns, self.empty_since.unwrap_or(now));
        let empty = now.saturating_duration_since(since).as_secs_f64();
        let hold = returns.hold.as_secs_f64();
        // Few rounds are enough where they take long.
        let rounds = if empty < hold + returns.probe_time.as_secs_f64() {
            returns.probe_rounds
        } else {
            returns.probe_least
        };
        if empty < hold {
            Step::Wait
        } else if self.probed < rounds {
            self.probed += 1;
            Step::Probe
        } else {
            Step::Return
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path whose queue is empty from `now` on, looked at every 20 ms until it is time to return,
    /// and when that was.
    fn returned(contention: &mut Contention, mut now: Instant) -> Instant {
        contention.on_queue(now, false);
        loop {
            contention.on_empty(now);
            if contention.step(now) == Step::Return {
                return now;
            }
            now += Duration::from_millis(20);
        }
    }

    #[test]
    fn a_return_follows_an_empty_queue() {
        let began = crate::test_epoch();
        let mut contention = Contention::default();
        let waited = returned(&mut contention, began) - began;
        assert!((300..500).contains(&waited.as_millis()), "{waited:?}");
        assert!(!contention.is_careful(began + waited));
    }

    #[test]
    fn a_mistaken_return_makes_later_ones_careful() {
        let began = crate::test_epoch();
        let mut contention = Contention::default();
        let met = returned(&mut contention, began);
        contention.on_queue(met, true);
        let careful = TUNING.returns.careful;
        assert!(contention.is_careful(met));
        assert!(contention.is_careful(met + careful / 2));
        assert!(!contention.is_careful(met + careful));
        let again = returned(&mut contention, met);
        assert!(contention.is_careful(again));
        contention.on_share();
        assert!(!contention.is_careful(again));
        // Who comes later is met by a flow that has returned.
        contention.on_queue(again, false);
        assert!(!contention.is_careful(again));
    }

    #[test]
    fn a_long_queue_has_to_last() {
        let began = crate::test_epoch();
        let at = |ms| began + Duration::from_millis(ms);
        let mut contention = Contention::default();
        let looks = [0, 40, 80, 120].map(|ms| contention.on_round(at(ms), true));
        assert_eq!(looks, [false, false, false, true]);
        assert!(!contention.on_round(at(160), false));
        assert!(!contention.on_round(at(400), true));
    }
}
