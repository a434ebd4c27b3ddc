//! Lists in files: read once for all rules that name them, and again when a file is another one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::{Entries, Feed, FeedFault, FeedKind, parse};
use crate::limits::{FEED_SETTLE, MAX_FEED_FILE, MAX_FEEDS};

/// By what a file is known to be as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
    /// Its number, and when anything of it was changed: a program may give an older time of
    /// writing to what it copies.
    #[cfg(unix)]
    identity: (u64, i64, i64),
}

impl Stamp {
    fn of(file: &std::fs::Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Self {
            size: file.len(),
            modified: file.modified().ok(),
            #[cfg(unix)]
            identity: (file.ino(), file.ctime(), file.ctime_nsec()),
        }
    }

    /// It was written to a moment ago.
    fn is_fresh(&self, now: SystemTime) -> bool {
        let age = self.modified.map(|at| now.duration_since(at));
        matches!(age, Some(Ok(age)) if age < FEED_SETTLE)
    }
}

/// The lists beside a policy: `NAME` in `file:NAME` is relative to this folder.
#[derive(Debug)]
pub struct FeedFolder {
    folder: Option<PathBuf>,
    read: Mutex<BTreeMap<(PathBuf, FeedKind), Arc<Feed>>>,
}

/// What became of a file.
#[derive(Clone, Debug)]
pub enum Changed {
    /// It is as it was read, or may be half written.
    No,
    /// It is another one, which was read.
    Read(Arc<Feed>),
    /// It is another one, or gone, and cannot be read.
    Wrong(Vec<FeedFault>),
}

impl FeedFolder {
    /// The lists in a folder.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Self {
            folder: Some(folder),
            read: Mutex::default(),
        }
    }

    /// Those beside this file.
    #[must_use]
    pub fn beside(file: &Path) -> Self {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        Self::new(folder.unwrap_or(Path::new(".")))
    }

    /// No lists: a policy that names one is wrong.
    #[must_use]
    pub fn none() -> Self {
        Self {
            folder: None,
            read: Mutex::default(),
        }
    }

    /// The list of this name, read once.
    ///
    /// # Errors
    /// A line for each fault, with the file's name.
    pub(crate) fn feed(&self, kind: FeedKind, name: &str) -> Result<Arc<Feed>, Vec<String>> {
        let Some(folder) = &self.folder else {
            return Err(vec![format!("`file:{name}`: there are no files here")]);
        };
        if name.is_empty() {
            return Err(vec!["`file:` is followed by the name of a file".to_owned()]);
        }
        let path = folder.join(name);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path, kind);
        if let Some(known) = read.get(&key) {
            return Ok(Arc::clone(known));
        }
        if read.len() >= MAX_FEEDS {
            return Err(vec![format!("rules name more than {MAX_FEEDS} lists")]);
        }
        let feed = load(&key.0, kind).map_err(|faults| told(name, &faults))?;
        let feed = Arc::new(feed);
        read.insert(key, Arc::clone(&feed));
        Ok(feed)
    }
}

/// A line for each fault of this list.
fn told(name: &str, faults: &[FeedFault]) -> Vec<String> {
    let lines = faults.iter().map(|FeedFault { line, reason }| match line {
        0 => format!("{name}: {reason}"),
        line => format!("{name}:{line}: {reason}"),
    });
    lines.collect()
}

/// Reads a list.
fn load(path: &Path, kind: FeedKind) -> Result<Feed, Vec<FeedFault>> {
    let (stamp, text) = contents(path).map_err(|reason| vec![FeedFault::whole(reason)])?;
    let entries: Entries = parse(kind, &text)?;
    Ok(Feed {
        path: path.to_owned(),
        kind,
        entries,
        stamp: Some(stamp),
    })
}

/// The bytes of a file, and which file that was.
fn contents(path: &Path) -> Result<(Stamp, Vec<u8>), String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = File::open(path).map_err(unreadable)?;
    // Before it is read: what is written meanwhile makes it another one.
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut text = Vec::new();
    let most = u64::try_from(MAX_FEED_FILE)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let read = file.take(most).read_to_end(&mut text);
    read.map_err(unreadable)?;
    Ok((Stamp::of(&metadata), text))
}

