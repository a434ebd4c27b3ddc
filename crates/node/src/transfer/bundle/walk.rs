//! The sender's side of a bundle: what is in the folders, and its content as that of one file.
//!
//! In a folder everything is opened from the folder's own descriptor, name by name, and no link is
//! followed: what somebody puts there meanwhile leads nowhere else.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bao_tree::io::sync::ReadAt;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::manifest::{Entry, Invalid, Kind, Manifest, TOP, Writer, stays_inside};
use crate::limits::{BUNDLE_DEPTH, BUNDLE_ENTRIES};
use crate::text::printable;

/// Why what is to be sent cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The system refuses something.
    #[error("{}: {source}", printable(&path.to_string_lossy(), 300))]
    Io {
        /// What could not be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is neither a file nor a folder.
    #[error("{} is neither a regular file nor a folder", printable(&.0.to_string_lossy(), 300))]
    Neither(PathBuf),
    /// Two of them have one name.
    #[error("two of them are called `{}`: send them one after the other", printable(.0, 300))]
    SameName(String),
    /// It is more than one transfer takes.
    #[error(
        "{}: a transfer takes at most {BUNDLE_ENTRIES} files, {BUNDLE_DEPTH} folders within each other, and 64 MiB of names: send it in parts",
        printable(&.0.to_string_lossy(), 300)
    )]
    TooLarge(PathBuf),
}

/// What is in a folder and does not travel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Links that lead out of the folder, and the first of them.
    links: (u64, Option<PathBuf>),
    /// Sockets, named pipes and devices, and the first of them.
    special: (u64, Option<PathBuf>),
    /// This member's home, which holds its key.
    home: Option<PathBuf>,
}

impl LeftOut {
    /// For people: a line for each kind.
    pub(crate) fn notes(&self) -> Vec<String> {
        let shown = |path: &Path| printable(&path.to_string_lossy(), 200);
        let counted = |(count, first): &(u64, Option<PathBuf>), what: &str| {
            let first = first.as_deref().map(shown)?;
            Some(match count {
                1 => format!("left out: `{first}`, {what}"),
                _ => format!("left out: {count}, the first is `{first}`, {what}"),
            })
        };
        let home = self.home.as_deref().map(|home| {
            format!(
                "left out: `{}`, this member's home with its key",
                shown(home)
            )
        });
        let links = counted(&self.links, "a link that leads out of the folder");
        let special = counted(&self.special, "neither file, folder nor link");
        [links, special, home].into_iter().flatten().collect()
    }
}

/// What was found, ready to be read.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) list: Arc<Manifest>,
    pub(crate) left_out: LeftOut,
    /// Where the entries at the top are, in their order, with their numbers.
    roots: Vec<(u32, PathBuf)>,
    open: Mutex<Open>,
}

/// What was read last: most reads go on there.
#[derive(Debug, Default)]
struct Open {
    folder: Option<(u32, OwnedFd)>,
    file: Option<(u32, File)>,
    /// The file that is not as it was.
    changed: Option<PathBuf>,
}

/// The folder that must not be sent, by device and inode.
type Avoided = Option<(u64, u64)>;

const LOOK: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

impl Walked {
    /// Looks at all of `paths` and what is in them; `home` is left out.
    pub(crate) fn new(paths: &[PathBuf], home: Option<&Path>) -> Result<Walked, WalkError> {
        let mut roots = paths.to_vec();
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_owned();
        roots.sort_by_key(name);
        if let Some(same) = roots.windows(2).find(|two| {
            let [a, b] = two else { return false };
            a.file_name() == b.file_name()
        }) {
            let name = same.first().map(name).unwrap_or_default();
            return Err(WalkError::SameName(name.to_string_lossy().into_owned()));
        }
        let home = home.and_then(|home| std::fs::metadata(home).ok());
        let mut walk = Walk {
            writer: Writer::new(),
            entries: 0,
            content: 0,
            avoided: home.map(|home| (home.dev(), home.ino())),
            left_out: LeftOut::default(),
        };
        let mut numbered = Vec::new();
        for root in roots {
            let number = walk.entries;
            if walk.root(&root)? {
                numbered.push((number, root));
            }
        }
        let first = || paths.first().cloned().unwrap_or_default();
        let bytes = walk.writer.finish();
        let head = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let size = head.saturating_add(walk.content);
        // The list is checked as a receiver does, so that nothing is offered that it would refuse.
        let list = Manifest::read(bytes, size).map_err(|_| WalkError::TooLarge(first()))?;
        Ok(Walked {
            list: Arc::new(list),
            left_out: walk.left_out,
            roots: numbered,
            open: Mutex::default(),
        })
    }

