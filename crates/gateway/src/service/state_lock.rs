//! A folder of state belongs to one running gateway.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::error::ServiceError;
use crate::limits::STATE_LOCK_FILE;

/// The folder is ours for as long as this lives. The kernel takes it back from a process that ends
/// in whatever way.
#[derive(Debug)]
pub(super) struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the folder; another gateway that has it keeps it.
    pub(super) fn take(folder: &Path) -> Result<StateLock, ServiceError> {
        let path = folder.join(STATE_LOCK_FILE);
        let failed = |error: std::io::Error| {
            ServiceError::failed(format_args!("{}: {error}", path.display()))
        };
        let mut options = File::options();
        let file = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(StateLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(ServiceError::failed(format_args!(
                "another gateway keeps its audit and files in {}: stop that one, or give this one a folder of its own (--state)",
                folder.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StateLock;

    #[test]
    fn a_folder_is_locked_once_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = StateLock::take(folder.path()).unwrap();
        let refused = StateLock::take(folder.path()).unwrap_err();
        for words in [folder.path().to_str().unwrap(), "--state"] {
            assert!(refused.to_string().contains(words), "{refused}");
        }
        drop(first);
        StateLock::take(folder.path()).unwrap();
    }
}
