//! The file of events as EVE JSON: whole lines, and no more bytes than it may have.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The open file. When it is full it becomes `FILE.1`, in place of the one that was called so.
#[derive(Debug)]
pub(super) struct Eve {
    path: PathBuf,
    file: File,
    /// Bytes of it and of its predecessor together, at most.
    most: u64,
}

impl Eve {
    /// Opens the file to append to it. Half a line, which a full disk may have left, is ended.
    pub(super) fn open(path: &Path, most: u64) -> io::Result<Eve> {
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
        Ok(Eve {
            path: path.to_owned(),
            file,
            most,
        })
    }

    /// Appends events, all of them or none: what a failure left of them is taken back.
    pub(super) fn append(&mut self, events: &[impl Serialize]) -> io::Result<()> {
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
        }
        let before = self.file.metadata()?.len();
        let after = before.saturating_add(u64::try_from(lines.len()).unwrap_or(u64::MAX));
        if before > 0 && after > self.most / 2 {
            self.turn_over()?;
            return self.write(0, &lines);
        }
        self.write(before, &lines)
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
        *self = Eve::open(&self.path, self.most)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Eve;

    #[test]
    fn half_lines_end_and_full_files_rotate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.json");
        fs::write(&path, "{\"half").unwrap();
        let mut eve = Eve::open(&path, 20_000).unwrap();
        for _batch in 0..200 {
            let event = serde_json::json!({"event_type": "alert", "evidence": "x".repeat(400)});
            eve.append(&[event]).unwrap();
        }
        let older = folder.path().join("eve.json.1");
        let sizes = [&path, &older].map(|path| fs::metadata(path).unwrap().len());
        assert!(sizes.iter().sum::<u64>() <= 20_000, "{sizes:?}");
        for line in fs::read_to_string(&path).unwrap().lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}
