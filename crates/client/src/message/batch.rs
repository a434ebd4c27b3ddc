//! Many messages by one request.

use serde::{Deserialize, Serialize};

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
