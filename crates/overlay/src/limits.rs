//! Every bound of this crate, with its unit, its source and what happens past it.

use std::time::Duration;

/// Bytes of a ring key.
/// Source: the design's decision 4, a SHA-256 digest's length. Other lengths do not decode.
pub const KEY_LEN: usize = 32;

/// Bytes at the start of a router's key that come from the hash.
/// Source: "Our Brothers' Keepers" §3.1. Fixed; another split gives keys that do not match.
pub const KEY_HASH_LEN: usize = 14;

/// Bytes at the end of a router's key that hold its address: 16 of IPv6 and 2 of port.
/// Source: RFC 4291 §2.5.5.2 for the mapping of IPv4. Fixed, as above.
pub const KEY_ADDRESS_LEN: usize = 18;

/// Bytes of the longest encoded message.
/// Source: a datagram of 1 200 bytes (RFC 9000 §14) less the link's header and tag. A longer one is
/// refused by the decoder; the encoder cannot make one.
pub const MAX_MESSAGE: usize = 1_100;

/// Keys in the longest list of a message.
/// Source: 16 keys of 34 encoded bytes stay far below [`MAX_MESSAGE`]. A longer list is refused by
/// the decoder, and cut by the encoder.
pub const MAX_LIST: usize = 16;

/// Bytes of a certificate in a message.
/// Source: two of them and their keys fit [`MAX_MESSAGE`]. A longer one is refused by the decoder.
pub const MAX_CERTIFICATE: usize = 480;

/// Certificates in one message.
/// Source: [`MAX_MESSAGE`]. Past it the rest is asked for in another message.
pub const MAX_CERTIFICATES: usize = 2;

/// Members of the smallest group that may be configured.
/// Source: "Our Brothers' Keepers" §3.5 says 5 to 15. Less is refused by `Config`.
pub const MIN_GROUP: usize = 5;

/// Members of the largest group that may be configured.
/// Source: as above, and [`MAX_LIST`]. More is refused by `Config`.
pub const MAX_GROUP: usize = 15;

/// Entries of the shortest successor list that a member may be configured with.
/// Source: Zave §III: with r = 1 one death can break the ring. Less is refused by `Config`.
pub const MIN_SUCCESSORS: usize = 2;

/// Entries of the longest successor list that a member may be configured with.
/// Source: [`MAX_LIST`]. More is refused by `Config`.
pub const MAX_SUCCESSORS: usize = MAX_LIST;

/// Repetitions of an unanswered request that may be configured.
/// Source: chosen; ten tries of half a second already take five seconds. More is refused by
/// `Config`.
pub const MAX_RETRIES: u32 = 10;

/// Shortest interval or time limit that may be configured.
/// Source: chosen; the timers of a member must not become a flood. Less is refused by `Config`.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Requests that may wait for an answer at once.
/// Source: [`MAX_LOOKUPS`] lookups that each ask a group of [`MAX_GROUP`] at once, and ring
/// maintenance. Past it the newest lookup request is not sent, and its lookup waits for an answer
/// to another one, or for its time limit: it never makes do with fewer members.
pub const MAX_REQUESTS: usize = 2_048;

/// Answers whose times are known before any is called late.
/// Source: chosen. Before, only the repetition of a request shows that it is slow.
pub const PACE_SAMPLES: u32 = 8;

/// Least time after which an answer is called late.
/// Source: chosen; a busy machine's scheduling. A lookup asks somebody else then, and takes either
/// answer.
pub const MIN_PATIENCE: Duration = Duration::from_millis(20);

/// Answers whose times say how slow this member or its surroundings are.
/// Source: chosen; some seconds of ring maintenance. Past it the oldest is forgotten; before half
/// of them are there, they say nothing.
pub const HEALTH_SAMPLES: usize = 16;

/// How many times as long as configured time-outs get, at most, while answers or own timers are
/// late. Source: memberlist's `AwarenessMaxMultiplier`, 8. Past it slow members are taken for dead.
pub const MAX_HEALTH_MULTIPLIER: f64 = 8.0;

