//! Which losses the last cut answers, and what it took away, until it is known whether it was
//! right.

use std::time::Instant;

use super::super::losses::Blame;

/// What a cut took away.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// In bytes.
    pub(super) window: f64,
    /// In bytes.
    pub(super) share: f64,
    pub(super) empty: u32,
    pub(super) slow_start: bool,
    pub(super) lost_early: Option<Instant>,
    pub(super) blame: Blame,
    /// Of the drain that was going on.
    pub(super) back_to: Option<f64>,
}

/// The packets that the last cut answers: `from ..until`.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    from: u64,
    until: u64,
    /// Those that have not arrived.
    lost: u32,
    /// Those that the next cut will answer.
    next: u32,
    /// What can be taken back.
    before: Option<Before>,
}

impl Answers {
    /// A packet was lost.
    pub(super) fn on_lost(&mut self, packet: u64) {
        if packet >= self.until {
            self.next = self.next.saturating_add(1);
        } else if packet >= self.from {
            self.lost = self.lost.saturating_add(1);
        }
    }

    /// A cut follows that answers what was lost since the last one, before packet `next`.
    pub(super) fn on_cut(&mut self, next: u64, before: Option<Before>) {
        *self = Answers {
            from: self.until,
            until: next,
            lost: self.next,
            next: 0,
            before,
        };
    }

    /// What is cut next has another reason.
    pub(super) fn keep_cut(&mut self) {
        self.before = None;
    }

    /// A packet that was deemed lost has arrived: what the last cut took away, if this was the last
    /// that it answered.
    pub(super) fn on_spurious_loss(&mut self, packet: u64) -> Option<Before> {
        if !(self.from..self.until).contains(&packet) {
            return None;
        }
        self.lost = self.lost.saturating_sub(1);
        if self.lost > 0 {
            return None;
        }
        let before = self.before.take()?;
        self.until = self.from;
        Some(before)
    }
}