impl Feed {
    /// Reads the list in a file.
    ///
    /// # Errors
    /// The file cannot be read, or what is wrong with it.
    pub fn read(path: &Path, kind: FeedKind) -> Result<Self, Vec<FeedFault>> {
        load(path, kind)
    }

    /// Looks whether the file is as it was read, and reads it if it is not. One that changed a
    /// moment ago may be half written, and is left for the next look.
    ///
    /// `refused`: the file that was found wrong before; it is not read again. It is changed here.
    #[must_use]
    pub fn look(&self, now: SystemTime, refused: &mut Option<FileStamp>) -> Changed {
        let there = std::fs::metadata(&self.path).map(|file| Stamp::of(&file));
        let stamp = match there {
            Ok(stamp) => stamp,
            Err(error) => {
                *refused = None;
                let reason = format!("it cannot be read: {error}");
                return Changed::Wrong(vec![FeedFault::whole(reason)]);
            }
        };
        if self.stamp == Some(stamp) {
            *refused = None;
            return Changed::No;
        }
        if let Some(FileStamp {
            stamp: known,
            faults,
        }) = refused
            && *known == stamp
        {
            return Changed::Wrong(faults.clone());
        }
        if stamp.is_fresh(now) {
            return Changed::No;
        }
        match load(&self.path, self.kind) {
            Ok(feed) => {
                *refused = None;
                Changed::Read(Arc::new(feed))
            }
            Err(faults) => {
                let kept = faults.clone();
                *refused = Some(FileStamp {
                    stamp,
                    faults: kept,
                });
                Changed::Wrong(faults)
            }
        }
    }
}

/// A file that was found wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStamp {
    stamp: Stamp,
    faults: Vec<FeedFault>,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use super::{Changed, FeedFolder};
    use crate::feed::FeedKind;
    use crate::limits::FEED_SETTLE;

    #[test]
    fn a_list_is_read_once_for_all_rules() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("bad.txt"), "192.0.2.0/24\n").unwrap();
        let lists = FeedFolder::new(folder.path());
        let one = lists.feed(FeedKind::Networks, "bad.txt").unwrap();
        let other = lists.feed(FeedKind::Networks, "bad.txt").unwrap();
        assert!(std::sync::Arc::ptr_eq(&one, &other));
        let missing = lists.feed(FeedKind::Hosts, "none.txt").unwrap_err();
        assert!(
            missing[0].starts_with("none.txt: it cannot be read"),
            "{missing:?}"
        );
        assert!(FeedFolder::none().feed(FeedKind::Hosts, "bad.txt").is_err());
    }

    #[test]
    fn another_file_is_read_unless_it_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.txt");
        fs::write(&path, "a.example\n").unwrap();
        let feed = FeedFolder::new(folder.path())
            .feed(FeedKind::Hosts, "bad.txt")
            .unwrap();
        let mut refused = None;
        let later = SystemTime::now() + FEED_SETTLE * 2;
        assert!(matches!(feed.look(later, &mut refused), Changed::No));
        fs::write(&path, "a.example\n//\n").unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert!(matches!(feed.look(written, &mut refused), Changed::No));
        for _ in 0..2 {
            let Changed::Wrong(faults) = feed.look(later, &mut refused) else {
                panic!("it is wrong");
            };
            assert_eq!(faults[0].line, 2);
        }
        let new = folder.path().join("new");
        fs::write(&new, "b.example\n").unwrap();
        fs::rename(&new, &path).unwrap();
        let Changed::Read(new) = feed.look(later, &mut refused) else {
            panic!("it is another one");
        };
        assert!(new.has_host("www.b.example") && !new.has_host("a.example"));
        assert!(new.is_of(&feed));
        fs::remove_file(&path).unwrap();
        assert!(matches!(new.look(later, &mut refused), Changed::Wrong(_)));
    }
}
