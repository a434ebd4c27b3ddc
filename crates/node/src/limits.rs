//! Every bound of this crate: unit, source, and what happens past it.

mod address;
mod backup;
mod bundle;
mod distribution;
mod link;
mod members;
mod message;
mod network;
mod priorities;
mod renewal;
mod rotation;
mod sso;
mod streams;
mod tallies;
mod transfer;

pub use address::*;
pub use backup::*;
pub use bundle::*;
pub use distribution::*;
pub use link::*;
pub use members::*;
pub use message::*;
pub use network::*;
pub use priorities::*;
pub use renewal::*;
pub use rotation::*;
pub use sso::*;
pub use streams::*;
pub use tallies::*;
pub use transfer::*;

pub use ringway_client::limits::{
    BATCH_PAUSE, BATCHED_BYTES, BATCHED_MESSAGES, CONTROL_LINE, MAX_RELEASE,
};

/// Sessions with other members held at once.
///
/// Source: a router of a ring of 100 000 has about 17 fingers, 16 successors and its leaves. Past
/// it new handshakes are refused and counted.
pub const MAX_LINKS: usize = 1024;

/// Bytes of a member's name.
///
/// Source: shorter than the 52 characters of a member id, so that the two cannot be confused; a DNS
/// label has at most 63 (RFC 1035 §2.3.4). A longer name is refused.
pub const NAME_BYTES: usize = 32;

/// Bytes of a file of evidence.
///
/// Source: two certificates, two statements of 220 bytes each, a signature, and what CBOR needs:
/// 1190. A longer one is malformed.
pub const EVIDENCE_BYTES: usize = 1_280;

/// Files of evidence that are read at a start.
///
/// Source: `ringway_overlay::limits::MAX_CONVICTED`. Those past it are not used until the ring
/// tells of them again.
pub const EVIDENCE_FILES: usize = 4_096;

/// Bytes of a certificate.
///
/// Source: the largest possible one is 253 bytes; it must fit, twice, into one handshake message of
/// 1 200 bytes. A longer one is malformed.
pub const CERTIFICATE_BYTES: usize = 300;

/// Bytes of a ring statement.
///
/// Source: [`REVOCATIONS`] serials of at most 9 bytes and the fixed fields; a DNS message has at
/// most 65 535 (RFC 1035 §4.2.2), a TXT record in base64 a third more than this. A longer one is
/// malformed.
pub const STATEMENT_BYTES: usize = 40_000;

/// Serials in one statement: one for each certificate that is revoked and has not expired, two for
/// each that was replaced, one for each whose holder is asked to change its key.
///
/// Source: what fits into [`STATEMENT_BYTES`]. The authority refuses to revoke or rotate more
/// before some have expired.
pub const REVOCATIONS: usize = 4_096;

/// Statements that members have brought to an authority that does not know them.
///
/// Source: chosen: members bring the newest that they know, which is the same one for nearly all.
/// Past it those with the lowest numbers are dropped.
pub const FOUND_STATEMENTS: usize = 16;

/// Certificates that members have brought with them.
///
/// Source: chosen: more than any ring is likely to gain between a backup and its restoration; each
/// takes [`CERTIFICATE_BYTES`]. Past it no more are taken: those members stay unknown to the
/// authority until they join again.
pub const FOUND_CERTIFICATES: usize = 4_096;

/// Older statements that a member keeps because the newest one does not say all that they say.
///
/// Source: chosen: one for each time that an authority was restored from a backup. Past it those
/// are dropped of which the authority has answered that it knows them, then the newest.
pub const FORGOTTEN_STATEMENTS: usize = 4;

/// How long the ring's DNS has to give an older statement than a member knows before the member
/// brings its own to the authority.
///
/// Source: records may be cached for 5 s, and the authority publishes within one. Past it the
/// authority is brought the statement, and takes it if it was restored.
pub const STATEMENT_BEHIND: std::time::Duration = std::time::Duration::from_secs(15);

