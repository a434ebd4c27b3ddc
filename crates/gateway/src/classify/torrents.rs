//! Infohashes where they stand in clear: in each message of a flow, because one flow may be about
//! many torrents. A client has one socket for the DHT and all its peers by uTP, and keeps a
//! connection to a tracker.

use super::bittorrent::HANDSHAKE;
use super::{utp, web_torrent};
use crate::bencode::Dictionary;
use crate::infohash::InfoHash;
use crate::limits::MAX_PACKET_TORRENTS;
use crate::reader::Reader;

/// BEP 15: actions of a UDP tracker.
const ANNOUNCE: u32 = 1;
const SCRAPE: u32 = 2;
/// BEP 15: bytes of an announcement without options.
const ANNOUNCEMENT: usize = 98;
/// A tracker's parameter, and the header of local discovery (BEP 14).
const PARAMETER: &[u8] = b"info_hash=";
const HEADER: &[u8] = b"infohash:";
/// Bytes of the parameter with each byte of its value written as `%XX`.
pub(crate) const LONGEST_PARAMETER: usize = 70;

/// The torrents that a datagram is about: of a peer by uTP, the DHT, a tracker, or local discovery.
/// It belongs to a flow of BitTorrent.
pub(crate) fn in_datagram(bytes: &[u8]) -> Vec<InfoHash> {
    if bytes.first() == Some(&b'd') {
        return dht(bytes).into_iter().collect();
    }
    if bytes.starts_with(b"BT-SEARCH") {
        return local_discovery(bytes);
    }
    let peer = utp::data(bytes).and_then(|data| of_handshake(data.payload));
    peer.map_or_else(|| tracker(bytes), |hash| vec![hash])
}

/// The torrent that a message of WebSocket to a tracker is about, which begins here.
pub(crate) fn in_frame(bytes: &[u8]) -> Option<InfoHash> {
    web_torrent::infohash(bytes)
}

/// The torrents that a client's requests of HTTP to a tracker or web seed are about. They may begin
/// or end anywhere; one that is cut within its infohash is not found.
pub(crate) fn in_requests(bytes: &[u8]) -> Vec<InfoHash> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((_, value)) = split_at(rest, PARAMETER) {
        found.extend(percent_decoded(value));
        rest = value;
        if found.len() >= MAX_PACKET_TORRENTS {
            break;
        }
    }
    found
}

/// The infohash behind the protocol's name and eight reserved bytes (BEP 3).
pub(crate) fn of_handshake(bytes: &[u8]) -> Option<InfoHash> {
    let mut reader = Reader::new(bytes);
    if reader.take(HANDSHAKE.len())? != HANDSHAKE {
        return None;
    }
    reader.take(8)?;
    reader.array::<20>().map(InfoHash::new)
}

/// Of `get_peers` and `announce_peer` (BEP 5).
pub(super) fn dht(bytes: &[u8]) -> Option<InfoHash> {
    let message = Dictionary::parse(bytes)?;
    let hash = message.dictionary(b"a")?.string(b"info_hash")?;
    hash.try_into().ok().map(InfoHash::new)
}

/// Of an announcement or a scrape (BEP 15).
fn tracker(bytes: &[u8]) -> Vec<InfoHash> {
    let mut reader = Reader::new(bytes);
    let action = reader.be64().and_then(|_connection| reader.be32());
    // A number by which the answer is known.
    let transaction = reader.be32();
    let most = match action {
        Some(ANNOUNCE) if bytes.len() >= ANNOUNCEMENT => 1,
        Some(SCRAPE) if reader.rest().len().is_multiple_of(20) => MAX_PACKET_TORRENTS,
        _ => return Vec::new(),
    };
    let hashes = std::iter::from_fn(|| reader.array::<20>().map(InfoHash::new));
    transaction.map_or_else(Vec::new, |_| hashes.take(most).collect())
}

