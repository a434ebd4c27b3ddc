//! The bounds of mail.

use std::time::Duration;

/// Bytes of one message over mail.
///
/// Source: eight of them fill a mail of [`MAIL_BATCH_BYTES`], so even they share mails. Past it
/// sending fails with `TooLarge`, and a mail with a longer message is malformed.
pub const SMTP_MTU: usize = 64 * 1024;

/// Least time between two mails to one mailbox, unless told otherwise: what comes meanwhile is
/// collected into one.
///
/// Source: an answer and what follows it fit into one mail each way, and mail takes about as long
/// anyway. Past it the mail is sent.
pub const MAIL_BATCH_TIME: Duration = Duration::from_secs(2);

/// Longest such time.
///
/// Source: a mail a day; what members say to each other is stale much sooner. Configurations cannot
/// ask for more.
pub const MAIL_BATCH_TIME_MOST: Duration = Duration::from_secs(86_400);

/// Time for which the first messages to a mailbox are collected, if nothing went there lately.
///
/// Source: what one event causes is handed over within a millisecond or two; people notice no more.
/// Past it the mail is sent.
pub const MAIL_GATHER_TIME: Duration = Duration::from_millis(20);

/// Bytes of messages in one mail, unless told otherwise.
///
/// Source: well below the 10 MiB that mail servers take at least (RFC 5321 asks for 64 KiB only).
/// Past it another mail begins.
pub const MAIL_BATCH_BYTES: usize = 512 * 1024;

/// Bytes of messages in one mail, at most, and so of what a mail's part may decode to.
///
/// Source: base64 makes 1.4 MiB of it. Past it a mail that arrives is malformed; options cannot ask
/// for more.
pub const MAIL_CONTAINER_BYTES: usize = 1024 * 1024;

/// Messages in one mail.
///
/// Source: [`MAIL_CONTAINER_BYTES`] in messages of 256 bytes. Past it another mail begins; one that
/// arrives is malformed.
pub const MAIL_MESSAGES: usize = 4096;

/// Bytes of one mail that arrives, with all its headers and encoding.
///
/// Source: [`MAIL_CONTAINER_BYTES`] in base64, a third of slack. Past it the mail is ignored and
/// counted as malformed.
pub const MAIL_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of a mail's headers that are looked at.
///
/// Source: common mail servers take no more than 100 KiB (Postfix: `header_size_limit`). Past it
/// the rest is not looked at.
pub const MAIL_HEAD_BYTES: usize = 256 * 1024;

/// Parts of a mail that are looked at.
///
/// Source: ours have two, mail servers may add a few. Past it the mail is malformed.
pub const MAIL_PARTS: usize = 16;

/// Bytes of a part's headers that are looked at.
///
/// Source: ours have 100. Past it the rest is not looked at.
pub const MAIL_PART_HEAD_BYTES: usize = 4096;

/// Bytes of messages that wait to be mailed, with 64 bytes for each.
///
/// Source: ten thousand messages of 1 200 bytes, or 32 full mails; the relay takes them within
/// seconds when it is well. Past it messages are dropped and counted.
pub const MAIL_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// Mailboxes to which messages are collected at once.
///
/// Source: more than an hour's mails. Past it messages to further mailboxes are dropped and
/// counted.
pub const MAIL_WAITING_BOXES: usize = 256;

/// Mails in any hour, unless told otherwise.
///
/// Source: what mail providers let one user send (100 to 500 an hour), with room for the person.
/// Past it messages are dropped and counted.
pub const MAIL_HOURLY: usize = 60;

/// Mails in any day, unless told otherwise.
///
/// Source: Gmail's limit of 500 a day. Past it messages are dropped and counted.
pub const MAIL_DAILY: usize = 500;

/// Mails to one mailbox in any hour, unless told otherwise.
///
/// Source: one in three minutes is a slow conversation. Past it messages are dropped and counted.
pub const MAILBOX_HOURLY: usize = 20;

/// Mails to one mailbox in any day, unless told otherwise.
///
/// Source: a fifth of [`MAIL_DAILY`]. Past it messages are dropped and counted.
pub const MAILBOX_DAILY: usize = 100;

/// Mails that any budget may allow in a day.
///
/// Source: two a second, all day; the time of each is remembered twice, 16 bytes. Options cannot
/// ask for more.
pub const MAIL_DAILY_MOST: usize = 172_800;

/// Mailboxes whose budget is remembered.
///
/// Source: more than [`MAIL_DAILY`] can reach. Past it messages to further mailboxes are dropped
/// and counted.
pub const MAIL_BUDGETS: usize = 2048;

/// Pause before a mail that the relay could not take is offered again; doubled each time.
///
/// Source: greylisting and restarts last longer, hiccups do not. Past it the mail is offered again.
pub const MAIL_RETRY: Duration = Duration::from_secs(15);

/// Longest such pause.
///
/// Source: RFC 5321 §4.5.4.1 asks for 30 minutes; these mails are stale sooner. Past it the mail is
/// offered again.
pub const MAIL_RETRY_LONGEST: Duration = Duration::from_secs(15 * 60);

/// Age at which a mail that the relay did not take is dropped.
///
/// Source: what members say to each other is repeated or stale by then. Past it its messages are
/// counted as failed.
pub const MAIL_AGE: Duration = Duration::from_secs(3600);

/// Time in which the relay must answer each command.
///
/// Source: RFC 5321 §4.5.3.2 allows minutes, a relay nearby answers in milliseconds. Past it the
/// mail is offered again later.
pub const MAIL_RELAY_TIME: Duration = Duration::from_secs(30);

