//! How a member leaves its ring for good, and what it has left.

use std::path::PathBuf;

/// How a member leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeaveOptions {
    /// Gives up transfers that are under way.
    pub force: bool,
    /// Does not tell the authority, whose owner has to end the membership.
    pub offline: bool,
}

/// What was left.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Left {
    /// The member's name, which is free again.
    pub name: String,
    /// The ring's domain.
    pub ring: String,
    /// True if the authority has ended the certificate.
    pub told: bool,
    /// Transfers that were given up.
    pub given_up: usize,
    /// Folder with the files that were received, which stay.
    #[serde(with = "crate::text::path")]
    pub inbox: PathBuf,
}
