//! PPStream (PPS), television among viewers: datagrams on its port that begin with their length.

use super::message::{Finding, Memory, Message};

/// What follows the length of a message to other viewers, but for two numbers.
const KIND: u8 = 0x43;
const FIXED: &[u8] = &[0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0];

/// A length that counts all bytes, or those behind one or both of its fields; fixed bytes behind.
pub(super) fn datagram(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (length, rest) = message.bytes.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let (&[kind, _, _], rest) = rest.split_first_chunk()?;
    let all = message.bytes.len();
    let fits = [0, 4, 6]
        .iter()
        .any(|left| all.checked_sub(*left) == Some(length));
    (fits && kind == KIND && rest.starts_with(FIXED))
        .then(|| Finding::certain("a length that fits, and ten fixed bytes"))
}
