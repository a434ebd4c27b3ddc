//! Every bound of this program, with its source and what happens past it.

use std::time::Duration;

/// Connections of Postfix at once.
///
/// Source: `default_process_limit` of Postfix is 100. Past it a connection waits.
pub(crate) const CONNECTIONS: usize = 256;

/// Bytes of one request.
///
/// Source: Postfix's own bound of a line is 2 048, and it sends some 30 lines. A longer request
/// ends its connection.
pub(crate) const REQUEST: usize = 65_536;

/// Time that a request may take to come.
///
/// Source: Postfix keeps a connection open for 300 s without a request (`smtpd_policy_service_
/// max_idle`). After it the connection ends.
pub(crate) const IDLE: Duration = Duration::from_secs(600);

/// Networks that are counted in one window.
///
/// Source: chosen; some 400 bytes each. Past it the mail of further ones is not counted.
pub(crate) const NETWORKS: usize = 65_536;

/// Mails that are remembered so that each counts once, however many its recipients.
///
/// Source: chosen; some seconds of a busy server. Past it the oldest is forgotten, and counts again
/// if it has further recipients.
pub(crate) const MAILS: usize = 4_096;

/// Questions to the daemon at once.
///
/// Source: an eighth of what a router does at once. Others wait.
pub(crate) const QUESTIONS: usize = 16;

/// How long a mail waits for what others have counted, where nothing is known of its network.
///
/// Source: chosen; Postfix itself waits for 100 s. After it the answer is made without them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How old what others have counted may be, and still be answered from where the ring is away.
///
/// Source: chosen. After it the answer is `DUNNO`.
pub(crate) const STALE: Duration = Duration::from_secs(300);

/// Time after which a count that has not changed is left again.
///
/// Source: chosen; routers that have come since get it. Sooner nothing is sent.
pub(crate) const AGAIN: Duration = Duration::from_secs(600);

/// Seconds after the end of a window for which routers keep its counts.
///
/// Source: chosen; clocks of routers differ by seconds. After it they forget them.
pub(crate) const KEPT: u64 = 600;

/// Time within which the daemon answers.
///
/// Source: lookups end within some seconds where routers have died. After it the ring counts as
/// away.
pub(crate) const ANSWER: Duration = Duration::from_secs(30);
