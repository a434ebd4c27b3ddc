//! What is sent, as the command names it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ringway_node::control::Handed;
use ringway_terminal::Failure;

use super::shown;

/// The name for standard input.
const STDIN: &str = "-";

const FILE_NAME: &str = "--name is a file's name, without folders";

/// What is sent, checked as far as this user can.
#[derive(Debug)]
pub(super) struct Content {
    /// Absolute; the last part is the name that the receiver is given.
    pub(super) paths: Vec<PathBuf>,
    /// The only file, opened.
    pub(super) file: Option<File>,
    /// Whether that comes from standard input.
    pub(super) is_stdin: bool,
}

impl Content {
    /// Opens a file, or looks at several and at folders.
    pub(super) fn open(paths: &[PathBuf], name: Option<&str>) -> Result<Content, Failure> {
        if paths.iter().any(|path| path.as_os_str() == STDIN) {
            return Content::stdin(paths, name);
        }
        let mut found = Vec::new();
        let mut file = None;
        let mut names = BTreeSet::new();
        for path in paths {
            let (absolute, metadata) = look(path)?;
            if metadata.is_file() && paths.len() == 1 {
                file = Some(File::open(path).map_err(|error| wrong(path, &error))?);
            }
            if !names.insert(absolute.file_name().map(OsStr::to_owned)) {
                let twice = "another of the same name is sent: send them one after the other";
                return Err(wrong(path, &twice));
            }
            found.push(absolute);
        }
        if name.is_some() && file.is_none() {
            return Err(Failure::usage(
                "--name is for a single file, or standard input",
            ));
        }
        if name.is_some_and(|name| name.is_empty() || name.contains('/')) {
            return Err(Failure::usage(FILE_NAME));
        }
        Ok(Content {
            paths: found,
            file,
            is_stdin: false,
        })
    }

    /// Standard input, to its end: only of what is there can it be said how far a receiver is, and
    /// only that can go on after an interruption.
    fn stdin(paths: &[PathBuf], name: Option<&str>) -> Result<Content, Failure> {
        if paths.len() > 1 {
            return Err(Failure::usage("standard input (`-`) is sent alone"));
        }
        let name = name.ok_or_else(|| {
            Failure::usage(
                "standard input has no name: give it one with --name, such as `--name report.txt`",
            )
        })?;
        if name.is_empty() || name.contains('/') {
            return Err(Failure::usage(FILE_NAME));
        }
        let mut file = unnamed()?;
        io::copy(&mut io::stdin().lock(), &mut file).map_err(|error| no_room(&error))?;
        file.rewind().map_err(|error| no_room(&error))?;
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Ok(Content {
            paths: vec![folder.join(name)],
            file: Some(file),
            is_stdin: true,
        })
    }

    /// What is handed over to the daemon behind `socket`, with what has to be said of it: nothing
    /// where the daemon is this user's own, which then can go on after a restart.
    pub(super) fn hand_over(
        self,
        socket: &Path,
        home: &Path,
    ) -> Result<(Handed, Option<File>, Vec<String>), Failure> {
        if self.is_stdin {
            return Ok((Handed::File, self.file, Vec::new()));
        }
        if is_own(socket) {
            return Ok((Handed::Nothing, None, Vec::new()));
        }
        if self.file.is_some() {
            return Ok((Handed::File, self.file, Vec::new()));
        }
        let mut file = unnamed()?;
        let packed = ringway_node::pack(&self.paths, Some(home), &mut file);
        let packed = packed.map_err(Failure::failed)?;
        let handed = Handed::Bundle { head: packed.head };
        Ok((handed, Some(file), packed.notes))
    }
}

/// Whether the daemon runs as this user: it may read what this user may.
fn is_own(socket: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    std::fs::metadata(socket).is_ok_and(|socket| socket.uid() == own)
}

/// A file that only this program has, and those that it is handed to.
fn unnamed() -> Result<File, Failure> {
    use rustix::fs::{Mode, OFlags, open, unlink};
    let folder = std::env::temp_dir();
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let opened = open(&folder, flags | OFlags::TMPFILE, mode).or_else(|_| {
        // Some file systems know no files without a name.
        let path = folder.join(format!("ringway-{}", std::process::id()));
        let opened = open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
        unlink(&path)?;
        Ok::<_, rustix::io::Errno>(opened)
    });
    opened.map(File::from).map_err(|error| no_room(&error))
}

fn no_room(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format_args!(
        "a copy in {} could not be made: {error}: name another folder with TMPDIR",
        std::env::temp_dir().display()
    ))
}

/// The absolute path of a file or folder that this user can read, and what it is. Its last part
/// stays as it is: a link is sent under its own name, with what it leads to.
fn look(path: &Path) -> Result<(PathBuf, Metadata), Failure> {
    let metadata = std::fs::metadata(path).map_err(|error| wrong(path, &error))?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(wrong(path, &"it is neither a regular file nor a folder"));
    }
    // That it can be read is better known now than later.
    if metadata.is_dir() {
        std::fs::read_dir(path).map_err(|error| wrong(path, &error))?;
    } else {
        File::open(path).map_err(|error| wrong(path, &error))?;
    }
    let absolute = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            std::fs::canonicalize(folder).map(|folder| folder.join(name))
        }
        // Such as `.` and `..`.
        _ => std::fs::canonicalize(path),
    };
    let absolute = absolute.map_err(|error| wrong(path, &error))?;
    if absolute.file_name().is_none() {
        return Err(wrong(path, &"it is the whole file system"));
    }
    Ok((absolute, metadata))
}

fn wrong(path: &Path, reason: &dyn std::fmt::Display) -> Failure {
    let path = path.to_string_lossy();
    Failure::usage(format_args!("`{}` cannot be sent: {reason}", shown(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(paths: &[PathBuf], name: Option<&str>) -> String {
        match Content::open(paths, name) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_is_there_can_be_sent() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("ab\nsent");
        let text = refused(&[absent], None);
        assert!(text.contains("ab\\nsent") && !text.contains('\n'), "{text}");
        let stdin = PathBuf::from("-");
        assert!(refused(std::slice::from_ref(&stdin), None).contains("--name"));
        assert!(refused(std::slice::from_ref(&stdin), Some("a/b")).contains("without folders"));
        assert!(refused(&[stdin, folder.path().into()], Some("x")).contains("alone"));
        assert!(refused(&[PathBuf::from("/")], None).contains("file system"));
        let twice = [folder.path().into(), folder.path().into()];
        assert!(refused(&twice, None).contains("same name"));
        assert!(refused(&[PathBuf::from("/dev/null")], None).contains("regular file"));
    }

    #[test]
    fn links_keep_their_own_names() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("target"), b"x").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("target", &link).unwrap();
        let content = Content::open(&[link], None).unwrap();
        assert!(content.paths[0].ends_with("link") && content.file.is_some());
    }
}