/// Requests that were given up and whose answers are recognised when they come late.
/// Source: chosen; 64 bytes each, and as many as a verified lookup asks. Past it the oldest is
/// forgotten.
pub const MAX_GIVEN_UP: usize = 64;

/// Times in a row that a lookup of a finger may fail before the pause between two is not doubled
/// any more. Source: chosen; sixteen times the configured pause. Past it the pause stays so.
pub const MAX_FINGER_FAILURES: u32 = 4;

/// Lookups of the caller that may run at once.
/// Source: chosen; twice what a busy member with 64 transfers starts. Past it `lookup` is refused.
pub const MAX_LOOKUPS: usize = 128;

/// Members that one lookup asks at once.
/// Source: Kademlia's α = 3. A slow or dead member then costs one time limit, not the lookup; past
/// it the lookup waits.
pub const LOOKUP_PARALLEL: usize = 3;

/// Members that one lookup asks in all.
/// Source: 2·log2(100 000) hops, and as many again for dead members. Past it the lookup fails.
pub const MAX_HOPS: usize = 64;

/// Candidates that one lookup remembers.
/// Source: 16 of each of a few hops; the nearest to the target are kept. Past it the farthest goes.
pub const MAX_CANDIDATES: usize = 64;

/// Candidates in one answer to a lookup.
/// Source: several, so that dead ones can be skipped. Past it the farthest from the target go.
pub const MAX_CLOSER: usize = 8;

/// Fingers of one member.
/// Source: 15 · log16(N / 2) are 58 for 100 000 members and 103 for 400 million. Past it the one
/// with the smallest span goes.
pub const MAX_FINGERS: usize = 104;

/// Attempts of a verified lookup.
/// Source: chosen; each costs as much as the first. Past it the best answer is given as unverified.
pub const MAX_ATTEMPTS: usize = 3;

/// Bootstraps through which a member looks for its own place.
/// Source: chosen; at 30 % liars five are all liars in 0.24 % of the cases. Past it they are not
/// asked.
pub const JOIN_ATTEMPTS: usize = 5;

/// Members near its target that one verified lookup asks in all.
/// Source: four groups of 15. Past it those who were named last are not asked.
pub const MAX_FINAL_ASKED: usize = 60;

/// How long a view counts.
/// Source: chosen; a member that left is forgotten within it even where no member asks. After it
/// the view is not used.
pub const VIEW_LIFETIME: Duration = Duration::from_secs(600);

/// How long after its end a view is still taken from its author.
/// Source: chosen; clocks of machines that have just been started are wrong by minutes, and some by
/// an hour where daylight saving time was taken for a zone. The author itself states it over an
/// authenticated link, so no other member gains by it. Past it the view does not hold, and a member
/// whose clock is so far ahead finds no place in the ring.
pub const VIEW_GRACE: Duration = Duration::from_secs(3_600);

/// A difference between date and clock, since a view was signed last, that begins a new start.
/// Source: chosen; clocks that are slewed move by 0.5 ms a second, 0.15 s in half a
/// [`VIEW_LIFETIME`]. A smaller step is not noticed.
pub const CLOCK_STEP: Duration = Duration::from_secs(5);

/// Least time between two new starts for views that others say they have.
/// Source: chosen; one that lies about them makes this member sign one view more a minute. Sooner
/// nothing is done.
pub const START_PAUSE: Duration = Duration::from_secs(60);

/// Seconds that the count of a member's starts may be ahead of the time.
/// Source: chosen, ten years: clocks at a start have been wrong by as much. What others say beyond
/// it is not believed, so that no member can use the numbers up.
pub const START_AHEAD: u64 = 315_360_000;

/// Least time between two proofs that a convicted member is shown of its own guilt.
/// Source: chosen; it asks more often. In between it gets no answer.
pub const CONVICTED_NOTICE_PAUSE: Duration = Duration::from_secs(60);

/// Least time between two views that one member signs.
/// Source: chosen; several changes at once become one view. Sooner changes wait.
pub const VIEW_PAUSE: Duration = Duration::from_millis(200);

