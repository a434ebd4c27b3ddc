//! OpenVPN ("OpenVPN Protocol", its source's `ssl_pkt.h`): how a session opens, plain, with a
//! signature (`tls-auth`), or encrypted (`tls-crypt`).

use crate::classify::message::{Finding, Memory, Message};
use crate::flow::Direction;
use crate::reader::Reader;

/// Codes of the messages that open a session: the client's, the server's, the client's with a key
/// of its own (`tls-crypt-v2`).
const CLIENT: u8 = 7;
const SERVER: u8 = 8;
const CLIENT_KEYED: u8 = 10;
/// No opening is as long as this.
const LONGEST: usize = 1_280;
/// Bytes of an opening with nothing but a session, no acknowledgements, and the number 0.
const PLAIN: usize = 14;
/// Bytes of signatures: MD5, SHA-1, SHA-256, SHA-384, SHA-512.
const SIGNATURES: [usize; 5] = [16, 20, 32, 48, 64];
/// Bytes of an encrypted opening: session, number and time, signature, and what [`PLAIN`] has
/// behind the session.
const ENCRYPTED: usize = 9 + 8 + 32 + 5;

/// A datagram.
pub(super) fn datagram(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    opening(message.bytes, message.direction, memory)
}

/// Over TCP each message has its length before it.
pub(super) fn stream(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = usize::from(reader.be16()?);
    // What opens a session fits into one packet.
    if length >= LONGEST {
        return None;
    }
    opening(reader.take(length)?, message.direction, memory)
}

fn opening(bytes: &[u8], from: Direction, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(bytes);
    let code = reader.u8()?;
    let session = reader.be64()?;
    // A session opens with its key 0.
    if code & 7 != 0 || session == 0 {
        return None;
    }
    let numbers = memory.numbers();
    match code >> 3 {
        CLIENT | CLIENT_KEYED => {
            let why = how(bytes, code >> 3 == CLIENT_KEYED)?;
            numbers.ask("openvpn", from, session);
            Some(Finding::likely(why))
        }
        SERVER => {
            // It acknowledges by the client's session, which is not encrypted but by `tls-crypt`.
            let repeats = numbers.asked("openvpn", from).any(|asked| {
                let wanted = asked.to_be_bytes();
                reader
                    .rest()
                    .windows(wanted.len())
                    .any(|part| part == wanted)
            });
            if repeats {
                return Some(Finding::certain(
                    "an opening and its answer, with its session",
                ));
            }
            let encrypted = bytes.len() == ENCRYPTED + 12 && first_number(bytes, 9);
            (encrypted && numbers.asked("openvpn", from).next().is_some())
                .then(|| Finding::likely("an encrypted opening and its answer"))
        }
        _ => None,
    }
}

/// How a client opens: each way has its length, and its fixed numbers at their places.
fn how(bytes: &[u8], keyed: bool) -> Option<&'static str> {
    let plain = [0; PLAIN - 9];
    if bytes.len() == PLAIN && bytes.ends_with(&plain) {
        return Some("a session opens");
    }
    let signed = |length: &usize| {
        let at = length.saturating_add(9);
        bytes.len() == at.saturating_add(8).saturating_add(plain.len()) && first_number(bytes, at)
    };
    if SIGNATURES.iter().any(signed) && bytes.ends_with(&plain) {
        return Some("a session opens, signed");
    }
    let length = bytes.len();
    let fits = length == ENCRYPTED || (keyed && length > ENCRYPTED + 256);
    (fits && first_number(bytes, 9)).then_some("a session opens, encrypted")
}

/// The number of a sender's first message stands here.
fn first_number(bytes: &[u8], at: usize) -> bool {
    let number = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    number == Some(&[0, 0, 0, 1])
}
