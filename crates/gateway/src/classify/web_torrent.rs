//! WebTorrent's trackers: announcements in JSON over WebSocket (RFC 6455).
//!
//! Source: the documentation of bittorrent-tracker. Between peers WebTorrent is WebRTC, which shows
//! nothing of it.

use super::message::{Finding, Memory, Message};
use crate::limits::MAX_TEXT_HEAD;
use crate::reader::{Reader, index};

/// A text frame with `info_hash` and an action of a tracker; a client's is masked.
pub(super) fn frame(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    // A whole message, text.
    if reader.u8()? != 0x81 {
        return None;
    }
    let second = reader.u8()?;
    let length = match second & 0x7f {
        126 => usize::from(reader.be16()?),
        127 => index(u32::try_from(reader.be64()?).ok()?),
        short => usize::from(short),
    };
    let mask = if second & 0x80 == 0 {
        [0; 4]
    } else {
        reader.array::<4>()?
    };
    let head = reader.rest().len().min(length).min(MAX_TEXT_HEAD);
    let body = reader.take(head)?;
    let opens = body.first().zip(mask.first()).map(|(byte, key)| byte ^ key);
    if opens != Some(b'{') {
        return None;
    }
    let text: Vec<u8> = body
        .iter()
        .zip(mask.iter().cycle())
        .map(|(byte, key)| byte ^ key)
        .collect();
    let text = String::from_utf8_lossy(&text);
    let action = ["\"announce\"", "\"scrape\""]
        .iter()
        .any(|action| text.contains(action));
    let fits = text.contains("\"info_hash\"") && text.contains("\"action\"") && action;
    fits.then(|| Finding::certain("a WebSocket message with an action and an info-hash"))
}
