//! Priority 0: takes what others leave, with a queue that is a fraction of the path's delay.
//!
//! The window grows by half a datagram in a round trip as long as the round's mean queueing delay is below a target, and is cut
//! to what leaves half the target in the queue when it is above; if it stays above, others fill the queue, and the window
//! is halved every second round. The target is an eighth of the base delay: it adapts to the path instead of filling any
//! buffer that is smaller than a constant. Now and then the flow drains its share of the queue, so that all see the base delay.

use std::time::{Duration, Instant};

use super::base::Base;

/// Share of the base delay that may stand in the queue.
const TARGET_SHARE: f64 = 1.0 / 8.0;
const TARGET_LEAST: f64 = 0.002;
const TARGET_MOST: f64 = 0.060;
/// Most that trembling may add to the target, in seconds, if that is more than the share.
const NOISE_MOST: f64 = 0.004;
/// Datagrams by which a window of [`GROWTH_AT`] datagrams grows in a round trip. Others by the root of their size: small ones less, so
/// that many of them do not overrun the target at once, large ones more, so that a cycle does not take minutes.
const GROWTH: f64 = 0.5;
const GROWTH_AT: f64 = 8.0;
/// Of the datagram's own time, what may stand in the queue.
const TARGET_DATAGRAMS: f64 = 0.6;
/// Share of the window while draining, and rounds for which.
const DRAIN_SHARE: f64 = 0.25;
const DRAIN_ROUNDS: u32 = 2;
/// Share of the window after a drain: whoever has more gives more.
const AFTER_DRAIN: f64 = 0.95;
/// Time between drains: at first, and at most, in seconds and in round trips.
const DRAIN_FIRST: f64 = 1.0;
const DRAIN_PAUSE: f64 = 5.0;
const DRAIN_ROUND_TRIPS: f64 = 100.0;
const DRAIN_LATEST: Duration = Duration::from_secs(60);
/// Rounds with an empty queue after which the window grows by a share instead of a step; every second round, because the queue
/// shows what was done two rounds ago.
const EMPTY_ROUNDS: u32 = 3;
/// What it is multiplied with then, below the window that filled the path last and beyond it.
const RETURN: f64 = 2.0;
const EXPLORE: f64 = 1.1;
/// Share of the last good window up to which it returns fast.
const RETURN_TO: f64 = 0.85;
/// Seconds in which the share of the path that a flow usually has is learned.
const SHARE_TIME: f64 = 3.0;
/// A queue this many times the target, and so many datagrams more, is not the work of scavengers.
const FOREIGN: f64 = 2.0;
const FOREIGN_DATAGRAMS: f64 = 3.0;
/// For how long after such a queue the path counts as contested: seconds, and round trips.
const CONTESTED: f64 = 2.0;
const CONTESTED_ROUND_TRIPS: f64 = 30.0;
/// Where it does, the queue has to be empty for so many seconds before the window returns fast.
const HOLD: f64 = 0.4;
/// Then a share of the path's window is taken for so many rounds: a queue that builds up says that somebody else still fills the path.
const PROBE_SHARE: f64 = 0.03;
const PROBE_ROUNDS: u32 = 6;
/// Smallest window to begin with, in datagrams.
const LEAST: f64 = 0.05;
/// Slowest rate, as a share of the best rate seen, and as datagrams a second.
const FLOOR_SHARE: f64 = 0.005;
const FLOOR_LEAST: f64 = 0.5;
const FLOOR_MOST: f64 = 40.0;
/// The same as a window in datagrams, whatever the round trip.
const FLOOR_WINDOW: f64 = 0.005;

/// Pacing rate ÷ (window ÷ round trip): a window that opens after a drain must not fill the queue by its haste.
pub(super) const PACING_GAIN: f64 = 1.05;

/// What a look at the end of a round came to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Grows,
    Yields,
}

/// The state of priority 0. Sizes in bytes, times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Scavenger {
    window: f64,
    datagram: f64,
    slow_start: bool,
    pub(super) base: Base,
    /// Sum and number of this round's queueing delays.
    round: (f64, u32),
    above: u32,
    empty: u32,
    /// Since when the queue is empty.
    empty_since: Option<Instant>,
    /// Until when others are taken to need the path.
    contested_until: Option<Instant>,
    /// For how many rounds a probe has gone well since.
    probed: u32,
    /// This round's longest queueing delay.
    longest: f64,
    /// Queueing delay of late.
    recent: f64,
    /// The window that this flow usually has where nobody needs the path, without what stands in the queue.
    share: f64,
    /// Best rate at which data was acknowledged, bytes a second.
    best_rate: f64,
    drain: Option<Drain>,
    next_drain: Instant,
    drain_pause: f64,
    /// Spreads the drains of flows that began together.
    spread: u64,
}

