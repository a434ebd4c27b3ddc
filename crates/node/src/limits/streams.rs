//! Bounds of services and streams.

use std::time::Duration;

/// Bytes of a service's name.
///
/// Source: as the longest in `/etc/services`, twice. A longer one is refused.
pub const SERVICE_NAME: usize = 32;

/// Services of one member, those of programs among them.
///
/// Source: a list of them fits into one frame ([`FRAME_BYTES`](super::FRAME_BYTES)) several times.
/// Past it a further one is refused; of a peer's list the rest is not read.
pub const SERVICES: usize = 128;

/// Streams at once, both directions, of this member.
///
/// Source: each may keep [`STREAM_BUFFER`] bytes each way: 1 GiB if all peers do their worst. Past
/// it a further one is refused.
pub const STREAMS: usize = 512;

/// Streams at once that a service has if its configuration does not say how many.
///
/// Source: more than an office opens to one server. Past it a further one is refused.
pub const SERVICE_STREAMS: usize = 128;

/// The same for each peer.
///
/// Source: a browser opens up to 32 connections at a time. Past it a further one is refused.
pub const SERVICE_STREAMS_PER_PEER: usize = 32;

/// Bytes that each end of a stream keeps for each direction: what the peer has not acknowledged,
/// and what the local program has not taken.
///
/// Source: 80 Mbit/s at a round trip of 100 ms. Past it the local program waits; a peer that sends
/// more ends the stream.
pub const STREAM_BUFFER: usize = 1 << 20;

/// Bytes of content in one record.
///
/// Source: ours; large enough that headers cost nothing, small enough that an acknowledgement
/// never waits long behind one. A longer one ends the stream.
pub const STREAM_RECORD: usize = 64 * 1024;

/// Bytes read from a local program at once.
///
/// Source: what a socket's buffer gives at once. Past it the rest is read next.
pub const STREAM_READ: usize = 64 * 1024;

/// Received bytes after which they are acknowledged at once.
///
/// Source: an eighth of [`STREAM_BUFFER`], so that the sender never waits for it. Below it they
/// are acknowledged after [`STREAM_ACK_DELAY`].
pub const STREAM_ACK_BYTES: u64 = 128 * 1024;

/// How long an acknowledgement may wait.
///
/// Source: ours; QUIC has its own, and this one only empties the peer's buffer. Past it it leaves.
pub const STREAM_ACK_DELAY: Duration = Duration::from_millis(100);

/// Silence after which the opener of a stream that is in use asks whether the peer is there.
///
/// Source: with [`STREAM_PATIENCE`] it bounds how long a dead path goes unnoticed where only the
/// peer sends: 1.1 s. Past it a PING leaves.
pub const STREAM_PING: Duration = Duration::from_millis(500);

/// The same for a stream that is not in use.
///
/// Source: QUIC's own keep-alive (3 s), so that it adds no packets of its own. Past it a PING
/// leaves.
pub const STREAM_PING_UNUSED: Duration = Duration::from_secs(3);

/// How long ago something was sent or received on a stream that counts as in use.
///
/// Source: ours; the pauses of a person at a keyboard. Past it it is asked for less often.
pub const STREAM_USED: Duration = Duration::from_secs(30);

/// How long nothing at all comes from a peer that owes an answer before a second connection is
/// raced.
///
/// Source: beyond the acknowledgements of every path that is called interactive; a wrong guess
/// costs one handshake, and an echo for each path. Past it the opener dials again, and both ends
/// have all paths tried.
pub const STREAM_PATIENCE: Duration = Duration::from_millis(600);

/// The same at priority 0.
///
/// Source: such a sender may have to wait two seconds for each packet
/// ([`CONTROLLER_SLOWEST`](ringway_transport::limits::CONTROLLER_SLOWEST)). Past it the opener
/// dials again.
pub const STREAM_PATIENCE_IDLE_PRIORITY: Duration = Duration::from_secs(6);

/// How long a stream waits without a connection that works.
///
/// Source: a laptop that goes from one network to another is back within it, and programs give up
/// about then themselves. Past it the stream ends at both sides.
pub const STREAM_WAIT: Duration = Duration::from_secs(60);

/// Pause between two attempts to connect again.
///
/// Source: ours; the link looks for another path meanwhile. Past it the next one begins.
pub const STREAM_DIAL_PAUSE: Duration = Duration::from_millis(250);

/// How long an attempt to connect over the link may take.
///
/// Source: four retransmissions of QUIC's first packet. Past it the attempt is repeated.
pub const STREAM_LINK_DIAL: Duration = Duration::from_secs(8);

/// Time that a straight connection has before one over the link is tried beside it.
///
/// Source: two round trips of nearly every path. Past it the first that is there counts.
pub const STREAM_HEAD_START: Duration = Duration::from_millis(800);

/// Pause after which a handshake over the link is begun once more beside the ones before.
///
/// Source: all paths of the link are tried meanwhile, and one that works is in use after a round
/// trip or two; QUIC repeats its first packet after one second, then two. Past it another one
/// begins.
pub const STREAM_LINK_AGAIN: Duration = Duration::from_millis(500);

/// How often a straight connection is looked for instead of one over the link.
///
/// Source: ours; a handshake costs little, and a straight connection is faster. Past it it is
/// tried again.
pub const STREAM_STRAIGHT: Duration = Duration::from_secs(10);

/// How long an answer to a request for a service may take.
///
/// Source: a connection to the service itself, and a round trip. Past it the request fails.
pub const STREAM_ANSWER: Duration = Duration::from_secs(15);

/// How long the service itself may take to accept.
///
/// Source: it is on this machine or beside it. Past it the peer is refused.
pub const SERVICE_CONNECT: Duration = Duration::from_secs(5);

/// How long a program that serves has to take a stream that was announced to it.
///
/// Source: it only has to open a socket. Past it the peer is refused.
pub const SERVICE_TAKE: Duration = Duration::from_secs(10);

/// How long a connection for streams is kept without any.
///
/// Source: the next command comes within a minute or not soon. Past it it is closed.
pub const STREAM_CONNECTION_UNUSED: Duration = Duration::from_secs(60);

/// Streams on one connection.
///
/// Source: half of what the peer accepts
/// ([`STREAMS_PER_CONNECTION`](super::STREAMS_PER_CONNECTION)), so that they can come back to it.
/// Past it another connection is made.
pub const STREAMS_ON_CONNECTION: usize = 32;

/// Ended streams whose good end is remembered.
///
/// Source: as many as there may be ([`STREAMS`]): the last acknowledgement of one may be lost with
/// its connection. Past it the oldest is forgotten, and its peer reports a failure.
pub const STREAMS_ENDED: usize = STREAMS;

/// Characters of a reason that a peer gives.
///
/// Source: one line of a terminal, twice. The rest is cut off.
pub const STREAM_REASON: usize = 160;

/// Datagrams of a UDP service that wait for the service's own socket.
///
/// Source: ours; a burst. Past it they are lost, as UDP's may be.
pub const SERVICE_DATAGRAMS: usize = 256;

/// Peers of a UDP forward on one port: each is a stream of its own.
///
/// Source: a resolver asks from a new port each time. Past it the one that was silent longest
/// ends.
pub const FORWARD_DATAGRAM_PEERS: usize = 64;

/// Silence after which a client of a UDP forward is forgotten.
///
/// Source: twice the 30 s of common NAT mappings (RFC 4787 §4.3 asks for two minutes of NATs).
/// Past it its stream ends.
pub const FORWARD_DATAGRAM_IDLE: Duration = Duration::from_secs(60);
