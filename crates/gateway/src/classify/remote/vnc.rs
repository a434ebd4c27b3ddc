//! VNC's protocol RFB (RFC 6143 §7.1.1): twelve bytes with a version.

use crate::classify::message::{Finding, Memory, Message};

/// `RFB 003.008` and a line feed, from each side.
pub(super) fn version(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (line, rest) = message.bytes.split_first_chunk::<12>()?;
    let digits = |at: std::ops::Range<usize>| {
        line.get(at)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let fits = line.starts_with(b"RFB ") && digits(4..7) && line[7] == b'.' && digits(8..11);
    // A server may offer its ways to prove who one is only after the client has chosen a version.
    (fits && line[11] == b'\n' && rest.len() < 256).then(|| Finding::certain("a version of RFB"))
}
