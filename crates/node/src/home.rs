//! The folder that holds everything a member keeps on disk, and how secrets are written there.
//!
//! | path | holds |
//! |---|---|
//! | `identity.key` | the Ed25519 secret, 0600 |
//! | `identity.next` | the next one, 0600, while the member changes its key |
//! | `ringway.toml` | the configuration |
//! | `moved` | that a router's certificate names an address which may not be here yet |
//! | `state.db` | certificate, known routers, transfers |
//! | `admission.request` | what this machine has asked to be, until it is a member |
//! | `control.sock` | the control socket, 0600, while the daemon runs |
//! | `inbox/` | received files |
//! | `evidence/` | proof against routers that lie, one file each |
//! | `trees/` | hash trees of files on their way out |

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Flags of a file that is opened only if its name is no link.
pub(crate) const NO_LINKS: i32 = libc_flag(rustix::fs::OFlags::NOFOLLOW);

/// A flag in the form in which the standard library takes it.
#[allow(
    clippy::as_conversions,
    clippy::cast_possible_wrap,
    reason = "flags of open(2) fit into 31 bits"
)]
const fn libc_flag(flag: rustix::fs::OFlags) -> i32 {
    flag.bits() as i32
}

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

pub use ringway_client::place::{config_path, socket_path};

/// True while a member's key or state is in `home`.
#[must_use]
pub fn has_member(home: &Path) -> bool {
    identity_path(home).exists() || state_path(home).exists()
}

pub(crate) fn identity_path(home: &Path) -> PathBuf {
    home.join("identity.key")
}

pub(crate) fn next_identity_path(home: &Path) -> PathBuf {
    home.join("identity.next")
}

pub(crate) fn moved_path(home: &Path) -> PathBuf {
    home.join("moved")
}

pub(crate) fn request_path(home: &Path) -> PathBuf {
    home.join("admission.request")
}

pub(crate) fn state_path(home: &Path) -> PathBuf {
    home.join("state.db")
}

pub(crate) fn messages_path(home: &Path) -> PathBuf {
    home.join("messages.db")
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
            .custom_flags(NO_LINKS)
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

/// As [`create_private_folder`]; refuses one that is there already and in which others could put
/// files of their own.
pub(crate) fn create_own_folder(folder: &Path) -> Result<(), HomeError> {
    create_private_folder(folder)?;
    let checked = open_folder(folder).and_then(|folder| check_folder(&folder));
    checked.map_err(|source| HomeError::new("using the folder", folder, source))
}

fn open_folder(folder: &Path) -> io::Result<File> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)
}

/// Whether only this user, and root, can make or replace files in the folder.
fn check_folder(folder: &File) -> io::Result<()> {
    let metadata = folder.metadata()?;
    if !is_trusted(&metadata) {
        let reason = format!(
            "it belongs to user {}, who could replace what is written there: name a folder of your own",
            metadata.uid()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    // Where each user has a group of its own, its folders are often open to that group.
    let own_group = metadata.gid() == rustix::process::getegid().as_raw();
    let open_to_others = if own_group { 0o002 } else { 0o022 };
    if metadata.mode() & open_to_others != 0 {
        let reason = "others can write there, and so replace what is written: run `chmod go-w` on it, or name a folder of your own";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(())
}

/// True for what belongs to this user or to root.
fn is_trusted(metadata: &fs::Metadata) -> bool {
    let own = rustix::process::geteuid().as_raw();
    metadata.uid() == own || metadata.uid() == 0
}

/// Writes `content` so that after a crash either the old file or the whole new one stands there,
/// 0600. No file and no link that somebody else has made is written through.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), HomeError> {
    let write = || -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = open_folder(path.parent().unwrap_or(Path::new("")))?;
        // From here on it is this very folder, whatever its name leads to.
        check_folder(&folder)?;
        let mut temporary = name.to_owned();
        temporary.push(".new");
        let mut file = create_alone(&folder, &temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        rustix::fs::renameat(&folder, &temporary, &folder, name)?;
        folder.sync_all()
    };
    write().map_err(|source| HomeError::new("writing", path, source))
}

/// Makes a file that was not there. What a crash has left goes first.
fn create_alone(folder: &File, name: &OsStr) -> io::Result<File> {
    use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(folder, name, flags, Mode::RUSR | Mode::WUSR);
    let created = match create() {
        Err(rustix::io::Errno::EXIST) => {
            unlinkat(folder, name, AtFlags::empty())?;
            create()?
        }
        created => created?,
    };
    Ok(created.into())
}

/// Makes a file for a secret that a person carries on: 0600, and not one that was there.
///
/// # Errors
/// When there is a file or a link of this name, or none can be made.
pub fn create_secret(path: &Path) -> Result<File, HomeError> {
    let create = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    create.map_err(|source| HomeError::new("making the file", path, source))
}

/// Puts the file `from` in the place of `to`, so that after a crash either stands there.
pub(crate) fn replace(from: &Path, to: &Path) -> Result<(), HomeError> {
    fs::rename(from, to)
        .and_then(|()| sync_folder_of(to))
        .map_err(|source| HomeError::new("replacing", to, source))
}

/// Reads a secret file; refuses one that others can read, or have made.
pub(crate) fn read_private(path: &Path) -> Result<Vec<u8>, HomeError> {
    let read = || -> io::Result<Vec<u8>> {
        // Not to wait for the other end of a named pipe.
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc_flag(rustix::fs::OFlags::NONBLOCK))
            .open(path)?;
        check_secret(&file.metadata()?)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok(content)
    };
    read().map_err(|source| HomeError::new("reading", path, source))
}

/// Reads a secret that a person keeps in a file.
///
/// # Errors
/// When there is none, or others can read it or have made it.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, HomeError> {
    read_private(path)
}

