//! The receiving half of a conversation: which messages are new, in which order. No clock, no disk.

use std::collections::BTreeMap;

use super::chain::{self, Chain};
use super::record::{Epoch, Message, MessageId};
use super::wire::{Batch, Item, Rest};
use crate::limits::{AHEAD_BYTES, BODY_RESTS, MESSAGE_EPOCHS};

/// What is kept of a sender's run of numbers on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) epoch: Epoch,
    /// All up to here are stored, or are none of this member's business.
    pub(super) upto: u64,
    /// The sender's chain there.
    pub(super) chain: Chain,
    /// All up to here were read.
    pub(super) read: u64,
    /// The sender knows that all up to here were.
    pub(super) noted: u64,
}

/// How much more may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) messages: usize,
    /// Bytes.
    pub(super) bytes: usize,
}

impl Room {
    fn take(&mut self, message: &Message) -> bool {
        let (Some(messages), Some(bytes)) = (
            self.messages.checked_sub(1),
            self.bytes.checked_sub(message.weight()),
        ) else {
            return false;
        };
        *self = Room { messages, bytes };
        true
    }
}

/// A message that is new, with its number.
pub(super) type New = (u64, Message);

#[derive(Debug)]
struct Run {
    reached: Reached,
    /// Batches behind a gap, by their first numbers.
    ahead: BTreeMap<u64, Batch>,
    ahead_bytes: usize,
    /// Rests of long bodies, by numbers.
    rests: BTreeMap<u64, Vec<u8>>,
}

/// The receiving half of a conversation.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// The one used last stands last.
    runs: Vec<Run>,
    /// There was no room for what came last.
    pub(super) full: bool,
}

impl Incoming {
    /// What an earlier run of the program has stored, the one used last standing last.
    pub(super) fn restore(reached: Vec<Reached>) -> Incoming {
        Incoming {
            runs: reached.into_iter().map(Run::new).collect(),
            full: false,
        }
    }

    fn run(&mut self, epoch: &Epoch) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.reached.epoch == *epoch)
    }

    /// How far a run of numbers is, and the lowest number behind a gap, or 0.
    pub(super) fn reached(&self, epoch: &Epoch) -> Option<(Reached, u64)> {
        let mut runs = self.runs.iter();
        let run = runs.find(|run| run.reached.epoch == *epoch)?;
        let ahead = run.ahead.keys().next().copied().unwrap_or(0);
        Some((run.reached, ahead))
    }

    /// The run that was used last.
    pub(super) fn latest(&self) -> Option<Epoch> {
        self.runs.last().map(|run| run.reached.epoch)
    }

    /// All up to `number` of a run were read; true if that is new.
    pub(super) fn mark_read(&mut self, epoch: &Epoch, number: u64) -> bool {
        let Some(run) = self.run(epoch) else {
            return false;
        };
        let read = number.min(run.reached.upto);
        let newer = read > run.reached.read;
        run.reached.read = run.reached.read.max(read);
        newer
    }

    /// The run of which the sender does not know yet, as far as is known here, what was read; of
    /// several the one used last.
    pub(super) fn unnoted(&self) -> Option<Epoch> {
        let mut runs = self.runs.iter().rev();
        let run = runs.find(|run| run.reached.noted < run.reached.read)?;
        Some(run.reached.epoch)
    }

    /// The sender knows that all up to `number` of a run were read; true if that is new, and all
    /// that there is to know.
    pub(super) fn note(&mut self, epoch: &Epoch, number: u64) -> bool {
        let Some(run) = self.run(epoch) else {
            return false;
        };
        let noted = number.min(run.reached.read);
        let newer = noted > run.reached.noted;
        run.reached.noted = run.reached.noted.max(noted);
        newer && noted == run.reached.read
    }

    /// The sender is gone for good: it need not learn what was read.
    pub(super) fn note_all(&mut self) {
        for run in &mut self.runs {
            run.reached.noted = run.reached.read;
        }
    }

    /// Takes the rest of a long body, whose batch comes after it.
    pub(super) fn handle_rest(&mut self, rest: Rest) {
        let run = self.open(*rest.epoch, 0, None);
        if rest.number <= run.reached.upto {
            return;
        }
        run.rests.insert(rest.number, rest.bytes.into());
        while run.rests.len() > BODY_RESTS {
            run.rests.pop_last();
        }
    }

    /// The run of this epoch, which is the one used last from now on. Another is forgotten for one
    /// that is new.
    fn open(&mut self, epoch: Epoch, base: u64, chain: Option<Chain>) -> &mut Run {
        let at = self.runs.iter().position(|run| run.reached.epoch == epoch);
        let run = match at {
            Some(at) => self.runs.remove(at),
            None => {
                while self.runs.len() >= MESSAGE_EPOCHS {
                    self.runs.remove(0);
                }
                Run::new(Reached {
                    epoch,
                    upto: base,
                    chain: chain.unwrap_or_else(|| chain::begin(&epoch, base)),
                    read: 0,
                    noted: 0,
                })
            }
        };
        self.runs.push(run);
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }

    /// Takes a batch; gives the messages that are new, in order: those that were behind a gap as
    /// well. What finds no room is not taken, and the sender keeps it.
    pub(super) fn handle_batch(&mut self, batch: Batch, room: &mut Room) -> Vec<New> {
        let run = self.open(*batch.epoch, batch.base, Some(*batch.base_chain));
        run.skip_to(batch.base, *batch.base_chain);
        let mut new = Vec::new();
        let mut full = false;
        let mut next = Some(batch);
        while let Some(batch) = next.take() {
            if batch.first > run.reached.upto + 1 {
                run.keep_ahead(batch);
                break;
            }
            full = !run.take(&batch, room, &mut new);
            if full {
                run.forget_ahead();
                break;
            }
            next = run.next_ahead();
        }
        self.full = full;
        new
    }
}

