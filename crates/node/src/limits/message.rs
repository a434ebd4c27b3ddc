//! Bounds of messages between members.

use std::time::Duration;

/// Bytes of one message's body.
///
/// Source: decision 21: messages are small, and files are sent as such. A longer one is refused.
pub const MESSAGE_BYTES: usize = 64 * 1024;

/// Bytes of bodies that go together, unless a single one is longer.
///
/// Source: some 25 packets: the loss of one costs no more than that. More messages go into the next
/// batch.
pub const BATCH_BYTES: usize = 32 * 1024;

/// Messages that go together.
///
/// Source: empty bodies cost as much as this many short ones. More go into the next batch.
pub const BATCH_MESSAGES: usize = 512;

/// Bytes of a body that stand in its batch; the rest goes before it in a frame of its own.
///
/// Source: what a link takes at once (65 535 bytes), less what stands around it.
pub const BODY_IN_BATCH: usize = 48 * 1024;

/// Bytes of messages to one member that it has not signed for and that may be on their way.
///
/// Source: as many as its link queues. Past it they wait.
pub const MESSAGE_WINDOW: usize = 512 * 1024;

/// Bytes of messages of one member that are kept in memory because some before them are missing.
///
/// Source: twice [`MESSAGE_WINDOW`]. Past it they are dropped, and sent again.
pub const AHEAD_BYTES: usize = 1024 * 1024;

/// Rests of long bodies of one member that wait for their batch.
///
/// Source: as many long messages as [`MESSAGE_WINDOW`] holds. Past it the one of the last message
/// is dropped, and sent again.
pub const BODY_RESTS: usize = 8;

/// Messages to one member that wait for its signature.
///
/// Source: a program's queue of a night, at one in two seconds. Past it new ones are refused.
pub const PENDING_MESSAGES: usize = 20_000;

/// Bytes of them.
///
/// Source: they are kept in memory as well. Past it new ones are refused.
pub const PENDING_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of all messages that wait for signatures.
///
/// Source: eight members with the most each. Past it new ones are refused.
pub const PENDING_MESSAGE_BYTES_IN_ALL: usize = 128 * 1024 * 1024;

/// Messages of one member that were received and not read.
///
/// Source: as [`PENDING_MESSAGES`]. Past it no more are taken, and the sender keeps them.
pub const UNREAD_MESSAGES: usize = 20_000;

/// Bytes of them.
///
/// Source: as [`PENDING_MESSAGE_BYTES`]. Past it no more are taken, and the sender keeps them.
pub const UNREAD_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of all unread messages.
///
/// Source: they are on the disk. Past it no more are taken, and the senders keep them.
pub const UNREAD_MESSAGE_BYTES_IN_ALL: usize = 256 * 1024 * 1024;

/// Messages of one conversation that are kept after they were read, or signed for.
///
/// Source: what a person looks back on. Past it the oldest are forgotten; there may be a quarter
/// more until they are.
pub const MESSAGE_HISTORY: usize = 1_000;

/// Members with which there are conversations.
///
/// Source: chosen: twice the links that there may be. Past it messages of further members are
/// dropped and counted, and new ones to them refused.
pub const CONVERSATIONS: usize = 4_096;

/// Epochs of one sender of which the state is kept.
///
/// Source: a sender begins one when its home was restored from a backup. Past it the one that was
/// used longest ago is forgotten.
pub const MESSAGE_EPOCHS: usize = 4;

/// Transfers that one message names.
///
/// Source: chosen. A message with more is refused.
pub const ATTACHMENTS: usize = 16;

/// Characters of a peer's reason why it takes no messages.
///
/// Source: two lines of a terminal. The rest is cut off.
pub const REFUSAL_TEXT: usize = 200;

/// Pause before messages are sent again that were not signed for; doubled after each further try.
///
/// Source: RFC 6298 §2: one second where no round trip is known.
pub const MESSAGE_RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest such pause.
///
/// Source: as transfers have it. A member that comes back is heard at once.
pub const MESSAGE_RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Longest pause before a receipt that says what was read is sent again; the first ones are those
/// of messages.
///
/// Source: as [`MESSAGE_RETRY_MAIL_LONGEST`]. A sender that is heard again gets it at once; this is
/// for one that is there and does not answer.
pub const READ_RETRY_LONGEST: Duration = Duration::from_secs(3600);

/// Pause before messages are sent again that went by mail.
///
/// Source: mail servers deliver within a minute, or try again after some. Earlier ones would be
/// mails in vain.
pub const MESSAGE_RETRY_MAIL: Duration = Duration::from_secs(120);

/// Longest such pause.
///
/// Source: mail servers try again for hours. Past it a lost mail costs this much.
pub const MESSAGE_RETRY_MAIL_LONGEST: Duration = Duration::from_secs(3600);

/// Bytes of frames of one member that wait for the task that stores messages.
///
/// Source: twice what it may have on its way ([`MESSAGE_WINDOW`]). Past it frames are dropped and
/// counted, and sent again.
pub const FRAME_BYTES_WAITING: usize = 2 * MESSAGE_WINDOW;

/// Bytes of such frames of all members.
///
/// Source: chosen: 32 members with the most each. Past it frames are dropped and counted, and sent
/// again.
pub const FRAME_BYTES_WAITING_IN_ALL: usize = 32 * 1024 * 1024;

/// Receipts of one member that are verified in one round of the task that stores messages.
///
/// Source: one is enough unless frames overtake each other. Past it they are dropped.
pub const RECEIPTS_IN_ROUND: usize = 4;

/// Inputs that are stored by one write to the disk.
///
/// Source: some milliseconds of work. More are stored by the next one.
pub const MESSAGES_IN_ROUND: usize = 4_096;

/// Frames to one member that wait for its link.
///
/// Source: more than [`MESSAGE_WINDOW`] has. Past it frames are dropped, and sent again.
pub const FRAMES_TO_MEMBER: usize = 128;

/// How long what sends to a member is kept while there is nothing to send.
///
/// Source: looking its certificate up again costs a question to DNS.
pub const COURIER_IDLE: Duration = Duration::from_secs(60);

/// Messages that are listed at once.
///
/// Source: a page of the history; 16 MiB with the longest bodies. More are asked for by another
/// question.
pub const MESSAGES_LISTED: usize = 256;
