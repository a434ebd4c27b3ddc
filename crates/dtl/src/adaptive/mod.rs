//! The default algorithm: [`scavenger`] at priority 0, [`flows`] above it, and the rules by which
//! one becomes the other.

mod base;
mod flows;
mod losses;
mod queueing;
mod scavenger;
mod shallow;
mod target;
mod tuning;

use std::time::{Duration, Instant};

use self::base::Base;
use self::flows::{Before, Flows};
use self::scavenger::{Former, Sample, Scavenger, Verdict};
use self::shallow::Shallow;
use self::tuning::TUNING;
use crate::config::Config;
use crate::limits::MAX_WINDOW;
use crate::priority::Priority;
use crate::report::LimitedBy;

#[derive(Clone, Debug)]
enum Rule {
    Scavenger(Box<Scavenger>),
    Flows(Box<Flows>),
}

/// A batch of acknowledgements.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Batch {
    /// Bytes acknowledged.
    pub(crate) bytes: u64,
    /// Round trip of the newest packet, without what the receiver held the acknowledgement back.
    pub(crate) rtt: Duration,
    /// By how much it may have been longer.
    pub(crate) rtt_error: Duration,
    /// The time of the way there, by two clocks, if it is measured.
    pub(crate) one_way: Option<Duration>,
    /// Smoothed round trip.
    pub(crate) smoothed: Duration,
    /// Number and size of the newest packet.
    pub(crate) newest: u64,
    pub(crate) size: u64,
    /// Whether the window was used.
    pub(crate) may_grow: bool,
}

/// What made the window smaller last.
#[derive(Copy, Clone, Debug)]
struct Cut {
    reason: LimitedBy,
    at: Instant,
    /// The window before it, in bytes.
    window: f64,
}

