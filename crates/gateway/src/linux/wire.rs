//! Messages of netfilter's queue, as `linux/netfilter/nfnetlink_queue.h` gives them. Nothing here
//! does I/O.
//!
//! No crate speaks them in a way that a gateway can use. One hides its socket, so that a caller
//! cannot wait for a packet and a timer at once, and allocates 69 kB for each packet that waits.
//! The family of netlink crates has no queue.

use crate::reader::Reader;

const HEADER: usize = 16;
/// The subsystem of the queue among netfilter's.
const QUEUE: u16 = 3 << 8;
const PACKET: u16 = QUEUE;
const VERDICT: u16 = QUEUE | 1;
const CONFIG: u16 = QUEUE | 2;
/// NLMSG_ERROR of `linux/netlink.h`.
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const REQUEST_WITH_ANSWER: u16 = 1 | 4;

/// NF_DROP, NF_ACCEPT and NF_REPEAT of `linux/netfilter.h`.
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const REPEAT: u32 = 4;

const ATTRIBUTE_TYPE: u16 = 0x3fff;
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const MARK: u16 = 3;
const CAME_BY: u16 = 5;
const HARDWARE: u16 = 9;
const PAYLOAD: u16 = 10;
const WHOLE_LENGTH: u16 = 13;
const ABOUT: u16 = 14;
/// NFQA_SKB_GSO and NFQA_SKB_CSUM_NOTVERIFIED.
const JOINED: u32 = 2;
const NOT_VERIFIED: u32 = 4;

const CONFIG_COMMAND: u16 = 1;
const CONFIG_PARAMETERS: u16 = 2;
const CONFIG_LENGTH: u16 = 3;
const CONFIG_MASK: u16 = 4;
const CONFIG_FLAGS: u16 = 5;
const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const FLAG_FAIL_OPEN: u32 = 1;
const FLAG_GSO: u32 = 4;

/// What a netlink message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming<'a> {
    /// A packet waits for its verdict.
    Packet(Queued<'a>),
    /// The answer to a request: 0, or the number of the error.
    Answer(i32),
    /// Nothing that we know.
    Other,
}

/// A packet that waits in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued<'a> {
    /// Its number, by which the verdict names it.
    pub id: u32,
    /// Its mark.
    pub mark: u32,
    /// Its bytes from the IP header on, as far as they were copied.
    pub bytes: &'a [u8],
    /// Fewer bytes were copied than it has.
    pub cut: bool,
    /// Who sent it last, where it came by Ethernet.
    pub sender: Option<[u8; 6]>,
    /// The number of the interface that it came by: of a bridge, not of its port. 0: it is not
    /// known.
    pub came_by: u32,
    /// Its checksums are complete, but not verified.
    pub unverified: bool,
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
    type Item = Incoming<'a>;

    fn next(&mut self) -> Option<Incoming<'a>> {
        let (header, _) = self.rest.split_first_chunk::<HEADER>()?;
        let mut reader = Reader::new(header);
        let length = usize::try_from(u32::from_ne_bytes(reader.array()?)).ok()?;
        let kind = u16::from_ne_bytes(reader.array()?);
        let body = self.rest.get(HEADER..length)?;
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some(match kind {
            ERROR => body.first_chunk::<4>().map_or(Incoming::Other, |code| {
                Incoming::Answer(i32::from_ne_bytes(*code).saturating_neg())
            }),
            PACKET => packet(body).map_or(Incoming::Other, Incoming::Packet),
            _ => Incoming::Other,
        })
    }
}

fn packet(body: &[u8]) -> Option<Queued<'_>> {
    let mut queued = Queued {
        id: 0,
        mark: 0,
        bytes: &[],
        cut: false,
        sender: None,
        came_by: 0,
        unverified: false,
    };
    let mut known = false;
    // Four bytes say the family, the version and the queue.
    let mut rest = body.get(4..)?;
    while let Some((kind, value, after)) = attribute(rest) {
        match kind {
            PACKET_HEADER => {
                queued.id = Reader::new(value).be32()?;
                known = true;
            }
            MARK => queued.mark = Reader::new(value).be32()?,
            CAME_BY => queued.came_by = Reader::new(value).be32()?,
            HARDWARE => queued.sender = sender(value),
            PAYLOAD => queued.bytes = value,
            WHOLE_LENGTH => queued.cut = true,
            // Of what was joined, the parts were verified, or the whole will be.
            ABOUT => {
                queued.unverified =
                    Reader::new(value).be32()? & (JOINED | NOT_VERIFIED) == NOT_VERIFIED
            }
            _ => {}
        }
        rest = after;
    }
    known.then_some(queued)
}

/// A length, two empty bytes and the address.
fn sender(value: &[u8]) -> Option<[u8; 6]> {
    let address = value.strip_prefix(&[0, 6])?.get(2..)?;
    address.first_chunk().copied()
}

fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let mut reader = Reader::new(bytes);
    let length = usize::from(u16::from_ne_bytes(reader.array()?));
    let kind = u16::from_ne_bytes(reader.array()?) & ATTRIBUTE_TYPE;
    let value = bytes.get(4..length)?;
    Some((
        kind,
        value,
        bytes.get(aligned(length)..).unwrap_or_default(),
    ))
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

    /// Binds the queue to this socket: whole packets, unsegmented, and what happens when it is
    /// full.
    pub(super) fn bind(&mut self, queue: u16, length: u32, fail_open: bool) {
        self.begin(CONFIG, REQUEST_WITH_ANSWER, queue);
        self.attribute(CONFIG_COMMAND, &[COMMAND_BIND, 0, 0, 0]);
        let mut parameters = [0, 0, 0xff, 0xff, COPY_PACKET];
        parameters[..4].copy_from_slice(&0xffff_u32.to_be_bytes());
        self.attribute(CONFIG_PARAMETERS, &parameters);
        self.attribute(CONFIG_LENGTH, &length.to_be_bytes());
        self.flags(fail_open);
        self.end();
    }

    /// Changes what happens when a bound queue is full.
    pub(super) fn when_full(&mut self, queue: u16, fail_open: bool) {
        self.begin(CONFIG, REQUEST, queue);
        self.flags(fail_open);
        self.end();
    }

    fn flags(&mut self, fail_open: bool) {
        let flags = FLAG_GSO | if fail_open { FLAG_FAIL_OPEN } else { 0 };
        self.attribute(CONFIG_FLAGS, &flags.to_be_bytes());
        self.attribute(CONFIG_MASK, &(FLAG_GSO | FLAG_FAIL_OPEN).to_be_bytes());
    }

    /// A verdict; bytes from the IP header on if the packet is to be changed. One that is to have
    /// another mark, and goes on, goes through the rules once more that have queued it: there
    /// they see the mark.
    pub(super) fn verdict(
        &mut self,
        queue: u16,
        id: u32,
        accept: bool,
        mark: Option<u32>,
        changed: Option<&[u8]>,
    ) {
        self.begin(VERDICT, REQUEST, queue);
        let mut header = [0; 8];
        let answer = match (accept, mark) {
            (false, _) => DROP,
            (true, None) => ACCEPT,
            (true, Some(_)) => REPEAT,
        };
        header[..4].copy_from_slice(&answer.to_be_bytes());
        header[4..].copy_from_slice(&id.to_be_bytes());
        self.attribute(VERDICT_HEADER, &header);
        if let Some(mark) = mark {
            self.attribute(MARK, &mark.to_be_bytes());
        }
        if let Some(bytes) = changed {
            self.attribute(PAYLOAD, bytes);
        }
        self.end();
    }

    fn begin(&mut self, kind: u16, flags: u16, queue: u16) {
        self.begun = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&queue.to_be_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(value.len().saturating_add(4)).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    fn end(&mut self) {
        let length = u32::try_from(self.bytes.len().saturating_sub(self.begun)).unwrap_or(0);
        let place = self.begun..self.begun.saturating_add(4);
        if let Some(slot) = self.bytes.get_mut(place) {
            slot.copy_from_slice(&length.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Incoming, Messages, Outgoing, Queued};

    /// A packet message as the kernel writes it.
    fn packet_message(id: u32, mark: u32, payload: &[u8], about: u32) -> Vec<u8> {
        let mut out = Outgoing::default();
        out.begin(super::PACKET, 0, 7);
        out.attribute(
            super::PACKET_HEADER,
            &[id.to_be_bytes().as_slice(), &[8, 0, 2]].concat(),
        );
        out.attribute(super::MARK, &mark.to_be_bytes());
        out.attribute(super::ABOUT, &about.to_be_bytes());
        if id == 2 {
            let hardware = [0, 6, 0, 0, 2, 3, 4, 5, 6, 7, 0, 0];
            out.attribute(super::HARDWARE, &hardware);
            out.attribute(super::CAME_BY, &12_u32.to_be_bytes());
        }
        out.attribute(super::PAYLOAD, payload);
        out.end();
        out.bytes
    }

    #[test]
    fn packets_are_read_one_after_another() {
        let bytes = [
            packet_message(1, 5, b"abc", 4),
            packet_message(2, 0, b"", 6),
            packet_message(3, 0, b"", 1),
        ]
        .concat();
        let read: Vec<Incoming<'_>> = Messages::new(&bytes).collect();
        let queued = |id, mark, bytes| {
            Incoming::Packet(Queued {
                id,
                mark,
                bytes,
                cut: false,
                sender: (id == 2).then_some([2, 3, 4, 5, 6, 7]),
                came_by: if id == 2 { 12 } else { 0 },
                unverified: id == 1,
            })
        };
        let rest = [queued(2, 0, b"".as_slice()), queued(3, 0, b"")];
        assert_eq!(read[0], queued(1, 5, b"abc"));
        assert_eq!(read[1..], rest);
    }

    #[test]
    fn marked_packets_pass_the_rules_again() {
        for (accept, mark, answer) in [
            (true, None, 1),
            (true, Some(9), 4),
            (false, None, 0),
            (false, Some(9), 0),
        ] {
            let mut out = Outgoing::default();
            out.verdict(7, 3, accept, mark, None);
            assert_eq!(out.bytes[24..28], [0, 0, 0, answer]);
        }
    }

    #[test]
    fn cut_or_wrong_messages_are_skipped() {
        let whole = packet_message(1, 5, b"abcdefgh", 0);
        for end in 0..whole.len() {
            for _any in Messages::new(&whole[..end]) {}
            for value in [0, 1, 3, 0xff] {
                let mut broken = whole.clone();
                broken[end] = value;
                for _any in Messages::new(&broken).take(100) {}
            }
        }
        assert_eq!(Messages::new(&[0; 64]).take(100).count(), 0);
    }

    #[test]
    fn errors_are_told_by_their_number() {
        let mut bytes = vec![36, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&(-16_i32).to_ne_bytes());
        bytes.extend_from_slice(&[0; 16]);
        assert_eq!(Messages::new(&bytes).next(), Some(Incoming::Answer(16)));
    }
}
