//! The beginning of one TCP direction, put in order. Where segments overlap the first copy wins.

use crate::limits::{MAX_PENDING, MAX_PREFIX};
use crate::ranges::{Ranges, after};
use crate::reader::index;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Nothing new in it: a repetition or a keep-alive.
    Old,
    /// The prefix grew; the segment's new bytes begin at this offset.
    Grown(usize),
    /// New bytes behind a gap, or more than may be kept: look at the segment by itself.
    Apart,
}

/// The contiguous bytes from the beginning of a direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prefix {
    next: Option<u32>,
    bytes: Vec<u8>,
    /// Segments behind a gap, by their position in `bytes`.
    pending: Ranges,
    /// Bytes at the end that were padding if others come in their place.
    padding: usize,
    closed: bool,
}

impl Prefix {
    /// Notes the SYN of this direction, which takes one sequence number.
    pub(crate) fn open(&mut self, syn: u32) {
        self.next.get_or_insert(syn.wrapping_add(1));
    }

    /// Adds a segment. `room` is how many more bytes may be kept; `cut` says that bytes are missing
    /// at its end.
    pub(crate) fn push(&mut self, sequence: u32, segment: &[u8], room: usize, cut: bool) -> Pushed {
        self.drop_padding(sequence);
        let next = *self.next.get_or_insert(sequence);
        let ahead = sequence.wrapping_sub(next);
        if ahead != 0 && ahead < 1 << 31 {
            return self.keep_pending(sequence, segment, room, cut);
        }
        let behind = usize::try_from(next.wrapping_sub(sequence)).unwrap_or(usize::MAX);
        let Some(new) = segment.get(behind..).filter(|new| !new.is_empty()) else {
            return Pushed::Old;
        };
        let fits = room.min(MAX_PREFIX.saturating_sub(self.bytes.len()));
        self.advance(new.len());
        if self.closed || fits == 0 {
            self.closed = true;
            return Pushed::Apart;
        }
        // Cards and the kernel join segments to more than is kept: the beginning counts.
        self.closed |= fits < new.len();
        let new = new.get(..fits).unwrap_or(new);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(new);
        if let Some(new) = self.bytes.get_mut(at..) {
            self.pending.correct(after(0, at), new);
        }
        self.closed |= cut;
        self.join_pending();
        Pushed::Grown(at)
    }

    /// Adds a few zeros that may be the padding of a frame: other bytes in their place count, and
    /// not the first copy.
    pub(crate) fn push_padding(&mut self, sequence: u32, zeros: &[u8], room: usize) -> Pushed {
        let pushed = self.push(sequence, zeros, room, false);
        if let Pushed::Grown(at) = pushed
            && at.saturating_add(zeros.len()) == self.bytes.len()
        {
            self.padding = zeros.len();
        }
        pushed
    }

    /// Forgets padding, if a segment comes in its place or behind it.
    fn drop_padding(&mut self, sequence: u32) {
        let padding = std::mem::take(&mut self.padding);
        let count = u32::try_from(padding).unwrap_or(0);
        if let Some(next) = self.next
            && padding > 0
            && next.wrapping_sub(sequence) == count
        {
            self.next = Some(sequence);
            self.bytes
                .truncate(self.bytes.len().saturating_sub(padding));
        }
    }

