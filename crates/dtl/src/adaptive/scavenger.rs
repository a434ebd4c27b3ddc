//! Priority 0: takes what others leave, with a queue that is a fraction of the path's delay.
//!
//! The window grows by half a datagram in a round trip as long as the queueing delay is below a
//! target. When the delay is above it, the window is cut to what leaves a quarter of the
//! [target](super::target) in the queue. If the delay stays above, others fill the queue, and the
//! window is halved every second round. Now and then the flow drains its share of the queue, so
//! that all see the base delay.

use std::time::{Duration, Instant};

use super::base::Base;
use super::contest::{Contest, Step};
use super::losses::{Blame, Losses};
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
    /// Time of the way there, as two clocks tell it.
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
    slow_start: bool,
    /// The window with which a queue ended slow start, and how long packets waited at least then,
    /// until the next look at the queue.
    started: Option<(f64, f64)>,
    pub(super) base: Base,
    round: Round,
    above: u32,
    empty: u32,
    contest: Contest,
    losses: Losses,
    answers: Answers,
    /// When the last acknowledgement came.
    heard: Instant,
    /// By how much packets may be late because the path reorders them.
    scatter: f64,
    /// Queueing delay of late.
    recent: f64,
    /// The last round's mean round trip.
    rtt: Option<f64>,
    /// When a packet was last lost at a queue that was no longer than scavengers make it.
    lost_early: Option<Instant>,
    /// The window that this flow usually has where nobody needs the path, without what stands in
    /// the queue.
    share: f64,
    /// When others were last taken to need the path, if this flow has not had its share again
    /// since.
    crowded: Option<Instant>,
    /// Best rate at which data was acknowledged, bytes a second.
    best_rate: f64,
    drain: Option<Drain>,
    next_drain: Instant,
    drain_pause: f64,
    /// Spreads the drains of flows that began together.
    spread: u64,
}

/// What a cut took away, until it is known whether it was right.
#[derive(Clone, Debug)]
struct Answered {
    window: f64,
    share: f64,
    empty: u32,
    slow_start: bool,
    lost_early: Option<Instant>,
    blame: Blame,
    back_to: Option<f64>,
}

/// The packets that the last cut answers.
#[derive(Clone, Debug, Default)]
struct Answers {
    from: u64,
    until: u64,
    /// Those that have not arrived, and those that the next cut will answer.
    lost: u32,
    next: u32,
    /// What can be taken back.
    before: Option<Answered>,
}

#[derive(Copy, Clone, Debug)]
struct Drain {
    back_to: f64,
    rounds: u32,
    /// What N flows were, if it is the drain with which they become priority 0.
    flows: Option<Former>,
}

