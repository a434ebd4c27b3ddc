//! The receiver's side of a bundle: what has come is written into files of a folder that only this
//! transfer uses, and moves into the inbox when all of it is there.
//!
//! | in `.partial` | holds |
//! |---|---|
//! | `ID.list` | the list, as far as it has come |
//! | `ID.folder/` | the files and folders, under their own names |
//! | `ID.names` | the names under which they go to the inbox, once all are whole |
//!
//! Everything in `ID.folder` is opened from its descriptor, name by name, and no link is followed.
//! Links, modes and times come last.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bao_tree::io::sync::{ReadAt, WriteAt as _};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::ListSlot;
use super::manifest::{Entry, Invalid, Kind, Manifest, TOP};
use crate::transfer::content::{
    ReadHoles, numbered, private_file, remove_if_there, safe_file_name,
};

/// A folder with the set-group-ID bit that its group may read is there for the people of that
/// group.
const FOR_GROUP: u32 = 0o2050;

/// A bundle on its way in.
#[derive(Debug)]
pub(crate) struct Unpacking {
    /// `ID` in the folder for parts.
    stem: PathBuf,
    size: u64,
    head: u64,
    list_file: File,
    folder: OwnedFd,
    /// Once it is whole, and valid.
    list: Option<Arc<Manifest>>,
    /// Where it is shown then.
    shown: ListSlot,
    open: Mutex<Open>,
}

/// What was written last: most writes go on there.
#[derive(Debug, Default)]
struct Open {
    folder: Option<(u32, OwnedFd)>,
    file: Option<(u32, File)>,
}

impl Unpacking {
    /// Begins one in the folder for parts, or goes on with it.
    pub(crate) fn open(parts: &Path, stem: &str, size: u64, head: u64) -> io::Result<Unpacking> {
        let stem = parts.join(stem);
        let folder = beside(&stem, "folder");
        match rustix::fs::mkdir(&folder, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Unpacking {
            size,
            head,
            list_file: private_file(&beside(&stem, "list"), false)?,
            folder: rustix::fs::open(&folder, FOLDER, Mode::empty())?,
            list: None,
            shown: ListSlot::default(),
            open: Mutex::default(),
            stem,
        })
    }

    /// Whether anything may be there already.
    pub(crate) fn has_begun(&self) -> io::Result<bool> {
        Ok(self.list_file.metadata()?.len() > 0)
    }

    /// The list, once it is there.
    pub(crate) fn list(&self) -> Option<&Manifest> {
        self.list.as_deref()
    }

    /// The list is shown there, as soon as it is there.
    pub(crate) fn show_list(&mut self, slot: ListSlot) {
        slot.set(self.list.clone());
        self.shown = slot;
    }

    /// Reads the list, of which every byte has been verified.
    pub(crate) fn read_list(&mut self) -> io::Result<()> {
        if self.list.is_none() {
            let length = usize::try_from(self.head).map_err(io::Error::other)?;
            let mut bytes = vec![0; length];
            self.list_file.read_exact_at(0, &mut bytes)?;
            let list = Manifest::read(bytes, self.size);
            let list = list.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
            self.list = Some(Arc::new(list));
            self.shown.set(self.list.clone());
        }
        Ok(())
    }

