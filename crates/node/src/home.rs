//! The folder that holds everything a member keeps on disk, and how secrets are written there.
//!
//! | path | holds |
//! |---|---|
//! | `identity.key` | the Ed25519 secret, 0600 |
//! | `identity.next` | the next one, 0600, while the member changes its key |
//! | `ringway.toml` | the configuration |
//! | `state.db` | certificate, known routers, transfers |
//! | `admission.request` | what this machine has asked to be, until it is a member |
//! | `control.sock` | the control socket, 0600, while the daemon runs |
//! | `inbox/` | received files |
//! | `evidence/` | proof against routers that lie, one file each |
//! | `trees/` | hash trees of files on their way out |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a file of the home folder could not be used.
#[derive(Debug, thiserror::Error)]
#[error("{action} {} failed: {source}", path.display())]
pub struct HomeError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl HomeError {
    pub(crate) fn new(action: &'static str, path: &Path, source: io::Error) -> HomeError {
        let path = path.to_owned();
        HomeError {
            action,
            path,
            source,
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Path of the control socket in `home`.
#[must_use]
pub fn socket_path(home: &Path) -> PathBuf {
    home.join("control.sock")
}

/// Path of the configuration in `home`.
#[must_use]
pub fn config_path(home: &Path) -> PathBuf {
    home.join("ringway.toml")
}

pub(crate) fn identity_path(home: &Path) -> PathBuf {
    home.join("identity.key")
}

pub(crate) fn next_identity_path(home: &Path) -> PathBuf {
    home.join("identity.next")
}

pub(crate) fn request_path(home: &Path) -> PathBuf {
    home.join("admission.request")
}

pub(crate) fn state_path(home: &Path) -> PathBuf {
    home.join("state.db")
}

pub(crate) fn trees_path(home: &Path) -> PathBuf {
    home.join("trees")
}

pub(crate) fn evidence_path(home: &Path) -> PathBuf {
    home.join("evidence")
}

/// Takes the home for one daemon; it is free again when the file is closed, however that comes.
pub(crate) fn lock(home: &Path) -> Result<File, HomeError> {
    let path = home.join("lock");
    try_lock(&path)?.ok_or_else(|| {
        let reason = "a member daemon runs already in this home: stop it first";
        let busy = io::Error::new(io::ErrorKind::ResourceBusy, reason);
        HomeError::new("locking", &path, busy)
    })
}

/// Takes the lock at `path` unless somebody has it; it is free again when the file is closed,
/// however that comes.
pub(crate) fn try_lock(path: &Path) -> Result<Option<File>, HomeError> {
    let take = || -> io::Result<Option<File>> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let alone = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        match rustix::fs::flock(&file, alone) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    take().map_err(|source| HomeError::new("locking", path, source))
}

/// Creates `folder` and its parents, readable by its owner only.
pub(crate) fn create_private_folder(folder: &Path) -> Result<(), HomeError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| HomeError::new("creating the folder", folder, source))
}

/// Writes `content` so that after a crash either the old file or the whole new one stands there,
/// 0600.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), HomeError> {
    let temporary = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_folder_of(path)
    };
    write().map_err(|source| HomeError::new("writing", path, source))
}

/// Puts the file `from` in the place of `to`, so that after a crash either stands there.
pub(crate) fn replace(from: &Path, to: &Path) -> Result<(), HomeError> {
    fs::rename(from, to)
        .and_then(|()| sync_folder_of(to))
        .map_err(|source| HomeError::new("replacing", to, source))
}

/// Reads a secret file; refuses one that others can read.
pub(crate) fn read_private(path: &Path) -> Result<Vec<u8>, HomeError> {
    let read = || -> io::Result<Vec<u8>> {
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            let reason = "others can read this secret: run `chmod 600` on it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        fs::read(path)
    };
    read().map_err(|source| HomeError::new("reading", path, source))
}

/// Makes a rename or a new name in the folder of `path` survive a power cut.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_written_for_its_owner_only_and_one_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        write_private(&path, b"first").unwrap();
        write_private(&path, b"second").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(read_private(&path).unwrap(), b"second");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = read_private(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }
}
