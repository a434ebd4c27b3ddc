//! Every bound of the program: unit, source, and what happens past it.

use std::time::Duration;

/// Bytes of an invitation file or of what `join` reads from stdin.
///
/// Source: an invite has at most 512 characters; the rest is room for blank lines around it. A
/// longer text is refused as no invite.
pub(crate) const INVITATION: u64 = 4_096;

/// Bytes of a file with a request for admission or a reply.
///
/// Source: `ringway_node::limits::ADMISSION_TEXT`, and blank lines around it. A longer file is
/// refused as neither.
pub(crate) const ADMISSION: u64 = 80_000;

/// Characters of a member's id that are enough to know it by.
///
/// Source: 16 characters of base32 are 80 bits: too many keys to try until one begins alike. Fewer
/// are refused.
pub(crate) const ID_BEGINNING: usize = 16;

/// Time between two looks at the transfers of `transfers --watch`.
///
/// Source: fast enough for an eye, and a thousand transfers cost the daemon under 1 % of a core. A
/// change in between is shown at the next look.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Columns and rows of a terminal that does not say how many it has.
///
/// Source: the VT100's. A smaller one shows broken lines.
pub(crate) const TERMINAL_SIZE: (usize, usize) = (80, 24);

/// Time between two progress lines where stderr is no terminal.
///
/// Source: a log of an hour's transfer stays below a thousand lines. Changes in between are not
/// shown.
pub(crate) const PROGRESS_LINE_INTERVAL: Duration = Duration::from_secs(5);

/// How long a shell waits for the names of members.
///
/// Source: longer than the daemon waits for the owner's list. Past it no names are offered.
pub(crate) const COMPLETION_WAIT: Duration = Duration::from_millis(1_500);

/// How long the runtime may take to end after a command is done.
///
/// Source: longer than a write to a slow disk. Past it, what still runs is abandoned; all state on
/// disk is crash-safe.
pub(crate) const RUNTIME_END: Duration = Duration::from_secs(3);

/// How long one short-lived command of the demo may take.
///
/// Source: the slowest, an enrolment on two busy cores in a debug build, takes below 5 s. Past it
/// the step fails.
pub(crate) const DEMO_COMMAND: Duration = Duration::from_secs(60);

/// How long a daemon of the demo may take until it says that it is ready.
///
/// Source: as [`DEMO_COMMAND`]. Past it the step fails.
pub(crate) const DEMO_READY: Duration = Duration::from_secs(60);

/// How long the demo's ring may take until its invariant holds, and to heal.
///
/// Source: a few rounds of stabilisation take seconds; a demo should not stand still for longer
/// than a minute. Past it the step fails and shows the last difference.
pub(crate) const DEMO_RING: Duration = Duration::from_secs(60);

/// How long the demo's transfers may take beyond the time that the upload limit gives them.
///
/// Source: hashing, connecting and a debug build on two busy cores. Past it the step fails.
pub(crate) const DEMO_TRANSFER_SLACK: Duration = Duration::from_secs(180);

/// Time that the demo's two transfers take together at the demo's upload limit, in seconds.
///
/// Source: room for two measurements of [`DEMO_SHARE_WINDOW`] with settling before each. A shorter
/// time would end the smaller file before the second.
pub(crate) const DEMO_TRANSFER_SECONDS: u64 = 16;

/// Time over which the demo measures how two transfers share the upload.
///
/// Source: long against the second over which the daemon refills its limit. A shorter one measures
/// bursts.
pub(crate) const DEMO_SHARE_WINDOW: Duration = Duration::from_secs(2);

/// Time that the demo lets pass after a change of priority before it measures.
///
/// Source: data already in flight still obeys the old priority. A shorter one mixes both.
pub(crate) const DEMO_SETTLING: Duration = Duration::from_secs(1);

/// Time between two looks at something that the demo waits for.
///
/// Source: seven members asked one after another by a process each. A change in between is seen at
/// the next look.
pub(crate) const DEMO_POLL: Duration = Duration::from_millis(300);

/// How long the demo's daemons may take to end by themselves.
///
/// Source: they only close sockets and a database. Past it they are killed.
pub(crate) const DEMO_GRACE: Duration = Duration::from_secs(5);

/// How often the demo chooses new ports and starts over because another program took one.
///
/// Source: ports are tried before they are used, so that even one collision is rare. Past it the
/// demo fails and says so.
pub(crate) const DEMO_PORT_ATTEMPTS: u32 = 4;

/// Lines of each process's log that a failed demo shows.
///
/// Source: a cause and what led to it fit on a screen. Earlier lines are shown by `--keep`.
pub(crate) const DEMO_LOG_TAIL: usize = 8;

