//! Ethereum's discovery of nodes (devp2p, "Node Discovery Protocol v4").

use crate::classify::message::{Finding, Memory, Message};

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
