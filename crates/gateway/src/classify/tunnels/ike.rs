//! IPsec: IKE (RFC 2408 §3.1, RFC 7296 §3.1) and ESP in UDP (RFC 3948).

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// What tells IKE from ESP on the port of both; RFC 3948 §2.2.
const NO_ESP: [u8; 4] = [0; 4];
/// Payload type of what is encrypted, whole and in fragments; RFC 7296 §3.2, RFC 7383 §2.5.
const ENCRYPTED: [u8; 2] = [46, 53];
/// Numbers that may be lost between two packets.
const MOST_LOST: u64 = 64;

/// A message of version 1 or 2 whose payloads fill it.
pub(super) fn ike(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let bytes = message.bytes;
    let bytes = bytes.strip_prefix(&NO_ESP).unwrap_or(bytes);
    let mut reader = Reader::new(bytes);
    let initiator = reader.be64()?;
    reader.be64()?;
    let first = reader.u8()?;
    let version = reader.u8()?;
    let exchange = reader.u8()?;
    let flags = reader.u8()?;
    reader.be32()?;
    if initiator == 0 || index(reader.be32()?) != bytes.len() {
        return None;
    }
    let known = match version {
        0x10 => matches!(exchange, 1 | 2 | 4..=6 | 32 | 33) && flags & !0x07 == 0,
        0x20 => matches!(exchange, 34..=37 | 43) && flags & !0x38 == 0,
        _ => false,
    };
    if !known {
        return None;
    }
    // Version 1 encrypts all that follows the header, and says so.
    if version == 0x10 && flags & 1 == 1 {
        return Some(Finding::likely("IKE version 1, encrypted"));
    }
    payloads(first, reader)?;
    let version = version >> 4;
    Some(Finding::certain(format!(
        "IKE version {version}, exchange {exchange}"
    )))
}

/// Payloads with their lengths, to the end of the message.
fn payloads(first: u8, mut reader: Reader<'_>) -> Option<()> {
    let mut kind = first;
    while kind != 0 {
        let next = reader.u8()?;
        reader.u8()?;
        let length = usize::from(reader.be16()?);
        reader.take(length.checked_sub(4)?)?;
        // The next type is that of the first payload inside.
        kind = if ENCRYPTED.contains(&kind) { 0 } else { next };
    }
    reader.is_empty().then_some(())
}

/// ESP packets of one association, numbered on.
pub(super) fn esp(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if message.bytes == [0xff] {
        return Some(Finding::guess("a keep-alive of one byte"));
    }
    let mut reader = Reader::new(message.bytes);
    let association = reader.be32()?;
    let number = reader.be32()?;
    // Numbers up to 255 are reserved (RFC 4303 §2.1); behind the header lie at least a block and
    // what proves it genuine.
    if association <= 255 || reader.rest().len() < 16 {
        return None;
    }
    let steps = memory.numbers().count(
        "esp",
        message.direction,
        association.into(),
        number.into(),
        MOST_LOST,
    );
    Some(match steps {
        0 | 1 => Finding::guess("ESP with an association and a number"),
        _ => Finding::likely("ESP of one association, numbered on"),
    })
}