/// Pause between two tries to bring it.
///
/// Source: an owner mends it in minutes; a thousand members come seventeen times a second then.
/// Past it the next one begins.
pub const STATEMENT_BRING: std::time::Duration = std::time::Duration::from_secs(60);

/// The same once the authority has answered that it knows all of it. As often a member looks
/// whether the ring's DNS has its record.
///
/// Source: then the ring's DNS is only slow: a secondary server may lag by an hour. Past it the
/// next one begins.
pub const STATEMENT_BRING_KNOWN: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Bytes of a ring's domain.
///
/// Source: RFC 1035 §2.3.4 allows 255 for a whole name; the longest name below it needs 57 more. A
/// longer domain is refused.
pub const DOMAIN_BYTES: usize = 190;

/// Characters of an invite.
///
/// Source: 90 bytes, the longest domain, and the longest host name with its port, in base32. A
/// longer text is no invite.
pub const INVITE_TEXT: usize = 832;

/// Wrong tries that a spoken invite lets pass.
///
/// Source: words are misheard, mostly once; three tries at 24 bits succeed once in 5.6 million
/// invites. The last one makes the spoken form worthless for good, also after a restart; the long
/// form of the same invite goes on working.
pub const SPOKEN_TRIES: u8 = 3;

/// How often something may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryRate {
    /// Tries at once.
    pub burst: u32,
    /// Time after which one more is allowed.
    pub every: std::time::Duration,
}

/// Wrong spoken invites in all, from any senders.
///
/// Source: ten invites' worth at once, then one invite in half a minute, which an owner can notice
/// in the log; honest mistakes are far fewer. Past it spoken invites are refused, and lose nothing
/// by it; long ones are taken. A restart forgets it.
pub const SPOKEN_RATE: TryRate = TryRate {
    burst: 30,
    every: std::time::Duration::from_secs(10),
};

/// Wrong spoken invites from one IPv4 address or one IPv6 network of 64 bits.
///
/// Source: one invite with all its tries and half of another, behind one NAT; below
/// [`SPOKEN_RATE`], so that one source alone cannot use that up. Past it as there.
pub const SPOKEN_SOURCE_RATE: TryRate = TryRate {
    burst: 5,
    every: std::time::Duration::from_secs(60),
};

/// Allowed lengths of a router's successor list (r).
///
/// Source: Zave's proof needs at least 2; 16 survive any 15 neighbouring crashes, and all fit into
/// one message. Another length is refused at `ring init`.
pub const SUCCESSORS: std::ops::RangeInclusive<usize> = 2..=16;

/// Members of a group, where the owner says nothing else.
///
/// Source: the default of `ringway_overlay::Config`; the bounds are that crate's. Others are
/// refused.
pub const GROUP: u8 = 9;

/// How long a certificate is valid, unless the ring was made with less.
///
/// Source: a year, as is usual for machines' certificates; members renew theirs by themselves
/// ([`RENEW_AFTER`]). Past it the member is refused everywhere.
pub const CERTIFICATE_LIFETIME: std::time::Duration = std::time::Duration::from_secs(365 * 86_400);

/// How far a new certificate's validity begins in the past.
///
/// Source: clocks of an organisation's machines differ by less. A member whose clock is further
/// behind refuses new certificates.
pub const CLOCK_SKEW: std::time::Duration = std::time::Duration::from_secs(300);

/// Routers that an enrolment names to a new member.
///
/// Source: five random bootstraps reach an honest one in 99.7 % of joins with 30 % malicious
/// routers (simulation); the rest are spares for routers that are off. More are not named.
pub const BOOTSTRAP_ROUTERS: usize = 16;

/// Enrolments served at once.
///
/// Source: one takes milliseconds; a person invites a few members at a time. Past it the one that
/// has said nothing for longest makes room; while all are busy with an invite, further ones wait in
/// the listener's backlog.
pub const ENROL_CONNECTIONS: usize = 64;

