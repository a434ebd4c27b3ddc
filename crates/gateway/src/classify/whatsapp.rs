//! WhatsApp's own protocol over TCP: a prologue with the version, then frames; the first holds
//! Noise's first message.
//!
//! Source: published implementations of its Noise handshake. A client may send routing information
//! before the prologue.

use super::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// `ED\0\1`, 3 bytes of length and routing information; `WA` and two bytes of version; a frame.
pub(super) fn prologue(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let mut routed = false;
    if reader.rest().starts_with(b"ED\0\x01") {
        reader.take(4)?;
        routed = true;
        let Some(length) = be24(&mut reader) else {
            // A client sends these four bytes by themselves.
            return reader
                .is_empty()
                .then(|| Finding::guess("ED and a version"));
        };
        let routing = (length <= 64).then(|| reader.take(length)).flatten()?;
        // A protobuf of small numbers.
        if routing.first() != Some(&0x08) {
            return None;
        }
    }
    let Some([b'W', b'A', major, minor]) = reader.array::<4>() else {
        return (routed && reader.rest().len() < 4)
            .then(|| Finding::likely("ED, a version and routing information"));
    };
    if !(1..=16).contains(&major) || minor > 16 {
        return None;
    }
    let why = format!("WA and version {major}.{minor}");
    let length = be24(&mut reader);
    let fits = length.is_some_and(|length| is_client_hello(reader.rest(), length));
    // Versions before Noise begin with a frame that is a list of words, by their numbers.
    let lists = length.is_some_and(|length| is_list(reader.rest(), length));
    Some(if fits {
        Finding::certain(format!("{why}, then a frame with a key of 32 bytes"))
    } else if major == 1 && lists {
        Finding::certain(format!("{why}, then a frame with a list"))
    } else if routed {
        Finding::likely(why)
    } else {
        Finding::guess(why)
    })
}

/// A protobuf: field 2 (the client's hello) as long as the frame says, in it field 1, a key of 32
/// bytes.
fn is_client_hello(bytes: &[u8], length: usize) -> bool {
    let mut reader = Reader::new(bytes);
    if reader.u8() != Some(0x12) {
        return false;
    }
    let mut inner = 0_usize;
    let mut head = 1_usize;
    for shift in [0_u32, 7, 14] {
        let Some(byte) = reader.u8() else {
            return false;
        };
        head = head.saturating_add(1);
        inner |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            break;
        }
    }
    inner.saturating_add(head) == length && reader.array::<2>() == Some([0x0a, 32])
}

/// A frame in the clear that holds a list of at most 255 parts, the first of which is a word.
fn is_list(bytes: &[u8], length: usize) -> bool {
    let fits = (4..=1_024).contains(&length) && bytes.len() >= length.min(64);
    fits && matches!(bytes, [0xf8, 1..=64, 1..=255, ..])
}

fn be24(reader: &mut Reader<'_>) -> Option<usize> {
    let [high, middle, low] = reader.array::<3>()?;
    usize::try_from(u32::from_be_bytes([0, high, middle, low])).ok()
}
