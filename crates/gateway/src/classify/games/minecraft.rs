//! Minecraft, Java edition ("Protocol", handshaking).

use crate::classify::message::{Finding, Memory, Message, text};
use crate::reader::Reader;

/// A number of seven bits in each byte, lowest first, in this many bytes at most.
fn number(reader: &mut Reader<'_>, most: u32) -> Option<u32> {
    let mut number = 0_u32;
    for place in 0..most {
        let byte = reader.u8()?;
        number |= u32::from(byte & 0x7f).checked_shl(place.saturating_mul(7))?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A length, the number 0, a version, a host with its length, a port, what is wanted.
pub(super) fn handshake(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = usize::try_from(number(&mut reader, 2)?).ok()?;
    let mut reader = Reader::new(reader.take(length)?);
    let is_first = reader.u8()? == 0;
    let version = number(&mut reader, 3)?;
    let size = usize::try_from(number(&mut reader, 2)?).ok()?;
    let host = reader.take(size)?;
    reader.be16()?;
    let wanted = reader.u8()?;
    // Add-ons of servers write more behind a zero.
    let name = host.split(|&byte| byte == 0).next()?;
    let named = (1..=255).contains(&name.len())
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(byte));
    (is_first && version < 100_000 && named && (1..=3).contains(&wanted) && reader.is_empty())
        .then(|| Finding::certain("a handshake of its length").with_host(text(name)))
}
