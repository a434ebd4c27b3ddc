//! The bounds of links: sessions, handshakes, queues and flow control.

/// Counters that a session's replay window looks back.
///
/// Source: RFC 6479 suggests windows of this size for reordering across several paths. An older
/// message is dropped.
pub const REPLAY_WINDOW: usize = 1_024;

/// Age of a session's keys at which a link that is in use makes new ones.
///
/// Source: WireGuard has 120 s, SSH an hour (RFC 4253 §9). A handshake costs each side some 0.3 ms
/// and 500 bytes: a router with [`MAX_LINKS`](super::MAX_LINKS) makes about one a second. Past it a
/// handshake begins with the next message; the old keys serve until it has succeeded.
pub const REKEY_AFTER: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// The same for a link by mail.
///
/// Source: SSH's hour; a handshake costs three mails and may take [`MAIL_HANDSHAKE`]. Past it one
/// begins with the next message.
pub const MAIL_REKEY_AFTER: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Messages sent with one key after which a link makes new ones.
///
/// Source: RFC 9001 §6.6 and B.1 keep AES-GCM to 2^28 packets of 2^11 bytes. Past it a handshake
/// begins; the old keys serve until it has succeeded.
pub const REKEY_MESSAGES: u32 = 1 << 28;

/// Bytes sent with one key after which a link makes new ones.
///
/// Source: 2^32 blocks of AES, an eighth of what RFC 9001 B.1 reckons with and less than RFC 8446
/// §5.5 allows (2^24.5 records of 2^14 bytes): an advantage of 2^-63 in distinguishing ciphertext
/// from noise. Past it a handshake begins; the old keys serve until it has succeeded.
pub const REKEY_BYTES: u64 = 1 << 36;

/// Messages one session sends or takes.
///
/// Source: twice [`REKEY_MESSAGES`]; below the 2^32 of NIST SP 800-38D §8.3 and what the counter on
/// the wire holds. Past it the link ends, and the next message makes another.
pub const SESSION_MESSAGES: u32 = 1 << 29;

/// Bytes one session sends.
///
/// Source: twice [`REKEY_BYTES`], a quarter of what RFC 9001 B.1 reckons with. Past it the link
/// ends, and the next message makes another.
pub const SESSION_BYTES: u64 = 1 << 37;

/// Longest age of a session.
///
/// Source: a link by mail may rest for [`MAIL_LINK_IDLE`] after [`MAIL_REKEY_AFTER`], and then
/// needs time for several handshakes of [`MAIL_HANDSHAKE`]. Past it nothing is sent or taken over
/// the session; the link ends if there is no newer one.
pub const SESSION_TIME: std::time::Duration = std::time::Duration::from_secs(9 * 3_600);

/// How long the session before is still understood; by mail [`MAIL_HANDSHAKE`].
///
/// Source: WireGuard's REJECT_AFTER_TIME, 180 s: longer than a packet is under way, and time for
/// the other side to take the new session into use. Past it its keys are wiped and what comes with
/// them is dropped.
pub const OLD_SESSION: std::time::Duration = std::time::Duration::from_secs(180);

/// Pause between two attempts to make new keys for a link.
///
/// Source: WireGuard's REKEY_TIMEOUT, 5 s. Meanwhile the old keys serve.
pub const REKEY_PAUSE: std::time::Duration = std::time::Duration::from_secs(5);

/// Bytes of one message as a session encrypts it, with its tag.
///
/// Source: Noise §3 has 65 535. A longer one is dropped.
pub const SESSION_LENGTH: usize = 65_535;

/// Handshakes a second that are read without a cookie.
///
/// Source: reading one costs four multiplications on the curve and a signature, some 0.3 ms: a
/// sixtieth of a core. Past it senders over UDP must show a cookie.
pub const STRANGER_HANDSHAKES: u32 = 50;

/// Of these, at once after a pause.
///
/// Source: the members that a router serves may all come when it has restarted; 30 ms of work. Past
/// it as with [`STRANGER_HANDSHAKES`].
pub const STRANGER_BURST: u32 = 100;

/// Handshakes a second that are read under load, of senders whose address is proved.
///
/// Source: four times [`STRANGER_HANDSHAKES`], a fifteenth of a core;
/// [`MAX_LINKS`](super::MAX_LINKS) members are through in five seconds, as long as they repeat
/// themselves. Past it handshakes are dropped and counted.
pub const PROVED_HANDSHAKES: u32 = 200;

/// Of these, at once after a pause.
///
/// Source: half a second of [`PROVED_HANDSHAKES`]. Past it as there.
pub const PROVED_BURST: u32 = 100;

