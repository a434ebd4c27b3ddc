//! Priority 0: takes what others leave, with a queue that is a fraction of the path's delay.
//!
//! The window grows by half a datagram in a round trip as long as the queueing delay is below a
//! target. When the delay is above it, the window is cut to what leaves a quarter of the
//! [target](super::target) in the queue. If the delay stays above, others fill the queue, and the
//! window is halved every second round. Now and then the flow drains its share of the queue, so
//! that all see the base delay.

mod answers;
mod contention;
mod drains;
mod growth;
mod loss;
mod phase;

use std::time::Instant;

use self::answers::Answers;
use self::contention::Contention;
use self::drains::DrainTimer;
pub(super) use self::phase::Former;
use self::phase::Phase;
use super::base::Base;
use super::losses::Losses;
use super::queueing::{Look, Round};
use super::target::Target;
use super::tuning::TUNING;

/// What a look at the end of a round came to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Grows,
    Yields,
}

/// An acknowledgement. Times in seconds.
#[derive(Copy, Clone, Debug)]
pub(super) struct Sample {
    pub(super) rtt: f64,
    /// By how much it may have been longer.
    pub(super) rtt_error: f64,
    /// Time of the way there, by two clocks.
    pub(super) one_way: Option<f64>,
    pub(super) bytes: f64,
    /// Whether the window was used.
    pub(super) may_grow: bool,
}

/// The state of priority 0. Sizes in bytes, times in seconds.
#[derive(Clone, Debug)]
pub(super) struct Scavenger {
    window: f64,
    datagram: f64,
    phase: Phase,
    /// How a queue ended slow start, until the next look at the queue.
    started: Option<Started>,
    pub(super) base: Base,
    round: Round,
    above: u32,
    empty: u32,
    contention: Contention,
    losses: Losses,
    answers: Answers,
    /// When the last acknowledgement came.
    acked_at: Instant,
    /// By how much packets may be late because the path reorders them.
    scatter: f64,
    /// Recent queueing delay.
    recent: f64,
    /// The last round's mean round trip.
    rtt: Option<f64>,
    /// When a packet was last lost at a queue that was no longer than scavengers make it.
    lost_early: Option<Instant>,
    /// The window that this flow usually has where no other needs the path, without what stands in
    /// the queue.
    share: f64,
    /// When others were last taken to need the path, if this flow has not had its share again
    /// since.
    crowded: Option<Instant>,
    /// Best rate at which data was acknowledged, bytes a second.
    best_rate: f64,
    drains: DrainTimer,
}

/// How a queue ended slow start.
#[derive(Copy, Clone, Debug)]
struct Started {
    /// The window then.
    window: f64,
    /// How long packets waited at least.
    waited: f64,
}

impl Scavenger {
    pub(super) fn new(
        now: Instant,
        window: f64,
        datagram: f64,
        slow_start: bool,
        base: Base,
    ) -> Scavenger {
        let window = window.max(TUNING.growth.least.get() * datagram);
        Scavenger {
            window,
            datagram,
            phase: if slow_start {
                Phase::SlowStart
            } else {
                Phase::Steady
            },
            started: None,
            base,
            round: Round::default(),
            above: 0,
            empty: 0,
            contention: Contention::default(),
            losses: Losses::default(),
            answers: Answers::default(),
            acked_at: now,
            scatter: 0.0,
            recent: 0.0,
            rtt: None,
            lost_early: None,
            share: if slow_start { 0.0 } else { window },
            crowded: None,
            best_rate: 0.0,
            drains: DrainTimer::new(now),
        }
    }

