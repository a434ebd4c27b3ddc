//! Bitcoin ("Bitcoin Developer Reference", message headers) and its test networks.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// The main network, and those for tests.
const NETWORKS: [[u8; 4]; 4] = [
    [0xf9, 0xbe, 0xb4, 0xd9],
    [0x0b, 0x11, 0x09, 0x07],
    [0x1c, 0x16, 0x3f, 0x28],
    [0x0a, 0x03, 0xcf, 0x40],
];
/// Of a message without contents: the first bytes of a hash of nothing.
const EMPTY: u32 = 0x5df6_e0e2;
const LONGEST: usize = 32 << 20;

/// A network, a command padded with zeros, a length, a check.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let network = reader.array()?;
    let command = reader.take(12)?;
    let length = index(reader.le32()?);
    let sum = reader.be32()?;
    let end = command.iter().position(|&byte| byte == 0).unwrap_or(12);
    let (name, padding) = command.split_at_checked(end)?;
    let named = !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric);
    let padded = padding.iter().all(|&byte| byte == 0);
    let sized = if length == 0 {
        sum == EMPTY
    } else {
        length <= LONGEST
    };
    (NETWORKS.contains(&network) && named && padded && sized)
        .then(|| Finding::certain(format!("the message {}", String::from_utf8_lossy(name))))
}
