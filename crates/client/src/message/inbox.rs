//! What others have offered to a member.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Something that another member has offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxItem {
    /// Of the transfer: 32 hex digits; the same on both sides.
    pub id: String,
    /// `asks` (waits for an answer), `coming`, `received`, `refused`, `later` (refused for now),
    /// `failed`.
    pub state: String,
    /// Name of the member that offers it.
    pub from: String,
    /// File name without folders.
    pub file: String,
    /// `file` or `folder`.
    pub kind: String,
    /// Bytes in all.
    pub size: u64,
    /// BLAKE3 of the content, 64 hex digits.
    pub blake3: Option<String>,
    /// Where it is, once it has come; an array of bytes where it is no UTF-8.
    #[serde(with = "crate::text::path_some", default)]
    pub path: Option<PathBuf>,
    /// When it was offered first, Unix seconds.
    pub offered: u64,
    /// When it had come, or was given up; Unix seconds.
    pub ended: Option<u64>,
    /// Number of the rule that it fits, from 1; 0 where rules have no numbers.
    pub rule: u32,
    /// Why it waits, or does not come.
    pub reason: Option<String>,
    /// The program that is run for it, if there is one.
    pub hook: Option<HookStatus>,
}

/// The program that a rule runs for a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookStatus {
    /// Its path.
    pub program: String,
    /// `due`, `running`, `done`, `failed`, or `interrupted` by the end of the daemon.
    pub state: String,
    /// Why it failed.
    pub note: Option<String>,
}
