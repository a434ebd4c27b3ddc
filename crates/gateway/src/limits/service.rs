//! Bounds of the running gateway: its audit, its rules, its queues.

use std::time::Duration;

/// Events that wait to be written down.
/// Source: chosen: a minute of a thousand decisions a second. Past it further ones are lost and
/// counted.
pub const AUDIT_BACKLOG: usize = 65_536;

/// Events of one transaction.
/// Source: chosen: well below a second on a slow disk. Past it another transaction begins.
pub const AUDIT_BATCH: usize = 4_096;

/// Alike alerts that are written down one by one within [`JOINED_FOR`].
/// Source: chosen: enough to see whom a client calls. Past it they are joined, with their number.
pub const JOINED_AFTER: u32 = 50;

/// For how long alike alerts are joined.
/// Source: the same as the gateway's `REFUSALS_REPORTED`. Past it they are written as one event.
pub const JOINED_FOR: Duration = Duration::from_secs(10);

/// Clients and rules whose events are joined.
/// Source: chosen: some megabytes. Past it events of others are written one by one.
pub const MAX_JOINED: usize = 4_096;

/// Events a second that are written down for long.
/// Source: chosen: some 1 MB a second of database and EVE together. Past it events are left out and
/// counted.
pub const EVENT_RATE: u64 = 500;

/// Events that may be written down at once beyond that rate.
/// Source: chosen: forty seconds of it. Past it events are left out and counted.
pub const EVENT_BURST: u64 = 20_000;

/// Time after which the writer looks for other work when no event comes.
/// Source: chosen. Past it old events are forgotten, if that is due.
pub const AUDIT_PAUSE: Duration = Duration::from_secs(1);

/// Time between two looks for events that are no longer kept.
/// Source: chosen: retention is meant in days. Past it they are forgotten.
pub const AUDIT_TIDY: Duration = Duration::from_secs(600);

/// The audit's file in its folder.
/// Source: chosen; other tools may read it (SQLite).
pub const AUDIT_FILE: &str = "audit.db";

/// The file in the state's folder that a running gateway locks.
/// Source: chosen; it stays empty.
pub const STATE_LOCK_FILE: &str = "lock";

/// The folder of files that are kept, beside the audit.
/// Source: chosen.
pub const FILE_STORE_FOLDER: &str = "files";

/// Time between two looks whether the packet filter's rules are as they were put in.
/// Source: chosen: two short programs each. Until then what a firewall takes out with its own rules
/// is missing, unless the kernel announces the change (nftables).
pub const RULES_LOOK: Duration = Duration::from_secs(10);

/// Time after a look that a change of the packet filter has caused, within which further changes
/// cause none.
/// Source: chosen: a firewall reloads within it (`firewall-cmd --reload`, 0.6 s measured), and
/// programs that change rules all the time cost at most two looks a second. At its end one look
/// answers for all of them.
pub const RULES_SETTLE: Duration = Duration::from_secs(1);

/// Time that the answer of a queue's loop is waited for.
/// Source: chosen: a loop answers between two batches of packets. Past it that queue is left out of
/// the answer.
pub const QUEUE_ANSWER: Duration = Duration::from_secs(5);

/// Flows that are accounted for at once.
/// Source: Linux's `nf_conntrack_max` of machines of 4 GiB and more; some 600 bytes each. Past it
/// further ones are not accounted for, and counted.
pub const MAX_ACCOUNTS: usize = 262_144;

/// Names in one table of totals.
/// Source: chosen: hosts of a large office; a megabyte for each table. Past it others are counted
/// together.
pub const MAX_GROUPS: usize = 4_096;

/// For how long a decision is waited for of a flow that the kernel has ended, and for its last
/// packets of a connection that both ends have closed.
/// Source: chosen: below the 2 s within which a flow ends in the figures, above the queues' pause.
/// Past it the flow counts as not asked about; later packets are added to the totals.
pub const ACCOUNT_SETTLES: Duration = Duration::from_secs(1);

/// Looks at the kernel's flows that miss one in a row, after which it has ended.
/// Source: chosen: the table may be resized during one look. Past it the flow is reported as lost.
pub const ACCOUNT_MISSED: u32 = 2;

/// Time between two reports of a flow that lives.
/// Source: Suricata's `flow` events come at the end only; a minute is the pace of charts. Past it
/// the flow is reported as it stands.
pub const ACCOUNT_EVERY: Duration = Duration::from_secs(60);

/// Hosts and members of which is known what they have used, over all rules with quotas.
/// Source: a /16 of IPv4; some 10 MB. Past it the sixteenth of them that has used least is
/// forgotten, and counts from nothing again.
pub const MAX_QUOTA_COUNTERS: usize = 65_536;

