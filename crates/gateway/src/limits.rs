//! Every bound of this crate: unit, source, and what happens past it.

mod feed;
mod kernel;
mod service;
mod shaper;
mod torrent;

use std::time::Duration;

pub use self::feed::*;
pub use self::kernel::*;
pub use self::service::*;
pub use self::shaper::*;
pub use self::torrent::*;

/// Bytes of one captured packet.
/// Source: libpcap `MAXIMUM_SNAPLEN` (262 144). Past it the capture counts as damaged at that
/// record.
pub const MAX_CAPTURED_PACKET: usize = 262_144;

/// Bytes of one pcapng block that is read into memory (other blocks are skipped unread).
/// Source: [`MAX_CAPTURED_PACKET`] and room for options. Past it the capture counts as damaged at
/// that block.
pub const MAX_BLOCK: usize = 327_680;

/// Bytes read from a capture at once.
/// Source: chosen: some hundreds of full frames a read. Past it reading goes on with the next
/// chunk; the buffer never exceeds the larger of this and [`MAX_BLOCK`].
pub const READ_CHUNK: usize = 262_144;

/// Interfaces in one pcapng section.
/// Source: chosen: far above what a machine has. Past it the capture counts as damaged.
pub const MAX_INTERFACES: usize = 4_096;

/// Link tags, tunnels and MPLS labels inside one packet, each kind counted by itself.
/// Source: chosen: networks nest two or three. Past it the packet is skipped as `too_deep`.
pub const MAX_ENCAPSULATION: usize = 8;

/// Flows held at once.
/// Source: Linux's `nf_conntrack_max` on machines of 1 to 4 GiB. At [`FLOW_BYTES`] each this is 128
/// MiB. Past it a flow is delivered as finished: of the TCP flows without handshake and data, or
/// else of all, the one that was idle for longest.
pub const MAX_FLOWS: usize = 65_536;

/// Bytes of one flow in the table, what it holds of its stream ([`MAX_PREFIX`], [`MAX_BUFFERED`])
/// not counted. Source: measured: `examples/flow_memory.rs` finds less, also while tables grow.
/// Past it a test fails.
pub const FLOW_BYTES: usize = 2_048;

/// Idle flows delivered per handled packet.
/// Source: chosen: keeps the cost of one packet flat after a gap in time. Past it the rest follows
/// with the next packets.
pub const MAX_EXPIRED_AT_ONCE: usize = 64;

/// Finished flows that wait to be polled.
/// Source: the same as [`MAX_FLOWS`]. Past it the newest finished flow is dropped and counted as
/// `records_dropped`.
pub const MAX_READY: usize = 65_536;

/// Time after which an idle TCP flow is finished.
/// Source: RFC 5382 §5 REQ-5 (2 hours 4 minutes). Past it a further packet begins a new flow.
pub const TCP_IDLE: Duration = Duration::from_secs(7_440);

/// Time after which an idle TCP flow is finished whose handshake was not seen to its end and that
/// carried no data. Source: Linux's `nf_conntrack_tcp_timeout_syn_sent` (120 s), above the longest
/// wait between repetitions of a SYN (64 s). Past it a further packet begins a new flow.
pub const TCP_EMBRYONIC: Duration = Duration::from_secs(120);

/// Time for which a closed TCP flow still takes late packets.
/// Source: RFC 9293 §3.4.2 (2 MSL = 4 minutes). Past it the flow is finished.
pub const TCP_CLOSED: Duration = Duration::from_secs(240);

/// Data packets inspected in each direction of a flow.
/// Source: the thesis, section 2.1: the first eight packets. Past it the flow keeps what was found.
pub const INSPECT_PACKETS: u8 = 8;

/// Bytes kept of the beginning of one TCP direction.
/// Source: RFC 8446 §5.1 (a record of 2^14 bytes). Past it further segments are inspected one by
/// one.
pub const MAX_PREFIX: usize = 16_384;

/// Bytes of stream beginnings kept over all flows.
/// Source: chosen: an eighth of a gateway with 1 GiB. Past it the flow that has kept bytes for
/// longest is inspected packet by packet from then on.
pub const MAX_BUFFERED: usize = 134_217_728;

/// Bytes of [`MAX_BUFFERED`] that are left free for flows that are new.
/// Source: chosen: sixteen flows with both directions at [`MAX_PREFIX`].
pub const MAX_FRESH: usize = 524_288;

