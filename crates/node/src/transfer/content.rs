//! A file's content as a verified tree: hashing it, finding what is missing, sending and taking
//! chunks.
//!
//! All of this waits for the disk and belongs on a blocking thread.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bao_tree::io::outboard::{PostOrderOutboard, PreOrderOutboard};
use bao_tree::io::sync::{
    DecodeResponseIter, OutboardMut, WriteAt, encode_ranges_validated, outboard_post_order,
    valid_ranges,
};
use bao_tree::io::{BaoContentItem, Leaf, Parent};
use bao_tree::{BaoTree, BlockSize, ChunkNum, ChunkRanges};
use tokio::sync::OwnedSemaphorePermit;

use super::bundle::{self, ListSlot, Manifest, Unpacking, Walked};
use crate::limits::{FILE_EXTENSION_BYTES, FILE_NAME_BYTES, MISSING_RANGES};
use crate::text::{is_harmful, printable};

/// Chunk groups of 16 KiB: the unit that is verified, and 0.4 % of hashes on the wire.
const BLOCK: BlockSize = BlockSize::from_chunk_log(4);

/// What is sent: a file, or a bundle as if it were one.
#[derive(Debug)]
enum Content {
    File(File),
    /// A bundle as it was handed over, with what its list says.
    Packed(File, Arc<Manifest>),
    Walked(Box<Walked>),
}

impl bao_tree::io::sync::ReadAt for Content {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Content::File(file) | Content::Packed(file, _) => {
                bao_tree::io::sync::ReadAt::read_at(file, position, buffer)
            }
            Content::Walked(walked) => walked.read_at(position, buffer),
        }
    }
}

/// What is to be sent, with its hash tree.
#[derive(Debug)]
pub(super) struct Source {
    content: Content,
    tree: PostOrderOutboard<File>,
    pub(super) size: u64,
    pub(super) hash: blake3::Hash,
    /// The tree's file; it has no use after the transfer.
    tree_path: PathBuf,
}

impl Source {
    /// Reads the file at `path` once; the hash tree goes to `tree_path`.
    pub(super) fn open(path: &Path, tree_path: &Path) -> io::Result<Source> {
        Source::read(File::open(path)?, tree_path)
    }

    /// Reads `file` once, from its beginning; the hash tree goes to `tree_path`.
    pub(super) fn read(file: File, tree_path: &Path) -> io::Result<Source> {
        let size = file.metadata()?.len();
        Source::of(Content::File(file), size, tree_path)
    }

    /// The same of a bundle that was handed over, with a list of `head` bytes.
    pub(super) fn packed(file: File, head: u64, tree_path: &Path) -> io::Result<Source> {
        let list = Arc::new(bundle::read_list(&file, head)?);
        let size = list.size();
        Source::of(Content::Packed(file, list), size, tree_path)
    }

    /// The same of what was found in folders.
    pub(super) fn walked(walked: Walked, tree_path: &Path) -> io::Result<Source> {
        let size = walked.size();
        Source::of(Content::Walked(Box::new(walked)), size, tree_path)
    }

    fn of(content: Content, size: u64, tree_path: &Path) -> io::Result<Source> {
        let hashed = Source::hash(content, size, tree_path);
        if hashed.is_err() {
            remove_if_there(tree_path);
        }
        hashed
    }

    fn hash(content: Content, size: u64, tree_path: &Path) -> io::Result<Source> {
        let tree = BaoTree::new(size, BLOCK);
        let tree_file = private_file(tree_path, true)?;
        let mut writer = BufWriter::new(tree_file);
        let hash = match &content {
            Content::File(file) | Content::Packed(file, _) => {
                let mut file = file;
                // Who has handed it over may have read from it.
                file.rewind()?;
                let reader = BufReader::with_capacity(1 << 20, file);
                outboard_post_order(reader, tree, &mut writer)?
            }
            Content::Walked(walked) => {
                let reader = BufReader::with_capacity(1 << 20, walked.stream());
                let hashed = outboard_post_order(reader, tree, &mut writer);
                hashed.map_err(|error| match walked.changed() {
                    Some(path) => io::Error::new(error.kind(), Changing(path, error)),
                    None => error,
                })?
            }
        };
        let data = writer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        Ok(Source {
            content,
            tree: PostOrderOutboard {
                root: hash,
                tree,
                data,
            },
            size,
            hash,
            tree_path: tree_path.to_owned(),
        })
    }

