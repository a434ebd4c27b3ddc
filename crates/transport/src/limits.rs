//! Every bound of this crate: its unit, its source, and what happens past it.

mod dtl;
mod mail;
mod quic;

use std::time::Duration;

pub use self::dtl::*;
pub use self::mail::*;
pub use self::quic::*;

// HELLO.

/// Addresses in one HELLO.
///
/// Source: a machine with a handful of networks and every transport needs fewer. Past it
/// [`Hello::sign`](crate::Hello::sign) and [`Hello::decode`](crate::Hello::decode) refuse the
/// HELLO.
pub const HELLO_ADDRESSES: usize = 16;

/// Bytes of one encoded HELLO.
///
/// Source: 16 descriptors of at most [`ADDRESS_BYTES`] and 35 bytes of fields each, and the
/// signature. Past it the HELLO is refused undecoded.
pub const HELLO_BYTES: usize = 4096;

/// Bytes of one encoded address, of any protocol.
///
/// Source: longer than any mailbox or URL of an organisation's machine, and 16 of them fit into
/// [`HELLO_BYTES`]. Past it the HELLO is refused.
pub const ADDRESS_BYTES: usize = 200;

/// Bytes of the name of a child program's transport.
///
/// Source: shorter than a DNS label; it stands in every address. A longer name is refused.
pub const EXEC_NAME_BYTES: usize = 32;

/// Bytes of the name, and of the value, of the header by which a mailbox's owner filters.
///
/// Source: both fit into one line of a mail (RFC 5322 §2.1.1: 78 characters). Longer ones are
/// refused.
pub const MAIL_FILTER_BYTES: usize = 32;

/// Bytes of one encoded PING or PONG.
///
/// Source: three 32-byte values, a 64-byte signature, one address of [`ADDRESS_BYTES`] and CBOR
/// heads. Past it the message is refused undecoded.
pub const PROBE_BYTES: usize = 384;

// Receipts.

/// Bytes of one encoded receipt.
///
/// Source: two ids, a signature, one address of [`ADDRESS_BYTES`], two numbers and CBOR heads. Past
/// it the receipt is refused undecoded.
pub const RECEIPT_BYTES: usize = 400;

/// Receipts that travel with one HELLO.
///
/// Source: one for each of [`HELLO_ADDRESSES`]; a signature costs 40 µs to verify, so a referral
/// 0.7 ms at most. Past it a referral is refused, and our own carry no more.
pub const REFERRAL_RECEIPTS: usize = HELLO_ADDRESSES;

/// Bytes of one encoded referral.
///
/// Source: a HELLO, its receipts, and CBOR heads. Past it the referral is refused undecoded.
pub const REFERRAL_BYTES: usize = HELLO_BYTES + REFERRAL_RECEIPTS * (RECEIPT_BYTES + 3) + 16;

/// Seconds by which the clocks of members may differ, where a receipt's time is judged.
///
/// Source: as for certificates: clocks of an organisation's machines differ by less. Past it a
/// receipt from the future or the past is ignored.
pub const RECEIPT_SKEW: u64 = 300;

// Validation.

/// Members whose addresses the validator keeps.
///
/// Source: memory, about 14 KiB for a member with 16 addresses: 115 MiB at worst. Past it the
/// member whose HELLO is oldest and who has no valid address makes room; if all have one, the new
/// HELLO is refused.
pub const VALIDATOR_MEMBERS: usize = 8192;

/// Addresses and networks whose PING budget the validator keeps.
///
/// Source: all members with two addresses each, and a network for each. Past it budgets that are
/// full again are forgotten; if none is, no PING leaves for a new address.
pub const VALIDATOR_TARGETS: usize = 3 * VALIDATOR_MEMBERS;

/// PINGs that wait for `poll_transmit`.
///
/// Source: one burst of 64 members with 16 addresses. Past it a due PING is put off by one
/// [`PING_TIMEOUT`] and counts as no attempt.
pub const PING_QUEUE: usize = 1024;