/// Segments of one TCP direction that wait for a gap to be filled.
/// Source: [`INSPECT_PACKETS`]. Past it a further segment is inspected by itself.
pub const MAX_PENDING: usize = 8;

/// Bytes of one payload that are searched for patterns.
/// Source: chosen: a full Ethernet frame fits. A signature file whose pattern ends past it is
/// refused.
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

/// Entries of one bencoded dictionary.
/// Source: chosen: torrents and messages have some dozens. Past it the dictionary is not read.
pub const MAX_BENCODE_ENTRIES: usize = 1_024;

/// Labels of one DNS name.
/// Source: RFC 1035 §2.3.4 (255 octets, at least two each). Past it the message is not DNS for us.
pub const MAX_DNS_LABELS: usize = 127;

/// Bytes of one signature file.
/// Source: chosen: far above the built-in ones. Past it the file is refused.
pub const MAX_SIGNATURE_FILE: usize = 1_048_576;

/// Signatures in one set.
/// Source: chosen: keeps the automaton in the cache of a small machine. Past it the file is
/// refused.
pub const MAX_SIGNATURES: usize = 1_024;

/// Patterns of one signature.
/// Source: one bit each in the matcher. Past it the file is refused.
pub const MAX_PATTERNS: usize = 32;

/// Bytes of one pattern.
/// Source: chosen: the longest built-in pattern is below 64. Past it the file is refused.
pub const MAX_PATTERN: usize = 256;

/// Bytes of all patterns together that are compiled into the fastest automaton.
/// Source: chosen: at up to 1 KiB of table a byte this makes 16 MiB. Past it a slower automaton of
/// a few bytes each is used.
pub const MAX_DFA_PATTERNS: usize = 16_384;

/// Bytes of one policy file.
/// Source: the same as [`MAX_SIGNATURE_FILE`]. Past it the file is refused.
pub const MAX_POLICY_FILE: usize = 1_048_576;

/// Faults in the form of a policy file that are told at once.
/// Source: chosen: more than anybody mends in one go. Past it the rest is told after these.
pub const MAX_POLICY_FAULTS: usize = 64;

/// Rules of one policy.
/// Source: chosen: they are tried one after the other, once per flow. Past it the file is refused.
pub const MAX_RULES: usize = 1_024;

/// Classes of bandwidth of one policy.
/// Source: five bits of the connection mark, of which three values say other things of flows that
/// are followed. Past it the file is refused.
pub const MAX_CLASSES: usize = 29;

/// Tests in one policy.
/// Source: chosen: some for each rule. Past it the file is refused.
pub const MAX_TRIALS: usize = 8_192;

/// States that a flow may go through for one packet.
/// Source: the longest way has four: new, classifying, inspecting, decided. Past it the packet goes
/// on, or is dropped where the policy fails closed, and it counts as one whose flow is missing.
pub const MAX_STEPS: usize = 8;

/// Packets of a flow after which it is decided by what is known, the classifier finished or not.
/// Source: four times [`INSPECT_PACKETS`] each way; bulk that goes one way would otherwise be asked
/// about for ever.
pub const MAX_UNDECIDED_PACKETS: u64 = 64;

/// Packets of a blocked TCP connection that are answered with resets.
/// Source: chosen: each end's retransmission and its answer to a reset that came too early (RFC
/// 5961 §3.2). Past it the kernel drops the rest.
pub const KILL_PACKETS: u8 = 8;

/// Time for which new connections like a blocked one are dropped at once.
/// Source: chosen: programs that are blocked reconnect within seconds. Past it such a connection
/// is inspected again.
pub const BLOCKED_FOR: Duration = Duration::from_secs(60);

/// Events that wait to be polled.
/// Source: the same as [`MAX_FLOWS`]. Past it the newest event is dropped and counted.
pub const MAX_EVENTS: usize = 65_536;

/// Packets that wait in one of the kernel's queues for their verdicts.
/// Source: measured in a prototype: verdicts cost the same up to 50 000 held packets. Past it the
/// kernel passes or drops further packets unseen, as the policy's `failure` says.
pub const MAX_QUEUED: u32 = 32_768;

/// Bytes of a queue's socket.
/// Source: chosen: some four thousand joined packets of 64 kB; memory is taken only while they
/// wait. Past it the same as [`MAX_QUEUED`].
pub const QUEUE_SOCKET_BUFFER: usize = 268_435_456;

