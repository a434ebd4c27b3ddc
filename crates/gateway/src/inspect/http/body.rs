//! Where the body of an HTTP message ends (RFC 9112 §6.3 and §7).

use crate::inspect::held::{Held, Reason, count, up_to};
use crate::limits::{MAX_CHUNK_LINE, MAX_HEAD_LINES};

/// The rest of a body.
#[derive(Debug)]
pub(super) enum Body {
    /// So many bytes are missing.
    Length(u64),
    Chunked(Chunks),
    /// All until the direction ends.
    Close,
}

/// A piece of a body without its framing.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    Data(&'a [u8]),
    End,
}

impl Body {
    pub(super) fn chunked() -> Self {
        Self::Chunked(Chunks::default())
    }

    /// The next piece; `None`: it needs more input.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, Reason> {
        match self {
            Self::Length(0) => Ok(Some(Piece::End)),
            Self::Chunked(chunks) => chunks.next(input),
            _ if input.is_empty() => Ok(None),
            Self::Length(left) => {
                let data = up_to(input, *left);
                *left = left.saturating_sub(count(data));
                Ok(Some(Piece::Data(data)))
            }
            Self::Close => Ok(Some(Piece::Data(std::mem::take(input)))),
        }
    }

    pub(super) fn held(&self) -> usize {
        match self {
            Self::Chunked(chunks) => chunks.held.len(),
            _ => 0,
        }
    }
}

/// Where in a chunked body we are.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    held: Held,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Size,
    Data(u64),
    /// The CRLF behind a chunk's data.
    DataEnd,
    /// Lines of the trailer so far.
    Trailer(usize),
}

impl Chunks {
    fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, Reason> {
        loop {
            if let State::Data(left) = &mut self.state {
                if input.is_empty() {
                    return Ok(None);
                }
                let data = up_to(input, *left);
                *left = left.saturating_sub(count(data));
                if *left == 0 {
                    self.state = State::DataEnd;
                }
                return Ok(Some(Piece::Data(data)));
            }
            if matches!(self.state, State::DataEnd) {
                match self.held.exactly(input, 2).as_deref() {
                    None => return Ok(None),
                    Some(b"\r\n") => self.state = State::Size,
                    Some(_) => return Err("a chunk that is longer than its size"),
                }
                continue;
            }
            let Some(line) = self.held.line(input, MAX_CHUNK_LINE)? else {
                return Ok(None);
            };
            // Recipients disagree about a bare CR or LF (RFC 9112 §2.2), which would hide content
            // from one of them.
            let line = line
                .strip_suffix(b"\r\n")
                .filter(|line| !line.contains(&b'\r'))
                .ok_or("a bare CR or LF in a chunked body")?;
            if let State::Trailer(lines) = &mut self.state {
                if line.is_empty() {
                    return Ok(Some(Piece::End));
                }
                *lines = lines.saturating_add(1);
                if *lines > MAX_HEAD_LINES || !is_field(line) {
                    return Err("a malformed trailer");
                }
                continue;
            }
            self.state = match chunk_size(line).ok_or("a malformed chunk size")? {
                0 => State::Trailer(0),
                size => State::Data(size),
            };
        }
    }
}

/// Hexadecimal digits, then nothing or extensions (RFC 9112 §7.1.1).
fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line
        .iter()
        .position(|byte| !byte.is_ascii_hexdigit())
        .unwrap_or(line.len());
    let (digits, rest) = line.split_at_checked(end)?;
    let extended = rest.trim_ascii_start().first() == Some(&b';');
    if digits.is_empty() || digits.len() > 16 || !(rest.is_empty() || extended) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A name and a colon: what else stands there may be the head of another message to somebody else.
fn is_field(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.len() < line.len() && name.iter().all(token)
}
