//! MQTT (OASIS, 3.1.1 and 5.0) and CoAP (RFC 7252): what sensors report by.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// The first message of a client: a kind, a length, the protocol's name and version.
pub(super) fn mqtt(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.u8()? != 0x10 {
        return None;
    }
    // Seven bits in each byte, lowest first.
    let mut length = 0_usize;
    for place in 0..4_u32 {
        let byte = reader.u8()?;
        length |= usize::from(byte & 0x7f).checked_shl(place.saturating_mul(7))?;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let size = usize::from(reader.be16()?);
    let name = reader.take(size)?;
    let version = reader.u8()?;
    let flags = reader.u8()?;
    let known = match name {
        b"MQTT" => matches!(version & 0x7f, 4 | 5),
        b"MQIsdp" => version & 0x7f == 3,
        _ => false,
    };
    (known && flags & 1 == 0 && length >= size.saturating_add(8))
        .then(|| Finding::certain(format!("version {}", version & 0x7f)))
}

/// A message whose options can be read to their end, and the answer with its number or token.
pub(super) fn coap(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let first = reader.u8()?;
    let code = reader.u8()?;
    let number = u64::from(reader.be16()?);
    let token = reader.take(usize::from(first & 0x0f))?;
    let known = match code >> 5 {
        0 => code <= 7,
        2 => code & 0x1f <= 5 || code == 0x5f,
        4 | 5 => true,
        _ => false,
    };
    if first >> 6 != 1 || first & 0x0f > 8 || !known || options(reader).is_none() {
        return None;
    }
    let key = token
        .iter()
        .fold(1_u64, |sum, &byte| sum.wrapping_shl(8) | u64::from(byte));
    // An answer of its own time repeats the token, others the number.
    let numbers = memory.numbers();
    let answers = numbers.answers("coap", message.direction, number);
    if answers || (!token.is_empty() && numbers.answers("coap.token", message.direction, key)) {
        return Some(Finding::certain("a request and its answer"));
    }
    numbers.ask("coap", message.direction, number);
    numbers.ask("coap.token", message.direction, key);
    (1..=7)
        .contains(&code)
        .then(|| Finding::likely("a request whose options can be read"))
}

/// Options by their distances and lengths; behind a byte 0xff some contents.
fn options(mut reader: Reader<'_>) -> Option<()> {
    while !reader.is_empty() {
        let head = reader.u8()?;
        if head == 0xff {
            return (!reader.is_empty()).then_some(());
        }
        let mut size = 0;
        for part in [head >> 4, head & 0x0f] {
            size = match part {
                13 => usize::from(reader.u8()?).checked_add(13)?,
                14 => usize::from(reader.be16()?).checked_add(269)?,
                15 => return None,
                short => usize::from(short),
            };
        }
        reader.take(size)?;
    }
    Some(())
}