/// Refuses a database, or another file that is there, which others can write or have made.
pub(crate) fn check_private(path: &Path) -> Result<(), HomeError> {
    let check = || check_secret(&fs::metadata(path)?);
    check().map_err(|source| HomeError::new("using", path, source))
}

/// Root may look into what belongs to the user that a service runs as.
fn check_secret(metadata: &fs::Metadata) -> io::Result<()> {
    let refuse = |reason: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    if !metadata.is_file() {
        return refuse("it is not a regular file".to_owned());
    }
    if !is_trusted(metadata) && !rustix::process::geteuid().is_root() {
        let owner = metadata.uid();
        return refuse(format!(
            "it belongs to user {owner}, who may have made it: use one of your own"
        ));
    }
    match metadata.mode() & 0o077 {
        0 => Ok(()),
        _ => refuse("others can read this secret: run `chmod 600` on it".to_owned()),
    }
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
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn secrets_are_not_written_through_foreign_links() {
        let folder = tempfile::tempdir().unwrap();
        let (path, theirs) = (folder.path().join("secret"), folder.path().join("theirs"));
        fs::write(&theirs, b"").unwrap();
        set_mode(&theirs, 0o666);
        // A link, and a file that somebody holds open: both at the name of the temporary file.
        let temporary = folder.path().join("secret.new");
        symlink(&theirs, &temporary).unwrap();
        write_private(&path, b"first").unwrap();
        fs::hard_link(&theirs, &temporary).unwrap();
        write_private(&path, b"second").unwrap();
        assert_eq!(fs::read(&theirs).unwrap(), b"");
        assert_eq!(read_private(&path).unwrap(), b"second");
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
    }

    #[test]
    fn no_secret_is_written_where_others_can_write() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o1777, 0o707] {
            set_mode(folder.path(), mode);
            let path = folder.path().join("secret");
            let refused = write_private(&path, b"x").unwrap_err().to_string();
            assert!(refused.contains("chmod go-w"), "{refused}");
            assert!(create_own_folder(folder.path()).is_err());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        set_mode(folder.path(), 0o755);
        create_own_folder(folder.path()).unwrap();
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        write_private(&path, b"x").unwrap();
        let root = rustix::process::geteuid().is_root();
        if !root {
            return eprintln!("SKIPPED: what_belongs_to_another_user_is_refused: needs root");
        }
        std::os::unix::fs::chown(folder.path(), Some(12_345), None).unwrap();
        let refused = write_private(&path, b"y").unwrap_err().to_string();
        assert!(refused.contains("user 12345"), "{refused}");
        // Root may look into a service's folder.
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        assert_eq!(read_private(&path).unwrap(), b"x");
    }

    #[test]
    fn no_link_is_followed_to_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        symlink(&elsewhere, folder.path().join("lock")).unwrap();
        assert!(lock(folder.path()).is_err());
        assert!(!elsewhere.exists());
    }

    #[test]
    fn a_secrets_file_is_new_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("invite");
        create_secret(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(create_secret(&path).is_err());
    }

    #[test]
    fn secrets_are_private_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        write_private(&path, b"first").unwrap();
        write_private(&path, b"second").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(read_private(&path).unwrap(), b"second");
        set_mode(&path, 0o640);
        let refused = read_private(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }
}