/// What N flows have under way, what they had before what they recover from, and their round trip.
#[derive(Copy, Clone, Debug)]
pub(super) struct Former {
    pub(super) full: f64,
    pub(super) had: f64,
    pub(super) rtt: f64,
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
            slow_start,
            started: None,
            base,
            round: Round::default(),
            above: 0,
            empty: 0,
            contest: Contest::default(),
            losses: Losses::default(),
            answers: Answers::default(),
            heard: now,
            scatter: 0.0,
            recent: 0.0,
            rtt: None,
            lost_early: None,
            share: if slow_start { 0.0 } else { window },
            crowded: None,
            best_rate: 0.0,
            drain: None,
            next_drain: now + Duration::from_secs_f64(TUNING.drain.first.as_secs_f64()),
            drain_pause: TUNING.drain.first.as_secs_f64(),
            spread: 0x9e37_79b9,
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
        scavenger.drain = Some(Drain {
            back_to: scavenger.window,
            rounds: TUNING.drain.rounds,
            flows: Some(before),
        });
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
        self.slow_start
    }

    /// Whether others are taken to need the path.
    pub(super) fn is_contested(&self) -> bool {
        self.contest.is_on(self.heard)
    }

    /// Pacing rate ÷ (window ÷ `smoothed`). A flow that hears of the path a few times a second
    /// knows more of it than the average of its round trips, in which a queue of long ago still
    /// shows.
    pub(super) fn pacing_gain(&self, smoothed: f64) -> f64 {
        let fresh = self.rtt.map_or(1.0, |rtt| smoothed / rtt.max(1e-6));
        TUNING.growth.pacing_gain.get() * fresh.max(1.0)
    }

    /// The window that others may take as the one which fills the path.
    pub(super) fn good_window(&self) -> f64 {
        self.drain.map_or(self.window, |drain| drain.back_to)
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
        let sharp = self.is_managed(self.heard) && !self.base.is_seen_dimly(self.heard);
        Target::new(self.base.get().unwrap_or(0.0), self.datagram_time(), sharp)
    }

    /// Whether the queue is managed, or too short for what would be aimed at otherwise: packets
    /// were lost in it of late that had not met more than a scavenger's work.
    fn is_managed(&self, now: Instant) -> bool {
        let of_late = |at| now.saturating_duration_since(at) < TUNING.managed.kept;
        self.lost_early.is_some_and(of_late)
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
        let target = if self.contest.is_on(now) {
            self.target()
        } else {
            self.scaled_target()
        };
        self.path_target().within(self.losses.room(now), target)
    }

    /// By how much delays tremble, beyond what whole datagrams that come and go make them tremble.
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
        self.heard = now;
        if self.contest.is_on(now) {
            self.base.hold(now);
        }
        let (rtt, error) = (sample.rtt, sample.rtt_error);
        let queueing = self.base.update(now, rtt, error, sample.one_way);
        let datagrams = sample.bytes / self.datagram;
        // Of the least of these a base may become.
        self.round.add(queueing, rtt + error, datagrams);
        self.losses
            .came(queueing, datagrams, self.window / self.datagram);
        let noise = self.noise();
        self.recent += ((queueing - noise).max(0.0) - self.recent) / 4.0;
        if self.slow_start && self.drain.is_none() {
            let least = self.round.least_of_few().unwrap_or(0.0);
            if least > self.target() / 2.0 {
                self.slow_start = false;
                self.started = Some((self.window, least));
                self.window *= 0.5;
                self.share = self.window;
                self.answers.before = None;
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
        if let Some((window, _)) = self.started.take_if(|(_, waited)| *waited < scatter) {
            self.slow_start = true;
            self.window = self.window.max(window);
            self.share = 0.0;
            self.drain = None;
        }
    }

    /// The best rate that the path has given, in bytes a second.
    pub(super) fn knows(&mut self, best_rate: f64) {
        self.best_rate = best_rate;
    }

    /// A round trip's packets have been acknowledged, at `rate` bytes a second.
    pub(super) fn on_round(&mut self, now: Instant, rate: f64, may_grow: bool) -> Option<Verdict> {
        // What others leave says nothing of the path.
        if !self.contest.is_on(now) {
            self.best_rate *= TUNING.packets.best_rate_kept.get();
        }
        self.best_rate = self.best_rate.max(rate);
        let look = self.round.end()?;
        self.rtt = Some(look.rtt);
        if self.window >= self.datagram
            && let Some(noise) = self.round.noise()
        {
            self.base.trembles(now, noise);
        }
        let band = self.target() / 2.0;
        if let Some(drain) = &mut self.drain {
            drain.rounds -= 1;
            let done = (drain.rounds == 0).then_some(*drain);
            self.above = 0;
            if let Some(Drain { back_to, flows, .. }) = done {
                self.drain = None;
                self.window = back_to * TUNING.drain.after.get();
                if let Some(Former { full, had, rtt }) = flows {
                    // Now the path has been seen without what N flows kept in its queue.
                    let base = self.base.get().unwrap_or(rtt);
                    self.window = without_queue(full, base, rtt)
                        .max(TUNING.growth.least.get() * self.datagram);
                    self.share = self.usual(without_queue(had, base, rtt));
                }
                self.base.without_us(now, look.least_rtt, band);
            }
            return None;
        }
        if self.slow_start {
            return None;
        }
        if self.window < self.datagram {
            self.base.without_us(now, look.least_rtt, band);
        }
        self.judge(now, &look, rate, may_grow)
    }

    fn judge(&mut self, now: Instant, look: &Look, rate: f64, may_grow: bool) -> Option<Verdict> {
        self.started = None;
        let target = self.own_target(now);
        let queueing = look.queueing(self.noise(), target);
        let chance = (2.0 * self.noise()).max(self.scatter);
        let foreign = look.longest - chance > self.foreign();
        self.contest.looks(now, look.rtt, foreign);
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
        let overdue = self.next_drain.saturating_duration_since(now) > TUNING.drain.latest;
        if (now >= self.next_drain || overdue)
            && self.window > TUNING.drain.from.get() * self.datagram
        {
            self.begin_drain(now, look.rtt);
        }
        Some(Verdict::Grows)
    }

    /// `window` filled the path, or a part of it.
    fn learn_share(&mut self, now: Instant, look: &Look, queueing: f64, window: f64) {
        if self.contest.is_on(now) {
            self.crowded = Some(now);
            return;
        }
        let crowded = |at: Instant| now.saturating_duration_since(at) < TUNING.share.pause;
        if window >= TUNING.returns.to.get() * self.share || !self.crowded.is_some_and(crowded) {
            self.crowded = None;
        }
        // Whoever is still growing at an empty queue has not got his share yet.
        let less = self.crowded.is_none() && queueing >= self.own_target(now) / 2.0;
        if window > self.share || less {
            self.share +=
                (window - self.share) * (look.rtt / TUNING.share.time.as_secs_f64()).min(1.0);
        }
    }

    /// The queue is longer than it should be.
    fn retreat(&mut self, now: Instant, look: &Look, queueing: f64) -> Verdict {
        self.empty = 0;
        self.answers.before = None;
        self.contest.queued(now);
        self.above += 1;
        let contested = self.contest.is_on(now);
        match self.above {
            1 if contested => self.cut(look.rtt, 0.5),
            1 => self.cut_to(look, queueing),
            // What was cut shows now. Flows that cut together may have to do it once more.
            3 if !contested => self.cut_to(look, queueing),
            above if above % 2 == 1 => {
                if !contested || queueing > self.scaled_target() {
                    self.contest.begin(now, look.rtt);
                }
                self.cut(look.rtt, 0.5);
            }
            _ => {}
        }
        Verdict::Yields
    }

    /// By how much to grow, in bytes.
    fn growth(&mut self, now: Instant, look: &Look, queueing: f64, target: f64) -> f64 {
        let size = self.window / self.datagram;
        // Below one datagram a round lasts longer than a round trip.
        let step =
            TUNING.growth.step.get() * self.datagram * (size / TUNING.growth.at.get()).sqrt()
                / size.min(1.0);
        let step = step.min(self.window);
        if queueing >= target / 2.0 {
            // Where delays tremble, a spike that some were spared says nothing of the queue.
            let queue = look.least >= target / 4.0 || self.noise() == 0.0;
            if queue {
                self.empty = 0;
                self.contest.queued(now);
            }
            // What others keep in it, BBR above all, is not room for us.
            let theirs = look.least - self.noise() >= target / 4.0 && self.contest.is_on(now);
            return if theirs { 0.0 } else { step };
        }
        self.empty += 1;
        match self.contest.empty(now) {
            Step::Wait => {
                let listening = (TUNING.returns.wait.get() * self.full_window())
                    .min(TUNING.returns.listening.get() * self.datagram * look.rtt);
                return listening - self.window;
            }
            Step::Probe => return TUNING.returns.probe.get() * self.full_window() - self.window,
            Step::Free if self.empty < TUNING.growth.empty_rounds => return step,
            Step::Free | Step::Return => {}
        }
        if self.window >= TUNING.returns.to.get() * self.share {
            self.contest.has_returned();
        }
        if self.empty.is_multiple_of(2) {
            0.0
        } else if self.window < TUNING.returns.to.get() * self.share {
            let most = match self.is_managed(now) && self.contest.is_careful(now) {
                true => self.careful_step(look),
                false => self.share - self.window,
            };
            (self.window * (TUNING.returns.factor.get() - 1.0))
                .min(self.share - self.window)
                .min(most)
        } else if self.empty >= 4 * TUNING.growth.empty_rounds {
            let most = match self.is_managed(now) {
                true => self.careful_step(look),
                false => f64::INFINITY,
            };
            (self.window * (TUNING.growth.explore.get() - 1.0))
                .min(most)
                .max(step)
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

    fn begin_drain(&mut self, now: Instant, rtt: f64) {
        self.drain = Some(Drain {
            back_to: self.window,
            rounds: TUNING.drain.rounds,
            flows: None,
        });
        self.window *= TUNING.drain.share.get();
        self.above = 0;
        self.drain_pause = (self.drain_pause * 1.5).min(TUNING.drain.pause.as_secs_f64());
        // A quarter more or less, from what this flow has lived through.
        self.spread = self
            .spread
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add((rtt * 1e9) as u64 | 1);
        let part = (self.spread >> 40) as f64 / (1_u64 << 24) as f64;
        let pause =
            self.drain_pause.max(TUNING.drain.round_trips.get() * rtt) * (0.75 + 0.5 * part);
        self.next_drain = now + Duration::from_secs_f64(pause).min(TUNING.drain.latest);
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

    /// A datagram was lost.
    pub(super) fn on_lost(&mut self, packet: u64) {
        self.losses.one_lost();
        let answers = &mut self.answers;
        if packet >= answers.until {
            answers.next = answers.next.saturating_add(1);
        } else if packet >= answers.from {
            answers.lost = answers.lost.saturating_add(1);
        }
    }

    /// A datagram that was told as lost has arrived: true if it was the last that a cut answered,
    /// which is taken back.
    pub(super) fn on_spurious_loss(&mut self, packet: u64) -> bool {
        self.losses.one_came();
        let answers = &mut self.answers;
        if !(answers.from..answers.until).contains(&packet) {
            return false;
        }
        answers.lost = answers.lost.saturating_sub(1);
        if answers.lost > 0 {
            return false;
        }
        let Some(before) = answers.before.take() else {
            return false;
        };
        answers.until = answers.from;
        self.window = self.window.max(before.window);
        self.share = self.share.max(before.share);
        self.empty = self.empty.max(before.empty);
        self.slow_start = before.slow_start;
        self.lost_early = before.lost_early;
        self.losses.blames_again(before.blame);
        if let (Some(drain), Some(back_to)) = (&mut self.drain, before.back_to) {
            drain.back_to = drain.back_to.max(back_to);
        }
        true
    }

    /// A cut follows that answers what was lost since the last one.
    fn answer(&mut self, next: u64, may_be_undone: bool) {
        let before = may_be_undone.then(|| Answered {
            window: self.window,
            share: self.share,
            empty: self.empty,
            slow_start: self.slow_start,
            lost_early: self.lost_early,
            blame: self.losses.blame(),
            back_to: self.drain.map(|drain| drain.back_to),
        });
        self.answers = Answers {
            from: self.answers.until,
            until: next,
            lost: self.answers.next,
            next: 0,
            before,
        };
    }

    /// Packets were lost, or marked: at most once in a round trip. A mark is always the work of a
    /// queue. `next` is the number of the next packet.
    pub(super) fn on_loss(&mut self, rtt: f64, persistent: bool, mark: bool, next: u64) {
        self.answer(next, !(persistent || mark));
        self.started = None;
        self.slow_start = false;
        let queue = self.noise() + TUNING.managed.queued.get() * self.target();
        let full = mark || self.losses.lost(self.heard, queue);
        if full && self.recent < self.foreign() {
            self.lost_early = Some(self.heard);
        }
        if persistent {
            // Nothing came through: that says nothing of what this flow usually has, to which it
            // returns. In slow start it had something, too.
            if self.share <= 0.0 {
                self.share = self.window * TUNING.managed.after_loss.get();
            }
            if self.drain.take().is_some_and(|drain| drain.flows.is_some()) {
                self.share = self.usual(self.share);
            }
            self.empty = 0;
            self.cut(rtt, 0.0);
            return;
        }
        let share = match full {
            true => TUNING.managed.after_loss.get(),
            false => TUNING.managed.after_chance.get(),
        };
        if let Some(drain) = &mut self.drain {
            drain.back_to *= share.max(TUNING.managed.after_loss.get());
            if let Some(before) = &mut drain.flows {
                before.full *= share.max(TUNING.managed.after_loss.get());
            }
            return;
        }
        self.cut(rtt, share);
        if full {
            // Whoever drops packets at a short queue shows nothing else: grow no faster than those
            // who know losses only.
            self.empty = 0;
            if !self.contest.is_on(self.heard) {
                self.share = self.share.min(self.window);
            }
        }
    }
}

/// What `full` bytes under way would be without a queue, by the path's round trip and that with the
/// queue.
fn without_queue(full: f64, base: f64, rtt: f64) -> f64 {
    let share = if rtt > 0.0 { base / rtt } else { 1.0 };
    full * share.min(1.0)
}
