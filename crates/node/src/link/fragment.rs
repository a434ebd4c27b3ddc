//! Messages that are longer than a path takes: cut here, put together there.

use std::collections::VecDeque;

use super::wire::LinkMessage;
use crate::limits::{FRAGMENTS, REASSEMBLIES, REASSEMBLY_BYTES, SESSION_LENGTH};

/// Bytes of a packet around a fragment: header, tag and CBOR.
const AROUND: usize = 64;

/// Pieces of an encoded message, each of which fits into a packet of `mtu` bytes; none if it would
/// take too many.
pub(super) fn split(encoded: &[u8], id: u32, mtu: usize) -> Option<Vec<LinkMessage>> {
    if encoded.len() > SESSION_LENGTH {
        return None;
    }
    let room = mtu.saturating_sub(AROUND).max(1);
    let count = u8::try_from(encoded.len().div_ceil(room)).ok()?;
    if usize::from(count) > FRAGMENTS {
        return None;
    }
    let piece = |(index, bytes): (u8, &[u8])| LinkMessage::Fragment {
        id,
        index,
        count,
        bytes: bytes.to_vec().into(),
    };
    Some((0..).zip(encoded.chunks(room)).map(piece).collect())
}

/// Bytes of a data packet around its messages: kind, receiver, counter and tag.
pub(super) const AROUND_DATA: usize = 29;

/// True if an encoded message needs no cutting.
pub(super) fn fits(encoded: &[u8], mtu: usize) -> bool {
    encoded.len() + AROUND_DATA <= mtu
}

#[derive(Debug)]
struct Partial {
    id: u32,
    pieces: Vec<Option<Vec<u8>>>,
    /// Bytes of the pieces that are there.
    content: usize,
}

impl Partial {
    fn new(id: u32, count: usize) -> Partial {
        Partial {
            id,
            pieces: vec![None; count],
            content: 0,
        }
    }

    /// Memory that it holds, in bytes: the pieces and the table of them.
    fn bytes(&self) -> usize {
        self.content + self.pieces.len() * size_of::<Option<Vec<u8>>>()
    }
}

/// Messages of one peer of which pieces are missing.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// The oldest first.
    partial: VecDeque<Partial>,
}

impl Reassembly {
    /// Memory that all of them hold, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.partial.iter().map(Partial::bytes).sum()
    }

    /// Drops all of them.
    pub(super) fn clear(&mut self) {
        self.partial.clear();
    }

    /// Takes a piece; gives the message's encoding if that was the last one.
    pub(super) fn take(&mut self, id: u32, part: (u8, u8), bytes: Vec<u8>) -> Option<Vec<u8>> {
        let (index, count) = (usize::from(part.0), usize::from(part.1));
        if count > FRAGMENTS || index >= count {
            return None;
        }
        let known = self.partial.iter().position(|partial| partial.id == id);
        let position = known.unwrap_or_else(|| {
            if self.partial.len() >= REASSEMBLIES {
                self.partial.pop_front();
            }
            self.partial.push_back(Partial::new(id, count));
            self.partial.len() - 1
        });
        let partial = self.partial.get_mut(position)?;
        if partial.pieces.len() != count {
            return None;
        }
        let piece = partial.pieces.get_mut(index)?;
        let before = piece.as_ref().map_or(0, Vec::len);
        partial.content = partial.content.saturating_sub(before) + bytes.len();
        *piece = Some(bytes);
        // No sender cuts a message that is longer than a session takes.
        if partial.content > SESSION_LENGTH {
            self.partial.remove(position);
            return None;
        }
        if partial.pieces.iter().all(Option::is_some) {
            let whole = self.partial.remove(position)?;
            return Some(whole.pieces.into_iter().flatten().flatten().collect());
        }
        while self.bytes() > REASSEMBLY_BYTES {
            self.partial.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(message: &LinkMessage, mtu: usize) -> Vec<(u32, (u8, u8), Vec<u8>)> {
        let cut = split(&message.encode(), 7, mtu).unwrap();
        let piece = |fragment| match fragment {
            LinkMessage::Fragment {
                id,
                index,
                count,
                bytes,
            } => (id, (index, count), bytes.to_vec()),
            other => panic!("{other:?}"),
        };
        cut.into_iter().map(piece).collect()
    }

    proptest! {
        #[test]
        fn a_message_survives_reordering_and_repetition(
            size in 0..40_000_usize, mtu in 1_000..9_000_usize, shift in any::<usize>(),
        ) {
            let message = LinkMessage::Overlay(vec![3; size].into());
            let mut cut = pieces(&message, mtu);
            let middle = shift % cut.len();
            cut.rotate_left(middle);
            let again = cut[0].clone();
            let single = cut.len() == 1;
            if !single {
                cut.insert(1, again);
            }
            let mut reassembly = Reassembly::default();
            let whole: Vec<Vec<u8>> = cut
                .into_iter()
                .filter_map(|(id, part, bytes)| reassembly.take(id, part, bytes))
                .collect();
            prop_assert_eq!(whole, vec![message.encode()]);
            prop_assert!(reassembly.partial.is_empty());
        }

        #[test]
        fn whatever_comes_takes_bounded_room(
            pieces in proptest::collection::vec((any::<u32>(), any::<u8>(), any::<u8>()), 0..400),
        ) {
            let mut reassembly = Reassembly::default();
            for (id, index, count) in pieces {
                reassembly.take(id, (index, count), vec![0; 100]);
                prop_assert!(reassembly.partial.len() <= REASSEMBLIES);
                prop_assert!(reassembly.bytes() <= REASSEMBLY_BYTES);
            }
        }
    }

    /// Pieces may be as long as a packet of TCP: few of them are more than any message has.
    #[test]
    fn first_pieces_hold_bounded_bytes() {
        let mut reassembly = Reassembly::default();
        for id in 0..100 {
            for index in 0..63 {
                let piece = vec![1; SESSION_LENGTH - 100];
                assert_eq!(reassembly.take(id, (index, 64), piece), None);
                assert!(reassembly.bytes() <= REASSEMBLY_BYTES);
            }
        }
        // The newest message still gets through.
        assert_eq!(reassembly.take(200, (0, 2), vec![1; 1_000]), None);
        let whole = reassembly.take(200, (1, 2), vec![2; 1_000]);
        assert_eq!(whole.map(|whole| whole.len()), Some(2_000));
    }

    #[test]
    fn repeated_piece_counts_once() {
        let mut reassembly = Reassembly::default();
        for _ in 0..100 {
            reassembly.take(1, (0, 2), vec![1; 40_000]);
        }
        let whole = reassembly.take(1, (1, 2), vec![2; 20_000]);
        assert_eq!(whole.map(|whole| whole.len()), Some(60_000));
        assert_eq!(reassembly.bytes(), 0);
    }

    #[test]
    fn every_packet_with_a_piece_fits() {
        let message = LinkMessage::Overlay(vec![3; 30_000].into());
        for (id, (index, count), bytes) in pieces(&message, 1_200) {
            let bytes = bytes.into();
            let fragment = LinkMessage::Fragment {
                id,
                index,
                count,
                bytes,
            };
            // Kind, receiver, counter and tag.
            assert!(fragment.encode().len() + 1 + 4 + 8 + 16 <= 1_200);
        }
        assert!(split(&[0; 1 << 20], 1, 1_200).is_none());
    }
}