/// Time between two audits of one member, ± 25 % at random.
/// Source: chosen; some 40 messages each, a hundred bytes a second. A member is then asked by an
/// auditor every thirteen seconds, however many there are. Longer, and a lie to strangers stays
/// hidden for as much longer.
pub const AUDIT_INTERVAL: Duration = Duration::from_secs(120);

/// Members whose statements are remembered, to compare them with later ones.
/// Source: chosen; a group, and those who were in it lately. Past it one that is not in the group
/// is forgotten.
pub const MAX_SPEAKERS: usize = 32;

/// Statements that are remembered of one member.
/// Source: chosen; a liar that signs faster breaks its own chain. Past it the oldest is forgotten.
pub const MAX_SAID: usize = 8;

/// Accused members, and accusers, whose certificates are asked for at once.
/// Source: chosen; 500 bytes each, and one for each member that says so. Past it accusations of
/// further ones are dropped: others tell of them, too.
pub const MAX_ACCUSED: usize = 16;

/// Members that this one holds proof against.
/// Source: chosen; 1 000 bytes each. The ring's owner removes them for good long before. Past it no
/// more are convicted.
pub const MAX_CONVICTED: usize = 4_096;

/// Proofs that a member which comes into the own group is told.
/// Source: chosen; 500 bytes each, and each of its neighbours tells others. Past it a random
/// choice: those who are convicted of being near it are told by many.
pub const MAX_PROOFS_SENT: usize = 32;

/// Bytes of a statement of the ring's owner that members tell each other.
/// Source: it fits [`MAX_MESSAGE`]; ours takes some 300 revocations. A longer one reaches members
/// by DNS only.
pub const MAX_STATEMENT: usize = 1_000;

/// Bytes of a record's name.
/// Source: chosen, as long as a label of DNS and its length. A longer one is refused.
pub const MAX_RECORD_NAME: usize = 64;

/// Bytes of a record's value.
/// Source: with certificate, name and signature it fits [`MAX_MESSAGE`]. A longer one is refused.
pub const MAX_RECORD_VALUE: usize = 400;

/// How far ahead a record may expire.
/// Source: chosen; what no member asks for any more must not stay for ever. One that would stay for
/// longer is refused.
pub const MAX_RECORD_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// Records that one member keeps for others.
/// Source: chosen; 16 MB at most. Past it new ones are refused; from half of it on those that
/// others ought to keep are forgotten.
pub const MAX_RECORDS: usize = 16_384;

/// Records of one author that one member keeps.
/// Source: chosen; one sixty-fourth of all. Past it new ones of this author are refused.
pub const MAX_RECORDS_OF_MEMBER: usize = 256;

/// Records that are put or looked for at once.
/// Source: as [`MAX_LOOKUPS`], which each begins with. Past it `put` and `get` are refused.
pub const MAX_RECORD_OPERATIONS: usize = 128;

/// Records in one offer.
/// Source: 16 points and numbers of 43 encoded bytes stay below [`MAX_MESSAGE`]. More are offered
/// in further messages.
pub const MAX_OFFERED: usize = MAX_LIST;

/// Members that are being offered records at once.
/// Source: two groups of 15 and some. Past it a further one waits for the next round.
pub const MAX_OFFERS: usize = 32;

/// Time between two offers to one member.
/// Source: chosen; 80 records a second. The rest waits.
pub const OFFER_PAUSE: Duration = Duration::from_millis(200);

/// Time after which somebody new is offered what it ought to have, at most; at random.
/// Source: chosen; a group of nine then sends most copies once, not nine times. It is offered them
/// after it.
pub const OFFER_DELAY: Duration = Duration::from_secs(2);

/// Time between two rounds in which one neighbour is offered everything, ± 25 % at random.
/// Source: chosen; with a hundred records 75 bytes a second. Then the next neighbour is.
pub const RECORD_ROUND: Duration = Duration::from_secs(60);

/// How far ahead a count may expire.
/// Source: chosen; counts are of an hour or a day, and end some minutes after it. One that would
/// stay for longer is refused.
pub const MAX_COUNT_LIFETIME: Duration = Duration::from_secs(26 * 3600);