/// Verdicts in one system call.
/// Source: chosen: some 3 kB. Past it another call begins.
pub const VERDICT_BATCH: usize = 64;

/// Reads of the queues, of a batch of packets each, before anything else is looked at.
/// Source: chosen. Past it the rest follows in the next turn.
pub const MAX_BATCH: usize = 64;

/// Rows of the audit.
/// Source: chosen: some 10 GB. Past it the oldest are forgotten.
pub const MAX_AUDIT_ROWS: u64 = 20_000_000;

/// Time for which a reader or writer of the audit waits for another one.
/// Source: chosen: a long search may hold a checkpoint up. Past it the access fails, and is tried
/// again with the next batch.
pub const AUDIT_BUSY: Duration = Duration::from_secs(5);

/// Bytes of one followed TCP direction that are kept behind a gap, and how far ahead of the gap a
/// segment may end. Source: half of Linux's largest receive buffer since 6.16 (`tcp_rmem`, 32 MiB;
/// 6 MiB before), the half that may hold contents: a receiver does not let its sender go further.
/// Past it a further segment behind the gap is dropped, as a full router would, and its
/// sender repeats it.
pub const MAX_AHEAD: usize = 16_777_216;

/// Segments of one followed TCP direction that are kept behind a gap.
/// Source: [`MAX_AHEAD`] in full segments of Ethernet, rounded up: where they wait for their gap, a
/// third of what the kernel's queue takes ([`MAX_QUEUED`]), or one connection could fill it. Past
/// it a further segment behind the gap is dropped.
pub const MAX_AHEAD_SEGMENTS: usize = 12_288;

/// Bytes charged for each kept segment or fragment besides its contents.
/// Source: chosen: a share of a tree node and the allocator's header, rounded up. It counts against
/// [`MAX_AHEAD`] and [`MAX_FRAGMENT_BYTES`].
pub const PART_OVERHEAD: usize = 64;

/// Bytes of one followed TCP direction that are remembered after delivery until their receiver
/// acknowledges them. Source: the same as [`MAX_AHEAD`]. Past it the oldest are forgotten; a
/// repetition of those gives the stream up.
pub const MAX_UNACKNOWLEDGED: usize = 16_777_216;

/// Time in which a gap in a followed TCP direction must be filled.
/// Source: RFC 6298 §2.5 (the longest wait for a repetition may be limited to 60 seconds). Past it
/// the stream is given up, or, where packets behind the gap were held back, they are dropped.
pub const GAP_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of incomplete datagrams, with an allowance for each datagram and fragment.
/// Source: Linux's `ipfrag_high_thresh` (4 MiB). Past it the datagram that is next to time out is
/// given up.
pub const MAX_FRAGMENT_BYTES: usize = 4_194_304;

/// Incomplete datagrams.
/// Source: chosen: a quarter of [`MAX_FRAGMENT_BYTES`] at 1 KiB each. Past it the one that is next
/// to time out is given up.
pub const MAX_DATAGRAMS: usize = 1_024;

/// Bytes charged for each incomplete datagram besides its fragments.
/// Source: chosen: its entry in the tables and the largest usual header, rounded up. It counts
/// against [`MAX_FRAGMENT_BYTES`].
pub const DATAGRAM_OVERHEAD: usize = 512;

/// Fragments of one datagram.
/// Source: a datagram of 65 535 bytes in packets of 576 (RFC 791 §3.1: every host accepts that
/// many) has 119. Past it the datagram is refused.
pub const MAX_FRAGMENTS: u16 = 128;

/// Time in which the fragments of an IPv4 datagram must come.
/// Source: RFC 791 §3.2 leaves it to the time to live and suggests 15 seconds; Linux's
/// `ipfrag_time` is 30 seconds. Past it the datagram counts as cut behind the fragments that came.
pub const IPV4_REASSEMBLY: Duration = Duration::from_secs(30);

/// Time in which the fragments of an IPv6 datagram must come.
/// Source: RFC 8200 §4.5 (60 seconds). Past it the datagram counts as cut behind the fragments that
/// came.
pub const IPV6_REASSEMBLY: Duration = Duration::from_secs(60);

/// Hosts and application protocols of one signature.
/// Source: chosen: far above the built-in ones. Past it the file is refused.
pub const MAX_NAMES: usize = 256;

