//! Whether two groups wait in one queue: their round trips rise and fall together.
//!
//! Round trips are compared in bins of time, by when packets *left*: whatever the paths are, two
//! packets that came to one queue at the same moment waited for the same time. What stays (the
//! lengths of the paths) and what moves slowly (two queues that fill at the same pace, as
//! those of two TCPs do for seconds) says nothing, and is taken off first.

/// Bins over which what stays is taken off: a quarter of a second.
const SLOW: f64 = 1.0 / 5.0;
/// What is left of a comparison after each further one: they count for about ten seconds.
const KEPT: f64 = 1.0 - 1.0 / 200.0;
/// Part of a new movement in what is usual, and how many times that much one counts for at most:
/// one great event in both is chance, many small ones are not.
const USUAL: f64 = 1.0 / 50.0;
const CLIPPED: f64 = 2.0;
/// Comparisons before anything is said: three seconds.
const LEAST: u32 = 60;
/// Likeness at which two groups are taken to share a queue, and below which no longer. 1: the same
/// curve; 0: nothing in common.
const BEGINS: f64 = 0.6;
const ENDS: f64 = 0.3;
/// Comparisons in a row at which it has to be as large: a second.
const ROW: u32 = 20;
/// Root mean square of what round trips differ by from their mean, in seconds, below which they say
/// nothing: hosts have as much jitter.
const STIRS: f64 = 0.000_5;

/// What moves quickly of a curve. Its recent mean is taken off, and of what is left once more: of
/// a ramp the first leaves a constant.
#[derive(Copy, Clone, Debug, Default)]
struct Curve {
    mean: Option<f64>,
    slope: f64,
}

impl Curve {
    fn moves(&mut self, value: f64) -> f64 {
        let mean = self.mean.get_or_insert(value);
        let off = value - *mean;
        *mean += SLOW * off;
        let moved = off - self.slope;
        self.slope += SLOW * moved;
        moved
    }
}

#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Likeness {
    one: Curve,
    other: Curve,
    /// How much both move, mostly.
    usual: f64,
    /// Sums of products and of mean squares of what both differ by from their means.
    common: f64,
    all: f64,
    /// How many comparisons these are, and how many there were.
    weight: f64,
    looks: u32,
    /// Comparisons in a row at which they were alike enough.
    row: u32,
    holds: bool,
}

impl Likeness {
    /// Compares two round trips of one bin, in seconds. True if it says something else than before.
    pub(super) fn look(&mut self, one: f64, other: f64) -> bool {
        let (a, b) = (self.one.moves(one), self.other.moves(other));
        self.usual += USUAL * (f64::midpoint(a.abs(), b.abs()) - self.usual);
        let most = CLIPPED * self.usual;
        let (a, b) = (a.clamp(-most, most), b.clamp(-most, most));
        self.common = self.common * KEPT + a * b;
        self.all = self.all * KEPT + f64::midpoint(a * a, b * b);
        self.weight = self.weight * KEPT + 1.0;
        self.looks = self.looks.saturating_add(1);
        if self.looks < LEAST {
            return false;
        }
        let held = self.holds;
        let least = if held { ENDS } else { BEGINS };
        if self.value().is_some_and(|value| value >= least) {
            self.row = self.row.saturating_add(1);
        } else {
            self.row = 0;
        }
        self.holds = self.row >= if held { 1 } else { ROW };
        held != self.holds
    }

    /// Lin's concordance of the two curves: their correlation, less where one of them moves more
    /// than the other. `None` where neither moves.
    fn value(&self) -> Option<f64> {
        let stirs = self.all >= self.weight * STIRS * STIRS;
        stirs.then(|| self.common / self.all)
    }

    /// Whether they are taken to share a queue.
    pub(super) fn holds(&self) -> bool {
        self.holds
    }
}
