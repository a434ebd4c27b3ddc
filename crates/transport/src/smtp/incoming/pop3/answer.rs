//! What a POP3 server answers (RFC 1939 §3, RFC 2449). Reads no socket.

use std::time::Duration;

use thiserror::Error;

use crate::limits::{POP3_ANSWER_BYTES, POP3_STATUS_BYTES};

/// What stands behind the first line of a good answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::smtp) enum Shape {
    /// Nothing.
    Line,
    /// Lines up to one with a dot alone; so many bytes of them are kept, the rest is read and
    /// dropped.
    Lines(usize),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::smtp) enum Answer {
    /// `+OK`: what stands behind it in its line, and the lines that follow.
    Good(String, Lines),
    /// `-ERR`, and why.
    Refused(String),
    /// `+`: the server waits for the next part of the command (RFC 5034).
    Continue,
}

/// The lines behind the first one, without the dots that were put before some of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::smtp) struct Lines {
    pub(in crate::smtp) bytes: Vec<u8>,
    /// Whether more was said than was to be kept.
    pub(in crate::smtp) cut: bool,
}

/// What no server may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(in crate::smtp) enum AnswerError {
    #[error("the first line of its answer has more than {POP3_STATUS_BYTES} bytes")]
    LongStatus,
    #[error("its answer begins with neither +OK nor -ERR")]
    Status,
    #[error("its answer has more than {POP3_ANSWER_BYTES} bytes")]
    Endless,
    #[error("it says something that it was not asked")]
    Unasked,
    #[error("its list has a line without a number")]
    List,
}

/// Puts an answer together from what arrives of it.
#[derive(Debug)]
pub(in crate::smtp) struct Reading {
    shape: Shape,
    /// The first line, until it is whole.
    status: Vec<u8>,
    /// What the first line said, once it is whole and lines follow.
    good: Option<String>,
    lines: Lines,
    /// The line that is being read, if it may still be the dot that ends the answer; where it is
    /// kept otherwise.
    line: Line,
    read: usize,
}

/// How much of a line was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Begins,
    Dot,
    DotReturn,
    Inside,
}

impl Reading {
    pub(in crate::smtp) fn new(shape: Shape) -> Self {
        Self {
            shape,
            status: Vec::new(),
            good: None,
            lines: Lines::default(),
            line: Line::Begins,
            read: 0,
        }
    }

    /// Takes what arrived; the answer, once it is whole.
    ///
    /// # Errors
    /// [`AnswerError`]; then nothing that arrives later makes sense.
    pub(in crate::smtp) fn feed(&mut self, bytes: &[u8]) -> Result<Option<Answer>, AnswerError> {
        self.read = self.read.saturating_add(bytes.len());
        if self.read > POP3_ANSWER_BYTES {
            return Err(AnswerError::Endless);
        }
        let mut bytes = bytes.iter();
        let answer = self.ingest(&mut bytes)?;
        // We ask one thing at a time: what comes behind an answer is none, and must not become the
        // next one (RFC 2595 §4).
        if answer.is_some() && !bytes.as_slice().is_empty() {
            return Err(AnswerError::Unasked);
        }
        Ok(answer)
    }

    fn ingest(
        &mut self,
        bytes: &mut std::slice::Iter<'_, u8>,
    ) -> Result<Option<Answer>, AnswerError> {
        while self.good.is_none() {
            let Some(byte) = bytes.next() else {
                return Ok(None);
            };
            if *byte != b'\n' {
                self.status.push(*byte);
                if self.status.len() > POP3_STATUS_BYTES {
                    return Err(AnswerError::LongStatus);
                }
                continue;
            }
            match (status(&self.status)?, self.shape) {
                (Answer::Good(text, _), Shape::Lines(_)) => self.good = Some(text),
                (answer, _) => return Ok(Some(answer)),
            }
        }
        for byte in bytes.by_ref() {
            if self.line(*byte) {
                let lines = std::mem::take(&mut self.lines);
                return Ok(self.good.take().map(|text| Answer::Good(text, lines)));
            }
        }
        Ok(None)
    }

    /// Takes a byte behind the first line. True if it was the last.
    fn line(&mut self, byte: u8) -> bool {
        self.line = match (self.line, byte) {
            (Line::Begins, b'.') => Line::Dot,
            (Line::Dot, b'\r') => Line::DotReturn,
            (Line::DotReturn, b'\n') => return true,
            // The dot was put there by the server, because the line begins with one or just so.
            (line, byte) => {
                if line == Line::DotReturn {
                    self.keep(b'\r');
                }
                self.keep(byte);
                if byte == b'\n' {
                    Line::Begins
                } else {
                    Line::Inside
                }
            }
        };
        false
    }

    fn keep(&mut self, byte: u8) {
        let Shape::Lines(limit) = self.shape else {
            return;
        };
        if self.lines.bytes.len() < limit {
            self.lines.bytes.push(byte);
        } else {
            self.lines.cut = true;
        }
    }
}