#[derive(Copy, Clone, Debug)]
struct Drain {
    back_to: f64,
    rounds: u32,
}

impl Scavenger {
    pub(super) fn new(
        now: Instant,
        window: f64,
        datagram: f64,
        slow_start: bool,
        base: Base,
    ) -> Scavenger {
        let window = window.max(LEAST * datagram);
        Scavenger {
            window,
            datagram,
            slow_start,
            base,
            round: (0.0, 0),
            above: 0,
            empty: 0,
            empty_since: None,
            contested_until: None,
            probed: 0,
            longest: 0.0,
            recent: 0.0,
            share: if slow_start { 0.0 } else { window },
            best_rate: 0.0,
            drain: None,
            next_drain: now + Duration::from_secs_f64(DRAIN_FIRST),
            drain_pause: DRAIN_FIRST,
            spread: 0x9e37_79b9,
        }
    }

    pub(super) fn window(&self) -> f64 {
        self.window
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.slow_start
    }

    /// The window that others may take as the one which fills the path.
    pub(super) fn good_window(&self) -> f64 {
        self.drain.map_or(self.window, |drain| drain.back_to)
    }

    /// The window that would just fill the path, by the best rate it has given.
    pub(super) fn full_window(&self) -> f64 {
        self.best_rate * self.base.get().unwrap_or(0.0)
    }

    pub(super) fn set_datagram(&mut self, datagram: f64) {
        self.datagram = datagram;
    }

    /// Queueing delay that is aimed at, in seconds.
    fn target(&self) -> f64 {
        let base = self.base.get().unwrap_or(0.0);
        let share = (base * TARGET_SHARE).clamp(TARGET_LEAST, TARGET_MOST);
        // Less than one datagram of the path's rate cannot stand in a queue.
        let datagram = if self.best_rate > 0.0 {
            self.datagram / self.best_rate
        } else {
            0.0
        };
        // Whole datagrams come and go: a queue of them trembles by itself.
        let noise = (2.0 * self.base.tremble() - datagram).clamp(0.0, share.max(NOISE_MOST));
        share.max((datagram * TARGET_DATAGRAMS).min(TARGET_MOST)) + noise
    }

    fn floor(&self, rtt: f64) -> f64 {
        let datagrams =
            (self.best_rate * FLOOR_SHARE / self.datagram).clamp(FLOOR_LEAST, FLOOR_MOST);
        (datagrams * rtt).clamp(FLOOR_WINDOW, 1.0) * self.datagram
    }

    /// One acknowledgement with a round trip of `rtt` seconds for `bytes` bytes.
    pub(super) fn on_acked(
        &mut self,
        now: Instant,
        rtt: f64,
        bytes: f64,
        may_grow: bool,
    ) -> Option<Verdict> {
        self.base.update(now, rtt);
        let queueing = rtt - self.base.get().unwrap_or(rtt);
        self.round.0 += queueing;
        self.round.1 += 1;
        self.recent += (queueing - self.recent) / 4.0;
        self.longest = self.longest.max(queueing);
        if self.slow_start && self.drain.is_none() {
            if queueing > self.target() / 2.0 && self.round.1 >= 3 {
                self.slow_start = false;
                self.window *= 0.5;
                self.share = self.window;
                self.begin_drain(now, rtt);
                return Some(Verdict::Yields);
            }
            if may_grow {
                self.window += bytes;
            }
        }
        None
    }

    /// The best rate that the path has given, in bytes a second.
    pub(super) fn knows(&mut self, best_rate: f64) {
        self.best_rate = best_rate;
    }

    /// A round trip's packets have been acknowledged, at `rate` bytes a second; `rtt` is the smoothed round trip.
    pub(super) fn on_round(
        &mut self,
        now: Instant,
        rtt: f64,
        rate: f64,
        may_grow: bool,
    ) -> Option<Verdict> {
        let (sum, count) = std::mem::take(&mut self.round);
        let longest = std::mem::take(&mut self.longest);
        if count == 0 {
            return None;
        }
        if let Some(drain) = &mut self.drain {
            drain.rounds -= 1;
            if drain.rounds == 0 {
                self.window = drain.back_to * AFTER_DRAIN;
                self.drain = None;
            }
            self.above = 0;
            return None;
        }
        if self.slow_start {
            return None;
        }
        let queueing = sum / f64::from(count);
        let target = self.target();
        let datagram = self.datagram / self.best_rate.max(1.0);
        if longest > FOREIGN * target + FOREIGN_DATAGRAMS * datagram {
            self.contest(now, rtt);
        }
        if !self.is_contested(now) {
            let window = rate * self.base.get().unwrap_or(rtt);
            self.share += (window - self.share) * (rtt / SHARE_TIME).min(1.0);
        }
        if queueing > target {
            return Some(self.retreat(now, rtt, queueing));
        }
        self.above = 0;
        if !may_grow {
            return None;
        }
        let growth = self.growth(now, queueing, target);
        self.window += growth.max(0.0);
        let overdue = self.next_drain.saturating_duration_since(now) > DRAIN_LATEST;
        if (now >= self.next_drain || overdue) && self.window > 4.0 * self.datagram {
            self.begin_drain(now, rtt);
        }
        Some(Verdict::Grows)
    }