/// Counts that one router keeps for others.
/// Source: chosen; some 300 bytes each, 20 MB at most. Past it the author that has most there
/// loses one to one that has fewer; from half of it on those that others ought to keep are
/// forgotten.
pub const MAX_COUNTS: usize = 65_536;

/// Routers whose counts of one name are kept.
/// Source: chosen; reading them takes eight questions to each of a group. Past it those count
/// whose keys come first after the name's point: a sample that no router can choose.
pub const MAX_TALLY_AUTHORS: usize = 64;

/// Counts in one message.
/// Source: 8 of 120 encoded bytes fit [`MAX_MESSAGE`]. A longer list is refused by the decoder, and
/// cut by the encoder.
pub const COUNTS_IN_MESSAGE: usize = 8;

/// Pages of one tally that one router is asked for.
/// Source: [`MAX_TALLY_AUTHORS`] counts, [`COUNTS_IN_MESSAGE`] in each. Past it the rest of what it
/// has is not asked for.
pub const MAX_TALLY_PAGES: usize = MAX_TALLY_AUTHORS / COUNTS_IN_MESSAGE;

/// Counts that are left, and tallies that are read, at once.
/// Source: as [`MAX_RECORD_OPERATIONS`]. Past it `count` and `tally` are refused.
pub const MAX_TALLY_OPERATIONS: usize = 128;

/// Names whose groups are remembered.
/// Source: chosen; some 600 bytes each. Past it all are forgotten, and looked up again.
pub const MAX_TALLY_GROUPS: usize = 1_024;

/// How long the group around a name's point is remembered.
/// Source: chosen; so long a router that has come since is not asked, of nine. After it the group
/// is looked up again.
pub const TALLY_GROUP_TIME: Duration = Duration::from_secs(60);

/// Time between two looks for counts that have expired.
/// Source: chosen, as [`RECORD_ROUND`]. Until then they take up room, and are not given out.
pub const TALLY_ROUND: Duration = Duration::from_secs(60);

/// Bootstraps and other known members that are remembered.
/// Source: chosen; enough to come back after most of a ring was replaced. Past it the oldest goes.
pub const MAX_KNOWN: usize = 64;

/// Members that are given out to be persisted.
/// Source: as many as a certificate cache on disk keeps. Past it those that are known least are
/// left out.
pub const MAX_PERSISTED: usize = 145;

/// Members remembered as silent.
/// Source: chosen, as [`MAX_KNOWN`]. Past it the oldest is forgotten, and may be asked again.
pub const MAX_SUSPECTS: usize = 64;

/// How long a silent member is asked last.
/// Source: chosen; ten rounds of stabilisation at the default interval. After it, it is as any
/// other.
pub const SUSPECT_TIME: Duration = Duration::from_secs(10);

/// How long a member that has said that it is in no ring, or whose view does not hold, is not asked
/// for its view because others name it or because it asks.
/// Source: chosen; ten a second at most for each two. Rings of 60 with 30 % malicious routers form
/// alike with pauses from 0 to 1 s (100 seeds). Without it two that do not take each other in ask
/// each other with each answer, as fast as the network carries it.
pub const STRANGER_PAUSE: Duration = Duration::from_millis(100);

/// Such members that are remembered.
/// Source: chosen, as [`MAX_SUSPECTS`]. Past it the oldest is forgotten, and may be asked again.
pub const MAX_STRANGERS: usize = 64;

/// Notifications that wait while another operation runs.
/// Source: chosen; a notifier repeats itself every round. Past it the newest is dropped and
/// counted.
pub const MAX_NOTIFICATIONS: usize = 8;

/// Members whose rate of requests is watched.
/// Source: chosen; 48 bytes each. Past it, requests from further members are dropped and counted
/// until a watched one has been quiet for [`RATE_WINDOW`].
pub const MAX_WATCHED_PEERS: usize = 1_024;

/// Members whose requests are counted before those whose window is over are looked for and
/// forgotten. Source: chosen; what asks one member in a second in a ring at rest, twice. Past it,
/// and each time that they have doubled, they are forgotten.
pub const RATES_KEPT: usize = 32;

