//! The form that all of netlink has (`linux/netlink.h`): messages one after another, each with
//! attributes, which may have attributes of their own. Nothing here does I/O.

use crate::reader::Reader;

/// Bytes before a message's body: length, kind, flags, sequence number, port.
pub(super) const HEADER: usize = 16;
/// NLMSG_ERROR and NLMSG_DONE.
pub(super) const ERROR: u16 = 2;
pub(super) const DONE: u16 = 3;
/// NLM_F_REQUEST, NLM_F_ACK and NLM_F_DUMP.
pub(super) const REQUEST: u16 = 1;
pub(super) const WITH_ANSWER: u16 = 4;
pub(super) const DUMP: u16 = 0x300;

/// The bits of an attribute's type that are its number.
const ATTRIBUTE_TYPE: u16 = 0x3fff;
/// NLA_F_NESTED: the attribute has attributes.
const NESTED: u16 = 0x8000;

/// One message as it stands in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) body: &'a [u8],
}

impl Message<'_> {
    /// The answer to a request: 0, or the number of the error.
    pub(super) fn answer(&self) -> Option<i32> {
        let code = self.body.first_chunk::<4>().filter(|_| self.kind == ERROR);
        code.map(|code| i32::from_ne_bytes(*code).saturating_neg())
    }
}

/// The messages of one read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let (header, _) = self.rest.split_first_chunk::<HEADER>()?;
        let mut reader = Reader::new(header);
        let length = usize::try_from(u32::from_ne_bytes(reader.array()?)).ok()?;
        let kind = u16::from_ne_bytes(reader.array()?);
        let body = self.rest.get(HEADER..length)?;
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some(Message { kind, body })
    }
}

/// The attributes of a body, or of another attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Attributes<'a> {
    /// The attribute's number and what it holds.
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let mut reader = Reader::new(self.rest);
        let length = usize::from(u16::from_ne_bytes(reader.array()?));
        let kind = u16::from_ne_bytes(reader.array()?) & ATTRIBUTE_TYPE;
        let value = self.rest.get(4..length)?;
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// Netlink's alignment: four bytes.
fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

/// Messages to the kernel, one after another in one buffer.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    begun: usize,
}

impl Outgoing {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Begins a message. `family` is what each subsystem has before its attributes.
    pub(super) fn begin(&mut self, kind: u16, flags: u16, family: &[u8]) {
        self.begun = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(family);
    }

    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(value.len().saturating_add(4)).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    /// An attribute with attributes of its own, which `fill` writes.
    pub(super) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let begun = self.bytes.len();
        self.attribute(kind | NESTED, &[]);
        fill(self);
        let length = self.bytes.len().saturating_sub(begun);
        let length = u16::try_from(length).unwrap_or(u16::MAX);
        if let Some(slot) = self.bytes.get_mut(begun..begun.saturating_add(2)) {
            slot.copy_from_slice(&length.to_ne_bytes());
        }
    }

    pub(super) fn end(&mut self) {
        let length = u32::try_from(self.bytes.len().saturating_sub(self.begun)).unwrap_or(0);
        let place = self.begun..self.begun.saturating_add(4);
        if let Some(slot) = self.bytes.get_mut(place) {
            slot.copy_from_slice(&length.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Attributes, Messages, Outgoing};

    #[test]
    fn written_attributes_are_read_again() {
        let mut out = Outgoing::default();
        out.begin(7, 1, &[2, 0, 0, 0]);
        out.attribute(3, b"abcde");
        out.nest(4, |out| {
            out.attribute(1, b"x");
            out.nest(2, |out| out.attribute(9, b"yz"));
        });
        out.end();
        let messages: Vec<_> = Messages::new(out.bytes()).collect();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].kind, 7);
        let all: Vec<_> = Attributes::new(&messages[0].body[4..]).collect();
        assert_eq!(all[0], (3, b"abcde".as_slice()));
        let inner: Vec<_> = Attributes::new(all[1].1).collect();
        assert_eq!((all[1].0, inner[0]), (4, (1, b"x".as_slice())));
        let deepest: Vec<_> = Attributes::new(inner[1].1).collect();
        assert_eq!(deepest, [(9, b"yz".as_slice())]);
    }

    #[test]
    fn an_answer_is_the_error_s_number() {
        let mut bytes = vec![36, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&(-16_i32).to_ne_bytes());
        bytes.extend_from_slice(&[0; 16]);
        let first = Messages::new(&bytes).next().unwrap();
        assert_eq!(first.answer(), Some(16));
    }
}
