//! The bounds of QUIC: connections, messages in its datagrams, and its packets in messages.

use std::time::Duration;

/// Established QUIC connections of one endpoint, both directions.
///
/// Source: at worst [`QUIC_CONNECTION_WINDOW`] each, and only admitted members get that far. Past
/// it incoming connections are refused, outgoing ones fail with `Busy`.
pub const QUIC_CONNECTIONS: usize = 1024;

/// QUIC handshakes of strangers in progress at once.
///
/// Source: about 30 KiB and 100 µs of signature work each. Past half of it peers must prove their
/// address first (Retry, RFC 9000 §8.1.2), past it the oldest handshake is given up.
pub const QUIC_HANDSHAKES: usize = 128;

/// Established connections that wait for `accept`.
///
/// Source: one burst of handshakes. Past it a connection waits in its handshake task, which counts
/// towards [`QUIC_HANDSHAKES`].
pub const QUIC_ACCEPT_QUEUE: usize = 64;

/// Bytes kept for one connection attempt before its handshake starts, and for all (times 64).
///
/// Source: a ClientHello with post-quantum key share fits twice. Past it its packets are dropped.
pub const QUIC_INCOMING_BYTES: u64 = 16 * 1024;

/// Bidirectional streams a peer may have open on one connection.
///
/// Source: those to services of one priority share a connection, whose window
/// ([`QUIC_CONNECTION_WINDOW`]) bounds what all of them make us keep. Past it the peer waits until
/// one is closed.
pub const QUIC_STREAMS: u32 = 64;

/// Unidirectional streams a peer may have open on one connection.
///
/// Source: nothing of ours opens any. Past it the peer waits for ever.
pub const QUIC_UNI_STREAMS: u32 = 0;

/// Bytes a peer may send ahead on one stream.
///
/// Source: noq 1.4 ends the *connection* with "too many gaps in stream buffer" when 2 048 pieces of
/// one stream wait for a gap to close or for their reader, whether or not they touch. In datagrams
/// of 1 200 bytes this window is 1 370 pieces: room for retransmissions in other cuts. It lets one
/// stream carry 126 Mbit/s at 100 ms; a transfer that wants more uses several streams. Past it the
/// peer waits.
pub const QUIC_STREAM_WINDOW: u32 = 1536 * 1024;

/// Bytes a peer may send ahead on one connection, over all streams.
///
/// Source: twice [`QUIC_STREAM_WINDOW`], for a stream that ends beside one that begins; bounds what
/// one connection can make us keep. Past it the peer waits.
pub const QUIC_CONNECTION_WINDOW: u32 = 2 * QUIC_STREAM_WINDOW;

/// Bytes that wait unacknowledged or unsent on one connection before writers wait.
///
/// Source: as much as the peer may accept. Past it `write` waits.
pub const QUIC_SEND_WINDOW: u64 = 16 * 1024 * 1024;

/// Bytes of the system's buffers of a UDP socket, for each direction.
///
/// Source: Linux gives 208 KiB unless asked, three bursts of segmentation offload: on loopback 1.5
/// % of the packets were lost. The system grants less silently (`net.core.rmem_max`). Past it the
/// system drops arriving datagrams, and refuses departing ones.
pub const SOCKET_BUFFER: usize = 2 * 1024 * 1024;

/// Silence after which a QUIC connection is dead.
///
/// Source: three lost keep-alives ([`QUIC_KEEP_ALIVE`]). Past it the connection closes with
/// `TimedOut`.
pub const QUIC_IDLE: Duration = Duration::from_secs(10);

/// Interval of QUIC keep-alives.
///
/// Source: RFC 9308 §3.2, well below the 30 s of common NAT mappings. Past it one PING frame is
/// sent.
pub const QUIC_KEEP_ALIVE: Duration = Duration::from_secs(3);