/// Application protocols of one ClientHello that are looked at.
/// Source: chosen: browsers offer two or three. Past it further ones are not seen.
pub const MAX_PROTOCOLS: usize = 16;

/// Bytes of a QUIC client's hello that are put together.
/// Source: chosen: twice what hellos with post-quantum keys take. Past it the server's name is not
/// found.
pub const MAX_CRYPTO: usize = 8_192;

/// Parts of a QUIC client's hello.
/// Source: chosen: browsers that shuffle theirs send some twenty. Past it the server's name is not
/// found.
pub const MAX_CRYPTO_PARTS: usize = 128;

/// Lines of a protocol of text that are looked at.
/// Source: chosen: openings of IRC and MSN Messenger have fewer than ten. Past it further lines are
/// not seen.
pub const MAX_TEXT_LINES: usize = 32;

/// Bytes of a message of XML or JSON that are searched for names.
/// Source: chosen: the head of an XMPP stream has some hundred. Past it names are not seen.
pub const MAX_TEXT_HEAD: usize = 1_024;

/// Bytes of each side's first turn that are measured for randomness.
/// Source: as many as a byte has values. Past it bytes are counted only.
pub const MAX_MEASURED: usize = 256;

/// Hosts of which is remembered what they contact.
/// Source: chosen: a quarter of [`MAX_FLOWS`]; at most some 900 bytes each. Past it the older half
/// is forgotten.
pub const MAX_HOSTS: usize = 16_384;

/// Time for which what a host was seen doing counts against its other flows.
/// Source: chosen: programs that share files contact somebody every minute, and an address is given
/// to another host after some. Past it nothing is known of the host.
pub const HOST_EVIDENCE: Duration = Duration::from_secs(600);

/// Bytes that a SYN may carry and its answer acknowledge.
/// Source: one segment (RFC 7413 §4.2.1). Past it the answer is to another SYN.
pub const MAX_FAST_OPEN: u32 = 1_461;

/// Bytes by which a segment may be ahead of what was seen of its stream, for its acknowledgement to
/// prove that both sides take part.
/// Source: chosen: several times the initial window of generous servers. Past it such an
/// acknowledgement could be guessed, and proves nothing.
pub const MAX_UNSEEN_ANSWER: u32 = 1 << 17;

/// Bytes that may be under way between what one side of a connection has sent and what the other
/// acknowledges.
/// Source: chosen: the largest windows that Linux gives by itself (`tcp_rmem`), twice. Past it the
/// numbers of both sides are not those of one connection.
pub const MAX_UNDER_WAY: u32 = 1 << 24;

/// Hosts and destinations whose unanswered packets are counted apart between two events.
/// Source: chosen. Past it they are counted together: senders may have been made up.
pub const MAX_UNANSWERED: usize = 256;

/// Peers of a host, in flows that look encrypted, that are distinguished.
/// Source: twice [`MANY_PEERS`]. Past it further peers are not counted.
pub const MAX_HOST_PEERS: usize = 16;

/// Peers of a host in such flows from which on they are many.
/// Source: chosen: BitTorrent programs keep fifty; other programs speak so to a few servers. Past
/// it such a flow is likely, below it a guess.
pub const MANY_PEERS: usize = 8;

/// Ports of these peers from which on they are many.
/// Source: chosen: peers choose their ports at random; servers share one. Past it such a flow is
/// likely, below it a guess.
pub const MANY_PORTS: usize = 5;

/// Requests like Skype's from one port, each to another endpoint, from which on they are its.
/// Source: chosen: identifiers of others count on so often by chance once in 10^23 times. Below it
/// they are unknown.
pub const MANY_REQUESTS: u8 = 8;

/// How far an identifier of such a request may be from the one before.
/// Source: observed: steps of two, more where some were sent elsewhere. Past it the count begins
/// again.
pub const MAX_STEP: u16 = 32;

/// Endpoints that were announced, of all queues of a border together.
/// Source: chosen: one for each host that is remembered. Past it the older half is forgotten.
pub const MAX_ANNOUNCED: usize = 16_384;

/// Bytes that one side of a conversation said last, kept in one piece where it may announce another
/// flow. Source: chosen: an invitation of MSN Messenger in its longest form, three times. Past it
/// the first of them are given up.
pub const MAX_LINES_HELD: usize = 2_048;

