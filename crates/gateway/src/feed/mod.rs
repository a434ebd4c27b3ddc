//! Lists in files that rules name: networks, hosts, infohashes, hashes of files, up to millions of
//! entries.
//!
//! A [`Feed`] is one list as it was read ([`parse()`]); it never changes. [`FeedFolder`] reads
//! those beside a policy, and sees when one of the files is another one. Whether an entry is in a
//! list costs the same at any length: a look into a hash table for each prefix length in use
//! ([`networks`](NetworkSet)), for each label of a name ([`hosts`](HostSet)), or one ([`KeySet`]).

mod folder;
mod hosts;
mod keys;
mod line;
mod networks;
mod parse;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

pub use folder::{Changed, FeedFolder, FileStamp};
pub use hosts::HostSet;
pub use keys::KeySet;
pub use networks::NetworkSet;
pub use parse::{FeedFault, parse};
use serde::{Deserialize, Serialize};

use crate::infohash::InfoHash;
use folder::Stamp;

/// What a list is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedKind {
    /// Networks and addresses.
    Networks,
    /// Names of hosts, each with all that are below it.
    Hosts,
    /// Infohashes.
    Infohashes,
    /// SHA-256 of files.
    Files,
}

impl FeedKind {
    /// What its entries are called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Networks => "networks",
            Self::Hosts => "hosts",
            Self::Infohashes => "infohashes",
            Self::Files => "hashes of files",
        }
    }
}

/// The entries of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Networks.
    Networks(NetworkSet),
    /// Hosts.
    Hosts(HostSet),
    /// Infohashes.
    Infohashes(KeySet<InfoHash>),
    /// SHA-256 of files.
    Files(KeySet<[u8; 32]>),
}

impl Entries {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Networks(networks) => networks.len(),
            Self::Hosts(hosts) => hosts.len(),
            Self::Infohashes(keys) => keys.len(),
            Self::Files(keys) => keys.len(),
        }
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that they take, about.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Self::Networks(networks) => networks.memory(),
            Self::Hosts(hosts) => hosts.memory(),
            Self::Infohashes(keys) => keys.memory(),
            Self::Files(keys) => keys.memory(),
        }
    }
}

/// A list that a rule names, as it was read.
pub struct Feed {
    path: PathBuf,
    kind: FeedKind,
    entries: Entries,
    stamp: Option<Stamp>,
}

/// Without its entries: there may be millions.
impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl Feed {
    /// A list of these entries, which no file holds.
    #[must_use]
    pub fn of(path: &Path, kind: FeedKind, entries: Entries) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            entries,
            stamp: None,
        }
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is a list of.
    #[must_use]
    pub fn kind(&self) -> FeedKind {
        self.kind
    }

    /// Its entries.
    #[must_use]
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Another reading of the same list.
    #[must_use]
    pub fn is_of(&self, other: &Self) -> bool {
        self.kind == other.kind && self.path == other.path
    }

    /// An address lies in one of its networks.
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
        matches!(&self.entries, Entries::Networks(networks) if networks.contains(address))
    }

    /// A host is one of its hosts, or below one.
    #[must_use]
    pub fn has_host(&self, name: &str) -> bool {
        matches!(&self.entries, Entries::Hosts(hosts) if hosts.contains(name))
    }

    /// A file of this SHA-256 is one of its files.
    #[must_use]
    pub fn has_file(&self, hash: &[u8; 32]) -> bool {
        matches!(&self.entries, Entries::Files(keys) if keys.contains(hash))
    }

    /// It is one of its infohashes.
    #[must_use]
    pub fn has_infohash(&self, hash: &InfoHash) -> bool {
        matches!(&self.entries, Entries::Infohashes(keys) if keys.contains(hash))
    }
}

/// A list, as the state of a gateway shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedStatus {
    /// Its file.
    pub file: String,
    /// What it is a list of.
    pub kind: FeedKind,
    /// Entries at work.
    pub entries: usize,
    /// Bytes of memory that they take, about.
    pub memory: usize,
    /// Why the file as it is now is not at work, but what was read before; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}
