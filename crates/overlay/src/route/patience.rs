//! How long something is waited for: as long as it uses to take, and twice as long after each time
//! that it did not come, so that an overloaded peer is not given more to do.
//!
//! Source: RFC 6298 §2 and §5.5.

use std::time::Duration;

use crate::request::Pace;

#[derive(Debug, Default)]
pub(super) struct Patience {
    usual: Pace,
    /// Times in a row that it did not come.
    missed: u32,
}

impl Patience {
    /// It came, at the first try.
    pub(super) fn came(&mut self, after: Duration) {
        self.usual.take_in(after.as_secs_f64());
        self.missed = 0;
    }

    /// Something like it came, which says nothing of how long this takes.
    pub(super) fn restored(&mut self) {
        self.missed = 0;
    }

    pub(super) fn missed(&mut self) {
        self.missed = self.missed.saturating_add(1);
    }

    /// Between `least` and `most`.
    pub(super) fn time(&self, least: Duration, most: Duration) -> Duration {
        let usual = self.usual.patience(most).max(least);
        let factor = 1_u32.checked_shl(self.missed.min(8)).unwrap_or(1);
        usual.saturating_mul(factor).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_doubled_while_nothing_comes() {
        let [least, most, usual] = [100, 2_000, 10].map(Duration::from_millis);
        let mut patience = Patience::default();
        assert_eq!(patience.time(least, most), most);
        for _ in 0..20 {
            patience.came(usual);
        }
        assert_eq!(patience.time(least, most), least);
        patience.missed();
        patience.missed();
        assert_eq!(patience.time(least, most), 4 * least);
        for _ in 0..60 {
            patience.missed();
        }
        assert_eq!(patience.time(least, most), most);
        patience.came(usual);
        assert_eq!(patience.time(least, most), least);
    }
}