/// Of these from one source: an IPv4 address, or a /64 of IPv6.
///
/// Source: chosen: a quarter, so that four sources have to work together to take all. Past it the
/// source's own quietest one makes room; while all of its own are busy with an invite, further ones
/// are closed.
pub const ENROL_PER_SOURCE: usize = ENROL_CONNECTIONS / 4;

/// Connections over which DNS is answered at once.
///
/// Source: RFC 7766 §6.2.2; resolvers use TCP for answers that are too long for UDP, one connection
/// each. Past it the one that has asked nothing for longest makes room.
pub const DNS_CONNECTIONS: usize = 128;

/// Of these from one source: an IPv4 address, or a /64 of IPv6.
///
/// Source: chosen: a quarter; an organisation's resolvers are a few machines. Past it the source's
/// own quietest one makes room.
pub const DNS_PER_SOURCE: usize = DNS_CONNECTIONS / 4;

/// Bytes of one query over TCP.
///
/// Source: a name of 255 bytes, and options. Past it the connection is closed.
pub const DNS_QUERY_BYTES: usize = 4_096;

/// Bytes of an answer over UDP, whatever size the query asks for.
///
/// Source: RFC 1035 §4.2.1. The sender's address is not proved, and an answer of more would be sent
/// to a victim. Past it the answer is truncated and marked: resolvers repeat the query over TCP.
pub const DNS_UDP_BYTES: u16 = 512;

/// Time in which the next query must have come, and in which an answer must leave.
///
/// Source: RFC 7766 §6.2.3: a few seconds. Past it the connection is closed.
pub const DNS_TIME: std::time::Duration = std::time::Duration::from_secs(5);

/// Files and sockets that a member or an authority may have open.
///
/// Source: 512 connections each of TCP and WebSocket, QUIC, mail, files on their way, and room;
/// eight times the usual first limit of 1 024. Past it connections are not accepted until others
/// have ended.
pub const OPEN_FILES: u64 = 8_192;

/// How long one enrolment may take on either side.
///
/// Source: three round trips and one write to disk, on a slow and lossy path. Past it the
/// connection is closed; the member can try again.
pub const ENROL_TIME: std::time::Duration = std::time::Duration::from_secs(15);

/// Routers remembered for the next start.
///
/// Source: more than any join needs ([`BOOTSTRAP_ROUTERS`]). The one not seen for longest is
/// forgotten.
pub const KNOWN_ROUTERS: usize = 64;

/// Certificates held in memory.
///
/// Source: about 400 bytes each; every link, finger and successor needs one. The one not used for
/// longest is dropped and asked for again.
pub const DIRECTORY_ENTRIES: usize = 4_096;

/// Names remembered as absent.
///
/// Source: as [`DIRECTORY_ENTRIES`]. Past it all are forgotten and asked for again.
pub const ABSENT_ENTRIES: usize = 1_024;

/// How long a name that DNS has denied is not asked for again.
///
/// Source: chosen; a member that was just admitted is to be found at once, and a loop of requests
/// is not to reach DNS each time. Past it DNS is asked.
pub const ABSENT_FOR: std::time::Duration = std::time::Duration::from_secs(2);

/// Bytes of a frame around a transfer's content.
///
/// Source: the longest is an accept with [`MISSING_RANGES`] ranges of 18 bytes. A longer one ends
/// the connection.
pub const FRAME_BYTES: usize = 64 * 1024;

/// Ranges of missing chunks that a receiver names.
///
/// Source: a cut-off transfer has one; damage on disk adds a few. Past it everything from the last
/// range on is sent again.
pub const MISSING_RANGES: usize = 1_024;

/// Bytes of a received file's name.
///
/// Source: 255 is the limit of Linux file systems; a few are kept for a number behind it. A longer
/// name is shortened before its extension.
pub const FILE_NAME_BYTES: usize = 240;