/// Of a search for peers in the own network (BEP 14), which may name several torrents.
pub(super) fn local_discovery(bytes: &[u8]) -> Vec<InfoHash> {
    let lines = bytes.split(|&byte| byte == b'\n');
    let hashes = lines.filter_map(|line| {
        let (name, value) = line.split_at_checked(HEADER.len())?;
        let value = std::str::from_utf8(value).ok()?;
        name.eq_ignore_ascii_case(HEADER)
            .then(|| InfoHash::parse(value).ok())?
    });
    hashes.take(MAX_PACKET_TORRENTS).collect()
}

/// A value of 20 bytes, each by itself or as `%XX`.
pub(super) fn percent_decoded(value: &[u8]) -> Option<InfoHash> {
    let mut bytes = value.iter().copied();
    let mut hash = [0; 20];
    for byte in &mut hash {
        *byte = match bytes.next()? {
            b'%' => {
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                (high << 4) | low
            }
            b'&' | b' ' | b'\r' | b'\n' => return None,
            plain => plain,
        };
    }
    // Longer ones are something else.
    let ends = matches!(
        bytes.next(),
        None | Some(b'&' | b' ' | b'\r' | b'\n' | b'#')
    );
    ends.then(|| InfoHash::new(hash))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// What stands before and behind a text.
fn split_at<'a>(bytes: &'a [u8], text: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(text.len()).position(|part| part == text)?;
    let behind = at.saturating_add(text.len());
    Some((bytes.get(..at)?, bytes.get(behind..)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{in_datagram, in_frame, in_requests, percent_decoded};
    use crate::infohash::InfoHash;

    const HASH: [u8; 20] = *b"\x01a bc\xff%&0123456789 \n";

    fn one() -> Vec<InfoHash> {
        vec![InfoHash::new(HASH)]
    }

    fn encoded() -> String {
        HASH.iter().map(|byte| format!("%{byte:02X}")).collect()
    }

    #[test]
    fn infohashes_are_found_in_each_datagram() {
        let handshake = [
            b"\x13BitTorrent protocol".as_slice(),
            &[0; 8],
            &HASH,
            &[7; 20],
        ]
        .concat();
        let utp = [&[0x01, 0, 0, 7], [0; 16].as_slice(), &handshake].concat();
        assert_eq!(in_datagram(&utp), one());
        let ask = [
            b"d1:ad2:id20:".as_slice(),
            &[4; 20],
            b"9:info_hash20:",
            &HASH,
        ];
        let ask = [ask.concat().as_slice(), b"e1:q9:get_peers1:t2:ab1:y1:qe"].concat();
        assert_eq!(in_datagram(&ask), one());
        let head = [0_u8, 0, 4, 23, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9];
        let announce = [head.as_slice(), &HASH, &[0; 62]].concat();
        assert_eq!(in_datagram(&announce), one());
        let mut scrape = [head.as_slice(), &[5; 20], &HASH].concat();
        scrape[11] = 2;
        assert_eq!(in_datagram(&scrape).last(), one().last());
        let hex = InfoHash::new(HASH);
        let search = format!("BT-SEARCH * HTTP/1.1\r\nPort: 6881\r\nInfoHash: {hex}\r\n\r\n");
        assert_eq!(in_datagram(search.as_bytes()), one());
        assert!(in_datagram(b"d1:rd2:id20:").is_empty());
    }

    #[test]
    fn infohashes_are_found_in_each_request() {
        let two = format!(
            "GET /scrape?info_hash={}&info_hash=%zz HTTP/1.1\r\n\r\nGET /announce?port=1&info_hash={} HTTP/1.1",
            encoded(),
            encoded()
        );
        assert_eq!(in_requests(two.as_bytes()), [one(), one()].concat());
        assert_eq!(percent_decoded(b"0123456789012345678"), None);
        assert_eq!(percent_decoded(b"012345678901234567890"), None);
        assert!(percent_decoded(b"01234567890123456789&port=1").is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (in_datagram(&bytes), in_requests(&bytes), in_frame(&bytes));
        }
    }
}