/// Such pieces, with gaps between them.
/// Source: chosen: three segments that came before the one that joins them, and that one. Past it
/// the oldest is given up.
pub const MAX_LINES_PIECES: usize = 4;

/// Endpoints of members that are remembered.
/// Source: the same as [`MAX_ENDPOINTS`]. Past it the older half is forgotten.
pub const MAX_MEMBERS: usize = 65_536;

/// Bytes of a file that are scanned at once.
/// Source: the thesis, section 5.4: 20 to 40 kB. Past it the next window begins.
pub const SCAN_WINDOW: usize = 32_768;

/// Bytes of a window that are scanned again with the next one.
/// Source: chosen: longer than any pattern of usual rules. Past it a pattern that lies across a
/// boundary is found only where the scanner sees whole files.
pub const SCAN_OVERLAP: usize = 4_096;

/// Parameters in which a file's name may be continued (RFC 2231 §3).
/// Source: chosen: names are short. Past it the rest of the name is left out.
pub const MAX_CONTINUED: usize = 32;

/// Bytes of a file's beginning that a rule may have wait together (`hold_first`).
/// Source: chosen: more than scripts have, and than a sender sends unacknowledged. Past it the
/// policy is refused.
pub const MAX_HELD_FIRST: u64 = 1 << 20;

/// Time after which the packet that may be a file's last is looked at as such.
/// Source: chosen: below the least retransmission time-out of Linux (200 ms). Past it what there is
/// of its window is scanned.
pub const SCAN_PAUSE: Duration = Duration::from_millis(50);

/// Time between two looks at the followed connections that wait for their time.
/// Source: a fifth of [`SCAN_PAUSE`]. Past it what is due is done.
pub const FOLLOW_LOOK: Duration = Duration::from_millis(10);

/// Bytes of a connection that are kept while its application is not known.
/// Source: chosen: [`INSPECT_PACKETS`] unsegmented packets of 64 kB. Past it the contents are not
/// read.
pub const MAX_EARLY: usize = 524_288;

/// Bytes that all connections whose contents are followed may hold together.
/// Source: chosen: a quarter of a gateway with 1 GiB. Less [`MAX_EARLY`], the connection that has
/// been unknown for longest is not followed any more; past it packets behind gaps are dropped, and
/// their senders repeat them. [`SCAN_OVERLAP`] of each file that is scanned may come on top.
pub const MAX_CONTENT: usize = 268_435_456;

/// Bytes that are left of [`MAX_CONTENT`] below which nothing is gathered for parts and windows of
/// files. Source: chosen: half of what is not kept for others ([`EARLY_RESERVE`]). Past it parts
/// and windows are as small as packets.
pub const SCARCE_CONTENT: usize = 100_663_296;

/// The first port that a conversation can announce.
/// Source: RFC 6335 §6: the ports below are the system's. Below it what is announced is not
/// believed, or any chat could have the flows to a service called its own.
pub const FIRST_USER_PORT: u16 = 1_024;

/// Time for which an announced connection is waited for.
/// Source: chosen: people take a while to accept a file. Past it the connection is like any other.
pub const EXPECTED_FOR: Duration = Duration::from_secs(300);

/// Announced connections that are remembered, of all queues of a border together.
/// Source: chosen. Past it the oldest is forgotten: a chat that announces so many within
/// [`EXPECTED_FOR`] has all others' forgotten.
pub const MAX_EXPECTED: usize = 16_384;

/// Bytes of a message that are written down.
/// Source: chosen. Past it the text is cut.
pub const MAX_TEXT: usize = 4_096;

/// Time in which a scanner must answer.
/// Source: chosen: below the time after which TCP gives up. Past it the policy's `failure` decides.
pub const SCAN_TIMEOUT: Duration = Duration::from_secs(10);

/// Files that one scanner follows at once.
/// Source: half of clamd's usual `MaxThreads` times its queue. Past it the one that stood still for
/// longest is given up.
pub const MAX_SCAN_SESSIONS: usize = 512;

/// Time between two looks whether the connection cache stands behind the drivers of all interfaces
/// of the border, while somebody is blocked. Source: chosen: as long as a call takes to be
/// repeated. Until then calls by an interface that came again are refused further on.
pub const HOOKS_LOOK: Duration = Duration::from_secs(1);

