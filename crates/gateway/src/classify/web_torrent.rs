//! WebTorrent's trackers: announcements in JSON over WebSocket (RFC 6455).
//!
//! Source: the documentation of bittorrent-tracker. Between peers WebTorrent is WebRTC, which shows
//! nothing of it.

use super::message::{Finding, Memory, Message};
use crate::infohash::InfoHash;
use crate::limits::MAX_TEXT_HEAD;
use crate::reader::{Reader, index};

/// A text frame with `info_hash` and an action of a tracker; a client's is masked.
pub(super) fn frame(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let text = head(message.bytes)?;
    let action = ["\"announce\"", "\"scrape\""]
        .iter()
        .any(|action| text.contains(action));
    let fits = text.contains("\"info_hash\"") && text.contains("\"action\"") && action;
    fits.then(|| {
        Finding::certain("a WebSocket message with an action and an info-hash")
            .with_infohash(of_json(&text))
            .about_many()
    })
}

/// The torrent that a message is about.
pub(super) fn infohash(bytes: &[u8]) -> Option<InfoHash> {
    of_json(&head(bytes)?)
}

/// The first value of `info_hash`: a text of 20 signs, each of which stands for a byte.
fn of_json(text: &str) -> Option<InfoHash> {
    let (_, behind) = text.split_once("\"info_hash\"")?;
    let value = behind.trim_start().strip_prefix(':')?.trim_start();
    let mut signs = value.strip_prefix('"')?.chars();
    let mut hash = [0; 20];
    for byte in &mut hash {
        let sign = match signs.next()? {
            '"' => return None,
            '\\' => match signs.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let digits: String = signs.by_ref().take(4).collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                other => other,
            },
            plain => plain,
        };
        *byte = u8::try_from(u32::from(sign)).ok()?;
    }
    (signs.next() == Some('"')).then(|| InfoHash::new(hash))
}

/// The beginning of a text message, unmasked.
fn head(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader::new(bytes);
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
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::infohash;

    #[test]
    fn infohash_is_read_from_masked_json() {
        let json =
            "{\"action\":\"announce\",\"info_hash\":\"\\u0001\\n\\\"\u{ff}\u{80}abcdefghijklmno\"}";
        let mask = [9, 8, 7, 6];
        let length = u8::try_from(json.len()).unwrap();
        let masked = json
            .bytes()
            .zip(mask.iter().cycle())
            .map(|(byte, key)| byte ^ key);
        let frame: Vec<u8> = [0x81, 0x80 | length]
            .into_iter()
            .chain(mask)
            .chain(masked)
            .collect();
        let hash = infohash(&frame).unwrap();
        assert_eq!(hash.bytes(), b"\x01\n\"\xff\x80abcdefghijklmno");
    }
}