    /// The queue is longer than it should be.
    fn retreat(&mut self, now: Instant, rtt: f64, queueing: f64) -> Verdict {
        self.empty = 0;
        self.empty_since = None;
        self.probed = 0;
        self.above += 1;
        match self.above {
            1 if self.is_contested(now) => self.cut(rtt, 0.5),
            1 => self.cut_to(rtt, queueing, 4.0),
            // What was cut shows now. Flows that cut together may have to do it once more.
            3 if !self.is_contested(now) => self.cut_to(rtt, queueing, 4.0),
            above if above % 2 == 1 => {
                self.contest(now, rtt);
                self.cut(rtt, 0.5);
            }
            _ => {}
        }
        Verdict::Yields
    }

    /// The queue is not ours: somebody else needs the path.
    fn contest(&mut self, now: Instant, rtt: f64) {
        let time = CONTESTED.max(CONTESTED_ROUND_TRIPS * rtt).min(60.0);
        self.contested_until = Some(now + Duration::from_secs_f64(time));
    }

    fn is_contested(&self, now: Instant) -> bool {
        // Never for longer than it was set: a clock may go back.
        let longest = Duration::from_secs(60);
        let left = |until: Instant| until.saturating_duration_since(now);
        self.contested_until
            .is_some_and(|until| !left(until).is_zero() && left(until) <= longest)
    }

    /// By how much to grow, in bytes.
    fn growth(&mut self, now: Instant, queueing: f64, target: f64) -> f64 {
        let size = self.window / self.datagram;
        // Below one datagram a round lasts longer than a round trip.
        let step = GROWTH * self.datagram * (size / GROWTH_AT).sqrt() / size.min(1.0);
        let step = step.min(self.window);
        if queueing >= target / 2.0 {
            self.empty = 0;
            self.empty_since = None;
            self.probed = 0;
            return step;
        }
        let full = self.full_window();
        self.empty += 1;
        let since = *self.empty_since.get_or_insert(now);
        let waited = now.saturating_duration_since(since).as_secs_f64();
        if self.is_contested(now) {
            if waited < HOLD {
                return 0.0;
            }
            if self.probed < PROBE_ROUNDS {
                self.probed += 1;
                return PROBE_SHARE * full - self.window;
            }
        } else if self.empty < EMPTY_ROUNDS {
            return step;
        }
        if self.empty.is_multiple_of(2) {
            0.0
        } else if self.window < RETURN_TO * self.share {
            (self.window * (RETURN - 1.0)).min(self.share - self.window)
        } else if self.empty >= 4 * EMPTY_ROUNDS {
            (self.window * (EXPLORE - 1.0)).max(step)
        } else {
            step
        }
    }

    fn begin_drain(&mut self, now: Instant, rtt: f64) {
        self.drain = Some(Drain {
            back_to: self.window,
            rounds: DRAIN_ROUNDS,
        });
        self.window *= DRAIN_SHARE;
        self.above = 0;
        self.drain_pause = (self.drain_pause * 1.5).min(DRAIN_PAUSE);
        // A quarter more or less, from what this flow has lived through.
        self.spread = self
            .spread
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add((rtt * 1e9) as u64 | 1);
        let part = (self.spread >> 40) as f64 / (1_u64 << 24) as f64;
        let pause = self.drain_pause.max(DRAIN_ROUND_TRIPS * rtt) * (0.75 + 0.5 * part);
        self.next_drain = now + Duration::from_secs_f64(pause).min(DRAIN_LATEST);
    }

    /// Leaves so much that a queue of our own would shrink to the target ÷ `part`.
    fn cut_to(&mut self, rtt: f64, queueing: f64, part: f64) {
        let base = self.base.get().unwrap_or(rtt);
        let share = (base + self.target() / part) / (base + queueing.max(self.recent));
        self.cut(rtt, share.clamp(0.5, 1.0));
    }

    fn cut(&mut self, rtt: f64, share: f64) {
        self.window = (self.window * share).max(self.floor(rtt));
    }

    /// Packets were lost: at most once in a round trip.
    pub(super) fn on_loss(&mut self, rtt: f64, persistent: bool) {
        self.slow_start = false;
        if let Some(drain) = &mut self.drain {
            drain.back_to *= 0.5;
            return;
        }
        self.empty = 0;
        let share = if persistent { 0.0 } else { 0.5 };
        self.cut(rtt, share);
    }
}
