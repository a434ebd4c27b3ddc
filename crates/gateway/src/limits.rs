//! Every bound of this crate: unit, source, and what happens past it.

use std::time::Duration;

/// Bytes of one captured packet.
/// Source: libpcap `MAXIMUM_SNAPLEN` (262 144). Past it the capture counts as damaged at that record.
pub const MAX_CAPTURED_PACKET: usize = 262_144;

/// Bytes of one pcapng block that is read into memory (other blocks are skipped unread).
/// Source: [`MAX_CAPTURED_PACKET`] and room for options. Past it the capture counts as damaged at that block.
pub const MAX_BLOCK: usize = 327_680;

/// Bytes read from a capture at once.
/// Source: chosen: some hundreds of full frames a read. Past it reading goes on with the next chunk; the buffer never
/// exceeds the larger of this and [`MAX_BLOCK`].
pub const READ_CHUNK: usize = 262_144;

/// Interfaces in one pcapng section.
/// Source: chosen: far above what a machine has. Past it the capture counts as damaged.
pub const MAX_INTERFACES: usize = 4_096;

/// Link tags, tunnels and MPLS labels inside one packet, each kind counted by itself.
/// Source: chosen: networks nest two or three. Past it the packet is skipped as `too_deep`.
pub const MAX_ENCAPSULATION: usize = 8;

/// Flows held at once.
/// Source: Linux's `nf_conntrack_max` on machines of 1 to 4 GiB. Past it the flow that was idle for longest is delivered
/// as finished.
pub const MAX_FLOWS: usize = 65_536;

/// Idle flows delivered per handled packet.
/// Source: chosen: keeps the cost of one packet flat after a gap in time. Past it the rest follows with the next packets.
pub const MAX_EXPIRED_AT_ONCE: usize = 64;

/// Finished flows that wait to be polled.
/// Source: the same as [`MAX_FLOWS`]. Past it the newest finished flow is dropped and counted as `records_dropped`.
pub const MAX_READY: usize = 65_536;

/// Time after which an idle UDP flow is finished.
/// Source: RFC 4787 §4.3 REQ-5 (5 minutes or more), and a sixth because BEP 14 repeats every 5 minutes.
/// Past it a further packet begins a new flow.
pub const UDP_IDLE: Duration = Duration::from_secs(360);

/// Time after which an idle TCP flow is finished.
/// Source: RFC 5382 §5 REQ-5 (2 hours 4 minutes). Past it a further packet begins a new flow.
pub const TCP_IDLE: Duration = Duration::from_secs(7_440);

/// Time for which a closed TCP flow still takes late packets.
/// Source: RFC 9293 §3.4.2 (2 MSL = 4 minutes). Past it the flow is finished.
pub const TCP_CLOSED: Duration = Duration::from_secs(240);

/// Data packets inspected in each direction of a flow.
/// Source: the thesis, section 2.1: the first eight packets. Past it the flow keeps what was found.
pub const INSPECT_PACKETS: u8 = 8;

/// Bytes kept of the beginning of one TCP direction.
/// Source: RFC 8446 §5.1 (a record of 2^14 bytes). Past it further segments are inspected one by one.
pub const MAX_PREFIX: usize = 16_384;

/// Bytes of stream beginnings kept over all flows.
/// Source: chosen: an eighth of a gateway with 1 GiB. Past it segments are inspected one by one, unassembled.
pub const MAX_BUFFERED: usize = 134_217_728;

/// Segments of one TCP direction that wait for a gap to be filled.
/// Source: [`INSPECT_PACKETS`]. Past it a further segment is inspected by itself.
pub const MAX_PENDING: usize = 8;

/// Bytes of one payload that are searched for patterns.
/// Source: chosen: a full Ethernet frame fits. A signature file whose pattern ends past it is refused.
pub const MAX_SCAN: usize = 2_048;

/// Endpoints remembered as speaking a peer-to-peer protocol.
/// Source: the same as [`MAX_FLOWS`]. Past it the older half is forgotten.
pub const MAX_ENDPOINTS: usize = 65_536;

/// Bytes of a detail (server name, host, query) in a flow record.
/// Source: RFC 1035 §2.3.4 (a name has at most 255 octets). Past it the detail is cut.
pub const MAX_DETAIL: usize = 255;

