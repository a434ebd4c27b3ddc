//! The list at the head of a bundle: what is in it, and where each file's content is.
//!
//! ```text
//! "rwb1", number of entries (4)
//! for each entry, a folder before what is in it:
//!   depth (1), kind (1), mode (2), time (8 and 4), length of the name (1), name,
//!   then of a file its size (8), of a link its target's length (2) and the target
//! zeros up to a multiple of 16 KiB
//! ```
//!
//! Numbers are unsigned and have the most significant byte first. An entry has a name and no path:
//! what it is in is the last folder before it that is one less deep. So there is no way to say
//! `../x`, or to put something behind a link. In a folder names ascend byte by byte, so that none
//! comes twice.
//!
//! The contents of all files follow, in this order and without anything between them. Both together
//! are one content with one hash tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::limits::{BUNDLE_DEPTH, BUNDLE_ENTRIES, BUNDLE_LIST, BUNDLE_PATH, BUNDLE_TARGET};

/// The list's length is a multiple of this, so that a chunk group has a part of the list or of the
/// content, and never of both.
pub(crate) const ALIGN: usize = 16 * 1024;

const MAGIC: [u8; 4] = *b"rwb1";

/// The longest name that Linux file systems have.
const NAME: usize = 255;

/// Of entries that are in no folder.
pub(super) const TOP: u32 = u32::MAX;

const FOLDER: u8 = 0;
const FILE: u8 = 1;
const LINK: u8 = 2;

/// Why a list is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Invalid {
    #[error("it is cut off or malformed")]
    Malformed,
    #[error("it has more entries, or longer or deeper paths, than this release takes")]
    TooLarge,
    #[error("a name in it can be no file's name")]
    Name,
    #[error("names in it are twice in one folder, or not in order")]
    Order,
    #[error("a link in it leads out of the folder")]
    Link,
    #[error("its sizes do not add up to what was offered")]
    Size,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Folder,
    File { size: u64 },
    Link { target: &'a [u8] },
}

/// One entry of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    /// How many folders it is in.
    pub(super) depth: u8,
    pub(super) name: &'a [u8],
    /// Permissions: nine bits.
    pub(super) mode: u16,
    /// When its content was last changed: Unix seconds, and nanoseconds.
    pub(super) modified: (i64, u32),
    pub(super) kind: Kind<'a>,
}

/// A list that is written.
#[derive(Debug)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    entries: u32,
}

impl Writer {
    pub(super) fn new() -> Writer {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0; 4]);
        Writer { bytes, entries: 0 }
    }

    /// Adds an entry. That the list can be read again is known at its end.
    pub(super) fn push(&mut self, entry: &Entry<'_>) -> Result<(), Invalid> {
        let name = u8::try_from(entry.name.len()).map_err(|_| Invalid::Name)?;
        let (kind, size, target) = match entry.kind {
            Kind::Folder => (FOLDER, None, None),
            Kind::File { size } => (FILE, Some(size), None),
            Kind::Link { target } => (LINK, None, Some(target)),
        };
        let bytes = &mut self.bytes;
        bytes.extend([entry.depth, kind]);
        bytes.extend(entry.mode.to_be_bytes());
        bytes.extend(entry.modified.0.to_be_bytes());
        bytes.extend(entry.modified.1.to_be_bytes());
        bytes.push(name);
        bytes.extend(entry.name);
        if let Some(size) = size {
            bytes.extend(size.to_be_bytes());
        }
        if let Some(target) = target {
            let length = u16::try_from(target.len()).map_err(|_| Invalid::TooLarge)?;
            bytes.extend(length.to_be_bytes());
            bytes.extend(target);
        }
        self.entries = self.entries.saturating_add(1);
        if self.entries > BUNDLE_ENTRIES || as_u64(self.bytes.len()) > BUNDLE_LIST - as_u64(ALIGN) {
            return Err(Invalid::TooLarge);
        }
        Ok(())
    }

    /// The whole list.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let count = self.entries.to_be_bytes();
        let places = self.bytes.iter_mut().skip(MAGIC.len());
        places.zip(count).for_each(|(place, byte)| *place = byte);
        let whole = self.bytes.len().next_multiple_of(ALIGN);
        self.bytes.resize(whole, 0);
        self.bytes
    }
}

/// A list that was read and is valid, with an index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    bytes: Vec<u8>,
    nodes: Vec<Node>,
    /// Bytes of all files.
    content: u64,
    files: u32,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    /// In the list's bytes.
    at: u32,
    /// The folder that it is in, or [`TOP`].
    parent: u32,
    /// Where its content begins, or would begin, in that of all.
    start: u64,
    /// How many files stand before it.
    files: u32,
}

