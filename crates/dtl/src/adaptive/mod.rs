//! The default algorithm: [`scavenger`] at priority 0, [`flows`] above it, and the rules by which one becomes the other.

mod base;
mod contest;
mod flows;
mod losses;
mod queueing;
mod scavenger;

use std::time::{Duration, Instant};

use self::base::Base;
use self::flows::Flows;
use self::scavenger::{Sample, Scavenger, Verdict};
use crate::config::Config;
use crate::limits::MAX_WINDOW;
use crate::priority::Priority;
use crate::report::LimitedBy;

/// What is left of the best rate after a round.
const BEST_RATE_KEPT: f64 = 0.999;
/// Round trips after which a round has ended whatever was acknowledged.
const LONGEST_ROUND: u32 = 8;
/// Smallest window, in datagrams: about one in twenty round trips, so that a flow still learns what the path is like.
const LEAST_WINDOW: f64 = 0.05;

#[derive(Clone, Debug)]
enum Rule {
    Scavenger(Box<Scavenger>),
    Flows(Flows),
}

/// A batch of acknowledgements.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Batch {
    /// Bytes acknowledged.
    pub(crate) bytes: u64,
    /// Round trip of the newest packet, without what the receiver held the acknowledgement back.
    pub(crate) rtt: Duration,
    /// The time of the way there, by two clocks, if it is measured.
    pub(crate) one_way: Option<Duration>,
    /// Smoothed round trip.
    pub(crate) smoothed: Duration,
    /// Number of the newest packet.
    pub(crate) newest: u64,
    /// Whether the window was used.
    pub(crate) may_grow: bool,
}

/// The state of the default algorithm.
#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    rule: Rule,
    datagram: f64,
    next: u64,
    /// The packet with whose acknowledgement the round ends, when it began, and what was acknowledged since.
    round_end: u64,
    round_began: Instant,
    round_bytes: u64,
    may_grow: bool,
    smoothed: Duration,
    last_cut: Option<LimitedBy>,
    /// Best rate at which data was acknowledged, bytes a second.
    best_rate: f64,
    /// What the flows knew of the path's delay.
    base: Base,
}

impl Adaptive {
    pub(crate) fn new(now: Instant, config: &Config, priority: Priority) -> Adaptive {
        let datagram = config.datagram_size as f64;
        let base = Base::new(now);
        let window = config.initial_window as f64;
        let rule = if priority.is_scavenger() {
            Rule::Scavenger(Box::new(Scavenger::new(
                now,
                window,
                datagram,
                true,
                base.clone(),
            )))
        } else {
            Rule::Flows(Flows::new(priority.get(), window / datagram, f64::INFINITY))
        };
        Adaptive {
            rule,
            datagram,
            next: 0,
            round_end: 0,
            round_began: now,
            round_bytes: 0,
            may_grow: false,
            smoothed: Duration::ZERO,
            last_cut: None,
            best_rate: 0.0,
            base,
        }
    }

    pub(crate) fn is_scavenger(&self) -> bool {
        matches!(self.rule, Rule::Scavenger(_))
    }

    /// Bytes that may be in flight.
    pub(crate) fn window(&self) -> f64 {
        let window = match &self.rule {
            Rule::Scavenger(scavenger) => scavenger.window(),
            // Rounded: a byte too few holds the second packet of a pair back.
            Rule::Flows(flows) => (flows.window().max(LEAST_WINDOW) * self.datagram).round(),
        };
        // `max` also turns NaN into the smallest window.
        window.max(1.0).min(MAX_WINDOW as f64)
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        match &self.rule {
            Rule::Scavenger(scavenger) => scavenger.in_slow_start(),
            Rule::Flows(flows) => flows.in_slow_start(),
        }
    }

    /// Pacing rate ÷ (window ÷ round trip) after slow start; `usual` is that of N flows.
    pub(crate) fn pacing_gain(&self, usual: f64) -> f64 {
        match &self.rule {
            Rule::Scavenger(scavenger) => scavenger.pacing_gain(self.smoothed.as_secs_f64()),
            // Windows below what QUIC can have in flight are kept by the rate alone.
            _ if self.window() < 2.0 * self.datagram => 1.0,
            Rule::Flows(_) => usual,
        }
    }

    pub(crate) fn on_sent(&mut self, packet: u64, bytes: u64) {
        self.next = packet.saturating_add(1);
        if let Rule::Flows(flows) = &mut self.rule {
            flows.on_sent(packet, bytes as f64 / self.datagram);
        }
    }

    /// A packet arrived; its batch is not over yet.
    pub(crate) fn on_arrived(&mut self, now: Instant, packet: u64) {
        if let Rule::Flows(flows) = &mut self.rule {
            flows.on_arrived(now, packet, self.smoothed.as_secs_f64());
        }
    }

    pub(crate) fn on_datagram_size(&mut self, bytes: u64) {
        self.datagram = bytes as f64;
        if let Rule::Scavenger(scavenger) = &mut self.rule {
            scavenger.set_datagram(self.datagram);
        }
    }

