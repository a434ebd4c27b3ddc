//! What is measured.

use std::time::Duration;

/// Width of one entry.
const STEP: Duration = Duration::from_millis(50);

/// Bytes over time.
#[derive(Clone, Debug, Default)]
pub struct Series {
    steps: Vec<u64>,
}

impl Series {
    pub(super) fn add(&mut self, at: Duration, bytes: u64) {
        let step = index(at);
        if self.steps.len() <= step {
            self.steps.resize(step + 1, 0);
        }
        self.steps[step] += bytes;
    }

    /// Bytes between two times, to a step of 50 ms.
    #[must_use]
    pub fn bytes(&self, from: Duration, to: Duration) -> u64 {
        let (from, to) = (index(from), index(to));
        let steps = self.steps.iter().skip(from);
        steps.take(to.saturating_sub(from)).sum()
    }

    /// When so many bytes had come, to a step of 50 ms.
    #[must_use]
    pub fn came(&self, bytes: u64) -> Option<Duration> {
        let mut sum = 0;
        let full = self.steps.iter().position(|step| {
            sum += step;
            sum >= bytes
        });
        let steps = u32::try_from(full?.saturating_add(1)).ok()?;
        Some(STEP * steps)
    }

    /// The first time after `from` until which bytes have come at `rate` or faster for `span`.
    #[must_use]
    pub fn reaches(&self, rate: f64, from: Duration, span: Duration) -> Option<Duration> {
        let wanted = rate * span.as_secs_f64();
        let last = Duration::from_millis(50) * u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        let mut at = from;
        while at + span <= last {
            if self.bytes(at, at + span) as f64 >= wanted {
                return Some(at + span);
            }
            at += STEP;
        }
        None
    }
}

fn index(at: Duration) -> usize {
    usize::try_from(at.as_millis() / STEP.as_millis()).unwrap_or(usize::MAX)
}

/// Jain's fairness index of shares: 1 if all are equal. Source: the paper, equation 9.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 {
        sum * sum / (shares.len() as f64 * squares)
    } else {
        1.0
    }
}

/// The middle of some values; 0 of none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