/// Handshakes a second that are read under load from one IPv4 address, one IPv6 /64, or one router
/// that passes them on.
///
/// Source: WireGuard has 20; several members may be behind one address. Past it handshakes from
/// there are dropped and counted.
pub const SOURCE_HANDSHAKES: u32 = 20;

/// Of these, at once after a pause.
///
/// Source: WireGuard's 5. Past it as with [`SOURCE_HANDSHAKES`].
pub const SOURCE_BURST: u32 = 5;

/// Sources whose limit is remembered.
///
/// Source: as many as [`PROVED_HANDSHAKES`] can bring in five seconds. Past it the one with the
/// most left is forgotten.
pub const HANDSHAKE_SOURCES: usize = 1_024;

/// How long cookies are made with one secret; they are good for as long again.
///
/// Source: WireGuard, 120 s. An older cookie is answered with a new one.
pub const COOKIE_SECRET_TIME: std::time::Duration = std::time::Duration::from_secs(120);

/// Cookies that one handshake takes from one address.
///
/// Source: the secret may change once while a handshake repeats itself. Further ones are ignored.
pub const COOKIES_TAKEN: u32 = 2;

/// Handshakes of strangers that wait for their first message.
///
/// Source: one costs about 2 KiB. One half is for senders whose address is proved, the other for
/// those whose is not. Past a half those must show a cookie, and these are dropped and counted.
pub const HALF_OPEN: usize = 256;

/// Of these, of one member from addresses that are not proved.
///
/// Source: two may overlap when both sides begin at once. Past it a sender has to show a cookie,
/// which costs a round trip.
pub const HALF_OPEN_UNPROVED: usize = 2;

/// Of these, of one member from addresses that are proved.
///
/// Source: chosen: [`HALF_OPEN_PER_MEMBER_AND_SOURCE`] from each of four sources. Past it further
/// sources' are dropped and counted; one that is newer than all links takes the place of one that
/// is not.
pub const HALF_OPEN_PER_MEMBER: usize = 8;

/// Of these, from one source: an IPv4 address, an IPv6 /64, or a relaying router.
///
/// Source: as [`HALF_OPEN_UNPROVED`]. Past it that source's oldest of the member is forgotten.
pub const HALF_OPEN_PER_MEMBER_AND_SOURCE: usize = 2;

/// Handshakes of all members that wait, from one source whose address is proved.
///
/// Source: chosen: half of the slots for proved addresses; members of an organisation share one.
/// Past it that source's oldest is forgotten.
pub const HALF_OPEN_PER_SOURCE: usize = HALF_OPEN / 4;

/// Initiations that are remembered because they have become a link, or have waited in vain.
///
/// Source: chosen: a minute and a half of [`STRANGER_HANDSHAKES`], some 400 KiB. Past it the oldest
/// is forgotten, and may take a slot once more.
pub const INITIATIONS_REMEMBERED: usize = 4_096;

/// Addresses from which copies of one initiation are answered before one of them has said anything,
/// and as many more where the sender has proved its address.
///
/// Source: a peer is dialled at several addresses at once, and comes from as many of its own. Past
/// it a sender has to show a cookie; past both bounds copies are not answered.
pub const HALF_OPEN_WAYS: usize = 4;

/// Members of whom the time of the latest handshake is remembered.
///
/// Source: chosen: 16 times [`MAX_LINKS`](super::MAX_LINKS), 1 MiB. Past it the oldest is
/// forgotten, and recorded handshakes of that member since our start are taken for new.
pub const TIMES_REMEMBERED: usize = 16_384;

/// How long a router signs its views for routers of release 0.2 after it has had a link with one.
///
/// Source: chosen: links of a ring at rest end after minutes and come again. Past it, without such
/// a link, views are of the present version.
pub const EARLIER_VIEWS: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Members of other versions of the link protocol that are remembered, to be named.
///
/// Source: chosen: an upgrade leaves a few behind. Past it the one met longest ago is forgotten,
/// and named in the log again when it comes back.
pub const OTHER_VERSIONS: usize = 64;

/// Pieces into which one message is cut.
///
/// Source: 64 pieces of 1 100 bytes hold the longest message that the encryption takes (65 535
/// bytes). A longer message is dropped.
pub const FRAGMENTS: usize = 64;

/// Messages of one link of which pieces are missing.
///
/// Source: pieces of a few messages overlap on the way. Past it the oldest is dropped.
pub const REASSEMBLIES: usize = 8;

/// Bytes that the pieces of one link's unfinished messages hold, with the tables of them.
///
/// Source: [`REASSEMBLIES`] of the longest messages ([`SESSION_LENGTH`]). Past it the oldest is
/// dropped; a single one that is longer is dropped at once.
pub const REASSEMBLY_BYTES: usize = 512 * 1024;