impl Run {
    fn new(reached: Reached) -> Run {
        Run {
            reached,
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            rests: BTreeMap::new(),
        }
    }

    /// The sender holds a signature for all up to `base`, and has no more of them: this home is an
    /// old copy, or new.
    fn skip_to(&mut self, base: u64, chain: Chain) {
        if base <= self.reached.upto {
            return;
        }
        self.reached.upto = base;
        self.reached.chain = chain;
        self.rests.retain(|number, _| *number > base);
    }

    fn keep_ahead(&mut self, batch: Batch) {
        let bytes = batch.bytes();
        if self.ahead_bytes + bytes > AHEAD_BYTES || self.ahead.contains_key(&batch.first) {
            return;
        }
        self.ahead_bytes += bytes;
        self.ahead.insert(batch.first, batch);
    }

    /// The next one behind a gap that is none any more.
    fn next_ahead(&mut self) -> Option<Batch> {
        loop {
            let first = *self.ahead.keys().next()?;
            if first > self.reached.upto + 1 {
                return None;
            }
            let batch = self.ahead.remove(&first)?;
            self.ahead_bytes = self.ahead_bytes.saturating_sub(batch.bytes());
            if batch.last() > self.reached.upto {
                return Some(batch);
            }
        }
    }

    fn forget_ahead(&mut self) {
        self.ahead.clear();
        self.ahead_bytes = 0;
    }

    /// Takes what is new of a batch that begins not behind the next number. False if there was no
    /// room for all of it. One that does not go on from what is stored is not taken: the receipt
    /// shows the sender what is.
    fn take(&mut self, batch: &Batch, room: &mut Room, new: &mut Vec<New>) -> bool {
        let mut chain = *batch.chain;
        for (number, item) in (batch.first..).zip(&batch.items) {
            if number == self.reached.upto + 1 && chain != self.reached.chain {
                return true;
            }
            let Some(message) = self.whole(item, number) else {
                return true;
            };
            chain = chain::extend(&chain, &message);
            if number > self.reached.upto {
                if !room.take(&message) {
                    return false;
                }
                self.rests.remove(&number);
                self.reached.upto = number;
                self.reached.chain = chain;
                new.push((number, message));
            }
        }
        true
    }

