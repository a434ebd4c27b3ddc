//! Ethereum's discovery of nodes (devp2p, "Node Discovery Protocol v4"), and how two of them open
//! a session (devp2p, "The RLPx Transport Protocol", EIP-8).

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Bytes of a hash, and of a signature whose last byte is 0 or 1.
const SIGNED: usize = 32 + 64;
/// Kinds: ping, pong, looking for a node, neighbours, and two for records.
const KINDS: std::ops::RangeInclusive<u8> = 1..=6;

/// A signed message with a kind, and a list that fills it.
pub(super) fn discovery(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (&[recovery, kind, list], rest) = message.bytes.get(SIGNED..)?.split_first_chunk()?;
    // RLP: a list up to 55 bytes has its length in its first byte, a longer one behind it.
    let length = match list {
        0xc0..=0xf7 => usize::from(list & 0x3f),
        0xf8 => usize::from(*rest.first()?).checked_add(1)?,
        0xf9 => usize::from(u16::from_be_bytes(*rest.first_chunk()?)).checked_add(2)?,
        _ => return None,
    };
    // Newer nodes may add to a list's end, not behind it.
    (recovery <= 1 && KINDS.contains(&kind) && length == rest.len() && length >= 5)
        .then(|| Finding::certain(format!("message {kind}, a list that fills it")))
}

/// Bytes around what is encrypted: a key of 65 bytes, a vector of 16, a check of 32.
const ENCRYPTED: usize = 65 + 16 + 32;
/// A key that is written out as two coordinates.
const UNCOMPRESSED: u8 = 4;

/// The first message of each side: its length, a key that begins with 4, and what only the other
/// node can read.
pub(super) fn session(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = usize::from(reader.be16()?);
    let sealed = reader.rest();
    let key = reader.u8()?;
    // The answer's side sends its next frame at once, maybe in the same segment.
    let is_answer = memory.numbers().answers("rlpx", message.direction, 0);
    let fits = sealed.len() == length || (is_answer && sealed.len() > length);
    if message.at != 0 || key != UNCOMPRESSED || length <= ENCRYPTED || !fits {
        return None;
    }
    if is_answer {
        return Some(Finding::certain("both sides open a session with a key"));
    }
    memory.numbers().ask("rlpx", message.direction, 0);
    Some(Finding::guess("a length that fits, and a key's first byte"))
}
