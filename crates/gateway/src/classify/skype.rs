//! Skype as it was over UDP, and what is built like it: only ever a guess.
//!
//! Source: Baset and Schulzrinne, "An Analysis of the Skype Peer-to-Peer Internet Telephony
//! Protocol" (2006), and later measurements: two bytes of identifier, then a byte whose lower half
//! tells the kind.

use super::message::{Finding, Memory, Message};
use crate::flow::Direction;

/// Kinds of messages that were observed.
fn is_kind(byte: u8) -> bool {
    byte & 0x80 == 0 && matches!(byte & 0x0f, 0x2 | 0x3 | 0x5 | 0x7 | 0xd | 0xf)
}

/// What was seen of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Who asks, and under which identifier last.
    asked: Option<(Direction, [u8; 2])>,
    /// That request has no answer yet.
    open: bool,
    /// Requests that were answered under their identifier.
    answered: u8,
    /// The identifier stays the same, as that of a connection does.
    steady: bool,
}

/// Two requests under different identifiers, each answered under its own.
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
    let seen = &mut memory.skype;
    match seen.asked {
        Some((direction, asked)) if direction != message.direction => {
            if asked == own && seen.open {
                seen.answered = seen.answered.saturating_add(1);
            }
            seen.open = false;
            (seen.answered >= 2 && !seen.steady)
                .then(|| Finding::guess("answers under the requests' identifiers"))
        }
        Some((_, asked)) => {
            seen.steady |= asked == own;
            seen.asked = Some((message.direction, own));
            seen.open = true;
            None
        }
        None => {
            seen.asked = (kind & 0x0f == 2).then_some((message.direction, own));
            seen.open = true;
            None
        }
    }
}
