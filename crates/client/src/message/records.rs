//! Records as they were put and found.

use serde::{Deserialize, Serialize};

/// A record that was put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordStored {
    /// What this member calls it.
    pub name: String,
    /// Routers that have it now.
    pub copies: u32,
    /// Routers that ought to have it.
    pub group: u32,
    /// Whether those routers are known for sure.
    pub verified: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFound {
    /// Whose.
    pub peer: String,
    /// The name that its author gave it.
    pub name: String,
    /// Its bytes; none if there is no such record.
    pub value: Option<Vec<u8>>,
    /// Goes up with each record of this name.
    pub number: Option<u64>,
    /// Seconds since 1970.
    pub expires: Option<u64>,
    /// Routers that were asked and answered.
    pub answers: u32,
    /// Routers that ought to have it.
    pub group: u32,
    /// Whether those routers are known for sure.
    pub verified: bool,
}
