//! Messages of netfilter's queue, as `linux/netfilter/nfnetlink_queue.h` gives them. Nothing here
//! does I/O.
//!
//! No crate speaks them in a way that a gateway can use. One hides its socket, so that a caller
//! cannot wait for a packet and a timer at once, and allocates 69 kB for each packet that waits.
//! The family of netlink crates has no queue.

use super::netlink::{self, Attributes, REQUEST, WITH_ANSWER};
use crate::reader::Reader;

/// The subsystem of the queue among netfilter's.
const QUEUE: u16 = 3 << 8;
const PACKET: u16 = QUEUE;
const VERDICT: u16 = QUEUE | 1;
const CONFIG: u16 = QUEUE | 2;

/// NF_DROP, NF_ACCEPT and NF_REPEAT of `linux/netfilter.h`.
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const REPEAT: u32 = 4;

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
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Incoming<'_>> {
    netlink::Messages::new(bytes).map(|message| {
        let packet = || packet(message.body).map(Incoming::Packet);
        match (message.answer(), message.kind) {
            (Some(code), _) => Incoming::Answer(code),
            (None, PACKET) => packet().unwrap_or(Incoming::Other),
            (None, _) => Incoming::Other,
        }
    })
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
    for (kind, value) in Attributes::new(body.get(4..)?) {
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
    }
    known.then_some(queued)
}

/// A length, two empty bytes and the address.
fn sender(value: &[u8]) -> Option<[u8; 6]> {
    let address = value.strip_prefix(&[0, 6])?.get(2..)?;
    address.first_chunk().copied()
}

/// Messages to the kernel, one after another in one buffer.
#[derive(Debug, Default)]
pub(super) struct Outgoing(netlink::Outgoing);

impl Outgoing {
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Binds the queue to this socket: whole packets, unsegmented, and what happens when it is
    /// full.
    pub(super) fn bind(&mut self, queue: u16, length: u32, fail_open: bool) {
        self.begin(CONFIG, REQUEST | WITH_ANSWER, queue);
        self.0.attribute(CONFIG_COMMAND, &[COMMAND_BIND, 0, 0, 0]);
        let mut parameters = [0, 0, 0xff, 0xff, COPY_PACKET];
        parameters[..4].copy_from_slice(&0xffff_u32.to_be_bytes());
        self.0.attribute(CONFIG_PARAMETERS, &parameters);
        self.0.attribute(CONFIG_LENGTH, &length.to_be_bytes());
        self.flags(fail_open);
        self.0.end();
    }

    /// Changes what happens when a bound queue is full.
    pub(super) fn when_full(&mut self, queue: u16, fail_open: bool) {
        self.begin(CONFIG, REQUEST, queue);
        self.flags(fail_open);
        self.0.end();
    }

    fn flags(&mut self, fail_open: bool) {
        let flags = FLAG_GSO | if fail_open { FLAG_FAIL_OPEN } else { 0 };
        self.0.attribute(CONFIG_FLAGS, &flags.to_be_bytes());
        self.0
            .attribute(CONFIG_MASK, &(FLAG_GSO | FLAG_FAIL_OPEN).to_be_bytes());
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
        self.0.attribute(VERDICT_HEADER, &header);
        if let Some(mark) = mark {
            self.0.attribute(MARK, &mark.to_be_bytes());
        }
        if let Some(bytes) = changed {
            self.0.attribute(PAYLOAD, bytes);
        }
        self.0.end();
    }

    fn begin(&mut self, kind: u16, flags: u16, queue: u16) {
        let [high, low] = queue.to_be_bytes();
        self.0.begin(kind, flags, &[0, 0, high, low]);
    }
}

#[cfg(test)]
mod tests {
    use super::{Incoming, Outgoing, Queued, messages};

    /// A packet message as the kernel writes it.
    fn packet_message(id: u32, mark: u32, payload: &[u8], about: u32) -> Vec<u8> {
        let mut out = Outgoing::default();
        out.begin(super::PACKET, 0, 7);
        out.0.attribute(
            super::PACKET_HEADER,
            &[id.to_be_bytes().as_slice(), &[8, 0, 2]].concat(),
        );
        out.0.attribute(super::MARK, &mark.to_be_bytes());
        out.0.attribute(super::ABOUT, &about.to_be_bytes());
        if id == 2 {
            let hardware = [0, 6, 0, 0, 2, 3, 4, 5, 6, 7, 0, 0];
            out.0.attribute(super::HARDWARE, &hardware);
            out.0.attribute(super::CAME_BY, &12_u32.to_be_bytes());
        }
        out.0.attribute(super::PAYLOAD, payload);
        out.0.end();
        out.bytes().to_vec()
    }

    #[test]
    fn packets_are_read_one_after_another() {
        let bytes = [
            packet_message(1, 5, b"abc", 4),
            packet_message(2, 0, b"", 6),
            packet_message(3, 0, b"", 1),
        ]
        .concat();
        let read: Vec<Incoming<'_>> = messages(&bytes).collect();
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
            assert_eq!(out.bytes()[24..28], [0, 0, 0, answer]);
        }
    }

    #[test]
    fn cut_or_wrong_messages_are_skipped() {
        let whole = packet_message(1, 5, b"abcdefgh", 0);
        for end in 0..whole.len() {
            for _any in messages(&whole[..end]) {}
            for value in [0, 1, 3, 0xff] {
                let mut broken = whole.clone();
                broken[end] = value;
                for _any in messages(&broken).take(100) {}
            }
        }
        assert_eq!(messages(&[0; 64]).take(100).count(), 0);
    }
}