    /// The list of a bundle.
    pub(super) fn list(&self) -> Option<&Arc<Manifest>> {
        match &self.content {
            Content::File(_) => None,
            Content::Packed(_, list) => Some(list),
            Content::Walked(walked) => Some(&walked.list),
        }
    }

    /// What a person should know of what is sent: a line for each thing.
    pub(super) fn notes(&self) -> Vec<String> {
        match &self.content {
            Content::Walked(walked) => walked.left_out.notes(),
            Content::File(_) | Content::Packed(..) => Vec::new(),
        }
    }

    /// Bytes that a single file has more than were sent: it has grown.
    pub(super) fn grown_by(&self) -> u64 {
        match &self.content {
            Content::File(file) => {
                let now = file.metadata().map_or(0, |metadata| metadata.len());
                now.saturating_sub(self.size)
            }
            Content::Packed(..) | Content::Walked(_) => 0,
        }
    }

    /// Writes the chunks in `ranges`, each preceded by the hashes that prove it, and checks each on
    /// the way.
    pub(super) fn encode(
        &self,
        ranges: &ChunkRanges,
        sink: impl Write,
    ) -> Result<(), EncodeFailed> {
        use bao_tree::io::EncodeError;
        let walked = match &self.content {
            Content::Walked(walked) => Some(walked),
            Content::File(_) | Content::Packed(..) => None,
        };
        match encode_ranges_validated(&self.content, &self.tree, ranges, sink) {
            Ok(()) => Ok(()),
            Err(EncodeError::LeafHashMismatch(chunk)) => {
                let group = BLOCK.bytes().try_into().unwrap_or(u64::MAX);
                let changed = walked.and_then(|all| all.changed_near(chunk.to_bytes(), group));
                Err(EncodeFailed::Changed(changed))
            }
            Err(EncodeError::ParentHashMismatch(_)) => Err(EncodeFailed::Changed(None)),
            Err(error) => match io::Error::from(error) {
                error if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let changed = walked.and_then(|walked| walked.changed());
                    Err(EncodeFailed::Changed(changed))
                }
                error => Err(EncodeFailed::Io(error)),
            },
        }
    }
}

/// Something in a folder that cannot be read as it was found.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", printable(&.0.to_string_lossy(), 300), reason(.1))]
struct Changing(PathBuf, io::Error);

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "it has changed while it was read: send it again".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Why a file could not be sent to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum EncodeFailed {
    /// With the file's path in a bundle.
    #[error("the file has changed since it was hashed")]
    Changed(Option<PathBuf>),
    #[error(transparent)]
    Io(io::Error),
}

impl Drop for Source {
    fn drop(&mut self) {
        remove_if_there(&self.tree_path);
    }
}

/// A file, or a bundle, on its way in.
#[derive(Debug)]
pub(super) struct Partial {
    data: Data,
    tree: PreOrderOutboard<File>,
    size: u64,
    /// For a bundle's list.
    memory: Option<OwnedSemaphorePermit>,
}

/// Where its content goes.
#[derive(Debug)]
enum Data {
    File { file: File, path: PathBuf },
    Bundle(Box<Unpacking>),
}

impl bao_tree::io::sync::ReadAt for Data {
    /// Reads zeros where nothing is, which verify as nothing.
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Data::File { file, .. } => ReadHoles(file).read_at(position, buffer),
            Data::Bundle(bundle) => bundle.read_at(position, buffer),
        }
    }
}

impl Data {
    fn has_begun(&self) -> io::Result<bool> {
        match self {
            Data::File { file, .. } => Ok(file.metadata()?.len() > 0),
            Data::Bundle(bundle) => bundle.has_begun(),
        }
    }

    fn write(&mut self, position: u64, data: &[u8]) -> io::Result<()> {
        match self {
            Data::File { file, .. } => file.write_all_at(position, data),
            Data::Bundle(bundle) => bundle.write(position, data),
        }
    }
}

