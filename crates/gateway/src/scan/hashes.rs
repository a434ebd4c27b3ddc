//! Files that are stopped by their SHA-256, which lists name.
//!
//! A file's hash is known with its last byte. So its last window waits, as for every scanner, and
//! who asked for the file gets all but the end of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use sha2::{Digest as _, Sha256};

use super::Scanner;
use crate::feed::{Changed, Feed, FeedFault, FeedKind, FileStamp};
use crate::flow::Direction;
use crate::limits::{FEED_LOOK, MAX_SCAN_SESSIONS};
use crate::verdict::{FlowId, ScanJob, Scanned};

/// Lists of hashes, shared by all scanners, and read again when their files are others.
#[derive(Debug)]
pub struct HashLists(RwLock<Lists>);

#[derive(Debug)]
struct Lists {
    lists: Vec<List>,
    looked: Instant,
}

#[derive(Debug)]
struct List {
    feed: Arc<Feed>,
    refused: Option<FileStamp>,
    /// Its file is wrong, which the log has told.
    wrong: bool,
}

impl HashLists {
    /// Reads the lists in these files.
    ///
    /// # Errors
    /// The first file that is wrong, and what is wrong with it.
    pub fn read(files: &[PathBuf]) -> Result<Self, (PathBuf, Vec<FeedFault>)> {
        let mut lists = Vec::new();
        for file in files {
            let feed =
                Feed::read(file, FeedKind::Files).map_err(|faults| (file.clone(), faults))?;
            lists.push(List {
                feed: Arc::new(feed),
                refused: None,
                wrong: false,
            });
        }
        Ok(Self(RwLock::new(Lists {
            lists,
            looked: Instant::now(),
        })))
    }

    /// How many hashes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let lists = self.0.read().unwrap_or_else(PoisonError::into_inner);
        lists
            .lists
            .iter()
            .map(|list| list.feed.entries().len())
            .sum()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has(&self, hash: &[u8; 32]) -> bool {
        let lists = self.0.read().unwrap_or_else(PoisonError::into_inner);
        lists.lists.iter().any(|list| list.feed.has_file(hash))
    }

    /// Looks at the files, if that was not done a moment ago. One scanner reads; the others go on
    /// by what was read before.
    fn look(&self) {
        let due = |lists: &Lists| lists.looked.elapsed() >= FEED_LOOK;
        if !self.0.try_read().is_ok_and(|lists| due(&lists)) {
            return;
        }
        let Ok(mut lists) = self.0.try_write() else {
            return;
        };
        lists.looked = Instant::now();
        for list in &mut lists.lists {
            list.look();
        }
    }
}

impl List {
    fn look(&mut self) {
        let file = self.feed.path().display();
        match self.feed.look(SystemTime::now(), &mut self.refused) {
            Changed::No => {}
            Changed::Read(feed) => {
                tracing::info!(%file, hashes = feed.entries().len(), "a list of hashes was read again");
                (self.feed, self.wrong) = (feed, false);
            }
            Changed::Wrong(faults) => {
                if !std::mem::replace(&mut self.wrong, true) {
                    let fault = faults.first().map(ToString::to_string).unwrap_or_default();
                    tracing::error!(%file, fault, "a list of hashes is wrong: what was read before is at work");
                }
            }
        }
    }
}

/// A scanner that hashes each file, and finds those that a list names.
#[derive(Debug)]
pub struct Hashes {
    lists: Arc<HashLists>,
    files: HashMap<(FlowId, Direction), Hashed>,
    /// Grows with each window.
    windows: u64,
}

/// A file under way.
#[derive(Debug)]
struct Hashed {
    hasher: Sha256,
    /// Where its next byte stands in the file.
    next: u64,
    /// It is a part of a file only, whose hash tells nothing.
    is_part: bool,
    /// The window in which it was seen last.
    used: u64,
}

impl Hashes {
    /// A scanner by these lists.
    #[must_use]
    pub fn new(lists: Arc<HashLists>) -> Self {
        Self {
            lists,
            files: HashMap::new(),
            windows: 0,
        }
    }