/// Time in which a QUIC handshake must end.
///
/// Source: three retransmissions of the first packet. Past it the attempt fails with `TimedOut`.
pub const QUIC_HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// Largest UDP payload of a packet, bytes.
///
/// Source: ten of them, which is what QUIC hands to the system at once, fit into the 64 KiB that
/// segmentation offload takes. Measured over loopback: less than half of the processor time of
/// packets for Ethernet. Up to what the interface takes, what the path carries is found by
/// probes, whose loss counts for nothing. Past it larger paths carry packets of this size.
pub const QUIC_PAYLOAD: u16 = 6500;

/// Largest UDP payload to look for where the interface's is not known, bytes.
///
/// Source: Ethernet's 1 500 bytes without the headers of IPv6 and UDP. Past it larger paths carry
/// packets of this size.
pub const QUIC_PAYLOAD_UNKNOWN: u16 = 1452;

/// Packets a peer may receive without acknowledging at once.
///
/// Source: draft-ietf-quic-ack-frequency; zero gives the controller one delay sample a packet. Past
/// it the peer acknowledges at once.
pub const QUIC_ACK_THRESHOLD: u32 = 0;

/// Round trips after which QUIC gives a packet up that has not been acknowledged, if a later one
/// has: it is sent again, and counts no longer as under way.
///
/// Source: ours; RFC 9002 §6.1 has 9/8, and three later packets. It cannot change while a
/// connection lasts, so it is what paths that reorder need. The controller answers losses earlier.
/// Past it the packet is sent again, in vain if it is still on its way.
pub const QUIC_GIVEN_UP: f32 = 1.5;

/// Longest delay of an acknowledgement that we ask the peer for.
///
/// Source: measured: without it lone packets read 57–60 ms on a 20 ms path. Past it the peer
/// acknowledges what it has.
pub const QUIC_ACK_DELAY: Duration = Duration::from_millis(5);

/// How often a sender of priority 0 asks for a reading of the receiver's clock.
///
/// Source: ours; half of what a scavenger needs to take a queue for that of a TCP on a path of 20
/// ms, and 20 words a second. Past it it asks again, if data has left.
pub const QUIC_CLOCK_EVERY: Duration = Duration::from_millis(50);

/// How long a connection is old when it may first ask.
///
/// Source: ours; slow start is over by then, and the first drain of the queue under way. Past it it
/// asks every [`QUIC_CLOCK_EVERY`].
pub const QUIC_CLOCK_FIRST: Duration = Duration::from_secs(1);

/// How soon after a reading the next one is given at most.
///
/// Source: ours; questions of [`QUIC_CLOCK_EVERY`] come closer together behind a queue that
/// empties. Sooner one is not answered, so that a peer that asks all the time gets 50 answers a
/// second.
pub const QUIC_CLOCK_LEAST: Duration = Duration::from_millis(20);

/// How often a sender of another priority looks whether that is 0 by now.
///
/// Source: ours; a transfer finds its share within two seconds. Past it it looks again.
pub const QUIC_CLOCK_REST: Duration = Duration::from_millis(500);

/// Time between acknowledgements and a reading up to which the reading is used.
///
/// Source: ours; what two busy hosts take to wake their tasks. The round trip of those
/// acknowledgements is what a reading divides into both ways: past it the queues may be others, and
/// the reading is dropped.
pub const QUIC_CLOCK_APART: Duration = Duration::from_millis(20);

/// Questions for a peer's clock that wait for an answer.
///
/// Source: ours; those of a round trip of 6.4 s ([`QUIC_CLOCK_EVERY`]), and half of the numbers
/// that they have. Past it the oldest is forgotten, and its answer means nothing.
pub const QUIC_CLOCK_QUESTIONS: usize = 128;

/// Bytes of a reading.
///
/// Source: its format, two bytes and a number of eight. Past it a datagram is no reading.
pub const QUIC_CLOCK_WORD: usize = 10;

/// Bytes of datagrams that wait on a connection for streams, each way.
///
/// Source: ours; a burst of forty full packets. Past it the oldest is dropped.
pub const QUIC_STREAM_DATAGRAMS: usize = 64 * 1024;