/// Bytes of an extension that a name keeps when it is shortened.
///
/// Source: chosen: those that programs go by have a few letters. A longer one is no extension.
pub const FILE_EXTENSION_BYTES: usize = 16;

/// Blocks of 64 KiB that wait between disk and network, for each transfer.
///
/// Source: 1 MiB rides out a slow disk without holding much. Past it the faster side waits.
pub const PIPE_BLOCKS: usize = 16;

/// How long a sender waits for the answer to its offer, and a receiver for the offer.
///
/// Source: a receiver hashes what it has of a file first, at 1 GB/s or more: this covers 100 GB.
/// Past it the attempt ends and is repeated.
pub const ANSWER_TIME: std::time::Duration = std::time::Duration::from_secs(120);

/// How long a sender waits for the reason when its stream was stopped in the middle.
///
/// Source: the receiver says it at once; this is some round trips of any path. Past it the attempt
/// ends without, and is repeated.
pub const REFUSAL_TIME: std::time::Duration = std::time::Duration::from_secs(5);

/// Commands and outcomes that wait for the member's task.
///
/// Source: the control socket serves [`CONTROL_CONNECTIONS`] at once, transfers add as many. Past
/// it the asker waits.
pub const COMMANDS: usize = 256;

/// Packets taken from the transports before output and timers have their turn.
///
/// Source: one batch of received datagrams. More wait in the transports' queue.
pub const INPUT_BATCH: usize = 64;

/// Packets to one address that a transport gets at once.
///
/// Source: the longest train of datagrams that Linux sends (64 segments). More make a further
/// batch.
pub const OUTPUT_BATCH: usize = 64;

/// Received packets that wait for the member's task.
///
/// Source: 1.2 MiB of full datagrams, 16 MiB of TCP's largest messages. Past it the transports drop
/// and count.
pub const INCOMING: usize = 1_024;

/// Sessions of transports held at once.
///
/// Source: four addresses for each of [`MAX_LINKS`]. Past it closed ones are forgotten first, then
/// new ones are not kept.
pub const TRANSPORT_SESSIONS: usize = 4 * MAX_LINKS;

/// Packets that wait while a transport connects.
///
/// Source: a handshake and its repetitions. Past it they are dropped and counted.
pub const CONNECT_QUEUE: usize = 8;

/// Characters that are kept of an error of a transport.
///
/// Source: an address of 255 characters and the system's words. What is longer is cut.
pub const CONNECT_ERROR: usize = 512;

/// Addresses of which the last error is remembered.
///
/// Source: chosen: more than a member configures; each takes [`CONNECT_ERROR`] at most. Past it the
/// oldest of one that is not configured is forgotten.
pub const CONNECT_FAILURES: usize = 256;

/// Look-ups at once of somebody unknown who wants to connect by QUIC.
///
/// Source: a member's first contact is rare, and its stranger's handshake costs the stranger a
/// signature. Past it an unknown member is refused without one.
pub const LOOKED_UP: usize = 4;

/// Pings and searches for a peer's address under way at once.
///
/// Source: what control connections and transfers can ask for. Past it they are refused.
pub const ECHOES: usize = 1_024;

/// How long a peer may take to answer, from nothing to a proven address.
///
/// Source: five handshake attempts take 5.5 s, HELLO and PING two round trips more. Past it the
/// peer counts as unreachable.
pub const PEER_TIME: std::time::Duration = std::time::Duration::from_secs(8);

/// How long a transfer waits for the proof of a QUIC address before it goes over the link.
///
/// Source: two PINGs; a firewall that drops UDP never answers. Past it the transfer is slower than
/// it could be.
pub const QUIC_TIME: std::time::Duration = std::time::Duration::from_secs(3);

/// How long a leaf waits for its parent's answer.
///
/// Source: longer than the overlay's own time limit for a lookup. Past it the lookup has failed.
pub const LOOKUP_TIME: std::time::Duration = std::time::Duration::from_secs(12);