impl Manifest {
    /// Checks the list that a bundle of `size` bytes begins with.
    pub(super) fn read(bytes: Vec<u8>, size: u64) -> Result<Manifest, Invalid> {
        let head = as_u64(bytes.len());
        if head > BUNDLE_LIST {
            return Err(Invalid::TooLarge);
        }
        if !bytes.len().is_multiple_of(ALIGN) {
            return Err(Invalid::Malformed);
        }
        let mut cursor = Cursor { bytes: &bytes };
        if cursor.array::<4>()? != MAGIC {
            return Err(Invalid::Malformed);
        }
        let count = u32::from_be_bytes(cursor.array()?);
        if count == 0 {
            return Err(Invalid::Malformed);
        }
        if count > BUNDLE_ENTRIES {
            return Err(Invalid::TooLarge);
        }
        let (mut checker, mut nodes) = (Checker::default(), Vec::new());
        let (mut content, mut files) = (0_u64, 0);
        for number in 0..count {
            let at = bytes.len().saturating_sub(cursor.bytes.len());
            let entry = cursor.entry()?;
            let parent = checker.check(number, &entry)?;
            nodes.push(Node {
                at: u32::try_from(at).map_err(|_| Invalid::TooLarge)?,
                parent,
                start: content,
                files,
            });
            if let Kind::File { size } = entry.kind {
                files += 1;
                content = content.checked_add(size).ok_or(Invalid::Size)?;
            }
        }
        if cursor.bytes.len() >= ALIGN || cursor.bytes.iter().any(|byte| *byte != 0) {
            return Err(Invalid::Malformed);
        }
        if head.checked_add(content) != Some(size) {
            return Err(Invalid::Size);
        }
        Ok(Manifest {
            bytes,
            nodes,
            content,
            files,
        })
    }

    /// The list as it travels.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its length.
    pub(crate) fn head(&self) -> u64 {
        as_u64(self.bytes.len())
    }

    /// Bytes of the whole bundle.
    pub(crate) fn size(&self) -> u64 {
        self.head().saturating_add(self.content)
    }

    /// How many entries there are.
    pub(crate) fn entries(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    /// How many of them are files.
    pub(crate) fn files(&self) -> u32 {
        self.files
    }

    /// An entry by its number; none past the last.
    pub(super) fn entry(&self, number: u32) -> Option<Entry<'_>> {
        let at = usize::try_from(self.node(number)?.at).ok()?;
        let mut cursor = Cursor {
            bytes: self.bytes.get(at..)?,
        };
        cursor.entry().ok()
    }

    /// The folder that an entry is in, or [`TOP`].
    pub(super) fn parent(&self, number: u32) -> u32 {
        self.node(number).map_or(TOP, |node| node.parent)
    }

    /// Where a file's content begins in the whole bundle.
    pub(super) fn start(&self, number: u32) -> u64 {
        let start = self.node(number).map_or(0, |node| node.start);
        self.head().saturating_add(start)
    }

    /// The entries that are in no folder, in order.
    pub(super) fn tops(&self) -> impl Iterator<Item = u32> {
        let numbers = (0..self.entries()).zip(&self.nodes);
        numbers
            .filter(|(_, node)| node.parent == TOP)
            .map(|(number, _)| number)
    }

    /// Whether it is one folder with what is in it.
    pub(crate) fn is_one_folder(&self) -> bool {
        let one = self.tops().count() == 1;
        one && self
            .entry(0)
            .is_some_and(|entry| entry.kind == Kind::Folder)
    }

    /// The file whose content is at `position` of the bundle.
    pub(super) fn file_at(&self, position: u64) -> Option<u32> {
        let position = position.checked_sub(self.head())?;
        if position >= self.content {
            return None;
        }
        // Of those that begin there the last one has content: the others would end it, too.
        let after = self.nodes.partition_point(|node| node.start <= position);
        u32::try_from(after.checked_sub(1)?).ok()
    }

    /// How many files are whole once `bytes` of the bundle are there from its beginning.
    pub(crate) fn files_within(&self, bytes: u64) -> u32 {
        let Some(content) = bytes.checked_sub(self.head()) else {
            return 0;
        };
        if content >= self.content {
            return self.files;
        }
        let begun = self.nodes.partition_point(|node| node.start <= content);
        let last = begun.checked_sub(1).and_then(|last| self.nodes.get(last));
        last.map_or(0, |last| last.files)
    }

    /// The path of an entry within the bundle.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        let mut names = Vec::new();
        let mut next = number;
        while let Some(entry) = self.entry(next) {
            names.push(entry.name);
            next = self.parent(next);
        }
        names
            .iter()
            .rev()
            .map(|name| OsStr::from_bytes(name))
            .collect()
    }

    fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.get(usize::try_from(number).ok()?)
    }
}