/// Header lines of one HTTP message that are looked at.
/// Source: Apache's `LimitRequestFields`. Past it further lines are not seen.
pub const MAX_HTTP_HEADERS: usize = 100;

/// Nesting of one bencoded message.
/// Source: BEP 5 messages nest three deep. Past it the message is not bencode for us.
pub const MAX_BENCODE_DEPTH: usize = 16;

/// Labels of one DNS name.
/// Source: RFC 1035 §2.3.4 (255 octets, at least two each). Past it the message is not DNS for us.
pub const MAX_DNS_LABELS: usize = 127;

/// Bytes of one signature file.
/// Source: chosen: far above the built-in ones. Past it the file is refused.
pub const MAX_SIGNATURE_FILE: usize = 1_048_576;

/// Signatures in one set.
/// Source: chosen: keeps the automaton in the cache of a small machine. Past it the file is refused.
pub const MAX_SIGNATURES: usize = 1_024;

/// Patterns of one signature.
/// Source: one bit each in the matcher. Past it the file is refused.
pub const MAX_PATTERNS: usize = 32;

/// Bytes of one pattern.
/// Source: chosen: the longest built-in pattern is below 64. Past it the file is refused.
pub const MAX_PATTERN: usize = 256;

/// Bytes of all patterns together that are compiled into the fastest automaton.
/// Source: chosen: at up to 1 KiB of table a byte this makes 16 MiB. Past it a slower automaton of a few bytes each is used.
pub const MAX_DFA_PATTERNS: usize = 16_384;

/// Hosts and application protocols of one signature.
/// Source: chosen: far above the built-in ones. Past it the file is refused.
pub const MAX_NAMES: usize = 256;

/// Application protocols of one ClientHello that are looked at.
/// Source: chosen: browsers offer two or three. Past it further ones are not seen.
pub const MAX_PROTOCOLS: usize = 16;

/// Bytes of a QUIC client's hello that are put together.
/// Source: chosen: twice what hellos with post-quantum keys take. Past it the server's name is not found.
pub const MAX_CRYPTO: usize = 8_192;

/// Parts of a QUIC client's hello.
/// Source: chosen: browsers that shuffle theirs send some twenty. Past it the server's name is not found.
pub const MAX_CRYPTO_PARTS: usize = 128;

/// Lines of a protocol of text that are looked at.
/// Source: chosen: openings of IRC and MSN Messenger have fewer than ten. Past it further lines are not seen.
pub const MAX_TEXT_LINES: usize = 32;

/// Bytes of a message of XML or JSON that are searched for names.
/// Source: chosen: the head of an XMPP stream has some hundred. Past it names are not seen.
pub const MAX_TEXT_HEAD: usize = 1_024;

/// Bytes of each side's first turn that are measured for randomness.
/// Source: as many as a byte has values. Past it bytes are counted only.
pub const MAX_MEASURED: usize = 256;

/// Hosts of which is remembered what they contact.
/// Source: chosen: a quarter of [`MAX_FLOWS`]; at most some 600 bytes each. Past it the older half is forgotten.
pub const MAX_HOSTS: usize = 16_384;

/// Peers of a host, in flows that look encrypted, that are told apart.
/// Source: twice [`MANY_PEERS`]. Past it further peers are not counted.
pub const MAX_HOST_PEERS: usize = 16;

/// Peers of a host in such flows from which on they are many.
/// Source: chosen: BitTorrent programs keep fifty; other programs speak so to a few servers. Past it such a flow is
/// likely, below it a guess.
pub const MANY_PEERS: usize = 8;

/// Ports of these peers from which on they are many.
/// Source: chosen: peers choose their ports at random; servers share one. Past it such a flow is likely, below it a guess.
pub const MANY_PORTS: usize = 5;

/// Endpoints that were announced and not yet used.
/// Source: chosen: one for each host that is remembered. Past it the older half is forgotten.
pub const MAX_ANNOUNCED: usize = 16_384;

/// Endpoints of members that are remembered.
/// Source: the same as [`MAX_ENDPOINTS`]. Past it the older half is forgotten.
pub const MAX_MEMBERS: usize = 65_536;
