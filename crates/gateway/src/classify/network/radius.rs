//! RADIUS (RFC 2865, RFC 2866, RFC 5176): attributes that fill the message.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Bytes before the attributes, and of the longest message; RFC 2865 §3.
const HEADER: usize = 20;
const LONGEST: usize = 4_096;

/// A request, or the answer with its number.
pub(super) fn message(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let code = reader.u8()?;
    let number = u64::from(reader.u8()?);
    let length = usize::from(reader.be16()?);
    reader.take(16)?;
    if length != message.bytes.len() || !(HEADER..=LONGEST).contains(&length) {
        return None;
    }
    let mut attributes: u8 = 0;
    while !reader.is_empty() {
        let attribute = reader.u8()?;
        let length = usize::from(reader.u8()?);
        reader.take(length.checked_sub(2)?)?;
        if attribute == 0 || length == 2 {
            return None;
        }
        attributes = attributes.saturating_add(1);
    }
    // An answer can have no attributes; its number is what proves it.
    match code {
        1 | 4 | 12 | 40 | 43 if attributes > 0 => {
            memory.numbers().ask("radius", message.direction, number);
            Some(Finding::likely("a request, filled by its attributes"))
        }
        2 | 3 | 5 | 11 | 41 | 42 | 44 | 45 => memory
            .numbers()
            .answers("radius", message.direction, number)
            .then(|| Finding::certain("a request and the answer with its number")),
        _ => None,
    }
}
