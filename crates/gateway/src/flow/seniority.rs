//! Flows in the order in which they began to hold memory, so that the one that has held it for
//! longest gives way.

use std::collections::VecDeque;

/// A line of flows, each named by its slot in the table and its serial. Those that hold nothing
/// any more leave it late: the caller says which ones still count.
#[derive(Debug)]
pub(crate) struct Seniority {
    line: VecDeque<(usize, u64)>,
    /// The length at which the line is gone through.
    full: usize,
}

/// Length at which a line is gone through for the first time.
const SHORT: usize = 1_024;

impl Default for Seniority {
    fn default() -> Self {
        Self {
            line: VecDeque::new(),
            full: SHORT,
        }
    }
}

impl Seniority {
    /// Puts a flow at the end.
    pub(crate) fn push(
        &mut self,
        slot: usize,
        serial: u64,
        mut counts: impl FnMut(usize, u64) -> bool,
    ) {
        if self.line.len() >= self.full {
            self.line.retain(|&(slot, serial)| counts(slot, serial));
            self.full = self.line.len().saturating_mul(2).max(SHORT);
        }
        self.line.push_back((slot, serial));
    }

    /// Takes out the first that counts: its slot and serial.
    pub(crate) fn pop(
        &mut self,
        mut counts: impl FnMut(usize, u64) -> bool,
    ) -> Option<(usize, u64)> {
        while let Some((slot, serial)) = self.line.pop_front() {
            if counts(slot, serial) {
                return Some((slot, serial));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{SHORT, Seniority};

    #[test]
    fn the_oldest_counting_comes_first() {
        let mut line = Seniority::default();
        for serial in 0..1_000_000_u64 {
            // The first one holds on for ever, and of the others the last ten.
            let slot = usize::try_from(serial).unwrap();
            line.push(slot, serial, |_, other| other == 0 || other + 10 > serial);
        }
        assert!(line.line.len() <= SHORT + 1, "{}", line.line.len());
        let counts = |_, serial| serial == 0 || serial + 10 >= 1_000_000;
        let order: Vec<(usize, u64)> = std::iter::from_fn(|| line.pop(counts)).collect();
        assert_eq!(order.first(), Some(&(0, 0)));
        assert_eq!(order.len(), 11);
    }
}
