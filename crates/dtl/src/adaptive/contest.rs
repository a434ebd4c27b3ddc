//! Whether others need the path, and how to find out that they no longer do.

use std::time::{Duration, Instant};

use super::tuning::TUNING;

/// What to do at an empty queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nobody has needed the path of late.
    Free,
    /// Others have, and may again in a moment.
    Wait,
    /// Send a trickle.
    Probe,
    /// They have gone.
    Return,
}

/// The state of a contest.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Contest {
    /// Until when others are taken to need the path.
    until: Option<Instant>,
    /// Rounds in a row with a queue that is not the work of scavengers, and when they began.
    foreign: Option<(u32, Instant)>,
    /// Since when the queue is empty.
    empty_since: Option<Instant>,
    /// For how many rounds a probe has gone well since.
    probed: u32,
    /// Whether the window is on its way back.
    returning: bool,
    /// When a return last met others, if none has come to its end since.
    mistaken: Option<Instant>,
}

impl Contest {
    /// The queue is not ours: somebody else needs the path.
    pub(super) fn begin(&mut self, now: Instant, rtt: f64) {
        let time = TUNING
            .contention
            .kept
            .as_secs_f64()
            .max(TUNING.contention.kept_round_trips.get() * rtt);
        self.until =
            Some(now + Duration::from_secs_f64(time.min(TUNING.contention.most.as_secs_f64())));
    }

    /// A round has ended, with or without a queue that is not the work of scavengers.
    pub(super) fn looks(&mut self, now: Instant, rtt: f64, foreign: bool) {
        if !foreign {
            self.foreign = None;
            return;
        }
        let (rounds, since) = self.foreign.unwrap_or((0, now));
        self.foreign = Some((rounds.saturating_add(1), since));
        let lasts = now.saturating_duration_since(since).as_secs_f64();
        if rounds + 1 >= TUNING.contention.rounds && lasts >= TUNING.contention.lasts.as_secs_f64()
        {
            self.begin(now, rtt);
        }
    }

    /// Whether others are taken to need the path.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        // Never for longer than it was set: a clock may go back.
        let left = |until: Instant| until.saturating_duration_since(now);
        self.until
            .is_some_and(|until| !left(until).is_zero() && left(until) <= TUNING.contention.most)
    }

    /// Whether a return has met others of late: they leave the queue empty now and then without
    /// having gone, as a TCP does after a loss where a queue is managed or short.
    pub(super) fn is_careful(&self, now: Instant) -> bool {
        let of_late = |at| now.saturating_duration_since(at) < TUNING.returns.careful;
        self.mistaken.is_some_and(of_late)
    }

    /// The window is what it was before others came: they have gone.
    pub(super) fn has_returned(&mut self) {
        self.returning = false;
        self.mistaken = None;
    }

    /// There is a queue.
    pub(super) fn queued(&mut self, now: Instant) {
        if self.returning {
            self.returning = false;
            self.mistaken = Some(now);
        }
        self.empty_since = None;
        self.probed = 0;
    }

    /// A round has ended without a queue.
    pub(super) fn empty(&mut self, now: Instant) -> Step {
        let since = *self.empty_since.get_or_insert(now);
        if !self.is_on(now) {
            return Step::Free;
        }
        let empty = now.saturating_duration_since(since).as_secs_f64();
        let rounds = if empty
            < TUNING.returns.hold.as_secs_f64() + TUNING.returns.probe_time.as_secs_f64()
        {
            TUNING.returns.probe_rounds
        } else {
            TUNING.returns.probe_least
        };
        if empty < TUNING.returns.hold.as_secs_f64() {
            Step::Wait
        } else if self.probed < rounds {
            self.probed += 1;
            Step::Probe
        } else {
            self.returning = true;
            Step::Return
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contest that began at `now`, at an empty queue since, asked every 20 ms until it says to
    /// return, and when that was.
    fn returned(contest: &mut Contest, mut now: Instant) -> Instant {
        contest.begin(now, 0.020);
        contest.queued(now);
        while contest.empty(now) != Step::Return {
            now += Duration::from_millis(20);
        }
        now
    }

    #[test]
    fn a_return_begins_after_the_queue_was_empty_and_a_trickle_has_not_filled_it() {
        let began = crate::test_epoch();
        let mut contest = Contest::default();
        let waited = returned(&mut contest, began) - began;
        assert!((300..500).contains(&waited.as_millis()), "{waited:?}");
        assert!(!contest.is_careful(began + waited));
    }

    #[test]
    fn whoever_met_others_in_a_return_is_careful_until_one_has_come_to_its_end() {
        let began = crate::test_epoch();
        let mut contest = Contest::default();
        // A queue before the return says nothing.
        contest.queued(began);
        assert!(!contest.is_careful(began));
        let met = returned(&mut contest, began);
        contest.queued(met);
        assert!(contest.is_careful(met));
        assert!(contest.is_careful(met + TUNING.returns.careful / 2));
        assert!(!contest.is_careful(met + TUNING.returns.careful));
        let again = returned(&mut contest, met);
        assert!(contest.is_careful(again));
        contest.has_returned();
        assert!(!contest.is_careful(again));
        // Whoever comes later is met by a flow that has returned.
        contest.queued(again);
        assert!(!contest.is_careful(again));
    }
}
