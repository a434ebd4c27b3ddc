//! For how many cuts of a whole flow one cut of a part of it counts.
//!
//! A queue that overflows costs each flow that it hits a part of its window, and becomes shorter. A
//! quarter of a flow is hit less often than a whole one: where packets are lost by chance, in one
//! of four times, and each of its losses has to count for four. Where everybody loses at once it is
//! hit each time, and a loss that counts for four leaves it a fraction of what it is worth. Which
//! of the two it is shows in the queue: each time that it became shorter since the last cut,
//! somebody was hit.

use crate::adaptive::tuning::TUNING;

/// What the queue has done since the last cut. Times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Falls {
    longest: f64,
    /// The longest since it last began to grow, or the shortest since it last began to fall.
    turn: f64,
    falling: bool,
    count: u32,
    own: u32,
}

impl Falls {
    /// A round has ended in which packets waited so long on average.
    pub(super) fn look(&mut self, queueing: f64) {
        self.longest = (self.longest * TUNING.falls.kept.get()).max(queueing);
        let noticed = self.longest * TUNING.falls.noticed.get();
        if self.own > 0 {
            self.own -= 1;
            (self.turn, self.falling) = (queueing, false);
        } else if self.falling {
            self.turn = self.turn.min(queueing);
            if queueing > self.turn + noticed {
                (self.turn, self.falling) = (queueing, false);
            }
        } else {
            self.turn = self.turn.max(queueing);
            if queueing < self.turn - noticed {
                (self.turn, self.falling) = (queueing, true);
                self.count = self.count.saturating_add(1);
            }
        }
    }

    /// A cut, of `part` of a flow: what it counts for, at most as much as if losses hit by chance.
    pub(super) fn cut(&mut self, part: f64) -> f64 {
        let hit = f64::from(std::mem::take(&mut self.count)) + 1.0;
        self.own = TUNING.falls.own;
        hit.min(most(part))
    }
}

/// What a loss counts for that hits `part` of a flow by chance.
pub(super) fn most(part: f64) -> f64 {
    1.0 / part.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of up to 20 ms that grows over eight rounds and falls by three tenths, so many
    /// times.
    fn sawtooth(falls: &mut Falls, times: u32) {
        for _ in 0..times {
            for round in 0..=8 {
                falls.look(0.014 + 0.006 * f64::from(round) / 8.0);
            }
        }
        falls.look(0.014);
    }

    #[test]
    fn a_quarter_spared_twice_counts_three_times() {
        let mut falls = Falls::default();
        falls.cut(0.25);
        sawtooth(&mut falls, 2);
        assert!((falls.cut(0.25) - 3.0).abs() < 1e-9);
        // It begins again, and its own fall is none of another's.
        for queueing in [0.014, 0.012, 0.010, 0.014, 0.020] {
            falls.look(queueing);
        }
        assert!((falls.cut(0.25) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_cut_never_counts_more_than_chance() {
        let mut falls = Falls::default();
        sawtooth(&mut falls, 30);
        assert!((falls.cut(0.25) - 4.0).abs() < 1e-9);
        sawtooth(&mut falls, 30);
        assert!((falls.cut(3.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn jitter_is_no_fall() {
        let mut falls = Falls::default();
        falls.cut(0.25);
        for round in 0..200 {
            falls.look(0.018 + 0.002 * f64::from(round % 2));
        }
        assert!((falls.cut(0.25) - 1.0).abs() < 1e-9);
    }
}
