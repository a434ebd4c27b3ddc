//! The request to send several files and folders, or some to several members.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::message::AskedPriority;

/// What is to be sent, and to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendAll {
    /// Absolute paths of readable files and folders, each with the name that it is to have; an
    /// array of bytes where one is no UTF-8.
    pub paths: Vec<SendPath>,
    /// The name of the only file or folder, if it is not that of its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of members, or their ids in base32.
    pub peers: Vec<String>,
    /// See the `dtl` crate.
    pub priority: AskedPriority,
    /// When it has to have arrived, Unix seconds: then that chooses the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u64>,
    /// Whether all of it comes from this member: receivers give nothing to each other, and do not
    /// learn of each other.
    #[serde(default)]
    pub direct: bool,
    /// What was handed over beside the request.
    #[serde(default)]
    pub handed: Handed,
}

/// A path in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SendPath(#[serde(with = "crate::text::path")] pub PathBuf);

/// What was handed over beside a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handed {
    /// Nothing that counts: the daemon opens the paths itself. Only for its own user, and root.
    #[default]
    Nothing,
    /// The one file that is sent.
    File,
    /// A bundle with all that is sent, which begins with a list.
    Bundle {
        /// Bytes of that list.
        head: u64,
    },
}
