//! The follower of one direction: where each segment lies, what is new in it, and what becomes of
//! its packet.

use std::time::Duration;

use super::held::Held;
use super::window::{Repeated, Window};
use super::{Decision, Loss, Output, Position, Refusal, Segment, StreamBounds};
use crate::limits::{MAX_AMBIGUOUS, PART_OVERHEAD};
use crate::ranges::{Ranges, after};
use crate::reader::length32;

/// One direction of a TCP connection; the module's documentation says what it guarantees.
///
/// It begins at the SYN; without one (picked up midway) at the first segment with data, and then
/// earlier bytes that come late pass unseen.
///
/// Commands: [`handle_segment`](Self::handle_segment),
/// [`handle_acknowledgement`](Self::handle_acknowledgement),
/// [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout),
/// [`close`](Self::close). Memory is bounded by [`StreamBounds`] and by the `room` of each call:
/// how many more bytes all streams together may hold. Compare [`held`](Self::held) before and after
/// a call to keep that sum.
#[derive(Debug)]
pub struct Stream<T> {
    bounds: StreamBounds,
    /// Sequence number of the byte at `delivered`; `None` before the first segment.
    next: Option<u32>,
    /// Bytes delivered: the position of the next byte.
    delivered: u64,
    window: Window,
    kept: Ranges,
    held: Held<T>,
    /// The position behind the last byte, when a FIN has told it.
    end: Option<u64>,
    waiting_since: Option<Duration>,
    midway: bool,
    /// The receiver has acknowledged a number of this stream.
    confirmed: bool,
    reset: bool,
    /// Bytes of it went by unseen.
    passed_over: bool,
    lost: Option<Loss>,
}

impl<T: Copy> Default for Stream<T> {
    fn default() -> Self {
        Self::new(StreamBounds::default())
    }
}

impl<T: Copy> Stream<T> {
    /// A stream of which nothing was seen.
    #[must_use]
    pub fn new(bounds: StreamBounds) -> Self {
        Self {
            bounds,
            next: None,
            delivered: 0,
            window: Window::default(),
            kept: Ranges::default(),
            held: Held::default(),
            end: None,
            waiting_since: None,
            midway: false,
            confirmed: false,
            reset: false,
            passed_over: false,
            lost: None,
        }
    }

    /// Takes in a segment that passes the gateway. `room` is how many more bytes all streams
    /// together may hold.
    pub fn handle_segment(
        &mut self,
        now: Duration,
        segment: &Segment<'_, T>,
        room: usize,
        output: &mut Output<T>,
    ) -> Decision {
        output.rewritten.clear();
        if let Some(loss) = self.lost {
            return Decision::Lost(loss);
        }
        if segment.rst {
            // Only a reset with exactly the next number is believed (RFC 9293 §3.10.7.4); following
            // goes on even so, because a reset may be made to end before the receiver.
            self.reset |= self.next == Some(segment.sequence);
            return Decision::Pass;
        }
        if segment.syn && !self.accepts_syn(segment.sequence) {
            return Decision::Drop(Refusal::OtherNumbers);
        }
        if segment.payload.is_empty() && !segment.fin {
            return Decision::Pass;
        }
        // A SYN's data (fast open) follows the number it takes for itself.
        let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
        self.midway |= self.next.is_none();
        let next = *self.next.get_or_insert(sequence);
        let limit = self.held().saturating_add(room);
        let distance = sequence.wrapping_sub(next).cast_signed();
        let apart = usize::try_from(distance.unsigned_abs()).unwrap_or(usize::MAX);
        if distance > 0 {
            self.handle_ahead(now, segment, apart, limit, output)
        } else {
            self.handle_due(now, segment, apart, limit, output)
        }
    }

    /// The receiver has answered a SYN that did not come by here: the first byte has this number.
    /// Says nothing to a stream that has begun.
    pub fn begin(&mut self, first: u32) {
        self.next.get_or_insert(first);
    }