/// PINGs to one address before it is given up. One that has never been proved gets one for each
/// HELLO that names it: after the first, its member is asked for its HELLO again.
///
/// Source: with [`PING_TIMEOUT`] doubling, 1 + 2 + 4 + 8 s outlast a route change. Past it the
/// address waits for another HELLO, or for [`LOST_RETRY`] if it was valid before.
pub const PING_ATTEMPTS: u32 = 4;

/// Wait for a PONG after the first PING; doubled for each further one.
///
/// Source: RFC 6298 §2.1, the first retransmission timer. Past it the PING counts as lost.
pub const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// PINGs that one address may get at once, whichever member advertises it.
///
/// Source: one round of [`PING_ATTEMPTS`]. Past it the next waits for [`ADDRESS_BUDGET_INTERVAL`].
pub const ADDRESS_BUDGET: u32 = PING_ATTEMPTS;

/// Time in which an address earns one more PING.
///
/// Source: a victim named by every member gets less than 10 bytes/s from each peer that is fooled.
/// Past it (sooner) PINGs are put off.
pub const ADDRESS_BUDGET_INTERVAL: Duration = Duration::from_secs(15);

/// PINGs that the addresses of one prefix (IPv4 /24, IPv6 /48), or of one host name, may get at
/// once.
///
/// Source: a site's members behind one prefix, twice the members of a /24 that are met at once.
/// Past it the next waits for [`PREFIX_BUDGET_INTERVAL`].
pub const PREFIX_BUDGET: u32 = 512;

/// Time in which a prefix earns one more PING.
///
/// Source: 10 PINGs a second, 4 kB/s at most, whichever members name whichever addresses of a
/// victim's network. Past it (sooner) PINGs are put off.
pub const PREFIX_BUDGET_INTERVAL: Duration = Duration::from_millis(100);

/// PINGs that one mailbox may get at once, whichever member advertises it.
///
/// Source: one and a repetition: mail queues repeat by themselves. Past it the next waits for
/// [`MAIL_BUDGET_INTERVAL`].
pub const MAIL_BUDGET: u32 = 2;

/// Time in which a mailbox earns one more PING.
///
/// Source: paper, §3: even little mail harasses a person; two a day are not noticed behind a
/// filter. Past it (sooner) PINGs are put off.
pub const MAIL_BUDGET_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// PINGs that the mailboxes of one mail domain may get at once.
///
/// Source: an organisation's members that are met at once by mail. Past it the next waits for
/// [`MAIL_DOMAIN_BUDGET_INTERVAL`].
pub const MAIL_DOMAIN_BUDGET: u32 = 64;

/// Time in which a mail domain earns one more PING.
///
/// Source: 96 a day on top of the burst. Past it (sooner) PINGs are put off.
pub const MAIL_DOMAIN_BUDGET_INTERVAL: Duration = Duration::from_secs(900);

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
/// Source: leaves four rounds of [`PING_ATTEMPTS`] before [`VALID_FOR`] ends. Past it PINGs are
/// sent.
pub const RENEW_AFTER: Duration = Duration::from_secs(450);

/// Wait before a formerly valid address is tried again; doubled each time.
///
/// Source: users want the better path back unaided, within minutes where it was a short break.
/// Past it one new round of PINGs starts.
pub const LOST_RETRY: Duration = Duration::from_secs(300);

/// Longest wait before a formerly valid address is tried again.
///
/// Source: the host that has the address now gets at most 128 PINGs a day, 19 kB. Past it a round
/// of PINGs starts.
pub const LOST_RETRY_MAX: Duration = Duration::from_secs(3600);

// Messages and TCP.

/// Bytes of one message over UDP.
///
/// Source: RFC 9000 §14, a datagram that every Internet path carries. Paths that carry more are
/// found out ([`UDP_LARGEST`]).
pub const UDP_MTU: usize = 1200;

/// Bytes of the longest message that the UDP transport takes and sends.
///
/// Source: an Ethernet frame of 9 000 bytes without the headers of IPv6 and UDP. How much of it a
/// path carries is found out by probes; until then it is [`UDP_MTU`]. Past it as there.
pub const UDP_LARGEST: usize = 8_952;