/// What has to hold between entries.
#[derive(Debug, Default)]
struct Checker {
    /// The folders that the next entry may be in: its number, and the length of its path.
    open: Vec<(u32, usize)>,
    /// The last name in each of them, and before that the last one at the top.
    last: Vec<Vec<u8>>,
}

impl Checker {
    /// The folder that the entry is in.
    fn check(&mut self, number: u32, entry: &Entry<'_>) -> Result<u32, Invalid> {
        let depth = usize::from(entry.depth);
        if depth > self.open.len() {
            return Err(Invalid::Malformed);
        }
        if entry.depth > BUNDLE_DEPTH {
            return Err(Invalid::TooLarge);
        }
        check_name(entry.name)?;
        self.open.truncate(depth);
        self.last.truncate(depth.saturating_add(1));
        let (parent, above) = self.open.last().copied().unwrap_or((TOP, 0));
        match self.last.get_mut(depth) {
            Some(last) if last.as_slice() >= entry.name => return Err(Invalid::Order),
            Some(last) => entry.name.clone_into(last),
            None => self.last.push(entry.name.to_vec()),
        }
        let length = above.saturating_add(1).saturating_add(entry.name.len());
        if length > BUNDLE_PATH {
            return Err(Invalid::TooLarge);
        }
        match entry.kind {
            Kind::Folder => self.open.push((number, length)),
            Kind::Link { target } if !stays_inside(target, entry.depth) => {
                return Err(Invalid::Link);
            }
            Kind::File { .. } | Kind::Link { .. } => {}
        }
        Ok(parent)
    }
}

fn check_name(name: &[u8]) -> Result<(), Invalid> {
    let bad = name.len() > NAME || name.iter().any(|byte| matches!(byte, 0 | b'/'));
    match name {
        b"" | b"." | b".." => Err(Invalid::Name),
        _ if bad => Err(Invalid::Name),
        _ => Ok(()),
    }
}

/// Whether a link at this depth leads to something in the same top folder, or would if it were
/// there.
///
/// It may go up only at its beginning, where what it goes up from is the folder that it is in, and
/// no link: behind a link `..` leads elsewhere than it seems.
pub(super) fn stays_inside(target: &[u8], depth: u8) -> bool {
    let fits = (1..=BUNDLE_TARGET).contains(&target.len());
    if !fits || target.starts_with(b"/") || target.contains(&0) {
        return false;
    }
    let Some(mut up) = depth.checked_sub(1) else {
        return false;
    };
    let mut down = false;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if down => return false,
            b".." => match up.checked_sub(1) {
                Some(less) => up = less,
                None => return false,
            },
            _ => down = true,
        }
    }
    true
}

/// What is still to be read of a list.
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Invalid> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or(Invalid::Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Invalid> {
        self.take(N)?.try_into().map_err(|_| Invalid::Malformed)
    }

    fn entry(&mut self) -> Result<Entry<'a>, Invalid> {
        let [depth, kind] = self.array()?;
        let mode = u16::from_be_bytes(self.array()?);
        let seconds = i64::from_be_bytes(self.array()?);
        let nanos = u32::from_be_bytes(self.array()?);
        if mode > 0o777 || nanos >= 1_000_000_000 {
            return Err(Invalid::Malformed);
        }
        let [length] = self.array()?;
        let name = self.take(length.into())?;
        let kind = match kind {
            FOLDER => Kind::Folder,
            FILE => Kind::File {
                size: u64::from_be_bytes(self.array()?),
            },
            LINK => {
                let length = u16::from_be_bytes(self.array()?);
                Kind::Link {
                    target: self.take(length.into())?,
                }
            }
            _ => return Err(Invalid::Malformed),
        };
        Ok(Entry {
            depth,
            name,
            mode,
            modified: (seconds, nanos),
            kind,
        })
    }
}

fn as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Asks all that is asked of a list.
///
/// # Panics
/// When an entry of a list that was taken leads elsewhere.
#[cfg(feature = "fuzzing")]
pub(super) fn check_all(list: &Manifest) {
    for number in 0..list.entries() {
        let path = list.path(number);
        let inside = |part| matches!(part, std::path::Component::Normal(_));
        assert!(path.components().all(inside) && list.entry(number).is_some());
        if let Some(file) = list.file_at(list.start(number)) {
            assert!(list.start(file) <= list.start(number));
        }
    }
    assert_eq!(list.files_within(list.size()), list.files());
}

#[cfg(test)]
mod tests;
