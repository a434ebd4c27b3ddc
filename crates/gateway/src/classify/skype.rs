//! Skype as it was over UDP, and what is built like it: only ever a guess.
//!
//! Source: Baset and Schulzrinne, "An Analysis of the Skype Peer-to-Peer Internet Telephony Protocol" (2006), and later
//! measurements: two bytes of identifier, then a byte whose lower half tells the kind.

use super::message::{Finding, Memory, Message};

/// Kinds of messages that were observed.
fn is_kind(byte: u8) -> bool {
    byte & 0x80 == 0 && matches!(byte & 0x0f, 0x2 | 0x3 | 0x5 | 0x7 | 0xd | 0xf)
}

/// A request, and an answer under the same identifier.
pub(super) fn datagram(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let [first, second, kind, _, rest @ ..] = message.bytes else {
        return None;
    };
    // Identifiers are random; other protocols count from zero or use text.
    let random = *first != 0 && *second != 0 && !(first.is_ascii() && second.is_ascii());
    if !random || !is_kind(*kind) || rest.len() < 8 || rest.iter().all(u8::is_ascii) {
        return None;
    }
    let own = [*first, *second];
    match memory.skype {
        None => {
            memory.skype = (kind & 0x0f == 2).then_some((message.direction, own));
            None
        }
        Some((direction, asked)) => (direction != message.direction && asked == own)
            .then(|| Finding::guess("an answer under the request's identifier")),
    }
}