/// Lookups that a router runs for one leaf at once.
///
/// Source: a person's commands; a leaf that floods is refused beyond.
pub const LEAF_LOOKUPS: usize = 16;

/// Hops that an answer to a leaf names.
///
/// Source: 24 of 34 bytes fit into one message beside the rest; a lookup in a ring of 100 000 takes
/// about 9. Later ones are left out.
pub const ROUTE_HOPS: usize = 24;

/// Routers that a leaf is linked to.
///
/// Source: three, so that one may fail while another restarts. More are not dialled.
pub const PARENTS: usize = 3;

/// Routers whose certificates are asked for at once.
///
/// Source: as many as a join meets. Past it messages to further ones are dropped; the overlay
/// repeats them.
pub const UNRESOLVED: usize = 64;

/// Messages that wait for one router's certificate.
///
/// Source: the overlay has one or two requests open with a member. Past it they are dropped; the
/// overlay repeats them.
pub const UNRESOLVED_MESSAGES: usize = 4;

/// Connections to the control socket at once.
///
/// Source: a person's terminals and a few scripts. Past it the one that has asked nothing for
/// longest is closed; if all have, a connection waits to be accepted.
pub const CONTROL_CONNECTIONS: usize = 64;

/// Time in which a request on the control socket must be complete.
///
/// Source: a program writes it at once. Past it the connection is closed.
pub const CONTROL_TIME: std::time::Duration = std::time::Duration::from_secs(30);

/// Records that a router puts and gets for one leaf at once.
///
/// Source: eight times [`RECORDS_AT_ONCE`], as putting one takes seconds where routers have died; a
/// leaf that floods is refused beyond.
pub const LEAF_RECORDS: usize = 64;

/// Own records that a member puts again at once, twice a second.
///
/// Source: ours; as many as a member may have are through in 16 s. The rest waits.
pub const RECORDS_AT_ONCE: usize = 8;

/// How long a leaf waits for its parents to put or get a record.
///
/// Source: the overlay's time limit for the lookup, and as much as three tries to reach a router
/// take. Past it what has come is the answer.
pub const RECORD_TIME: std::time::Duration = std::time::Duration::from_secs(14);

/// The same after most of them have answered.
///
/// Source: ours; the others began at the same moment. Past it what has come is the answer.
pub const PARENT_RECORD_TIME: std::time::Duration = std::time::Duration::from_secs(2);

/// Time from the start, and from a put that failed, until a member puts its records again.
///
/// Source: ours; by then it is in the ring, or has a parent. It is done then.
pub const RECORDS_FIRST: std::time::Duration = std::time::Duration::from_secs(20);

/// Time between two times at which a member puts its records again.
///
/// Source: ours; for one record nine messages an hour. It is done then.
pub const RECORDS_AGAIN: std::time::Duration = std::time::Duration::from_secs(3600);

/// How long a leaf waits for one parent before it asks another as well.
///
/// Source: a lookup takes a few round trips; a parent that has just died is still linked for
/// seconds. All parents may be asked in the end.
pub const PARENT_TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// Transport sessions of senders that have not proven to be members.
///
/// Source: as many handshakes as may wait ([`HALF_OPEN`]); half of the TCP connections, so that
/// strangers who say something cannot take all of them. Past it the oldest is forgotten: its TCP
/// connection may be closed when others want the slot.
pub const STRANGER_SESSIONS: usize = HALF_OPEN;

/// How long such a session is kept.
///
/// Source: a handshake takes a round trip; repetitions come within 5.5 s. Past it a TCP connection
/// is closed.
pub const STRANGER_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// Signatures in a member's messages (HELLOs, its own and those of leaves) that are checked a
/// second.
///
/// Source: twice [`HANDED_OVER`] a second is what a router hands over; 2 % of a core. Past it such
/// messages are dropped, and counted.
pub const SIGNATURES_PER_SECOND: u32 = 300;

