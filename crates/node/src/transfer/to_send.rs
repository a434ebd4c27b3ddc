//! A file that is to be sent, as the command names it or hands it over.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::service::TransferError;

/// A file that is to be sent.
#[derive(Debug)]
pub(crate) struct ToSend<'a> {
    /// Where it stands, for its sender; it gives the file's name.
    pub(crate) path: &'a Path,
    /// The file itself, opened by somebody whose rights count and not the daemon's: then nothing is
    /// opened by the path.
    pub(crate) handed: Option<File>,
}

impl<'a> ToSend<'a> {
    /// The file that the daemon itself opens at `path`.
    pub(crate) fn at(path: &'a Path) -> ToSend<'a> {
        ToSend { path, handed: None }
    }

    /// Bytes of the file. Whether it can be read is better known now than later.
    pub(super) fn readable_size(&self) -> Result<u64, TransferError> {
        let failed = |source| TransferError::File {
            path: self.path.to_owned(),
            source,
        };
        let metadata = match &self.handed {
            Some(file) => file.metadata(),
            None => fs::metadata(self.path),
        };
        let metadata = metadata.map_err(failed)?;
        // Before it is opened: opening a named pipe waits for its other end.
        if !metadata.is_file() {
            return Err(TransferError::NotAFile(self.path.to_owned()));
        }
        let first = match &self.handed {
            // One that is open for writing only, or for nothing.
            Some(file) => file.read_at(&mut [0], 0),
            None => File::open(self.path).and_then(|file| file.read_at(&mut [0], 0)),
        };
        let first = first.map_err(failed)?;
        // As those in /proc, whose content is made when it is read.
        if metadata.len() == 0 && first > 0 {
            return Err(TransferError::NoSize(self.path.to_owned()));
        }
        Ok(metadata.len())
    }
}
