//! How priority 0 answers losses and marks, and takes an answer back.

use super::super::tuning::TUNING;
use super::Scavenger;
use super::answers::Before;

impl Scavenger {
    /// A datagram was lost.
    pub(in super::super) fn on_lost(&mut self, packet: u64) {
        self.losses.on_lost();
        self.answers.on_lost(packet);
    }

    /// A datagram that was deemed lost has arrived: true if it was the last that a cut answered,
    /// which is taken back.
    pub(in super::super) fn on_spurious_loss(&mut self, packet: u64) -> bool {
        self.losses.on_spurious_loss();
        let Some(before) = self.answers.on_spurious_loss(packet) else {
            return false;
        };
        self.window = self.window.max(before.window);
        self.share = self.share.max(before.share);
        self.empty = self.empty.max(before.empty);
        if before.slow_start {
            self.phase.back_to_slow_start();
        }
        self.lost_early = before.lost_early;
        self.losses.restore(before.blame);
        if let (Some(drain), Some(back_to)) = (self.phase.drain_mut(), before.back_to) {
            drain.back_to = drain.back_to.max(back_to);
        }
        true
    }

    /// A cut follows that answers what was lost since the last one.
    fn answer(&mut self, next: u64, may_be_undone: bool) {
        let before = may_be_undone.then(|| Before {
            window: self.window,
            share: self.share,
            empty: self.empty,
            slow_start: self.phase.is_slow_start(),
            lost_early: self.lost_early,
            blame: self.losses.blame(),
            back_to: self.phase.drain().map(|drain| drain.back_to),
        });
        self.answers.on_cut(next, before);
    }

    /// Packets were lost, or marked: at most once in a round trip. A mark is always the work of a
    /// queue. `next` is the number of the next packet.
    pub(in super::super) fn on_loss(&mut self, rtt: f64, persistent: bool, mark: bool, next: u64) {
        self.answer(next, !(persistent || mark));
        self.started = None;
        self.phase.end_slow_start();
        let queue = self.noise() + TUNING.managed.queued.get() * self.target();
        let full = mark || self.losses.on_congestion(self.acked_at, queue);
        if full && self.recent < self.foreign() {
            self.lost_early = Some(self.acked_at);
        }
        if persistent {
            // Nothing came through: that says nothing of what this flow usually has, to which it
            // returns. In slow start it had something, too.
            if self.share <= 0.0 {
                self.share = self.window * TUNING.managed.after_loss.get();
            }
            let broken_off = self.phase.end_drain();
            if broken_off.is_some_and(|drain| drain.former.is_some()) {
                self.share = self.usual(self.share);
            }
            self.empty = 0;
            self.cut(rtt, 0.0);
            return;
        }
        let share = if full {
            TUNING.managed.after_loss.get()
        } else {
            TUNING.managed.after_chance.get()
        };
        if let Some(drain) = self.phase.drain_mut() {
            drain.back_to *= share.max(TUNING.managed.after_loss.get());
            if let Some(before) = &mut drain.former {
                before.full *= share.max(TUNING.managed.after_loss.get());
            }
            return;
        }
        self.cut(rtt, share);
        if full {
            // What drops packets at a short queue shows nothing else: grow no faster than those
            // who know losses only.
            self.empty = 0;
            if !self.phase.is_contested() {
                self.share = self.share.min(self.window);
            }
        }
    }
}
