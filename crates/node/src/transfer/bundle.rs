//! Bundles: files and folders that travel in one transfer.
//!
//! A bundle is a list of what is in it ([`manifest`]) and behind that the content of all files,
//! which have one hash tree together: small files cost no round trips, all is verified, and all of
//! it is resumed by chunks. The sender reads it as if it were one file ([`walk`]); the receiver
//! writes it into files of a folder that nothing else uses, and moves that into the inbox when it
//! is whole ([`mod@write`]).

mod manifest;
mod pack;
mod walk;
mod write;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

pub(crate) use self::manifest::{ALIGN, Manifest};
pub(crate) use self::pack::read_list;
pub use self::pack::{PackError, Packed, pack};
pub use self::walk::WalkError;
pub(crate) use self::walk::Walked;
pub(crate) use self::write::{Unpacking, invalid_list};

/// What is kept of a transfer that is more than one file at one path for one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bundle {
    pub(crate) kind: Kind,
    /// What it is made of, at the sender: of a file in a group there is one.
    pub(crate) paths: Vec<PathBuf>,
    /// Whether it was handed over as a whole, with its list.
    pub(crate) packed: bool,
    /// Bytes of its list; 0 as long as the sender has not made it, and of a single file.
    pub(crate) head: u64,
    /// Files, folders and links in it.
    pub(crate) entries: u64,
    /// What transfers of one command have in common.
    pub(crate) group: Option<[u8; 16]>,
    /// Whether its receivers get nothing from each other.
    pub(crate) direct: bool,
}

impl Bundle {
    /// Whether it travels with a list.
    pub(crate) fn has_list(&self) -> bool {
        self.kind != Kind::File
    }
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum Kind {
    /// One file, which has no list.
    #[n(0)]
    File,
    /// One folder.
    #[n(1)]
    Folder,
    /// Several files and folders.
    #[n(2)]
    Several,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Folder => "folder",
            Kind::Several => "several",
        }
    }
}

/// A place for the list of a bundle, to be looked at from elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListSlot(Arc<Mutex<Option<Arc<Manifest>>>>);

impl ListSlot {
    pub(crate) fn set(&self, list: Option<Arc<Manifest>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = list;
    }

    pub(crate) fn get(&self) -> Option<Arc<Manifest>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// How it is kept in the state.
#[derive(Debug, Encode, Decode)]
struct Kept {
    #[n(0)]
    kind: Kind,
    #[n(1)]
    paths: Vec<ByteVec>,
    #[n(2)]
    packed: bool,
    #[n(3)]
    head: u64,
    #[n(4)]
    entries: u64,
    #[n(5)]
    group: Option<ByteArray<16>>,
    #[n(6)]
    direct: Option<bool>,
}

impl Bundle {
    pub(crate) fn encode(&self) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt as _;
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec().into();
        crate::cbor::encode(&Kept {
            kind: self.kind,
            paths: self.paths.iter().map(bytes).collect(),
            packed: self.packed,
            head: self.head,
            entries: self.entries,
            group: self.group.map(Into::into),
            direct: Some(self.direct),
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Bundle> {
        use std::os::unix::ffi::OsStringExt as _;
        let kept: Kept = minicbor::decode(bytes).ok()?;
        let path = |bytes: ByteVec| std::ffi::OsString::from_vec(bytes.into()).into();
        Some(Bundle {
            kind: kept.kind,
            paths: kept.paths.into_iter().map(path).collect(),
            packed: kept.packed,
            head: kept.head,
            entries: kept.entries,
            group: kept.group.map(|group| *group),
            direct: kept.direct.unwrap_or(false),
        })
    }
}

/// What a list from outside may say, for fuzzing.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_list(data: &[u8]) {
    let mut list = data.to_vec();
    list.resize(list.len().next_multiple_of(manifest::ALIGN), 0);
    let head = u64::try_from(list.len()).unwrap_or(u64::MAX);
    // The size that the contents have, whatever that is: the list is to be read to its end.
    for size in [head, head.saturating_add(1), u64::MAX] {
        if let Ok(manifest) = Manifest::read(list.clone(), size) {
            manifest::check_all(&manifest);
        }
    }
}
