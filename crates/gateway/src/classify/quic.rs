//! QUIC by its long header (RFC 8999, RFC 9000), and Google's QUIC before it.

use super::message::{Finding, Memory, Message};
use super::quic_crypto::{Hello, Initial};
use super::tls::Offer;
use crate::flow::Direction;
use crate::limits::MAX_CRYPTO;
use crate::reader::Reader;

/// RFC 9000 §17.2: a connection id of version 1 has at most 20 bytes.
const MAX_CONNECTION_ID: u8 = 20;
/// RFC 9000 §14.1: a client's first datagram has at least 1 200 bytes.
const MIN_INITIAL: usize = 1_200;

/// `Q046`.
const GOOGLE_46: u32 = 0x5130_3436;

/// A datagram with a long header.
pub(super) fn long_header(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let first = reader.u8()?;
    if first & 0x80 == 0 {
        return None;
    }
    let version = reader.be32()?;
    if version == GOOGLE_46 {
        return google_46(message.bytes, reader);
    }
    let mut receiver: &[u8] = &[];
    for place in 0..2 {
        let length = reader.u8()?;
        if length > MAX_CONNECTION_ID {
            return None;
        }
        let id = reader.take(length.into())?;
        if place == 0 {
            receiver = id;
        }
    }
    if version == 0 {
        return negotiation(reader);
    }
    let known = is_known(version);
    if !known && !is_reserved(version) {
        return None;
    }
    // The fixed bit; and the packet's own length, where it has one.
    let confirmed = first & 0x40 != 0 && fits(first, version, reader, message);
    let why = format!("long header with version {version:#010x}");
    match (confirmed, known) {
        (true, true) => {
            let finding = Finding::certain(why);
            let initial = Initial {
                version,
                receiver,
                datagram: message.bytes,
                rest: reader,
            };
            Some(match offered(&initial, message.direction, memory) {
                Some(offer) => finding.with_sni(offer.name).with_protocols(offer.protocols),
                None => finding,
            })
        }
        (true, false) => Some(Finding::likely(why)),
        (false, _) => None,
    }
}

/// What the ClientHello in the client's first packets offers, once it is there whole.
fn offered(initial: &Initial<'_>, from: Direction, memory: &mut Memory) -> Option<Offer> {
    if from != Direction::FromClient || !initial.is_initial() {
        return None;
    }
    if memory.quic.is_none() {
        if memory.room < MAX_CRYPTO {
            return None;
        }
        memory.quic = Hello::begin(initial).map(Box::new);
    }
    let hello = memory.quic.as_mut()?;
    let offer = hello.take_in(initial);
    memory.unfinished = hello.is_open();
    offer
}

/// Google's version 46 follows an early draft: both connection id lengths in one byte, 0 or 8 bytes
/// each.
fn google_46(bytes: &[u8], mut reader: Reader<'_>) -> Option<Finding> {
    let lengths = reader.u8()?;
    let fixed = bytes.first().is_some_and(|first| first & 0x40 != 0);
    (fixed && matches!(lengths, 0x50 | 0x05 | 0x55))
        .then(|| Finding::certain("long header with version Q046"))
}

/// A list of versions, at least one of them known.
fn negotiation(mut reader: Reader<'_>) -> Option<Finding> {
    let mut known = false;
    while !reader.is_empty() {
        known |= is_known(reader.be32()?);
    }
    known.then(|| Finding::likely("version negotiation that offers a known version"))
}

/// RFC 9369 §3.2: version 2 numbers the types differently. Types of Initial and Retry.
pub(super) fn types(version: u32) -> (u8, u8) {
    if version == 0x6b33_43cf {
        (1, 0)
    } else {
        (0, 3)
    }
}

fn fits(first: u8, version: u32, mut reader: Reader<'_>, message: &Message<'_>) -> bool {
    let (initial, retry) = types(version);
    let kind = first >> 4 & 3;
    if kind == retry {
        return reader.rest().len() >= 16;
    }
    if kind == initial {
        let token = variable(&mut reader).and_then(|length| usize::try_from(length).ok());
        if token.and_then(|length| reader.take(length)).is_none() {
            return false;
        }
    }
    let length = variable(&mut reader).and_then(|length| usize::try_from(length).ok());
    let whole = message.truncated || message.bytes.len() >= MIN_INITIAL || kind != initial;
    let inside = length
        .is_some_and(|length| message.truncated || (length >= 16 && length <= reader.rest().len()));
    // A server's Initial may be small when it only acknowledges.
    inside && (whole || message.direction == Direction::FromServer)
}

/// RFC 9000 §16.
pub(super) fn variable(reader: &mut Reader<'_>) -> Option<u64> {
    let first = *reader.rest().first()?;
    match first >> 6 {
        0 => reader.u8().map(u64::from),
        1 => reader.be16().map(|value| u64::from(value & 0x3fff)),
        2 => reader.be32().map(|value| u64::from(value & 0x3fff_ffff)),
        _ => reader.be64().map(|value| value & 0x3fff_ffff_ffff_ffff),
    }
}

/// IANA's registry: versions 1 and 2, the drafts, and those of mvfst and Google.
fn is_known(version: u32) -> bool {
    matches!(
        version,
        1 | 0x6b33_43cf
            | 0xff00_0014..=0xff00_0022
            | 0xface_b001..=0xface_b00f
            | 0x5130_3530
            | 0x5430_3530
            | 0x5430_3531
    )
}

/// RFC 9000 §15: versions that force negotiation.
fn is_reserved(version: u32) -> bool {
    version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// Google's QUIC up to version 43: a public header with the version in ASCII, sent by clients only.
pub(super) fn google(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let [flags, rest @ ..] = message.bytes else {
        return None;
    };
    // Version flag, 8-byte connection id, nothing reserved.
    if flags & 0x89 != 0x09 {
        return None;
    }
    let [b'Q', b'0', ten @ b'1'..=b'4', one @ b'0'..=b'9'] = rest.get(8..12)? else {
        return None;
    };
    Some(Finding::certain(format!(
        "public header with version Q0{}{}",
        char::from(*ten),
        char::from(*one)
    )))
}
