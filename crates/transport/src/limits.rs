//! Every bound of this crate: its unit, its source, and what happens past it.

use std::time::Duration;

// HELLO.

/// Addresses in one HELLO.
///
/// Source: design, issue "Transport abstraction", part 1. Past it [`Hello::sign`](crate::Hello::sign)
/// and [`Hello::decode`](crate::Hello::decode) refuse the HELLO.
pub const HELLO_ADDRESSES: usize = 16;

/// Bytes of one encoded HELLO.
///
/// Source: 16 descriptors of at most [`ADDRESS_BYTES`] and 40 bytes of fields each fit five times
/// over for socket addresses, once for mail addresses. Past it the HELLO is refused undecoded.
pub const HELLO_BYTES: usize = 4096;

/// Bytes of one encoded address, of any protocol.
///
/// Source: RFC 5321 §4.5.3.1.3, a mail path has at most 256 bytes. Past it the HELLO is refused.
pub const ADDRESS_BYTES: usize = 256;

/// Bytes of one encoded PING or PONG.
///
/// Source: three 32-byte values, a 64-byte signature, one socket address and CBOR heads make 230.
/// Past it the message is refused undecoded.
pub const PROBE_BYTES: usize = 256;

// Validation.

/// Members whose addresses the validator keeps.
///
/// Source: memory, about 10 KiB for a member with 16 addresses: 80 MiB at worst. Past it the member
/// whose HELLO is oldest and who has no valid address makes room; if all have one, the new HELLO is refused.
pub const VALIDATOR_MEMBERS: usize = 8192;

/// Addresses whose PING budget the validator keeps.
///
/// Source: all members with two addresses each. Past it budgets that are full again are forgotten;
/// if none is, no PING leaves for a new address.
pub const VALIDATOR_ADDRESSES: usize = 2 * VALIDATOR_MEMBERS;

/// PINGs that wait for `poll_transmit`.
///
/// Source: one burst of 64 members with 16 addresses. Past it a due PING is put off by one
/// [`PING_TIMEOUT`] and counts as no attempt.
pub const PING_QUEUE: usize = 1024;

/// PINGs to one unproven address before it is given up until a newer HELLO names it.
///
/// Source: with [`PING_TIMEOUT`] doubling, 1 + 2 + 4 + 8 s outlast a route change. Past it the
/// address waits for a newer HELLO, or for [`LOST_RETRY`] if it was valid before.
pub const PING_ATTEMPTS: u32 = 4;

/// Wait for a PONG after the first PING; doubled for each further one.
///
/// Source: RFC 6298 §2.1, the first retransmission timer. Past it the PING counts as lost.
pub const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// PINGs that one address may get at once, whoever advertises it.
///
/// Source: one round of [`PING_ATTEMPTS`]. Past it the next waits for [`ADDRESS_BUDGET_INTERVAL`].
pub const ADDRESS_BUDGET: u32 = PING_ATTEMPTS;

/// Time in which an address earns one more PING.
///
/// Source: a victim named by every member gets less than 10 bytes/s from each peer that is fooled.
/// Past it (sooner) PINGs are put off.
pub const ADDRESS_BUDGET_INTERVAL: Duration = Duration::from_secs(15);

/// PINGs that one advertiser's HELLOs may cause at once.
///
/// Source: two rounds over [`HELLO_ADDRESSES`]. Past it the next waits for
/// [`ADVERTISER_BUDGET_INTERVAL`].
pub const ADVERTISER_BUDGET: u32 = 32;

/// Time in which an advertiser earns one more PING.
///
/// Source: 16 addresses renewed every [`VALID_FOR`] need one in 37 s; eight times that.
/// Past it (sooner) PINGs are put off.
pub const ADVERTISER_BUDGET_INTERVAL: Duration = Duration::from_secs(5);

/// PONGs signed at once.
///
/// Source: 10 µs a signature: 256 cost 3 ms. Past it PINGs go unanswered until
/// [`PONG_BUDGET_INTERVAL`] earns one more.
pub const PONG_BUDGET: u32 = 256;

/// Time in which one more PONG is earned.
///
/// Source: 1 000 signatures/s, 1 % of a core. Past it (sooner) PINGs go unanswered.
pub const PONG_BUDGET_INTERVAL: Duration = Duration::from_millis(1);

/// Validity of an address after a PONG.
///
/// Source: NAT mappings and leases change in minutes to hours; ten minutes keep renewal below
/// 1 MB a day and peer. Past it the address is not usable.
pub const VALID_FOR: Duration = Duration::from_secs(600);

/// Age of a validation at which its renewal starts.
///
/// Source: leaves four rounds of [`PING_ATTEMPTS`] before [`VALID_FOR`] ends. Past it PINGs are sent.
pub const RENEW_AFTER: Duration = Duration::from_secs(450);

/// Wait before a formerly valid address is tried again; doubled each time.
///
/// Source: users want the better path back unaided, within minutes where it was a short break.
/// Past it one new round of PINGs starts.
pub const LOST_RETRY: Duration = Duration::from_secs(300);

/// Longest wait before a formerly valid address is tried again.
///
/// Source: whoever has the address now gets at most 128 PINGs a day, 19 kB. Past it a round of PINGs starts.
pub const LOST_RETRY_MAX: Duration = Duration::from_secs(3600);

// Messages and TCP.

/// Bytes of one message over UDP.
///
/// Source: RFC 9000 §14, a datagram that every Internet path carries. Past it sending fails with
/// `TooLarge`, and a longer datagram that arrives is dropped and counted.
pub const UDP_MTU: usize = 1200;

