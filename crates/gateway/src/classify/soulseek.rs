//! Soulseek: messages with a little-endian length and a code, to the server and between peers.
//!
//! Source: the protocol documentation of Nicotine+ (server codes, peer init messages).

use super::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// The longest message that is walked over; a search answer of many files stays below.
const MAX_MESSAGE: u32 = 4 << 20;
/// The longest user or folder name.
const MAX_NAME: usize = 256;

/// `PeerInit` (code 1 in one byte): name, `P`, `F` or `D`, token; nothing behind.
pub(super) fn peer_init(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.le32()?);
    let mut body = Reader::new(reader.take(length)?);
    let code = body.u8()?;
    match code {
        1 => {
            let name = string(&mut body)?;
            let kind = string(&mut body)?;
            body.le32()?;
            let fits = is_name(name) && matches!(kind, b"P" | b"F" | b"D") && body.is_empty();
            let kind = char::from(*kind.first()?);
            fits.then(|| Finding::certain(format!("PeerInit for a connection of kind {kind}")))
        }
        // `PierceFirewall`: a token alone, which proves little by itself.
        0 => {
            body.le32()?;
            if !body.is_empty() {
                return None;
            }
            let follows = follows(&mut reader);
            Some(if follows {
                Finding::likely("PierceFirewall, then a peer's message")
            } else {
                Finding::guess("PierceFirewall")
            })
        }
        _ => None,
    }
}

/// A message between peers behind the first one: length, code, and a name or hash that fits inside.
fn follows(reader: &mut Reader<'_>) -> bool {
    let (Some(length), Some(code)) = (reader.le32(), reader.le32()) else {
        return false;
    };
    (4..=MAX_MESSAGE).contains(&length)
        && matches!(
            code,
            4 | 5 | 8 | 9 | 15 | 16 | 36 | 37 | 40 | 41 | 42 | 43 | 44 | 46 | 50 | 51 | 52
        )
        && index(length) >= reader.rest().len().min(4)
}

/// `Login` (code 1): name, password, version, and the MD5 of both in hexadecimal.
pub(super) fn login(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.le32()?);
    let mut body = Reader::new(reader.take(length)?);
    if body.le32()? != 1 {
        return None;
    }
    let name = string(&mut body)?;
    let _password = string(&mut body)?;
    let version = body.le32()?;
    let hash = string(&mut body)?;
    let fits = is_name(name)
        && (100..=100_000).contains(&version)
        && hash.len() == 32
        && hash.iter().all(u8::is_ascii_hexdigit);
    fits.then(|| Finding::certain(format!("Login of version {version} with an MD5")))
}

/// The server's answer to it: refused with a reason, or a greeting, an address and the password's
/// MD5.
pub(super) fn welcome(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.le32()?);
    let mut body = Reader::new(reader.take(length)?);
    if body.le32()? != 1 {
        return None;
    }
    let accepted = body.u8()?;
    let text = string(&mut body)?;
    match accepted {
        0 => matches!(
            text,
            b"INVALIDUSERNAME" | b"INVALIDPASS" | b"INVALIDVERSION" | b"SVRFULL" | b"SVRPRIVATE"
        )
        .then(|| Finding::certain("a refused Login")),
        1 => {
            body.le32()?;
            let hash = string(&mut body)?;
            let fits = hash.len() == 32 && hash.iter().all(u8::is_ascii_hexdigit);
            fits.then(|| Finding::certain("an accepted Login with an MD5"))
        }
        _ => None,
    }
}

fn string<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = index(reader.le32()?);
    reader
        .take(length)
        .filter(|text| text.len() <= MAX_NAME.saturating_mul(16))
}

fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.iter().all(|&byte| byte >= b' ' && byte != 0x7f)
}
