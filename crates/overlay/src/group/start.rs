//! Which start of this member its views are from.
//!
//! What a member signs after one start forms one chain, and two chains of one start convict it. A
//! machine that is set back, and two copies of one folder, sign two chains and are no liars. So the
//! start has a random number inside what is signed. A member that finds that it was set back, or
//! that there is a copy of it, begins a new start without ending.

use std::time::Instant;

use sha2::{Digest as _, Sha256};

use crate::context::Cx;
use crate::event::Event;
use crate::limits::{CLOCK_STEP, START_AHEAD, START_PAUSE};
use crate::view::{NO_START, START_LEN, Start};

/// The upper half of a view's number.
fn count_of(number: u64) -> u64 {
    number.wrapping_shr(32)
}

/// The present start, and the number of the last view.
#[derive(Debug)]
pub(super) struct Starts {
    /// What the caller's randomness was: starts come from it.
    seed: [u8; 32],
    start: Start,
    /// The number of the view that this member has signed last.
    number: u64,
    /// Whether views are of version 1, without a start: members of release 0.2 are near.
    earlier: bool,
    /// When the last new start began without an end of the process.
    started_over: Option<Instant>,
    /// When this member had something to sign last, by the clock and by the date.
    signed: Option<Moment>,
}

/// One moment by the clock and by the date.
#[derive(Clone, Copy, Debug)]
struct Moment {
    clock: Instant,
    unix: u64,
}

impl Starts {
    pub(super) fn new(seed: [u8; 32]) -> Starts {
        Starts {
            seed,
            start: Start::default(),
            number: 0,
            earlier: false,
            started_over: None,
            signed: None,
        }
    }

    /// The first view of this start will have the number after `incarnation`.
    pub(super) fn begin(&mut self, incarnation: u32) {
        self.number = u64::from(incarnation).wrapping_shl(32);
        self.start = self.draw(0);
    }

    /// The start that the next view names.
    pub(super) fn start(&self) -> Start {
        if self.earlier { NO_START } else { self.start }
    }

    /// Has views be of version 1 from now on, or of the present one. Their numbers go on, so that
    /// neither version has two with one number, and none follows one of the other version.
    pub(super) fn set_earlier(&mut self, earlier: bool) -> bool {
        std::mem::replace(&mut self.earlier, earlier) != earlier
    }

    /// The number of the next view.
    pub(super) fn next_number(&self) -> u64 {
        self.number.wrapping_add(1)
    }

    /// A view with the next number has been signed.
    pub(super) fn count_view(&mut self) {
        self.number = self.next_number();
    }

    /// A machine that was set back has the randomness of before, too: the time makes the
    /// difference.
    fn draw(&self, unix: u64) -> Start {
        let mut hash = Sha256::new();
        hash.update(b"ringway start");
        hash.update(self.seed);
        hash.update(unix.to_be_bytes());
        hash.update(self.number.to_be_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        hash.first_chunk::<START_LEN>().copied().unwrap_or_default()
    }

    /// A neighbour has a view of this member, with the number `have`. One that this member has not
    /// signed since its start is from a copy of it, or from a time that it does not remember. True
    /// if a new start begins.
    pub(super) fn others_have(&mut self, cx: &mut Cx<'_>, have: u64) -> bool {
        let Some(unix) = cx.trust.unix_time(cx.now) else {
            return false;
        };
        let most = unix.saturating_add(START_AHEAD);
        let lately = self.started_over;
        let lately = lately.is_some_and(|at| cx.now < at + START_PAUSE);
        let newer = have > self.number && count_of(have) <= most && !lately;
        if newer {
            self.start_over(cx, count_of(have));
        }
        newer
    }

    /// Begins a new start where the date has moved by more than the clock since a view was signed
    /// last: the machine may have been set back with its memory.
    pub(super) fn check_date(&mut self, cx: &mut Cx<'_>, unix: u64) {
        let clock = cx.now;
        let Some(before) = self.signed.replace(Moment { clock, unix }) else {
            return;
        };
        let passed = clock.saturating_duration_since(before.clock);
        let expected = before.unix.saturating_add(passed.as_secs());
        if unix.abs_diff(expected) > CLOCK_STEP.as_secs() {
            self.start_over(cx, 0);
        }
    }

    /// Begins a new start with a count above `above`.
    fn start_over(&mut self, cx: &mut Cx<'_>, above: u64) {
        let unix = cx.trust.unix_time(cx.now).unwrap_or_default();
        let next = count_of(self.number).max(above);
        let count = next.saturating_add(1).max(unix).min(u64::from(u32::MAX));
        self.number = count.wrapping_shl(32);
        self.start = self.draw(unix);
        self.started_over = Some(cx.now);
        cx.out.counters.started_over += 1;
        cx.emit(Event::StartedOver(u32::try_from(count).unwrap_or(u32::MAX)));
    }
}
