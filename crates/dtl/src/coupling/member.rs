//! One group of a coupling: what it saw, what it has, and what it was served.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{CoupledGroup, Standing};
use crate::limits::{COUPLED_BINS, MAX_GROUP_FLOWS, MAX_PRIORITY, MIN_RTT, MIN_WEIGHT};

/// Length of a bin of time.
const BIN: Duration = Duration::from_millis(50);
/// Time in which a window comes to its part, and in which what was missed is made up for, in
/// seconds.
const SETTLES: f64 = 0.5;
const REPAID: f64 = 1.0;
/// Greatest part of what is due that is made up for at once, and for how many seconds of it at all.
const MOST_REPAID: f64 = 0.5;
const MOST_DEFICIT: f64 = 8.0;
/// Greatest step towards the part that is due, at once.
const MOST_STEP: f64 = 0.25;
/// Two groups that were taken to share a queue for no longer than this did not: each gets back what
/// it gave, up to so many times what it has.
const MISTAKE: Duration = Duration::from_secs(10);
const MOST_GIVEN: f64 = 4.0;
/// For how long a group counts after it was last heard of.
const HEARD: Duration = Duration::from_secs(1);

/// Its weight; what is none, or too large for sums, counts as none.
fn worth(standing: &Standing) -> f64 {
    let most = MAX_PRIORITY * MAX_GROUP_FLOWS as f64;
    if (MIN_WEIGHT..=most).contains(&standing.weight) {
        standing.weight
    } else {
        0.0
    }
}

/// Packets that left within a bin of time.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Bin {
    /// Bins since the origin.
    pub(super) number: u64,
    /// The shortest round trip in it, in seconds.
    pub(super) shortest: f64,
}

/// A group of a coupling.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The first group that waits in one queue with it.
    pub(super) set: CoupledGroup,
    pub(super) weight: f64,
    /// Bytes a second: its window, once in a round trip.
    pub(super) rate: f64,
    /// Bytes acknowledged ÷ weight, from an origin that all groups have in common.
    pub(super) served: f64,
    /// Since when it is not alone in its set, and by what its window has been changed there.
    since: Option<Instant>,
    given: f64,
    /// By what it is to change next: to come to its part, and to have back what it gave.
    step: f64,
    back: f64,
    reported: Option<Instant>,
    /// The bin that is filling.
    open: Option<Bin>,
    /// Those before it, oldest first.
    bins: VecDeque<Bin>,
}

impl Member {
    pub(super) fn new(id: CoupledGroup) -> Member {
        Member {
            set: id,
            weight: 0.0,
            rate: 0.0,
            served: 0.0,
            since: None,
            given: 1.0,
            step: 1.0,
            back: 1.0,
            reported: None,
            open: None,
            bins: VecDeque::new(),
        }
    }

    /// Comes to another set, or to itself.
    pub(super) fn moves(&mut self, now: Instant, set: CoupledGroup, alone: bool) {
        // What all were served is counted from an origin that each set has of its own, which may
        // have got or lost somebody.
        self.served = 0.0;
        self.set = set;
        if !alone {
            self.since.get_or_insert(now);
            return;
        }
        let since = self.since.take();
        if since.is_some_and(|since| now.saturating_duration_since(since) > MISTAKE) {
            self.given = 1.0;
        }
    }

    /// Makes up for what it has got or given in a set that was a mistake. Whose company only pauses
    /// goes on with what it has.
    pub(super) fn take_back(&mut self) {
        if self.since.is_none() {
            self.step = 1.0;
            self.back *= std::mem::replace(&mut self.given, 1.0).recip();
        }
    }

    /// What it has got or given was no mistake: somebody has left.
    pub(super) fn keep(&mut self) {
        self.given = 1.0;
    }

