//! Monero's network ("Levin protocol"): a fixed number and a header of 33 bytes.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Longest contents of a message.
const LONGEST: u64 = 100_000_000;

/// A header in little-endian order: a length, whether an answer is wanted, a command, flags,
/// version 1.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(
        message
            .bytes
            .strip_prefix(b"\x01\x21\x01\x01\x01\x01\x01\x01")?,
    );
    let length = reader.be64()?.swap_bytes();
    let wanted = reader.u8()?;
    let command = reader.le32()?;
    reader.le32()?;
    let flags = reader.le32()?;
    let version = reader.le32()?;
    let known = matches!(command, 1_001..=1_010 | 2_001..=2_020);
    (length <= LONGEST && wanted <= 1 && known && flags < 16 && version == 1)
        .then(|| Finding::certain(format!("command {command}")))
}
