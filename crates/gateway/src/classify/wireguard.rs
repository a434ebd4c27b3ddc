//! WireGuard: four kinds of datagrams with a type, three zeros and exact lengths (the paper's
//! §5.4).

use super::message::{Finding, Memory, Message};
use crate::flow::Direction;
use crate::reader::Reader;

/// Bytes of the initiation, the response and the cookie.
const LENGTHS: [usize; 3] = [148, 92, 64];
/// Counters that a live direction may skip between two datagrams.
const MAX_STEP: u64 = 64;

/// What was seen of a flow that may be WireGuard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Who began, and its index.
    initiation: Option<(Direction, u32)>,
    /// Receiver's index and counter of the last data, by direction.
    data: [Option<(u32, u64)>; 2],
    steady: u8,
}

/// A datagram that begins with a type from 1 to 4 and three zeros.
pub(super) fn datagram(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let kind = reader.le32()?;
    let first = reader.le32()?;
    let length = message.bytes.len();
    let seen = memory.wireguard.get_or_insert_default();
    match kind {
        1 if length == 148 => {
            // Keys and tags are random; a cookie's tag is zeros as a rule.
            let key = reader.take(32)?;
            if !varied(key) {
                return None;
            }
            seen.initiation = Some((message.direction, first));
            Some(Finding::likely("an initiation of 148 bytes"))
        }
        2 | 3 if LENGTHS.get(usize::try_from(kind).ok()?.checked_sub(1)?) == Some(&length) => {
            let receiver = if kind == 2 { reader.le32()? } else { first };
            let answers = seen
                .initiation
                .is_some_and(|(from, index)| from != message.direction && index == receiver);
            if answers {
                let name = if kind == 2 { "a response" } else { "a cookie" };
                return Some(Finding::certain(format!(
                    "{name} to the initiation's index"
                )));
            }
            (kind == 2 && varied(reader.take(32)?))
                .then(|| Finding::guess("a response of 92 bytes"))
        }
        4 if length >= 32 && length.is_multiple_of(16) => {
            let counter = u64::from(reader.le32()?) | u64::from(reader.le32()?) << 32;
            seen.follow(message.direction, first, counter)
        }
        _ => None,
    }
}

impl Seen {
    fn follow(&mut self, direction: Direction, receiver: u32, counter: u64) -> Option<Finding> {
        let last = self.data.get_mut(direction.slot())?;
        let follows = last.is_some_and(|(index, before)| {
            index == receiver && (1..=MAX_STEP).contains(&counter.wrapping_sub(before))
        });
        *last = Some((receiver, counter));
        if follows {
            self.steady = self.steady.saturating_add(1);
        }
        if self.steady >= 2 {
            return Some(Finding::likely("data with one index and rising counters"));
        }
        // Counters of a new session are small: their upper half is zeros.
        (counter < 1 << 32).then(|| Finding::guess("data with a counter"))
    }
}

/// Bytes of a key: no run of zeros, few repetitions.
fn varied(bytes: &[u8]) -> bool {
    let mut seen = [false; 256];
    for &byte in bytes {
        if let Some(place) = seen.get_mut(usize::from(byte)) {
            *place = true;
        }
    }
    seen.iter().filter(|&&there| there).count() >= 20
}