/// Requests of one member that are answered in one [`RATE_WINDOW`].
/// Source: chosen; ten times what a member with 64 lookups a second asks one other. Past it
/// they are dropped and counted.
pub const MAX_REQUESTS_PER_PEER: u32 = 600;

/// The window in which the requests of one member are counted.
/// Source: chosen. At its end the count starts again.
pub const RATE_WINDOW: Duration = Duration::from_secs(1);

/// Messages and events that wait to be polled.
/// Source: the contract says to drain after each call; one call adds at most a few dozen. Past it
/// the newest is dropped and counted, as the network would.
pub const MAX_OUTPUT: usize = 4_096;

/// First pause before joining is tried again.
/// Source: chosen; doubled up to [`JOIN_BACKOFF_MAX`] each time no member answers.
pub const JOIN_BACKOFF_MIN: Duration = Duration::from_millis(200);

/// Longest pause before joining is tried again.
/// Source: chosen; a member that comes back is in the ring again within seconds. The pause stays
/// so.
pub const JOIN_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Pause before a member that answered "pending" is asked again, at least; up to twice as long.
/// Source: chosen; one round trip on most paths. See `ring`.
pub const PENDING_PAUSE: Duration = Duration::from_millis(60);

/// Answers "pending" in one operation before the operation is given up until the next round.
/// Source: chosen; an honest member is pending for at most one request with its retries.
pub const MAX_PENDING_ANSWERS: u32 = 8;

/// Times in a row that the future predecessor may fail to let a member in.
/// Source: chosen; with the pauses between, an honest one is done with whatever kept it, or gone.
/// Past it the member takes its place by what the group around it says.
pub const MAX_JOIN_REFUSALS: u32 = 3;

/// Members that a newcomer asks one after the other for its place, each named as nearer by the one
/// before. Source: chosen; so many silent members in a row are rare where three in ten are. Past it
/// the newcomer looks its place up again.
pub const MAX_JOIN_STEPS: u32 = 8;

/// Times that one lookup begins again from the own pointers.
/// Source: chosen; with the pauses between, the ring heals meanwhile. Past it the lookup fails.
pub const MAX_RESTARTS: u32 = 3;

/// Times that a sign of life gives an open request of ring maintenance its tries back.
/// Source: chosen; the living are then hardly ever taken for dead at 5 % loss. Past it, a member
/// that talks but does not answer counts as dead.
pub const MAX_EXTENSIONS: u32 = 2;

/// Complete sets of tries before the only successor counts as dead.
/// Source: chosen; to lose it wrongly would leave this member alone. Past it this member is alone.
pub const LAST_SUCCESSOR_CHANCES: u32 = 2;

/// Time between two probes for members that went out of sight, ± 25 % at random.
/// Source: chosen; about four messages each. A divided network is one ring again a few probes after
/// it is whole.
pub const REUNITE_INTERVAL: Duration = Duration::from_secs(15);

/// The same for a member with credentials, whose probes are verified lookups.
/// Source: chosen; some forty messages each. At 30 % malicious routers one in three probes begins
/// at a malicious router and may be in vain. Longer, and divided rings stay so longer.
pub const REUNITE_INTERVAL_VERIFIED: Duration = Duration::from_secs(30);

/// The same while no member nearby has been lost for [`LOSS_REMEMBERED`].
/// Source: chosen; thirty bytes a second. A division that lasts longer than that is mended within
/// some minutes, not one.
pub const REUNITE_INTERVAL_QUIET: Duration = Duration::from_secs(240);

/// How long after the loss of a neighbour a division is suspected.
/// Source: chosen; longer than most interruptions of networks. After it probes are rare.
pub const LOSS_REMEMBERED: Duration = Duration::from_secs(600);

/// The same for a member that has just become a ring of one; doubled with each probe in vain, up to
/// [`REUNITE_INTERVAL`]. Source: chosen; it has nothing else to do, but hundreds of such members
/// would keep each other from answering.
pub const REUNITE_INTERVAL_ALONE: Duration = Duration::from_secs(2);

