//! A bundle as one file: for a daemon that may not read what is sent, or is not to.
//!
//! Somebody of the control socket's group reads by their own rights what they send. A folder's
//! descriptor would not do: what is in it the daemon would open by its own rights, which may be
//! fewer, or more.

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::path::{Path, PathBuf};

use super::manifest::{Invalid, Manifest};
use super::walk::{WalkError, Walked};

/// Why there is no such file.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// What is to be sent cannot be read.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// It has changed meanwhile.
    #[error("{} has changed while it was read: send it again", crate::text::printable(&.0.to_string_lossy(), 300))]
    Changed(PathBuf),
    /// The copy cannot be written.
    #[error("a copy of it cannot be written: {0}")]
    Io(io::Error),
}

/// What was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Bytes of the list at its beginning.
    pub head: u64,
    /// What was left out, a line for each reason.
    pub notes: Vec<String>,
}

/// Writes all that is at `paths` into `file`, as a bundle. A member's `home` among it is left out.
///
/// # Errors
/// When something cannot be read, or has changed meanwhile.
pub fn pack(paths: &[PathBuf], home: Option<&Path>, file: &mut File) -> Result<Packed, PackError> {
    let walked = Walked::new(paths, home)?;
    let copied = io::copy(&mut walked.stream(), file);
    if let Err(error) = copied {
        return Err(walked
            .changed()
            .map_or(PackError::Io(error), PackError::Changed));
    }
    file.rewind().map_err(PackError::Io)?;
    Ok(Packed {
        head: walked.list.head(),
        notes: walked.left_out.notes(),
    })
}

/// The list of a bundle that was handed over, which may be anything.
pub(crate) fn read_list(mut file: &File, head: u64) -> io::Result<Manifest> {
    let invalid = |error: Invalid| io::Error::new(io::ErrorKind::InvalidData, error);
    let size = file.metadata()?.len();
    if head > crate::limits::BUNDLE_LIST {
        return Err(invalid(Invalid::TooLarge));
    }
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(head).read_to_end(&mut bytes)?;
    Manifest::read(bytes, size).map_err(invalid)
}

impl Walked {
    /// Bytes of all of it.
    pub(crate) fn size(&self) -> u64 {
        self.list.size()
    }
}
