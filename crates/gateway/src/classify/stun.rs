//! STUN (RFC 8489) and TURN (RFC 8656): how calls and WebRTC find a way through NATs, and by which
//! relay.
//!
//! The application often follows from the relay: TURN servers name their realm, and WhatsApp's
//! messages carry attributes of its own.

use super::message::{Finding, Memory, Message, text};
use crate::reader::Reader;

/// The fixed number behind type and length; RFC 8489 §5.
const COOKIE: u32 = 0x2112_a442;
/// The attribute that names the realm of a TURN server; RFC 8489 §14.9.
const REALM: u16 = 0x0014;
/// Attributes that no document assigns and that WhatsApp's relays understand.
const WHATSAPPS: std::ops::RangeInclusive<u16> = 0x4000..=0x4007;

/// What Microsoft's clients say of their version; [MS-TURN] §2.2.2.15.
const MICROSOFTS_VERSION: u16 = 0x8070;
/// Numbers of channels; RFC 8656 §12.
const CHANNELS: std::ops::RangeInclusive<u16> = 0x4000..=0x4fff;
/// Packets that may be lost between two, and those that have to follow each other.
const MOST_LOST: u64 = 16;
const ENOUGH: u8 = 3;

/// A message whose attributes fill it exactly.
struct Parts<'a> {
    kind: u16,
    attributes: Vec<(u16, &'a [u8])>,
}

/// Takes a message apart. Bytes behind the announced length are no STUN message, so a datagram has
/// to end there.
fn parts(bytes: &[u8]) -> Option<Parts<'_>> {
    let mut reader = Reader::new(bytes);
    let kind = reader.be16()?;
    let length = usize::from(reader.be16()?);
    let cookie = reader.be32()?;
    reader.take(12)?;
    if kind & 0xc000 != 0 || cookie != COOKIE || reader.rest().len() != length {
        return None;
    }
    let mut attributes = Vec::new();
    while !reader.is_empty() {
        let attribute = reader.be16()?;
        let length = usize::from(reader.be16()?);
        attributes.push((attribute, reader.take(length)?));
        // WhatsApp leaves out the padding of the last one.
        let padding = length.next_multiple_of(4).saturating_sub(length);
        if reader.take(padding).is_none() && !reader.is_empty() {
            return None;
        }
    }
    Some(Parts { kind, attributes })
}

/// Method and class, which share the bits of the type; RFC 8489 §5.
fn named(kind: u16) -> String {
    let method = match (kind & 0x000f) | ((kind & 0x00e0) >> 1) | ((kind & 0x3e00) >> 2) {
        0x001 => "Binding",
        0x003 => "Allocate",
        0x004 => "Refresh",
        0x006 => "Send",
        0x007 => "Data",
        0x008 => "CreatePermission",
        0x009 => "ChannelBind",
        _ => "an unknown method's",
    };
    let class = match kind & 0x0110 {
        0x0000 => "request",
        0x0010 => "indication",
        0x0100 => "answer",
        _ => "error",
    };
    format!("{method} {class}")
}

/// A whole message. Many conversations only begin with one, so a better name may follow.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let parts = parts(message.bytes)?;
    let realm = parts.attributes.iter().find(|(kind, _)| *kind == REALM);
    let realm = realm.and_then(|(_, realm)| text(realm));
    Some(Finding::likely(named(parts.kind)).with_host(realm))
}

/// A whole message with an attribute of WhatsApp's own.
pub(super) fn whatsapp(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let parts = parts(message.bytes)?;
    let own = |(kind, _): &&(u16, &[u8])| WHATSAPPS.contains(kind);
    let (attribute, _) = parts.attributes.iter().find(own)?;
    let why = format!("{}, with attribute {attribute:#06x}", named(parts.kind));
    Some(Finding::likely(why))
}

/// A whole message with the version of a client of Microsoft's: Teams, or Skype for Business.
pub(super) fn teams(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let parts = parts(message.bytes)?;
    let version = |(kind, value): &&(u16, &[u8])| {
        *kind == MICROSOFTS_VERSION && matches!(value, [0, 0, 0, 1..=255])
    };
    let (_, version) = parts.attributes.iter().find(version)?;
    let number = version.last()?;
    let why = format!(
        "{}, of a client of Microsoft's, version {number}",
        named(parts.kind)
    );
    Some(Finding::likely(why))
}

/// Data of one channel of a relay, which is RTP and numbered on: a call that was joined late.
pub(super) fn channel(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let channel = reader.be16()?;
    let length = usize::from(reader.be16()?);
    // Over UDP the padding to four bytes may be there or not (RFC 8656 §12.5).
    let padding = reader.rest().len().checked_sub(length)?;
    let rtp_first = reader.u8()?;
    reader.u8()?;
    let number = reader.be16()?;
    let fits = CHANNELS.contains(&channel) && padding < 4 && length > 12;
    if !fits || rtp_first >> 6 != 2 {
        return None;
    }
    let steps = memory.numbers().count(
        "turn",
        message.direction,
        channel.into(),
        number.into(),
        MOST_LOST,
    );
    (steps >= ENOUGH).then(|| {
        Finding::likely(format!(
            "channel {channel:#06x} of a relay, with packets of RTP, numbered on"
        ))
    })
}