/// Of these, at once after a pause.
///
/// Source: chosen; two seconds of [`SIGNATURES_PER_SECOND`]. Past it they are dropped.
pub const SIGNATURES_AT_ONCE: u32 = 600;

/// How long nothing of that is checked after a signature that does not verify.
///
/// Source: chosen; no honest member sends one, unless its memory is broken. A sender of nothing
/// else costs six checks a minute.
pub const SIGNATURE_BAN: std::time::Duration = std::time::Duration::from_secs(10);

/// Members whose share of such work is counted.
///
/// Source: twice [`MAX_LINKS`]: they are forgotten within 12 s. Past it others wait.
pub const MEMBERS_CHECKED: usize = 2 * MAX_LINKS;

/// Pause between two requests for a HELLO that has not come, and between two answers to such
/// requests.
///
/// Source: a round trip and more. A lost HELLO delays a transfer by this.
pub const HELLO_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// Bytes per second that a router passes on for all others together, unless `ringway.toml` says
/// otherwise.
///
/// Source: a file of 1 GiB in two minutes; a twelfth of a gigabit line. Past it packets wait.
pub const RELAY_RATE: u64 = 10 << 20;

/// Bytes that a router passes on at once after a pause.
///
/// Source: a tenth of a second at a megabyte a second; a handshake never waits. Past it packets
/// wait.
pub const RELAY_BURST: u64 = 128 << 10;

/// Packets of one sender that wait to be passed on.
///
/// Source: 160 kB, a burst of QUIC's, 16 ms of the whole [`RELAY_RATE`]. Past it that sender's
/// newest packet is dropped and counted.
pub const RELAY_QUEUE: usize = 150;

/// Senders whose packets wait to be passed on.
///
/// Source: every link of a router may have one ([`MAX_LINKS`]). Past it a further sender's packet
/// is dropped and counted.
pub const RELAY_SENDERS: usize = MAX_LINKS;

/// Time in which a parent reports again to the ring where its leaves are.
///
/// Source: a router that crashes takes what it kept with it; leaves are found again after this.
/// Sooner it is only said what has changed.
pub const REGISTER_PAUSE: std::time::Duration = std::time::Duration::from_secs(30);

/// How long a parent that has confirmed a registration needs no other, unless something changes or
/// the link is made again.
///
/// Source: in case it has forgotten nevertheless; an idle leaf has nothing to say. Past it the leaf
/// registers again.
pub const REGISTERED_FOR: std::time::Duration = std::time::Duration::from_secs(1800);

/// The same where only mail leads to the parent.
///
/// Source: chosen; a registration and its answer are two mails, and new keys for them three more,
/// of the hundred a day that one mailbox may get. The parent renews by itself what it has
/// received, for as long as the link is up. Past it the leaf registers again.
pub const REGISTERED_FOR_BY_MAIL: std::time::Duration = std::time::Duration::from_secs(6 * 3600);

/// Pause before a registration that no parent has confirmed is repeated.
///
/// Source: a round trip and more, as [`HELLO_PAUSE`].
pub const REGISTER_AGAIN: std::time::Duration = std::time::Duration::from_secs(2);

/// The same where only mail leads to the parent.
///
/// Source: servers that put a stranger's first mail off (greylisting, RFC 6647) want it again some
/// minutes later. A lost one costs that much.
pub const REGISTER_AGAIN_BY_MAIL: std::time::Duration = std::time::Duration::from_secs(900);

/// How long a router keeps a leaf's HELLO.
///
/// Source: four registrations ([`REGISTER_PAUSE`]). Past it the leaf is not found.
pub const LEAF_ENTRY_TIME: std::time::Duration = std::time::Duration::from_secs(120);

/// Leaves whose HELLO a router keeps.
///
/// Source: 16 MiB at [`LEAF_ENTRY_BYTES`] each; a ring of 100 000 leaves needs 300 routers. Past
/// it the one that was not renewed for longest is forgotten.
pub const LEAF_ENTRIES: usize = 8_192;

