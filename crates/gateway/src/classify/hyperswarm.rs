//! The DHT of Hyperswarm (Holepunch, Hypercore): requests and responses that say what they carry.
//!
//! Layout: the program `dht-rpc`, whose messages are the format's only description.

use super::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Version 3, as a request and as a response.
const REQUEST: u8 = 0x03;
const RESPONSE: u8 = 0x13;
/// What a message carries, by bits: the sender's id, a token, something of its kind, a target of
/// requests or an error of responses, a value.
const ID: u8 = 1;
const TOKEN: u8 = 2;
const OWN: u8 = 4;
const TARGET_OR_ERROR: u8 = 8;
const VALUE: u8 = 16;
const ALL: u8 = ID | TOKEN | OWN | TARGET_OR_ERROR | VALUE;
/// Bytes of an id, a token, a target; of an address with its port.
const HASH: usize = 32;
const ADDRESS: usize = 6;
/// The kinds of request that the DHT itself uses: ping, ping for a NAT, find a node, a node that is
/// gone, another ping.
const COMMANDS: std::ops::RangeInclusive<u64> = 0..=4;

/// A message whose parts fill it; for certain where a response has its request's number.
pub(super) fn message(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let kind = reader.u8()?;
    let flags = reader.u8()?;
    let number = reader.le16()?;
    let to = reader.take(ADDRESS)?;
    let has = |part: u8| flags & part != 0;
    let hashes = usize::from(has(ID)).saturating_add(usize::from(has(TOKEN)));
    reader.take(hashes.checked_mul(HASH)?)?;
    let is_request = kind == REQUEST;
    if is_request {
        let command = uint(&mut reader)?;
        // A bit says that the command is the DHT's own; others belong to what stands above it.
        if has(OWN) && !COMMANDS.contains(&command) {
            return None;
        }
        reader.take(if has(TARGET_OR_ERROR) { HASH } else { 0 })?;
    } else {
        let nodes = if has(OWN) { uint(&mut reader)? } else { 0 };
        reader.take(usize::try_from(nodes).ok()?.checked_mul(ADDRESS)?)?;
        let _error = has(TARGET_OR_ERROR).then(|| uint(&mut reader)).flatten();
    }
    if has(VALUE) {
        let length = usize::try_from(uint(&mut reader)?).ok()?;
        reader.take(length)?;
    }
    let port = u16::from_le_bytes(*to.last_chunk()?);
    if !reader.is_empty() || flags & !ALL != 0 || port == 0 || to.first() == Some(&0) {
        return None;
    }
    if is_request {
        memory
            .numbers()
            .ask("hyperswarm", message.direction, number.into());
        // A target is what the network is for; without one a few bytes fit by chance.
        let shown = has(OWN) && has(TARGET_OR_ERROR);
        let why = format!("request {number}, whose parts fill it");
        return Some(if shown {
            Finding::likely(why)
        } else {
            Finding::guess(why)
        });
    }
    let answers = memory
        .numbers()
        .answers("hyperswarm", message.direction, number.into());
    (kind == RESPONSE && answers)
        .then(|| Finding::certain(format!("request {number} and its response")))
}

/// A number of one byte, or of two, four or eight behind a byte that says so (compact-encoding).
fn uint(reader: &mut Reader<'_>) -> Option<u64> {
    match reader.u8()? {
        small @ 0..=0xfc => Some(small.into()),
        0xfd => reader.le16().map(u64::from),
        0xfe => reader.le32().map(u64::from),
        0xff => None,
    }
}