/// Lengths that are tried on a UDP path, in bytes.
///
/// Source: Ethernet with 1 500 and with 9 000 bytes, without the headers of IPv6 and UDP. Others
/// are not tried.
pub const MTU_CANDIDATES: [u32; 2] = [1_452, 8_952];

/// Packets that had no room for all that waited before it is found out whether the path carries
/// longer ones.
///
/// Source: the probes ([`MTU_CANDIDATES`]) are as long as nine packets of [`UDP_MTU`]. Before it
/// packets are as long as they are.
pub const MTU_WORTH: u32 = 9;

/// Probes of one length that may be lost before the path counts as too narrow for it.
///
/// Source: RFC 8899 §5.1.2, MAX_PROBES. Past it that length rests for [`MTU_AGAIN`].
pub const MTU_TRIES: u32 = 3;

/// How often in a row a long probe may be lost, and the short one after it not, before the path
/// counts as narrow.
///
/// Source: at 5 % loss that happens by chance once in 400 probes. Past it packets are as long as
/// every path carries.
pub const MTU_DOUBTS: u32 = 2;

/// Rest before a length that did not pass is tried again.
///
/// Source: RFC 8899 §5.1.1, PMTU_RAISE_TIMER. Sooner the path is left as it is.
pub const MTU_AGAIN: Duration = Duration::from_secs(600);

/// Bytes of a run of messages that goes to the system as one train of datagrams.
///
/// Source: an IPv4 packet with its headers has at most 65 535 (RFC 791). Past it another train
/// begins.
pub const UDP_TRAIN_BYTES: usize = 65_000;

/// Trains of datagrams that one call receives.
///
/// Source: measured: lone datagrams cost 17 % less of the receiver's time with eight than with one,
/// and no less with 32. Past it another call is made.
pub const UDP_RECEIVE_BATCH: usize = 8;

/// Bytes of one train of datagrams that arrives.
///
/// Source: the longest that Linux puts together (64 datagrams within 64 KiB). A longer one does not
/// exist.
pub const UDP_RECEIVE_BYTES: usize = 64 * 1024;

/// Senders whose session is kept, so that it is not made for each datagram.
///
/// Source: 100 bytes each, 25 KiB; more than the peers that talk at once. Past it senders take each
/// other's place.
pub const UDP_SESSIONS: usize = 256;

/// Bytes of one message through a relay.
///
/// Source: [`UDP_MTU`] without the 80 bytes by which it grows on each half of the way: names,
/// header and tag. A longer one is cut, or dropped by the relay.
pub const RELAY_MTU: usize = 1120;

/// Bytes of one message over TCP.
///
/// Source: the paper, §2.2 (a trade-off between overhead and latency for streams); one TLS record.
/// Past it sending fails with `TooLarge`, and a connection on which a longer frame arrives is
/// closed.
pub const TCP_MTU: usize = 16 * 1024;

/// Connections of one TCP transport, both directions.
///
/// Source: two file descriptors' worth of default `ulimit -n` 1 024 divided by two. Past it the
/// unused connection that has been quiet for longest makes room; if all are in use incoming ones
/// are closed at once and counted, outgoing ones fail with `Busy`.
pub const TCP_CONNECTIONS: usize = 512;

/// Silence after which a TCP connection without a held session is closed.
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

// WebSocket.

/// Bytes of one message over WebSocket.
///
/// Source: as over TCP ([`TCP_MTU`]), so that messages move between both. Past it sending fails
/// with `TooLarge`, and a connection on which a longer frame or message arrives is closed.
pub const WS_MTU: usize = TCP_MTU;

/// Connections of one WebSocket transport, both directions.
///
/// Source: as for TCP ([`TCP_CONNECTIONS`]). Past it the unused one that has been quiet for longest
/// makes room; if all are in use incoming ones are closed at once and counted, outgoing ones fail
/// with `Busy`.
pub const WS_CONNECTIONS: usize = 512;

/// Messages that wait on one WebSocket connection.
///
/// Source: 512 KiB at worst, several times what a peer has room for at once. Past it messages are
/// dropped and counted.
pub const WS_QUEUE: usize = 32;