/// Of these, those that one router has brought.
///
/// Source: a quarter, so that one router alone cannot push out what all others have brought. Past
/// it the oldest of its own goes.
pub const LEAF_ENTRIES_PER_ROUTER: usize = LEAF_ENTRIES / 4;

/// Bytes of a HELLO, with receipts, that is kept for others.
///
/// Source: three relay addresses of 80 bytes, a mailbox and a web address of 200 each, the
/// signature, and [`LEAF_ENTRY_RECEIPTS`] of about 200. A longer one is refused.
pub const LEAF_ENTRY_BYTES: usize = 2_048;

/// Receipts that a parent adds to its leaf's HELLO.
///
/// Source: a mapped port, a mailbox and a web address. More stay behind.
pub const LEAF_ENTRY_RECEIPTS: usize = 4;

/// Successors that keep a copy of what a router keeps.
///
/// Source: a router that crashes is followed by its successor, which then is the one to be asked.
/// More copies cost messages.
pub const LEAF_ENTRY_COPIES: u8 = 1;

/// Messages through the ring that wait for an application.
///
/// Source: chosen; 400 bytes each. Past it the newest is dropped and counted.
pub const RING_MESSAGES_UNREAD: usize = 1_024;

/// Keys that are shared with other members, for what is sealed for them.
///
/// Source: chosen; 150 bytes each. Past it the one that was computed first goes, and is computed
/// again, which takes some 50 µs.
pub const SEALING_KEYS: usize = 4_096;

/// Leaves that are searched at once.
///
/// Source: a quarter of [`ECHOES`]. Past it a further one counts as not found.
pub const SEARCHES: usize = 256;

/// Pause before the router that is responsible for a leaf is asked again.
///
/// Source: as [`HELLO_PAUSE`]: a lost packet delays a search by this.
pub const SEARCH_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Time after which a leaf that does not answer is looked for, although there is a link, or one is
/// being made.
///
/// Source: as [`HELLO_PAUSE`], a round trip and more. A leaf that has restarted elsewhere is silent
/// for this.
pub const SEEK_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// Pause before it is looked for again.
///
/// Source: a leaf registers within a second of its start; the one who waits does so for
/// [`PEER_TIME`]. Each costs a lookup.
pub const SEEK_AGAIN: std::time::Duration = std::time::Duration::from_secs(2);

/// Leaves' HELLOs that a router hands to its new predecessor at once, and then twice a second.
///
/// Source: half of [`LINK_QUEUE_BYTES`] at [`LEAF_ENTRY_BYTES`] each; all of [`LEAF_ENTRIES`] take
/// half a minute, as long as their parents need to register them again. More wait for the next
/// look.
pub const HANDED_OVER: usize = 128;

/// Parents through which a leaf tries to reach a router that it cannot dial.
///
/// Source: one may be about to fail. More would cost packets that their rate is for.
pub const WAYS_THROUGH_PARENTS: usize = 2;

/// Longest pause between two requests to the home router for a port, or for more of the same.
///
/// Source: a router that was switched on, changed or restarted is noticed before long, for a few
/// packets on the local network. Sooner it is asked only when our outer address has changed.
pub const MAPPING_PAUSE: std::time::Duration = std::time::Duration::from_secs(600);

/// Shortest pause between two such requests, however short the lease.
///
/// Source: RFC 6887 §11.2.1, four seconds between renewals; far more than a router needs. A shorter
/// lease runs out.
pub const MAPPING_RENEWAL: std::time::Duration = std::time::Duration::from_secs(30);

/// Seconds for which a port is asked for.
///
/// Source: RFC 6886 §3.3 recommends two hours; half of that, as it stays when the machine is
/// switched off. Past it the router takes it back.
pub const MAPPING_LEASE: u32 = 3_600;

/// Pause between two rounds of PINGs to a peer that is reached through a relay.
///
/// Source: a NAT keeps a mapping that was not answered for 30 s (Linux): within that the other
/// side's round meets ours. Sooner the packets go on through the relay.
pub const PUNCH_PAUSE: std::time::Duration = std::time::Duration::from_secs(20);

