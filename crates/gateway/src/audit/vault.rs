//! Files that were kept, each under the hash of its content: what goes by twice is there once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The folder of files that are not whole yet.
const PARTIAL: &str = "partial";

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VaultBounds {
    /// Bytes of the largest file that is kept.
    pub file: u64,
    /// Bytes of all files together. Past it the oldest go, until a tenth is free.
    pub total: u64,
    /// Time after which a file goes.
    pub keep: Duration,
}

/// A folder of files, `ab/abcdef…` by their SHA-256. Clones share it.
#[derive(Clone, Debug)]
pub struct Vault(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    bounds: VaultBounds,
    /// Bytes of whole files.
    held: Mutex<u64>,
    next: AtomicU64,
}

/// A file that is not whole yet. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    file: File,
    bytes: u64,
    most: u64,
}

/// A whole file in the folder.
struct Kept {
    changed: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl Vault {
    /// Opens the folder, and makes it if there is none. What an earlier run left half done goes.
    ///
    /// # Errors
    /// The folder cannot be made, read or written.
    pub fn open(folder: &Path, bounds: VaultBounds) -> io::Result<Self> {
        make(folder)?;
        let partial = folder.join(PARTIAL);
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => make(&partial)?,
        }
        let vault = Self(Arc::new(Inner {
            folder: folder.to_owned(),
            bounds,
            held: Mutex::new(0),
            next: AtomicU64::new(0),
        }));
        vault.tidy(0)?;
        Ok(vault)
    }

    /// A new file.
    pub(super) fn begin(&self) -> io::Result<Partial> {
        let inner = &*self.0;
        let number = inner.next.fetch_add(1, Ordering::Relaxed);
        let path = inner.folder.join(PARTIAL).join(number.to_string());
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Partial {
            path,
            file,
            bytes: 0,
            most: inner.bounds.file,
        })
    }

    /// Puts a whole file under its hash.
    pub(super) fn keep(&self, partial: Partial, hash: &str) -> io::Result<()> {
        let inner = &*self.0;
        let (start, _) = hash.split_at_checked(2).unwrap_or((hash, ""));
        let shelf = inner.folder.join(start);
        make(&shelf)?;
        // One that is there already gets the time of the latest.
        let place = shelf.join(hash);
        let new = !place.try_exists()?;
        fs::rename(&partial.path, &place)?;
        if new {
            let mut held = inner.held.lock().unwrap_or_else(PoisonError::into_inner);
            *held = held.saturating_add(partial.bytes);
            if *held <= inner.bounds.total {
                return Ok(());
            }
        } else {
            return Ok(());
        }
        self.tidy(inner.bounds.total / 10)
    }

    /// Removes what is too old, and the oldest until so many bytes are free.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub fn tidy(&self, free: u64) -> io::Result<()> {
        let Inner { bounds, held, .. } = &*self.0;
        // One at a time.
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = self.list()?;
        files.sort_by_key(|kept| kept.changed);
        let now = SystemTime::now();
        let most = bounds.total.saturating_sub(free);
        let mut total = files
            .iter()
            .fold(0, |sum: u64, kept| sum.saturating_add(kept.bytes));
        for kept in files {
            let age = now.duration_since(kept.changed).unwrap_or_default();
            if total <= most && age <= bounds.keep {
                break;
            }
            fs::remove_file(&kept.path)?;
            total = total.saturating_sub(kept.bytes);
        }
        *held = total;
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<Kept>> {
        let mut files = Vec::new();
        for shelf in fs::read_dir(&self.0.folder)? {
            let shelf = shelf?;
            if shelf.file_name() == PARTIAL || !shelf.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(shelf.path())? {
                let file = file?;
                let about = file.metadata()?;
                files.push(Kept {
                    changed: about.modified()?,
                    bytes: about.len(),
                    path: file.path(),
                });
            }
        }
        Ok(files)
    }
}

impl Partial {
    /// Adds bytes; fails if the disk has no room, or the file has become too large to be kept.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes > self.most {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.file.write_all(bytes)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Gone already if it was kept.
        fs::remove_file(&self.path).ok();
    }
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use tempfile::TempDir;

    use super::{Vault, VaultBounds};

    const BOUNDS: VaultBounds = VaultBounds {
        file: 1_000,
        total: 2_000,
        keep: Duration::from_secs(3_600),
    };

    fn put(vault: &Vault, hash: &str, bytes: &[u8]) {
        let mut partial = vault.begin().unwrap();
        partial.write(bytes).unwrap();
        vault.keep(partial, hash).unwrap();
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
    fn the_same_content_is_kept_once_and_what_is_not_finished_is_gone() {
        let folder = TempDir::new().unwrap();
        let vault = Vault::open(folder.path(), BOUNDS).unwrap();
        for _ in 0..5 {
            put(&vault, "aa11", &[1; 900]);
        }
        put(&vault, "bb22", &[2; 900]);
        let mut half = vault.begin().unwrap();
        half.write(&[3; 10]).unwrap();
        drop(half);
        let mut large = vault.begin().unwrap();
        assert!(large.write(&[3; 1_001]).is_err());
        drop(large);
        assert_eq!(names(&folder), ["aa11", "bb22"]);
        let kept = fs::read(folder.path().join("aa/aa11")).unwrap();
        assert_eq!(kept, [1; 900]);
        // Left by a run that was killed.
        fs::write(folder.path().join("partial/7"), "x").unwrap();
        Vault::open(folder.path(), BOUNDS).unwrap();
        assert_eq!(names(&folder), ["aa11", "bb22"]);
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room_and_all_go_when_their_time_is_over() {
        let folder = TempDir::new().unwrap();
        let vault = Vault::open(folder.path(), BOUNDS).unwrap();
        for (number, hash) in ["aa", "bb", "cc"].into_iter().enumerate() {
            put(&vault, hash, &[0; 600]);
            let age = Duration::from_secs(100 - u64::try_from(number).unwrap());
            let file = fs::File::options()
                .write(true)
                .open(folder.path().join(hash).join(hash))
                .unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        put(&vault, "dd", &[0; 600]);
        assert_eq!(names(&folder), ["bb", "cc", "dd"]);
        let short = VaultBounds {
            keep: Duration::from_secs(50),
            ..BOUNDS
        };
        Vault::open(folder.path(), short).unwrap();
        assert_eq!(names(&folder), ["dd"]);
    }
}
