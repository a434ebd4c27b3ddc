//! What two peers say to each other, read for pieces of metadata (BEP 3, BEP 9, BEP 10).

use crate::bencode::Dictionary;
use crate::classify::BITTORRENT_HANDSHAKE as HANDSHAKE;
use crate::flow::{Both, Direction};
use crate::infohash::InfoHash;
use crate::limits::{MAX_EXTENSION_MESSAGE, MAX_METADATA};
use crate::reader::{Reader, index};

/// Bytes of the peers' handshake: name, reserved bytes, infohash, peer.
const SHAKE: usize = 68;
/// Bytes of it up to the end of the infohash.
const NAMED: usize = 48;
/// BEP 10: where the bit of extensions is, counted from the handshake's beginning.
const EXTENSIONS_AT: usize = 25;
const EXTENSIONS_BIT: u8 = 0x10;
/// BEP 3, BEP 10: kinds of messages.
const REQUEST: u8 = 6;
const PIECE: u8 = 7;
const EXTENSION: u8 = 20;
/// BEP 9: a message with a piece.
const DATA: u64 = 1;

/// A piece of a torrent's metadata, as a peer has sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MetadataPiece<'a> {
    pub(super) infohash: InfoHash,
    /// Bytes of the whole metadata, by its sender.
    pub(super) size: usize,
    pub(super) number: usize,
    pub(super) bytes: &'a [u8],
}

/// Whether a connection may bring more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    Maybe,
    No,
}

/// What one side has said.
#[derive(Debug, Default)]
struct Side {
    infohash: Option<InfoHash>,
    /// A message, or the peers' handshake, as far as it has come.
    held: Vec<u8>,
    /// Bytes of a message that are passed over.
    over: usize,
    /// What its handshake of extensions has said.
    offer: Option<Offer>,
}

#[derive(Clone, Copy, Debug)]
struct Offer {
    /// By which number messages about metadata are sent to it.
    number: Option<u8>,
    /// It has the metadata.
    has: bool,
}

/// Reads both directions of a connection between peers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    sides: Both<Side>,
}

/// The torrent of a peers' handshake with which a side begins. `None`: it is none, or its sender
/// knows no extensions.
pub(super) fn opens(bytes: &[u8]) -> Option<InfoHash> {
    let named = bytes.get(..NAMED)?;
    let extends = named.get(EXTENSIONS_AT)? & EXTENSIONS_BIT != 0;
    let hash = named.last_chunk::<20>()?;
    (named.starts_with(HANDSHAKE) && extends).then(|| InfoHash::new(*hash))
}

/// A peers' handshake about this torrent.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn opening(hash: [u8; 20]) -> Vec<u8> {
    let reserved = [0, 0, 0, 0, 0, EXTENSIONS_BIT, 0, 0];
    [HANDSHAKE, &reserved, &hash, &[9; 20]].concat()
}

impl Peers {
    /// Bytes that it holds.
    pub(super) fn held(&self) -> usize {
        self.sides.sum(|side| side.held.capacity())
    }