/// How far threads that answer for queued packets come before others, as `nice` counts.
/// Source: measured (docs/benchmarks.md, "Files behind a filter"): with less, packets wait for
/// their verdicts behind other processes of the machine, for longer than senders wait for
/// acknowledgements, and are sent twice. With more, a flood of undecided flows would leave less
/// than a tenth of a contested core to others, among them the kernel's thread that forwards when
/// there is much to forward.
pub const QUEUE_NICENESS: i32 = -10;

/// How much less of a core threads that scan get than others, as `nice` counts.
/// Source: chosen: a third of what other programs get. Past it scans would starve beside them.
pub const SCAN_NICENESS: i32 = 5;

/// Lengths of streams that clamd is asked about, the longest first.
/// Source: its `MaxFileSize` is 100 MiB, its `StreamMaxLength` 25 MiB by default.
/// Where it refuses the shortest, files are not scanned.
pub const CLAMD_STREAMS: [u32; 6] = [100 << 20, 50 << 20, 25 << 20, 10 << 20, 5 << 20, 1 << 20];

/// Bytes of files that one scanner gathers in memory for clamd at once.
/// Source: chosen: five files of clamd's usual limit. Past it a file is streamed to clamd instead.
pub const MAX_GATHERED: u64 = 134_217_728;

/// Time for which a refusal of such a length is waited for.
/// Source: chosen: clamd refuses at once. Past it the length counts as taken.
pub const CLAMD_PROBE: Duration = Duration::from_millis(500);

/// Bytes of a file that two streams to clamd have in common.
/// Source: chosen: far longer than signatures are. What lies across a longer stretch is not found.
pub const CLAMD_OVERLAP: usize = 65_536;

/// Time after which a file that stands still is not followed by the scanner any more.
/// Source: chosen: below clamd's own `ReadTimeout` (120 s). Past it the file counts as not scanned.
pub const SCAN_IDLE: Duration = Duration::from_secs(100);

/// Bytes of a scanner's answer.
/// Source: chosen: names of findings have some dozens. Past it the answer counts as none.
pub const MAX_SCAN_ANSWER: usize = 4_096;

/// Bytes of windows that wait for one scanner.
/// Source: chosen: some four thousand windows of 32 KiB; who sends them waits with them, so that it
/// takes thousands of files at once. Past it a further window counts as not scanned, and the
/// policy's `failure` decides.
pub const MAX_SCAN_BACKLOG: usize = 134_217_728;

/// Bytes of the head of one HTTP message, or of one part of a form.
/// Source: chosen: above what servers take (nginx four lines of 8 KiB, Node 16 KiB). Past it the
/// connection counts as lost.
pub const MAX_HTTP_HEAD: usize = 65_536;

/// Bytes of one line of a chunked HTTP body: a chunk's size with its extensions, or a line of the
/// trailer. Source: Apache's `LimitRequestLine` (8 190). Past it the connection counts as lost.
pub const MAX_CHUNK_LINE: usize = 8_192;

/// HTTP requests of one connection that wait for their answers.
/// Source: chosen: browsers that pipelined sent 32 at most. Past it the connection counts as lost.
pub const MAX_PIPELINED: usize = 64;

/// Bytes of a file name that a decoder emits.
/// Source: chosen: four times what Linux's `NAME_MAX` (255) takes. Past it its beginning is cut
/// off, as its end says what kind it is.
pub const MAX_FILE_NAME: usize = 1_024;

/// Bytes of one line of a text protocol (IRC, DCC chat, MSN).
/// Source: IRCv3 message tags (8 191) and RFC 1459 §2.3 (512), rounded up. Past it the connection
/// counts as lost.
pub const MAX_CHAT_LINE: usize = 16_384;

/// Bytes of one MSN message.
/// Source: chosen: the servers took 1 664 at most. Past it the connection counts as lost.
pub const MAX_MSN_MESSAGE: usize = 65_536;

/// File offers of one connection that are remembered until their transfer begins.
/// Source: chosen: people offer a few at once. Past it the oldest is forgotten, and its transfer
/// has no name.
pub const MAX_FILE_OFFERS: usize = 32;

/// Bytes of one XMPP stanza.
/// Source: Prosody takes 262 144 from a client. Past it the connection counts as lost.
pub const MAX_STANZA: usize = 262_144;

/// Nesting of one XMPP stanza.
/// Source: chosen: forwarded messages in archives nest some ten deep. Past it the connection counts
/// as lost.
pub const MAX_XML_DEPTH: usize = 64;

