//! DNS messages (RFC 1035 §4), also multicast (RFC 6762) and link-local (RFC 4795); the signature's
//! port says which.

use super::message::{Finding, Memory, Message, text};
use crate::limits::MAX_DNS_LABELS;
use crate::reader::Reader;

/// A datagram.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    decode(message.bytes, message.truncated)
}

/// RFC 1035 §4.2.2: over TCP each message has its length before it.
pub(super) fn tcp_message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = usize::from(reader.be16()?);
    match reader.rest().get(..length) {
        Some(whole) => decode(whole, false),
        None => decode(reader.rest(), true),
    }
}

fn decode(bytes: &[u8], truncated: bool) -> Option<Finding> {
    let mut reader = Reader::new(bytes);
    let _id = reader.be16()?;
    let flags = reader.be16()?;
    let questions = reader.be16()?;
    let answers = reader.be16()?;
    let authorities = reader.be16()?;
    let additional = reader.be16()?;
    // The reserved bit; operations up to DSO (RFC 8490).
    if flags & 0x40 != 0 || flags >> 11 & 0xf > 6 {
        return None;
    }
    let records = [answers, authorities, additional]
        .iter()
        .fold(0_u32, |sum, &count| sum.saturating_add(count.into()));
    let is_response = flags & 0x8000 != 0;
    if u32::from(questions).saturating_add(records) == 0 {
        // An answer may be an error and nothing else.
        return (is_response && reader.is_empty()).then(|| Finding::likely("a header alone"));
    }
    // Each record takes at least 11 bytes, each question 5.
    let least = usize::from(questions).saturating_mul(5);
    if reader.rest().len() < least && !truncated {
        return None;
    }
    let name = name(&mut reader)?;
    if questions > 0 {
        reader.be16()?;
        reader.be16()?;
    }
    let kind = if is_response { "response" } else { "query" };
    Some(Finding::certain(kind).with_query(text(name.as_bytes())))
}

/// The name at the beginning; a compressed tail is left out.
fn name(reader: &mut Reader<'_>) -> Option<String> {
    let mut name = String::new();
    for _ in 0..MAX_DNS_LABELS {
        match reader.u8()? {
            0 => {
                return Some(if name.is_empty() {
                    ".".to_owned()
                } else {
                    name
                });
            }
            length @ 1..=63 => {
                let label = reader.take(length.into())?;
                if !name.is_empty() {
                    name.push('.');
                }
                for &byte in label {
                    // RFC 4343 §2.1: what is not printable is written as a decimal number.
                    match byte {
                        b'!'..=b'~' => name.push(char::from(byte)),
                        _ => name.push_str(&format!("\\{byte:03}")),
                    }
                }
            }
            192.. => {
                reader.u8()?;
                return Some(name);
            }
            _ => return None,
        }
    }
    None
}
