//! The sending half of a conversation: what waits for the receiver's signature, and when it is sent
//! (again). No clock, no disk.
//!
//! Commands change it, `handle_*` takes what comes, [`Outgoing::poll_transmit`] gives frames and
//! [`Outgoing::poll_timeout`] the time at which [`Outgoing::handle_timeout`] has something to do.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::chain::{self, Chain};
use super::record::{Epoch, Message, MessageId};
use super::wire::{Batch, Frame, Item, Receipt, Rest};
use crate::limits::{
    BATCH_BYTES, BATCH_MESSAGES, BODY_IN_BATCH, MESSAGE_RETRY_FIRST, MESSAGE_RETRY_LONGEST,
    MESSAGE_RETRY_MAIL, MESSAGE_RETRY_MAIL_LONGEST, MESSAGE_WINDOW,
};

/// Receipts that show the same gap before what is missing is sent again: packets overtake each
/// other.
const GAP_SHOWN: u32 = 2;

/// What is kept of it on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) epoch: Epoch,
    /// All up to here are signed for, or given up.
    pub(super) upto: u64,
    /// The chain there.
    pub(super) chain: Chain,
    /// The receiver says that it has read all up to here.
    pub(super) read: u64,
}

#[derive(Clone, Debug)]
struct Pending {
    message: Arc<Message>,
    /// With this message.
    chain: Chain,
    priority: f64,
}

/// What a receipt has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing new.
    None,
    /// More is signed for, or read, than before.
    Settled,
    /// The receiver has other messages under these numbers: one of both homes is an old copy.
    Differs,
}

/// The sending half of a conversation.
#[derive(Debug)]
pub(super) struct Outgoing {
    settled: Settled,
    /// Those behind `settled`, in order.
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// The last one that was sent since the last time-out.
    sent: u64,
    /// Bytes of those between `settled` and `sent`.
    in_flight: usize,
    /// How many of those may be.
    window: usize,
    /// Tries since the last receipt that has settled something.
    pub(super) tries: u32,
    deadline: Option<Instant>,
    /// Smoothed time from sending to the receipt.
    round_trip: Option<Duration>,
    /// A message whose receipt is timed: it was sent once.
    timed: Option<(u64, Instant)>,
    /// The gap that receipts show: where, how often.
    gap: Option<(u64, u32)>,
    /// Those that are to be sent again because of a gap.
    again: Option<(u64, u64)>,
    /// The receiver has no room.
    full: bool,
    by_mail: bool,
}

impl Outgoing {
    pub(super) fn new(settled: Settled) -> Outgoing {
        Outgoing {
            settled,
            pending: VecDeque::new(),
            pending_bytes: 0,
            sent: settled.upto,
            in_flight: 0,
            window: 2 * BATCH_BYTES,
            tries: 0,
            deadline: None,
            round_trip: None,
            timed: None,
            gap: None,
            again: None,
            full: false,
            by_mail: false,
        }
    }

    pub(super) fn settled(&self) -> &Settled {
        &self.settled
    }

