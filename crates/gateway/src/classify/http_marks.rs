//! One look at the head of an HTTP message: which special forms it may be.
//!
//! Many applications speak HTTP. Each has its check; this spares them all that cannot fit, with one
//! pass over the head for all of them together, also when the message grows.

use super::message::Message;
use super::{bittorrent_http, gnutella};
use crate::limits::{MAX_HTTP_HEADERS, MAX_SCAN};

/// Special forms that a message may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// An info-hash in the target.
    pub(super) info_hash: bool,
    /// Requested by a BitTorrent program.
    pub(super) bittorrent: bool,
    pub(super) gnutella: bool,
    pub(super) kazaa: bool,
    pub(super) xmpp: bool,
    pub(super) msn: bool,
    pub(super) ringway: bool,
}

/// Marks of the message that begins at a position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    at: usize,
    length: usize,
    ended: bool,
    marks: Marks,
}

/// The marks of a message, from memory where nothing can have changed.
pub(super) fn of(message: &Message<'_>, memory: &mut [Option<Box<Seen>>; 2]) -> Marks {
    let Some(slot) = memory.get_mut(message.direction.slot()) else {
        return Marks::default();
    };
    let length = message.bytes.len();
    let known = slot
        .as_deref()
        .filter(|seen| seen.at == message.at && (seen.ended || seen.length == length));
    if let Some(seen) = known {
        return seen.marks;
    }
    let (marks, ended) = look(message.bytes);
    *slot = Some(Box::new(Seen {
        at: message.at,
        length,
        ended,
        marks,
    }));
    marks
}

/// Marks, and whether the head has ended.
fn look(bytes: &[u8]) -> (Marks, bool) {
    let bytes = bytes.get(..bytes.len().min(MAX_SCAN)).unwrap_or_default();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // A body of other bytes follows.
        Err(error) => std::str::from_utf8(bytes.get(..error.valid_up_to()).unwrap_or_default())
            .unwrap_or_default(),
    };
    let mut marks = Marks::default();
    // Nothing behind a line's end is no empty line: the next one is still to come.
    let mut lines = text.split_inclusive('\n').take(MAX_HTTP_HEADERS);
    first_line(lines.next().unwrap_or_default(), &mut marks);
    for line in lines {
        let line = line.trim_end();
        if line.is_empty() {
            return (marks, true);
        }
        if let Some((name, value)) = line.split_once(':') {
            header(name, value.trim_start(), &mut marks);
        }
    }
    (marks, bytes.len() == MAX_SCAN)
}

fn first_line(line: &str, marks: &mut Marks) {
    let Some((_, target)) = line.split_once(' ') else {
        return;
    };
    if !line.starts_with("HTTP/") {
        marks.info_hash = target.contains("info_hash=");
        marks.kazaa = target.starts_with("/.");
        marks.gnutella = target.starts_with("/get/") || target.starts_with("/uri-res/");
        marks.xmpp = target.contains("/http-bind");
        marks.msn = target.contains("gateway.dll");
    }
}

fn header(name: &str, value: &str, marks: &mut Marks) {
    // This runs for each header line of HTTP, and the first letter rules out most of them.
    match name.as_bytes().first().map(u8::to_ascii_lowercase) {
        Some(b'x') => {
            marks.kazaa |= begins(name, "x-kazaa");
            marks.gnutella |= begins(name, "x-gnutella")
                || ["x-queue", "x-falt", "x-nalt", "x-alt", "x-thex-uri"]
                    .iter()
                    .any(|own| name.eq_ignore_ascii_case(own));
        }
        Some(b'u') if name.eq_ignore_ascii_case("user-agent") => {
            marks.bittorrent |= bittorrent_http::program(value).is_some();
            marks.gnutella |= gnutella::is_program(value);
        }
        Some(b'c') if name.eq_ignore_ascii_case("content-type") => {
            marks.xmpp |= value.contains("xml");
            marks.msn |= value.contains("x-msn-messenger");
        }
        Some(b's') if name.eq_ignore_ascii_case("server") => {
            marks.gnutella |= gnutella::is_program(value);
        }
        Some(b's') if name.eq_ignore_ascii_case("sec-websocket-protocol") => {
            marks.xmpp |= value.eq_ignore_ascii_case("xmpp");
            marks.ringway |= value == "ringway";
        }
        _ => {}
    }
}

/// Begins with this, in whatever case.
pub(super) fn begins(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::look;

    #[test]
    fn a_head_cut_at_a_line_end_continues() {
        let head = "GET / HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Protocol: ringway\r\n\r\n";
        for slot in 0..head.len() - 1 {
            assert!(!look(&head.as_bytes()[..slot]).1, "{slot}");
        }
        let (marks, ended) = look(head.as_bytes());
        assert!(ended && marks.ringway);
    }
}
