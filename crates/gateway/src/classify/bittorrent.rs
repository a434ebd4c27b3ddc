//! BitTorrent: peer protocol (BEP 3), DHT (BEP 5), UDP tracker (BEP 15), local service discovery
//! (BEP 14).

use super::message::{Finding, Memory, Message, text};
use super::torrents;
use crate::bencode::Dictionary;
use crate::reader::{Reader, index};

/// Length byte and protocol name that open a peer connection.
pub(crate) const HANDSHAKE: &[u8] = b"\x13BitTorrent protocol";
/// BEP 15: the fixed number that opens an exchange with a tracker.
const TRACKER_MAGIC: u64 = 0x0417_2710_1980;

/// Byte 19, the protocol's name, 8 reserved bytes, info-hash, peer id.
pub(super) fn handshake(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.take(HANDSHAKE.len())? != HANDSHAKE {
        return None;
    }
    let why = "byte 19 and the protocol's name at 0";
    if let Some(hash) = torrents::of_handshake(message.bytes) {
        let finding = Finding::certain(format!("{why}, then an info-hash"));
        return Some(finding.with_infohash(Some(hash)));
    }
    Some(Finding::likely(why))
}

/// A chain of length-prefixed peer messages: a connection that was picked up midway.
pub(super) fn messages(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let mut telling = 0_u8;
    let mut count = 0_u8;
    while !reader.is_empty() && count < 64 {
        let Some(length) = reader.be32() else { break };
        count = count.saturating_add(1);
        if length == 0 {
            continue;
        }
        let kind = reader.u8()?;
        if !is_peer_message(kind, length) {
            return None;
        }
        // Messages of one fixed length with a number inside; the others fit too much else.
        if matches!((kind, length), (4, 5) | (6 | 8, 13) | (20, 3..)) {
            telling = telling.saturating_add(1);
        }
        let body = index(length.checked_sub(1)?);
        let Some(body) = reader.take(body) else {
            break;
        };
        // One whole message of an extension, with a dictionary of its own words, proves as much.
        if kind == 20
            && let Some(words) = extension(body)
        {
            return Some(Finding::likely(format!("an extension's message: {words}")));
        }
    }
    (telling >= 3).then(|| Finding::likely(format!("{telling} peer messages in a row")))
}

/// BEP 9, BEP 10, BEP 11: the handshake of extensions, metadata, or an exchange of peers.
fn extension(body: &[u8]) -> Option<&'static str> {
    let [_, dictionary @ ..] = body else {
        return None;
    };
    let dictionary = Dictionary::parse(dictionary)?;
    let has = |key: &[u8]| dictionary.get(key).is_some();
    match () {
        () if dictionary.dictionary(b"m").is_some() => Some("their handshake"),
        () if has(b"msg_type") && has(b"piece") => Some("metadata"),
        () if has(b"added") || has(b"added6") || has(b"dropped") => Some("an exchange of peers"),
        () => None,
    }
}

/// BEP 3, BEP 5, BEP 6, BEP 10: message ids with the lengths they may have.
fn is_peer_message(kind: u8, length: u32) -> bool {
    match kind {
        0..=3 | 14 | 15 => length == 1,
        4 | 13 | 17 => length == 5,
        5 => length <= 1 << 20,
        6 | 8 | 16 => length == 13,
        7 => (10..=9 + (1 << 17)).contains(&length),
        9 => length == 3,
        20 => (3..=1 << 20).contains(&length),
        _ => false,
    }
}

/// A bencoded DHT query, response or error.
pub(super) fn dht(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let [b'd', b'1'..=b'9', ..] = message.bytes else {
        return None;
    };
    let Some(dictionary) = Dictionary::parse(message.bytes) else {
        // A truncated dictionary never parses, but these heads announce the node's 20-byte id.
        let known = [b"d1:ad2:id20:".as_slice(), b"d1:rd2:id20:"]
            .iter()
            .any(|head| message.bytes.starts_with(head));
        return (known && message.truncated)
            .then(|| Finding::likely("the beginning of a bencoded message, cut"));
    };
    dictionary.string(b"t")?;
    match dictionary.string(b"y")? {
        b"q" => {
            let name = text(dictionary.string(b"q")?)?;
            let id = dictionary.dictionary(b"a")?.string(b"id")?;
            let hash = torrents::dht(message.bytes);
            (id.len() == 20).then(|| {
                let finding = Finding::certain(format!("bencoded query {name} with a node id"));
                finding.with_infohash(hash)
            })
        }
        b"r" => {
            let id = dictionary.dictionary(b"r")?.string(b"id")?;
            (id.len() == 20).then(|| Finding::certain("bencoded response with a node id"))
        }
        b"e" => dictionary
            .get(b"e")
            .map(|_| Finding::likely("bencoded error")),
        _ => None,
    }
}

/// The request that opens an exchange with a UDP tracker.
pub(super) fn udp_tracker(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let opens = reader.be64()? == TRACKER_MAGIC && reader.be32()? == 0;
    // A transaction id ends the message; BEP 41 allows options after it.
    reader.be32()?;
    opens.then(|| Finding::certain("connect request with the tracker protocol's fixed number"))
}

/// A multicast search for peers of an info-hash.
pub(super) fn local_discovery(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let head = message.bytes.get(..message.bytes.len().min(1_024))?;
    let names_hash = head.split(|&byte| byte == b'\n').any(|line| {
        line.split_at_checked(9)
            .is_some_and(|(name, _)| name.eq_ignore_ascii_case(b"infohash:"))
    });
    let hash = torrents::local_discovery(head).first().copied();
    names_hash.then(|| Finding::certain("BT-SEARCH with an info-hash").with_infohash(hash))
}
