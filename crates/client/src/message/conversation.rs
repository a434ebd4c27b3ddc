//! Messages, one by one and many by one request.

use serde::{Deserialize, Serialize};

/// A message as its daemon sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageStatus {
    /// 32 hex digits; the same on both sides.
    pub id: String,
    /// `send` or `receive`.
    pub direction: String,
    /// Name of the other member.
    pub peer: String,
    /// Its number in the conversation, as the sender counts; it grows by one from message to
    /// message.
    pub number: u64,
    /// Of one that was sent: `pending`, `signed` (the receiver has it, and has signed for it),
    /// `read` or `failed`. Of one that has come: `received` or `read`.
    pub state: String,
    /// When it was written, by the clock of its sender; Unix seconds.
    pub created: u64,
    /// When the receiver's signature came, Unix seconds.
    #[serde(default)]
    pub signed: Option<u64>,
    /// When it was read, or when that was learnt; Unix seconds.
    #[serde(default)]
    pub read: Option<u64>,
    /// In base64.
    #[serde(with = "crate::text::base64")]
    pub body: Vec<u8>,
    /// Ids of transfers that belong to it.
    #[serde(default)]
    pub attach: Vec<String>,
    /// Of one that was sent.
    #[serde(default)]
    pub priority: f64,
    /// Why it waits or has failed.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A message's body: at most 65 536 bytes, in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Body(#[serde(with = "crate::text::base64")] pub Vec<u8>);

/// How many messages of a batch are stored: the first ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchStatus {
    /// Name of the member that they go to.
    pub peer: String,
    /// How many.
    pub stored: usize,
    /// Id of the last of them, 32 hex digits; none if there is none.
    #[serde(default)]
    pub last: Option<String>,
    /// Why it was not all of them: there is no room until the member has signed for some.
    #[serde(default)]
    pub full: Option<String>,
}