    /// Priority 0 after N flows. It begins with a drain: nothing of ours is to stand in the queue,
    /// and then the path's delay is seen, which N flows may have hidden for long.
    pub(super) fn after_flows(
        now: Instant,
        before: Former,
        datagram: f64,
        base: Base,
    ) -> Scavenger {
        let Former { full, rtt, .. } = before;
        let window = without_queue(full, base.get().unwrap_or(rtt), rtt);
        let mut scavenger = Scavenger::new(now, window, datagram, false, base);
        scavenger.phase.begin_drain(scavenger.window, Some(before));
        scavenger.share = before.had.max(scavenger.share);
        let left =
            (scavenger.window * TUNING.drain.share.get()).max(TUNING.drain.from.get() * datagram);
        scavenger.window = scavenger.window.min(left);
        scavenger
    }

    pub(super) fn window(&self) -> f64 {
        self.window
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.phase.is_slow_start()
    }

    /// Whether others are taken to need the path.
    pub(super) fn is_contested(&self) -> bool {
        self.phase.is_contested()
    }

    /// Pacing rate ÷ (window ÷ `smoothed`). A flow that learns of the path a few times a second
    /// knows more of it than the average of its round trips, in which a queue of long ago still
    /// shows.
    pub(super) fn pacing_gain(&self, smoothed: f64) -> f64 {
        let fresh = self.rtt.map_or(1.0, |rtt| smoothed / rtt.max(1e-6));
        TUNING.growth.pacing_gain.get() * fresh.max(1.0)
    }

    /// The window that others may take as the one which fills the path.
    pub(super) fn good_window(&self) -> f64 {
        let drain = self.phase.drain();
        drain.map_or(self.window, |drain| drain.back_to)
    }

    /// The window that would just fill the path, by the best rate it has given.
    pub(super) fn full_window(&self) -> f64 {
        self.best_rate * self.base.get().unwrap_or(0.0)
    }

    /// What this flow may take for its usual window, of what N flows had or were on their way to:
    /// no more than the path has ever given.
    fn usual(&self, had: f64) -> f64 {
        had.min(self.full_window()).max(self.window)
    }

    pub(super) fn set_datagram(&mut self, datagram: f64) {
        self.datagram = datagram;
    }

    fn path_target(&self) -> Target {
        let sharp = self.is_managed(self.acked_at) && !self.base.is_seen_dimly(self.acked_at);
        Target::new(self.base.get().unwrap_or(0.0), self.datagram_time(), sharp)
    }

    /// Whether the queue is managed, or too short for what would be aimed at otherwise: packets
    /// were lately lost in it that had not met more than a scavenger's work.
    fn is_managed(&self, now: Instant) -> bool {
        let lately = |at| now.saturating_duration_since(at) < TUNING.managed.kept;
        self.lost_early.is_some_and(lately)
    }

    /// The longest queue that may be the work of scavengers, in seconds; where it is managed, that
    /// of before it was known to be.
    fn foreign(&self) -> f64 {
        TUNING.contention.foreign.get() * self.path_target().roomy().of_path()
            + TUNING.contention.foreign_datagrams.get() * self.datagram_time()
    }

    /// Queueing delay that is aimed at, in seconds.
    fn target(&self) -> f64 {
        self.path_target().of_path()
    }

    /// The same for a window of this size.
    fn scaled_target(&self) -> f64 {
        self.path_target().of_window(self.window / self.datagram)
    }

    fn own_target(&self, now: Instant) -> f64 {
        let target = if self.phase.is_contested() {
            self.target()
        } else {
            self.scaled_target()
        };
        self.path_target().within(self.losses.room(now), target)
    }

    /// Jitter, beyond that of whole datagrams that come and go.
    fn noise(&self) -> f64 {
        let noise = self.base.noise();
        noise * (4.0 * noise / self.target() - 1.0).clamp(0.0, 1.0)
    }

    /// How long a datagram takes at the best rate.
    fn datagram_time(&self) -> f64 {
        if self.best_rate > 0.0 {
            self.datagram / self.best_rate
        } else {
            0.0
        }
    }