    /// Writes a verified chunk.
    pub(crate) fn write(&mut self, position: u64, data: &[u8]) -> io::Result<()> {
        if position < self.head {
            return self.list_file.write_all_at(position, data);
        }
        // What comes first is asked for first: the list is whole.
        self.read_list()?;
        let list = self.list.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut at, mut rest) = (position, data);
        while !rest.is_empty() {
            let number = list.file_at(at).ok_or(io::ErrorKind::InvalidData)?;
            let Some(Kind::File { size }) = list.entry(number).map(|entry| entry.kind) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let within = at.saturating_sub(list.start(number));
            let left = usize::try_from(size.saturating_sub(within)).unwrap_or(usize::MAX);
            let (part, more) = rest.split_at(left.min(rest.len()));
            let file = self.open_file(list, &mut open, number, true)?;
            std::os::unix::fs::FileExt::write_all_at(file, part, within)?;
            if part.len() == left {
                open.file = None;
            }
            at = at.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
            rest = more;
        }
        Ok(())
    }

    fn open_file<'a>(
        &self,
        list: &Manifest,
        open: &'a mut Open,
        number: u32,
        make: bool,
    ) -> io::Result<&'a File> {
        let there = open.file.take().filter(|(of, _)| *of == number);
        let file = match there {
            Some((_, file)) => file,
            None => {
                let folder = self.open_folder(list, open, list.parent(number), make)?;
                // Also to be read: what is kept open may be written next.
                let flags = if make {
                    OFlags::RDWR | OFlags::CREATE
                } else {
                    OFlags::RDWR
                };
                let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
                open_here(folder, name_of(list, number)?, flags)?.into()
            }
        };
        Ok(&open.file.insert((number, file)).1)
    }

    fn open_folder<'a>(
        &self,
        list: &Manifest,
        open: &'a mut Open,
        number: u32,
        make: bool,
    ) -> io::Result<&'a OwnedFd> {
        let there = open.folder.take().filter(|(of, _)| *of == number);
        let folder = match there {
            Some((_, folder)) => folder,
            None => self.descend(list, number, make)?,
        };
        Ok(&open.folder.insert((number, folder)).1)
    }

    /// Opens a folder from the top, name by name.
    fn descend(&self, list: &Manifest, number: u32, make: bool) -> io::Result<OwnedFd> {
        let (mut way, mut next) = (Vec::new(), number);
        while next != TOP {
            way.push(next);
            next = list.parent(next);
        }
        let mut folder = self.folder.try_clone()?;
        for number in way.into_iter().rev() {
            let name = name_of(list, number)?;
            folder = match rustix::fs::openat(&folder, name, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) if make => {
                    rustix::fs::mkdirat(&folder, name, Mode::RWXU)?;
                    rustix::fs::openat(&folder, name, FOLDER, Mode::empty())?
                }
                // It has its mode already, after a crash while all was made ready.
                Err(Errno::ACCESS) => {
                    rustix::fs::chmodat(&folder, name, Mode::RWXU, AtFlags::empty())?;
                    rustix::fs::openat(&folder, name, FOLDER, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok(folder)
    }

    /// Moves all of it into `inbox`, once every byte is there. Gives the path of what was moved, or
    /// that of the inbox where it is more than one file or folder.
    ///
    /// After a crash in between it goes on where it was.
    pub(crate) fn finish(&mut self, inbox: &Path) -> io::Result<PathBuf> {
        self.read_list()?;
        let list = self.list.as_deref().ok_or(io::ErrorKind::NotFound)?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Open::default();
        let shared = std::fs::metadata(inbox)?.mode() & FOR_GROUP == FOR_GROUP;
        let names = match self.names(list)? {
            Some(names) => names,
            None => {
                self.complete(list, shared)?;
                let names = free_names(list, inbox)?;
                // All of it is on the disk before anything of it is moved.
                rustix::fs::syncfs(&self.folder)?;
                self.keep_names(&names)?;
                names
            }
        };
        let mut path = inbox.to_owned();
        let tops: Vec<u32> = list.tops().collect();
        for (number, name) in tops.iter().zip(names) {
            let moved = self.move_top(list, *number, inbox, &name, shared)?;
            if tops.len() == 1 {
                path = moved;
            }
        }
        File::open(inbox)?.sync_all()?;
        Ok(path)
    }

    /// Makes what has no content, and gives all its mode and time.
    fn complete(&self, list: &Manifest, shared: bool) -> io::Result<()> {
        let mut open = Open::default();
        for number in 0..list.entries() {
            let entry = list.entry(number).ok_or(io::ErrorKind::NotFound)?;
            match entry.kind {
                Kind::File { size } => {
                    let file = self.open_file(list, &mut open, number, true)?;
                    if file.metadata()?.len() != size {
                        file.set_len(size)?;
                    }
                    rustix::fs::fchmod(file, mode_of(&entry, shared))?;
                    rustix::fs::futimens(file, &times_of(&entry))?;
                    open.file = None;
                }
                Kind::Folder => {
                    self.open_folder(list, &mut open, number, true)?;
                }
                Kind::Link { target } => {
                    let folder = self.open_folder(list, &mut open, list.parent(number), true)?;
                    make_link(folder, &entry, target)?;
                }
            }
        }
        // From the innermost: a folder's time changes with what is made in it.
        for number in (0..list.entries()).rev() {
            let entry = list.entry(number).ok_or(io::ErrorKind::NotFound)?;
            if entry.kind == Kind::Folder {
                let folder = self.descend(list, number, true)?;
                let mut mode = mode_of(&entry, shared);
                if list.parent(number) == TOP {
                    // It can be moved only by who may write in it.
                    mode |= Mode::RWXU;
                }
                rustix::fs::futimens(&folder, &times_of(&entry))?;
                rustix::fs::fchmod(&folder, mode)?;
            }
        }
        Ok(())
    }

    fn move_top(
        &self,
        list: &Manifest,
        number: u32,
        inbox: &Path,
        name: &str,
        shared: bool,
    ) -> io::Result<PathBuf> {
        let entry = list.entry(number).ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = rustix::fs::openat(&self.folder, os(entry.name), flags, Mode::empty());
        let path = inbox.join(name);
        match there {
            // It was moved before a crash.
            Err(Errno::NOENT) => return Ok(path),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let mut attempt = name.to_owned();
        for number in 2..1_000_u32 {
            let path = inbox.join(&attempt);
            match rename(&self.folder, os(entry.name), &path) {
                Ok(()) => {
                    if entry.kind == Kind::Folder {
                        let folder = rustix::fs::open(&path, FOLDER, Mode::empty())?;
                        rustix::fs::fchmod(folder, mode_of(&entry, shared))?;
                    }
                    return Ok(path);
                }
                // Somebody was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    attempt = numbered(name, number);
                }
                Err(error) => return Err(error),
            }
        }
        Err(thousand())
    }

    /// The names that were chosen before a crash.
    fn names(&self, list: &Manifest) -> io::Result<Option<Vec<String>>> {
        let text = match std::fs::read_to_string(beside(&self.stem, "names")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let names: Vec<String> = text.lines().map(str::to_owned).collect();
        Ok((names.len() == list.tops().count()).then_some(names))
    }

    fn keep_names(&self, names: &[String]) -> io::Result<()> {
        let path = beside(&self.stem, "names");
        let mut file = private_file(&path, true)?;
        // No name that is kept here has a line's end in it.
        file.write_all(names.join("\n").as_bytes())?;
        file.sync_all()?;
        crate::home::sync_folder_of(&path)
    }

    /// Removes all that has come so far.
    pub(crate) fn discard(parts: &Path, stem: &str) {
        let stem = parts.join(stem);
        let folder = beside(&stem, "folder");
        if let Err(error) = remove_all(&folder) {
            tracing::warn!(path = %folder.display(), %error, "a folder stays behind");
        }
        for extension in ["list", "names"] {
            remove_if_there(&beside(&stem, extension));
        }
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl ReadAt for Unpacking {
    /// What is not there reads as zeros, which verify as nothing.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if position < self.head {
            return ReadHoles(&self.list_file).read_at(position, buffer);
        }
        let number = self.list.as_ref().and_then(|list| list.file_at(position));
        let (Some(list), Some(number)) = (&self.list, number) else {
            buffer.fill(0);
            return Ok(buffer.len());
        };
        let size = match list.entry(number).map(|entry| entry.kind) {
            Some(Kind::File { size }) => size,
            _ => 0,
        };
        let within = position.saturating_sub(list.start(number));
        let left = usize::try_from(size.saturating_sub(within)).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        let part = buffer.get_mut(..most).unwrap_or_default();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match self.open_file(list, &mut open, number, false) {
            Ok(file) => ReadHoles(file).read_at(within, part),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                part.fill(0);
                Ok(most)
            }
            Err(error) => Err(error),
        }
    }
}

/// Opens or makes a file. It has its mode already, after a crash while all was made ready.
fn open_here(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::openat(folder, name, flags, mode) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(folder, name, mode, AtFlags::empty())?;
            Ok(rustix::fs::openat(folder, name, flags, mode)?)
        }
        opened => Ok(opened?),
    }
}