/// Texts that the demo looks up at most until one belongs to a router that it may kill.
///
/// Source: with three of five routers allowed, 64 texts miss all of them with a chance below 10⁻⁹
/// unless their arcs are tiny. Past it the step fails.
pub(crate) const DEMO_KEYS: usize = 64;

/// How long the demo's border may take in all.
///
/// Source: 13 s on two cores, and much more beside other work. Past it the step fails.
pub(crate) const DEMO_BORDER: Duration = Duration::from_secs(180);

/// How long a client or a server of the demo's border waits for the other.
///
/// Source: chosen: both are on this machine, which may be busy. Past it the connection counts as
/// ended.
pub(crate) const DEMO_SOCKET: Duration = Duration::from_secs(10);

/// How long a blocked client of the demo waits for its connection before it connects again.
///
/// Source: the first SYN is repeated after a second (RFC 6298 §2), so that each try sends one or
/// two. A longer one shows fewer tries.
pub(crate) const DEMO_RECONNECT: Duration = Duration::from_secs(1);

/// Time between two looks at what a process of the demo's border does.
///
/// Source: shorter than a person notices. A change in between is seen at the next look.
pub(crate) const DEMO_WAIT: Duration = Duration::from_millis(50);

/// Time over which a download is measured before the demo's gateway is at work.
///
/// Source: a gigabit line carries 36 MB in it, many times what the class lets through. A shorter
/// one measures the beginning of TCP.
pub(crate) const DEMO_BEFORE: Duration = Duration::from_millis(300);

/// For how long a client of the demo that was blocked connects again and again.
///
/// Source: some tries, and no standing still. A longer one shows the same.
pub(crate) const DEMO_RECONNECTS: Duration = Duration::from_secs(3);

/// Time that a download in a class runs before the demo measures it.
///
/// Source: the class's queue of 256 KiB is full after an eighth of a second at 16 Mbit/s. A shorter
/// one measures how it fills.
pub(crate) const DEMO_CLASS_SETTLING: Duration = Duration::from_secs(1);

/// Time over which the demo measures a download in a class.
///
/// Source: 6 MB at 16 Mbit/s, twenty times the class's queue. A shorter one measures lumps.
pub(crate) const DEMO_CLASS_WINDOW: Duration = Duration::from_secs(3);

/// Time between two rates that are shown while a download in a class is measured.
///
/// Source: a third of [`DEMO_CLASS_WINDOW`], so that there are three. A shorter one shows lumps.
pub(crate) const DEMO_CLASS_LOOK: Duration = Duration::from_secs(1);

/// Bytes of standard input that `put` reads.
///
/// Source: more than a record may have, so that what is too long is refused and not cut. Past it
/// the rest is not read.
pub(crate) const RECORD_INPUT: u64 = 4096;

/// Readers of metrics at once.
/// Source: chosen: Prometheus comes alone or in pairs. Past it the next one waits.
pub(crate) const METRICS_READERS: usize = 8;

/// Bytes of one request to the gateway's daemon.
/// Source: the largest policy, doubled for the escapes of JSON. Past it the request cannot be read.
pub(crate) const GATE_REQUEST: u64 = 2_097_152;

/// Time that one request to the gateway's daemon may take.
/// Source: chosen: iptables may wait for its lock. Past it the connection ends.
pub(crate) const GATE_REQUEST_TIME: Duration = Duration::from_secs(30);

/// Requests to the gateway's daemon that are under way at once.
/// Source: chosen: some people and a program that watches; each has a thread and [`GATE_REQUEST`]
/// bytes at most. Past it a further one waits until one has ended, at most [`GATE_REQUEST_TIME`].
pub(crate) const GATE_REQUESTS: usize = 16;

/// Time that one connection for metrics may take.
/// Source: half of Prometheus' own 10 seconds. Past it the connection ends.
pub(crate) const METRICS_TIME: Duration = Duration::from_secs(5);

/// Pause after a connection for metrics could not be taken.
/// Source: chosen: no more than ten lines of log a second. Past it the next one is taken.
pub(crate) const METRICS_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of a file that says where members listen.
/// Source: chosen: [`MAX_MEMBERS`](ringway_gateway::limits::MAX_MEMBERS) lines of an IPv6 address
/// and an id. Past it the file is refused.
pub(crate) const MAX_MEMBERS_FILE: usize = 8_388_608;

/// Torrents that `gate swarms` adds up.
/// Source: chosen: some 50 MB. Past it further ones are left out, and counted.
pub(crate) const MAX_SWARMS: usize = 100_000;

