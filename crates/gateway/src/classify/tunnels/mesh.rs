//! Networks of machines that find ways to each other: Tailscale, ZeroTier, Nebula.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Bytes of a key, a nonce, the proof of what is sealed, and a message's type and version.
const LEAST_DISCOVERY: usize = 32 + 24 + 16 + 2;
/// Where a node's address stands as the sender's, and in the identity that it shows.
const SENDER: std::ops::Range<usize> = 13..18;
const IDENTITY: std::ops::Range<usize> = 41..46;
/// ZeroTier's greeting, and its cipher that signs and encrypts nothing.
const HELLO: u8 = 1;
const SIGNED_ONLY: u8 = 0;

/// Tailscale's discovery of ways: six fixed bytes, the sender's key, a nonce, what is sealed.
pub(super) fn tailscale(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let sealed = message.bytes.strip_prefix(b"TS\xf0\x9f\x92\xac")?;
    (sealed.len() >= LEAST_DISCOVERY).then(|| Finding::certain("discovery, with key and nonce"))
}

/// ZeroTier's greeting, which is not encrypted: the identity in it begins with the sender's
/// address.
pub(super) fn zerotier(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let bytes = message.bytes;
    let flags = *bytes.get(18)?;
    let verb = *bytes.get(27)?;
    let protocol = *bytes.get(28)?;
    let sender = bytes.get(SENDER)?;
    let kind = *bytes.get(46)?;
    // An identity is an address, a type, and a public key of 64 bytes.
    let shows_itself = bytes.get(IDENTITY)? == sender && kind <= 1 && bytes.len() >= 47 + 64;
    let greets = flags >> 3 & 7 == SIGNED_ONLY && verb == HELLO && (1..=31).contains(&protocol);
    let named = sender.iter().any(|&byte| byte != 0);
    (greets && shows_itself && named)
        .then(|| Finding::certain("a greeting with the sender's identity"))
}

/// Nebula's handshake: the first message to no index under the number 1, the answer under 2.
pub(super) fn nebula(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let is_handshake = reader.be32()? == 0x1000_0000;
    let receiver = reader.be32()?;
    let number = reader.be64()?;
    // A key of 32 bytes and a certificate follow.
    if !is_handshake || reader.rest().len() < 64 {
        return None;
    }
    match number {
        1 if receiver == 0 => {
            memory.numbers().ask("nebula", message.direction, 1);
            Some(Finding::likely("the first message of a handshake"))
        }
        2 if receiver != 0 && memory.numbers().answers("nebula", message.direction, 1) => {
            Some(Finding::certain("a handshake and its answer"))
        }
        _ => None,
    }
}