/// Bytes of datagrams that wait on a connection of DTL alone, each way.
///
/// Source: ours; more than a second's words. Past it the oldest is dropped.
pub const QUIC_CLOCK_QUEUE: usize = 1024;

/// Datagrams below which the window told to QUIC never falls.
///
/// Source: measured: QUIC sends nothing while in flight + one datagram exceeds the window, so a
/// smaller window stalls. Past it (below) the pacing rate alone throttles.
pub const CONTROLLER_WINDOW_DATAGRAMS: u64 = 2;

/// Datagrams a second that QUIC's pacer is told between a change from priority 0 and the next
/// packet.
///
/// Source: a millisecond after the packet before, the next one may leave. Past it (more) nothing is
/// gained: one packet leaves at this rate, and with it the controller takes over.
pub const CONTROLLER_RAISED_RATE: u64 = 1000;

/// The first datagrams of a connection, and how many of them a second QUIC's pacer is told at
/// least.
///
/// Source: a handshake, and what answers it, are five datagrams, and must be through in
/// [`QUIC_HANDSHAKE_TIME`], also where the group's others are at the floor of priority 0: a packet
/// in two seconds. Past them the controller's rate counts.
pub const CONTROLLER_FIRST: u64 = 10;
/// See [`CONTROLLER_FIRST`]. Source: the same.
pub const CONTROLLER_FIRST_RATE: u64 = 10;

/// Longest time between two datagrams that QUIC's pacer is told.
///
/// Source: keep-alives and acknowledgements wait for the pacer, too, and a peer gives a connection
/// up after [`QUIC_IDLE`]. Past it (slower) a connection would end because others need the path. At
/// this rate many of them on a slow line send more than the floor of one: 64 at 1 Mbit/s a fifth of
/// it.
pub const CONTROLLER_SLOWEST: Duration = Duration::from_secs(4);

/// Part of a round trip after which what a group lets a connection send is looked up again, if no
/// acknowledgement has done so.
///
/// Source: connections that begin to send together share what there is from then on; a lock for
/// each packet would cost more. Past it (later) they overrun the path for longer.
pub const CONTROLLER_LOOKS: u32 = 4;

/// Acknowledged packets kept until their batch ends.
///
/// Source: [`QUIC_SEND_WINDOW`] in datagrams of 1 200 bytes, rounded up. Past it the batch goes to
/// the controller in parts.
pub const CONTROLLER_BATCH: usize = 16 * 1024;

/// Runs of packets sent at one instant whose time is remembered for loss reports.
///
/// Source: one run per burst of 2 ms or more: over two seconds of sending. Past it the oldest are
/// forgotten and a lost packet takes the time of the oldest run that is left.
pub const CONTROLLER_SEND_RUNS: usize = 1024;

// Messages over QUIC.

/// Bytes of one message that always fits into a datagram of QUIC.
///
/// Source: packets of 1 200 bytes (RFC 9000 §14) less 38 of headers and seal. Past it sending may
/// fail with `TooLarge`: a session takes more where its path does.
pub const QUIC_LINK_MTU: usize = 1150;

/// Connections of one QUIC endpoint that carry messages, both directions.
///
/// Source: as for TCP ([`TCP_CONNECTIONS`](super::TCP_CONNECTIONS)), and half of
/// [`QUIC_CONNECTIONS`], so that transfers always find room. Past it incoming ones are closed at
/// once and counted, outgoing ones fail with `Busy`.
pub const QUIC_LINKS: usize = 512;

/// Such connections that one member may make to us.
///
/// Source: one for each of its addresses, twice over; a connection from the same address replaces
/// the former. Past it they are closed at once and counted.
pub const QUIC_LINKS_OF_MEMBER: usize = 8;

/// Bytes of messages that wait on one connection until congestion control lets them leave.
///
/// Source: a round trip of 100 ms at 20 Mbit/s. Past it messages are dropped and counted.
pub const QUIC_LINK_SEND: usize = 256 * 1024;

/// Bytes of messages that have arrived on one connection and wait for the core.
///
/// Source: as much as one that is sent at once ([`QUIC_LINK_SEND`]). Past it the oldest are
/// dropped.
pub const QUIC_LINK_RECEIVE: usize = 256 * 1024;

