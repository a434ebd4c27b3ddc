//! Cuts a stream of XML into its stanzas: what stands directly inside the stream's element.
//!
//! RFC 6120 §11.1 forbids comments, processing instructions and definitions, so that tags, quotes
//! and CDATA are all there is.

use crate::inspect::held::Reason;
use crate::limits::{MAX_STANZA, MAX_XML_DEPTH};

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Stanzas {
    bytes: Vec<u8>,
    /// Elements of the stanza that are open.
    depth: usize,
    /// Where the tag began that is open.
    tag: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Text,
    Tag,
    /// In an attribute's value, which this quote ends.
    Quoted(u8),
    Cdata,
}

impl Stanzas {
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// The next whole stanza; `None`: it needs more input.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, Reason> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            let between = self.depth == 0 && matches!(self.state, State::Text);
            if between && byte.is_ascii_whitespace() {
                continue;
            }
            if between && byte != b'<' {
                return Err("text between stanzas");
            }
            if self.bytes.len() >= MAX_STANZA {
                return Err("a stanza that is too long");
            }
            self.bytes.push(byte);
            if self.handle_byte(byte)? {
                return Ok(Some(std::mem::take(&mut self.bytes)));
            }
        }
        Ok(None)
    }

    /// Whether the stanza is whole.
    fn handle_byte(&mut self, byte: u8) -> Result<bool, Reason> {
        match (self.state, byte) {
            (State::Text, b'<') => {
                self.tag = self.bytes.len().saturating_sub(1);
                self.state = State::Tag;
            }
            (State::Tag, b'>') => {
                self.state = State::Text;
                return self.handle_tag();
            }
            (State::Tag, b'"' | b'\'') => self.state = State::Quoted(byte),
            (State::Tag, b'<') => return Err("malformed XML"),
            (State::Tag, _) => {
                let tag = self.bytes.get(self.tag..).unwrap_or_default();
                if tag == b"<![CDATA[" {
                    self.state = State::Cdata;
                } else if tag.starts_with(b"<!") && !b"<![CDATA[".starts_with(tag) {
                    // RFC 6120 §11.1: no comments or DTDs. Entities of a DTD could expand without
                    // bound.
                    return Err("XML that XMPP forbids");
                }
            }
            (State::Quoted(quote), _) if byte == quote => self.state = State::Tag,
            (State::Cdata, b'>') if self.bytes.ends_with(b"]]>") => self.state = State::Text,
            _ => {}
        }
        Ok(false)
    }

    /// A tag has ended; whether its stanza is whole.
    fn handle_tag(&mut self) -> Result<bool, Reason> {
        let tag = self.bytes.get(self.tag..).unwrap_or_default();
        let inner = tag.get(1..tag.len().saturating_sub(1)).unwrap_or_default();
        let opens_stream = self.depth == 0 && is_stream(inner);
        match inner {
            [b'?', declaration @ ..] if self.depth == 0 && declaration.starts_with(b"xml") => {
                self.bytes.clear();
            }
            [b'?', ..] => return Err("XML that XMPP forbids"),
            // The stream ends, or, after logging in, begins again inside itself.
            [b'/', name @ ..] if self.depth == 0 && is_stream(name) => self.bytes.clear(),
            [b'/', ..] => {
                let open = self.depth.checked_sub(1);
                self.depth = open.ok_or("an end without its beginning")?;
                return Ok(self.depth == 0);
            }
            [.., b'/'] => return Ok(self.depth == 0),
            _ if opens_stream => self.bytes.clear(),
            _ => {
                self.depth = self.depth.saturating_add(1);
                if self.depth > MAX_XML_DEPTH {
                    return Err("XML that is too deep");
                }
            }
        }
        Ok(false)
    }
}

/// Whether a tag's name is `stream`, with or without a prefix.
fn is_stream(tag: &[u8]) -> bool {
    let name = tag
        .split(|byte| byte.is_ascii_whitespace() || *byte == b'/')
        .next();
    let name = name.unwrap_or_default();
    name == b"stream" || name.ends_with(b":stream")
}
