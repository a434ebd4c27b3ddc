//! What a program sends, as far as it can be looked at here.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::connection::ClientError;
use crate::send_all::SendPath;

/// The paths as the daemon wants them, and the file if there is only one, opened by this user's
/// rights.
pub(crate) fn look(paths: &[&Path]) -> Result<(Vec<SendPath>, Option<File>), ClientError> {
    let mut found = Vec::new();
    let mut only = None;
    for path in paths {
        let (absolute, file) = opened(path).map_err(|source| ClientError::File {
            path: (*path).to_owned(),
            source,
        })?;
        found.push(SendPath(absolute));
        only = file;
    }
    Ok((found, only.filter(|_| paths.len() == 1)))
}

/// A file is opened, of a folder the path is enough. `.` and `..` have no name of their own.
fn opened(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let absolute = match path.file_name() {
        Some(_) => std::path::absolute(path)?,
        None => std::fs::canonicalize(path)?,
    };
    if std::fs::metadata(&absolute)?.is_dir() {
        return Ok((absolute, None));
    }
    let file = File::open(&absolute)?;
    Ok((absolute, Some(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_file_is_opened() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = folder.join("Cargo.toml");
        let (paths, opened) = look(&[&file]).unwrap();
        assert_eq!(paths, [SendPath(file.clone())]);
        assert!(opened.is_some());
        assert!(look(&[folder]).unwrap().1.is_none());
        assert!(look(&[&file, folder]).unwrap().1.is_none());
        let (paths, _) = look(&[Path::new("..")]).unwrap();
        assert!(paths[0].0.file_name().is_some());
        let absent = look(&[Path::new("/absent")]).unwrap_err();
        assert!(absent.to_string().starts_with("/absent: "), "{absent}");
    }
}
