//! Skype as it was over UDP, and what is built like it: only ever a guess.
//!
//! Source: Baset and Schulzrinne, "An Analysis of the Skype Peer-to-Peer Internet Telephony
//! Protocol" (2006), and later measurements: two bytes of identifier, then a byte whose lower half
//! gives the kind.

use std::time::Duration;

use super::message::{Finding, Memory, Message};
use crate::flow::Direction;
use crate::limits::{HOST_EVIDENCE, MANY_REQUESTS, MAX_STEP};

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

impl Seen {
    /// The identifier of a client's request, if it was not answered yet.
    pub(super) fn first_request(&self) -> Option<u16> {
        let (direction, identifier) = self.asked?;
        let first = direction == Direction::FromClient && self.open && self.answered == 0;
        first.then(|| u16::from_be_bytes(identifier))
    }
}

/// Two requests under different identifiers, each answered under its own.
pub(super) fn datagram(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let [first, second, kind, _, rest @ ..] = message.bytes else {
        return None;
    };
    // Identifiers are random; other protocols count from zero or use text.
    let random = *first != 0 && !(first.is_ascii() && second.is_ascii());
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

/// Requests from one port of a host to others, one each, as Skype's are: under identifiers that
/// count on from request to request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    last: u16,
    row: u8,
    /// When the last one came of so many in a row that chance does not make them count on.
    many: Option<Duration>,
}

impl Requests {
    /// Takes in the identifier of a request that begins a flow.
    pub(super) fn note(&mut self, identifier: u16, now: Duration) {
        let step = identifier.wrapping_sub(self.last);
        self.row = if self.row > 0 && (1..=MAX_STEP).contains(&step) {
            self.row.saturating_add(1)
        } else {
            1
        };
        self.last = identifier;
        if self.row >= MANY_REQUESTS {
            self.many = Some(now);
        }
    }

    /// There were that many, not long ago.
    pub(super) fn were_many(self, now: Duration) -> bool {
        self.many
            .is_some_and(|seen| now <= seen.saturating_add(HOST_EVIDENCE))
    }
}
