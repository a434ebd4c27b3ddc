//! What a child program says for people: on stderr and in log frames. Bounded by line and by rate.

use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::limits::{EXEC_LINE_BYTES, EXEC_LINES, EXEC_LINES_TIME};

/// Passes a child's lines on to our log.
#[derive(Debug)]
pub(super) struct Log {
    name: String,
    begun: Instant,
    lines: u32,
    dropped: u64,
}

impl Log {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            begun: Instant::now(),
            lines: 0,
            dropped: 0,
        }
    }

    /// Logs a line, unless there are too many. True if it was.
    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        if self.begun.elapsed() >= EXEC_LINES_TIME {
            if self.dropped > 0 {
                let (name, dropped) = (&self.name, self.dropped);
                tracing::info!(%name, dropped, "the child program logged more than is shown");
            }
            (self.begun, self.lines, self.dropped) = (Instant::now(), 0, 0);
        }
        if self.lines >= EXEC_LINES {
            self.dropped = self.dropped.saturating_add(1);
            return false;
        }
        self.lines = self.lines.saturating_add(1);
        let line = line.get(..EXEC_LINE_BYTES).unwrap_or(line);
        // Escaped: a terminal obeys control characters.
        let text = String::from_utf8_lossy(line);
        tracing::info!(name = %self.name, "{}", text.trim_end().escape_debug());
        true
    }
}

/// Cuts a stream into lines of which only the beginning is kept.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Hands each line that ends in `bytes` to `each`.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let room = EXEC_LINE_BYTES.saturating_sub(self.line.len());
            self.line
                .extend_from_slice(part.get(..room).unwrap_or(part));
            if part.ends_with(b"\n") {
                each(&self.line);
                self.line.clear();
            }
        }
    }
}

/// Logs what the child writes to stderr, until it closes it.
pub(super) async fn follow(mut stderr: impl AsyncRead + Unpin, name: &str) {
    let mut log = Log::new(name);
    let mut lines = Lines::default();
    let mut buffer = vec![0; 4096];
    while let Ok(size @ 1..) = stderr.read(&mut buffer).await {
        lines.feed(buffer.get(..size).unwrap_or_default(), |line| {
            log.line(line);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_counted() {
        let mut seen = Vec::new();
        let mut lines = Lines::default();
        let long = vec![b'x'; 3 * EXEC_LINE_BYTES];
        for bytes in [&b"one\ntw"[..], b"o\n", &long, &long, b"\nlast"] {
            lines.feed(bytes, |line| seen.push(line.to_vec()));
        }
        assert_eq!(seen[..2], [b"one\n".to_vec(), b"two\n".to_vec()]);
        assert_eq!((seen.len(), seen[2].len()), (3, EXEC_LINE_BYTES));
        let mut log = Log::new("x");
        let shown = (0..1000).filter(|_| log.line(b"\x1b[31m")).count();
        assert_eq!(shown, EXEC_LINES as usize);
        assert_eq!(log.dropped, 1000 - u64::from(EXEC_LINES));
    }
}
