//! By how much the window of priority 0 grows.

use std::time::Instant;

use super::super::queueing::Look;
use super::super::tuning::TUNING;
use super::Scavenger;
use super::contention::Step;

impl Scavenger {
    /// By how much to grow, in bytes: after a round with a queue of `queueing` seconds, which is
    /// not above the `target`.
    pub(super) fn growth(&mut self, now: Instant, look: &Look, queueing: f64, target: f64) -> f64 {
        let tuning = &TUNING.growth;
        let size = self.window / self.datagram;
        // Below one datagram a round lasts longer than a round trip.
        let step =
            tuning.step.get() * self.datagram * (size / tuning.at.get()).sqrt() / size.min(1.0);
        let step = step.min(self.window);
        if queueing >= target / 2.0 {
            // Where there is jitter, a spike that some were spared says nothing of the queue.
            let queue = look.least >= target / 4.0 || self.noise() == 0.0;
            if queue {
                self.empty = 0;
                self.on_queue(now);
            }
            // What others keep in it, BBR above all, is not room for us.
            let theirs = look.least - self.noise() >= target / 4.0 && self.phase.is_contested();
            return if theirs { 0.0 } else { step };
        }
        self.empty += 1;
        self.contention.on_empty(now);
        if self.phase.is_contested() {
            let step = self.contention.step(now);
            self.phase.on_empty(step);
            if let Some(trickle) = self.trickle(step, look) {
                return trickle - self.window;
            }
        } else if self.empty < tuning.empty_rounds {
            return step;
        }
        if self.window >= TUNING.returns.to.get() * self.share {
            self.phase.on_share();
            self.contention.on_share();
        }
        // The queue shows what was done two rounds ago.
        if self.empty.is_multiple_of(2) {
            0.0
        } else {
            self.leap(now, look, step)
        }
    }

    /// The window to which it keeps until others are taken to have gone, in bytes; `None` once they
    /// have.
    fn trickle(&self, step: Step, look: &Look) -> Option<f64> {
        let returns = &TUNING.returns;
        match step {
            Step::Wait => {
                let listening = returns.listening.get() * self.datagram * look.rtt;
                Some((returns.wait.get() * self.full_window()).min(listening))
            }
            Step::Probe => Some(returns.probe.get() * self.full_window()),
            Step::Return => None,
        }
    }

    /// By how much it grows after several rounds with an empty queue: up to its usual window, and
    /// later beyond it.
    fn leap(&self, now: Instant, look: &Look, step: f64) -> f64 {
        if self.window < TUNING.returns.to.get() * self.share {
            let rest = self.share - self.window;
            let factor = TUNING.returns.factor.get();
            // A TCP in a managed queue leaves it empty for seconds without having gone.
            let most = if self.is_managed(now) && self.contention.is_careful(now) {
                self.careful_step(look)
            } else {
                rest
            };
            (self.window * (factor - 1.0)).min(rest).min(most)
        } else if self.empty >= 4 * TUNING.growth.empty_rounds {
            let most = if self.is_managed(now) {
                self.careful_step(look)
            } else {
                f64::INFINITY
            };
            let factor = TUNING.growth.explore.get();
            (self.window * (factor - 1.0)).min(most).max(step)
        } else {
            step
        }
    }

    /// By how much the window may grow in a managed queue where the path may be full at any moment:
    /// in a return after others were met in one, and beyond what is known. It is what the target
    /// holds, for each of the path's own round trips in this one. Where the way back has a queue, a
    /// round takes several of them.
    fn careful_step(&self, look: &Look) -> f64 {
        let rounds = (look.rtt / self.base.get().unwrap_or(look.rtt)).max(1.0);
        (rounds * self.best_rate * self.target()).max(self.datagram)
    }
}
