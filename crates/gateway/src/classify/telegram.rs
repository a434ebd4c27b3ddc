//! Telegram: MTProto's transports over TCP, and calls through its reflectors over UDP.
//!
//! Sources: core.telegram.org/mtproto, "MTProto transports" and "Transport obfuscation"; for calls
//! the published library libtgvoip. The obfuscation hides the protocol from those who do not look:
//! the key stands in the first 64 bytes.

use aws_lc_rs::cipher::{AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;

use super::message::{Finding, Memory, Message};
use super::opening::Bytes;
use crate::flow::Direction;
use crate::reader::{Reader, index};

/// What an unencrypted message may begin with: requests of the key exchange, little-endian.
const REQUESTS: [u32; 3] = [0xbe7e_8ef1, 0x6046_9778, 0xd712_e4be];
/// Bytes that begin an obfuscated stream.
const HEAD: usize = 64;

/// A stream in the clear: abridged (0xef), intermediate (0xee four times), padded (0xdd four
/// times).
pub(super) fn plain(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let first = *message.bytes.first()?;
    let (name, length) = match first {
        0xef => {
            reader.u8()?;
            let words = match reader.u8()? {
                0x7f => {
                    let [low, middle, high] = reader.array::<3>()?;
                    index(u32::from_le_bytes([low, middle, high, 0]))
                }
                words @ 1..=0x7e => usize::from(words),
                _ => return None,
            };
            ("abridged", words.checked_mul(4)?)
        }
        0xee | 0xdd => {
            if reader.array::<4>()? != [first; 4] {
                return None;
            }
            let name = if first == 0xee {
                "intermediate"
            } else {
                "padded"
            };
            (name, index(reader.le32()?))
        }
        _ => return None,
    };
    let body = reader.rest();
    if is_key_request(body) {
        return Some(Finding::certain(format!(
            "the {name} transport, then a request of the key exchange"
        )));
    }
    // A key's identifier is no zeros; behind it the message's key, then blocks of 16 bytes.
    let encrypted = length >= 40 && (length.is_multiple_of(16) || length % 16 == 8);
    let exact = body.len() == length && !body.starts_with(&[0; 8]);
    (encrypted && exact)
        .then(|| Finding::likely(format!("the {name} transport with exact lengths")))
}

/// MTProto 2.0: no key yet (eight zeros), message id, length, and a known request.
fn is_key_request(body: &[u8]) -> bool {
    let mut reader = Reader::new(body);
    let zeros = reader.be64() == Some(0);
    reader.be64();
    reader.le32();
    zeros
        && reader
            .le32()
            .is_some_and(|request| REQUESTS.contains(&request))
}

/// An obfuscated stream: AES-256 in counter mode with the key from bytes 8 to 40 and the counter
/// from 40 to 56 must give a transport's number at 56. Streams through a proxy with a secret stay
/// hidden.
pub(super) fn obfuscated(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let head = message.bytes.first_chunk::<HEAD>()?;
    if message.direction != Direction::FromClient || memory.telegram_tried {
        return None;
    }
    // One attempt for each flow: AES for each packet would be a load that a sender can cause.
    memory.telegram_tried = true;
    if !may_be_obfuscated(head) {
        return None;
    }
    let stream = keystream(head)?;
    let plain: Vec<u8> = head
        .iter()
        .zip(stream)
        .map(|(byte, key)| byte ^ key)
        .collect();
    let name = match plain.get(56..60)? {
        [0xef, 0xef, 0xef, 0xef] => "abridged",
        [0xee, 0xee, 0xee, 0xee] => "intermediate",
        [0xdd, 0xdd, 0xdd, 0xdd] => "padded",
        _ => return None,
    };
    Some(Finding::certain(format!(
        "an obfuscated stream that decrypts to the {name} transport"
    )))
}

/// What the first 64 bytes are encrypted with, by the key and the counter in them.
pub(crate) fn keystream(head: &[u8; HEAD]) -> Option<[u8; HEAD]> {
    let key = UnboundCipherKey::new(&AES_256, head.get(8..40)?).ok()?;
    let key = DecryptingKey::ctr(key).ok()?;
    let counter: [u8; 16] = head.get(40..56)?.try_into().ok()?;
    let mut stream = [0; HEAD];
    let context = DecryptionContext::Iv128(FixedLength::from(&counter));
    key.decrypt(&mut stream, context).ok()?;
    Some(stream)
}

/// All 64 bytes are random but for the number; that spares the decryption of most streams.
fn may_be_obfuscated(head: &[u8; HEAD]) -> bool {
    let [first, second, ..] = head;
    let tls = matches!((first, second), (20..=24, 3));
    *first != 0xef && !tls && Bytes::of(head).are_random()
}

/// Calls: 16 bytes that name the call, then a request to the reflector: twelve bytes 0xff.
pub(super) fn reflector(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let tag = reader.take(16)?;
    let marked = reader.array::<12>()? == [0xff; 12];
    let named = tag.iter().any(|&byte| byte != 0xff) && tag.iter().any(|&byte| byte != 0);
    let sized = matches!(message.bytes.len(), 32 | 40 | 64 | 56 | 72);
    (marked && named && sized).then(|| Finding::likely("a request to a call's reflector"))
}
