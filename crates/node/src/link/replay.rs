//! The sliding window that takes each message counter once (RFC 6479).

use crate::limits::REPLAY_WINDOW;

const WORDS: usize = REPLAY_WINDOW / 64;

/// Which of the last [`REPLAY_WINDOW`] counters have been seen.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// One past the highest counter seen.
    next: u64,
    seen: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> ReplayWindow {
        ReplayWindow {
            next: 0,
            seen: [0; WORDS],
        }
    }
}

impl ReplayWindow {
    /// True if `counter` is neither seen nor too old. Look before decryption, so that a replay
    /// costs nothing.
    pub(crate) fn is_fresh(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        let too_old = self.next - counter > Self::span();
        let (word, bit) = Self::position(counter);
        !too_old && self.seen[word] & bit == 0
    }

    /// True if `counter` has been marked and is not too old to be remembered.
    pub(crate) fn has_seen(&self, counter: u64) -> bool {
        let within = counter < self.next && self.next - counter <= Self::span();
        let (word, bit) = Self::position(counter);
        within && self.seen[word] & bit != 0
    }

    /// Marks an authenticated message's counter as seen.
    pub(crate) fn mark(&mut self, counter: u64) {
        if counter >= self.next {
            let first_new = self.next / 64 + u64::from(!self.next.is_multiple_of(64));
            let last_new = counter / 64;
            let words = u64::try_from(WORDS).unwrap_or(u64::MAX);
            for word in first_new..=last_new.min(first_new.saturating_add(words)) {
                self.seen[Self::index(word)] = 0;
            }
            self.next = counter.saturating_add(1);
        }
        let (word, bit) = Self::position(counter);
        self.seen[word] |= bit;
    }

    fn span() -> u64 {
        // One word less: the newest word is partly in the future.
        u64::try_from(REPLAY_WINDOW - 64).unwrap_or(u64::MAX)
    }

    fn index(word: u64) -> usize {
        usize::try_from(word % u64::try_from(WORDS).unwrap_or(1)).unwrap_or(0)
    }

    fn position(counter: u64) -> (usize, u64) {
        (Self::index(counter / 64), 1 << (counter % 64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain set: nothing is taken twice, and everything within the span is taken
        /// once.
        #[test]
        fn each_counter_is_taken_once(steps in proptest::collection::vec((0u64..3000, any::<bool>()), 1..400)) {
            let mut window = ReplayWindow::default();
            let mut model = HashSet::new();
            let mut highest = 0;
            for (counter, jump) in steps {
                let counter = if jump { counter * 7 } else { counter };
                let within = counter + ReplayWindow::span() > highest;
                let fresh = window.is_fresh(counter);
                if model.contains(&counter) {
                    prop_assert!(!fresh, "{counter} twice");
                } else if within {
                    prop_assert!(fresh, "{counter} refused, highest {highest}");
                }
                prop_assert_eq!(window.has_seen(counter), !fresh && within);
                if fresh {
                    window.mark(counter);
                    model.insert(counter);
                    highest = highest.max(counter);
                }
            }
        }
    }

    #[test]
    fn the_largest_counter_does_no_harm() {
        let mut window = ReplayWindow::default();
        window.mark(u64::MAX);
        assert!(!window.is_fresh(0));
    }
}