/// Time for which an unused connection to the relay is kept.
///
/// Source: mail servers wait for five minutes, busy ones for ten seconds (Postfix:
/// `smtpd_timeout`). Past it we say QUIT.
pub const MAIL_RELAY_IDLE: Duration = Duration::from_secs(30);

/// Mails whose number is remembered, to know a copy.
///
/// Source: copies come within hours: two days of [`MAIL_DAILY`]. Past it a copy is delivered again,
/// which transports may do.
pub const MAIL_SEEN: usize = 1024;

/// Bytes of a file with a password.
///
/// Source: longer than any password or token. Past it it is refused.
pub const SECRET_BYTES: u64 = 4096;

/// Connections to the embedded LMTP server.
///
/// Source: mail servers open a few for one destination (Postfix: 20); each may hold [`MAIL_BYTES`].
/// Past it they are closed at once and counted.
pub const LMTP_CONNECTIONS: usize = 20;

/// Time for one command, and for one part of a mail, to arrive at the LMTP server.
///
/// Source: the mail server is nearby. Past it the connection is closed.
pub const LMTP_TIME: Duration = Duration::from_secs(30);

/// Time of one connection to the LMTP server.
///
/// Source: [`MAIL_BYTES`] at 64 kbit/s, twice; bounds who sends byte by byte. Past it the
/// connection is closed.
pub const LMTP_CONNECTION_TIME: Duration = Duration::from_secs(600);

/// Recipients of one mail at the LMTP server.
///
/// Source: our mails have one, a mail server's aliases may add some. Past it they are refused.
pub const LMTP_RECIPIENTS: usize = 16;

/// Commands that the LMTP server does not understand on one connection.
///
/// Source: a mail server makes none, a port scan many. Past it the connection is closed.
pub const LMTP_MISTAKES: usize = 10;

/// Mails of others in a Maildir that are remembered, so that each is read once.
///
/// Source: 8 bytes each, half a MiB. Past it further mails in `new` are not looked at until some
/// are gone.
pub const MAILDIR_FOREIGN: usize = 65_536;

/// Time after which a Maildir is looked through although nothing told us to.
///
/// Source: file servers send no notifications. Past it it is listed.
pub const MAILDIR_LOOK: Duration = Duration::from_secs(30);

/// Time for which a mail in the named pipe may pause.
///
/// Source: its writer has all of it. Past it what is there counts as a whole mail.
pub const PIPE_TIME: Duration = Duration::from_secs(10);

/// Time for one IMAP command.
///
/// Source: a search in a large mailbox takes seconds. Past it the connection is closed and made
/// again.
pub const IMAP_TIME: Duration = Duration::from_secs(60);

/// Time of one IMAP IDLE.
///
/// Source: RFC 2177 allows 29 minutes, NAT mappings of TCP last less. Past it the mailbox is
/// searched, and IDLE begins again.
pub const IMAP_IDLE: Duration = Duration::from_secs(4 * 60);

/// Time between two searches if the IMAP server has no IDLE.
///
/// Source: the paper, §3.2: one minute is a reasonable interval. Past it the mailbox is searched.
pub const IMAP_LOOK: Duration = Duration::from_secs(60);

/// Bytes that an IMAP server may send in answer to one command, and the relay in answer to one
/// mail.
///
/// Source: a mail of [`MAIL_BYTES`], and as much again. Past it the connection is closed and made
/// again.
pub const MAIL_ANSWER_BYTES: u64 = 4 * 1024 * 1024;

/// Time between two looks at a POP3 mailbox, unless told otherwise.
///
/// Source: providers ask for no more than one login in some ten seconds. Past it the mailbox is
/// looked at; a server that wants a longer time (RFC 2449: `LOGIN-DELAY`) gets it.
pub const POP3_LOOK: Duration = Duration::from_secs(30);

/// Least time between two looks at a POP3 mailbox.
///
/// Source: a login and a list cost the server milliseconds. Options cannot ask for less.
pub const POP3_LOOK_LEAST: Duration = Duration::from_secs(1);

/// Longest time between two looks at a POP3 mailbox.
///
/// Source: a look a day; who asks for less has mistyped. Configurations cannot ask for more.
pub const POP3_LOOK_MOST: Duration = Duration::from_secs(86_400);

/// Time for one POP3 command.
///
/// Source: [`MAIL_BYTES`] at 300 kbit/s. Past it the connection is closed; what was taken comes
/// again and is known.
pub const POP3_TIME: Duration = Duration::from_secs(60);

/// Time of one POP3 connection, after which no further mail is asked for.
///
/// Source: RFC 1939 lets servers lock the mailbox for one client. Past it the rest waits for the
/// next look.
pub const POP3_CONNECTION_TIME: Duration = Duration::from_secs(300);

/// Bytes of the first line of a POP3 answer.
///
/// Source: RFC 2449 §4 (512 bytes), twice. Past it the connection is closed and made again later.
pub const POP3_STATUS_BYTES: usize = 1024;

/// Bytes of one POP3 answer: a mail, or the list of all mails.
///
/// Source: a mail of [`MAIL_BYTES`] and as much again; a list of 100 000 mails. Past it the
/// connection is closed and made again later.
pub const POP3_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Mails that are looked at on one POP3 connection.
///
/// Source: more than come within a day; a mailbox that was forgotten is emptied in a few looks.
/// Past it the rest waits for the next look; the newest come first.
pub const POP3_MAILS: usize = 1000;

/// Mails of others on a POP3 server that are remembered, so that the headers of each are read once.
///
/// Source: as for a Maildir ([`MAILDIR_FOREIGN`]). Past it further mails are not looked at until
/// some are gone.
pub const POP3_FOREIGN: usize = MAILDIR_FOREIGN;