/// Bytes of one message over TCP.
///
/// Source: the paper, §2.2 (a trade-off between overhead and latency for streams); one TLS record.
/// Past it sending fails with `TooLarge`, and a connection on which a longer frame arrives is closed.
pub const TCP_MTU: usize = 16 * 1024;

/// Connections of one TCP transport, both directions.
///
/// Source: two file descriptors' worth of default `ulimit -n` 1 024 divided by two. Past it incoming
/// connections are closed at once and counted, outgoing ones fail with `Busy`.
pub const TCP_CONNECTIONS: usize = 512;

/// Silence after which a TCP connection that nobody holds a session of is closed.
///
/// Source: the paper, §2.2: sessions that are not associated must time out. Past it it is closed.
pub const TCP_IDLE: Duration = Duration::from_secs(60);

/// Time in which a frame that has begun must be complete, and in which a queued rest must leave.
///
/// Source: 16 KiB over the slowest link worth using, 16 kbit/s. Past it the connection is closed
/// (slow-loris).
pub const TCP_FRAME_TIME: Duration = Duration::from_secs(10);

/// Time in which a connection must be made.
///
/// Source: three SYN retransmissions (RFC 6298). Past it `connect` fails with `TimedOut`.
pub const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Wait after the listener could not accept a connection, for example without descriptors.
///
/// Source: keeps the loop from spinning while the cause lasts. Past it accepting goes on.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

// QUIC.

/// Established QUIC connections of one endpoint, both directions.
///
/// Source: at worst [`QUIC_CONNECTION_WINDOW`] each, and only admitted members get that far. Past it
/// incoming connections are refused, outgoing ones fail with `Busy`.
pub const QUIC_CONNECTIONS: usize = 1024;

/// QUIC handshakes of strangers in progress at once.
///
/// Source: about 30 KiB and 100 µs of signature work each. Past half of it peers must prove their
/// address first (Retry, RFC 9000 §8.1.2), past it they are refused.
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
/// Source: a transfer has a connection of its own with one stream; a few more may overlap as streams end. Past it the
/// peer waits until one is closed.
pub const QUIC_STREAMS: u32 = 4;

/// Bytes a peer may send ahead on one stream.
///
/// Source: noq 1.4 ends the *connection* with "too many gaps in stream buffer" when 2 048 pieces of
/// one stream wait for a gap to close or for their reader, whether or not they touch. In datagrams of
/// 1 200 bytes this window is 1 370 pieces: room for retransmissions in other cuts. It lets one stream
/// carry 126 Mbit/s at 100 ms; a transfer that wants more uses several streams. Past it the peer waits.
pub const QUIC_STREAM_WINDOW: u32 = 1536 * 1024;

/// Bytes a peer may send ahead on one connection, over all streams.
///
/// Source: twice [`QUIC_STREAM_WINDOW`], for a stream that ends beside one that begins; bounds what one connection can make
/// us keep. Past it the peer waits.
pub const QUIC_CONNECTION_WINDOW: u32 = 2 * QUIC_STREAM_WINDOW;

/// Bytes that wait unacknowledged or unsent on one connection before writers wait.
///
/// Source: as much as the peer may accept. Past it `write` waits.
pub const QUIC_SEND_WINDOW: u64 = 16 * 1024 * 1024;

/// Bytes of the system's buffers of a UDP socket, for each direction.
///
/// Source: Linux gives 208 KiB unless asked, three bursts of segmentation offload: on loopback 1.5 %
/// of the packets were lost. The system grants less silently (`net.core.rmem_max`). Past it the
/// system drops arriving datagrams, and refuses departing ones.
pub const SOCKET_BUFFER: usize = 2 * 1024 * 1024;

/// Silence after which a QUIC connection is dead.
///
/// Source: three lost keep-alives ([`QUIC_KEEP_ALIVE`]). Past it the connection closes with `TimedOut`.
pub const QUIC_IDLE: Duration = Duration::from_secs(10);

/// Interval of QUIC keep-alives.
///
/// Source: RFC 9308 §3.2, well below the 30 s of common NAT mappings. Past it one PING frame is sent.
pub const QUIC_KEEP_ALIVE: Duration = Duration::from_secs(3);

/// Time in which a QUIC handshake must end.
///
/// Source: three retransmissions of the first packet. Past it the attempt fails with `TimedOut`.
pub const QUIC_HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// Packets a peer may receive without acknowledging at once.
///
/// Source: draft-ietf-quic-ack-frequency; zero gives the controller one delay sample a packet. Past
/// it the peer acknowledges at once.
pub const QUIC_ACK_THRESHOLD: u32 = 0;

/// Longest delay of an acknowledgement that we ask the peer for.
///
/// Source: measured: without it lone packets read 57–60 ms on a 20 ms path. Past it the peer
/// acknowledges what it has.
pub const QUIC_ACK_DELAY: Duration = Duration::from_millis(5);

/// Datagrams below which the window told to QUIC never falls.
///
/// Source: measured: QUIC sends nothing while in flight + one datagram exceeds the window, so a
/// smaller window stalls. Past it (below) the pacing rate alone throttles.
pub const CONTROLLER_WINDOW_DATAGRAMS: u64 = 2;

/// Acknowledged packets kept until their batch ends.
///
/// Source: [`QUIC_SEND_WINDOW`] in datagrams of 1 200 bytes, rounded up. Past it the batch goes to the controller in parts.
pub const CONTROLLER_BATCH: usize = 16 * 1024;

/// Runs of packets sent at one instant whose time is remembered for loss reports.
///
/// Source: one run per burst of 2 ms or more: over two seconds of sending. Past it the oldest are
/// forgotten and a lost packet takes the time of the oldest run that is left.
pub const CONTROLLER_SEND_RUNS: usize = 1024;
