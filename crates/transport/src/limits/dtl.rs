//! The bounds of DTL as a library for programs.

use super::QUIC_STREAM_WINDOW;

/// Streams a peer may have open on one connection of a program.
///
/// Source: ours; a program has many small streams where a member has one. Past it the peer's `open`
/// waits until some are closed: QUIC gives room for an eighth of them at once.
pub const DTL_STREAMS: u32 = 64;

/// Bytes a peer may send ahead on one connection of a program, over all streams.
///
/// Source: eight times [`QUIC_STREAM_WINDOW`], so that seven streams which are not read leave room
/// for the others. Past it the peer waits.
pub const DTL_CONNECTION_WINDOW: u32 = 8 * QUIC_STREAM_WINDOW;

/// Bytes that one write hands over at most.
///
/// Source: ours; what a stream holds beside QUIC, and far more than a turn among the streams of a
/// connection. Past it `poll_write` takes a part.
pub const DTL_WRITE: usize = 64 * 1024;

/// Bytes of the peer's reason for closing a connection that an error repeats.
///
/// Source: ours; a line. Past it the rest is left out.
pub const DTL_REASON: usize = 200;
