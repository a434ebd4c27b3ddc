//! A file in pieces, and sets of them.

use bao_tree::{ChunkNum, ChunkRanges};

use crate::limits::{PIECE_LEAST, PIECE_MOST, PIECES, SHARED_SMALLEST};

/// How a file is divided. Both ends divide by its size alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transfer) struct Division {
    size: u64,
    /// Bytes of each piece but the last one: a power of two.
    piece: u64,
}

impl Division {
    /// None for a file that is too small or too large to be distributed.
    pub(in crate::transfer) fn of(size: u64) -> Option<Division> {
        let piece = size.div_ceil(PIECES).max(PIECE_LEAST);
        let piece = piece.checked_next_power_of_two()?;
        let fits = size >= SHARED_SMALLEST && piece <= PIECE_MOST;
        fits.then_some(Division { size, piece })
    }

    pub(super) fn count(self) -> u32 {
        u32::try_from(self.size.div_ceil(self.piece)).unwrap_or(u32::MAX)
    }

    /// Bytes of the piece with this number.
    pub(super) fn bytes(self, piece: u32) -> u64 {
        let start = u64::from(piece).saturating_mul(self.piece).min(self.size);
        self.size.saturating_sub(start).min(self.piece)
    }

    /// Bytes that a piece takes at most on the wire, with the hashes that prove it.
    pub(super) fn longest(self) -> u64 {
        // A pair of hashes for each group of 16 KiB, and for each level above.
        self.piece + (self.piece / (16 << 10) + 64) * 64
    }

    pub(in crate::transfer) fn range(self, piece: u32) -> ChunkRanges {
        let start = u64::from(piece).saturating_mul(self.piece);
        let end = start.saturating_add(self.bytes(piece));
        ChunkRanges::from(ChunkNum::full_chunks(start)..ChunkNum::chunks(end))
    }

    /// The pieces that lack nothing, if `missing` is what is missing.
    pub(in crate::transfer) fn without(self, missing: &ChunkRanges) -> Pieces {
        let mut there = Pieces::none(self.count());
        for piece in 0..self.count() {
            let lacks = !(&self.range(piece) & missing).is_empty();
            if !lacks {
                there.add(piece);
            }
        }
        there
    }

    /// Bytes of these pieces.
    pub(super) fn bytes_of(self, pieces: &Pieces) -> u64 {
        pieces.iter().map(|piece| self.bytes(piece)).sum()
    }
}

/// Some of the pieces of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::transfer) struct Pieces {
    count: u32,
    bits: Vec<u64>,
}

impl Pieces {
    pub(super) fn none(count: u32) -> Pieces {
        let words = usize::try_from(count.div_ceil(64)).unwrap_or(0);
        Pieces {
            count,
            bits: vec![0; words],
        }
    }

    pub(super) fn all(count: u32) -> Pieces {
        let mut pieces = Pieces::none(count);
        for piece in 0..count {
            pieces.add(piece);
        }
        pieces
    }

    /// Those of these that are in none of the others.
    pub(super) fn without<const N: usize>(&self, others: [&Pieces; N]) -> Pieces {
        let mut left = self.clone();
        for other in others {
            for (bits, gone) in left.bits.iter_mut().zip(&other.bits) {
                *bits &= !gone;
            }
        }
        left
    }

    fn word(piece: u32) -> (usize, u64) {
        (
            usize::try_from(piece / 64).unwrap_or(usize::MAX),
            1 << (piece % 64),
        )
    }

    pub(super) fn contains(&self, piece: u32) -> bool {
        let (word, bit) = Pieces::word(piece);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Whether it was not there. What is no piece of the file is not added.
    pub(super) fn add(&mut self, piece: u32) -> bool {
        let (word, bit) = Pieces::word(piece);
        let Some(bits) = self.bits.get_mut(word).filter(|_| piece < self.count) else {
            return false;
        };
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }

    pub(super) fn remove(&mut self, piece: u32) {
        let (word, bit) = Pieces::word(piece);
        if let Some(bits) = self.bits.get_mut(word) {
            *bits &= !bit;
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.bits.iter().map(|bits| bits.count_ones()).sum()
    }

    pub(super) fn is_all(&self) -> bool {
        self.len() == self.count
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..)
            .step_by(64)
            .zip(&self.bits)
            .flat_map(|(first, word)| {
                let mut left = *word;
                std::iter::from_fn(move || {
                    let bit = left.trailing_zeros();
                    left &= left.checked_sub(1)?;
                    Some(first + bit)
                })
            })
    }

    /// Numbers at which they begin and end.
    pub(in crate::transfer) fn to_wire(&self) -> Vec<u32> {
        let mut bounds = Vec::new();
        let mut inside = false;
        for piece in 0..=self.count {
            if self.contains(piece) != inside {
                bounds.push(piece);
                inside = !inside;
            }
        }
        bounds
    }

    /// Pieces of a file of `count` from the wire; none if these are not.
    pub(in crate::transfer) fn from_wire(bounds: &[u32], count: u32) -> Option<Pieces> {
        let in_order = bounds.is_sorted_by(|a, b| a < b);
        if !in_order
            || !bounds.len().is_multiple_of(2)
            || bounds.last().is_some_and(|end| *end > count)
        {
            return None;
        }
        let mut pieces = Pieces::none(count);
        for bounds in bounds.chunks_exact(2) {
            if let [start, end] = bounds {
                for piece in *start..*end {
                    pieces.add(piece);
                }
            }
        }
        Some(pieces)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_survive_a_round_trip(chosen in proptest::collection::vec(any::<bool>(), 1..300)) {
            let count = u32::try_from(chosen.len()).unwrap();
            let mut pieces = Pieces::none(count);
            for (piece, _) in (0..).zip(&chosen).filter(|(_, chosen)| **chosen) {
                prop_assert!(pieces.add(piece));
            }
            prop_assert_eq!(Pieces::from_wire(&pieces.to_wire(), count), Some(pieces));
        }

        #[test]
        fn any_bounds_do_no_harm(bounds in proptest::collection::vec(0u32..400, 0..20)) {
            if let Some(pieces) = Pieces::from_wire(&bounds, 300) {
                prop_assert!(pieces.iter().all(|piece| piece < 300));
            }
        }

        #[test]
        fn pieces_make_up_the_file(size in SHARED_SMALLEST..(40 << 30)) {
            match Division::of(size) {
                Some(division) => {
                    let sum: u64 = (0..division.count()).map(|piece| division.bytes(piece)).sum();
                    prop_assert_eq!(sum, size);
                    prop_assert!(u64::from(division.count()) <= PIECES);
                }
                None => prop_assert!(size > PIECES * PIECE_MOST),
            }
        }
    }

    #[test]
    fn pieces_without_gaps_are_there() {
        let division = Division::of(1_000_000 + (1 << 20)).unwrap();
        let missing = ChunkRanges::from(ChunkNum(300)..ChunkNum(301));
        let there = division.without(&missing);
        assert_eq!(there.iter().collect::<Vec<u32>>(), [0, 2, 3, 4, 5, 6, 7]);
        assert!(division.without(&ChunkRanges::empty()).is_all());
        assert_eq!(division.without(&ChunkRanges::all()).len(), 0);
    }
}