/// Time between two looks at the kernel's flows where rules have quotas.
/// Source: chosen: a flow is moved within two seconds; a look is a dump of connection tracking, and
/// [`LOOK_SHARE`] bounds what it costs. Past it flows that go on are charged.
pub const QUOTA_LOOK: Duration = Duration::from_secs(1);

/// Looks for which a flow whose quota is used up may wait for its next packet, with which both ends
/// are reset.
/// Source: chosen: a TCP retransmits some times within it (RFC 6298). Past it the kernel drops the
/// flow without a word.
pub const QUOTA_RESETS: u32 = 8;

/// Looks at all connections after a policy about torrents has come.
/// Source: chosen: more than [`QUOTA_RESETS`], past which the kernel drops what has not ended. Past
/// it flows that it refuses go on.
pub const REFUSAL_LOOKS: u32 = 12;

/// Time between two times that quotas are written down.
/// Source: chosen: flash memory of small routers bears it. Past it what changed is written; a
/// killed gateway loses what flows carried that ended within it.
pub const QUOTA_SAVED: Duration = Duration::from_secs(10);

/// File in the folder of state that holds what was used of quotas.
/// Source: chosen. Past it: it is one file.
pub const QUOTA_FILE: &str = "quotas.db";

/// Reports of the gateway to its accounts that wait.
/// Source: the same as [`AUDIT_BACKLOG`]. Past it flows count as not asked about, and are counted
/// as lost.
pub const ACCOUNT_BACKLOG: usize = 65_536;

/// Pause of the thread that keeps the accounts when nothing comes.
/// Source: the same as the queues' loop. Past it the kernel's events are read.
pub const ACCOUNT_PAUSE: Duration = Duration::from_millis(100);

/// Addresses whose side of the border is remembered.
/// Source: the same as [`MAX_FLOWS`](super::MAX_FLOWS). Past it all are forgotten and asked for
/// again.
pub const MAX_SIDES: usize = 65_536;

/// For how long the side of an address is remembered.
/// Source: chosen: routes change seldom. Past it the kernel is asked again.
pub const SIDE_KEPT: Duration = Duration::from_secs(60);

/// Bytes of the kernel's events of connections that wait.
/// Source: chosen: a pause of [`ACCOUNT_PAUSE`] at 100 000 ends a second, at some 800 bytes each.
/// Past it ends are lost: the next looks find them, with the counts of the look before.
pub const CONNTRACK_SOCKET_BUFFER: usize = 8_388_608;

/// File in the folder of state that holds how the kernel counted before the gateway.
/// Source: chosen. Past it: it is one file.
pub const COUNTING_FILE: &str = "conntrack-settings";

/// The file in the state's folder that says which tables and chains of nftables the first rule of
/// ours has made.
/// Source: chosen. Without it they stay, empty, when the last rule has gone.
pub const ABSENT_FILE: &str = "made-for-rules";

/// Age of a look at the kernel's flows that is fresh enough to answer from.
/// Source: chosen: `gate top` draws once a second. Past it another look is taken.
pub const LOOK_FRESH: Duration = Duration::from_millis(500);

/// Looks take at most one part in so many of a processor's time, unless they are asked for.
/// Source: chosen: a look at 200 000 flows takes some tenths of a second. Past it flows that were
/// dropped at once end later in the figures.
pub const LOOK_SHARE: u32 = 10;

/// Bytes of events that wait for a reader at a socket.
/// Source: chosen: some thousand events, seconds of a busy border. Past it further ones are lost
/// and counted.
pub const EVE_PENDING: usize = 8 << 20;

/// Time between two tries to connect to a reader of events that is not there.
/// Source: chosen: a reader that restarts is back within seconds. Until then events wait.
pub const EVE_RECONNECT: Duration = Duration::from_secs(1);

/// Time between two looks whether a slow reader of events takes more.
/// Source: chosen: with the 200 kB that a socket holds, some megabytes a second. Past it the reader
/// gets the next of them.
pub const EVE_LOOK: Duration = Duration::from_millis(50);

/// Time that readers of events get when the gateway ends.
/// Source: chosen: well below what a service's stop is waited for. Past it what waits is lost and
/// counted.
pub const EVE_LINGER: Duration = Duration::from_secs(2);

/// Flows and names that wait to be written as EVE.
/// Source: half of [`AUDIT_BACKLOG`], so that they leave room for decisions. Past it further ones
/// are lost and counted.
pub const EVE_BACKLOG: usize = AUDIT_BACKLOG / 2;

/// Time between two events of the gateway's figures.
/// Source: chosen: a few lines a minute.
pub const EVE_STATS: Duration = Duration::from_secs(30);

/// Interfaces whose names are remembered.
/// Source: chosen: more than a border has. Past it they are asked for again.
pub const MAX_INTERFACE_NAMES: usize = 256;

/// The history of flows in the gateway's folder.
/// Source: chosen; other tools may read it (SQLite).
pub const HISTORY_FILE: &str = "flows.db";