    /// Number of the last message.
    pub(super) fn last(&self) -> u64 {
        self.settled.upto + u64::try_from(self.pending.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn pending(&self) -> (usize, usize) {
        (self.pending.len(), self.pending_bytes)
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Appends a message; gives its number.
    pub(super) fn push(&mut self, message: Arc<Message>, priority: f64) -> u64 {
        let before = self
            .pending
            .back()
            .map_or(self.settled.chain, |last| last.chain);
        self.pending_bytes += message.weight();
        let chain = chain::extend(&before, &message);
        self.pending.push_back(Pending {
            message,
            chain,
            priority,
        });
        self.last()
    }

    /// The highest priority of those that wait: what stands before a message has to go before it.
    pub(super) fn priority(&self) -> f64 {
        let all = self.pending.iter().map(|pending| pending.priority);
        all.fold(0.0, f64::max)
    }

    /// Gives a message that waits another priority; false if there is none with this id.
    pub(super) fn set_priority(&mut self, id: &MessageId, priority: f64) -> bool {
        let mut all = self.pending.iter_mut();
        let found = all.find(|pending| pending.message.id == *id);
        found.map(|pending| pending.priority = priority).is_some()
    }

    /// What links take now goes by mail, or does not.
    pub(super) fn set_way(&mut self, by_mail: bool) {
        self.by_mail = by_mail;
    }

    /// The peer or the network is back: what waits is sent now.
    pub(super) fn wake(&mut self, now: Instant) {
        if self.tries > 0 && !self.pending.is_empty() {
            self.deadline = Some(now);
            self.tries = 1;
        }
    }

    /// Index of the pending message with this number.
    fn index(&self, number: u64) -> Option<usize> {
        let behind = number.checked_sub(self.settled.upto)?.checked_sub(1)?;
        let index = usize::try_from(behind).ok()?;
        (index < self.pending.len()).then_some(index)
    }

    fn chain_at(&self, number: u64) -> Option<Chain> {
        if number == self.settled.upto {
            return Some(self.settled.chain);
        }
        Some(self.pending.get(self.index(number)?)?.chain)
    }

    /// Takes a receipt whose signature was verified.
    pub(super) fn handle_receipt(&mut self, now: Instant, receipt: &Receipt) -> Effect {
        if *receipt.epoch != self.settled.epoch {
            return Effect::None;
        }
        let upto = receipt.upto;
        if upto < self.settled.upto {
            // It was overtaken, or is of an old copy of the receiver's home: the next batch says
            // from where on. What was read counts all the same.
            return self.note_read(receipt.read);
        }
        if self.chain_at(upto) != Some(*receipt.chain) {
            return Effect::Differs;
        }
        let was_full = std::mem::replace(&mut self.full, receipt.full);
        if was_full && !self.full {
            self.tries = 0;
            self.deadline = Some(now);
        }
        let before = self.settled;
        if upto > before.upto {
            self.settle(upto);
            self.measure(now, upto);
            self.tries = 0;
            self.window = (self.window * 2).min(MESSAGE_WINDOW);
            self.deadline = (self.sent > upto).then(|| now + self.pause());
            self.gap = None;
        }
        self.see_gap(upto, receipt.ahead);
        self.note_read(receipt.read);
        if self.settled == before {
            Effect::None
        } else {
            Effect::Settled
        }
    }

    fn note_read(&mut self, read: u64) -> Effect {
        if read <= self.settled.read {
            return Effect::None;
        }
        self.settled.read = read;
        Effect::Settled
    }

    /// All up to `number` wait no longer.
    fn settle(&mut self, number: u64) {
        while self.settled.upto < number {
            let Some(first) = self.pending.pop_front() else {
                return;
            };
            let weight = first.message.weight();
            self.settled.upto += 1;
            self.settled.chain = first.chain;
            self.pending_bytes = self.pending_bytes.saturating_sub(weight);
            if self.settled.upto <= self.sent {
                self.in_flight = self.in_flight.saturating_sub(weight);
            }
        }
        self.sent = self.sent.max(self.settled.upto);
    }

    /// Gives up all up to `number`: the receiver takes them never. Gives the numbers of those that
    /// are given up.
    pub(super) fn give_up(&mut self, number: u64) -> Option<RangeInclusive<u64>> {
        let first = self.settled.upto + 1;
        self.settle(number.min(self.last()));
        self.full = false;
        (first <= self.settled.upto).then_some(first..=self.settled.upto)
    }

    fn measure(&mut self, now: Instant, upto: u64) {
        if let Some((_, at)) = self.timed.take_if(|(number, _)| *number <= upto) {
            let sample = now.saturating_duration_since(at);
            // RFC 6298 §2.3, with the smoothing of its mean.
            let smoothed = self
                .round_trip
                .map_or(sample, |mean| (mean * 7 + sample) / 8);
            self.round_trip = Some(smoothed);
        }
    }

    fn see_gap(&mut self, upto: u64, ahead: u64) {
        if ahead <= upto + 1 || ahead > self.sent {
            self.gap = None;
            return;
        }
        let shown = match self.gap {
            Some((at, shown)) if at == upto => shown + 1,
            _ => 1,
        };
        self.gap = Some((upto, shown));
        if shown == GAP_SHOWN {
            self.again = Some((upto + 1, ahead - 1));
            self.timed = None;
        }
    }

    /// The receiver has other messages under these numbers: what waits goes by another run of
    /// numbers, once the pause is over.
    pub(super) fn begin_again(&mut self, now: Instant, epoch: Epoch) {
        let upto = self.settled.upto;
        let mut chain = chain::begin(&epoch, upto);
        self.settled = Settled {
            epoch,
            chain,
            ..self.settled
        };
        for pending in &mut self.pending {
            chain = chain::extend(&chain, &pending.message);
            pending.chain = chain;
        }
        self.rewind(now);
    }

    /// Nothing is on its way.
    fn rewind(&mut self, now: Instant) {
        self.sent = self.settled.upto;
        self.in_flight = 0;
        self.timed = None;
        self.again = None;
        self.gap = None;
        self.tries = self.tries.saturating_add(1);
        self.deadline = Some(now + self.pause());
    }

    fn pause(&self) -> Duration {
        let (first, longest) = if self.by_mail {
            (MESSAGE_RETRY_MAIL, MESSAGE_RETRY_MAIL_LONGEST)
        } else {
            (MESSAGE_RETRY_FIRST, MESSAGE_RETRY_LONGEST)
        };
        let usual = self.round_trip.map_or(first, |mean| first.max(mean * 3));
        let doubled = 2u32.saturating_pow(self.tries.min(16));
        usual.saturating_mul(doubled).min(longest)
    }

    /// When [`Outgoing::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.deadline.filter(|_| !self.pending.is_empty())
    }

    /// What was not signed for is sent again.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|deadline| deadline > now) {
            return;
        }
        // One batch finds out whether the peer is there.
        self.window = BATCH_BYTES;
        self.rewind(now);
        self.deadline = None;
    }

