//! L2TP (RFC 2661 §3.1): control messages with their type as first attribute.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Control message, with length and numbers, version 2.
const CONTROL: u16 = 0xc802;
/// An attribute of eight bytes that must be understood, of the IETF, of type 0: the message type.
const MESSAGE_TYPE: [u8; 6] = [0x80, 8, 0, 0, 0, 0];

/// A control message of exactly its length.
pub(super) fn control(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let flags = reader.be16()?;
    let length = usize::from(reader.be16()?);
    reader.take(8)?;
    if flags != CONTROL || length != message.bytes.len() || reader.array()? != MESSAGE_TYPE {
        return None;
    }
    let kind = reader.be16()?;
    let known = matches!(kind, 1..=4 | 6..=12 | 14..=16);
    known.then(|| Finding::certain(format!("control message {kind}")))
}