    pub(crate) fn on_acked(&mut self, now: Instant, batch: &Batch) {
        let rtt = batch.rtt.as_secs_f64();
        let one_way = batch.one_way.map(|delay| delay.as_secs_f64());
        self.smoothed = batch.smoothed;
        self.round_bytes = self.round_bytes.saturating_add(batch.bytes);
        self.may_grow |= batch.may_grow;
        let mut verdict = None;
        match &mut self.rule {
            Rule::Scavenger(scavenger) => {
                let sample = Sample {
                    rtt,
                    one_way,
                    bytes: batch.bytes as f64,
                    may_grow: batch.may_grow,
                };
                verdict = scavenger.on_acked(now, &sample);
            }
            Rule::Flows(flows) => {
                self.base.update(now, rtt, one_way);
                flows.on_acked(now, batch.newest, rtt, batch.may_grow);
            }
        }
        // A clock that goes back must not make a round last for ever.
        self.round_began = self.round_began.min(now);
        let lasted = now.saturating_duration_since(self.round_began);
        // Where packet numbers begin anew, time ends the round.
        let long = lasted >= batch.smoothed.saturating_mul(LONGEST_ROUND);
        if batch.newest >= self.round_end || long {
            self.round_end = self.next;
            let span = lasted.as_secs_f64();
            let rate = if span > 0.0 {
                self.round_bytes as f64 / span
            } else {
                0.0
            };
            self.best_rate = (self.best_rate * BEST_RATE_KEPT).max(rate);
            self.round_began = now;
            self.round_bytes = 0;
            let may_grow = std::mem::take(&mut self.may_grow);
            match &mut self.rule {
                Rule::Scavenger(scavenger) => {
                    scavenger.knows(self.best_rate);
                    verdict = verdict.or(scavenger.on_round(now, rate, may_grow));
                }
                Rule::Flows(flows) => flows.on_round(),
            }
        }
        match verdict {
            Some(Verdict::Yields) => self.last_cut = Some(LimitedBy::Yielding),
            Some(Verdict::Grows) | None => {}
        }
    }

    /// A packet was lost.
    pub(crate) fn on_lost(&mut self, packet: u64) {
        match &mut self.rule {
            Rule::Flows(flows) => {
                if flows.on_lost(packet, self.next) {
                    self.last_cut = Some(LimitedBy::Loss);
                }
            }
            Rule::Scavenger(scavenger) => scavenger.on_lost(),
        }
    }

    /// Losses or marks, at most once in a round trip; `persistent` when nothing came through for long. Lost packets have been
    /// told one by one; `mark` is that of a packet that came through.
    pub(crate) fn on_congestion(&mut self, persistent: bool, mark: bool) {
        match &mut self.rule {
            Rule::Scavenger(scavenger) => {
                scavenger.on_loss(self.smoothed.as_secs_f64(), persistent, mark);
                self.last_cut = Some(LimitedBy::Loss);
            }
            Rule::Flows(flows) if persistent => {
                flows.on_persistent(self.next);
                self.last_cut = Some(LimitedBy::Loss);
            }
            Rule::Flows(flows) => {
                if mark && flows.on_mark(self.next) {
                    self.last_cut = Some(LimitedBy::Loss);
                }
            }
        }
    }

    /// The priority has changed.
    pub(crate) fn set_priority(&mut self, now: Instant, priority: Priority) {
        match (&mut self.rule, priority.is_scavenger()) {
            (Rule::Scavenger(_), true) => {}
            (Rule::Flows(flows), false) => flows.set_count(priority.get()),
            (Rule::Scavenger(scavenger), false) => {
                self.base = scavenger.base.clone();
                let window = scavenger.good_window() / self.datagram;
                // Up by a bounded probe: as fast as slow start, as far as N of N + 1 flows' share of the best that the path has given.
                let flows = priority.get();
                let share = scavenger.full_window() / self.datagram * flows / (flows + 1.0);
                let bound = if scavenger.in_slow_start() {
                    f64::INFINITY
                } else {
                    share
                };
                self.rule = Rule::Flows(Flows::new(flows, window, bound));
            }
            (Rule::Flows(flows), true) => {
                let slow_start = flows.in_slow_start();
                // Down at once: nothing of ours is to stand in the queue.
                let smoothed = self.smoothed.as_secs_f64();
                let base = self.base.get().unwrap_or(smoothed);
                let share = if smoothed > 0.0 {
                    (base / smoothed).min(1.0)
                } else {
                    1.0
                };
                let window = flows.window().max(LEAST_WINDOW) * self.datagram * share;
                let base = self.base.clone();
                let mut scavenger = Scavenger::new(now, window, self.datagram, slow_start, base);
                scavenger.knows(self.best_rate);
                self.rule = Rule::Scavenger(Box::new(scavenger));
            }
        }
    }

    /// Why the window is not larger.
    pub(crate) fn limited_by(&self) -> LimitedBy {
        if self.in_slow_start() {
            LimitedBy::SlowStart
        } else {
            self.last_cut.unwrap_or(LimitedBy::Growth)
        }
    }
}