    /// The bytes in order so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Memory held.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len().saturating_add(self.pending.held())
    }

    /// Gives the memory back; later segments are looked at by themselves.
    pub(crate) fn release(&mut self) {
        self.bytes = Vec::new();
        self.pending = Ranges::default();
        self.closed = true;
    }

    fn advance(&mut self, count: usize) {
        let step = u32::try_from(count).unwrap_or(u32::MAX);
        self.next = self.next.map(|next| next.wrapping_add(step));
    }

    fn keep_pending(&mut self, sequence: u32, segment: &[u8], room: usize, cut: bool) -> Pushed {
        let ahead = self.next.map_or(0, |next| sequence.wrapping_sub(next));
        let at = self.bytes.len().saturating_add(index(ahead));
        let reach = at.saturating_add(segment.len());
        if self.closed || cut || reach > MAX_PREFIX {
            return Pushed::Apart;
        }
        match self
            .pending
            .insert(after(0, at), segment, room, MAX_PENDING)
        {
            Some(0) => Pushed::Old,
            _ => Pushed::Apart,
        }
    }

    fn join_pending(&mut self) {
        while let Some((at, segment)) = self.pending.take_due(after(0, self.bytes.len())) {
            let had = self
                .bytes
                .len()
                .saturating_sub(usize::try_from(at).unwrap_or(usize::MAX));
            let new = segment.get(had..).unwrap_or_default();
            if self.closed || new.len() > MAX_PREFIX.saturating_sub(self.bytes.len()) {
                self.closed = true;
                break;
            }
            self.bytes.extend_from_slice(new);
            self.advance(new.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Prefix, Pushed};
    use crate::limits::MAX_PREFIX;

    const ROOM: usize = 1 << 20;

    #[test]
    fn segments_are_ordered_across_the_wrap() {
        let mut prefix = Prefix::default();
        prefix.open(u32::MAX - 1);
        assert_eq!(prefix.push(3, b"efg", ROOM, false), Pushed::Apart);
        assert_eq!(
            prefix.push(u32::MAX, b"abcd", ROOM, false),
            Pushed::Grown(0)
        );
        assert_eq!(prefix.bytes(), b"abcdefg");
        assert_eq!(prefix.push(u32::MAX, b"abcd", ROOM, false), Pushed::Old);
    }

    #[test]
    fn the_first_copy_of_overlapping_bytes_wins() {
        let mut prefix = Prefix::default();
        prefix.open(0);
        prefix.push(1, b"abcd", ROOM, false);
        assert_eq!(prefix.push(3, b"XXef", ROOM, false), Pushed::Grown(4));
        assert_eq!(prefix.bytes(), b"abcdef");
    }

    #[test]
    fn the_first_copy_wins_behind_a_gap_too() {
        let mut prefix = Prefix::default();
        prefix.open(0);
        assert_eq!(prefix.push(5, b"ef", ROOM, false), Pushed::Apart);
        assert_eq!(prefix.push(4, b"dXXgh", ROOM, false), Pushed::Apart);
        assert_eq!(prefix.push(6, b"XX", ROOM, false), Pushed::Old);
        assert_eq!(prefix.push(1, b"abcXX", ROOM, false), Pushed::Grown(0));
        assert_eq!(prefix.bytes(), b"abcdefgh");
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let mut prefix = Prefix::default();
        prefix.push(0, &vec![1; MAX_PREFIX], ROOM, false);
        assert_eq!(
            prefix.push(u32::try_from(MAX_PREFIX).unwrap(), b"x", ROOM, false),
            Pushed::Apart
        );
        assert_eq!(prefix.held(), MAX_PREFIX);
    }

    #[test]
    fn the_beginning_of_a_large_segment_is_kept() {
        let mut prefix = Prefix::default();
        assert_eq!(prefix.push(0, b"abc", 2, false), Pushed::Grown(0));
        assert_eq!((prefix.bytes(), prefix.held()), (&b"ab"[..], 2));
        assert_eq!(prefix.push(3, b"de", ROOM, false), Pushed::Apart);
        let mut joined = Prefix::default();
        let segment = vec![7; 2 * MAX_PREFIX];
        assert_eq!(joined.push(0, &segment, ROOM, false), Pushed::Grown(0));
        assert_eq!(joined.held(), MAX_PREFIX);
        let mut full = Prefix::default();
        assert_eq!(full.push(0, b"abc", 0, false), Pushed::Apart);
    }

    #[test]
    fn zeros_that_are_replaced_were_padding() {
        let mut prefix = Prefix::default();
        prefix.open(0);
        assert_eq!(prefix.push_padding(1, &[0, 0], ROOM), Pushed::Grown(0));
        assert_eq!(prefix.push_padding(1, &[0; 6], ROOM), Pushed::Grown(0));
        assert_eq!(prefix.push(1, b"abc", ROOM, false), Pushed::Grown(0));
        assert_eq!(prefix.bytes(), b"abc");
        assert_eq!(prefix.push_padding(4, &[0, 0], ROOM), Pushed::Grown(3));
        // No other bytes took their position: they were sent.
        assert_eq!(prefix.push(6, b"d", ROOM, false), Pushed::Grown(5));
        assert_eq!(prefix.push(4, b"XX", ROOM, false), Pushed::Old);
        assert_eq!(prefix.bytes(), b"abc\0\0d");
    }

    #[test]
    fn a_cut_segment_ends_the_prefix() {
        let mut prefix = Prefix::default();
        assert_eq!(prefix.push(0, b"ab", ROOM, true), Pushed::Grown(0));
        assert_eq!(prefix.push(2, b"cd", ROOM, false), Pushed::Apart);
        assert_eq!(prefix.push(6, b"gh", ROOM, false), Pushed::Apart);
        assert_eq!((prefix.bytes(), prefix.held()), (&b"ab"[..], 2));
        let mut behind = Prefix::default();
        assert_eq!(behind.push(0, b"a", ROOM, false), Pushed::Grown(0));
        assert_eq!(behind.push(2, b"c", ROOM, true), Pushed::Apart);
        assert_eq!(behind.push(1, b"b", ROOM, false), Pushed::Grown(1));
        assert_eq!(behind.bytes(), b"ab", "what follows the cut is not known");
    }
}