    /// A file begins; where there are too many, the one that was seen longest ago is forgotten.
    fn begin(&mut self, key: (FlowId, Direction), next: u64) {
        self.lists.look();
        if self.files.len() >= MAX_SCAN_SESSIONS && !self.files.contains_key(&key) {
            let oldest = self.files.iter().min_by_key(|(_, file)| file.used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.files.remove(&oldest);
            }
        }
        let file = Hashed {
            hasher: Sha256::new(),
            next,
            is_part: next != 0,
            used: self.windows,
        };
        self.files.insert(key, file);
    }
}

impl Scanner for Hashes {
    fn scan(&mut self, job: &ScanJob) -> Scanned {
        self.windows = self.windows.saturating_add(1);
        let key = (job.flow, job.direction);
        let begins = job.at.saturating_add(length(job.repeated));
        if job.first {
            self.begin(key, begins);
        }
        let Some(file) = self.files.get_mut(&key).filter(|file| file.next == begins) else {
            self.files.remove(&key);
            return Scanned::Failed("its hash is not known: a part of it was not seen".to_owned());
        };
        let new = job.bytes.get(job.repeated..).unwrap_or_default();
        file.hasher.update(new);
        file.next = file.next.saturating_add(length(new.len()));
        file.used = self.windows;
        if !job.last {
            return Scanned::Clean;
        }
        let Some(file) = self.files.remove(&key).filter(|file| !file.is_part) else {
            return Scanned::Clean;
        };
        let hash: [u8; 32] = file.hasher.finalize().into();
        if !self.lists.has(&hash) {
            return Scanned::Clean;
        }
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Scanned::Found(format!("SHA-256 {hex}"))
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sha2::{Digest as _, Sha256};

    use super::{HashLists, Hashes};
    use crate::flow::Direction::{self, FromClient, FromServer};
    use crate::scan::Scanner;
    use crate::verdict::{FlowId, ScanJob, Scanned};

    const BAD: &[u8] = b"a file that nobody should have";

    fn scanner() -> (tempfile::TempDir, Hashes) {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("bad.txt");
        let hash: String = Sha256::digest(BAD)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        std::fs::write(&list, format!("# bad\n{hash}  a name\n")).unwrap();
        let lists = HashLists::read(&[list]).unwrap();
        assert_eq!(lists.len(), 1);
        (folder, Hashes::new(Arc::new(lists)))
    }

    /// A window of a file whose bytes from `from` to `to` are new, and two before them are not.
    fn window(file: &[u8], direction: Direction, from: usize, to: usize) -> ScanJob {
        let before = from.min(2);
        let start = from.saturating_sub(before);
        ScanJob {
            flow: FlowId::default(),
            direction,
            number: 1,
            bytes: file[start..to].to_vec(),
            repeated: before,
            at: u64::try_from(start).unwrap(),
            first: from == 0,
            last: to == file.len(),
            name: None,
        }
    }

    #[test]
    fn listed_file_is_found_with_its_last_window() {
        let (_folder, mut scanner) = scanner();
        let good = b"a file that everybody may have";
        // Two files at once.
        assert_eq!(
            scanner.scan(&window(BAD, FromServer, 0, 10)),
            Scanned::Clean
        );
        assert_eq!(
            scanner.scan(&window(good, FromClient, 0, 7)),
            Scanned::Clean
        );
        assert_eq!(
            scanner.scan(&window(BAD, FromServer, 10, 20)),
            Scanned::Clean
        );
        assert_eq!(
            scanner.scan(&window(good, FromClient, 7, good.len())),
            Scanned::Clean
        );
        let found = scanner.scan(&window(BAD, FromServer, 20, BAD.len()));
        assert!(matches!(found, Scanned::Found(why) if why.starts_with("SHA-256 ")));
        let whole = scanner.scan(&window(BAD, FromServer, 0, BAD.len()));
        assert!(matches!(whole, Scanned::Found(_)));
    }

    #[test]
    fn gaps_fail_and_parts_are_clean() {
        let (_folder, mut scanner) = scanner();
        scanner.scan(&window(BAD, FromServer, 0, 10));
        let behind = scanner.scan(&window(BAD, FromServer, 20, BAD.len()));
        assert!(matches!(behind, Scanned::Failed(_)));
        // The end of it alone, as who resumes a download asks for it.
        let part = ScanJob {
            first: true,
            ..window(BAD, FromClient, 20, BAD.len())
        };
        assert_eq!(scanner.scan(&part), Scanned::Clean);
    }
}
