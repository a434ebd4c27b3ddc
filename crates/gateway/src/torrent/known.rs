//! Torrents whose names are known, and metadata that is being put together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::TorrentName;
use super::info;
use super::peer::MetadataPiece;
use crate::generations::Generations;
use crate::infohash::InfoHash;
use crate::limits::{
    ASSEMBLY_OVERHEAD, MAX_ASSEMBLIES, MAX_KNOWN_NAMES, MAX_METADATA_HELD, MAX_NAMING_HELD,
    METADATA_PIECE,
};

/// What is known of torrents' names. Clones are the same: pieces of one torrent's metadata come by
/// connections of several queues.
#[derive(Clone, Debug, Default)]
pub(crate) struct TorrentNames {
    known: Arc<Mutex<Known>>,
    /// Bytes that connections hold which are read for names.
    held: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Known {
    names: Generations<InfoHash, Arc<str>>,
    assemblies: HashMap<(InfoHash, usize), Assembly>,
    held: usize,
    /// Pieces that were taken in.
    turn: u64,
}

/// The metadata of a torrent, as long as a peer says that it is. Peers that say otherwise have
/// another one, so that no liar spoils what others send.
#[derive(Debug)]
struct Assembly {
    pieces: Vec<Option<Box<[u8]>>>,
    missing: usize,
    cost: usize,
    /// The turn of its latest piece.
    turn: u64,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            names: Generations::new(MAX_KNOWN_NAMES),
            assemblies: HashMap::new(),
            held: 0,
            turn: 0,
        }
    }
}

impl TorrentNames {
    fn known(&self) -> MutexGuard<'_, Known> {
        // What a panic elsewhere leaves half noted is at worst a name that is missing.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a torrent is called, if that is known.
    pub(crate) fn get(&self, infohash: InfoHash) -> Option<TorrentName> {
        let known = self.known();
        let name = known.names.get(&infohash)?;
        Some(TorrentName {
            infohash,
            name: name.as_ref().to_owned(),
        })
    }

    /// Remembers names.
    pub(crate) fn note(&self, names: &[TorrentName]) {
        let mut known = self.known();
        for TorrentName { infohash, name } in names {
            if known.names.get(infohash).is_none() {
                known.names.insert(*infohash, name.as_str().into());
            }
        }
    }

    /// Takes in a piece, and returns the torrent's names once all of it is there and hashes to its
    /// infohash. Metadata that does not is forgotten: which of its peers has lied is not known.
    pub(super) fn add(&self, piece: &MetadataPiece<'_>) -> Vec<TorrentName> {
        if let Some(name) = self.get(piece.infohash) {
            return vec![name];
        }
        // Hashes are made while others may go on.
        let whole = self.known().add(piece);
        let names = whole.map_or_else(Vec::new, |whole| info::of_metadata(piece.infohash, &whole));
        self.note(&names);
        names
    }

