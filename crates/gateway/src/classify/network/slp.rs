//! The Service Location Protocol (RFC 2165 §4, RFC 2608 §8).

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Requests, answers, advertisements.
const FUNCTIONS: std::ops::RangeInclusive<u8> = 1..=11;

/// A message of version 1 or 2 of exactly its length, with a language.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let version = reader.u8()?;
    let function = reader.u8()?;
    let (length, language) = match version {
        1 => {
            let length = usize::from(reader.be16()?);
            reader.be16()?;
            (length, reader.take(2)?)
        }
        2 => {
            let [high, middle, low] = reader.array()?;
            // Flags, where extensions begin, a number.
            reader.take(7)?;
            let size = usize::from(reader.be16()?);
            let length = index(u32::from_be_bytes([0, high, middle, low]));
            (length, reader.take(size)?)
        }
        _ => return None,
    };
    let is_language = (2..=8).contains(&language.len())
        && language
            .iter()
            .all(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
    (FUNCTIONS.contains(&function) && length == message.bytes.len() && is_language)
        .then(|| Finding::certain(format!("version {version}, function {function}")))
}
