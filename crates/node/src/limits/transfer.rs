//! Bounds of transfers: how many at once, and how long they wait.

use std::time::Duration;

/// Ended transfers that are listed.
///
/// Source: what a person looks back on. The oldest ended one is forgotten; its file stays.
pub const TRANSFER_HISTORY: usize = 1_000;

/// How far ahead a deadline may be.
///
/// Source: longer than transfers are left waiting. Past it the deadline is refused.
pub const DEADLINE_AHEAD: Duration = Duration::from_secs(366 * 86_400);

/// Files received at once.
///
/// Source: each holds two open files, a thread and 1 MiB. Past it offers are refused with "try
/// later".
pub const RECEIVES: usize = 64;

/// Files sent at once.
///
/// Source: as [`RECEIVES`]. Past it transfers wait.
pub const SENDS: usize = 64;

/// Files hashed at once before they are sent.
///
/// Source: each takes a thread and a part of the disk's speed; more would be slower in all. Past it
/// transfers wait.
pub const HASHES: usize = 16;

/// Transfers to one member that look for it at once, or have a connection and wait for a permit
/// among the [`SENDS`].
///
/// Source: as many as it receives at once ([`ACTIVE_RECEIVES_PER_MEMBER`]). Past it transfers wait
/// for those, and only they: a member that is off takes no permit.
pub const CONNECTING_PER_MEMBER: usize = ACTIVE_RECEIVES_PER_MEMBER;

/// Transfers that wait or run.
///
/// Source: more than a person queues; each costs a task and a row on disk. Past it new ones are
/// refused.
pub const QUEUED_SENDS: usize = 1_000;

/// Pause before a transfer's second attempt; doubled after each further one that brought nothing.
///
/// Source: a peer that restarts is back within a second or two.
pub const RETRY_FIRST: Duration = Duration::from_millis(500);

/// Longest pause between two attempts.
///
/// Source: a peer that was away for a night is found within half a minute of its return.
pub const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// How long the content of a transfer may stand still, however few permits are left.
///
/// Source: a transfer of priority 0 may have to wait for others for minutes. Past it the attempt
/// ends and is repeated, unless there is room for it ([`STALL_TIME_WITH_ROOM`]).
pub const STALL_TIME: Duration = Duration::from_secs(300);

/// The same for a transfer that others hold back, while half of the permits are free: of [`SENDS`]
/// at the sender, of [`RECEIVES`] and of [`ACTIVE_RECEIVES_PER_MEMBER`] at the receiver, which
/// cannot know who holds it back.
///
/// Source: others come before priority 0 for as long as a working day and its backups last. The
/// free half is for those who come meanwhile. A peer that answers nothing at all is noticed within
/// QUIC's idle time. Past it the attempt ends and is repeated.
pub const STALL_TIME_WITH_ROOM: Duration = Duration::from_secs(86_400);

/// How often it is looked whether a transfer that stands still may keep its permit.
///
/// Source: half of the permits are free until then; costs a wake-up. One that makes way does so
/// this much later.
pub const STALL_LOOK: Duration = Duration::from_secs(2);

/// Files of one member that are on their way in, running or waiting.
///
/// Source: a person sends a folder's worth at once. Past it further offers are refused with "try
/// later".
pub const RECEIVES_PER_MEMBER: usize = 128;

/// Files of one member that are received at once.
///
/// Source: a quarter of [`RECEIVES`], so that one member leaves room for others. Past it offers are
/// refused with "try later".
pub const ACTIVE_RECEIVES_PER_MEMBER: usize = 16;

/// Connections that one member may have open to this one.
///
/// Source: as many as it may use ([`ACTIVE_RECEIVES_PER_MEMBER`]), and as many that are ending or
/// testing an address. Past it new ones are closed.
pub const CONNECTIONS_PER_MEMBER: usize = 2 * ACTIVE_RECEIVES_PER_MEMBER;

/// Streams that a peer may have open on one connection.
///
/// Source: a transfer has one, a service's connection several at once. Past it the peer's streams
/// wait, which QUIC tells it.
pub const STREAMS_PER_CONNECTION: usize = 64;

