//! One virtual flow: the window of a CUBIC (RFC 9438) as the Linux kernel has it, in whole packets.
//!
//! Where windows are of a few packets, whole packets make a difference: 0.7 of 7 is 4. The flows
//! that N is to be worth have such windows.

use std::time::{Duration, Instant};

use crate::adaptive::tuning::TUNING;

/// Datagrams by which a Reno of the same back-off grows in a round trip, RFC 9438 §4.3. Linux keeps
/// to it for ever; the RFC's return to 1 above the former window is not in the flows that N is to
/// be worth.
const ALPHA: f64 = 3.0 * (1.0 - TUNING.cubic.beta.get()) / (1.0 + TUNING.cubic.beta.get());

/// A window, its epoch and its recovery.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    /// In datagrams, as if it were a whole flow.
    pub(super) window: f64,
    /// How many flows it stands for, and how many times as many as when it last doubled up to what
    /// it stands for, or lost.
    pub(super) weight: f64,
    risen: f64,
    pub(super) threshold: f64,
    /// The window before the last loss.
    pub(super) most: f64,
    epoch: Option<Epoch>,
    /// Acknowledged datagrams that have not made the window grow yet.
    credit: f64,
    /// Losses of packets before this one are answered.
    pub(super) recovered_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    k: f64,
    origin: f64,
    /// What a Reno would have, and acknowledged datagrams towards its next.
    reno: f64,
    acked: f64,
}

impl Cubic {
    pub(super) fn new(window: f64, threshold: f64) -> Cubic {
        Cubic {
            window: window.max(TUNING.cubic.least.get()),
            weight: 1.0,
            risen: 1.0,
            threshold,
            most: 0.0,
            epoch: None,
            credit: 0.0,
            recovered_at: 0,
        }
    }

    /// Stands for `weight` of a flow from now on. What it gives up it gives at once; for much more
    /// it keeps what it has under way, and doubles that up to what a flow of its window would
    /// have. While it doubles, what is under way stays the same either way.
    pub(super) fn weigh(&mut self, weight: f64) {
        let more = weight / self.weight;
        self.weight = weight;
        if self.in_slow_start() {
            self.window = (self.window / more)
                .max(TUNING.cubic.least.get())
                .min(self.threshold);
            return;
        }
        self.risen = (self.risen * more).max(1.0);
        if self.risen > TUNING.cubic.at_once.get() {
            self.threshold = self.window;
            self.most = self.most.max(self.window);
            // What smaller steps have taken at once is given back.
            self.window = (self.window / self.risen).max(TUNING.cubic.least.get());
            self.risen = 1.0;
            self.epoch = None;
        }
    }

    /// The window that it has, or that it doubles up to after it had that.
    pub(super) fn has_had(&self) -> f64 {
        let known = self.in_slow_start() && self.most > 0.0 && self.threshold.is_finite();
        if known { self.threshold } else { self.window }
    }

    /// Its part of the aggregate, in datagrams.
    pub(super) fn part(&self) -> f64 {
        self.window * self.weight
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// So many of its datagrams were acknowledged.
    pub(super) fn grow(&mut self, now: Instant, acked: f64, rtt: f64) {
        // As if it were a whole flow.
        let acked = acked / self.weight;
        if self.in_slow_start() {
            self.window = (self.window + acked).min(self.threshold.max(self.window));
            return;
        }
        let every = self.every(now, acked, rtt);
        if self.credit >= every {
            self.credit = 0.0;
            self.window += 1.0;
        }
        self.credit += acked;
        let steps = (self.credit / every).floor();
        self.credit -= steps * every;
        self.window += steps;
    }

    /// Acknowledged datagrams for which the window grows by one.
    fn every(&mut self, now: Instant, acked: f64, rtt: f64) -> f64 {
        let (window, most) = (self.window, self.most);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            k: ((most - window).max(0.0) / TUNING.cubic.c.get()).cbrt(),
            origin: most.max(window),
            reno: window,
            acked: 0.0,
        });
        let time = now.saturating_duration_since(epoch.began).as_secs_f64() + rtt;
        let target = epoch.origin + TUNING.cubic.c.get() * (time - epoch.k).powi(3);
        // Linux aims at the curve a round trip ahead, and grows hardly at all where it is reached.
        let mut every = if target > window {
            window / (target - window)
        } else {
            TUNING.cubic.at_curve.get() * window
        };
        if most == 0.0 {
            every = every.min(TUNING.cubic.slowest_at_first.get());
        }
        epoch.acked += acked;
        let round = window / ALPHA;
        let steps = (epoch.acked / round).floor();
        epoch.acked -= steps * round;
        epoch.reno += steps;
        if epoch.reno > window {
            every = every.min(window / (epoch.reno - window));
        }
        every.max(TUNING.cubic.fastest.get())
    }

    /// Did not grow for so long because it did not use what it may: that time does not count (RFC
    /// 9438 §4.2).
    pub(super) fn rest(&mut self, time: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.began += time;
        }
    }

    /// Takes so many times what it has and has had, as if it had always been so.
    pub(super) fn scale(&mut self, factor: f64) {
        self.window = (self.window * factor).max(TUNING.cubic.least.get());
        self.threshold *= factor;
        self.most *= factor;
        if let Some(epoch) = &mut self.epoch {
            epoch.origin *= factor;
            epoch.reno *= factor;
        }
    }

    /// Takes a cut back: it has again what it had `before` it, or more if it has grown to more.
    pub(super) fn undo(&mut self, before: &Cubic) {
        self.window = self.window.max(before.window);
        self.threshold = before.threshold;
        self.most = before.most;
        self.epoch = before.epoch;
        self.risen = before.risen;
        self.recovered_at = before.recovered_at;
    }

    /// Answers a loss that counts for `losses`.
    pub(super) fn cut(&mut self, next: u64, losses: f64) {
        self.recovered_at = next;
        self.risen = 1.0;
        self.epoch = None;
        let left = (self.window * TUNING.cubic.beta.get().powf(losses))
            .floor()
            .max(TUNING.cubic.after_loss.get());
        // The window before the last of them: where the next epoch's plateau is.
        let before = (self.window * TUNING.cubic.beta.get().powf(losses - 1.0)).max(left);
        self.most = if before < self.most {
            before * (1.0 + TUNING.cubic.beta.get()) / 2.0
        } else {
            before
        };
        self.threshold = left;
        self.window = left;
    }
}