/// Time without success after which a member that resumes founds a ring of one, ± 25 % at random.
/// Source: chosen; longer than a restart of most rings takes; as many times as long as the member
/// doubts itself. Without it, members that were all restarted at once would wait for each other for
/// ever.
pub const RESUME_ALONE_AFTER: Duration = Duration::from_secs(10);

/// Bytes that a message through the ring carries from end to end.
/// Source: [`MAX_MESSAGE`] less kind, target and number. A longer payload is refused by the
/// decoder.
pub const MAX_PAYLOAD: usize = 1_040;

/// Bytes of the body of a message through the ring.
/// Source: with a certificate and the seal it fits [`MAX_PAYLOAD`]. A longer one is refused.
pub const MAX_ROUTED_BODY: usize = 400;

/// Bytes that sealing adds to a message, at most.
/// Source: a nonce of 24 bytes, a tag of 16 and a byte that says who has sealed it.
/// `Credentials::seal` must keep to it.
pub const MAX_SEAL: usize = 41;

/// Hops of a message through the ring.
/// Source: log16 of 10^9 members is 8, and half of the hops may be detours. Past it the message is
/// dropped and its sender tries another way.
pub const MAX_ROUTE_HOPS: u8 = 16;

/// Ways through the ring that a message takes, one after the other.
/// Source: chosen; at 30 % that drop messages two hops let half of them through, three ways seven
/// of eight. Past it the message goes straight to its receiver.
pub const ROUTE_WAYS: usize = 3;

/// Longest time that the answer to a message through the ring is waited for before it goes another
/// way. Source: chosen; several hops around the world. Shorter once some answers have come.
pub const ROUTE_TIME: Duration = Duration::from_secs(2);

/// Shortest such time.
/// Source: chosen; a busy machine's scheduling at each of several hops.
pub const MIN_ROUTE_TIME: Duration = Duration::from_millis(100);

/// Messages of one member that wait for their answers.
/// Source: chosen; 1.5 KB each. Past it `route` is refused.
pub const MAX_ROUTES: usize = 4_096;

/// Answers that have been confirmed and are confirmed again if they come again.
/// Source: chosen; 150 bytes each. Past it the oldest is forgotten: if its confirmation was lost,
/// the message is not delivered.
pub const MAX_CONFIRMED: usize = 8_192;

/// Longest time that the next hop may say nothing.
/// Source: chosen, as the time after which a request is repeated. After it the message goes to
/// another hop as well.
pub const HOP_TIME: Duration = Duration::from_millis(500);

/// Hops that one member hands one message to, one after the other, until one has said something.
/// Source: chosen; at 30 % of dead members three are dead in 2.7 % of the cases. Past it the sender
/// has to try another way.
pub const HOP_TRIES: usize = 3;

/// Time after which the hop before is told that its message has been taken on.
/// Source: chosen; an answer that comes sooner says it as well.
pub const ACCEPTED_DELAY: Duration = Duration::from_millis(20);

/// Messages that one [`TakenOn`](crate::Message::TakenOn) names.
/// Source: 64 numbers of 9 bytes fit [`MAX_MESSAGE`]. More are told in further ones.
pub const MAX_ACCEPTED: usize = 64;

/// How long a message on its way is remembered.
/// Source: chosen; twice [`ROUTE_TIME`]. An answer that comes later is lost.
pub const FORWARD_TIME: Duration = Duration::from_secs(4);

/// Messages on their way that are remembered.
/// Source: chosen; 250 bytes each without their payload. Past it the oldest that has been answered
/// is forgotten, or else the newest not taken on.
pub const MAX_FORWARDS: usize = 16_384;

/// Of those, how many may be without an answer.
/// Source: chosen; 1.3 KB each. Past it the newest is not taken on.
pub const MAX_WAITING: usize = 4_096;

/// Of those, how many may come from one neighbour.
/// Source: chosen; a quarter. Past it its newest is not taken on.
pub const MAX_WAITING_OF_PEER: usize = 1_024;

/// Times that one message's answer and confirmation are carried.
/// Source: [`REACHED_REPEATS`] of both, and some by other ways. Past it they are dropped.
pub const MAX_FORWARD_REPEATS: u8 = 12;