/// Messages that are taken from one connection at once.
///
/// Source: a train of datagrams has up to 64. Past it the rest is taken next.
pub const QUIC_LINK_BATCH: usize = 64;

/// Silence after which a connection for messages without a held session is closed.
///
/// Source: as for TCP ([`TCP_IDLE`](super::TCP_IDLE)). Past it it is closed.
pub const QUIC_LINK_UNUSED: Duration = Duration::from_secs(60);

/// Silence after which a connection for messages is dead.
///
/// Source: two lost keep-alives ([`QUIC_LINK_KEEP_ALIVE`]); whether a path works is for the link's
/// own probes to say. Past it the session is closed.
pub const QUIC_LINK_IDLE: Duration = Duration::from_secs(40);

/// Interval of keep-alives on connections for messages, by the side that dialled.
///
/// Source: RFC 9308 §3.2, below the 30 s of common NAT mappings. Past it one PING frame is sent.
pub const QUIC_LINK_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Attempts to connect for messages if the peer refuses us.
///
/// Source: a peer that does not know us yet asks DNS who we are, and refuses meanwhile. Past it
/// `connect` fails.
pub const QUIC_LINK_ATTEMPTS: u32 = 4;

/// Pause between two such attempts.
///
/// Source: DNS answers within milliseconds to half a second. Past it the next one begins.
pub const QUIC_LINK_PAUSE: Duration = Duration::from_millis(400);

// QUIC over messages.

/// Largest datagram of QUIC that travels as a message, bytes.
///
/// Source: half of [`TCP_MTU`](super::TCP_MTU), so that it fits with its seal into one message of
/// every transport but UDP, and a lost one costs little. A larger one is never made.
pub const QUIC_MESSAGE_BYTES: u16 = 8 * 1024;

/// Datagrams that wait in each direction.
///
/// Source: 2 MiB, more than a round trip of most paths holds. Past it outgoing ones wait, and
/// incoming ones are dropped.
pub const QUIC_MESSAGE_QUEUE: usize = 256;

/// Members whose addresses such an endpoint knows.
///
/// Source: as many as connections ([`QUIC_CONNECTIONS`]). Past it one is forgotten until it is
/// dialled or heard again.
pub const QUIC_MESSAGE_MEMBERS: usize = 1024;

/// Silence after which a connection over messages has ended.
///
/// Source: mail may wait in a queue for minutes; the link below notices a dead peer sooner. Past it
/// both sides give it up.
pub const QUIC_MESSAGE_IDLE: Duration = Duration::from_secs(1800);

/// How long a handshake over messages may take.
///
/// Source: two mails each way. Past it the attempt ends and is repeated.
pub const QUIC_MESSAGE_HANDSHAKE_TIME: Duration = Duration::from_secs(300);

/// Bytes of one stream that are written before it is looked whose turn it is.
///
/// Source: ours; a dozen datagrams. Larger chunks are written in pieces.
pub const STREAM_PIECE: u16 = 16 * 1024;

/// Pieces that a stream may catch up on after it had nothing to write, or its reader let it wait.
///
/// Source: ours; more than others get while its writer's task is woken. Past it the rest of what
/// the others had is forgotten.
pub const STREAM_CREDIT_PIECES: u16 = 4;

/// Least weight of a stream of positive priority, as in [`ringway_dtl::limits::MIN_WEIGHT`].
///
/// Source: there. Below it a priority weighs this much.
pub const STREAM_WEIGHT_LEAST: f64 = ringway_dtl::limits::MIN_WEIGHT;

/// Bytes that streams with priorities may leave in a connection's send buffer, unacknowledged or
/// unsent, at least; twice the window if that is more.
///
/// Source: ours; four of [`STREAM_PIECE`], so that fast acknowledgements never find the buffer
/// empty. Past it they wait for their turn.
pub const STREAM_AHEAD_LEAST: u64 = 64 * 1024;
