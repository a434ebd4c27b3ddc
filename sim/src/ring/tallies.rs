//! Tallies in a simulated ring.

use ringway_overlay::{Count, Credentials as _, RingKey};

use super::RingSim;
use crate::trust::MemberOf;

impl RingSim {
    /// Has a router leave what it has counted under `name`, for `seconds` from now; the result will
    /// be among [`take_records`](Self::take_records). False if it does not run or refused.
    pub fn count(&mut self, from: RingKey, name: &str, count: u64, seconds: u64) -> bool {
        let now = self.instant();
        let expires = MemberOf::new(&self.registry, from).unix_time(now) + seconds;
        let point = Count::point(name.as_bytes());
        let done = self.with(from, |chord| {
            chord.count(now, point, count, expires).is_ok()
        });
        done.unwrap_or(false)
    }

    /// Has a router read the tally of `name`.
    pub fn tally(&mut self, from: RingKey, name: &str) -> bool {
        let now = self.instant();
        let point = Count::point(name.as_bytes());
        let done = self.with(from, |chord| chord.tally(now, point).is_ok());
        done.unwrap_or(false)
    }
}