impl Partial {
    /// Opens the partial file `stem.part` in `folder`, or begins one. With a `list` of so many
    /// bytes it is a bundle.
    pub(super) fn open(
        folder: &Path,
        stem: &str,
        size: u64,
        hash: blake3::Hash,
        list: Option<u64>,
    ) -> io::Result<Partial> {
        let tree_path = folder.join(format!("{stem}.tree"));
        let tree = BaoTree::new(size, BLOCK);
        let data = match list {
            None => {
                let path = folder.join(format!("{stem}.part"));
                let file = private_file(&path, false)?;
                Data::File { file, path }
            }
            Some(head) => Data::Bundle(Box::new(Unpacking::open(folder, stem, size, head)?)),
        };
        let hashes = private_file(&tree_path, false)?;
        // Holes read as zeros, and zeros verify as nothing.
        hashes.set_len(tree.outboard_size())?;
        let tree = PreOrderOutboard {
            root: hash,
            tree,
            data: hashes,
        };
        let mut partial = Partial {
            data,
            tree,
            size,
            memory: None,
        };
        partial.find_list(list)?;
        Ok(partial)
    }

    /// Reads a bundle's list if all of it is there: without it nothing is known of what follows.
    fn find_list(&mut self, head: Option<u64>) -> io::Result<()> {
        let (Some(head), Data::Bundle(_)) = (head, &self.data) else {
            return Ok(());
        };
        let whole = ChunkRanges::from(ChunkNum(0)..ChunkNum::chunks(head));
        let present = self.present(&whole)?;
        match &mut self.data {
            Data::Bundle(bundle) if (&whole - &present).is_empty() => bundle.read_list(),
            _ => Ok(()),
        }
    }

    /// What of `wanted` is here, by hashing it.
    fn present(&self, wanted: &ChunkRanges) -> io::Result<ChunkRanges> {
        let mut present = ChunkRanges::empty();
        if self.data.has_begun()? {
            for range in valid_ranges(&self.tree, &self.data, wanted) {
                present |= ChunkRanges::from(range?);
            }
        }
        Ok(present)
    }

    /// How many entries a bundle has, once its list is here.
    pub(super) fn entries(&self) -> Option<u64> {
        match &self.data {
            Data::File { .. } => None,
            Data::Bundle(bundle) => bundle.list().map(|list| list.entries().into()),
        }
    }

    /// A bundle's list is shown there, and `memory` for it held as long as this lives.
    pub(super) fn with_list_in(mut self, slot: ListSlot, memory: OwnedSemaphorePermit) -> Partial {
        if let Data::Bundle(bundle) = &mut self.data {
            bundle.show_list(slot);
        }
        self.memory = Some(memory);
        self
    }

    /// What is not yet here, by hashing what is; and how many bytes are here.
    pub(super) fn missing(&self) -> io::Result<(ChunkRanges, u64)> {
        let present = self.present(&ChunkRanges::all())?;
        let whole = ChunkRanges::from(ChunkNum(0)..ChunkNum::chunks(self.size).max(ChunkNum(1)));
        let missing = simplified(&whole - &present);
        let lacking = byte_count(&missing, self.size);
        Ok((missing, self.size.saturating_sub(lacking)))
    }