    /// Takes in the next bytes of a direction, and hands on pieces that they complete.
    pub(super) fn read(
        &mut self,
        direction: Direction,
        mut bytes: &[u8],
        take: &mut dyn FnMut(MetadataPiece<'_>),
    ) -> More {
        while !bytes.is_empty() {
            let side = self.sides.of(direction);
            if side.over > 0 {
                let passed = side.over.min(bytes.len());
                side.over = side.over.saturating_sub(passed);
                bytes = bytes.get(passed..).unwrap_or_default();
                continue;
            }
            let Some(needed) = side.needed() else {
                return More::No;
            };
            let part = bytes.len().min(needed.saturating_sub(side.held.len()));
            let (new, rest) = bytes.split_at(part);
            side.held.extend_from_slice(new);
            bytes = rest;
            if side.held.len() < needed {
                return More::Maybe;
            }
            if side.is_whole() {
                // Taken out while the other side is looked at.
                let mut message = std::mem::take(&mut side.held);
                let more = self.message(direction, &message, take);
                message.clear();
                self.sides.of(direction).held = message;
                if more == More::No {
                    return More::No;
                }
            }
        }
        More::Maybe
    }

    /// A whole message, or the peers' handshake.
    fn message(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        take: &mut dyn FnMut(MetadataPiece<'_>),
    ) -> More {
        let other = self.sides.get(direction.other());
        let (known, offered) = (other.infohash, other.offer);
        let side = self.sides.of(direction);
        let Some(infohash) = side.infohash else {
            side.infohash = opens(bytes);
            let same = known.is_none_or(|known| Some(known) == side.infohash);
            return if side.infohash.is_some() && same {
                More::Maybe
            } else {
                More::No
            };
        };
        let Some([number, body @ ..]) = bytes.get(5..) else {
            return More::Maybe;
        };
        if *number == 0 {
            side.offer = Offer::of(body);
            return match (side.offer, offered) {
                (None | Some(Offer { number: None, .. }), _) => More::No,
                // Both have it, and will not ask.
                (Some(offer), Some(offered)) if offer.has && offered.has => More::No,
                _ => More::Maybe,
            };
        }
        let is_about = offered.is_some_and(|offer| offer.number == Some(*number));
        if let Some(piece) = is_about.then(|| piece(infohash, body)).flatten() {
            take(piece);
        }
        More::Maybe
    }
}

impl Offer {
    /// Of a handshake of extensions.
    fn of(body: &[u8]) -> Option<Self> {
        let handshake = Dictionary::parse(body)?;
        let numbers = handshake.dictionary(b"m");
        let number = numbers.and_then(|numbers| numbers.number(b"ut_metadata"));
        let size = handshake.number(b"metadata_size");
        Some(Self {
            // Zero: it does not take such messages.
            number: number.and_then(|number| u8::try_from(number).ok().filter(|&id| id > 0)),
            has: size.is_some_and(|size| size > 0),
        })
    }
}

/// The piece in a message about metadata.
fn piece(infohash: InfoHash, body: &[u8]) -> Option<MetadataPiece<'_>> {
    let (head, bytes) = Dictionary::split(body)?;
    let number = |key| usize::try_from(head.number(key)?).ok();
    let size = number(b"total_size").filter(|&size| size <= MAX_METADATA)?;
    (head.number(b"msg_type")? == DATA).then_some(MetadataPiece {
        infohash,
        size,
        number: number(b"piece")?,
        bytes,
    })
}

impl Side {
    /// How long what is held has to be to say more. `None`: both have the metadata already, because
    /// content is asked for or comes.
    fn needed(&mut self) -> Option<usize> {
        if self.infohash.is_none() {
            return Some(SHAKE);
        }
        let mut reader = Reader::new(&self.held);
        let Some(length) = reader.be32() else {
            return Some(4);
        };
        if length == 0 {
            self.held.clear();
            return Some(4);
        }
        let Some(kind) = reader.u8() else {
            return Some(5);
        };
        let whole = index(length).saturating_add(4);
        match kind {
            REQUEST | PIECE => None,
            EXTENSION if whole <= MAX_EXTENSION_MESSAGE => Some(whole),
            _ => {
                self.over = whole.saturating_sub(self.held.len());
                self.held.clear();
                Some(if self.over > 0 { 0 } else { 4 })
            }
        }
    }