    /// Takes in an acknowledgement number of the other direction: the receiver has all bytes before
    /// it.
    pub fn handle_acknowledgement(&mut self, acknowledged: u32) {
        let Some(next) = self.next else { return };
        // The FIN takes one number behind the last byte.
        let next = next.wrapping_add(u32::from(self.is_ended()));
        let left = next.wrapping_sub(acknowledged).cast_signed();
        // What acknowledges bytes that were not passed on yet is none of the receiver's.
        let Ok(left) = u64::try_from(left) else {
            return;
        };
        let left = left.saturating_sub(u64::from(self.is_ended()));
        if left <= self.delivered {
            self.confirmed = true;
            self.window.acknowledge(left);
        }
    }

    /// The next `bytes` bytes went by unseen, or go by so; `acknowledged` is how far the receiver
    /// has them. Returns whether it can be: the receiver may have nothing behind them, and has
    /// to have them all if numbers would be ambiguous.
    pub fn pass_over(&mut self, bytes: u64, acknowledged: u32) -> bool {
        let Some(next) = self.next else { return false };
        // Numbers are those of the stream modulo 2^32 (RFC 9293 §3.4).
        let low = u32::try_from(bytes & u64::from(u32::MAX)).unwrap_or(0);
        let next = next.wrapping_add(low);
        let missing = next.wrapping_sub(acknowledged);
        let plain = bytes <= MAX_AMBIGUOUS && u64::from(missing) <= bytes;
        if self.lost.is_some() || !self.kept.is_empty() || !(missing == 0 || plain) {
            return false;
        }
        self.next = Some(next);
        self.delivered = self.delivered.saturating_add(bytes);
        self.window = Window::default();
        self.passed_over = true;
        true
    }

    /// So many bytes from this number on have gone on unread. Returns whether they were the next
    /// ones.
    pub fn skip(&mut self, sequence: u32, bytes: u32) -> bool {
        let due = self.next.is_none_or(|next| next == sequence);
        if self.lost.is_some() || !due || !self.kept.is_empty() {
            return false;
        }
        self.next = Some(sequence.wrapping_add(bytes));
        self.delivered = self.delivered.saturating_add(u64::from(bytes));
        self.window = Window::default();
        self.passed_over = true;
        true
    }