/// Silence after which a WebSocket connection without a held session is closed.
///
/// Source: as for TCP ([`TCP_IDLE`]). Past it it is closed.
pub const WS_IDLE: Duration = Duration::from_secs(60);

/// Interval of WebSocket pings.
///
/// Source: nginx ends a proxied connection after 60 s of silence (`proxy_read_timeout`), many
/// middleboxes after 30 s. Past it a ping is sent.
pub const WS_KEEP_ALIVE: Duration = Duration::from_secs(25);

/// Time without any complete message, ping or pong after which a WebSocket connection is dead.
///
/// Source: three lost pongs ([`WS_KEEP_ALIVE`]). Past it the connection is closed; this also ends a
/// peer that sends a message byte by byte.
pub const WS_SILENCE: Duration = Duration::from_secs(75);

/// Time in which a message must leave once it is its turn.
///
/// Source: as for TCP ([`TCP_FRAME_TIME`]). Past it the connection is closed.
pub const WS_SEND_TIME: Duration = Duration::from_secs(10);

/// Time in which a stranger must have asked to be upgraded, and a server must have answered.
///
/// Source: TCP, TLS and HTTP are five round trips, each 1 s at worst. Past it the connection is
/// closed (slow-loris), `connect` fails with `TimedOut`.
pub const WS_HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// Bytes of a stranger's HTTP request.
///
/// Source: common servers' limit (nginx: `large_client_header_buffers` of 8 KiB). Past it the
/// connection is closed.
pub const WS_HEAD_BYTES: usize = 8 * 1024;

/// Addresses of one name that are tried.
///
/// Source: two of each IP version. Past it the rest is left alone.
pub const WS_NAME_ADDRESSES: usize = 4;

/// Time in which one address of a name must take the connection, if the name has more of them.
///
/// Source: a SYN and one retransmission (RFC 6298). Past it the next one is tried.
pub const WS_NAME_TIME: Duration = Duration::from_secs(2);

// Child programs.

/// Bytes of one message over a child program, at most.
///
/// Source: what a datagram's length can say. A child that wants a larger MTU is refused; past the
/// MTU that it has, sending fails with `TooLarge`, and a child that delivers a longer message is
/// started again.
pub const EXEC_MTU: usize = 64 * 1024;

/// Bytes of one frame of a child program, behind its length.
///
/// Source: a kind, an address of [`ADDRESS_BYTES`] with its length, and a message of [`EXEC_MTU`].
/// Past it the child is started again.
pub const EXEC_FRAME_BYTES: usize = EXEC_MTU + ADDRESS_BYTES + 3;

/// Messages that wait for one child program.
///
/// Source: 1 MiB at worst. Past it messages are dropped and counted.
pub const EXEC_QUEUE: usize = 16;

/// Time in which a child program must introduce itself.
///
/// Source: an interpreter on a slow disk starts within seconds. Past it `start` fails, or the child
/// is started again.
pub const EXEC_HELLO_TIME: Duration = Duration::from_secs(10);

/// Time in which a frame that has begun must be complete, and in which the child must take one.
///
/// Source: as for TCP ([`TCP_FRAME_TIME`]). Past it the child is stuck and started again.
pub const EXEC_FRAME_TIME: Duration = Duration::from_secs(10);

/// Pause before a child program that ended is started again; doubled each time.
///
/// Source: a program that cannot start costs little. Past it the child is started.
pub const EXEC_PAUSE: Duration = Duration::from_millis(500);

/// Longest such pause, and the time after which a running child has a clean record.
///
/// Source: what was mended is back within a minute. Past it the child is started.
pub const EXEC_PAUSE_LONGEST: Duration = Duration::from_secs(60);

/// Bytes of one line that a child program logs.
///
/// Source: a line is for reading. Past it the rest of the line is dropped.
pub const EXEC_LINE_BYTES: usize = 1024;

/// Lines that a child program may log in one [`EXEC_LINES_TIME`].
///
/// Source: people read no faster, and no child can fill the log's disk. Past it lines are dropped;
/// how many is logged.
pub const EXEC_LINES: u32 = 100;