    /// What is held is a whole message, or the peers' handshake.
    fn is_whole(&self) -> bool {
        let length = Reader::new(&self.held).be32();
        match self.infohash {
            None => self.held.len() >= SHAKE,
            Some(_) => {
                let whole = length.map(|length| index(length).saturating_add(4));
                self.held.len() > 4 && whole.is_some_and(|whole| self.held.len() >= whole)
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::{More, Peers, opening, opens};
    use crate::flow::Direction::{self, FromClient, FromServer};
    use crate::infohash::InfoHash;

    const HASH: [u8; 20] = [3; 20];

    pub(in crate::torrent) fn message(number: u8, head: &str, bytes: &[u8]) -> Vec<u8> {
        let body = [&[20, number], head.as_bytes(), bytes].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [length.as_slice(), &body].concat()
    }

    /// Handshakes of a client without metadata and of a peer that has it.
    pub(in crate::torrent) fn shakes(hash: [u8; 20], size: usize) -> [Vec<u8>; 2] {
        let wants = message(0, "d1:md11:ut_metadatai3eee", b"");
        let has = format!("d1:md11:ut_metadatai2ee13:metadata_sizei{size}ee");
        [
            [opening(hash), wants].concat(),
            [opening(hash), message(0, &has, b"")].concat(),
        ]
    }

    pub(in crate::torrent) fn data(size: usize, number: usize, bytes: &[u8]) -> Vec<u8> {
        let head = format!("d8:msg_typei1e5:piecei{number}e10:total_sizei{size}ee");
        message(3, &head, bytes)
    }

    fn read(said: &[(Direction, Vec<u8>)], step: usize) -> (Vec<(usize, usize, Vec<u8>)>, More) {
        let mut peers = Peers::default();
        let mut pieces = Vec::new();
        for (direction, bytes) in said {
            for part in bytes.chunks(step) {
                let more = peers.read(*direction, part, &mut |piece| {
                    assert_eq!(piece.infohash, InfoHash::new(HASH));
                    pieces.push((piece.size, piece.number, piece.bytes.to_vec()));
                });
                if more == More::No {
                    return (pieces, more);
                }
            }
        }
        (pieces, More::Maybe)
    }

    #[test]
    fn pieces_are_read_in_any_segments() {
        let [client, server] = shakes(HASH, 20_000);
        let said = [
            (FromClient, client),
            (FromServer, server),
            // A bitfield, a keep-alive, then what was asked for.
            (FromServer, [0, 0, 0, 3, 5, 1, 2, 0, 0, 0, 0].to_vec()),
            (FromClient, message(2, "d8:msg_typei0e5:piecei1ee", b"")),
            (FromServer, data(20_000, 1, b"the end")),
            // A choke, and a message of another extension.
            (
                FromServer,
                [&[0, 0, 0, 1, 0], message(1, "de", b"").as_slice()].concat(),
            ),
            (FromServer, data(20_000, 0, &[8; 16_384])),
        ];
        let wanted = vec![
            (20_000, 1, b"the end".to_vec()),
            (20_000, 0, vec![8; 16_384]),
        ];
        for step in [1, 7, 68, 1_460, usize::MAX] {
            assert_eq!(read(&said, step), (wanted.clone(), More::Maybe), "{step}");
        }
    }

    #[test]
    fn connections_without_an_exchange_end_early() {
        let [wants, has] = shakes(HASH, 9);
        let no = |said: &[(Direction, Vec<u8>)]| read(said, usize::MAX).1 == More::No;
        // Both have the metadata.
        assert!(no(&[(FromServer, has.clone()), (FromClient, has.clone())]));
        // Content is asked for.
        let request = [0, 0, 0, 13, 6, 0].to_vec();
        assert!(no(&[
            (FromServer, has.clone()),
            (FromClient, [wants.clone(), request].concat())
        ]));
        // One of them does not exchange it.
        let without = [opening(HASH), message(0, "d1:mdee", b"")].concat();
        assert!(no(&[(FromClient, without)]));
        // They speak of different torrents.
        assert!(no(&[
            (FromClient, wants.clone()),
            (FromServer, opening([4; 20]))
        ]));
        assert!(!no(&[(FromClient, wants), (FromServer, has)]));
        let mut plain = opening(HASH);
        plain[25] = 0;
        assert_eq!(opens(&plain), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_fault(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            step in 1_usize..50,
        ) {
            let [client, server] = shakes(HASH, 20_000);
            let said = [(FromClient, client), (FromServer, [server, bytes].concat())];
            let _ = read(&said, step);
        }
    }
}
