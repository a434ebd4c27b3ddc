//! Messages between members: small, stored at the sender until the receiver has signed for them,
//! over whatever carries links, mail included.
//!
//! A conversation has two halves, one for each direction. The sender numbers its messages and
//! chains their hashes; the receiver stores them in order and signs for all up to a number by one
//! signature over the chain ([`chain`]). What was not signed for is sent again. Both sides write
//! their state and their messages by one transaction a round, and answer after it: whatever side
//! is killed at whatever moment, each message is stored at the receiver once and in order.
//!
//! An application reads by a position that is stored here as well: what it has not marked as read
//! it is given again, under the same id.
//!
//! | module | does |
//! |---|---|
//! | [`wire`] | the frames that links carry |
//! | [`chain`] | the chain of hashes, and the signature of the receiver |
//! | [`outgoing`] | the sending half of a conversation; no clock, no disk |
//! | [`incoming`] | the receiving half; likewise |
//! | [`store`] | `messages.db` |
//! | [`engine`] | all conversations, and one write to the disk for each round |
//! | [`mailroom`] | frames that have come and wait for a round |
//! | [`courier`] | finds a member and hands frames to its link |
//! | [`service`] | the task, and what commands ask of it |

mod chain;
mod courier;
mod engine;
mod incoming;
mod mailroom;
mod outgoing;
mod record;
mod service;
mod store;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use self::mailroom::Mailroom;
pub(crate) use self::service::{MessageError, Messages, Question, Setup, ToSend};
#[cfg(feature = "fuzzing")]
pub(crate) use self::wire::decode_anything;