    fn floor(&self, rtt: f64) -> f64 {
        let datagrams = (self.best_rate * TUNING.floor.share.get() / self.datagram)
            .clamp(TUNING.floor.least.get(), TUNING.floor.most.get());
        (datagrams * rtt).clamp(TUNING.floor.window.get(), 1.0) * self.datagram
    }

    /// An acknowledgement.
    pub(super) fn on_acked(&mut self, now: Instant, sample: &Sample) -> Option<Verdict> {
        self.acked_at = now;
        self.phase.on_time(now);
        if self.phase.is_contested() {
            self.base.hold(now);
        }
        let (rtt, error) = (sample.rtt, sample.rtt_error);
        let queueing = self.base.update(now, rtt, error, sample.one_way);
        let datagrams = sample.bytes / self.datagram;
        // Of the least of these a base may become.
        self.round.add(queueing, rtt + error, datagrams);
        self.losses
            .on_acked(queueing, datagrams, self.window / self.datagram);
        let noise = self.noise();
        self.recent += ((queueing - noise).max(0.0) - self.recent) / 4.0;
        if self.phase == Phase::SlowStart {
            let least = self.round.least_of_few().unwrap_or(0.0);
            if least > self.target() / 2.0 {
                self.phase.end_slow_start();
                self.started = Some(Started {
                    window: self.window,
                    waited: least,
                });
                self.window *= 0.5;
                self.share = self.window;
                self.answers.keep_cut();
                self.begin_drain(now, sample.rtt);
                return Some(Verdict::Yields);
            }
            if sample.may_grow {
                self.window += sample.bytes;
            }
        }
        None
    }

    /// The path reorders packets: some are late by so much.
    pub(super) fn reorders(&mut self, scatter: f64) {
        self.scatter = scatter;
        self.round.scatter(scatter, self.path_target().of_path());
        // What ended slow start was no queue, as it turns out.
        let started = self.started.take_if(|started| started.waited < scatter);
        if let Some(started) = started {
            self.phase.end_drain();
            self.phase.back_to_slow_start();
            self.window = self.window.max(started.window);
            self.share = 0.0;
        }
    }

    /// The best rate that the path has given, in bytes a second.
    pub(super) fn knows(&mut self, best_rate: f64) {
        self.best_rate = best_rate;
    }

    /// A round trip's packets have been acknowledged, at `rate` bytes a second.
    pub(super) fn on_round(&mut self, now: Instant, rate: f64, may_grow: bool) -> Option<Verdict> {
        self.phase.on_time(now);
        // What others leave says nothing of the path.
        if !self.phase.is_contested() {
            self.best_rate *= TUNING.packets.best_rate_kept.get();
        }
        self.best_rate = self.best_rate.max(rate);
        let look = self.round.end()?;
        self.rtt = Some(look.rtt);
        if self.window >= self.datagram
            && let Some(noise) = self.round.noise()
        {
            self.base.add_noise(now, noise);
        }
        let band = self.target() / 2.0;
        if let Some(drain) = self.phase.drain_mut() {
            self.above = 0;
            drain.rounds = drain.rounds.saturating_sub(1);
            if drain.rounds == 0 {
                self.end_drain();
                self.base.drained_sample(now, look.least_rtt, band);
            }
            return None;
        }
        if self.phase == Phase::SlowStart {
            return None;
        }
        if self.window < self.datagram {
            self.base.drained_sample(now, look.least_rtt, band);
        }
        self.judge(now, &look, rate, may_grow)
    }

    fn judge(&mut self, now: Instant, look: &Look, rate: f64, may_grow: bool) -> Option<Verdict> {
        self.started = None;
        let target = self.own_target(now);
        let queueing = look.queueing(self.noise(), target);
        // A single packet may be late by chance; a queue of others delays all of them.
        let chance = (2.0 * self.noise()).max(self.scatter);
        let foreign = look.longest - chance > self.foreign();
        if self.contention.on_round(now, foreign) {
            self.phase.on_contention(contention::until(now, look.rtt));
        }
        self.learn_share(now, look, queueing, rate * (look.rtt - queueing));
        if queueing > target {
            return Some(self.retreat(now, look, queueing));
        }
        self.above = 0;
        if !may_grow {
            return None;
        }
        let growth = self.growth(now, look, queueing, target);
        self.window += growth.max(0.0);
        let drained = TUNING.drain.from.get() * self.datagram;
        if self.drains.is_due(now) && self.window > drained {
            self.begin_drain(now, look.rtt);
        }
        Some(Verdict::Grows)
    }

