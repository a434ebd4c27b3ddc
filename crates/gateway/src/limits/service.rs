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
/// is missing.
pub const RULES_LOOK: Duration = Duration::from_secs(10);

/// Time that the answer of a queue's loop is waited for.
/// Source: chosen: a loop answers between two batches of packets. Past it that queue is left out of
/// the answer.
pub const QUEUE_ANSWER: Duration = Duration::from_secs(5);
