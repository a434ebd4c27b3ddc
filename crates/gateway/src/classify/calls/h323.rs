//! H.323's signalling (H.225.0): messages of Q.931 in packets of TPKT (RFC 1006).

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Q.931's protocol, and a call's reference of two bytes.
const Q931: [u8; 2] = [8, 2];
/// The element with H.323's own part, and what that begins with: X.208 as Q.931 counts it.
const USER: u8 = 0x7e;
const X208: u8 = 5;

/// A message whose elements fill it, H.323's own part among them.
pub(super) fn signalling(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.be16()? != 0x0300 {
        return None;
    }
    let length = usize::from(reader.be16()?);
    let mut reader = Reader::new(reader.take(length.checked_sub(4)?)?);
    if reader.array()? != Q931 {
        return None;
    }
    reader.be16()?;
    let kind = reader.u8()?;
    let mut own = false;
    while !reader.is_empty() {
        let element = reader.u8()?;
        // Elements of one byte have their highest bit set.
        if element & 0x80 != 0 {
            continue;
        }
        let length = match element {
            USER => usize::from(reader.be16()?),
            _ => usize::from(reader.u8()?),
        };
        let contents = reader.take(length)?;
        own |= element == USER && contents.first() == Some(&X208);
    }
    let name = match kind {
        0x01 => "alerting",
        0x02 => "call proceeding",
        0x05 => "setup",
        0x07 => "connect",
        0x5a => "release complete",
        0x03 | 0x0d | 0x62 | 0x6e | 0x7b | 0x7d => "a message of a call",
        _ => return None,
    };
    own.then(|| Finding::certain(name))
}