/// Elements of one XMPP stanza.
/// Source: chosen: rosters of a thousand people. Past it the connection counts as lost.
pub const MAX_XML_ELEMENTS: usize = 4_096;

/// Header lines of one HTTP message, or lines of its trailer, whose contents are inspected.
/// Source: Apache's `LimitRequestFields`. Past it the connection counts as lost.
pub const MAX_HEAD_LINES: usize = 100;

/// Bytes of a file that have to be left for the kernel to pass them on unseen.
/// Source: one unsegmented packet. Below it the file stays in the queue, which costs no more.
pub const MIN_UNSEEN: u64 = 65_536;

/// Bytes of a stream that may go by unseen while the receiver lacks some of them.
/// Source: RFC 9293 §3.4: numbers are compared within half of 2^32; less a window of 16 MiB. Past
/// it the contents are not read any more when the client does not wait for the end.
pub const MAX_AMBIGUOUS: u64 = 2_130_706_432;

/// Packets of new flows taken in a row while followed connections have some that wait.
/// Source: chosen: the first packets of flows wait for a third as many of followed ones, and these
/// get their third under a flood of new flows. Past it one of theirs is taken.
pub const MAX_STREAK: u8 = 2;

/// Bytes of one file of YARA rules.
/// Source: chosen: three times the largest public collection in one file. Past it the file is
/// refused.
pub const MAX_RULE_FILE: u64 = 67_108_864;

/// Matches of one pattern that are kept in one look.
/// Source: chosen: conditions count dozens. Past it further matches are passed over, so that a file
/// of repetitions takes no memory.
pub const MAX_RULE_MATCHES: usize = 10_000;

/// Bytes of a file that YARA rules are asked about as a whole.
/// Source: chosen: most programs that are passed around. Past it they are asked about its windows
/// only.
pub const MAX_WHOLE: usize = 8_388_608;

/// Bytes of files under way that one scanner keeps to ask about them as wholes.
/// Source: chosen: sixteen files of [`MAX_WHOLE`]. Past it rules are asked about a further file's
/// windows only.
pub const MAX_WHOLE_HELD: usize = 134_217_728;

/// Bytes of a packet that are kept to show why a flow was decided.
/// Source: chosen: what an application says first, with its headers. Past it the packet is cut.
pub const TRACE_SNAP: usize = 512;

/// Packets of a flow that are kept so, beside those that decided something, of which there may be
/// as many again. Source: chosen: a handshake and [`INSPECT_PACKETS`] of data. Past it only those
/// that decided something are kept.
pub const MAX_TRACE_PACKETS: usize = 12;

/// Bytes that are kept so of all flows.
/// Source: chosen: some twenty thousand flows of the web. Past it the oldest are forgotten.
pub const MAX_TRACES: usize = 33_554_432;

/// Bytes of an audited file that are gathered before they are handed on.
/// Source: half of what the kernel joins to one packet at most (65 535). Past it a part is handed
/// on.
pub const FILE_PIECE: usize = 32_768;

/// Bytes of an audited file that are handed on at once.
/// Source: what the kernel joins to one packet at most. Past it a further part is made.
pub const MAX_FILE_PIECE: usize = 65_536;

/// Parts of audited files that wait for their hashes.
/// Source: chosen: 64 MiB at [`MAX_FILE_PIECE`] each. Past it a file is written down without its
/// hash, and is not kept.
pub const MAX_FILE_PARTS: usize = 1_024;

/// Addresses of which a bridging gateway remembers who sends for them.
/// Source: chosen: as many as [`MAX_FLOWS`]. Past it the older half is forgotten, and its flows are
/// dropped without resets.
pub const MAX_NEIGHBOURS: usize = 65_536;

/// Bytes of [`MAX_CONTENT`] that connections whose application is known leave to those whose is
/// not. Source: chosen: a quarter. Past the rest their packets behind gaps are dropped, and their
/// senders repeat them.
pub const EARLY_RESERVE: usize = 67_108_864;

/// Bytes that an announced flow must have sent before its announcement counts.
/// Source: chosen: what handshakes of other applications fit into, however they are cut. Before it
/// the classifier goes on.
pub const MIN_READ: usize = 256;

/// Files that are kept while they go by, of all queues together.
/// Source: a quarter of the 1 024 descriptors that a process has by default. Past it a further file
/// is written down and not kept.
pub const MAX_PARTIAL_FILES: usize = 256;

