//! Counts and tallies as the control socket shows them.

use serde::{Deserialize, Serialize};

/// What this router has counted under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCount {
    /// 1 to 64 bytes.
    pub name: String,
    /// How many; of several the largest stands.
    pub count: u64,
}

/// What this router has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountsToLeave {
    /// At most 512.
    pub counts: Vec<NamedCount>,
    /// Seconds since 1970 after which no router keeps them, at most 26 hours ahead.
    pub expires: u64,
}

/// That a count was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountLeft {
    /// Its name.
    pub name: String,
    /// Routers that have it. 0: none has, or those around its point were not found.
    pub copies: u32,
    /// Routers that ought to have it.
    pub group: u32,
}

/// What one router has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterCount {
    /// Its key, 64 hex digits.
    pub ring_key: String,
    /// Whether it is the router that was asked.
    pub own: bool,
    /// How many; it may lie.
    pub count: u64,
}

/// What routers have counted under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TallyFound {
    /// The name.
    pub name: String,
    /// Each router that has counted, in the order of their keys.
    pub counts: Vec<RouterCount>,
    /// Routers that keep it and have answered.
    pub answers: u32,
    /// Routers that ought to keep it.
    pub group: u32,
    /// Whether those routers are known for sure.
    pub verified: bool,
}