    /// All of it from the beginning, as one content.
    pub(crate) fn stream(&self) -> impl Read {
        Stream { of: self, at: 0 }
    }

    /// The file that was not as it had been when it was read last, if there is one.
    pub(crate) fn changed(&self) -> Option<PathBuf> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.changed.clone()
    }

    /// Of the files whose content begins or goes on within `length` bytes from `position` that
    /// which has changed, by its size and time; the first of them if none shows it.
    pub(crate) fn changed_near(&self, position: u64, length: u64) -> Option<PathBuf> {
        let first = self.list.file_at(position)?;
        let end = position.saturating_add(length);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = first;
        while number < self.list.entries() && self.list.start(number) < end {
            let entry = self.list.entry(number)?;
            if let Kind::File { size } = entry.kind {
                open.file = None;
                let same = self
                    .open_file(&mut open, number)
                    .and_then(|file| file.metadata());
                let same = same.is_ok_and(|there| {
                    there.len() == size && (there.mtime(), there.mtime_nsec()) == at(&entry)
                });
                if !same {
                    return Some(self.list.path(number));
                }
            }
            number += 1;
        }
        Some(self.list.path(first))
    }

    fn open_file<'a>(&self, open: &'a mut Open, number: u32) -> io::Result<&'a File> {
        let there = open.file.take().filter(|(of, _)| *of == number);
        let file = match there {
            Some((_, file)) => file,
            None => self.open_again(open, number)?,
        };
        Ok(&open.file.insert((number, file)).1)
    }

    fn open_again(&self, open: &mut Open, number: u32) -> io::Result<File> {
        let parent = self.list.parent(number);
        let file: File = if parent == TOP {
            rustix::fs::open(self.root_of(number)?, LOOK, Mode::empty())?.into()
        } else {
            let name = self.list.entry(number).ok_or(io::ErrorKind::NotFound)?.name;
            let folder = self.open_folder(open, parent)?;
            rustix::fs::openat(folder, name, LOOK | OFlags::NOFOLLOW, Mode::empty())?.into()
        };
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(file)
    }

    fn open_folder<'a>(&self, open: &'a mut Open, number: u32) -> io::Result<&'a OwnedFd> {
        let there = open.folder.take().filter(|(of, _)| *of == number);
        let folder = match there {
            Some((_, folder)) => folder,
            None => self.descend(number)?,
        };
        Ok(&open.folder.insert((number, folder)).1)
    }

    /// Opens a folder from the top, name by name.
    fn descend(&self, number: u32) -> io::Result<OwnedFd> {
        let (mut way, mut next) = (Vec::new(), number);
        while self.list.parent(next) != TOP {
            way.push(next);
            next = self.list.parent(next);
        }
        let flags = LOOK | OFlags::DIRECTORY;
        let mut folder = rustix::fs::open(self.root_of(next)?, flags, Mode::empty())?;
        for number in way.into_iter().rev() {
            let name = self.list.entry(number).ok_or(io::ErrorKind::NotFound)?.name;
            folder = rustix::fs::openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(folder)
    }

    fn root_of(&self, number: u32) -> io::Result<&Path> {
        let found = self
            .roots
            .binary_search_by_key(&number, |(number, _)| *number);
        let root = found.ok().and_then(|place| self.roots.get(place));
        root.map(|(_, path)| path.as_path())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Reads content of one file, from `position` of the bundle. Nothing means that the file is
    /// shorter than it was.
    fn read_file(&self, number: u32, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let size = match self.list.entry(number).map(|entry| entry.kind) {
            Some(Kind::File { size }) => size,
            _ => return Ok(0),
        };
        let within = position.saturating_sub(self.list.start(number));
        let left = usize::try_from(size.saturating_sub(within)).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.open_file(&mut open, number);
        let part = buffer.get_mut(..most).unwrap_or_default();
        let read = file.and_then(|file| ReadAt::read_at(file, within, part));
        if !matches!(read, Ok(1..)) {
            open.changed = Some(self.list.path(number));
        }
        if read.as_ref().is_ok_and(|read| *read == left) {
            open.file = None;
        }
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            // It was there when it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            read => read,
        }
    }
}

fn at(entry: &Entry<'_>) -> (i64, i64) {
    (entry.modified.0, entry.modified.1.into())
}

impl ReadAt for Walked {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = position.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
            let rest = buffer.get_mut(filled..).unwrap_or_default();
            let listed = usize::try_from(at).ok();
            let listed = listed.and_then(|at| self.list.as_bytes().get(at..));
            let read = match (listed, self.list.file_at(at)) {
                (Some(listed), _) if !listed.is_empty() => {
                    let most = listed.len().min(rest.len());
                    let (to, from) = (rest.get_mut(..most), listed.get(..most));
                    to.unwrap_or_default()
                        .copy_from_slice(from.unwrap_or_default());
                    most
                }
                (_, Some(number)) => self.read_file(number, at, rest)?,
                (_, None) => break,
            };
            filled += read;
        }
        Ok(filled)
    }
}

