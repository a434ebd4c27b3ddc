//! One direction of a terminated connection: what was read at one end and has not left by the
//! other.
//!
//! Its bytes are numbered as TCP would number them, so that the gateway follows the connection as
//! it follows any other. They leave in their order: one piece that waits keeps those behind it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::{PART_OVERHEAD, TERMINATED_AGAIN, TERMINATED_PENDING, TERMINATED_TRIES};
use crate::reader::length32;
use crate::verdict::Offload;

/// What the gateway says of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceVerdict {
    /// It may leave.
    Passes,
    /// It waits until it is released.
    Waits,
    /// It is not taken: TCP's sender would repeat it, and so it is offered again.
    Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Waits,
    Again { at: Duration, tries: u8 },
}

/// Bytes of one reading, or the end.
#[derive(Debug)]
struct Piece {
    number: u32,
    sequence: u32,
    bytes: Vec<u8>,
    written: usize,
    last: bool,
    state: State,
    /// What the kernel would do with the connection once this has left.
    settled: Option<Offload>,
}

/// What may leave next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// So many bytes of the pipe.
    Piped(usize),
    /// These bytes.
    Bytes(&'a [u8]),
    /// The end.
    End,
}

/// A piece that is to be offered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat<'a> {
    pub(super) number: u32,
    pub(super) sequence: u32,
    pub(super) bytes: &'a [u8],
    pub(super) last: bool,
}

/// One direction.
#[derive(Debug)]
pub(super) struct RelayBuffer {
    /// The number of the next byte that is read.
    sequence: u32,
    /// The number behind the last byte that has left.
    delivered: u32,
    pieces: VecDeque<Piece>,
    /// Bytes in a pipe that are not inspected, before all pieces.
    piped: usize,
    /// The pipe takes no more until something has left it.
    choked: bool,
    /// Bytes that have not left, and what keeping their pieces takes.
    pending: usize,
    next: u32,
    ended: bool,
    /// The end has left.
    shut: bool,
}

impl RelayBuffer {
    /// A direction whose SYN has this number.
    pub(super) fn new(first: u32) -> Self {
        let begun = first.wrapping_add(1);
        Self {
            sequence: begun,
            delivered: begun,
            pieces: VecDeque::new(),
            piped: 0,
            choked: false,
            pending: 0,
            next: 0,
            ended: false,
            shut: false,
        }
    }

    /// More may be read: the end has not come, and not too much waits.
    pub(super) fn has_room(&self) -> bool {
        !self.ended && !self.choked && self.pending < TERMINATED_PENDING
    }

    /// The number of the next byte, and the piece's own.
    pub(super) fn begin(&mut self) -> (u32, u32) {
        let number = self.next;
        // Its upper bit says the direction in tokens.
        self.next = self.next.wrapping_add(1) & (u32::MAX >> 1);
        (self.sequence, number)
    }

    /// What the other end has by now.
    pub(super) fn delivered(&self) -> u32 {
        self.delivered
    }

    /// The end has left.
    pub(super) fn is_shut(&self) -> bool {
        self.shut
    }