    /// An account of what a connection holds.
    pub(super) fn account(&self) -> Held {
        Held {
            total: Arc::clone(&self.held),
            bytes: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> [usize; 2] {
        [self.known().held, self.held.load(Ordering::Relaxed)]
    }
}

impl Known {
    /// The whole metadata, if this was its last piece.
    fn add(&mut self, piece: &MetadataPiece<'_>) -> Option<Vec<u8>> {
        let MetadataPiece {
            infohash,
            size,
            number,
            bytes,
        } = *piece;
        let at = number.checked_mul(METADATA_PIECE)?;
        let length = size.checked_sub(at)?.min(METADATA_PIECE);
        if length == 0 || length != bytes.len() {
            return None;
        }
        self.turn = self.turn.saturating_add(1);
        let (key, turn) = ((infohash, size), self.turn);
        let assembly = self.assemblies.entry(key).or_insert_with(|| Assembly {
            pieces: vec![None; size.div_ceil(METADATA_PIECE)],
            missing: size.div_ceil(METADATA_PIECE),
            cost: 0,
            turn,
        });
        assembly.turn = turn;
        let slot = assembly.pieces.get_mut(number)?;
        if slot.is_none() {
            *slot = Some(bytes.into());
            assembly.missing = assembly.missing.saturating_sub(1);
        }
        let cost = assembly.cost();
        self.held = self.held.saturating_sub(assembly.cost).saturating_add(cost);
        assembly.cost = cost;
        if assembly.missing == 0 {
            let pieces = self.forget(key)?.pieces;
            return Some(pieces.into_iter().flatten().flatten().collect());
        }
        while self.held > MAX_METADATA_HELD || self.assemblies.len() > MAX_ASSEMBLIES {
            let assemblies = self.assemblies.iter();
            let oldest = assemblies.min_by_key(|(_, assembly)| assembly.turn);
            let oldest = oldest.map(|(key, _)| *key)?;
            self.forget(oldest);
        }
        None
    }

    fn forget(&mut self, key: (InfoHash, usize)) -> Option<Assembly> {
        let assembly = self.assemblies.remove(&key)?;
        self.held = self.held.saturating_sub(assembly.cost);
        Some(assembly)
    }
}

impl Assembly {
    fn cost(&self) -> usize {
        let pieces = self.pieces.iter();
        pieces.fold(ASSEMBLY_OVERHEAD, |sum, piece| {
            let bytes = piece.as_ref().map_or(0, |piece| piece.len());
            sum.saturating_add(bytes).saturating_add(size_of_val(piece))
        })
    }
}

/// What one connection holds; it is given back with this.
#[derive(Debug)]
pub(super) struct Held {
    total: Arc<AtomicUsize>,
    bytes: usize,
}

impl Held {
    /// It holds so much now. `false`: all together hold too much.
    pub(super) fn set(&mut self, bytes: usize) -> bool {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let more = bytes.saturating_sub(before);
        let total = self.total.fetch_add(more, Ordering::Relaxed);
        self.total
            .fetch_sub(before.saturating_sub(bytes), Ordering::Relaxed);
        more == 0 || total.saturating_add(more) <= MAX_NAMING_HELD
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::info::tests::{info, infohash};
    use super::super::peer::MetadataPiece;
    use super::TorrentNames;
    use crate::infohash::InfoHash;
    use crate::limits::{MAX_ASSEMBLIES, MAX_METADATA, MAX_METADATA_HELD, METADATA_PIECE};

    fn pieces(infohash: InfoHash, info: &[u8]) -> Vec<MetadataPiece<'_>> {
        let parts = info.chunks(METADATA_PIECE).enumerate();
        let piece = |(number, bytes)| MetadataPiece {
            infohash,
            size: info.len(),
            number,
            bytes,
        };
        parts.map(piece).collect()
    }

    #[test]
    fn pieces_of_any_peers_make_a_name() {
        let names = TorrentNames::default();
        let info = info("A film", 40_000);
        let hash = infohash(&info);
        let pieces = pieces(hash, &info);
        assert_eq!(pieces.len(), 3);
        assert!(names.add(&pieces[2]).is_empty());
        // One of another size does not disturb, nor one whose length is wrong.
        let other = MetadataPiece {
            size: info.len() + 1,
            ..pieces[0]
        };
        let short = MetadataPiece {
            bytes: b"short",
            ..pieces[1]
        };
        assert!(names.add(&other).is_empty() && names.add(&short).is_empty());
        assert!(names.add(&pieces[0]).is_empty());
        let [one] = names.add(&pieces[1]).try_into().unwrap();
        assert_eq!(one.name, "A film");
        assert_eq!(names.get(hash), Some(one.clone()));
        // It is known from now on.
        assert_eq!(names.add(&pieces[0]), [one]);
    }

    #[test]
    fn metadata_of_another_hash_is_no_name() {
        let names = TorrentNames::default();
        let (lie, truth) = (info("A lie", 40), info("A film", 40));
        let hash = infohash(&truth);
        assert_eq!(lie.len() + 1, truth.len());
        assert!(names.add(&pieces(hash, &lie)[0]).is_empty());
        assert_eq!(names.get(hash), None);
        // The truth comes later, from another peer.
        assert_eq!(names.add(&pieces(hash, &truth)[0])[0].name, "A film");
        assert_eq!(names.held(), [0, 0]);
    }

    #[test]
    fn what_is_put_together_stays_bounded() {
        let names = TorrentNames::default();
        for number in 0..MAX_ASSEMBLIES * 3 {
            let hash = InfoHash::new([u8::try_from(number % 251).unwrap(); 20]);
            names.add(&MetadataPiece {
                infohash: hash,
                size: MAX_METADATA - number,
                number: 0,
                bytes: &[0; METADATA_PIECE],
            });
        }
        assert!(names.held()[0] <= MAX_METADATA_HELD);
        assert!(names.known().assemblies.len() <= MAX_ASSEMBLIES);
    }

    #[test]
    fn what_connections_hold_is_given_back() {
        let names = TorrentNames::default();
        let (mut one, mut other) = (names.account(), names.account());
        assert!(one.set(10) && other.set(5) && one.set(3));
        assert_eq!(names.held()[1], 8);
        assert!(!one.set(usize::MAX / 4));
        // Who needs no more may go on.
        assert!(other.set(5));
        drop(one);
        assert_eq!(names.held()[1], 5);
    }
}