    /// Takes the chunks in `ranges` from `encoded`, verifies each, writes it and counts its bytes.
    pub(super) fn decode(
        &mut self,
        ranges: &ChunkRanges,
        encoded: impl Read,
        received: &AtomicU64,
    ) -> io::Result<()> {
        let items = DecodeResponseIter::new(self.tree.root, self.tree.tree, encoded, ranges);
        for item in items {
            match item.map_err(io::Error::from)? {
                BaoContentItem::Parent(Parent { node, pair }) => self.tree.save(node, &pair)?,
                BaoContentItem::Leaf(Leaf { offset, data }) => {
                    self.data.write(offset, &data)?;
                    let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
                    received.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Writes the chunks in `ranges` as [`Source::encode`] does, if they are here and still what
    /// they were.
    pub(super) fn encode(&self, ranges: &ChunkRanges, sink: impl Write) -> io::Result<()> {
        encode_ranges_validated(&self.data, &self.tree, ranges, sink).map_err(io::Error::from)
    }

    /// Puts the complete file into `folder` under `name`, or under `name (2)` and so on if that is
    /// taken. The partial file stays beside it until [`Partial::discard`]: after a crash in
    /// between, this finds what it has put there.
    ///
    /// A bundle has names of its own. If it is more than one file or folder, the path is `folder`.
    pub(super) fn finish(&mut self, folder: &Path, name: &str) -> io::Result<PathBuf> {
        match &mut self.data {
            Data::File { file, path } => finish_file(file, self.size, path, folder, name),
            Data::Bundle(bundle) => bundle.finish(folder),
        }
    }

    /// Removes what has come so far.
    pub(super) fn discard(folder: &Path, stem: &str) {
        for extension in ["part", "tree"] {
            remove_if_there(&folder.join(format!("{stem}.{extension}")));
        }
        Unpacking::discard(folder, stem);
    }
}

fn finish_file(
    file: &File,
    size: u64,
    data_path: &Path,
    folder: &Path,
    name: &str,
) -> io::Result<PathBuf> {
    file.set_len(size)?;
    share_with_group(folder, file)?;
    file.sync_all()?;
    let own = file.metadata()?;
    for attempt in 1..1_000_u32 {
        let path = folder.join(numbered(name, attempt));
        match std::fs::hard_link(data_path, &path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = std::fs::symlink_metadata(&path)?;
                if (there.dev(), there.ino()) != (own.dev(), own.ino()) {
                    continue;
                }
            }
            // Some file systems know no hard links.
            Err(_) => match rename_new(data_path, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                renamed => renamed?,
            },
        }
        crate::home::sync_folder_of(&path)?;
        return Ok(path);
    }
    let reason = "a thousand files of this name are there";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
}

fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// A folder with the set-group-ID bit that its group may read is there for the people of that
/// group: then so is what comes into it. Elsewhere files stay the daemon's user's.
fn share_with_group(folder: &Path, file: &File) -> io::Result<()> {
    const FOR_GROUP: u32 = 0o2050;
    if std::fs::metadata(folder)?.mode() & FOR_GROUP == FOR_GROUP {
        file.set_permissions(Permissions::from_mode(0o640))?;
    }
    Ok(())
}

pub(super) fn remove_if_there(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "a file stays behind");
        }
        _ => {}
    }
}

/// Reads zeros behind the end, as a sparse file does before it.
pub(super) struct ReadHoles<'a>(pub(super) &'a File);

impl bao_tree::io::sync::ReadAt for ReadHoles<'_> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = bao_tree::io::sync::ReadAt::read_at(self.0, position, buffer)?;
        if read == 0 {
            buffer.fill(0);
            return Ok(buffer.len());
        }
        Ok(read)
    }
}

/// At most [`MISSING_RANGES`] ranges: past that, everything from the last one on counts as missing.
fn simplified(ranges: ChunkRanges) -> ChunkRanges {
    let boundaries = ranges.boundaries();
    match boundaries.get(2 * MISSING_RANGES - 2).copied() {
        Some(start) if boundaries.len() > 2 * MISSING_RANGES => ranges | ChunkRanges::from(start..),
        _ => ranges,
    }
}

/// The chunk numbers at which `ranges` begin and end, for the wire.
pub(super) fn to_wire(ranges: &ChunkRanges) -> Vec<u64> {
    ranges.boundaries().iter().map(|chunk| chunk.0).collect()
}

/// Ranges from the wire, or none if they are not in order.
pub(super) fn from_wire(boundaries: &[u64]) -> Option<ChunkRanges> {
    if !boundaries.is_sorted_by(|a, b| a < b) {
        return None;
    }
    let chunks = boundaries.iter().map(|chunk| ChunkNum(*chunk)).collect();
    ChunkRanges::new(chunks)
}

/// Bytes of a file of `size` that `ranges` cover.
pub(super) fn byte_count(ranges: &ChunkRanges, size: u64) -> u64 {
    let mut bytes = 0;
    let mut boundaries = ranges.boundaries().iter();
    while let Some(start) = boundaries.next() {
        let end = boundaries
            .next()
            .map_or(size, |end| end.to_bytes().min(size));
        bytes += end.saturating_sub(start.to_bytes());
    }
    bytes
}

pub(super) fn private_file(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(truncate)
        .mode(0o600)
        .custom_flags(crate::home::NO_LINKS)
        .open(path)
}

pub(super) fn numbered(name: &str, attempt: u32) -> String {
    if attempt == 1 {
        return name.to_owned();
    }
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => format!("{stem} ({attempt}).{extension}"),
        _ => format!("{name} ({attempt})"),
    }
}

