//! DCE/RPC (C706, §12): calls between Windows machines, and of PROFINET.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Bytes of the header without a connection.
const HEADER: usize = 80;

/// A message of a connection: version 5, a kind, how numbers are written, a length.
pub(super) fn stream(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (&[version, minor, kind, flags, order, 0, 0, 0, low, high], _) =
        message.bytes.split_first_chunk()?
    else {
        return None;
    };
    let length = match order {
        0x10 => u16::from_le_bytes([low, high]),
        0x00 => u16::from_be_bytes([low, high]),
        _ => return None,
    };
    // Both sides begin with a binding or what answers it, which are whole.
    let binds = matches!(kind, 11..=15) && flags & 3 == 3;
    (version == 5 && minor <= 1 && binds && (24..=8_192).contains(&length))
        .then(|| Finding::certain("a binding of version 5"))
}

/// A datagram of version 4 of exactly its length.
pub(super) fn datagram(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (&[version, kind, first, second, order, 0, 0], _) = message.bytes.split_first_chunk()?
    else {
        return None;
    };
    let mut reader = Reader::new(message.bytes.get(74..)?);
    let length = match order {
        0x10 => reader.le16()?,
        0x00 => reader.be16()?,
        _ => return None,
    };
    let whole = index(length.into()).checked_add(HEADER)? == message.bytes.len();
    (version == 4 && kind <= 10 && first < 0x40 && second & !0x06 == 0 && whole)
        .then(|| Finding::certain("a message of version 4 of its length"))
}
