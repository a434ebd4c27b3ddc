//! NetBIOS over TCP and UDP (RFC 1002): names, datagrams, sessions.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// A name's first label: its length and 16 characters in 32 letters; RFC 1001 §14.1.
const NAME: usize = 33;
/// The port that a datagram's source names once more.
const DATAGRAMS: u16 = 138;

fn is_name(bytes: &[u8]) -> bool {
    let letters = bytes.get(1..NAME).unwrap_or_default();
    let encoded = letters.iter().all(|byte| (b'A'..=b'P').contains(byte));
    bytes.first() == Some(&32) && letters.len() == 32 && encoded
}

/// A question for a name, or what is said of one.
pub(super) fn name(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let bytes = message.bytes.get(12..)?;
    let mut reader = Reader::new(bytes.get(NAME..)?);
    // A scope may follow, of a few labels.
    loop {
        match usize::from(reader.u8()?) {
            0 => break,
            length @ 1..=63 => drop(reader.take(length)?),
            _ => return None,
        }
    }
    let kind = reader.be16()?;
    let class = reader.be16()?;
    (is_name(bytes) && matches!(kind, 0x0a | 0x20 | 0x21) && class & 0x7fff == 1)
        .then(|| Finding::certain("a name in its letters"))
}

/// A datagram with the names of its source and its destination.
pub(super) fn datagram(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let kind = reader.u8()?;
    let flags = reader.u8()?;
    reader.take(6)?;
    let port = reader.be16()?;
    let length = usize::from(reader.be16()?);
    reader.be16()?;
    let known = (0x10..=0x12).contains(&kind) && flags & 0xf0 == 0 && port == DATAGRAMS;
    (known && is_name(reader.rest()) && length <= reader.rest().len())
        .then(|| Finding::certain("a datagram with the names of both ends"))
}

/// The request for a session: two names.
pub(super) fn session(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let names = message.bytes.strip_prefix(&[0x81, 0, 0, 68])?;
    let (called, calling) = names.split_at_checked(NAME + 1)?;
    let ends = called.last() == Some(&0) && calling.get(NAME) == Some(&0);
    (ends && is_name(called) && is_name(calling))
        .then(|| Finding::certain("a request with the names of both ends"))
}
