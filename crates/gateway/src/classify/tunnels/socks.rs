//! SOCKS 5 (RFC 1928): a client's ways to prove who it is, then where it wants to go.

use crate::classify::message::{Finding, Memory, Message, text};
use crate::reader::Reader;

const VERSION: u8 = 5;
/// Ways to prove who one is that a client offers, at most.
const MOST_WAYS: u8 = 4;
/// The answer that none of them will do.
const NONE: u8 = 0xff;

/// The greeting, and the request behind it, with the name or address that it asks for.
pub(super) fn client(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let version = reader.u8()?;
    let count = reader.u8()?;
    let ways = reader.take(usize::from(count))?;
    // Methods from 10 on are not assigned, and those above are for private use.
    let known = ways.iter().all(|way| *way < 10 || *way >= 0x80);
    if version != VERSION || !(1..=MOST_WAYS).contains(&count) || !known {
        return None;
    }
    for way in ways {
        memory
            .numbers()
            .ask("socks", message.direction, u64::from(*way));
    }
    if reader.array::<3>()? != [VERSION, 1, 0] {
        return None;
    }
    let host = match reader.u8()? {
        1 => reader.take(4).map(|_| None)?,
        3 => {
            let length = usize::from(reader.u8()?);
            let name = reader.take(length)?;
            let graphic = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
            graphic.then(|| text(name))?
        }
        4 => reader.take(16).map(|_| None)?,
        _ => return None,
    };
    reader.be16()?;
    Some(Finding::certain("a greeting and a request").with_host(host))
}

/// One of the ways that the client has offered, or none.
pub(super) fn server(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let (&[version, way], _) = message.bytes.split_first_chunk()?;
    let offered = memory
        .numbers()
        .answers("socks", message.direction, u64::from(way));
    let refused = way == NONE
        && memory
            .numbers()
            .asked("socks", message.direction)
            .next()
            .is_some();
    (version == VERSION && (offered || refused))
        .then(|| Finding::likely("a greeting and its answer"))
}
