//! Files that were kept, each under the hash of its content: what goes by twice is there once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::limits::MAX_PARTIAL_FILES;

/// The folder of files that are not whole yet.
const PARTIAL: &str = "partial";

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStoreBounds {
    /// Bytes of the largest file that is kept.
    pub file: u64,
    /// Bytes of all files together. Past it the oldest go, until a tenth is free.
    pub total: u64,
    /// Time after which a file goes.
    pub keep: Duration,
}

/// A folder of files, `ab/abcdef…` by their SHA-256. Clones share it.
#[derive(Clone, Debug)]
pub struct FileStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    bounds: FileStoreBounds,
    /// Bytes on the disk, those of files that are not whole among them.
    held: Mutex<u64>,
    /// Files that are not whole.
    open: AtomicUsize,
    next: AtomicU64,
    /// Waits until the disk has a file or folder; tests have another one.
    settle: Settle,
}

/// Brings a file, or what a folder lists, onto the disk.
type Settle = fn(&File) -> io::Result<()>;

/// A file that is not whole yet. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Partial {
    store: FileStore,
    path: PathBuf,
    file: File,
    bytes: u64,
}

/// A whole file in the folder.
struct Kept {
    changed: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl FileStore {
    /// Opens the folder, and makes it if there is none. What an earlier run left half done goes.
    ///
    /// # Errors
    /// The folder cannot be made, read or written.
    pub fn open(folder: &Path, bounds: FileStoreBounds) -> io::Result<Self> {
        Self::with(folder, bounds, File::sync_all)
    }

    fn with(folder: &Path, bounds: FileStoreBounds, settle: Settle) -> io::Result<Self> {
        make(folder)?;
        // The folder's own entry has to be on disk, or a crash loses it with all that was kept.
        if let Some(parent) = folder.parent() {
            settle(&File::open(parent)?)?;
        }
        let partial = folder.join(PARTIAL);
        // What is there was cut off when an earlier run ended, and stays incomplete.
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => make(&partial)?,
        }
        let store = Self(Arc::new(Inner {
            folder: folder.to_owned(),
            bounds,
            held: Mutex::new(0),
            open: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            settle,
        }));
        store.tidy(0)?;
        Ok(store)
    }