/// The name under which a peer's file may be stored here, or none if it has none. A long one is
/// shortened before its extension.
///
/// It is hidden by no dot, is taken for no option, and shows as it is.
pub(super) fn safe_file_name(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next()?;
    let cleaned: String = last.chars().filter(|c| !is_harmful(*c)).collect();
    match cleaned.trim_start_matches(['.', '-']) {
        "" => None,
        visible => Some(shortened(visible)),
    }
}

fn shortened(name: &str) -> String {
    let cut = |text: &str, most: usize| {
        let end = (0..=most.min(text.len())).rev();
        let end = end.into_iter().find(|end| text.is_char_boundary(*end));
        text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
    };
    match name.rsplit_once('.') {
        _ if name.len() <= FILE_NAME_BYTES => name.to_owned(),
        Some((stem, extension)) if extension.len() <= FILE_EXTENSION_BYTES => {
            let room = FILE_NAME_BYTES - 1 - extension.len();
            format!("{}.{extension}", cut(stem, room))
        }
        _ => cut(name, FILE_NAME_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(size: usize) -> Vec<u8> {
        (0..size)
            .map(|i| u8::try_from((i * 31 + i / 251) % 256).unwrap())
            .collect()
    }

    fn source(folder: &Path, data: &[u8]) -> Source {
        let path = folder.join("source");
        std::fs::write(&path, data).unwrap();
        Source::open(&path, &folder.join("source.tree")).unwrap()
    }

    fn encoded(source: &Source, ranges: &ChunkRanges) -> Vec<u8> {
        let mut bytes = Vec::new();
        source.encode(ranges, &mut bytes).unwrap();
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn an_interrupted_file_arrives_whole(size in 0usize..300_000, cut in 0.0f64..1.0) {
            let folder = tempfile::tempdir().unwrap();
            let data = content(size);
            let source = source(folder.path(), &data);
            prop_assert_eq!(source.hash, blake3::hash(&data));

            let mut partial = Partial::open(folder.path(), "x", source.size, source.hash, None).unwrap();
            let (missing, present) = partial.missing().unwrap();
            prop_assert_eq!(present, 0);
            let bytes = encoded(&source, &missing);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a test's random cut")]
            let kept = (bytes.len() as f64 * cut) as usize;
            let received = AtomicU64::new(0);
            let first = partial.decode(&missing, &bytes[..kept], &received);
            prop_assert!(first.is_err() || kept == bytes.len() || size == 0);
            drop(partial);

            let mut partial = Partial::open(folder.path(), "x", source.size, source.hash, None).unwrap();
            let (missing, present) = partial.missing().unwrap();
            prop_assert_eq!(present, received.load(Ordering::Relaxed));
            let missing = from_wire(&to_wire(&missing)).unwrap();
            partial.decode(&missing, encoded(&source, &missing).as_slice(), &received).unwrap();
            let path = partial.finish(folder.path(), "arrived").unwrap();
            prop_assert_eq!(std::fs::read(path).unwrap(), data);
        }
    }

    #[test]
    fn a_changed_byte_is_refused_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let source = source(folder.path(), &content(100_000));
        let mut partial =
            Partial::open(folder.path(), "x", source.size, source.hash, None).unwrap();
        let (missing, _) = partial.missing().unwrap();
        let mut bytes = encoded(&source, &missing);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let received = AtomicU64::new(0);
        assert!(
            partial
                .decode(&missing, bytes.as_slice(), &received)
                .is_err()
        );
        let (missing, present) = partial.missing().unwrap();
        assert!(!missing.is_empty());
        assert_eq!(present, received.load(Ordering::Relaxed));
    }

    #[test]
    fn resuming_finds_damage_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let data = content(100_000);
        let source = source(folder.path(), &data);
        let mut partial =
            Partial::open(folder.path(), "x", source.size, source.hash, None).unwrap();
        let (missing, _) = partial.missing().unwrap();
        let bytes = encoded(&source, &missing);
        partial
            .decode(&missing, bytes.as_slice(), &AtomicU64::new(0))
            .unwrap();
        partial.data.write(20_000, b"damage").unwrap();
        let (missing, present) = partial.missing().unwrap();
        assert_eq!(present, 100_000 - 16_384);
        assert_eq!(byte_count(&missing, 100_000), 16_384);
    }

    #[test]
    fn a_crash_brings_no_file_twice() {
        let folder = tempfile::tempdir().unwrap();
        let data = content(100_000);
        let source = source(folder.path(), &data);
        let mut brought = Vec::new();
        for _ in 0..2 {
            let mut partial =
                Partial::open(folder.path(), "x", source.size, source.hash, None).unwrap();
            let (missing, _) = partial.missing().unwrap();
            brought.push(byte_count(&missing, source.size));
            let bytes = encoded(&source, &missing);
            partial
                .decode(&missing, bytes.as_slice(), &AtomicU64::new(0))
                .unwrap();
            let path = partial.finish(folder.path(), "f").unwrap();
            assert_eq!(path, folder.path().join("f"));
            // Here the machine stops: nothing is discarded, and it is not recorded that the file
            // is there.
        }
        assert_eq!(brought, [100_000, 0]);
        Partial::discard(folder.path(), "x");
        assert_eq!(std::fs::read(folder.path().join("f")).unwrap(), data);
        assert!(!folder.path().join("f (2)").exists());
    }

    #[test]
    fn shared_folders_files_are_for_its_group() {
        for (folder_mode, mode) in [(0o700, 0o600), (0o750, 0o600), (0o2750, 0o640)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path();
            std::fs::set_permissions(path, Permissions::from_mode(folder_mode)).unwrap();
            let mut partial = Partial::open(path, "x", 0, blake3::hash(b""), None).unwrap();
            let file = partial.finish(path, "f").unwrap();
            assert_eq!(std::fs::metadata(file).unwrap().mode() & 0o777, mode);
        }
    }

    #[test]
    fn an_existing_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), b"mine").unwrap();
        let mut partial = Partial::open(folder.path(), "x", 0, blake3::hash(b""), None).unwrap();
        let path = partial.finish(folder.path(), "a.txt").unwrap();
        assert_eq!(path, folder.path().join("a (2).txt"));
        assert_eq!(std::fs::read(folder.path().join("a.txt")).unwrap(), b"mine");
    }

    #[test]
    fn names_from_peers_stay_inside_the_folder() {
        assert_eq!(
            safe_file_name("../../etc/passwd").as_deref(),
            Some("passwd")
        );
        assert_eq!(
            safe_file_name("a\\b\u{1b}[2J.txt").as_deref(),
            Some("b[2J.txt")
        );
        assert_eq!(safe_file_name(".bashrc").as_deref(), Some("bashrc"));
        for bad in ["", "..", "a/", "/", "\u{7}", "-", "--.", "\u{202e}"] {
            assert_eq!(safe_file_name(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn peers_file_names_are_made_harmless() {
        let named = |name| safe_file_name(name).unwrap();
        assert_eq!(named("invoice\u{202e}fdp.exe"), "invoicefdp.exe");
        assert_eq!(named("\u{2066}a\u{2069}\u{200f}\u{61c}\u{2028}b"), "ab");
        assert_eq!(named("-rf"), "rf");
        assert_eq!(named("\u{202e}-.-o"), "o");
        // What is written from right to left stays as it is.
        assert_eq!(named("שלום.txt"), "שלום.txt");
    }

    #[test]
    fn overlong_names_are_shortened() {
        let folder = tempfile::tempdir().unwrap();
        let umlauts = format!("{}.txt", "ä".repeat(125));
        let bare = "x".repeat(255);
        let dotted = format!("a.{}", "y".repeat(253));
        for name in [umlauts.as_str(), &bare, &dotted] {
            let name = safe_file_name(name).unwrap();
            assert!(name.len() <= FILE_NAME_BYTES, "{name}");
            let mut partial =
                Partial::open(folder.path(), "x", 0, blake3::hash(b""), None).unwrap();
            partial.finish(folder.path(), &name).unwrap();
            std::fs::remove_file(folder.path().join("x.part")).unwrap();
            let mut again = Partial::open(folder.path(), "x", 0, blake3::hash(b""), None).unwrap();
            let path = again.finish(folder.path(), &name).unwrap();
            let path = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(path.contains(" (2)"), "{path}");
        }
        assert!(safe_file_name(&umlauts).unwrap().ends_with("ä.txt"));
    }

    #[test]
    fn ranges_out_of_order_are_refused() {
        assert!(from_wire(&[5, 3]).is_none());
        assert!(from_wire(&[5, 5]).is_none());
        assert!(from_wire(&[0, 3, 5]).is_some());
    }
}