    /// Whether a pause is not over yet.
    fn waits(&self) -> bool {
        self.tries > 0 && self.deadline.is_some()
    }

    /// The next frames, if any may leave now. `most` is how many bytes may be on their way.
    pub(super) fn poll_transmit(&mut self, now: Instant, most: usize) -> Vec<Frame> {
        if let Some((first, last)) = self.again.take() {
            return self.batch(first, last).unwrap_or_default();
        }
        let window = if self.full {
            BATCH_BYTES
        } else {
            self.window.min(most)
        };
        let fits = self.in_flight == 0 || self.in_flight < window;
        if self.waits() || !fits || self.sent >= self.last() {
            return Vec::new();
        }
        let first = self.sent + 1;
        let frames = self.batch(first, self.last()).unwrap_or_default();
        let last = frames.iter().rev().find_map(|frame| match frame {
            Frame::Batch(batch) => Some(batch.last()),
            _ => None,
        });
        let Some(last) = last else {
            return Vec::new();
        };
        for number in first..=last {
            let index = self.index(number);
            let pending = index.and_then(|index| self.pending.get(index));
            self.in_flight += pending.map_or(0, |pending| pending.message.weight());
        }
        self.sent = last;
        if self.tries == 0 && self.timed.is_none() {
            self.timed = Some((last, now));
        }
        self.deadline.get_or_insert(now + self.pause());
        frames
    }

