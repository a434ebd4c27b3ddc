//! OpenFlow (specification 1.3.0, §A): both sides begin with a greeting.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Version, type 0, a length, a number.
pub(super) fn hello(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let version = reader.u8()?;
    let kind = reader.u8()?;
    let length = usize::from(reader.be16()?);
    reader.be32()?;
    let body = reader.take(length.checked_sub(8)?)?;
    // The one element that a greeting may have: versions, of type 1, as long as it says.
    let versions = match body {
        [] => true,
        [0, 1, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])) <= body.len(),
        _ => false,
    };
    if kind != 0 || length > 255 || !(1..=6).contains(&version) || !versions {
        return None;
    }
    memory.numbers().ask("openflow", message.direction, 0);
    let both = memory.numbers().answers("openflow", message.direction, 0);
    Some(if both {
        Finding::certain("both sides greet")
    } else {
        Finding::guess("a greeting")
    })
}
