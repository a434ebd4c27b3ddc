//! Networks of mobile telephones: GTP (3GPP TS 29.060, 29.274, 29.281) and PFCP (TS 29.244).

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// A message of version 1 or 2 of exactly its length; one of version 2 is filled by its elements.
pub(super) fn gtp(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let flags = reader.u8()?;
    let kind = reader.u8()?;
    let length = usize::from(reader.be16()?);
    let body = reader.rest();
    let (header, known) = match flags >> 5 {
        // With the bit that distinguishes it from GTP', and the spare one unset.
        1 if flags & 0x18 == 0x10 => (8, matches!(kind, 1..=7 | 16..=31 | 254 | 255)),
        2 => {
            let known = matches!(kind, 1..=3 | 32..=41 | 95..=102 | 170..=177);
            (4, known && fills_version_2(flags, body))
        }
        _ => return None,
    };
    let whole = length.checked_add(header)? == message.bytes.len();
    // Optional fields of four bytes follow version 1's header.
    let room = header == 4 || flags & 7 == 0 || length >= 4;
    (known && whole && room).then(|| Finding::certain(format!("message {kind} of its length")))
}

/// Whether numbers and elements fill a message of version 2: a number of the tunnel where its flag
/// is set, the message's own with a spare byte, then elements of one byte, a length, a spare.
fn fills_version_2(flags: u8, body: &[u8]) -> bool {
    let numbers = if flags & 8 == 0 { 4 } else { 8 };
    let mut reader = Reader::new(body);
    let mut filled = || {
        // The message's spare byte is zero, or has a priority in its upper half.
        let spare = *reader.take(numbers)?.last()?;
        let mut fits = flags & 3 == 0 && spare & 0x0f == 0;
        while fits && !reader.is_empty() {
            let element = reader.u8()?;
            let length = usize::from(reader.be16()?);
            reader.u8()?;
            reader.take(length)?;
            fits = element != 0;
        }
        Some(fits)
    };
    filled() == Some(true)
}

/// A message of version 1 whose elements fill it.
pub(super) fn pfcp(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let flags = reader.u8()?;
    let kind = reader.u8()?;
    let length = usize::from(reader.be16()?);
    let known = flags & 0xf8 == 0x20 && matches!(kind, 1..=15 | 50..=57);
    if !known || reader.rest().len() != length {
        return None;
    }
    let session = flags & 1 == 1;
    // A session's number, then the message's own.
    reader.take(if session { 12 } else { 4 })?;
    let mut elements: u8 = 0;
    while !reader.is_empty() {
        let element = reader.be16()?;
        let length = usize::from(reader.be16()?);
        reader.take(length)?;
        if element == 0 {
            return None;
        }
        elements = elements.saturating_add(1);
    }
    (elements > 0).then(|| Finding::certain(format!("message {kind}, filled by its elements")))
}
