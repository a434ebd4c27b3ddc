//! What a conversation said last, put together from its segments: an announcement may be split, and
//! come in any order.

use super::message::{Announced, Listener};
use crate::flow::Direction;
use crate::limits::{MAX_LINES_HELD, MAX_LINES_PIECES};
use crate::packet::Packet;
use crate::reader::{index, length32};

/// Bytes from a sequence number on.
#[derive(Clone, Debug)]
struct Piece {
    from: u32,
    bytes: Vec<u8>,
}

impl Piece {
    fn end(&self) -> u32 {
        self.from.wrapping_add(length32(self.bytes.len()))
    }

    /// Where in this piece a sequence number lies; `None` if outside of it.
    fn offset_of(&self, sequence: u32) -> Option<usize> {
        let offset = index(sequence.wrapping_sub(self.from));
        (offset <= self.bytes.len()).then_some(offset)
    }
}

/// A conversation that may announce others.
#[derive(Clone, Debug)]
pub(super) struct Listening {
    listener: Listener,
    lines: Lines,
}

impl Listening {
    pub(super) fn to(listener: Listener) -> Self {
        Self {
            listener,
            lines: Lines::default(),
        }
    }

    /// It is of another kind than it seemed.
    pub(super) fn change(&mut self, listener: Listener) {
        self.listener = listener;
    }

    /// Memory held.
    pub(super) fn held(&self) -> usize {
        self.lines.held()
    }

    /// What a packet announces, by itself or together with those that it adjoins.
    pub(super) fn hear(
        &mut self,
        direction: Direction,
        packet: &Packet<'_>,
        room: usize,
    ) -> Vec<Announced> {
        let payload = packet.payload;
        let mut found = Vec::new();
        let mut rest = all(self.listener, payload, &mut found);
        let Some(tcp) = packet.tcp else {
            return found;
        };
        if rest.is_none() {
            let joined = self.lines.take_in(direction, tcp.sequence, payload, room);
            rest = joined.and_then(|joined| all(self.listener, joined, &mut found));
        }
        if let Some(rest) = rest {
            // What was taken is not taken again; the next one may have begun behind it.
            self.lines.forget(direction);
            let taken = payload.len().saturating_sub(rest);
            let begun = payload.get(taken..).unwrap_or_default();
            let sequence = tcp.sequence.wrapping_add(length32(taken));
            self.lines.take_in(direction, sequence, begun, room);
        }
        found
    }
}

/// Adds all whole announcements of these bytes, and returns how many bytes follow the last one;
/// `None`: there is none.
fn all(listener: Listener, bytes: &[u8], found: &mut Vec<Announced>) -> Option<usize> {
    let mut rest = bytes;
    while let Some((end, announced)) = listener(rest) {
        found.extend(announced);
        // Each reaches further than the one before.
        rest = rest.get(end.max(1)..).unwrap_or_default();
    }
    (rest.len() < bytes.len()).then_some(rest.len())
}

/// The last bytes of both directions.
#[derive(Clone, Debug, Default)]
struct Lines {
    pieces: [Vec<Piece>; 2],
}

impl Lines {
    /// Memory held.
    fn held(&self) -> usize {
        self.pieces
            .iter()
            .flatten()
            .fold(0, |sum, piece| sum.saturating_add(piece.bytes.len()))
    }

    /// Gives up what is kept of a direction: what it announced was taken.
    fn forget(&mut self, direction: Direction) {
        if let Some(pieces) = self.pieces.get_mut(direction.slot()) {
            pieces.clear();
        }
    }

