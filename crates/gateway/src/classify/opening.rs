//! How a conversation opens, for flows that no signature names: who sends how much before the other
//! answers, and whether the bytes look random.

use std::hash::{DefaultHasher, Hasher};

use super::message::Memory;
use crate::flow::Direction;
use crate::limits::MAX_MEASURED;
use crate::reader::length32;

/// Turns that are distinguished: client, server, client again.
const TURNS: usize = 3;

/// Of fewer bytes it cannot be decided whether they are random.
pub(super) const TELLING: u32 = 12;

/// A count of bytes by their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    seen: [u64; 4],
    ones: u32,
    count: u32,
}

impl Bytes {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut counted = Self::default();
        counted.take_in(bytes);
        counted
    }

    fn take_in(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let word = usize::from(byte >> 6);
            if let Some(word) = self.seen.get_mut(word) {
                *word |= 1_u64.checked_shl(u32::from(byte & 63)).unwrap_or(0);
            }
        }
        let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        self.ones = self.ones.saturating_add(ones);
        self.count = self.count.saturating_add(length32(bytes.len()));
    }

    /// As many different values, and as many bits set, as random bytes have, within four standard
    /// deviations.
    ///
    /// Of `n` random bytes `256 (1 − q)` differ on average, `q = (255/256)ⁿ`, with a variance of
    /// about `256 (q − (1 + n/256) q²)`; of their bits half are set, with a variance of `2n`.
    pub(super) fn are_random(&self) -> bool {
        let count = f64::from(self.count);
        let different: u32 = self.seen.iter().map(|word| word.count_ones()).sum();
        let left = (-count / 256.0).exp();
        let expected = 256.0 * (1.0 - left);
        let spread = (256.0 * (left - (1.0 + count / 256.0) * left * left))
            .max(0.0)
            .sqrt();
        let differ = f64::from(different) >= expected - 4.0 * spread - 1.0;
        let bits = f64::from(self.ones) - 4.0 * count;
        self.count >= TELLING && differ && bits.abs() <= 4.0 * (2.0 * count).sqrt()
    }
}

/// How a turn begins, however it is cut into packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lead {
    bytes: [u8; LEAD],
    filled: usize,
    /// Bytes of the first packet: a length may count only those.
    first: u32,
}

impl Lead {
    fn take_in(&mut self, payload: &[u8]) {
        if self.filled == 0 {
            self.first = length32(payload.len());
        }
        let free = self.bytes.get_mut(self.filled..).unwrap_or_default();
        for (to, from) in free.iter_mut().zip(payload) {
            *to = *from;
            self.filled = self.filled.saturating_add(1);
        }
    }

    /// It begins as messages with a header do, and random bytes once in a thousand times: with a
    /// word, or with a number that is the length of what follows. `turn`: bytes of the whole turn.
    fn is_header(&self, turn: u32) -> bool {
        let [word @ .., _, _, _, _] = &self.bytes;
        let is_word =
            word.iter().all(u8::is_ascii_uppercase) || word.iter().all(u8::is_ascii_lowercase);
        is_word
            || [self.first, turn]
                .into_iter()
                .any(|length| self.counts(length))
    }

    /// One of its numbers of two to four bytes is this length, or what is left of it behind the
    /// number.
    fn counts(&self, length: u32) -> bool {
        [2, 3, 4].into_iter().any(|width: usize| {
            let mut numbers = self.bytes.windows(width).take(MOST_BEFORE).enumerate();
            numbers.any(|(at, bytes)| {
                let join = |sum: u32, byte: &u8| sum.wrapping_shl(8) | u32::from(*byte);
                let big = bytes.iter().fold(0, join);
                let little = bytes.iter().rev().fold(0, join);
                let rest = length.saturating_sub(length32(at.saturating_add(width)));
                [big, little]
                    .iter()
                    .any(|number| [length, rest].contains(number))
            })
        })
    }

    /// Both begin with the same bytes: a version, or a magic number.
    fn is_alike(&self, other: &Self) -> bool {
        let [one @ .., _, _, _, _, _, _] = &self.bytes;
        let [two @ .., _, _, _, _, _, _] = &other.bytes;
        one == two
    }
}

/// Bytes of a turn's beginning that are kept.
const LEAD: usize = 8;
/// Positions at which a length may stand.
const MOST_BEFORE: usize = 4;

/// What was seen of the opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    turn: usize,
    lengths: [u32; TURNS],
    bytes: [Bytes; TURNS],
    leads: [Lead; TURNS],
    begun: bool,
    /// Of each side's last datagram a number that distinguishes it from others.
    last: [u64; 2],
}