    /// The message, if all of its body is there.
    fn whole(&self, item: &Item, number: u64) -> Option<Message> {
        let mut body = item.body.to_vec();
        let length = usize::try_from(item.length).ok()?;
        if body.len() < length {
            body.extend_from_slice(self.rests.get(&number)?);
        }
        (body.len() == length).then(|| Message {
            id: MessageId(*item.id),
            created: item.created,
            body,
            attached: item.attached.iter().map(|id| **id).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::super::outgoing::{Outgoing, Settled};
    use super::super::wire::Frame;
    use super::*;
    use crate::limits::MESSAGE_WINDOW;

    const EPOCH: Epoch = [9; 16];
    const NOTHING: [u64; 0] = [];
    const MUCH: Room = Room {
        messages: 1_000,
        bytes: 10_000_000,
    };

    /// The frames of a sender with so many messages.
    fn frames(count: u8, length: usize, epoch: Epoch, settled: u64) -> Vec<Frame> {
        let mut outgoing = Outgoing::new(Settled {
            epoch,
            upto: settled,
            chain: chain::begin(&epoch, settled),
            read: 0,
        });
        for id in 1..=count {
            let message = Message {
                id: MessageId([id; 16]),
                created: 1,
                body: vec![id; length],
                attached: Vec::new(),
            };
            outgoing.push(Arc::new(message), 1.0);
        }
        let mut all = Vec::new();
        loop {
            let frames = outgoing.poll_transmit(Instant::now(), MESSAGE_WINDOW);
            if frames.is_empty() {
                return all;
            }
            all.extend(frames);
        }
    }

    fn give(incoming: &mut Incoming, frame: &Frame, room: &mut Room) -> Vec<u64> {
        match frame.clone() {
            Frame::Batch(batch) => {
                let new = incoming.handle_batch(batch, room);
                new.into_iter().map(|(number, _)| number).collect()
            }
            Frame::Rest(rest) => {
                incoming.handle_rest(rest);
                Vec::new()
            }
            _ => panic!("{frame:?}"),
        }
    }

    /// Whatever order frames come in and however often, each message is new once.
    #[test]
    fn messages_are_new_once_and_in_order() {
        let frames = frames(7, 9_000, EPOCH, 0);
        assert!(frames.len() > 2);
        let mut incoming = Incoming::default();
        let mut got = Vec::new();
        for frame in frames.iter().rev().chain(&frames).chain(&frames) {
            got.extend(give(&mut incoming, frame, &mut MUCH.clone()));
        }
        assert_eq!(got, (1..=7).collect::<Vec<u64>>());
        assert_eq!(incoming.reached(&EPOCH).unwrap().1, 0);
    }

    #[test]
    fn long_body_waits_for_its_rest() {
        let frames = frames(1, crate::limits::MESSAGE_BYTES, EPOCH, 0);
        let mut incoming = Incoming::default();
        let mut room = MUCH;
        assert_eq!(give(&mut incoming, &frames[1], &mut room), NOTHING);
        assert_eq!(give(&mut incoming, &frames[0], &mut room), NOTHING);
        assert_eq!(give(&mut incoming, &frames[1], &mut room), [1]);
    }

    #[test]
    fn full_receiver_takes_what_it_has_room_for() {
        let frames = frames(5, 10, EPOCH, 0);
        let mut incoming = Incoming::default();
        let mut room = Room {
            messages: 2,
            ..MUCH
        };
        assert_eq!(give(&mut incoming, &frames[0], &mut room), [1, 2]);
        assert!(incoming.full);
        assert_eq!(
            give(&mut incoming, &frames[0], &mut MUCH.clone()),
            [3, 4, 5]
        );
        assert!(!incoming.full);
    }

    /// A sender that says other things under the same numbers is shown what is stored.
    #[test]
    fn other_messages_under_numbers_are_not_taken() {
        let mut incoming = Incoming::default();
        assert_eq!(
            give(
                &mut incoming,
                &frames(3, 10, EPOCH, 0)[0],
                &mut MUCH.clone()
            ),
            [1, 2, 3]
        );
        let stored = incoming.reached(&EPOCH).unwrap();
        let others = frames(5, 11, EPOCH, 0);
        assert_eq!(give(&mut incoming, &others[0], &mut MUCH.clone()), NOTHING);
        assert_eq!(incoming.reached(&EPOCH).unwrap(), stored);
    }

    /// A new home goes on where the sender has no more signatures to ask for.
    #[test]
    fn new_home_goes_on_at_the_senders_base() {
        let mut incoming = Incoming::default();
        let later = frames(2, 10, EPOCH, 40);
        assert_eq!(give(&mut incoming, &later[0], &mut MUCH.clone()), [41, 42]);
    }

    /// A peer that begins one epoch after another, and leaves gaps, holds no more than its share.
    #[test]
    fn epochs_and_gaps_are_bounded() {
        let mut incoming = Incoming::default();
        for n in 0..50u8 {
            let all = frames(100, 9_000, [n; 16], 0);
            for frame in all.iter().skip(1) {
                assert_eq!(give(&mut incoming, frame, &mut MUCH.clone()), NOTHING);
            }
            for number in 0..50 {
                incoming.handle_rest(Rest {
                    epoch: [n; 16].into(),
                    number: 1_000 + number,
                    bytes: vec![0; 10].into(),
                });
            }
        }
        assert_eq!(incoming.runs.len(), MESSAGE_EPOCHS);
        for run in &incoming.runs {
            assert!(run.ahead_bytes <= AHEAD_BYTES && run.rests.len() <= BODY_RESTS);
        }
    }
}
