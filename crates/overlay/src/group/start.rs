//! Which start of this member its views are from.
//!
//! What a member signs after one start forms one chain, and two chains of one start convict it. A
//! machine that is set back, and two copies of one folder, sign two chains and are no liars. So the
//! start has a random number inside what is signed. A member that finds that it was set back, or
//! that there is a copy of it, begins a new start without ending.

use std::time::Instant;

use sha2::{Digest as _, Sha256};

use crate::chord::Chord;
use crate::event::Event;
use crate::limits::{CLOCK_STEP, START_AHEAD, START_PAUSE};
use crate::view::{START_LEN, Start};

/// The upper half of a view's number.
fn count_of(number: u64) -> u64 {
    number.wrapping_shr(32)
}

impl Chord {
    /// The first view of this start will have the number after `incarnation`.
    pub(crate) fn begin_start(&mut self, incarnation: u32) {
        self.neighbours.number = u64::from(incarnation).wrapping_shl(32);
        self.neighbours.start = self.draw_start(0);
    }

    /// A machine that was set back has the randomness of before, too: the time makes the
    /// difference.
    fn draw_start(&self, unix: u64) -> Start {
        let mut hash = Sha256::new();
        hash.update(b"ringway start");
        hash.update(self.seed);
        hash.update(unix.to_be_bytes());
        hash.update(self.neighbours.number.to_be_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        hash.first_chunk::<START_LEN>().copied().unwrap_or_default()
    }

    /// A neighbour has a view of this member, with the number `have`. One that this member has not
    /// signed since its start is from a copy of it, or from a time that it does not remember.
    pub(crate) fn others_have(&mut self, now: Instant, have: u64) {
        let Some(credentials) = &self.credentials else {
            return;
        };
        let most = credentials.unix_time(now).saturating_add(START_AHEAD);
        let lately = self.neighbours.started_over;
        let lately = lately.is_some_and(|at| now < at + START_PAUSE);
        if have > self.neighbours.number && count_of(have) <= most && !lately {
            self.start_over(now, count_of(have));
        }
    }

    /// Begins a new start where the date has moved by more than the clock since a view was signed
    /// last: the machine may have been set back with its memory.
    pub(crate) fn look_at_the_date(&mut self, now: Instant, unix: u64) {
        let before = self.neighbours.date.replace((now, unix));
        let Some((then, was)) = before else { return };
        let expected = was.saturating_add(now.saturating_duration_since(then).as_secs());
        if unix.abs_diff(expected) > CLOCK_STEP.as_secs() {
            self.start_over(now, 0);
        }
    }

    /// Begins a new start with a count above `above`.
    fn start_over(&mut self, now: Instant, above: u64) {
        let unix = self.credentials.as_ref().map(|c| c.unix_time(now));
        let unix = unix.unwrap_or_default();
        let next = count_of(self.neighbours.number).max(above);
        let count = next.saturating_add(1).max(unix).min(u64::from(u32::MAX));
        self.neighbours.number = count.wrapping_shl(32);
        self.neighbours.start = self.draw_start(unix);
        self.neighbours.started_over = Some(now);
        self.counters.started_over += 1;
        self.emit(Event::StartedOver(u32::try_from(count).unwrap_or(u32::MAX)));
        if self.is_member() {
            self.sign_anew(now);
        }
    }
}