    /// Nothing lies behind a gap.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.kept.is_empty() && self.held.is_empty()
    }

    /// The receiver says that it has bytes which did not come by here, of a stream of which some
    /// were [passed over](Self::pass_over) or [skipped](Self::skip): there they can have come
    /// by unseen.
    #[must_use]
    pub fn has_missed(&self, acknowledged: u32) -> bool {
        let next = self
            .next
            .filter(|_| self.passed_over && self.lost.is_none());
        // The FIN takes one number behind the last byte.
        next.is_some_and(|next| acknowledged.wrapping_sub(next).cast_signed() > 1)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due: a gap is open for too long then.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.waiting_since
            .map(|since| since.saturating_add(self.bounds.gap))
    }

    /// Ends the wait for a gap, if it is due. With fast pass the stream is lost, because the
    /// receiver has the bytes behind the gap; without, the held packets are abandoned and the
    /// stream goes on.
    pub fn handle_timeout(&mut self, now: Duration, output: &mut Output<T>) -> Option<Loss> {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return None;
        }
        if self.bounds.fast_pass {
            return Some(self.give_up(Loss::GapTimeout, output));
        }
        self.abandon(output);
        self.end = self.end.filter(|&end| end <= self.delivered);
        None
    }

    /// Gives up the stream: hands out the tokens of held packets and gives its memory back.
    pub fn close(&mut self, output: &mut Output<T>) {
        let _closed: Loss = self.give_up(Loss::Closed, output);
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.window
            .held()
            .saturating_add(self.kept.held())
            .saturating_add(self.held.held())
    }

    /// The bounds it was made with.
    #[must_use]
    pub fn bounds(&self) -> StreamBounds {
        self.bounds
    }

    /// Bytes delivered so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Everything up to the FIN was delivered.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.end == Some(self.delivered)
    }

    /// A reset that the receiver believes was seen.
    #[must_use]
    pub fn is_reset(&self) -> bool {
        self.reset
    }

    /// The stream was picked up without its beginning.
    #[must_use]
    pub fn is_midway(&self) -> bool {
        self.midway
    }

    /// Why the stream was given up, if it was.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.lost
    }

    /// Takes in a SYN's number, if it is the first or the same. Another one goes on only once the
    /// receiver has acknowledged this stream's numbers: before, it could take either, and one
    /// of both may die on the way.
    fn accepts_syn(&mut self, sequence: u32) -> bool {
        let begin = sequence.wrapping_add(1);
        let next = *self.next.get_or_insert(begin);
        // Only a stream of less than 4 GiB still knows its first number; a longer one is long
        // confirmed.
        let same = u32::try_from(self.delivered)
            .is_ok_and(|delivered| next.wrapping_sub(delivered) == begin);
        same || self.confirmed
    }

    /// A segment that begins behind a gap of `gap` bytes.
    fn handle_ahead(
        &mut self,
        now: Duration,
        segment: &Segment<'_, T>,
        gap: usize,
        limit: usize,
        output: &mut Output<T>,
    ) -> Decision {
        let payload = segment.payload;
        if gap.saturating_add(payload.len()) > self.bounds.ahead {
            return Decision::Drop(Refusal::TooFarAhead);
        }
        let at = after(self.delivered, gap);
        let end = after(at, payload.len());
        if !self.agrees_with_end(end, segment) {
            return Decision::Drop(Refusal::BehindEnd);
        }
        if segment.truncated {
            return Decision::Lost(self.give_up(Loss::Truncated, output));
        }
        let Some(new) = self.keep(at, payload, limit) else {
            return Decision::Drop(Refusal::NoRoom);
        };
        let conflict = self.kept.differs(at, payload);
        if conflict {
            // The receiver may have the first copy or not, so it must get no other one than what
            // was read.
            output.rewritten.extend_from_slice(payload);
            self.kept.correct(at, &mut output.rewritten);
        }
        let ends = segment.fin && self.end.is_none();
        if ends {
            self.end = Some(end);
        }
        self.waiting_since.get_or_insert(now);
        if !self.bounds.fast_pass {
            self.held.push(end, segment.token);
        } else if new == 0 && !ends {
            return Position::Old.decision(conflict);
        }
        Position::Ahead.decision(conflict)
    }

    /// Keeps a copy of what is new behind a gap, and a slot for the packet's token where packets
    /// are held.
    fn keep(&mut self, at: u64, payload: &[u8], limit: usize) -> Option<usize> {
        let mut room = limit.saturating_sub(self.held());
        if !self.bounds.fast_pass {
            room = room.checked_sub(PART_OVERHEAD)?;
            if self.held.len() >= self.bounds.ahead_segments {
                return None;
            }
        }
        let room = room.min(self.bounds.ahead.saturating_sub(self.kept.held()));
        self.kept
            .insert(at, payload, room, self.bounds.ahead_segments)
    }

    /// A segment that begins at the next byte or `behind` bytes before it.
    fn handle_due(
        &mut self,
        now: Duration,
        segment: &Segment<'_, T>,
        behind: usize,
        limit: usize,
        output: &mut Output<T>,
    ) -> Decision {
        let payload = segment.payload;
        let (old, new) = payload.split_at_checked(behind).unwrap_or((payload, &[]));
        let before_begin = after(0, behind) > self.delivered;
        if before_begin && !old.is_empty() && !self.confirmed && !self.midway {
            return Decision::Drop(Refusal::OtherNumbers);
        }
        let end = after(self.delivered, payload.len()).checked_sub(after(0, behind));
        if end.is_some_and(|end| !self.agrees_with_end(end, segment)) {
            return Decision::Drop(Refusal::BehindEnd);
        }
        if segment.truncated && !new.is_empty() {
            return Decision::Lost(self.give_up(Loss::Truncated, output));
        }
        // A retransmission must repeat what was read, or the receiver may get something else.
        let repeated = self.window.compare(behind, old);
        if repeated == Repeated::Forgotten {
            return Decision::Lost(self.give_up(Loss::Forgotten, output));
        }
        let conflict =
            matches!(repeated, Repeated::Differs(_)) || self.kept.differs(self.delivered, new);
        if conflict {
            self.rewrite(payload, behind, old.len(), repeated, output);
        }
        let ends = segment.fin && self.end.is_none() && end.is_some();
        if ends {
            self.end = end;
        }
        if new.is_empty() && !ends {
            return Position::Old.decision(conflict);
        }
        let new = if conflict {
            output.rewritten.get(old.len()..).unwrap_or_default()
        } else {
            new
        };
        self.append(new, limit, &mut output.bytes);
        self.join(now, limit, output);
        Position::Next.decision(conflict)
    }

    /// A payload with first copies in place of what differs. `old` of its bytes begin `behind` the
    /// next one.
    fn rewrite(
        &self,
        payload: &[u8],
        behind: usize,
        old: usize,
        repeated: Repeated,
        output: &mut Output<T>,
    ) {
        output.rewritten.extend_from_slice(payload);
        let (repetition, new) = output
            .rewritten
            .split_at_mut_checked(old)
            .unwrap_or_default();
        if let Repeated::Differs(from) = repeated {
            let known = repetition.get_mut(from..).unwrap_or_default();
            let copies = self.window.copies(behind.saturating_sub(from));
            for (byte, first) in known.iter_mut().zip(copies.flatten()) {
                *byte = *first;
            }
        }
        self.kept.correct(self.delivered, new);
    }

    /// Delivers bytes that are next in order.
    fn append(&mut self, new: &[u8], limit: usize, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(new);
        let room = limit.saturating_sub(self.held());
        self.window.push(new, self.bounds.unacknowledged, room);
        self.delivered = after(self.delivered, new.len());
        self.next = self.next.map(|next| next.wrapping_add(length32(new.len())));
    }

    /// Delivers the kept copies that follow now, and releases the packets that waited with them.
    fn join(&mut self, now: Duration, limit: usize, output: &mut Output<T>) {
        while let Some((at, part)) = self.kept.take_due(self.delivered) {
            let had = usize::try_from(self.delivered.saturating_sub(at)).unwrap_or(usize::MAX);
            let new = part.get(had..).unwrap_or_default();
            self.append(new, limit, &mut output.bytes);
        }
        while let Some(token) = self.held.take_due(self.delivered) {
            output.released.push(token);
        }
        let waits = !self.kept.is_empty()
            || !self.held.is_empty()
            || self.end.is_some_and(|end| end > self.delivered);
        self.waiting_since = waits.then_some(now);
    }

    /// Data may not go on behind the end, and all FINs must stand at one position, behind all data.
    fn agrees_with_end(&self, end: u64, segment: &Segment<'_, T>) -> bool {
        match self.end {
            Some(known) if segment.fin => end == known,
            Some(known) => end <= known,
            None => !segment.fin || end >= self.kept.end().unwrap_or(0).max(self.delivered),
        }
    }

    fn give_up(&mut self, loss: Loss, output: &mut Output<T>) -> Loss {
        let loss = *self.lost.get_or_insert(loss);
        self.abandon(output);
        self.window = Window::default();
        loss
    }

    /// Forgets what lies behind the gap.
    fn abandon(&mut self, output: &mut Output<T>) {
        while let Some(token) = self.held.take_due(u64::MAX) {
            output.abandoned.push(token);
        }
        self.kept = Ranges::default();
        self.waiting_since = None;
    }
}