    /// The messages from `first` on, as many as go together; long bodies' rests before them.
    fn batch(&self, first: u64, last: u64) -> Option<Vec<Frame>> {
        let chain = self.chain_at(first.checked_sub(1)?)?;
        let epoch = self.settled.epoch.into();
        let (mut items, mut frames, mut bytes) = (Vec::new(), Vec::new(), 0);
        let from = self.index(first)?;
        for (number, pending) in (first..=last).zip(self.pending.iter().skip(from)) {
            let message = &pending.message;
            bytes += message.weight();
            if !items.is_empty() && (bytes > BATCH_BYTES || items.len() == BATCH_MESSAGES) {
                break;
            }
            let (body, rest) = message
                .body
                .split_at_checked(BODY_IN_BATCH)
                .unwrap_or((&message.body, &[]));
            if !rest.is_empty() {
                frames.push(Frame::Rest(Rest {
                    epoch,
                    number,
                    bytes: rest.to_vec().into(),
                }));
            }
            items.push(Item {
                id: message.id.0.into(),
                created: message.created,
                length: u32::try_from(message.body.len()).ok()?,
                body: body.to_vec().into(),
                attached: message.attached.iter().map(|id| (*id).into()).collect(),
            });
        }
        frames.push(Frame::Batch(Batch {
            epoch,
            base: self.settled.upto,
            base_chain: self.settled.chain.into(),
            first,
            chain: chain.into(),
            items,
        }));
        Some(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: u8, length: usize) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId([id; 16]),
            created: 1,
            body: vec![id; length],
            attached: Vec::new(),
        })
    }

    fn outgoing(count: u8, length: usize) -> Outgoing {
        let epoch = [9; 16];
        let mut outgoing = Outgoing::new(Settled {
            epoch,
            upto: 0,
            chain: chain::begin(&epoch, 0),
            read: 0,
        });
        for id in 1..=count {
            assert_eq!(outgoing.push(message(id, length), 1.0), u64::from(id));
        }
        outgoing
    }

    fn receipt(outgoing: &Outgoing, upto: u64) -> Receipt {
        Receipt {
            epoch: outgoing.settled.epoch.into(),
            upto,
            chain: outgoing.chain_at(upto).unwrap_or_default().into(),
            read: 0,
            signature: [0; 64].into(),
            ahead: 0,
            full: false,
            asks: false,
        }
    }

    fn batches(frames: Vec<Frame>) -> Vec<(u64, u64)> {
        let of = |frame| match frame {
            Frame::Batch(batch) => Some((batch.first, batch.last())),
            _ => None,
        };
        frames.into_iter().filter_map(of).collect()
    }

    fn all(outgoing: &mut Outgoing, now: Instant) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        loop {
            let frames = outgoing.poll_transmit(now, MESSAGE_WINDOW);
            if frames.is_empty() {
                return all;
            }
            all.extend(batches(frames));
        }
    }

    #[test]
    fn unsigned_messages_are_sent_again_with_longer_pauses() {
        let start = Instant::now();
        let mut outgoing = outgoing(3, 10);
        assert_eq!(all(&mut outgoing, start), [(1, 3)]);
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let due = outgoing.poll_timeout().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
            outgoing.handle_timeout(now);
            assert_eq!(all(&mut outgoing, now), [(1, 3)]);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        outgoing.wake(now);
        assert_eq!(outgoing.poll_timeout(), Some(now));
        let signed = receipt(&outgoing, 2);
        assert_eq!(outgoing.handle_receipt(now, &signed), Effect::Settled);
        assert_eq!(outgoing.pending().0, 1);
        let signed = receipt(&outgoing, 3);
        assert_eq!(outgoing.handle_receipt(now, &signed), Effect::Settled);
        assert_eq!(outgoing.handle_receipt(now, &signed), Effect::None);
        assert_eq!(
            (outgoing.poll_timeout(), outgoing.pending()),
            (None, (0, 0))
        );
    }

    /// By mail the pauses are those of mail servers.
    #[test]
    fn mail_is_not_repeated_within_minutes() {
        let now = Instant::now();
        let mut outgoing = outgoing(1, 10);
        outgoing.set_way(true);
        all(&mut outgoing, now);
        assert_eq!(outgoing.poll_timeout(), Some(now + MESSAGE_RETRY_MAIL));
    }

    #[test]
    fn window_opens_with_receipts() {
        let now = Instant::now();
        let mut outgoing = outgoing(200, 8_000);
        let first = all(&mut outgoing, now);
        let sent = first.last().unwrap().1;
        assert!((8..20).contains(&sent), "{first:?}");
        let signed = receipt(&outgoing, sent);
        outgoing.handle_receipt(now, &signed);
        let second = all(&mut outgoing, now).last().unwrap().1 - sent;
        assert!(second > sent, "{sent} {second}");
    }

    #[test]
    fn gap_that_stays_is_filled_once() {
        let now = Instant::now();
        let mut outgoing = outgoing(12, 8_000);
        let sent = all(&mut outgoing, now);
        let gap = Receipt {
            ahead: sent[1].0,
            ..receipt(&outgoing, 0)
        };
        let mut again = Vec::new();
        for _ in 0..4 {
            outgoing.handle_receipt(now, &gap);
            again.extend(all(&mut outgoing, now));
        }
        assert_eq!(again, [sent[0]]);
    }

    #[test]
    fn long_bodies_go_in_two_frames() {
        let mut outgoing = outgoing(1, crate::limits::MESSAGE_BYTES);
        let frames = outgoing.poll_transmit(Instant::now(), MESSAGE_WINDOW);
        assert!(matches!(
            frames.as_slice(),
            [Frame::Rest(_), Frame::Batch(_)]
        ));
    }

    /// A receipt for what was never sent, or for other messages, settles nothing.
    #[test]
    fn receipts_for_other_messages_settle_nothing() {
        let now = Instant::now();
        let mut outgoing = outgoing(3, 10);
        all(&mut outgoing, now);
        let mut other = receipt(&outgoing, 2);
        other.chain = [1; 32].into();
        assert_eq!(outgoing.handle_receipt(now, &other), Effect::Differs);
        for upto in [4, u64::MAX >> 2] {
            let never = receipt(&outgoing, upto);
            assert_eq!(outgoing.handle_receipt(now, &never), Effect::Differs);
        }
        let mut elsewhere = receipt(&outgoing, 2);
        elsewhere.epoch = [1; 16].into();
        assert_eq!(outgoing.handle_receipt(now, &elsewhere), Effect::None);
        assert_eq!(outgoing.pending().0, 3);
        outgoing.begin_again(now, [5; 16]);
        assert_eq!(all(&mut outgoing, now), [], "it waits");
        let due = outgoing.poll_timeout().unwrap();
        outgoing.handle_timeout(due);
        assert_eq!(all(&mut outgoing, due), [(1, 3)]);
    }

    #[test]
    fn full_receiver_gets_one_batch_a_pause() {
        let now = Instant::now();
        let mut outgoing = outgoing(12, 8_000);
        all(&mut outgoing, now);
        let full = Receipt {
            full: true,
            ..receipt(&outgoing, 0)
        };
        outgoing.handle_receipt(now, &full);
        assert!(outgoing.is_full());
        let due = outgoing.poll_timeout().unwrap();
        outgoing.handle_timeout(due);
        assert_eq!(all(&mut outgoing, due).len(), 1);
        let room = receipt(&outgoing, 0);
        outgoing.handle_receipt(due, &room);
        assert_eq!(outgoing.poll_timeout(), Some(due));
    }

    #[test]
    fn given_up_messages_leave_the_rest() {
        let mut outgoing = outgoing(3, 10);
        assert_eq!(outgoing.give_up(2), Some(1..=2));
        assert_eq!(outgoing.give_up(2), None);
        assert_eq!(outgoing.give_up(u64::MAX), Some(3..=3));
        assert_eq!(outgoing.push(message(4, 1), 1.0), 4);
    }
}