/// States of the kernel's automaton before those that are alike are joined.
/// Source: chosen: twice what the built-in signatures take; they are numbered in two bytes. Past it
/// less is distinguished and more is asked; past what that helps user space is asked about all
/// packets of undecided flows.
pub const MAX_TRIAGE_STATES: usize = 8_192;

/// Ports of one transport on which the kernel asks about everything because of signatures.
/// Source: chosen: what is asked about there need not be looked for elsewhere, as long as they are
/// few. Past it signatures of further ports are looked for on all ports.
pub const MAX_TRIAGE_PORTS: usize = 16;

/// Bytes that one expression of a signature file stands for.
/// Source: half of [`TRIAGE_SCAN`], and the same as [`MAX_PATTERN`]. Past it the file is refused.
pub const MAX_EXPRESSION: usize = 256;

/// Expressions in one list of a signature.
/// Source: chosen: four times the longest built-in list. Past it the file is refused.
pub const MAX_EXPRESSIONS: usize = 64;

/// How often the gateway renews its heartbeat in the kernel.
/// Source: chosen: a sixth of [`PULSE`]. More often costs a system call each.
pub const BEAT: Duration = Duration::from_millis(500);

/// For how long the kernel takes the gateway for alive after it has said so.
/// Source: chosen: thirty turns of an idle loop. Past it nothing undecided passes where the policy
/// fails closed.
pub const PULSE: Duration = Duration::from_secs(3);

/// Connections that end at the gateway at once.
/// Source: chosen: two sockets and at most two pipes each, below the 32 768 files that the gateway
/// asks the system for. Past it the one that was quiet for longest is reset for a new one; where
/// none was, new ones go on as packets.
pub const MAX_TERMINATED: usize = 4_096;

/// The part of these slots that one client may have: one of so many.
/// Source: chosen: a client that is many behind one address has a thousand. Past it its own
/// connection that was quiet for longest is reset for a new one.
pub const TERMINATED_SHARE: usize = 4;

/// For how long a terminated connection has to have been quiet to give way to another.
/// Source: chosen: longer than people think between two clicks. Where none was, new ones go on as
/// packets.
pub const TERMINATED_QUIET: Duration = Duration::from_secs(30);

/// Bytes read from a terminated connection at once.
/// Source: half of what an IP packet carries, so that a window of [`SCAN_WINDOW`] takes one or two.
/// More come with the next reading.
pub const TERMINATED_READ: usize = 32_768;

/// Bytes that wait to leave in one direction of a terminated connection.
/// Source: chosen: several windows of [`SCAN_WINDOW`], and what a path of 100 Mbit/s and 20 ms
/// holds. Past it nothing is read, and TCP stops the sender.
pub const TERMINATED_PENDING: usize = 262_144;

/// When what the gateway did not take of a terminated connection is offered again.
/// Source: RFC 6298 §2.4 has a second as TCP's least, Linux a fifth of one.
pub const TERMINATED_AGAIN: Duration = Duration::from_millis(200);

/// How often.
/// Source: chosen: six seconds. Past it the connection is reset.
pub const TERMINATED_TRIES: u8 = 30;

/// For how long a connection to the server of a terminated connection may take to open.
/// Source: chosen: four retransmitted SYNs. Past it the client's connection is reset.
pub const TERMINATED_CONNECT: Duration = Duration::from_secs(31);

/// Connections that are accepted, and connections that are looked at, before queued packets have
/// their turn. Source: chosen: some milliseconds. The rest is done in the next turn.
pub const TERMINATED_TURN: usize = 64;

/// Readings of one direction of a terminated connection before others have their turn.
/// Source: chosen: 128 KiB, below a tenth of a millisecond. The rest is read in the next turn.
pub const TERMINATED_READS: usize = 4;

/// Flows that the kernel has handed over and whose packet has not been seen yet.
/// Source: chosen: five times what fits into the kernel's ring. Past it the oldest is forgotten:
/// its packet was lost, or comes as that of a flow without a beginning.
pub const MAX_HANDED: usize = 4_096;

/// Bytes of one direction that the kernel may have passed and not kept before it asks.
/// Source: ours: [`ONE_SIDED`] times eight packets joined to 512 KiB (Linux' BIG TCP), doubled.
/// Past it what is read of the connection has a hole, which is answered as any other.
pub const MAX_UNKNOWN: u32 = 1 << 25;