    /// The factor by which its window is to change now.
    pub(super) fn take_change(&mut self) -> f64 {
        let step = std::mem::replace(&mut self.step, 1.0);
        self.given = (self.given * step).clamp(1.0 / MOST_GIVEN, MOST_GIVEN);
        let change = step * std::mem::replace(&mut self.back, 1.0);
        change.clamp(1.0 / MOST_GIVEN, MOST_GIVEN)
    }

    /// Whether it had something to send lately.
    pub(super) fn counts(&self, now: Instant) -> bool {
        let heard = |at| now.saturating_duration_since(at) <= HEARD;
        self.weight > 0.0 && self.reported.is_some_and(heard)
    }

    /// Whether it has not counted until now, or not for as much.
    pub(super) fn begins(&self, now: Instant, standing: &Standing) -> bool {
        !self.counts(now) || self.weight.total_cmp(&worth(standing)).is_ne()
    }

    /// Takes what it has now.
    pub(super) fn report(&mut self, now: Instant, standing: &Standing, bytes: u64) {
        if !self.counts(now) {
            // What was planned before it paused was for the parts of that time.
            self.step = 1.0;
        }
        self.reported = Some(now);
        self.weight = worth(standing);
        self.rate = standing.window as f64 / standing.smoothed.max(MIN_RTT).as_secs_f64();
        if self.weight > 0.0 {
            self.served += bytes as f64 / self.weight;
        }
    }

    /// A packet that left so long after the origin took this round trip. Gives the bin that is
    /// closed by it.
    pub(super) fn look(&mut self, since: Duration, rtt: Duration) -> Option<Bin> {
        let number = u64::try_from(since.as_millis() / BIN.as_millis()).unwrap_or(u64::MAX);
        let rtt = rtt.as_secs_f64();
        match &mut self.open {
            Some(open) if number <= open.number => {
                // One from before the bin, after a loss, says nothing of it.
                if number == open.number {
                    open.shortest = open.shortest.min(rtt);
                }
                None
            }
            open => {
                let closed = open.replace(Bin {
                    number,
                    shortest: rtt,
                })?;
                if self.bins.len() >= COUPLED_BINS {
                    self.bins.pop_front();
                }
                self.bins.push_back(closed);
                Some(closed)
            }
        }
    }

    /// The shortest round trip of a bin that is closed.
    pub(super) fn seen(&self, bin: u64) -> Option<f64> {
        let newest_first = self.bins.iter().rev();
        let mut near = newest_first.take_while(|seen| seen.number >= bin);
        let seen = near.find(|seen| seen.number == bin);
        seen.map(|seen| seen.shortest)
    }

    /// What it lacks or owes is bounded: a group that could not send for long is not made up for
    /// all of it.
    pub(super) fn bound_deficit(&mut self, virtual_time: f64, rate: f64, weight: f64) {
        if weight > 0.0 {
            let most = MOST_DEFICIT * rate / weight;
            self.served = self.served.clamp(virtual_time - most, virtual_time + most);
        }
    }

    /// Its part of what all have, `rate` bytes a second for a weight of `weight`, and of what it
    /// lacks if all are served as far as `virtual_time`.
    pub(super) fn wanted(&self, virtual_time: f64, rate: f64, weight: f64) -> f64 {
        let due = rate * self.weight / weight;
        let deficit = (virtual_time - self.served) * self.weight / REPAID;
        let most = due * MOST_REPAID;
        due + deficit.clamp(-most, most)
    }

    /// Plans a step of so many seconds on the way to such a rate.
    pub(super) fn change(&mut self, passed: f64, wanted: f64) {
        let step = (passed / SETTLES).min(MOST_STEP);
        let factor = 1.0 + step * (wanted / self.rate - 1.0);
        // Who has nothing gives no number.
        if factor.is_finite() {
            let factor = factor.clamp(1.0 - MOST_STEP, 1.0 + MOST_STEP);
            self.step *= factor;
            // Until the next look.
            self.rate *= factor;
        }
    }
}
