//! The file of events: whole lines, and no more bytes than it may have. One that was renamed or
//! removed is made again, so that tools which rotate logs need do nothing else.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::Line;

/// The open file. When it is full it becomes `FILE.1`, in place of the one that was called so.
#[derive(Debug)]
pub(super) struct EveFile {
    path: PathBuf,
    file: File,
    /// Bytes of it and of its predecessor together, at most.
    most: u64,
}

impl EveFile {
    /// Opens the file to append to it. Half a line, which a full disk may have left, is ended.
    pub(super) fn open(path: &Path, most: u64) -> io::Result<EveFile> {
        let mut file = File::options()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(EveFile {
            path: path.to_owned(),
            file,
            most,
        })
    }

    /// Appends events, all of them or none: what a failure left of them is taken back.
    pub(super) fn append(&mut self, events: &[Line]) -> io::Result<()> {
        let mut lines = Vec::new();
        for event in events {
            lines.extend_from_slice(&event.json);
            lines.push(b'\n');
        }
        if self.is_gone() {
            self.reopen()?;
        }
        let before = self.file.metadata()?.len();
        let after = before.saturating_add(u64::try_from(lines.len()).unwrap_or(u64::MAX));
        if before > 0 && after > self.most / 2 {
            self.turn_over()?;
            return self.write(0, &lines);
        }
        self.write(before, &lines)
    }

    /// Opens the file of this name again: another program has taken the open one away.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        *self = EveFile::open(&self.path, self.most)?;
        Ok(())
    }

    /// The file of this name is another one than the open one, or there is none.
    fn is_gone(&self) -> bool {
        let (named, open) = (fs::metadata(&self.path), self.file.metadata());
        match (named, open) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) != (open.dev(), open.ino()),
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            // What cannot be said of the open one is said when it is written to.
            (_, Err(_)) => false,
        }
    }

    fn write(&mut self, before: u64, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines).inspect_err(|_| {
            if let Err(error) = self.file.set_len(before) {
                tracing::warn!(%error, "half a line stays in the EVE file");
            }
        })
    }

    fn turn_over(&mut self) -> io::Result<()> {
        let mut older = self.path.clone().into_os_string();
        older.push(".1");
        fs::rename(&self.path, &older)?;
        *self = EveFile::open(&self.path, self.most)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{EveFile, Line};

    fn line(text: &str) -> Line {
        let event = serde_json::json!({"event_type": "alert", "evidence": text});
        Line {
            json: serde_json::to_vec(&event).unwrap(),
            ..Line::default()
        }
    }

    #[test]
    fn half_lines_end_and_full_files_rotate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.json");
        fs::write(&path, "{\"half").unwrap();
        let mut eve = EveFile::open(&path, 20_000).unwrap();
        for _batch in 0..200 {
            eve.append(&[line(&"x".repeat(400))]).unwrap();
        }
        let older = folder.path().join("eve.json.1");
        let sizes = [&path, &older].map(|path| fs::metadata(path).unwrap().len());
        assert!(sizes.iter().sum::<u64>() <= 20_000, "{sizes:?}");
        for line in fs::read_to_string(&path).unwrap().lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }

    #[test]
    fn renamed_and_removed_files_are_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.json");
        let away = folder.path().join("eve.json.older");
        let mut eve = EveFile::open(&path, 1 << 20).unwrap();
        eve.append(&[line("first")]).unwrap();
        fs::rename(&path, &away).unwrap();
        eve.append(&[line("second")]).unwrap();
        fs::remove_file(&path).unwrap();
        eve.append(&[line("third")]).unwrap();
        // As a tool does that makes the new file itself.
        fs::rename(&path, folder.path().join("another")).unwrap();
        fs::write(&path, "").unwrap();
        eve.append(&[line("fourth")]).unwrap();
        let has = |path: &std::path::Path, text: &str| {
            let lines = fs::read_to_string(path).unwrap();
            assert!(
                lines.contains(text) && lines.lines().count() == 1,
                "{lines}"
            );
        };
        has(&away, "first");
        has(&path, "fourth");
    }
}