/// Bytes of a network interface's name.
///
/// Source: Linux' IFNAMSIZ less its final zero. A longer one in `ringway.toml` is refused.
pub const INTERFACE_NAME_BYTES: usize = 15;

/// Bytes of the file with a TSIG key.
///
/// Source: what `tsig-keygen` and `keymgr -t` write is below 300 bytes; the rest is room for
/// comments. A longer one is refused.
pub const TSIG_KEY_FILE: usize = 4_096;

/// Bytes of the secret in a TSIG key, at least.
///
/// Source: 128 bits are beyond guessing; RFC 8945 §8 asks for as many as the hash gives, which the
/// servers' own tools do. A shorter one is refused.
pub const TSIG_SECRET: usize = 16;

/// Seconds by which the clocks of two that share a TSIG key may differ.
///
/// Source: RFC 8945 §10 recommends 300. Past it the server answers BADTIME and we do not believe
/// its answers.
pub const TSIG_FUDGE: u16 = 300;

/// Bytes of the records in one dynamic update.
///
/// Source: a server applies, signs and stores each as one step; some forty records are soon done,
/// and a message may have 65 535 bytes (RFC 1035 §4.2.2). What exceeds it goes into the next
/// update, but for a single set of records, which is never torn.
pub const UPDATE_BYTES: usize = 16_384;

/// Questions to an owner's DNS server that wait for an answer at once.
///
/// Source: 64 of 250 bytes fit into every socket's buffer, so that neither side waits for the other
/// to read. More wait for their turn.
pub const UPDATE_QUERIES: usize = 64;

/// How long an owner's DNS server may take for one answer, and to be connected to.
///
/// Source: signing a batch of records and writing it to a slow disk takes a second. Past it the
/// update counts as failed.
pub const UPDATE_TIME: std::time::Duration = std::time::Duration::from_secs(15);

/// How long one update waits for another of the same ring to end.
///
/// Source: an update of ten thousand members takes less. Past it the later one fails, and says why.
pub const UPDATE_TURN: std::time::Duration = std::time::Duration::from_secs(60);

/// DNS servers of the owner's that are kept current.
///
/// Source: a zone has one primary server; the others fetch the zone from it. Further ones are
/// refused.
pub const KEPT_SERVERS: usize = 8;

/// How often a DNS server that is kept current is compared with the ring although nothing has
/// changed.
///
/// Source: certificates run out and people edit zones. A difference of that kind stands for this
/// long at most.
pub const KEPT_REVIEW: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Longest pause before an update that has failed is tried again; the first is a second, and each
/// is twice the one before.
///
/// Source: a server that is back is current within a minute. Sooner it is not asked.
pub const KEPT_RETRY: std::time::Duration = std::time::Duration::from_secs(60);

/// Bytes of a request for admission.
///
/// Source: key, name, address, nonce, time and signature take 200. A longer one is malformed.
pub const ADMISSION_REQUEST_BYTES: usize = 256;

/// Bytes of the owner's reply to it.
///
/// Source: a statement of [`STATEMENT_BYTES`], a certificate of [`CERTIFICATE_BYTES`] and
/// [`BOOTSTRAP_ROUTERS`] more, and the fixed fields. A longer one is malformed.
pub const ADMISSION_REPLY_BYTES: usize = 48_000;

/// Characters of either in its text form.
///
/// Source: [`ADMISSION_REPLY_BYTES`] in base64, and line breaks that mail may have put in. A longer
/// text is refused before it is decoded.
pub const ADMISSION_TEXT: usize = 70_000;

/// Age at which a request for admission is no longer admitted.
///
/// Source: a letter and a holiday. Past it the machine may have changed hands: it makes another
/// request.
pub const ADMISSION_AGE: std::time::Duration = std::time::Duration::from_secs(30 * 86_400);