    /// Adds a segment; returns it with what adjoins it, if anything does. Of bytes that come twice
    /// the first copy counts.
    fn take_in(
        &mut self,
        direction: Direction,
        sequence: u32,
        segment: &[u8],
        room: usize,
    ) -> Option<&[u8]> {
        let pieces = self.pieces.get_mut(direction.slot())?;
        if segment.is_empty() || segment.len() > room {
            return None;
        }
        let mut new = Piece {
            from: sequence,
            bytes: segment.to_vec(),
        };
        let mut joined = false;
        for old in std::mem::take(pieces) {
            if let Some(offset) = old.offset_of(new.from) {
                // It goes on where the old one ends, or repeats bytes of it.
                let known = old.bytes.len().saturating_sub(offset);
                let more = new.bytes.get(known..).unwrap_or_default();
                joined = true;
                new = Piece {
                    from: old.from,
                    bytes: [old.bytes.as_slice(), more].concat(),
                };
            } else if let Some(offset) = new.offset_of(old.from) {
                let behind = old
                    .offset_of(new.end())
                    .is_none()
                    .then(|| new.bytes.get(offset.saturating_add(old.bytes.len())..))
                    .flatten();
                let before = new.bytes.get(..offset).unwrap_or_default();
                joined = true;
                new.bytes = [before, &old.bytes, behind.unwrap_or_default()].concat();
            } else {
                pieces.push(old);
            }
        }
        // The oldest goes first.
        if pieces.len() >= MAX_LINES_PIECES {
            pieces.remove(0);
        }
        let over = new.bytes.len().saturating_sub(MAX_LINES_HELD);
        new.bytes.drain(..over);
        new.from = new.from.wrapping_add(length32(over));
        pieces.push(new);
        let last = pieces.last().filter(|_| joined)?;
        Some(&last.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::flow::Direction::FromClient;
    use crate::limits::{MAX_LINES_HELD, MAX_LINES_PIECES};

    const ROOM: usize = 1 << 20;

    fn last(segments: &[(u32, &[u8])]) -> Option<Vec<u8>> {
        let mut lines = Lines::default();
        let mut taken = None;
        for (sequence, segment) in segments {
            taken = lines
                .take_in(FromClient, *sequence, segment, ROOM)
                .map(<[u8]>::to_vec);
        }
        taken
    }

    #[test]
    fn segments_join_in_any_order_across_the_wrap() {
        let [a, b, c] = [u32::MAX - 1, 1, 4];
        for order in [
            [(a, &b"abc"[..]), (b, b"def"), (c, b"ghi")],
            [(a, b"abc"), (c, b"ghi"), (b, b"def")],
            [(b, b"def"), (a, b"abc"), (c, b"ghi")],
            [(c, b"ghi"), (b, b"def"), (a, b"abc")],
        ] {
            assert_eq!(last(&order).unwrap(), b"abcdefghi");
        }
        assert_eq!(last(&[(1, b"alone")]), None);
        assert_eq!(last(&[(1, b"far"), (100, b"away")]), None);
    }

    #[test]
    fn the_first_copy_counts() {
        assert_eq!(last(&[(1, b"abc"), (1, b"XYZ")]).unwrap(), b"abc");
        assert_eq!(last(&[(1, b"abc"), (2, b"XYde")]).unwrap(), b"abcde");
        assert_eq!(last(&[(3, b"cd"), (1, b"abXY")]).unwrap(), b"abcd");
        assert_eq!(last(&[(3, b"cd"), (1, b"abXYef")]).unwrap(), b"abcdef");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut lines = Lines::default();
        for number in 0..100_u32 {
            let _ = lines.take_in(FromClient, number * 1_000, &[1; 999], ROOM);
            let _ = lines.take_in(FromClient, number * 1_000, &[1; 1_000], ROOM);
        }
        assert!(lines.held() <= MAX_LINES_HELD * MAX_LINES_PIECES);
        let _ = lines.take_in(FromClient, 0, &[1; 10], 9);
        lines.forget(FromClient);
        assert_eq!(lines.held(), 0);
        assert_eq!(lines.take_in(FromClient, 0, &[1; 10], 9), None);
        assert_eq!(lines.held(), 0);
    }
}
