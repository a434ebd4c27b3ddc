//! What one host or member has used of one quota.

use std::time::Duration;

/// Bytes of one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    /// When the period began that the bytes are of, since the Unix epoch.
    pub(super) since: Duration,
    pub(super) used: u64,
    /// It was found above its quota, and that was reported.
    pub(super) passed: bool,
    /// It is not written down as it stands.
    pub(super) unsaved: bool,
}

impl Counter {
    pub(super) fn new(since: Duration) -> Self {
        Self {
            since,
            used: 0,
            passed: false,
            unsaved: true,
        }
    }

    /// Goes to the period between these bounds.
    ///
    /// | the bytes are of a period that | they |
    /// |---|---|
    /// | began before this one | count no more |
    /// | is this one, or began within it (a longer one since) | go on |
    /// | begins where this one ends: the clock has stepped back a little | go on, and count there, too |
    /// | begins later: the clock was wrong | go on in this one |
    pub(super) fn turn(&mut self, [began, ends]: [Duration; 2]) {
        let before = *self;
        if self.since < began {
            self.used = 0;
            self.since = began;
            self.passed = false;
        } else if self.since > ends {
            self.since = began;
        }
        self.unsaved |= before != *self;
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
        self.unsaved |= bytes > 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Counter;

    const fn hours(from: u64) -> [Duration; 2] {
        [
            Duration::from_secs(from.saturating_mul(3_600)),
            Duration::from_secs(from.saturating_add(1).saturating_mul(3_600)),
        ]
    }

    fn used(hour: u64, bytes: u64) -> Counter {
        let mut counter = Counter::new(hours(hour)[0]);
        counter.add(bytes);
        counter
    }

    #[test]
    fn new_period_counts_from_nothing() {
        let mut counter = used(5, 100);
        counter.turn(hours(5));
        assert_eq!(counter.used, 100);
        counter.turn(hours(6));
        assert_eq!((counter.used, counter.since), (0, hours(6)[0]));
    }

    /// Over midnight and back, and over it again: nothing is given twice.
    #[test]
    fn clock_that_steps_back_gives_nothing() {
        let mut counter = used(6, 100);
        counter.turn(hours(5));
        assert_eq!(counter.used, 100);
        counter.add(1);
        counter.turn(hours(6));
        assert_eq!(counter.used, 101);
        counter.turn(hours(7));
        assert_eq!(counter.used, 0);
    }

    /// A clock that was years ahead would else keep a host above its quota for years.
    #[test]
    fn clock_that_was_ahead_ends_with_the_period() {
        let mut counter = used(1_000, 100);
        counter.turn(hours(5));
        assert_eq!((counter.used, counter.since), (100, hours(5)[0]));
        counter.turn(hours(6));
        assert_eq!(counter.used, 0);
    }

    #[test]
    fn longer_period_keeps_what_lies_in_it() {
        let day = [hours(0)[0], hours(24)[0]];
        let mut counter = used(5, 100);
        counter.turn(day);
        assert_eq!(counter.used, 100);
        // What was counted of a day is not all of one of its hours.
        let mut counter = used(0, 100);
        counter.turn(hours(5));
        assert_eq!(counter.used, 0);
    }
}
