//! Forms with files (`multipart/form-data`, RFC 7578), cut at their boundaries as they come.

use super::head::Fields;
use crate::flow::Direction;
use crate::inspect::held::{Held, Reason};
use crate::inspect::names::{in_disposition, media_type};
use crate::inspect::reading::Emit;
use crate::inspect::{FileHead, Seen};
use crate::limits::MAX_HTTP_HEAD;

/// Bytes searched for a boundary at once.
const WINDOW: usize = 8_192;
/// Blanks behind a boundary (RFC 2046 §5.1.1).
const MAX_PADDING: usize = 256;

/// A form as far as it came.
#[derive(Debug)]
pub(super) struct Form {
    sender: Direction,
    /// LF, two hyphens, the boundary.
    mark: Vec<u8>,
    /// Content that may be the beginning of a boundary.
    tail: Vec<u8>,
    /// Bytes at the beginning of the tail that are a line's end and no content.
    before: usize,
    held: Held,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Before the first boundary, or in a part.
    Content {
        is_file: bool,
    },
    /// Behind a boundary: two hyphens end the form.
    Mark,
    Padding,
    Head,
    Over,
}

impl Form {
    pub(super) fn new(boundary: &str, sender: Direction) -> Self {
        Self {
            sender,
            mark: [b"\n--", boundary.as_bytes()].concat(),
            // The first boundary needs no line before it.
            tail: b"\r\n".to_vec(),
            before: 2,
            held: Held::default(),
            state: State::Content { is_file: false },
        }
    }

    pub(super) fn held(&self) -> usize {
        let tail = self.tail.capacity().saturating_add(self.held.len());
        tail.saturating_add(self.mark.capacity())
    }

    pub(super) fn handle_data(&mut self, mut input: &[u8], emit: Emit<'_>) -> Result<(), Reason> {
        loop {
            match self.state {
                State::Content { is_file } => {
                    if input.is_empty() {
                        return Ok(());
                    }
                    self.content(&mut input, is_file, emit)?;
                }
                State::Mark => match self.held.exactly(&mut input, 2).as_deref() {
                    None => return Ok(()),
                    Some(b"--") => self.state = State::Over,
                    Some(b"\r\n") => self.state = State::Head,
                    // RFC 2046 §5.1.1: blanks may follow a boundary.
                    Some(b"  " | b" \t" | b"\t " | b"\t\t") => self.state = State::Padding,
                    Some(_) => return Err("a boundary that may be another one"),
                },
                State::Padding => match self.held.line(&mut input, MAX_PADDING)? {
                    None => return Ok(()),
                    Some(line) if line.ends_with(b"\r\n") && line.trim_ascii().is_empty() => {
                        self.state = State::Head;
                    }
                    Some(_) => return Err("a boundary that may be another one"),
                },
                State::Head => match self.held.head(&mut input, MAX_HTTP_HEAD)? {
                    None => return Ok(()),
                    Some(head) => self.begin(&head, emit)?,
                },
                State::Over => return Ok(()),
            }
        }
    }

    /// Looks for the next boundary and emits what is before it.
    fn content(&mut self, input: &mut &[u8], is_file: bool, emit: Emit<'_>) -> Result<(), Reason> {
        let (part, rest) = input.split_at(input.len().min(WINDOW));
        let mut bytes = std::mem::take(&mut self.tail);
        let kept = bytes.len();
        bytes.extend_from_slice(part);
        let skip = self.before;
        let mut give = |data: &[u8]| {
            let data = data.get(skip..).unwrap_or_default();
            if is_file && !data.is_empty() {
                emit(Seen::Data(data));
            }
        };
        let Some(at) = find(&bytes, &self.mark) else {
            // A CR belongs to the boundary too.
            let keep = self.mark.len().min(bytes.len());
            let (ready, tail) = bytes.split_at(bytes.len().saturating_sub(keep));
            give(ready);
            self.before = skip.saturating_sub(ready.len());
            self.tail = tail.to_vec();
            *input = rest;
            return Ok(());
        };
        let content = bytes.get(..at).unwrap_or_default();
        let (content, is_line) = match content.split_last() {
            Some((last, before)) => (before, *last == b'\r'),
            None => (content, false),
        };
        give(content);
        if !is_line {
            return Err("a boundary behind a bare LF");
        }
        if is_file {
            emit(Seen::End);
        }
        let used = at.saturating_add(self.mark.len()).saturating_sub(kept);
        *input = input.get(used..).unwrap_or_default();
        self.state = State::Mark;
        Ok(())
    }

    /// A part begins: one that has a file name, or a type that a field of a form does not have, is
    /// a file.
    fn begin(&mut self, head: &[u8], emit: Emit<'_>) -> Result<(), Reason> {
        let fields = Fields::parse(head)?;
        let name = fields.all("content-disposition").find_map(in_disposition);
        let kind = fields.all("content-type").find_map(media_type);
        let is_file = name.is_some() || kind.as_deref().is_some_and(|kind| kind != "text/plain");
        if is_file {
            emit(Seen::Begin(FileHead {
                name,
                kind,
                size: None,
                sender: Some(self.sender),
                form: fields.form(false),
            }));
        }
        // RFC 2046 §5.1.1: a part without content may have its boundary right behind the head.
        self.tail = b"\r\n".to_vec();
        self.before = 2;
        self.state = State::Content { is_file };
        Ok(())
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    // Looking for the LF first is quick where there are few.
    let mut from = 0_usize;
    loop {
        let rest = bytes.get(from..)?;
        let at = from.saturating_add(rest.iter().position(|byte| mark.first() == Some(byte))?);
        if bytes.get(at..)?.starts_with(mark) {
            return Some(at);
        }
        from = at.saturating_add(1);
    }
}
