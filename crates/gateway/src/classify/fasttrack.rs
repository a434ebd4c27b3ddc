//! FastTrack (Kazaa, Grokster, iMesh): transfers, which are HTTP, pushes, and datagrams between
//! supernodes.
//!
//! What follows the opening of links between nodes is encrypted. Source: the protocol
//! notes of the free implementation giFT-FastTrack.

use super::http::{Request, header_names};
use super::http_marks;
use super::message::{Finding, Memory, Message, is_number};
use crate::reader::Reader;

/// Places that only FastTrack programs serve.
const OWN_PATHS: [&str; 4] = ["/.supernode", "/.status", "/.network", "/.files"];

/// A request or an answer of a transfer: `GET /.hash=<40 hex>`, or header lines that begin with
/// `X-Kazaa`.
pub(super) fn transfer(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !http_marks::of(message, &mut memory.http).kazaa {
        return None;
    }
    let end = message.bytes.iter().position(|&byte| byte == b'\n')?;
    let block = message.bytes.get(end.checked_add(1)?..)?;
    let lines = header_names(block).any(|name| {
        name.get(..7)
            .is_some_and(|start| start.eq_ignore_ascii_case("x-kazaa"))
    });
    if !message.bytes.starts_with(b"GET ") {
        return lines.then(|| Finding::certain("an answer with Kazaa's header lines"));
    }
    // Most requests are none: they are ruled out before the line is parsed.
    if !lines && !message.bytes.starts_with(b"GET /.") {
        return None;
    }
    let request = Request::parse(message.bytes)?;
    let target = request.target();
    let by_hash = target
        .strip_prefix("/.hash=")
        .and_then(|rest| rest.get(..40))
        .is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let found = match (by_hash, lines) {
        (true, true) => Finding::certain("a transfer by hash with Kazaa's header lines"),
        (false, true) => Finding::certain("Kazaa's header lines"),
        (true, false) => Finding::likely("a transfer asked by hash"),
        (false, false) if target.starts_with("/.download/") || OWN_PATHS.contains(&target) => {
            Finding::guess("a place that Kazaa serves")
        }
        (false, false) => return None,
    };
    Some(found.with_host(request.host()))
}

/// The opening of a link: a fixed word, a cipher's seed, and its kind, which is encrypted.
pub(super) fn session(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    match message.bytes.len() {
        12 => Some(Finding::certain("a link's fixed word, a seed and a cipher")),
        13.. => Some(Finding::likely("a link's fixed word")),
        _ => None,
    }
}

/// `GIVE` and a number of 8 to 10 digits: the uploader called back.
pub(super) fn push(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let line = message
        .bytes
        .split(|byte| matches!(byte, b'\r' | b'\n' | 0))
        .next()?;
    let number = std::str::from_utf8(line.strip_prefix(b"GIVE ")?).ok()?;
    let valid = number.len() >= 8 && is_number(number, 10);
    valid.then(|| Finding::likely("an announced file with its number"))
}

/// A ping (0x27) or its answer (0x28, 0x29): encryption types, then the network's name and a zero
/// at the end.
pub(super) fn ping(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let named = message.bytes.ends_with(b"KaZaA\0") || message.bytes.ends_with(b"fileshare\0");
    let mut reader = Reader::new(message.bytes);
    let kind = reader.u8()?;
    if !named || message.bytes.len() > 64 || message.truncated {
        return None;
    }
    match (kind, message.bytes.len()) {
        (0x27, 12 | 16) => Some(Finding::certain(
            "a supernode's ping with the network's name",
        )),
        (0x27..=0x29, _) => Some(Finding::likely("a datagram with the network's name")),
        _ => None,
    }
}
