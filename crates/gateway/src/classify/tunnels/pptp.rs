//! PPTP's control connection (RFC 2637 §2): messages of fixed lengths with a fixed number.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// RFC 2637 §1.4.
const COOKIE: u32 = 0x1a2b_3c4d;

/// A control message of the length that its type has.
pub(super) fn control(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = reader.be16()?;
    let is_control = reader.be16()? == 1;
    if !is_control || reader.be32()? != COOKIE {
        return None;
    }
    let kind = reader.be16()?;
    // No type has a length of its own choice, so both have to agree.
    let prescribed = match kind {
        1 | 2 => 156,
        3..=5 | 12 => 16,
        6 => 20,
        7 => 168,
        8 => 32,
        9 => 220,
        10 | 11 | 15 => 24,
        13 => 148,
        14 => 40,
        _ => return None,
    };
    (length == prescribed && reader.be16()? == 0)
        .then(|| Finding::certain(format!("control message {kind} with the fixed number")))
}