fn status(line: &[u8]) -> Result<Answer, AnswerError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (word, text) = line.split_at(line.iter().position(|b| *b == b' ').unwrap_or(line.len()));
    let text = || String::from_utf8_lossy(text.trim_ascii()).into_owned();
    match word {
        b"+OK" => Ok(Answer::Good(text(), Lines::default())),
        b"-ERR" => Ok(Answer::Refused(text())),
        b"+" => Ok(Answer::Continue),
        _ => Err(AnswerError::Status),
    }
}

/// The mails of a `UIDL`: their numbers in this session, and the names that they keep (RFC 1939
/// §7).
///
/// # Errors
/// [`AnswerError::List`] if a line is something else.
pub(in crate::smtp) fn mails(list: &[u8]) -> Result<Vec<(u32, &[u8])>, AnswerError> {
    let lines = list.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let at = line.iter().position(|b| *b == b' ');
            let (number, name) = line.split_at(at.ok_or(AnswerError::List)?);
            Ok((decimal(number).ok_or(AnswerError::List)?, name.trim_ascii()))
        })
        .collect()
}

fn decimal(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    digits.parse().ok()
}

/// The size in the answer to `LIST NUMBER`: bytes.
///
/// # Errors
/// [`AnswerError::List`] if it is none.
pub(in crate::smtp) fn size(text: &str) -> Result<usize, AnswerError> {
    let size = text.split_ascii_whitespace().nth(1);
    size.and_then(|size| size.parse().ok())
        .ok_or(AnswerError::List)
}

/// What the server says it can (RFC 2449 §6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::smtp) struct Capabilities {
    /// Whether it takes `AUTH PLAIN`.
    pub(in crate::smtp) plain: bool,
    /// The least time between two logins.
    pub(in crate::smtp) delay: Duration,
}

impl Capabilities {
    pub(in crate::smtp) fn read(lines: &[u8]) -> Self {
        let mut can = Self::default();
        for line in lines.split(|b| *b == b'\n') {
            let line = String::from_utf8_lossy(line).to_ascii_uppercase();
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("SASL") => can.plain = words.any(|word| word == "PLAIN"),
                Some("LOGIN-DELAY") => {
                    let seconds = words.next().and_then(|word| word.parse().ok());
                    can.delay = Duration::from_secs(seconds.unwrap_or(0));
                }
                _ => {}
            }
        }
        can
    }
}