    /// A new file.
    pub(super) fn begin(&self) -> io::Result<Partial> {
        let inner = &*self.0;
        // Counted before the file is made, so that two threads cannot both take the last permit.
        if inner.open.fetch_add(1, Ordering::Relaxed) >= MAX_PARTIAL_FILES {
            inner.open.fetch_sub(1, Ordering::Relaxed);
            return Err(io::Error::other("too many files are kept at once"));
        }
        let number = inner.next.fetch_add(1, Ordering::Relaxed);
        let path = inner.folder.join(PARTIAL).join(number.to_string());
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(0o600).open(&path);
        match opened {
            Ok(file) => Ok(Partial {
                store: self.clone(),
                path,
                file,
                bytes: 0,
            }),
            Err(error) => {
                inner.open.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Puts a whole file under its hash, so that it is there after a power failure too. Waits for
    /// the disk.
    pub(super) fn keep(&self, partial: Partial, hash: &str) -> io::Result<()> {
        let inner = &*self.0;
        let (start, _) = hash.split_at_checked(2).unwrap_or((hash, ""));
        let shelf = inner.folder.join(start);
        let settle = inner.settle;
        // Its bytes before its name, or the name could be that of an empty file.
        settle(&partial.file)?;
        if !shelf.try_exists()? {
            make(&shelf)?;
            settle(&File::open(&inner.folder)?)?;
        }
        // One that is there already gets the time of the latest.
        let path = shelf.join(hash);
        let new = !path.try_exists()?;
        fs::rename(&partial.path, &path)?;
        let bytes = if new { on_disk(partial.bytes) } else { 0 };
        // Its bytes as a file that is not whole go with it.
        drop(partial);
        let held = self.charge(bytes);
        settle(&File::open(&shelf)?)?;
        if held > inner.bounds.total {
            self.tidy(inner.bounds.total / 10)?;
        }
        Ok(())
    }

    /// Counts bytes; returns how many there are.
    fn charge(&self, bytes: u64) -> u64 {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = held.saturating_add(bytes);
        *held
    }

    fn discharge(&self, bytes: u64) {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = held.saturating_sub(bytes);
    }

    /// Removes what is too old, and the oldest until so many bytes are free.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub fn tidy(&self, free: u64) -> io::Result<()> {
        let Inner { bounds, held, .. } = &*self.0;
        // One at a time.
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *held;
        let mut files = self.list()?;
        files.sort_by_key(|kept| kept.changed);
        let (now, mut failed) = (SystemTime::now(), None);
        let most = bounds.total.saturating_sub(free);
        let mut total = files
            .iter()
            .fold(0, |sum: u64, kept| sum.saturating_add(kept.bytes));
        let partial = before.saturating_sub(total);
        for kept in files {
            let age = now.duration_since(kept.changed).unwrap_or_default();
            if total.saturating_add(partial) <= most && age <= bounds.keep {
                break;
            }
            match fs::remove_file(&kept.path) {
                Ok(()) => total = total.saturating_sub(kept.bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    total = total.saturating_sub(kept.bytes);
                }
                // The others may go all the same.
                Err(error) => failed = Some(error),
            }
        }
        *held = total.saturating_add(partial);
        failed.map_or(Ok(()), Err)
    }

    fn list(&self) -> io::Result<Vec<Kept>> {
        let mut files = Vec::new();
        for shelf in fs::read_dir(&self.0.folder)? {
            let shelf = shelf?;
            // Files that are still written are no old ones, and must not be deleted here.
            if shelf.file_name() == PARTIAL || !shelf.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(shelf.path())? {
                let file = file?;
                let about = file.metadata()?;
                if !about.is_file() {
                    continue;
                }
                files.push(Kept {
                    changed: about.modified()?,
                    bytes: on_disk(about.len()),
                    path: file.path(),
                });
            }
        }
        Ok(files)
    }
}

impl Partial {
    /// Adds bytes; fails if the disk or the vault has no room, or the file has become too large to
    /// be kept.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let bounds = self.store.0.bounds;
        self.bytes = self.bytes.saturating_add(length);
        let held = self.store.charge(length);
        if self.bytes > bounds.file {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        if held > bounds.total {
            self.store.tidy(bounds.total / 10)?;
            let full = self.store.charge(0) > bounds.total;
            if full {
                return Err(io::Error::from(io::ErrorKind::QuotaExceeded));
            }
        }
        self.file.write_all(bytes)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.store.discharge(self.bytes);
        self.store.0.open.fetch_sub(1, Ordering::Relaxed);
        // Gone already if it was kept.
        fs::remove_file(&self.path).ok();
    }
}

/// What a file takes on the disk, at least.
fn on_disk(bytes: u64) -> u64 {
    bytes.max(4_096)
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::fs::{self, File};
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use tempfile::TempDir;

    use super::{FileStore, FileStoreBounds};
    use crate::limits::MAX_PARTIAL_FILES;

    const BOUNDS: FileStoreBounds = FileStoreBounds {
        file: 10_000,
        total: 20_000,
        keep: Duration::from_secs(3_600),
    };

    fn put(store: &FileStore, hash: &str, bytes: &[u8]) {
        let mut partial = store.begin().unwrap();
        partial.write(bytes).unwrap();
        store.keep(partial, hash).unwrap();
    }

    fn names(folder: &TempDir) -> Vec<String> {
        let mut names = Vec::new();
        for shelf in fs::read_dir(folder.path()).unwrap() {
            for file in fs::read_dir(shelf.unwrap().path()).unwrap() {
                names.push(file.unwrap().file_name().into_string().unwrap());
            }
        }
        names.sort();
        names
    }

    #[test]
    fn equal_files_are_kept_once_and_partial_go() {
        let folder = TempDir::new().unwrap();
        let store = FileStore::open(folder.path(), BOUNDS).unwrap();
        for _ in 0..5 {
            put(&store, "aa11", &[1; 9_000]);
        }
        put(&store, "bb22", &[2; 9_000]);
        let mut half = store.begin().unwrap();
        half.write(&[3; 10]).unwrap();
        drop(half);
        let mut large = store.begin().unwrap();
        assert!(large.write(&[3; 10_001]).is_err());
        drop(large);
        assert_eq!(names(&folder), ["aa11", "bb22"]);
        let kept = fs::read(folder.path().join("aa/aa11")).unwrap();
        assert_eq!(kept, [1; 9_000]);
        // Left by a run that was killed.
        fs::write(folder.path().join("partial/7"), "x").unwrap();
        FileStore::open(folder.path(), BOUNDS).unwrap();
        assert_eq!(names(&folder), ["aa11", "bb22"]);
    }

    #[test]
    fn files_go_by_age_and_for_room() {
        let folder = TempDir::new().unwrap();
        let store = FileStore::open(folder.path(), BOUNDS).unwrap();
        for (number, hash) in ["aa", "bb", "cc"].into_iter().enumerate() {
            put(&store, hash, &[0; 6_000]);
            let age = Duration::from_secs(100 - u64::try_from(number).unwrap());
            let file = fs::File::options()
                .write(true)
                .open(folder.path().join(hash).join(hash))
                .unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        put(&store, "dd", &[0; 6_000]);
        assert_eq!(names(&folder), ["bb", "cc", "dd"]);
        let short = FileStoreBounds {
            keep: Duration::from_secs(50),
            ..BOUNDS
        };
        FileStore::open(folder.path(), short).unwrap();
        assert_eq!(names(&folder), ["dd"]);
    }

    #[test]
    fn files_that_never_end_have_bounds_too() {
        let folder = TempDir::new().unwrap();
        let store = FileStore::open(folder.path(), BOUNDS).unwrap();
        let mut under_way = Vec::new();
        for _ in 0..MAX_PARTIAL_FILES {
            under_way.push(store.begin().unwrap());
        }
        assert!(store.begin().is_err());
        let written = under_way
            .iter_mut()
            .filter_map(|partial| partial.write(&[0; 9_000]).ok())
            .count();
        assert_eq!(written, 2);
        drop(under_way);
        // What was given up makes room.
        for hash in ["aa", "bb"] {
            put(&store, hash, &[0; 9_000]);
        }
        assert_eq!(names(&folder), ["aa", "bb"]);
    }

    thread_local! {
        /// What was brought onto the disk, and how many whole files had their names then.
        static SETTLED: RefCell<Vec<(PathBuf, usize)>> = const { RefCell::new(Vec::new()) };
        static DISK_FAILS: Cell<bool> = const { Cell::new(false) };
    }

    fn settle(file: &File) -> io::Result<()> {
        if DISK_FAILS.get() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let store = path.ancestors().find(|folder| folder.ends_with("store"));
        let named = store.map_or(0, |store| {
            let path = store.join("aa").join("aa11");
            usize::from(path.exists())
        });
        SETTLED.with_borrow_mut(|settled| settled.push((path, named)));
        file.sync_all()
    }

    #[test]
    fn files_are_synced_before_they_are_named() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = FileStore::with(&path, BOUNDS, settle).unwrap();
        put(&store, "aa11", &[1; 100]);
        let settled = SETTLED.take();
        let expected = [
            (folder.path().to_owned(), 0),
            (path.join("partial/0"), 0),
            (path.clone(), 0),
            (path.join("aa"), 1),
        ];
        assert_eq!(settled, expected);
        // The shelf is known already.
        put(&store, "aa22", &[2; 100]);
        let settled = SETTLED.take();
        assert_eq!(settled, [(path.join("partial/1"), 1), (path.join("aa"), 1)]);
    }

    #[test]
    fn nothing_is_kept_on_a_full_disk() {
        let folder = TempDir::new().unwrap();
        let store = FileStore::with(folder.path(), BOUNDS, settle).unwrap();
        let mut partial = store.begin().unwrap();
        partial.write(&[1; 100]).unwrap();
        DISK_FAILS.set(true);
        assert!(store.keep(partial, "aa11").is_err());
        DISK_FAILS.set(false);
        assert!(names(&folder).is_empty(), "{:?}", names(&folder));
        assert_eq!(store.charge(0), 0);
    }

    #[test]
    fn small_files_count_as_what_they_take() {
        let folder = TempDir::new().unwrap();
        let store = FileStore::open(folder.path(), BOUNDS).unwrap();
        for number in 0..20 {
            put(&store, &format!("aa{number:02}"), b"x");
        }
        assert!(names(&folder).len() <= 4, "{:?}", names(&folder));
    }
}