/// How long a partly received file waits for its sender.
///
/// Source: a machine may be off for a holiday. Past it the part is removed and the transfer has
/// failed.
pub const WAITING_RECEIVE_TIME: Duration = Duration::from_secs(30 * 86_400);

/// Longest pause between two tries to notify a receiver that a transfer has ended.
///
/// Source: nothing waits for it but room on the receiver's disk. One that was away is notified this
/// much later.
pub const GIVE_UP_LONGEST: Duration = Duration::from_secs(300);

/// How long a receiver may take to answer that it knows of the end.
///
/// Source: two round trips and a write to its disk; by mail it takes a try more. Past it the next
/// try begins.
pub const GIVE_UP_TIME: Duration = Duration::from_secs(30);

/// How often it is looked by which interface a transfer leaves, where interfaces have caps.
///
/// Source: as long as it takes to notice that a cable was pulled. A transfer that moves sooner is
/// under the other cap for this long.
pub const ROUTE_LOOK: Duration = Duration::from_secs(2);

/// Most bytes of a file, or of the files of a folder, that a rule takes which says nothing of it.
///
/// Source: 1 TiB, more than people send each other, and less than most disks have. What is larger
/// is refused; what does not fit onto the disk waits in any case.
pub const LARGEST_FILE: u64 = 1 << 40;

/// Offers that wait for a person's answer.
///
/// Source: more than a person answers; each costs a row on disk. Past it further ones are refused
/// with "try later".
pub const AWAITED_OFFERS: usize = 256;

/// How long an offer waits for a person's answer.
///
/// Source: chosen: over a week's absence. Past it the offer has failed, which its sender is told
/// when it comes next.
pub const AWAITED_TIME: Duration = Duration::from_secs(14 * 86_400);

/// Characters of the reason for which a person refuses a file.
///
/// Source: a sentence; what a peer says is shown up to 200. Past it the rest is dropped.
pub const REFUSAL_REASON: usize = 120;

/// Offers that were refused before they had a record, as `ringway inbox` shows them.
///
/// Source: as many as a person looks through. Past it the oldest is forgotten; the log has it.
pub const REFUSALS: usize = 200;

/// The same of one member.
///
/// Source: a tenth of [`REFUSALS`], so that one member does not push out all others. Past it that
/// member's oldest is forgotten.
pub const REFUSALS_OF_MEMBER: usize = 20;

/// Programs of rules that run at once.
///
/// Source: each may use a core; files come faster than a scan takes. Past it the next waits, on
/// disk.
pub const HOOKS: usize = 4;

/// How long a program of a rule may run.
///
/// Source: chosen: longer than a virus scan or a conversion of a large file. Past it the program,
/// and what it has started, is killed.
pub const HOOK_TIME: Duration = Duration::from_secs(600);

/// Bytes of what a program of a rule writes that are kept, of each stream.
///
/// Source: a page of messages. Past it the rest is read and dropped.
pub const HOOK_OUTPUT: usize = 8 << 10;

/// Lines of it in the log.
///
/// Source: as [`HOOK_OUTPUT`]. Past it the rest is dropped.
pub const HOOK_LINES: usize = 20;

/// Characters of a line of it.
///
/// Source: wider than terminals. Past it the rest of the line is dropped.
pub const HOOK_LINE: usize = 300;

/// How long the output of a program that has ended is waited for.
///
/// Source: what is in a pipe is read at once; a program that was left behind may hold it open. Past
/// it what comes is not read.
pub const HOOK_OUTPUT_WAIT: Duration = Duration::from_secs(2);

/// Notifications that wait for the desktop.
///
/// Source: far more than a person reads. Past it further ones are dropped; the inbox lists all.
pub const NOTES_WAITING: usize = 1_000;

/// How long a notification waits for others that go with it.
///
/// Source: a person does not notice; a folder's worth of small files arrives within it. What comes
/// later is a notification of its own.
pub const NOTES_TOGETHER: Duration = Duration::from_secs(1);

/// Notifications that are shown one by one.
///
/// Source: as many as desktops show at once. Past it one counts them.
pub const NOTES_SHOWN: usize = 3;