/// The same for all links together, in bytes.
///
/// Source: chosen: 32 links with the most each. Past it the link that holds the most loses all its
/// unfinished messages.
pub const REASSEMBLY_BYTES_IN_ALL: usize = 16 * 1024 * 1024;

/// How long a handshake by mail may take, and how long its answer waits for the first message.
///
/// Source: queues and greylisting hold mail for a quarter of an hour, each way. Past it the
/// handshake is forgotten.
pub const MAIL_HANDSHAKE: std::time::Duration = std::time::Duration::from_secs(1800);

/// Time without use after which a link by mail is closed.
///
/// Source: a new handshake would cost two mails and their delay. Past it the next message makes
/// one.
pub const MAIL_LINK_IDLE: std::time::Duration = std::time::Duration::from_secs(6 * 3600);

/// Messages that wait for one link to come up.
///
/// Source: a lookup and a round of ring maintenance need fewer than ten. The oldest is dropped and
/// counted.
pub const LINK_QUEUE: usize = 64;

/// How long a message may wait for others to share its packet, on a path that takes seconds.
///
/// Source: a small part of the way. Past it the packet leaves as it is.
pub const GATHER_SECONDS: std::time::Duration = std::time::Duration::from_millis(50);

/// Bytes of messages that wait to be put into packets, for one peer; those of applications apart.
///
/// Source: eight of the longest messages; all of them leave at the end of a round. Past it messages
/// are dropped and counted.
pub const LINK_QUEUE_BYTES: usize = 512 * 1024;

/// Bytes of applications' messages that wait for the path, for one peer.
///
/// Source: four windows of [`RECEIVE_ROOM`]. From the half on applications are asked to wait; past
/// it messages are dropped and counted.
pub const PACED_QUEUE_BYTES: usize = 512 * 1024;

/// Messages that an application has handed over and that wait for room, for one peer.
///
/// Source: enough that neither side waits for the other's task. Past it the application waits.
pub const MESSAGES_WAITING: usize = 1_024;

/// Received messages that wait for the application.
///
/// Source: what arrives while an application's task has to wait for its turn. Past it they are
/// dropped and counted.
pub const MESSAGES_UNREAD: usize = 4_096;

/// Packets under way to one peer that are watched.
///
/// Source: what a report can speak of ([`REPORTED_BYTES`]) and as much again. Past it the sender
/// waits for a report.
pub const FLOW_PACKETS: usize = 2_048;

/// Bytes of a report's list of packets, a bit for each.
///
/// Source: 16 times [`REPORT_EVERY`], so that a report may well be lost. Packets before them count
/// as lost if no report has named them.
pub const REPORTED_BYTES: usize = 16;

/// Packets after which a report is due.
///
/// Source: less than the first window of ten packets, so that it does not wait for the clock. Past
/// it a report leaves at once.
pub const REPORT_EVERY: u32 = 8;

/// Longest wait of a report for more packets, or for a packet to share.
///
/// Source: the wheel of timers turns once in a millisecond; round trips are measured without it.
/// Past it the report leaves alone.
pub const REPORT_AFTER: std::time::Duration = std::time::Duration::from_millis(2);

/// Counters by which a packet may come late before it counts as lost.
///
/// Source: RFC 9002 §6.1.1 has 3 for one path; segmentation offload and several queues reorder by
/// more. Past it the window shrinks.
pub const REORDERED: u64 = 16;

/// Bytes that all senders together may have under way to us.
///
/// Source: Linux's default receive buffer of 208 KiB, which holds 90 full datagrams. Past it
/// senders wait.
pub const RECEIVE_ROOM: u32 = 128 * 1024;

/// How long a receiver's process may be away without a loss.
///
/// Source: two turns of Linux's scheduler on a busy machine. Longer, and a full buffer drops what
/// comes.
pub const RECEIVER_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Packets and events that wait to be taken from the links.
///
/// Source: what one batch of input can cause. Past it packets are dropped and counted, as on a full
/// network card.
pub const LINK_OUTPUT: usize = 4_096;

/// Sessions of one link that are still understood.
///
/// Source: both sides may begin at once, and one may renew while the other does; more cannot
/// overlap. The oldest is dropped.
pub const SESSIONS_PER_LINK: usize = 3;

/// Pause between two looks at a link on which nothing happens.
///
/// Source: it is only to find out that the link is not wanted any more; its paths have timers of
/// their own. Longer delays its end.
pub const LINK_LOOK: std::time::Duration = std::time::Duration::from_secs(2);

/// Time without use after which a link is closed.
///
/// Source: ring maintenance uses its links every second; others cost memory and probes. Past it the
/// next message makes a new handshake.
pub const LINK_IDLE: std::time::Duration = std::time::Duration::from_secs(60);
