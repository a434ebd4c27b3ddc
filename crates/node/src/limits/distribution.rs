//! Bounds of distribution: one file for several members, who give it to each other.

use std::time::Duration;

/// Least bytes of a piece, the unit in which receivers have and give a file.
///
/// Source: the hashes that prove a piece alone are then less than 1 % of it. Smaller files than
/// [`SHARED_SMALLEST`] are not distributed.
pub const PIECE_LEAST: u64 = 256 << 10;

/// Most bytes of a piece.
///
/// Source: a piece is held in memory until it is proven: one from the sender, and
/// [`PIECES_ASKED`] from each of [`GIVERS_ASKED`]. A file that would need larger ones
/// ([`PIECES`]) comes from its sender only.
pub const PIECE_MOST: u64 = 8 << 20;

/// Most pieces of a file.
///
/// Source: which ones a member has is a kilobyte in memory, and fits into a frame however they
/// lie. Past it pieces are larger, up to [`PIECE_MOST`]: files up to 32 GiB are distributed.
pub const PIECES: u64 = 4_096;

/// Smallest file that is distributed.
///
/// Source: a few pieces, so that there is something to divide. Below it each receiver gets the
/// file from the sender.
pub const SHARED_SMALLEST: u64 = 1 << 20;

/// Other receivers of one file that a receiver is told of.
///
/// Source: as many as one command sends to, within a frame of 64 KiB. Past it the rest is not
/// named, and gets more from the sender.
pub const SHARERS: usize = 512;

/// Other receivers that one asks at once.
///
/// Source: each is a connection; with eight each piece is everywhere after few steps. Past it only
/// those are asked that ask themselves ([`ASKERS`]), until one is asked no more.
pub const GIVERS_ASKED: usize = 8;

/// Other receivers that may ask one at once for one file.
///
/// Source: each is a stream with a piece in memory. Past it the next one is refused, and asks
/// another or the sender.
pub const ASKERS: usize = 16;

/// Pieces that are asked of one receiver at once.
///
/// Source: one travels while the next is read. Who asks for more is given nothing any more.
pub const PIECES_ASKED: usize = 2;

/// Pieces that the sender gives to one receiver before that says that it has them.
///
/// Source: more than the window of a stream with the least pieces, so that the line stays full.
/// Past it the next piece goes to another receiver: a slow one keeps few from all.
pub const PIECES_AHEAD: usize = 8;

/// How long a receiver that gives a piece may take for it, and a second more for each
/// [`GIVER_RATE`] bytes.
///
/// Source: a member whose network has changed is back within that time. Past it, it is asked no
/// more for this transfer.
pub const GIVER_PATIENCE: Duration = Duration::from_secs(20);

/// See [`GIVER_PATIENCE`].
///
/// Source: who gives less than that is no help. Past it the piece comes from another.
pub const GIVER_RATE: u64 = 32 << 10;

/// How long a receiver waits for others before it wants pieces from the sender.
///
/// Source: a few times what a piece takes. Past it, if others gave less than half of what the
/// sender gave, the sender gives the rest.
pub const WANT_AFTER: Duration = Duration::from_secs(10);

/// How often receivers of a distributed file say at least that they are there.
///
/// Source: a few times within [`SHARE_SILENCE`]. Past it the sender hears nothing.
pub const SHARE_BEAT: Duration = Duration::from_secs(20);

/// How long a receiver of a distributed file may say nothing.
///
/// Source: more than three beats ([`SHARE_BEAT`]). Past it the attempt ends, what was given to it
/// goes to others, and it is tried again.
pub const SHARE_SILENCE: Duration = Duration::from_secs(120);

/// How long a receiver that has the whole file gives it to others.
///
/// Source: others that began with it end about then. Past it they get the rest from the sender,
/// and from those that still have time.
pub const SHARE_LINGER: Duration = Duration::from_secs(300);

/// Files that are given to others, those on their way in among them.
///
/// Source: each holds two open files. Past it the one that was complete first is given no more.
pub const SHARES: usize = 128;

/// How long one that asks waits for the sender to vouch for it.
///
/// Source: the sender tells both at about the same time. Past it the request is refused, and
/// pieces come from others.
pub const VOUCH_TIME: Duration = Duration::from_secs(10);

/// How long a receiver waits at least before it tells another of further pieces.
///
/// Source: QUIC ends a connection at 2 048 small frames that wait for a busy reader. Past it what
/// has come is told at once.
pub const NEWS_PAUSE: Duration = Duration::from_millis(100);
