//! Follows one direction of a TCP connection without terminating it, for inspection of contents.
//!
//! A [`Stream`] takes in the segments of one direction in the order in which they pass the gateway.
//! It answers what is to become of each packet, and hands out the bytes in the order in which the
//! receiver will read them.
//!
//! # What holds
//! **All packets that are passed on carry the same byte at the same position.** The first copy of a
//! byte wins: it is what inspection sees, and a later packet with another byte there is rewritten
//! before it goes on. So the receiver gets what was inspected, whichever of the copies reaches it,
//! whatever its own rule for overlaps is, and also when the first copy was made to die on the way
//! (a short time to live, an old timestamp).
//!
//! For this the stream remembers three ranges:
//! - **behind a gap**: copies of segments that came early, up to
//!   [`MAX_AHEAD`](crate::limits::MAX_AHEAD);
//! - **delivered and not acknowledged**: the receiver may still lack these bytes, so a repetition
//!   may still reach its application. They are kept until an acknowledgement of the other direction
//!   covers them, at most [`MAX_UNACKNOWLEDGED`](crate::limits::MAX_UNACKNOWLEDGED);
//! - **acknowledged**: nothing is kept. The receiver discards every byte below its acknowledgement
//!   number (RFC 9293 §3.10.7.4), so a repetition is harmless whatever it contains.
//!
//! Where a byte can be kept in none of these ranges, its packet is [dropped](Decision::Drop), as a
//! full router would, and its sender repeats it. Where a repetition cannot be compared, the stream
//! is [given up](Loss::Forgotten). Of a stream that is followed from its SYN nothing is passed on
//! unseen.
//!
//! # Fast pass
//! With [`StreamBounds::fast_pass`] a packet behind a gap goes on at once and a copy stays, so that
//! the receiver's acknowledgements do not stall. That is safe: the receiver's application reads
//! nothing past the gap before the packet that fills it arrives, and that packet waits at the
//! gateway until it and all kept copies that follow it were inspected. Without fast pass the
//! packets themselves wait, by their tokens.
//!
//! # Order of calls
//! [`Stream::handle_segment`] for each packet; [`Stream::handle_acknowledgement`] for each packet
//! of the other direction that acknowledges; [`Stream::handle_timeout`] at
//! [`Stream::poll_timeout`]. Time is an argument.
//!
//! # What the caller sees to
//! Checksums are verified before ([`Packet::checksum`]). The acknowledgements must be the
//! receiver's: a sender that can forge its receiver's packets on the other side of the gateway can
//! make it forget bytes early. Urgent data is followed in band, as RFC 6093 asks; a receiver that
//! takes the urgent byte out of the stream reads one byte less, so a reader of contents gives up
//! there. Decisions are about packets; a caller that changes a packet mends its checksum
//! ([`replace_payload`](crate::packet::replace_payload)).
//!
//! ```
//! use std::time::Duration;
//! use ringway_gateway::stream::{Decision, Output, Segment, Stream, StreamBounds};
//!
//! let mut stream = Stream::new(StreamBounds::default());
//! let mut output = Output::default();
//! let (now, room) = (Duration::ZERO, 1 << 20);
//! let segment = |sequence, payload, token| Segment { sequence, payload, token, ..Segment::default() };
//!
//! assert_eq!(stream.handle_segment(now, &segment(100, b"one ", 1), room, &mut output), Decision::Deliver);
//! assert_eq!(stream.handle_segment(now, &segment(108, b"three", 2), room, &mut output), Decision::Ahead);
//! assert_eq!(stream.handle_segment(now, &segment(104, b"two ", 3), room, &mut output), Decision::Deliver);
//! assert_eq!(output.bytes, b"one two three");
//! ```

mod follower;
mod held;
mod window;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use follower::Stream;

use crate::limits;
use crate::packet::Packet;

/// Bounds and manner of a [`Stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamBounds {
    /// Packets behind a gap go on at once; otherwise they are held back until it is filled.
    pub fast_pass: bool,
    /// Bytes kept behind a gap; see [`limits::MAX_AHEAD`].
    pub ahead: usize,
    /// Segments kept behind a gap; see [`limits::MAX_AHEAD_SEGMENTS`].
    pub ahead_segments: usize,
    /// Bytes remembered until they are acknowledged; see [`limits::MAX_UNACKNOWLEDGED`].
    pub unacknowledged: usize,
    /// Time for a gap to be filled; see [`limits::GAP_TIMEOUT`].
    pub gap: Duration,
}

impl Default for StreamBounds {
    fn default() -> Self {
        Self {
            fast_pass: true,
            ahead: limits::MAX_AHEAD,
            ahead_segments: limits::MAX_AHEAD_SEGMENTS,
            unacknowledged: limits::MAX_UNACKNOWLEDGED,
            gap: limits::GAP_TIMEOUT,
        }
    }
}