/// Lengths of the first turns, the client's and the server's of random bytes; or the client's
/// both, where the response is too short to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes that the client sent before the server did.
    pub(crate) client: u32,
    /// Bytes that the server answered before the client went on.
    pub(crate) server: u32,
    /// Bytes that the client then sent; 0 if it was not seen to.
    pub(crate) third: u32,
}

impl Opening {
    /// Takes in the next payload; returns whether both sides have spoken and the client goes on.
    pub(super) fn take_in(&mut self, from: Direction, payload: &[u8]) -> bool {
        let expected = match self.turn {
            0 | 2 => Direction::FromClient,
            _ => Direction::FromServer,
        };
        if from != expected {
            // A conversation that the server opens has no such shape.
            if !self.begun || self.turn.saturating_add(1) >= TURNS {
                self.turn = TURNS;
                return false;
            }
            self.turn = self.turn.saturating_add(1);
        }
        let goes_on = from != expected && self.turn == 2;
        self.begun = true;
        let turn = self.turn;
        if let Some(lead) = self.leads.get_mut(turn) {
            lead.take_in(payload);
        }
        if let Some(length) = self.lengths.get_mut(turn) {
            *length = length.saturating_add(length32(payload.len()));
        }
        if let Some(bytes) = self.bytes.get_mut(turn) {
            let room =
                MAX_MEASURED.saturating_sub(usize::try_from(bytes.count).unwrap_or(usize::MAX));
            bytes.take_in(payload.get(..room.min(payload.len())).unwrap_or_default());
        }
        goes_on
    }

    /// The datagram is the sender's last one once more: a copy that the network made has nothing
    /// random in it.
    pub(super) fn repeats(&mut self, from: Direction, datagram: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write(datagram);
        let new = hasher.finish();
        self.last
            .get_mut(from.slot())
            .is_some_and(|last| std::mem::replace(last, new) == new)
    }

    /// Some turn begins with a header: what is behind it may be random, the protocol is not.
    fn has_header(&self) -> bool {
        let turns = self.leads.iter().zip(self.lengths);
        let mut long = turns.clone().filter(|(_, length)| *length >= TELLING);
        let [client, server, third] = &self.leads;
        let [_, answer, more] = self.lengths;
        long.any(|(lead, length)| lead.is_header(length))
            || (answer >= TELLING && client.is_alike(server))
            || (more >= TELLING && client.is_alike(third))
    }

    /// The shape, if both sides have spoken and what they said looks random, from the first byte
    /// on and in each turn. Of an answer of less than [`TELLING`] bytes, as obfuscated eDonkey may
    /// give, nothing can be decided: then what the client sends next counts.
    pub(crate) fn shape(&self) -> Option<Shape> {
        let [client, server, third] = self.lengths;
        let [first, answer, more] = &self.bytes;
        let measured = if server >= TELLING { answer } else { more };
        let goes_on = third < TELLING || more.are_random();
        let random = server > 0 && first.are_random() && measured.are_random() && goes_on;
        let random = random && !self.has_header();
        random.then_some(Shape {
            client,
            server,
            third,
        })
    }
}

impl Memory {
    /// Counts what a direction has sent.
    pub(super) fn count_sent(&mut self, from: Direction, bytes: usize) {
        if let Some(sent) = self.sent.get_mut(from.slot()) {
            *sent = sent.saturating_add(length32(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Opening, Shape};
    use crate::flow::Direction::{FromClient, FromServer};

    fn random(seed: u64, count: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..count)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_be_bytes()[0]
            })
            .collect()
    }

    #[test]
    fn random_bytes_are_told_from_text_and_structures() {
        let called = (1..1_000)
            .filter(|seed| Bytes::of(&random(*seed, 300)).are_random())
            .count();
        assert!(called > 990, "{called}");
        assert!(
            !Bytes::of(&b"a line of text that is long enough to be measured. ".repeat(5))
                .are_random()
        );
        assert!(!Bytes::of(&[[0_u8; 40].as_slice(), &random(3, 100)].concat()).are_random());
        assert!(!Bytes::of(&random(1, 11)).are_random());
    }

    #[test]
    fn turns_are_told_apart() {
        let mut opening = Opening::default();
        opening.take_in(FromClient, &random(1, 100));
        opening.take_in(FromClient, &random(2, 50));
        assert_eq!(opening.shape(), None);
        opening.take_in(FromServer, &random(3, 200));
        opening.take_in(FromClient, &random(4, 70));
        opening.take_in(FromServer, &random(5, 70));
        opening.take_in(FromClient, b"text");
        let expected = Shape {
            client: 150,
            server: 200,
            third: 70,
        };
        assert_eq!(opening.shape(), Some(expected));
        let mut opening = Opening::default();
        opening.take_in(FromServer, &random(1, 100));
        opening.take_in(FromClient, &random(1, 100));
        assert_eq!(opening.shape(), None);
    }
}
