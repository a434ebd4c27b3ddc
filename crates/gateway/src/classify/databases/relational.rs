//! MySQL, PostgreSQL, Microsoft SQL Server (TDS): how their sessions open.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// MySQL's protocol of servers since 3.21 ("Protocol::HandshakeV10").
const PROTOCOL_10: u8 = 10;
/// PostgreSQL's requests in place of a version: TLS, GSSAPI, cancelling ("Message Formats").
const REQUESTS: [u32; 3] = [80_877_103, 80_877_104, 80_877_102];
const VERSION_3: u32 = 196_608;
/// TDS's kinds ([MS-TDS] §2.2.3.1.1): login, opening, and the answers to both.
const LOGIN: u8 = 16;
const OPENING: u8 = 18;
const ANSWER: u8 = 4;

/// A server's greeting: version, a number, eight random bytes, a zero, in a packet of its length.
pub(super) fn mysql(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let [low, middle, high] = reader.array()?;
    let length = index(u32::from_le_bytes([low, middle, high, 0]));
    let number = reader.u8()?;
    let mut reader = Reader::new(reader.take(length)?);
    if length > 511 || number != 0 || reader.u8()? != PROTOCOL_10 {
        return None;
    }
    let end = reader.rest().iter().take(64).position(|&byte| byte == 0)?;
    let version = reader.take(end)?;
    // The zero, a number, random bytes.
    reader.take(1)?;
    reader.take(4)?;
    let random = reader.take(8)?;
    let printable = version.iter().all(u8::is_ascii_graphic) && version.contains(&b'.');
    let digit = version.first()?.is_ascii_digit();
    (printable && digit && random.iter().all(|&byte| byte != 0) && reader.u8()? == 0).then(|| {
        Finding::certain(format!(
            "a greeting of {}",
            String::from_utf8_lossy(version)
        ))
    })
}

/// A client's opening: a length, a version, names and values that fill it; or a request of eight
/// bytes.
pub(super) fn postgresql(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.be32()?);
    let version = reader.be32()?;
    let fits = length == 8 || (length == 16 && version == REQUESTS[2]);
    if fits && REQUESTS.contains(&version) {
        return Some(Finding::certain("a request in place of a version"));
    }
    let texts = reader.take(length.checked_sub(8)?)?;
    let named = texts.starts_with(b"user\0") || texts.windows(6).any(|part| part == b"\0user\0");
    (version == VERSION_3 && named && texts.ends_with(&[0, 0]))
        .then(|| Finding::certain("version 3 with a user's name"))
}

/// A packet of its length that opens a session: a list of offsets, or a login with its length.
pub(super) fn tds(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let kind = reader.u8()?;
    let status = reader.u8()?;
    let length = usize::from(reader.be16()?);
    reader.be16()?;
    let [_, window] = reader.array()?;
    let body = reader.take(length.checked_sub(8)?)?;
    if status > 1 || window != 0 {
        return None;
    }
    // Each kind has offsets or lengths in it that have to fit.
    let opens = match kind {
        OPENING | ANSWER => is_opening(body)?,
        LOGIN => {
            let mut login = Reader::new(body);
            let whole = index(login.le32()?);
            let version = login.le32()?;
            whole >= body.len() && version >> 28 == 7
        }
        _ => false,
    };
    opens.then(|| Finding::certain("a packet that opens a session"))
}

/// Options from 0 on with an offset and a length each, then 255; the first, a version of six bytes,
/// stands right behind them.
fn is_opening(body: &[u8]) -> Option<bool> {
    let mut reader = Reader::new(body);
    let (mut first, mut count) = (None, 0_usize);
    loop {
        let option = reader.u8()?;
        if option == 255 {
            break;
        }
        let place = usize::from(reader.be16()?);
        let length = usize::from(reader.be16()?);
        let within = place.checked_add(length)? <= body.len();
        if usize::from(option) < count || option > 7 || !within {
            return None;
        }
        count = count.saturating_add(1);
        first.get_or_insert((option, place, length));
    }
    let behind = count.saturating_mul(5).saturating_add(1);
    Some(first == Some((0, behind, 6)))
}