/// One segment as a [`Stream`] takes it in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment<'a, T> {
    /// Sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// The bytes.
    pub payload: &'a [u8],
    /// Opens the direction, and takes the first sequence number.
    pub syn: bool,
    /// Ends the direction behind its last byte, and takes one sequence number.
    pub fin: bool,
    /// Aborts the connection; its payload is no part of the stream.
    pub rst: bool,
    /// Bytes are missing at the end of the payload.
    pub truncated: bool,
    /// The caller's name for the packet; comes back in [`Output`] if the packet is held.
    pub token: T,
}

impl<'a, T> Segment<'a, T> {
    /// The segment of a packet; `None` for UDP.
    #[must_use]
    pub fn of(packet: &Packet<'a>, token: T) -> Option<Self> {
        packet.tcp.map(|tcp| Self {
            sequence: tcp.sequence,
            payload: packet.payload,
            syn: tcp.syn,
            fin: tcp.fin,
            rst: tcp.rst,
            truncated: packet.truncated,
            token,
        })
    }
}

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Pass it on: it has nothing new (a repetition, a keep-alive, an acknowledgement).
    Pass,
    /// It is the next in order. Its new bytes, and those of kept copies that follow, were appended
    /// to [`Output::bytes`]; pass it on once they are inspected.
    Deliver,
    /// It lies behind a gap, and a copy is kept. With fast pass, pass it on; otherwise hold it
    /// back: its token comes in [`Output::released`] or [`Output::abandoned`].
    Ahead,
    /// It has other bytes than a copy seen before. Put [`Output::rewritten`], of the same length,
    /// in place of its payload and do as for the place named.
    Conflict(Position),
    /// It must not reach the receiver. The stream goes on, and an honest sender repeats what was
    /// not superfluous.
    Drop(Refusal),
    /// The stream cannot be followed any more, now or since an earlier packet. What this and all
    /// further packets may do is the caller's policy.
    Lost(Loss),
}

/// Where a segment lies in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Nothing of it is new: as [`Decision::Pass`].
    Old,
    /// Next in order: as [`Decision::Deliver`].
    Next,
    /// Behind a gap: as [`Decision::Ahead`].
    Ahead,
}

impl Position {
    /// The decision about a packet at this position.
    fn decision(self, conflict: bool) -> Decision {
        match self {
            _ if conflict => Decision::Conflict(self),
            Self::Old => Decision::Pass,
            Self::Next => Decision::Deliver,
            Self::Ahead => Decision::Ahead,
        }
    }
}

/// Why a packet must not go on although the stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// It ends further behind the gap than [`StreamBounds::ahead`].
    TooFarAhead,
    /// No copy can be kept: the stream's bound or the room of all streams is used up.
    NoRoom,
    /// Data behind the end that a FIN set, or a FIN at another position than data or an earlier FIN
    /// allow.
    BehindEnd,
    /// A second SYN with another number, or data before the first byte, while no acknowledgement
    /// has said which SYN the receiver took.
    OtherNumbers,
}

impl Refusal {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TooFarAhead => "too_far_ahead",
            Self::NoRoom => "no_room",
            Self::BehindEnd => "behind_end",
            Self::OtherNumbers => "other_numbers",
        }
    }
}

/// Why a stream was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// A gap was not filled in time, and packets behind it have gone on.
    GapTimeout,
    /// A repetition of bytes that are not acknowledged and no longer remembered: it cannot be
    /// compared.
    Forgotten,
    /// A packet with new bytes was captured in part only.
    Truncated,
    /// The caller gave the stream up.
    Closed,
}

impl Loss {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GapTimeout => "gap_timeout",
            Self::Forgotten => "forgotten",
            Self::Truncated => "truncated",
            Self::Closed => "closed",
        }
    }
}

/// What a [`Stream`] hands out besides its decision. Reuse it: its memory stays,
/// [`clear`](Self::clear) empties it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output<T> {
    /// Bytes that are newly contiguous; appended.
    pub bytes: Vec<u8>,
    /// The payload to send instead of the packet's own; only with [`Decision::Conflict`]. Set by
    /// each call.
    pub rewritten: Vec<u8>,
    /// Held packets that follow the delivered bytes and go on with them, in the order of the
    /// stream; appended.
    pub released: Vec<T>,
    /// Held packets that are no longer followed. While the stream goes on they must not reach the
    /// receiver; when it is lost they are treated like the packet that was answered so.
    /// Appended.
    pub abandoned: Vec<T>,
}

impl<T> Default for Output<T> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            rewritten: Vec::new(),
            released: Vec::new(),
            abandoned: Vec::new(),
        }
    }
}

impl<T> Output<T> {
    /// Empties all lists and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rewritten.clear();
        self.released.clear();
        self.abandoned.clear();
    }
}