/// Time in which a child program may log [`EXEC_LINES`].
///
/// Source: a burst at start, then three lines in two seconds. Past it the count begins again.
pub const EXEC_LINES_TIME: Duration = Duration::from_secs(60);

// Path choice.

/// Least MTU of a path that the core reckons with, bytes.
///
/// Source: a handshake packet, which is never cut, has up to 700 bytes. A transport with less
/// cannot carry links.
pub const LEAST_MTU: usize = 800;

/// Paths to one peer.
///
/// Source: twice the addresses of a HELLO: those advertised and those from which the peer is heard.
/// Past it the worst one that is not in use is forgotten.
pub const PATHS: usize = 2 * HELLO_ADDRESSES;

/// Time between the first message over a path and a probe, if none was answered since.
///
/// Source: with [`PATH_PROBE`] and [`PATH_PROBES`] a path that has died is left 2.8 s after the
/// next message. Shorter costs probes, longer delays the change.
pub const PATH_SILENCE: Duration = Duration::from_secs(1);

/// Wait for a probe's answer, or twice the round trip if that is longer.
///
/// Source: longer than the round trip of nearly every path. Past it the probe counts as lost.
pub const PATH_PROBE: Duration = Duration::from_millis(600);

/// Probes lost in a row after which a path does not work.
///
/// Source: at 5 % loss three in a row are lost once in 8 000 times. Past it the next best path is
/// used.
pub const PATH_PROBES: u32 = 3;

/// Age of a proof up to which a link moves to a better path at once.
///
/// Source: longer than a probe's round trip, shorter than any outage. Past it the path is probed
/// first.
pub const PATH_FRESH: Duration = Duration::from_secs(5);

/// Silence after which the path in use is doubted if the peer shows up elsewhere.
///
/// Source: twice [`PATH_SILENCE`]: longer than the round trip of nearly every path. Past it the
/// peer has moved, if it answers there.
pub const PATH_QUIET: Duration = Duration::from_secs(2);

/// Pause between probes of a path that would be better than the one in use.
///
/// Source: a better path is back in use within half a minute, at 0.5 MB a day. Sooner it is left
/// alone.
pub const PATH_LOOK: Duration = Duration::from_secs(30);

/// Pause between probes of the path in use while nothing is sent.
///
/// Source: RFC 4787 REQ-5 lets NAT mappings of UDP end after 2 minutes, many end after 30 s; 0.6 MB
/// a day. Sooner no probe leaves.
pub const PATH_KEEP: Duration = Duration::from_secs(25);

/// Rest of a path that has stopped working, before it is probed again; doubled each time that it
/// stops again soon.
///
/// Source: a short break is over by then, and a link that comes and goes is not followed. Sooner it
/// is not used.
pub const PATH_DEAD: Duration = Duration::from_secs(5);

/// Longest such rest of a path that comes and goes, and the time after which a path that works has
/// a clean record.
///
/// Source: a path that breaks every minute is not worth following. Past it the path is probed.
pub const PATH_REST_LONGEST: Duration = Duration::from_secs(300);

/// Longest pause between probes of a path that stays away: a quarter of the time that it has been
/// away.
///
/// Source: a path that was away for a day is found within a minute of its return, for 130 kB a day.
/// Past it the path is probed.
pub const PATH_AWAY: Duration = Duration::from_secs(60);

/// Time between two changes to a path of the same kind for speed alone.
///
/// Source: round-trip times vary within seconds; what they say counts when it lasts. Sooner the
/// link stays where it is.
pub const PATH_REST: Duration = Duration::from_secs(30);

/// Loss above which a path counts as lossy, in 1/256.
///
/// Source: a fifth: TCP is of little use beyond, and two lost probes of ten are no accident. Past
/// it any path with less is preferred.
pub const PATH_LOSSY: u32 = 51;

/// The first port that every program may have, where the kernel does not say.
///
/// Source: Linux's default of `net.ipv4.ip_unprivileged_port_start`. Below it, the reason for a
/// refusal names the capability that is needed.
pub const UNPRIVILEGED_PORTS_FROM: u16 = 1_024;