fn beside(stem: &Path, extension: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}

fn os(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}

fn name_of(list: &Manifest, number: u32) -> io::Result<&OsStr> {
    let entry = list.entry(number);
    let entry = entry.ok_or(io::ErrorKind::NotFound)?;
    Ok(os(entry.name))
}

/// The sender's mode, without what lets others write; in a shared inbox the group may read what its
/// owner may.
fn mode_of(entry: &Entry<'_>, shared: bool) -> Mode {
    let mut mode = u32::from(entry.mode) & !0o022;
    if shared {
        mode |= (mode >> 3) & 0o050;
        if entry.kind == Kind::Folder {
            mode |= 0o2000;
        }
    }
    Mode::from_raw_mode(mode)
}

fn times_of(entry: &Entry<'_>) -> Timestamps {
    let time = Timespec {
        tv_sec: entry.modified.0,
        tv_nsec: entry.modified.1.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn make_link(folder: &OwnedFd, entry: &Entry<'_>, target: &[u8]) -> io::Result<()> {
    let name = os(entry.name);
    match rustix::fs::symlinkat(os(target), folder, name) {
        // It was made before a crash.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
            rustix::fs::symlinkat(os(target), folder, name)?;
        }
        made => made?,
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(rustix::fs::utimensat(
        folder,
        name,
        &times_of(entry),
        flags,
    )?)
}

/// Names in the inbox for what is at the top: such as a file of that name would get, and free.
fn free_names(list: &Manifest, inbox: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for number in list.tops() {
        let entry = list.entry(number).ok_or(io::ErrorKind::NotFound)?;
        let name = safe_file_name(&String::from_utf8_lossy(entry.name));
        let name = name.unwrap_or_else(|| "unnamed".to_owned());
        let mut attempts = (1..1_000_u32).map(|attempt| numbered(&name, attempt));
        let free = attempts.find(|name| {
            let there = std::fs::symlink_metadata(inbox.join(name)).is_ok();
            !there && !names.contains(name)
        });
        names.push(free.ok_or_else(thousand)?);
    }
    Ok(names)
}

fn thousand() -> io::Error {
    let reason = "a thousand files of this name are there";
    io::Error::new(io::ErrorKind::AlreadyExists, reason)
}

/// Moves without replacing anything.
fn rename(from: &OwnedFd, name: &OsStr, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, renameat, renameat_with};
    match renameat_with(from, name, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems know no such move.
        Err(Errno::INVAL | Errno::NOSYS) => {
            if std::fs::symlink_metadata(to).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(renameat(from, name, CWD, to)?)
        }
        moved => Ok(moved?),
    }
}

/// Removes a folder, also where what is in it has modes that forbid that.
fn remove_all(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            allow_all(folder)?;
            std::fs::remove_dir_all(folder)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn allow_all(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

/// What of an error is a list that is none.
pub(crate) fn invalid_list(error: &io::Error) -> Option<Invalid> {
    error.get_ref()?.downcast_ref::<Invalid>().copied()
}

#[cfg(test)]
mod tests;
