//! Hashes of files that go by, away from the packets; and the files themselves, where the policy
//! keeps them.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::file_store::{FileStore, Partial};
use crate::verdict::{Event, FileEnd, FilePart};

/// Takes files in parts and completes the events about them.
#[derive(Debug, Default)]
pub struct Digester {
    files: HashMap<u64, Digest>,
    store: Option<FileStore>,
}

#[derive(Debug, Default)]
struct Digest {
    hash: Sha256,
    partial: Option<Partial>,
}

impl Digester {
    /// One that keeps files in this folder if their rule says so; without it none are kept.
    #[must_use]
    pub fn new(store: Option<FileStore>) -> Self {
        Self {
            files: HashMap::new(),
            store,
        }
    }

    /// Takes in the next part of a file; returns its event if it is whole. Also returns what kept a
    /// file from being kept.
    pub fn take(&mut self, part: FilePart) -> (Option<Event>, Option<std::io::Error>) {
        let mut failed = None;
        let mut digest = self.files.remove(&part.file).unwrap_or_else(|| {
            let store = self.store.as_ref().filter(|_| part.keep);
            let begun = store.map(FileStore::begin).transpose();
            Digest {
                hash: Sha256::new(),
                partial: begun.unwrap_or_else(|error| {
                    failed = Some(error);
                    None
                }),
            }
        });
        // A file that cannot be kept is hashed all the same: its event is due in any case.
        digest.hash.update(&part.bytes);
        if let Some(mut partial) = digest.partial.take() {
            match partial.write(&part.bytes) {
                Ok(()) => digest.partial = Some(partial),
                Err(error) => failed = Some(error),
            }
        }
        let mut event = match part.end {
            None => {
                self.files.insert(part.file, digest);
                return (None, failed);
            }
            Some(FileEnd::CutOff) => return (None, failed),
            Some(FileEnd::Whole(event)) => *event,
        };
        let hash = data_encoding::HEXLOWER.encode(&digest.hash.finalize());
        let mut stored = false;
        if let (Some(store), Some(partial)) = (&self.store, digest.partial) {
            match store.keep(partial, &hash) {
                Ok(()) => stored = true,
                Err(error) => failed = Some(error),
            }
        }
        if let Some(info) = &mut event.fileinfo {
            info.stored = stored;
            info.sha256 = Some(hash);
        }
        (Some(event), failed)
    }
}
