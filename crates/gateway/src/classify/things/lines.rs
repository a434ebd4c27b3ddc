//! What devices and programs say in the open: Dropbox in the local network, RTMP, measurements of
//! lines, Zabbix.

use crate::classify::message::{Finding, Memory, Message, text_lines};
use crate::reader::Reader;

/// Keys of Dropbox's announcement.
const KEYS: [&[u8]; 3] = [b"\"host_int\":", b"\"displayname\":", b"\"namespaces\":"];
/// Bytes of RTMP's handshake: a version, a time, zeros, random bytes.
const HANDSHAKE: usize = 1_537;
/// Digits of a UUID's parts.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];

/// An object of JSON with its keys.
pub(super) fn dropbox(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let bytes = message.bytes;
    let has = |key: &&[u8]| bytes.windows(key.len()).any(|part| part == *key);
    let begins = bytes.starts_with(b"{\"") || bytes.starts_with(b"{ ");
    (begins && bytes.ends_with(b"}") && KEYS.iter().all(has))
        .then(|| Finding::certain("an announcement with its keys"))
}

/// The first message of each side.
pub(super) fn rtmp(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let random = message.bytes.get(9..HANDSHAKE)?;
    let zeros = message.bytes.get(5..9)? == [0; 4];
    if message.bytes.first() != Some(&3) || !zeros || random.iter().all(|&byte| byte == 0) {
        return None;
    }
    memory.numbers().ask("rtmp", message.direction, 3);
    let both = memory.numbers().answers("rtmp", message.direction, 3);
    Some(if both {
        Finding::certain("both sides' handshakes")
    } else {
        Finding::likely("a handshake of its length")
    })
}

/// `HI` and a UUID.
pub(super) fn speedtest(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let line = text_lines(message.bytes).next()?;
    let text = line.strip_prefix("HI ")?;
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    (lengths == UUID && parts.iter().all(digits))
        .then(|| Finding::certain("a greeting with a UUID"))
}

/// `ZBXD`, flags, a length, and the length before it was packed.
pub(super) fn zabbix(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes.strip_prefix(b"ZBXD")?);
    let flags = reader.u8()?;
    let length = reader.le32()?;
    let unpacked = reader.le32()?;
    // What is packed begins as zlib does, and what is not has no second length.
    let fits = if flags & 2 == 0 {
        unpacked == 0
    } else {
        reader.u8()? == 0x78
    };
    ((1..8).contains(&flags) && length < 1 << 30 && fits)
        .then(|| Finding::certain("a header with flags and lengths"))
}
