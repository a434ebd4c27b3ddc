//! SMB ([MS-SMB] §2.2.3.1, [MS-SMB2] §2.2.1): a length, four fixed bytes, a header.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Bytes of the headers of version 1 and of versions 2 and 3.
const HEADER_1: usize = 32;
const HEADER_2: usize = 64;

/// A message with its length before it.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    // The upper byte is the kind of a session's message: data.
    let length = index(reader.be32()?);
    let kind = reader.array::<4>()?;
    let size = reader.le16()?;
    let (name, least) = match &kind {
        b"\xffSMB" => ("version 1", HEADER_1),
        b"\xfeSMB" if usize::from(size) == HEADER_2 => ("version 2 or 3", HEADER_2),
        b"\xfdSMB" => ("version 3, encrypted", 52),
        _ => return None,
    };
    (length >= least && length < 1 << 24).then(|| Finding::certain(name))
}