/// Messages that have arrived and are not confirmed.
/// Source: chosen; 700 bytes each. Past it the newest is dropped.
pub const MAX_ARRIVALS: usize = 4_096;

/// Of those, how many may come from one neighbour.
/// Source: chosen; a quarter. Past it its newest is dropped.
pub const MAX_ARRIVALS_OF_PEER: usize = 1_024;

/// Ways by which the answer to one message goes back.
/// Source: [`ROUTE_WAYS`], the straight one, and repairs. Past it another copy of the message is
/// dropped.
pub const MAX_ARRIVAL_WAYS: usize = 6;

/// Time after which an answer that is not confirmed is sent again.
/// Source: chosen; more than a round trip on most paths.
pub const REACHED_AGAIN: Duration = Duration::from_millis(400);

/// How often an answer is sent again.
/// Source: chosen; at 20 % loss on the way to and fro all four are lost in 2 % of the cases. Past
/// it the message is not delivered.
pub const REACHED_REPEATS: u32 = 3;

/// How old what a receiver has told of its time may be when a message comes back with it that is
/// delivered at once. Source: chosen; members that talk to each other do so more often. Past it the
/// message is confirmed, as one that comes through others.
pub const DIRECT_TIME: Duration = Duration::from_secs(10);

/// Longest time from the beginning of a message to its last try and its confirmation.
/// Source: [`ROUTE_TIME`] for each of [`ROUTE_WAYS`], a lookup of ten seconds and the straight way.
/// Past it the message has failed: its receiver may have forgotten that it has been delivered.
pub const ROUTE_LIFETIME: Duration = Duration::from_secs(18);

/// How long it is remembered what was delivered.
/// Source: until then a copy may come that is delivered: [`ROUTE_LIFETIME`], the last [`HOP_TRIES`]
/// of [`HOP_TIME`] each, [`DIRECT_TIME`], and a second because clocks tell whole ones, make 31
/// seconds.
pub const REMEMBERED: Duration = Duration::from_secs(35);

/// Messages that were delivered and are remembered.
/// Source: chosen; 150 bytes each, 1 900 messages a second. Past it messages cross three times.
pub const MAX_DELIVERED: usize = 65_536;

/// Of those, how many may be of one sender.
/// Source: chosen; a quarter. Past it its messages cross three times.
pub const MAX_DELIVERED_OF_MEMBER: usize = 16_384;

/// How long an estimate of the ring's density is good enough for messages on their way.
/// Source: chosen, a round of stabilisation; a ring does not change much in it, and a wrong guess
/// costs a hop. Past it the fingers are looked through again.
pub const DENSITY_TIME: Duration = Duration::from_secs(1);

/// Members met up to which messages go straight to those between them.
/// Source: chosen; with each a link of about 10 KB while they are in use. Past it, in larger rings,
/// messages go by the fingers' groups.
pub const MAX_MET: usize = 512;

/// How long nothing goes straight, for having met it, to a member that has left a message
/// unanswered. Source: chosen; a restart, and many messages that need not wait for it. Until then
/// they go through others.
pub const SILENT_TIME: Duration = Duration::from_secs(60);

/// Members that are known to have this member's certificate.
/// Source: chosen; 64 bytes each. Past it the certificate goes along with every message to further
/// ones.
pub const MAX_KNOWN_PEERS: usize = 4_096;

/// Members of whom it is remembered that messages through them were not answered.
/// Source: chosen; 80 bytes each. Past it further ones are drawn as often as any.
pub const MAX_PREFERENCES: usize = 1_024;

/// The least weight of a member when the next hop is drawn.
/// Source: chosen; it gets the occasional message by which it can show that it works again.
pub const LEAST_PREFERENCE: f64 = 1.0 / 32.0;

/// Messages of one neighbour that are handed on in one [`RATE_WINDOW`].
/// Source: chosen; at 5 µs each a tenth of a core. Past it they are dropped and counted.
pub const MAX_ROUTED_PER_PEER: u32 = 20_000;
