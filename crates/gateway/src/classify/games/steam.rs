//! Steam: its connections over UDP and TCP ("VS01", "VT01"), and its discovery in local networks.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Bytes of the header over UDP.
const HEADER: usize = 36;

/// A datagram of its length, or the discovery of programs in the local network.
pub(super) fn datagram(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    if message
        .bytes
        .starts_with(b"\xff\xff\xff\xff\x21\x4c\x5f\xa0")
    {
        return Some(Finding::certain("the discovery in a local network"));
    }
    let mut reader = Reader::new(message.bytes.strip_prefix(b"VS01")?);
    let length = usize::from(reader.le16()?);
    let kind = reader.u8()?;
    (length.checked_add(HEADER)? == message.bytes.len() && kind <= 8)
        .then(|| Finding::certain("a datagram of its length"))
}

/// Messages with their length and four fixed bytes.
pub(super) fn stream(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.le32()?);
    let is_steam = reader.array()? == *b"VT01";
    (is_steam && (1..1 << 24).contains(&length))
        .then(|| Finding::certain("a message with its length"))
}
