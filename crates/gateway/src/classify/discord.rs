//! Discord's voice: the exchange by which a client learns its own address (IP discovery).
//!
//! Source: Discord's developer documentation, "Voice Connections". All else is TLS and found by
//! name.

use super::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// A request (type 1) or its answer (type 2): length 70, an SSRC, 64 bytes of text ended by zeros,
/// a port.
pub(super) fn ip_discovery(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if message.bytes.len() != 74 {
        return None;
    }
    let mut reader = Reader::new(message.bytes);
    let kind = reader.be16()?;
    let length = reader.be16()?;
    let source = reader.array::<4>()?;
    let address = reader.take(64)?;
    let port = reader.be16()?;
    if length != 70 {
        return None;
    }
    match kind {
        1 if address.iter().all(|&byte| byte == 0) && port == 0 => {
            memory.discord = Some((message.direction, source));
            Some(Finding::likely("a request of IP discovery"))
        }
        2 => {
            let end = address.iter().position(|&byte| byte == 0)?;
            let (name, rest) = address.split_at_checked(end)?;
            let name = std::str::from_utf8(name).ok()?;
            let valid = name.parse::<std::net::IpAddr>().is_ok();
            if !valid || rest.iter().any(|&byte| byte != 0) {
                return None;
            }
            // Another protocol's datagram may have this shape, but not the SSRC of the request.
            let answers = memory
                .discord
                .is_some_and(|(from, asked)| from != message.direction && asked == source);
            Some(if answers {
                Finding::certain("an answer of IP discovery to the request's SSRC")
            } else {
                Finding::likely("an answer of IP discovery")
            })
        }
        _ => None,
    }
}

/// A sign of life between client and voice server: a fixed number and a count, which comes back
/// unchanged.
pub(super) fn ping(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let fixed = reader.be32()? == 0x1337_cafe;
    let count = reader.array::<4>()?;
    if !fixed || !reader.is_empty() {
        return None;
    }
    let echoed = memory
        .discord
        .is_some_and(|(from, asked)| from != message.direction && asked == count);
    memory.discord = Some((message.direction, count));
    Some(if echoed {
        Finding::likely("a fixed number with a count, and its echo")
    } else {
        Finding::guess("a fixed number with a count")
    })
}