    /// Nothing is before what is read next: it may leave at once.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.piped == 0
    }

    /// No piece is before what is read next: it may go through the pipe.
    pub(super) fn may_pipe(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Nothing went into the pipe. It is full, which it may be with few bytes that came in many
    /// packets; or it is empty, and nothing is there that it would take: then it answers true.
    pub(super) fn choke(&mut self) -> bool {
        self.choked = self.piped > 0;
        !self.choked
    }

    /// Counts bytes that went into the pipe.
    pub(super) fn pipe(&mut self, count: usize) {
        self.sequence = self.sequence.wrapping_add(length32(count));
        self.piped = self.piped.saturating_add(count);
        self.pending = self.pending.saturating_add(count);
    }

    /// Counts bytes that were read and have left at once.
    pub(super) fn pass(&mut self, count: usize) {
        let count = length32(count);
        self.sequence = self.sequence.wrapping_add(count);
        self.delivered = self.delivered.wrapping_add(count);
    }

    /// Keeps a piece that [`begin`](Self::begin) numbered; without bytes it is the end.
    pub(super) fn keep(
        &mut self,
        now: Duration,
        number: u32,
        bytes: &[u8],
        fate: PieceVerdict,
        settled: Option<Offload>,
    ) {
        let last = bytes.is_empty();
        self.pieces.push_back(Piece {
            number,
            sequence: self.sequence,
            bytes: bytes.to_vec(),
            written: 0,
            last,
            state: state(now, fate, 0),
            settled,
        });
        self.pending = (self.pending)
            .saturating_add(bytes.len())
            .saturating_add(PART_OVERHEAD);
        self.sequence = self
            .sequence
            .wrapping_add(length32(bytes.len()))
            .wrapping_add(u32::from(last));
        self.ended |= last;
    }

    /// The gateway lets a piece go, or does not. Returns what follows for the connection when it
    /// leaves; nothing is known of pieces that do not wait.
    pub(super) fn release(
        &mut self,
        now: Duration,
        number: u32,
        fate: PieceVerdict,
    ) -> Option<Option<Offload>> {
        let piece = self
            .pieces
            .iter_mut()
            .find(|piece| piece.number == number)?;
        let tries = match piece.state {
            State::Again { tries, .. } => tries,
            State::Ready | State::Waits => 0,
        };
        piece.state = state(now, fate, tries);
        Some(match fate {
            PieceVerdict::Passes => piece.settled.take(),
            PieceVerdict::Waits | PieceVerdict::Again => None,
        })
    }

    /// What may leave now.
    pub(super) fn next(&self) -> Option<Next<'_>> {
        if self.piped > 0 {
            return Some(Next::Piped(self.piped));
        }
        let piece = self.pieces.front()?;
        if piece.state != State::Ready {
            return None;
        }
        Some(match piece.bytes.get(piece.written..) {
            Some(rest) if !piece.last => Next::Bytes(rest),
            _ => Next::End,
        })
    }

    /// So much of [`next`](Self::next) has left.
    pub(super) fn left(&mut self, count: usize) {
        if self.piped > 0 {
            self.piped = self.piped.saturating_sub(count);
            self.choked = false;
            self.pending = self.pending.saturating_sub(count);
            self.delivered = self.delivered.wrapping_add(length32(count));
            return;
        }
        let Some(piece) = self.pieces.front_mut() else {
            return;
        };
        piece.written = piece.written.saturating_add(count);
        self.pending = self.pending.saturating_sub(count);
        // A FIN takes a sequence number of its own (RFC 9293 §3.4).
        self.delivered = self
            .delivered
            .wrapping_add(length32(count))
            .wrapping_add(u32::from(piece.last));
        self.shut |= piece.last;
        if piece.last || piece.written >= piece.bytes.len() {
            self.pieces.pop_front();
            self.pending = self.pending.saturating_sub(PART_OVERHEAD);
        }
    }

    /// When the first piece that was not taken is offered again.
    pub(super) fn due(&self) -> Option<Duration> {
        self.pieces.iter().find_map(|piece| match piece.state {
            State::Again { at, .. } => Some(at),
            State::Ready | State::Waits => None,
        })
    }

    /// The first piece that was not taken, once its time has come.
    ///
    /// # Errors
    /// It was offered too often.
    pub(super) fn repeat(&self, now: Duration) -> Result<Option<Repeat<'_>>, ()> {
        for piece in &self.pieces {
            match piece.state {
                State::Again { tries, .. } if tries >= TERMINATED_TRIES => return Err(()),
                State::Again { at, .. } if at <= now => {
                    return Ok(Some(Repeat {
                        number: piece.number,
                        sequence: piece.sequence,
                        bytes: &piece.bytes,
                        last: piece.last,
                    }));
                }
                State::Again { .. } => return Ok(None),
                State::Ready | State::Waits => {}
            }
        }
        Ok(None)
    }
}

