//! TFTP (RFC 1350 §5, RFC 2347): a request names a file and a mode.

use crate::classify::message::{Finding, Memory, Message};

const MODES: [&[u8]; 3] = [b"octet", b"netascii", b"mail"];

/// A request to read or to write, whose texts fill it.
pub(super) fn request(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (&[0, operation @ (1 | 2)], texts) = message.bytes.split_first_chunk()? else {
        return None;
    };
    let mut texts = texts.strip_suffix(&[0])?.split(|&byte| byte == 0);
    let name = texts.next()?;
    let mode = texts.next()?.to_ascii_lowercase();
    let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let named = !name.is_empty() && name.iter().all(printable);
    // Options come in pairs of a name and a value.
    let paired = texts.count().is_multiple_of(2);
    (named && paired && MODES.contains(&mode.as_slice())).then(|| {
        Finding::certain(if operation == 1 {
            "a request to read"
        } else {
            "a request to write"
        })
    })
}