struct Stream<'a> {
    of: &'a Walked,
    at: u64,
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.of.read_at(self.at, buffer)?;
        self.at += u64::try_from(read).unwrap_or(0);
        Ok(read)
    }
}

/// The list as it grows.
struct Walk {
    writer: Writer,
    entries: u32,
    content: u64,
    avoided: Avoided,
    left_out: LeftOut,
}

impl Walk {
    /// Adds what a person has named, whose link is followed. False if it is left out.
    fn root(&mut self, path: &Path) -> Result<bool, WalkError> {
        let failed = |source: io::Error| WalkError::Io {
            path: path.to_owned(),
            source,
        };
        // Before it is opened: opening a named pipe waits for its other end.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(WalkError::Neither(path.to_owned()));
        }
        let opened = rustix::fs::open(path, LOOK, Mode::empty());
        let opened = opened.map_err(|error| failed(error.into()))?;
        let stat = rustix::fs::fstat(&opened).map_err(|error| failed(error.into()))?;
        let name = path.file_name().unwrap_or_default();
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            self.push(0, name, &stat, Kind::File { size }, path)?;
            return Ok(true);
        }
        self.folder(&opened, 0, name, &stat, &mut path.to_owned())
    }

    /// Adds a folder and what is in it. False if it is left out.
    fn folder(
        &mut self,
        opened: &OwnedFd,
        depth: u8,
        name: &OsStr,
        stat: &Stat,
        path: &mut PathBuf,
    ) -> Result<bool, WalkError> {
        if self.avoided == Some((stat.st_dev, stat.st_ino)) {
            self.left_out.home = Some(path.clone());
            return Ok(false);
        }
        self.push(depth, name, stat, Kind::Folder, path)?;
        if depth >= BUNDLE_DEPTH {
            return Err(WalkError::TooLarge(path.clone()));
        }
        let names = names(opened).map_err(|source| WalkError::Io {
            path: path.clone(),
            source,
        })?;
        for name in names {
            path.push(OsStr::from_bytes(name.to_bytes()));
            let added = self.inner(opened, depth + 1, &name, path);
            added?;
            path.pop();
        }
        Ok(true)
    }

    fn inner(
        &mut self,
        folder: &OwnedFd,
        depth: u8,
        name: &CString,
        path: &mut PathBuf,
    ) -> Result<(), WalkError> {
        let failed = |path: &Path, error: rustix::io::Errno| WalkError::Io {
            path: path.to_owned(),
            source: error.into(),
        };
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Removed meanwhile.
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(failed(path, error)),
        };
        let shown = OsStr::from_bytes(name.to_bytes());
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                let opened = rustix::fs::openat(folder, name, flags, Mode::empty());
                let opened = opened.map_err(|error| failed(path, error))?;
                self.folder(&opened, depth, shown, &stat, path).map(drop)
            }
            FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                self.push(depth, shown, &stat, Kind::File { size }, path)
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(folder, name, Vec::new());
                let target = target.map_err(|error| failed(path, error))?;
                let target = target.to_bytes();
                if stays_inside(target, depth) {
                    return self.push(depth, shown, &stat, Kind::Link { target }, path);
                }
                note(&mut self.left_out.links, path);
                Ok(())
            }
            _ => {
                note(&mut self.left_out.special, path);
                Ok(())
            }
        }
    }

    fn push(
        &mut self,
        depth: u8,
        name: &OsStr,
        stat: &Stat,
        kind: Kind<'_>,
        path: &Path,
    ) -> Result<(), WalkError> {
        if let Kind::File { size } = kind {
            self.content = self.content.saturating_add(size);
        }
        self.entries += 1;
        let entry = Entry {
            depth,
            name: name.as_bytes(),
            mode: u16::try_from(stat.st_mode & 0o777).unwrap_or(0o600),
            modified: (
                stat.st_mtime,
                u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            ),
            kind,
        };
        let pushed = self.writer.push(&entry);
        pushed.map_err(|_: Invalid| WalkError::TooLarge(path.to_owned()))
    }
}

fn note((count, first): &mut (u64, Option<PathBuf>), path: &Path) {
    *count += 1;
    first.get_or_insert_with(|| path.to_owned());
}

/// The names in a folder, in the order of the list.
fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name.to_owned());
        }
        // More than any bundle has: it is said when they are added.
        if names.len() > usize::try_from(BUNDLE_ENTRIES).unwrap_or(usize::MAX) {
            break;
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests;