/// Reads an answer, and a list in it, from anybody.
#[cfg(feature = "fuzzing")]
pub(in crate::smtp) fn read_anything(shape: Shape, piece: usize, data: &[u8]) {
    let mut reading = Reading::new(shape);
    for part in data.chunks(piece.max(1)) {
        match reading.feed(part) {
            Ok(None) => {}
            Ok(Some(Answer::Good(text, lines))) => {
                drop(mails(&lines.bytes));
                size(&text).ok();
                Capabilities::read(&lines.bytes);
                return;
            }
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINES: Shape = Shape::Lines(1000);

    fn read(shape: Shape, bytes: &[u8], piece: usize) -> Result<Option<Answer>, AnswerError> {
        let mut reading = Reading::new(shape);
        for part in bytes.chunks(piece) {
            match reading.feed(part)? {
                None => {}
                // What arrives later was not asked either.
                Some(answer) => return Ok(Some(answer)),
            }
        }
        Ok(None)
    }

    fn good(text: &str, lines: &str) -> Result<Option<Answer>, AnswerError> {
        let lines = Lines {
            bytes: lines.into(),
            cut: false,
        };
        Ok(Some(Answer::Good(text.to_owned(), lines)))
    }

    #[test]
    fn answers_come_in_any_pieces() {
        for piece in [1, 2, 5, 1000] {
            let of = |shape, bytes: &str| read(shape, bytes.as_bytes(), piece);
            assert_eq!(
                of(Shape::Line, "+OK 1 100 octets\r\n"),
                good("1 100 octets", "")
            );
            assert_eq!(of(Shape::Line, "+OK\r\n"), good("", ""));
            let refused = Ok(Some(Answer::Refused("[AUTH] no".to_owned())));
            assert_eq!(of(LINES, "-ERR [AUTH] no\r\n"), refused);
            assert_eq!(of(Shape::Line, "+ \r\n"), Ok(Some(Answer::Continue)));
            assert_eq!(of(LINES, "+OK\r\n.\r\n"), good("", ""));
            let stuffed = "+OK here\r\na\r\n..b\r\n...\r\n.c\r\n. \r\n\n.\n\r\n.\r\n";
            let bare = "a\r\n.b\r\n..\r\nc\r\n \r\n\n\n\r\n";
            assert_eq!(of(LINES, stuffed), good("here", bare));
            assert_eq!(of(LINES, "+OK\r\nsome\r\n."), Ok(None));
            assert_eq!(of(LINES, "+OK\r\nsome\n.\nmore"), Ok(None));
        }
    }

    #[test]
    fn nonsense_and_floods_are_errors() {
        let of = |shape, bytes: &str| read(shape, bytes.as_bytes(), 1000);
        for strange in [
            "\r\n",
            "+OKAY\r\n",
            "220 mail ready\r\n",
            "* OK IMAP\r\n",
            "OK\r\n",
        ] {
            assert_eq!(
                of(Shape::Line, strange),
                Err(AnswerError::Status),
                "{strange}"
            );
        }
        let unasked = Err(AnswerError::Unasked);
        assert_eq!(of(Shape::Line, "+OK\r\n+OK\r\n"), unasked);
        assert_eq!(of(LINES, "+OK\r\n.\r\nx"), unasked);
        assert_eq!(of(LINES, "-ERR\r\na\r\n.\r\n"), unasked);
        let long = "+OK ".to_owned() + &"x".repeat(POP3_STATUS_BYTES);
        assert_eq!(of(Shape::Line, &long), Err(AnswerError::LongStatus));
        let endless = "+OK\r\n".to_owned() + &"x".repeat(POP3_ANSWER_BYTES);
        assert_eq!(of(LINES, &endless), Err(AnswerError::Endless));
    }

    /// The rest is read up to the end, and dropped.
    #[test]
    fn lines_past_the_limit_are_cut() {
        let answer = format!("+OK\r\n{}\r\n.\r\n", "ab".repeat(1000));
        let Ok(Some(Answer::Good(_, lines))) = read(LINES, answer.as_bytes(), 7) else {
            panic!();
        };
        assert_eq!((lines.bytes.len(), lines.cut), (1000, true));
    }

    #[test]
    fn lists_and_capabilities_are_read() {
        let listed = mails(b"1 a\r\n22  b!~\r\n").unwrap();
        assert_eq!(listed, [(1, &b"a"[..]), (22, &b"b!~"[..])]);
        for strange in [
            "1\r\n",
            "x y\r\n",
            "-1 a\r\n",
            "5000000000 a\r\n",
            "1 a\r\nxyz\r\n",
        ] {
            assert_eq!(
                mails(strange.as_bytes()),
                Err(AnswerError::List),
                "{strange}"
            );
        }
        assert_eq!(size("3 1234"), Ok(1234));
        assert_eq!(size("3"), Err(AnswerError::List));
        let can = Capabilities::read(b"TOP\r\nSASL CRAM-MD5 plain\r\nLogin-Delay 900 USER\r\n");
        assert_eq!((can.plain, can.delay), (true, Duration::from_secs(900)));
        let can = Capabilities::read(b"SASL CRAM-MD5\r\nLOGIN-DELAY soon\r\n\xff\r\n");
        assert_eq!(can, Capabilities::default());
    }

    proptest! {
        #[test]
        fn a_mail_comes_out_as_it_went_in(
            mail in prop::collection::vec("[.a\r]{0,4}", 0..40),
            piece in 1_usize..40,
        ) {
            let whole: String = mail.iter().map(|line| format!("{line}\r\n")).collect();
            let stuffed: String = mail
                .iter()
                .map(|line| if line.starts_with('.') { format!(".{line}\r\n") } else { format!("{line}\r\n") })
                .collect();
            let answer = format!("+OK\r\n{stuffed}.\r\n");
            prop_assert_eq!(read(LINES, answer.as_bytes(), piece), good("", &whole));
            prop_assert_eq!(read(LINES, &answer.as_bytes()[..answer.len() - 1], piece), Ok(None));
        }

        #[test]
        fn random_bytes_mean_the_same_in_any_pieces(
            bytes in prop::collection::vec(prop_oneof![
                Just(b"+OK ".to_vec()),
                Just(b"-ERR".to_vec()),
                Just(b"\r\n.\r\n".to_vec()),
                Just(b"\r\n".to_vec()),
                prop::collection::vec(any::<u8>(), 0..9),
            ], 0..20),
            piece in 1_usize..9,
            limit in 0_usize..30,
        ) {
            let bytes = bytes.concat();
            let (whole, pieces) = (
                read(Shape::Lines(limit), &bytes, bytes.len().max(1)),
                read(Shape::Lines(limit), &bytes, piece),
            );
            // In pieces, what was not asked may arrive after the answer was taken.
            if whole != Err(AnswerError::Unasked) {
                prop_assert_eq!(&whole, &pieces);
            }
            if let Ok(Some(Answer::Good(_, lines))) = pieces {
                prop_assert!(lines.bytes.len() <= limit);
                drop(mails(&lines.bytes));
                Capabilities::read(&lines.bytes);
            }
        }
    }
}