/// The state of the default algorithm.
#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    rule: Rule,
    datagram: f64,
    /// Since when the path is looked at.
    began: Instant,
    next: u64,
    /// The packet with whose acknowledgement the round ends, when it began, and what was
    /// acknowledged since.
    round_end: u64,
    round_began: Instant,
    round_bytes: u64,
    may_grow: bool,
    smoothed: Duration,
    /// When the last acknowledgement came.
    acked_at: Instant,
    cut: Option<Cut>,
    /// Best rate at which data was acknowledged, bytes a second.
    best_rate: f64,
    /// Size of the largest recent packet, and of all.
    largest: f64,
    largest_ever: f64,
    /// What the flows knew of the path's delay.
    base: Base,
    /// What they know of the queue's length.
    shallow: Shallow,
    /// By how much packets are late at most because the path reorders them.
    reordering: Duration,
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
            Rule::Flows(Box::new(Flows::new(
                priority.get(),
                window / datagram,
                f64::INFINITY,
            )))
        };
        Adaptive {
            rule,
            datagram,
            began: now,
            next: 0,
            round_end: 0,
            round_began: now,
            round_bytes: 0,
            may_grow: false,
            smoothed: Duration::ZERO,
            acked_at: now,
            cut: None,
            best_rate: 0.0,
            largest: 0.0,
            largest_ever: 0.0,
            base,
            shallow: Shallow::default(),
            reordering: Duration::ZERO,
        }
    }

    pub(crate) fn is_scavenger(&self) -> bool {
        matches!(self.rule, Rule::Scavenger(_))
    }

    /// Whether what leaves at once does harm: a scavenger takes it for a queue, and a short queue
    /// has no room for it.
    pub(crate) fn leaves_evenly(&self) -> bool {
        self.is_scavenger() || self.shallow.is_seen()
    }

    /// How long a datagram takes at the best rate, in seconds.
    fn datagram_time(&self) -> f64 {
        if self.best_rate > 0.0 {
            self.datagram / self.best_rate
        } else {
            0.0
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn window(&self) -> f64 {
        let window = match &self.rule {
            Rule::Scavenger(scavenger) => scavenger.window(),
            // Rounded: a byte too few holds the second packet of a pair back.
            Rule::Flows(flows) => {
                (flows.window().max(TUNING.packets.least_window.get()) * self.datagram).round()
            }
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

    /// The path reorders packets, by so much at most.
    pub(crate) fn on_reordering(&mut self, reordering: Duration) {
        self.reordering = reordering;
        self.pass_reordering();
    }

    fn pass_reordering(&mut self) {
        let scatter = self.reordering.as_secs_f64();
        match &mut self.rule {
            Rule::Scavenger(scavenger) => scavenger.reorders(scatter),
            Rule::Flows(flows) => flows.reorders(scatter),
        }
    }

    pub(crate) fn on_datagram_size(&mut self, bytes: u64) {
        self.datagram = bytes as f64;
        if let Rule::Scavenger(scavenger) = &mut self.rule {
            scavenger.set_datagram(self.datagram);
        }
    }

    /// Gives what such a round trip waits for on the way back.
    pub(crate) fn on_one_way_delay(
        &mut self,
        now: Instant,
        rtt: Duration,
        one_way: Duration,
    ) -> Duration {
        let base = match &mut self.rule {
            Rule::Scavenger(scavenger) => &mut scavenger.base,
            Rule::Flows(_) => &mut self.base,
        };
        let back = base.look_back(now, rtt.as_secs_f64(), one_way.as_secs_f64());
        Duration::try_from_secs_f64(back).unwrap_or_default()
    }

    pub(crate) fn on_acked(&mut self, now: Instant, batch: &Batch) {
        let rtt = batch.rtt.as_secs_f64();
        let rtt_error = batch.rtt_error.as_secs_f64();
        let one_way = batch.one_way.map(|delay| delay.as_secs_f64());
        self.smoothed = batch.smoothed;
        self.acked_at = now;
        self.round_bytes = self.round_bytes.saturating_add(batch.bytes);
        self.may_grow |= batch.may_grow;
        let small = self.is_small(now, batch.size as f64);
        let mut verdict = None;
        match &mut self.rule {
            Rule::Scavenger(_) if small => {}
            Rule::Scavenger(scavenger) => {
                let sample = Sample {
                    rtt,
                    rtt_error,
                    one_way,
                    bytes: batch.bytes as f64,
                    may_grow: batch.may_grow,
                };
                verdict = scavenger.on_acked(now, &sample);
            }
            Rule::Flows(flows) => {
                if !small {
                    let waited = self.base.update(now, rtt, rtt_error, one_way);
                    self.shallow.add(waited);
                }
                flows.on_acked(now, batch.newest, rtt, batch.may_grow);
            }
        }
        // A clock that goes back must not make a round last for ever.
        self.round_began = self.round_began.min(now);
        let lasted = now.saturating_duration_since(self.round_began);
        // Where packet numbers begin again, time ends the round.
        let long = lasted >= batch.smoothed.saturating_mul(TUNING.packets.longest_round);
        if batch.newest >= self.round_end || long {
            self.round_end = self.next;
            let span = lasted.as_secs_f64();
            let rate = if span > 0.0 {
                self.round_bytes as f64 / span
            } else {
                0.0
            };
            self.best_rate = (self.best_rate * TUNING.packets.best_rate_kept.get()).max(rate);
            self.round_began = now;
            self.round_bytes = 0;
            self.shallow.on_round(self.datagram_time());
            self.largest *= TUNING.packets.largest_kept.get();
            let may_grow = std::mem::take(&mut self.may_grow);
            match &mut self.rule {
                Rule::Scavenger(scavenger) => {
                    verdict = verdict.or(scavenger.on_round(now, rate, may_grow));
                }
                Rule::Flows(flows) => {
                    flows.on_round(now, rate / self.datagram, may_grow, self.base.get());
                }
            }
        }
        match verdict {
            Some(Verdict::Yields) => self.was_cut(LimitedBy::Path, self.window()),
            Some(Verdict::Grows) | None => {}
        }
    }

    /// Whether a packet of this size is too small to show the path's delay.
    fn is_small(&mut self, now: Instant, size: f64) -> bool {
        if size > self.largest_ever * TUNING.packets.larger.get() && self.in_slow_start() {
            match &mut self.rule {
                Rule::Scavenger(scavenger) => scavenger.base = Base::new(now),
                Rule::Flows(_) => self.base = Base::new(now),
            }
        }
        let small = size < self.largest * TUNING.packets.small.get();
        self.largest = self.largest.max(size);
        self.largest_ever = self.largest_ever.max(size);
        small
    }

    /// A packet was lost.
    pub(crate) fn on_lost(&mut self, packet: u64) {
        let before = self.window();
        let datagram_time = self.datagram_time();
        match &mut self.rule {
            Rule::Flows(flows) => {
                if flows.on_lost(packet, self.next) {
                    self.shallow.on_cut(datagram_time);
                    self.was_cut(LimitedBy::Loss, before);
                }
            }
            Rule::Scavenger(scavenger) => scavenger.on_lost(packet),
        }
    }

    /// A packet that was deemed lost has arrived: true if a cut is taken back by it.
    pub(crate) fn on_spurious_loss(&mut self, now: Instant, packet: u64) -> bool {
        let undone = match &mut self.rule {
            Rule::Flows(flows) => flows.on_spurious_loss(now, packet, self.smoothed.as_secs_f64()),
            Rule::Scavenger(scavenger) => scavenger.on_spurious_loss(packet),
        };
        if undone {
            self.cut = None;
        }
        undone
    }

    /// Losses or marks, at priority 0 at most once in a round trip; `persistent` when nothing came
    /// through for long. Lost packets have been reported one by one; `mark`: `newest` came through
    /// with one, or a packet shortly before it.
    pub(crate) fn on_congestion(&mut self, persistent: bool, mark: bool, newest: u64) {
        let before = self.window();
        let cut = match &mut self.rule {
            Rule::Scavenger(scavenger) => {
                scavenger.on_loss(self.smoothed.as_secs_f64(), persistent, mark, self.next);
                true
            }
            Rule::Flows(flows) if persistent => {
                flows.on_persistent(self.next);
                true
            }
            Rule::Flows(flows) => mark && flows.on_mark(newest, self.next),
        };
        if cut {
            self.was_cut(LimitedBy::Loss, before);
        }
    }

    fn was_cut(&mut self, reason: LimitedBy, window: f64) {
        self.cut = Some(Cut {
            reason,
            at: self.acked_at,
            window,
        });
    }

    /// The priority has changed.
    pub(crate) fn set_priority(&mut self, now: Instant, priority: Priority) {
        if self.is_scavenger() != priority.is_scavenger() {
            // Of the other rules.
            self.cut = None;
        }
        match (&mut self.rule, priority.is_scavenger()) {
            (Rule::Scavenger(_), true) => {}
            (Rule::Flows(flows), false) => flows.set_count(priority.get()),
            (Rule::Scavenger(scavenger), false) => {
                self.base = scavenger.base.clone();
                let window = scavenger.good_window() / self.datagram;
                let flows = priority.get();
                let flows = if scavenger.in_slow_start() {
                    Flows::new(flows, window, f64::INFINITY)
                } else {
                    let before = Before {
                        window,
                        rtt: self.smoothed.as_secs_f64(),
                        rate: self.best_rate / self.datagram,
                        began: self.began,
                        next: self.next,
                    };
                    Flows::probing(now, flows, &before)
                };
                self.rule = Rule::Flows(Box::new(flows));
                self.pass_reordering();
            }
            (Rule::Flows(flows), true) => {
                let window = flows.window().max(TUNING.packets.least_window.get()) * self.datagram;
                let (base, datagram) = (self.base.clone(), self.datagram);
                let mut scavenger = if flows.is_starting() {
                    Scavenger::new(now, window, datagram, true, base)
                } else {
                    let before = Former {
                        full: window,
                        had: flows.has_had() * datagram,
                        rtt: self.smoothed.as_secs_f64(),
                    };
                    Scavenger::after_flows(now, before, datagram, base)
                };
                scavenger.knows(self.best_rate);
                self.rule = Rule::Scavenger(Box::new(scavenger));
                // What is sent from now on shows what the path is like without N flows.
                self.round_end = self.next;
                self.pass_reordering();
            }
        }
    }

    /// Whether N flows have found their share.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.rule {
            Rule::Flows(flows) => !flows.in_slow_start() && !flows.is_probing(),
            Rule::Scavenger(_) => false,
        }
    }

    /// Gives windows of N flows to others of the same program, or takes some of theirs.
    pub(crate) fn scale(&mut self, factor: f64) {
        if self.is_settled()
            && let Rule::Flows(flows) = &mut self.rule
        {
            flows.scale(factor);
        }
    }

    /// Why the window is not larger.
    pub(crate) fn limited_by(&self) -> LimitedBy {
        if self.in_slow_start() {
            return LimitedBy::SlowStart;
        }
        let contested = match &self.rule {
            Rule::Scavenger(scavenger) => scavenger.is_contested(),
            Rule::Flows(_) => false,
        };
        if contested {
            return LimitedBy::Yielding;
        }
        let Some(cut) = self.cut else {
            return LimitedBy::Growth;
        };
        // What N flows have lost they lack until they have it again, which takes CUBIC half a
        // minute where windows are large.
        let lacks = !self.is_scavenger() && self.window() < cut.window;
        if lacks || self.acked_at.saturating_duration_since(cut.at) <= TUNING.packets.cut_reported {
            cut.reason
        } else {
            LimitedBy::Growth
        }
    }

    /// The round trip without a queue.
    pub(crate) fn base_delay(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.base().get()?).ok()
    }

    /// What the least of the last packets waited for.
    pub(crate) fn queueing_delay(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.base().recent()?).ok()
    }

    fn base(&self) -> &Base {
        match &self.rule {
            Rule::Scavenger(scavenger) => &scavenger.base,
            Rule::Flows(_) => &self.base,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of these sizes, one after the other, each through a link of 10 Mbit/s that takes 20
    /// ms besides.
    fn base_after(adaptive: &mut Adaptive, now: &mut Instant, sizes: &[u64]) -> f64 {
        for size in sizes {
            let packet = adaptive.next;
            adaptive.on_sent(packet, *size);
            let rtt = Duration::from_micros(20_000 + size * 8 / 10);
            *now += rtt;
            let batch = Batch {
                bytes: *size,
                rtt,
                rtt_error: Duration::ZERO,
                one_way: None,
                smoothed: rtt,
                newest: packet,
                size: *size,
                may_grow: true,
            };
            adaptive.on_acked(*now, &batch);
        }
        adaptive.base().get().unwrap() * 1e3
    }

    #[test]
    fn small_packets_do_not_show_the_delay() {
        for priority in [Priority::SCAVENGER, Priority::NORMAL] {
            let mut now = crate::test_epoch();
            let mut adaptive = Adaptive::new(now, &Config::default(), priority);
            let now = &mut now;
            // A handshake, then packets of 1 250 bytes, which take a millisecond, and now and then
            // a small one.
            let base = base_after(&mut adaptive, now, &[60, 60]);
            assert!((20.0..20.1).contains(&base), "{base}");
            let mixed = [1250, 1250, 60, 1250, 1250, 1250, 1250, 700, 1250];
            for _ in 0..50 {
                let base = base_after(&mut adaptive, now, &mixed);
                assert!((base - 21.0).abs() < 1e-6, "{priority:?}: {base}");
            }
            // Who sends small ones only is judged by them.
            let base = base_after(&mut adaptive, now, &[60; 100]);
            assert!((20.0..20.1).contains(&base), "{priority:?}: {base}");
        }
    }
}