    /// `window` filled the path, or a part of it.
    fn learn_share(&mut self, now: Instant, look: &Look, queueing: f64, window: f64) {
        if self.phase.is_contested() {
            self.crowded = Some(now);
            return;
        }
        let crowded = |at: Instant| now.saturating_duration_since(at) < TUNING.share.pause;
        if window >= TUNING.returns.to.get() * self.share || !self.crowded.is_some_and(crowded) {
            self.crowded = None;
        }
        // A flow that is still growing at an empty queue has not got its share yet.
        let less = self.crowded.is_none() && queueing >= self.own_target(now) / 2.0;
        if window > self.share || less {
            self.share +=
                (window - self.share) * (look.rtt / TUNING.share.time.as_secs_f64()).min(1.0);
        }
    }

    /// The queue is longer than it should be.
    fn retreat(&mut self, now: Instant, look: &Look, queueing: f64) -> Verdict {
        self.empty = 0;
        self.answers.keep_cut();
        self.on_queue(now);
        self.above += 1;
        let contested = self.phase.is_contested();
        match self.above {
            1 if contested => self.cut(look.rtt, 0.5),
            1 => self.cut_to(look, queueing),
            // What was cut shows now. Flows that cut together may have to do it once more.
            3 if !contested => self.cut_to(look, queueing),
            above if above % 2 == 1 => {
                if !contested || queueing > self.scaled_target() {
                    self.phase.on_contention(contention::until(now, look.rtt));
                }
                self.cut(look.rtt, 0.5);
            }
            _ => {}
        }
        Verdict::Yields
    }

    /// There is a queue: what was seen of an empty one counts no more.
    fn on_queue(&mut self, now: Instant) {
        let met = self.phase.on_queue();
        self.contention.on_queue(now, met);
    }

    /// The window is again what it was before the drain; after N flows, what fills the path by the
    /// round trip that was seen without what they kept in its queue.
    fn end_drain(&mut self) {
        let Some(drain) = self.phase.end_drain() else {
            return;
        };
        self.window = drain.back_to * TUNING.drain.after.get();
        if let Some(Former { full, had, rtt }) = drain.former {
            let base = self.base.get().unwrap_or(rtt);
            let least = TUNING.growth.least.get() * self.datagram;
            self.window = without_queue(full, base, rtt).max(least);
            self.share = self.usual(without_queue(had, base, rtt));
        }
    }

    fn begin_drain(&mut self, now: Instant, rtt: f64) {
        self.phase.begin_drain(self.window, None);
        self.window *= TUNING.drain.share.get();
        self.above = 0;
        self.drains.on_drain(now, rtt);
    }

    /// Leaves so much that a queue of our own would shrink to a quarter of the target.
    fn cut_to(&mut self, look: &Look, queueing: f64) {
        let path = look.rtt - queueing;
        let share = (path + self.target() / 4.0) / (path + queueing.max(self.recent));
        self.cut(look.rtt, share.clamp(0.5, 1.0));
    }

    fn cut(&mut self, rtt: f64, share: f64) {
        self.window = (self.window * share).max(self.floor(rtt));
    }
}

/// What `full` bytes under way would be without a queue, by the path's round trip and that with the
/// queue.
fn without_queue(full: f64, base: f64, rtt: f64) -> f64 {
    let share = if rtt > 0.0 { base / rtt } else { 1.0 };
    full * share.min(1.0)
}
