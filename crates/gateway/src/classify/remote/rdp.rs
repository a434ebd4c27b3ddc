//! RDP ([MS-RDPBCGR] §2.2.1.1): a connection request of X.224 in a packet of TPKT (RFC 1006).

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Codes of X.224's connection request and confirmation.
const REQUEST: u8 = 0xe0;
const CONFIRMATION: u8 = 0xd0;

/// The request or its confirmation, with what only RDP has in it: a cookie that names the user, or
/// a negotiation of how to encrypt.
pub(super) fn connection(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.be16()? != 0x0300 {
        return None;
    }
    let length = usize::from(reader.be16()?);
    let mut reader = Reader::new(reader.take(length.checked_sub(4)?)?);
    let header = usize::from(reader.u8()?);
    let code = reader.u8()?;
    reader.be16()?;
    reader.be16()?;
    let class = reader.u8()?;
    // The header holds all that is left: there are no data in it.
    if header.checked_add(5)? != length || class != 0 {
        return None;
    }
    let rest = reader.rest();
    match code {
        REQUEST => {
            let cookie =
                rest.starts_with(b"Cookie: mstshash=") || rest.starts_with(b"Cookie: msts=");
            let negotiates = rest
                .last_chunk()
                .is_some_and(|part| is_negotiation(part, &[1]));
            if cookie {
                return Some(Finding::certain("a request with a cookie"));
            }
            negotiates.then(|| Finding::certain("a request that negotiates encryption"))
        }
        CONFIRMATION => rest
            .first_chunk()
            .is_some_and(|part| is_negotiation(part, &[2, 3]))
            .then(|| Finding::certain("a confirmation that negotiates encryption")),
        _ => None,
    }
}

/// A type, flags, the length 8 in little-endian order, and one of few values.
fn is_negotiation(part: &[u8; 8], kinds: &[u8]) -> bool {
    let [kind, _, low, high, value, rest @ ..] = part;
    kinds.contains(kind) && [*low, *high] == [8, 0] && *value <= 0x1f && *rest == [0; 3]
}
