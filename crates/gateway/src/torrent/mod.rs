//! Names of torrents, read where they stand in clear.
//!
//! A name stands in the torrent's *info dictionary* (BEP 3), whose hash is the infohash. It
//! crosses a border in two ways: between peers, piece by piece (BEP 9), to a client that began
//! with a magnet link; and in a `.torrent` file, by HTTP. Pieces may come from many peers, so that
//! all connections of a border put them together in one place, [`TorrentNames`].
//!
//! **Who could lie.** Any peer may send any bytes as metadata. So a name counts only where the
//! whole dictionary was seen and hashes to the infohash of the peers' handshake. The dictionary in
//! a `.torrent` file says by its own hash which torrent it belongs to. Names in magnet links are
//! bound to nothing, and are not read. What a torrent's author has written is the author's word
//! all the same: no one proves that the content is what its name says.
//!
//! A [`Follower`] reads one connection for as long as it may bring a name: see there.

mod follower;
mod info;
mod known;
mod order;
mod peer;
mod web;

use serde::{Deserialize, Serialize};

pub(crate) use follower::{Follower, Progress, Transport};
pub(crate) use known::TorrentNames;

use crate::infohash::InfoHash;

/// A torrent and what its author calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorrentName {
    /// The torrent.
    pub infohash: InfoHash,
    /// Its name as the info dictionary has it, whose hash is the infohash: at most
    /// [`MAX_TORRENT_NAME`](crate::limits::MAX_TORRENT_NAME) bytes. Control characters, and those
    /// that turn the direction of text, stand as `\u{..}`.
    pub name: String,
}

/// What the decoders of names make of any bytes, for fuzzing: as connections of peers and of the
/// web, in pieces of any size.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_anything(data: &[u8]) {
    use crate::flow::Direction;
    let names = TorrentNames::default();
    for opening in [
        peer::opening([7; 20]).as_slice(),
        b"GET /a.torrent HTTP/1.1\r\n\r\n",
    ] {
        let client = Direction::FromClient;
        let Some(mut follower) = Follower::begin(&names, Transport::Tcp, client, opening) else {
            continue;
        };
        follower.handle(&names, client, 0, opening);
        let mut numbers = [opening.len(), 0].map(|at| u32::try_from(at).unwrap_or(0));
        let mut rest = data;
        // A head says who speaks, how far ahead, and how much.
        while let Some((&[who, ahead, length], tail)) = rest.split_first_chunk::<3>() {
            let (bytes, tail) =
                tail.split_at(tail.len().min(usize::from(length).saturating_mul(8)));
            rest = tail;
            let (direction, slot) = match who & 1 {
                0 => (client, 0),
                _ => (Direction::FromServer, 1),
            };
            let Some(number) = numbers.get_mut(slot) else {
                return;
            };
            let at = number.wrapping_add(u32::from(ahead & 3));
            let length = u32::try_from(bytes.len()).unwrap_or(0);
            *number = number.wrapping_add(length);
            if follower.handle(&names, direction, at, bytes) != Progress::Going {
                break;
            }
        }
    }
    for found in info::of_file(data) {
        assert!(
            found.name.len() <= crate::limits::MAX_TORRENT_NAME,
            "{found:?}"
        );
        assert!(!found.name.contains(char::is_control), "{found:?}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_conversation_is_read_without_a_fault(
            bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
        ) {
            super::read_anything(&bytes);
        }
    }
}