/// Hosts of one torrent that are told apart.
/// Source: chosen: a large network's. Past it further ones are left out.
pub(crate) const SWARM_HOSTS: usize = 1_000;

/// Flows of one queue that are reported at once.
/// Source: chosen: some 3 MB. Past it the older ones are not reported.
pub(crate) const GATE_FLOWS: usize = 10_000;

/// Bytes of a packet's payload that `gate why` prints.
/// Source: chosen: eight lines. Past it they are in the JSON and in the capture only.
pub(crate) const SHOWN_EVIDENCE: usize = 128;

/// Hosts that `gate diff` names for each change.
/// Source: chosen: a line of a terminal or two. Past it hosts are left out, flows are counted.
pub(crate) const DIFF_HOSTS: usize = 10;

/// Bytes of a file with a daemon's options.
/// Source: chosen: a hundred times what all options with their explanations take. Past it the file
/// is refused.
pub(crate) const CONFIG_FILE: u64 = 1_048_576;

/// Time that a start asks its supervisor for, again and again.
/// Source: chosen: a third of it passes between two requests, so that two may be lost. Past it
/// without a request the supervisor counts the start as failed.
pub(crate) const START_EXTENSION: Duration = Duration::from_secs(60);

/// How often a supervisor is notified of a daemon's status, at least.
/// Source: chosen: a person who looks sees the last minute. A watchdog of less than twice that
/// makes it oftener.
pub(crate) const STATUS_INTERVAL: Duration = Duration::from_secs(60);

/// Characters of the status that a supervisor is notified of.
/// Source: chosen: two lines of a terminal. Past it the text is cut off.
pub(crate) const SUPERVISOR_STATUS: usize = 200;

/// Time after SIGHUP in which a terminal that hangs up has gone.
/// Source: chosen: the kernel takes microseconds for all processes of a session. Past it a terminal
/// that is still there stays, and the signal was meant to have the configuration loaded again.
pub(crate) const HANG_UP: Duration = Duration::from_millis(200);

/// Time that one check of `ringway doctor` may take.
/// Source: chosen: two tries of each DNS server take 8 s. Past it the check keeps what it has found
/// and says that it has not finished.
pub(crate) const DOCTOR_CHECK: Duration = Duration::from_secs(20);

/// Time that another program may take that `ringway doctor` asks.
/// Source: chosen: those that are asked answer within a second. Past it the program is ended, and
/// counts as one that is not there.
pub(crate) const DOCTOR_PROGRAM: Duration = Duration::from_secs(5);

/// Bytes of such a program's answer.
/// Source: chosen: the rules of a busy firewall are some hundred KB. Past it the rest is not read.
pub(crate) const DOCTOR_OUTPUT: u64 = 4_194_304;

/// Time that a daemon may take to answer `ringway doctor`.
/// Source: chosen: it answers within milliseconds unless it stands still. Past it the daemon counts
/// as one that does not answer.
pub(crate) const DOCTOR_ANSWER: Duration = Duration::from_secs(5);

/// Linked peers whose paths `ringway doctor` asks the daemon about.
/// Source: chosen: what is wrong with the machine's own line shows with any of them. Past it peers
/// are not asked about.
pub(crate) const DOCTOR_PEERS: usize = 5;

/// Rules of a firewall that one packet is followed through.
/// Source: chosen: a hundred times what a busy firewall has on one way. Past it the way is not
/// known.
pub(crate) const DOCTOR_RULES: usize = 100_000;

/// Lines of each service's log in the file of `ringway doctor --support`.
/// Source: chosen: a start, and what came before it. Earlier ones are left out.
pub(crate) const DOCTOR_LOG_LINES: usize = 500;

/// Bytes of a passphrase that is typed.
///
/// Source: chosen; a page of text has more than anybody types. Further ones are not taken.
pub(crate) const PASSPHRASE_BYTES: usize = 1_024;

/// Time that the daemon may take to end after it has left its ring.
/// Source: chosen: it says goodbye to its links, which takes a second. Past it the command says
/// that the key is still there.
pub(crate) const LEAVE_TIME: Duration = Duration::from_secs(60);

/// Time between two looks at whether it has ended.
/// Source: chosen: too short to be seen. A longer one makes the command slower.
pub(crate) const LEAVE_LOOK: Duration = Duration::from_millis(50);

/// Messages that wait to be written out by `msg --follow`.
///
/// Source: what is marked as read at once. Past it the daemon waits.
pub(crate) const FOLLOWED_MESSAGES: usize = 256;