fn state(now: Duration, fate: PieceVerdict, tries: u8) -> State {
    match fate {
        PieceVerdict::Passes => State::Ready,
        PieceVerdict::Waits => State::Waits,
        PieceVerdict::Again => State::Again {
            at: now.saturating_add(TERMINATED_AGAIN),
            tries: tries.saturating_add(1),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{Just, any, prop_oneof, proptest};

    use super::{Next, PieceVerdict, RelayBuffer};
    use crate::limits::{TERMINATED_AGAIN, TERMINATED_PENDING, TERMINATED_TRIES};
    use crate::verdict::Offload;

    const NOW: Duration = Duration::from_secs(1);

    fn keep(way: &mut RelayBuffer, bytes: &[u8], fate: PieceVerdict) -> u32 {
        let (_, number) = way.begin();
        way.keep(NOW, number, bytes, fate, None);
        number
    }

    /// All that may leave, taken by so many bytes at once.
    fn drain(way: &mut RelayBuffer, step: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some(next) = way.next() {
            let count = match next {
                Next::Bytes(bytes) => {
                    let count = bytes.len().min(step);
                    taken.extend_from_slice(&bytes[..count]);
                    count
                }
                Next::Piped(count) => {
                    taken.extend(std::iter::repeat_n(b'|', count.min(step)));
                    count.min(step)
                }
                Next::End => 0,
            };
            way.left(count);
        }
        taken
    }

    #[test]
    fn what_waits_keeps_what_is_behind_it() {
        let mut way = RelayBuffer::new(0);
        keep(&mut way, b"one", PieceVerdict::Passes);
        let waiting = keep(&mut way, b"two", PieceVerdict::Waits);
        keep(&mut way, b"three", PieceVerdict::Passes);
        keep(&mut way, b"", PieceVerdict::Passes);
        assert_eq!(drain(&mut way, 2), b"one");
        assert!(!way.is_shut());
        assert_eq!(way.release(NOW, waiting, PieceVerdict::Passes), Some(None));
        assert_eq!(drain(&mut way, 2), b"twothree");
        assert!(way.is_shut() && way.is_empty());
        // The bytes, the SYN and the end.
        assert_eq!(way.delivered(), 11 + 2);
    }

    #[test]
    fn pieces_are_offered_again_for_a_time() {
        let mut way = RelayBuffer::new(0);
        let number = keep(&mut way, b"one", PieceVerdict::Again);
        assert_eq!(way.repeat(NOW), Ok(None));
        let mut now = NOW;
        for _ in 1..TERMINATED_TRIES {
            now += TERMINATED_AGAIN;
            let repeat = way.repeat(now).unwrap().unwrap();
            assert_eq!((repeat.number, repeat.bytes), (number, b"one".as_slice()));
            way.release(now, number, PieceVerdict::Again);
        }
        assert_eq!(way.repeat(now + TERMINATED_AGAIN), Err(()));
    }

    #[test]
    fn offloads_follow_the_release_of_their_piece() {
        let mut way = RelayBuffer::new(0);
        let (_, number) = way.begin();
        way.keep(
            NOW,
            number,
            b"one",
            PieceVerdict::Waits,
            Some(Offload::Allowed),
        );
        let settled = way.release(NOW, number, PieceVerdict::Passes);
        assert_eq!(settled, Some(Some(Offload::Allowed)));
        assert_eq!(way.release(NOW, number + 1, PieceVerdict::Passes), None);
    }

    #[test]
    fn piped_bytes_leave_before_later_pieces() {
        let mut way = RelayBuffer::new(0);
        way.pipe(5);
        assert!(way.may_pipe() && !way.is_empty() && way.has_room());
        assert!(!way.choke());
        assert!(!way.has_room());
        way.left(1);
        assert!(way.has_room());
        way.pipe(1);
        keep(&mut way, b"more", PieceVerdict::Passes);
        assert!(!way.may_pipe());
        assert_eq!(drain(&mut way, 3), b"|||||more");
        assert_eq!((way.delivered(), way.pending), (11, 0));
    }

    #[test]
    fn no_more_is_read_than_may_wait() {
        let mut way = RelayBuffer::new(0);
        while way.has_room() {
            keep(&mut way, &[0; 10_000], PieceVerdict::Waits);
        }
        assert!(way.pending < TERMINATED_PENDING + 11_000);
        let mut way = RelayBuffer::new(0);
        keep(&mut way, b"", PieceVerdict::Waits);
        assert!(!way.has_room());
    }

    proptest! {
        /// Whatever the gateway decides when, what leaves is a beginning of what was read, and all
        /// of it once all is let go.
        #[test]
        fn bytes_leave_whole_and_in_order(
            pieces in proptest::collection::vec(
                (1_usize..50, prop_oneof![Just(PieceVerdict::Passes), Just(PieceVerdict::Waits), Just(PieceVerdict::Again)]),
                1..20,
            ),
            order in proptest::collection::vec(any::<proptest::sample::Index>(), 40),
            step in 1_usize..60,
        ) {
            let mut way = RelayBuffer::new(0);
            let (mut read, mut left, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
            for (place, (length, fate)) in pieces.into_iter().enumerate() {
                let bytes = vec![u8::try_from(place).unwrap(); length];
                read.extend_from_slice(&bytes);
                let number = keep(&mut way, &bytes, fate);
                if fate != PieceVerdict::Passes {
                    waiting.push(number);
                }
                left.extend(drain(&mut way, step));
            }
            for index in order {
                if waiting.is_empty() {
                    break;
                }
                let number = waiting.swap_remove(index.index(waiting.len()));
                way.release(NOW, number, PieceVerdict::Passes);
                left.extend(drain(&mut way, step));
                assert!(read.starts_with(&left));
            }
            for number in waiting {
                way.release(NOW, number, PieceVerdict::Passes);
            }
            left.extend(drain(&mut way, step));
            assert_eq!(left, read);
            assert_eq!(way.pending, 0);
        }
    }
}
