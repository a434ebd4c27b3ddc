//! A named pipe into which a filter such as procmail writes whole mails (the paper, figure 4):
//!
//! ```text
//! :0:
//! * ^X-Ringway: k3
//! /run/ringway/mail
//! ```
//!
//! A mail ends where its writer closes the pipe, or before the next `From ` line (RFC 4155): when
//! the next writer is there before the last one has gone, only that line shows it. None of our
//! mails has such a line, so an empty one before it, which not every filter writes, is not asked
//! for. Mails of writers that write at once are torn; the container in them shows that.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::{Receiver, Verdict};
use crate::limits::{MAIL_BYTES, MAIL_RETRY, PIPE_TIME};

/// Reads the pipe, for as long as the transport lives.
pub(in crate::smtp) async fn run(path: PathBuf, receiver: Arc<Receiver>) {
    loop {
        match follow(&path, &receiver).await {
            Ok(()) => return,
            Err(error) => {
                receiver.failed("pipe", &error);
                tokio::time::sleep(MAIL_RETRY).await;
            }
        }
    }
}

/// Reads writer after writer. Ends when the receiver of messages is gone.
async fn follow(path: &PathBuf, receiver: &Receiver) -> io::Result<()> {
    let mut pipe = pipe::OpenOptions::new().open_receiver(path)?;
    let mut cutter = Cutter::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = if cutter.is_empty() {
            Ok(pipe.read(&mut buffer).await)
        } else {
            timeout(PIPE_TIME, pipe.read(&mut buffer)).await
        };
        let mut running = true;
        let mut take = |mail: Option<&[u8]>| match mail {
            Some(mail) => running &= receiver.take(mail) != Verdict::Stopped,
            None => receiver.too_long(),
        };
        match read {
            Ok(Ok(0)) => {
                cutter.end(&mut take);
                // Opened again before it is closed: a writer that comes in between would be turned
                // away.
                pipe = pipe::OpenOptions::new().open_receiver(path)?;
            }
            Ok(Ok(size)) => cutter.feed(buffer.get(..size).unwrap_or_default(), &mut take),
            Ok(Err(error)) => return Err(error),
            Err(_) => cutter.end(&mut take),
        }
        if !running {
            return Ok(());
        }
    }
}

/// Cuts what comes out of the pipe into mails.
#[derive(Debug, Default)]
pub(in crate::smtp) struct Cutter {
    mail: Vec<u8>,
    /// Where the line that is being read begins.
    line: usize,
    /// Whether the mail is too long; what follows of it is dropped.
    too_long: bool,
}

impl Cutter {
    fn is_empty(&self) -> bool {
        self.mail.is_empty() && !self.too_long
    }

    /// Takes bytes; hands each mail that ends in them to `each`, or `None` for one that is too
    /// long.
    pub(in crate::smtp) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Option<&[u8]>)) {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            self.mail.extend_from_slice(part);
            if !part.ends_with(b"\n") {
                self.bound();
                continue;
            }
            let line = self.mail.get(self.line..).unwrap_or_default();
            if line.starts_with(b"From ") {
                // The line itself belongs to neither mail.
                self.mail.truncate(self.line);
                self.end(&mut each);
            } else {
                self.line = self.mail.len();
                self.bound();
            }
        }
    }

    /// Of a mail that is too long only the line that is being read is kept, and no more of it than
    /// shows what it is.
    fn bound(&mut self) {
        const FROM_LINE: usize = 1024;
        self.too_long |= self.mail.len() > MAIL_BYTES;
        if self.too_long {
            self.mail.drain(..self.line.min(self.mail.len()));
            self.mail.truncate(FROM_LINE);
            self.line = 0;
        }
    }

    /// The mail ends here.
    pub(in crate::smtp) fn end(&mut self, mut each: impl FnMut(Option<&[u8]>)) {
        let ended = std::mem::take(self);
        if ended.too_long {
            each(None);
        } else if !ended.mail.trim_ascii().is_empty() {
            each(Some(&ended.mail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(bytes: &[u8], piece: usize) -> Vec<Option<String>> {
        let (mut cutter, mut mails) = (Cutter::default(), Vec::new());
        let mut each = |mail: Option<&[u8]>| {
            mails.push(mail.map(|mail| String::from_utf8_lossy(mail).into_owned()));
        };
        for part in bytes.chunks(piece) {
            cutter.feed(part, &mut each);
            assert!(cutter.mail.len() <= MAIL_BYTES + piece);
        }
        cutter.end(&mut each);
        mails
    }

    #[test]
    fn mails_end_at_from_lines() {
        let one = "A: b\n\nFrom here on\ntext\n";
        let two = "C: d\r\n\r\ntext\r\n";
        // The line in the text of `one` is taken for one.
        let text = format!("From x Mon\n{two}\nFrom y Tue\n{two}\n\nFrom z\nE: f\n");
        for piece in [1, 3, 10_000] {
            let mails = cut(text.as_bytes(), piece);
            assert_eq!(mails.len(), 3, "{mails:?}");
            assert_eq!(mails[0].as_deref(), Some(&*format!("{two}\n")));
            assert_eq!(mails[2].as_deref(), Some("E: f\n"));
            assert_eq!(cut(one.as_bytes(), piece).len(), 2);
        }
        assert!(cut(b"\n\n", 1).is_empty());
        // Not every filter writes an empty line before it.
        assert_eq!(cut(b"From x\nA: b\n\n--b--\nFrom y\nC: d\n", 4).len(), 2);
    }

    #[test]
    fn too_long_mail_drops_only_itself() {
        for line in ["x", "x\n"] {
            let long = line.repeat(MAIL_BYTES / line.len() + 10);
            let text = format!("A: b\n{long}\n\nFrom x\nC: d\n");
            let mails = cut(text.as_bytes(), 16 * 1024);
            assert_eq!(mails, [None, Some("C: d\n".to_owned())]);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "(From |[a-z]{0,3}|\n){0,60}", piece in 1_usize..20) {
            let mails = cut(text.as_bytes(), piece);
            prop_assert_eq!(&mails, &cut(text.as_bytes(), 1000));
            let kept: usize = mails.iter().flatten().map(String::len).sum();
            prop_assert!(kept <= text.len());
        }
    }
}
