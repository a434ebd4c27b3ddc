//! The packets of a link, before and after encryption.
//!
//! | packet | layout (integers big-endian) |
//! |---|---|
//! | initiation | 1, sender's index u32, cookie of 16 bytes or zeros, Noise message 1 with [what the initiator shows](super::shown) |
//! | response | 2, sender's index u32, receiver's index u32, Noise message 2 with what the responder shows |
//! | data | 3, receiver's index u32, epoch u32, counter u32, ciphertext of one or more [`LinkMessage`]s, one after the other |
//! | unknown | 4, receiver's index u32: the sender knows no session with this index |
//! | cookie | 5, receiver's index u32, 16 bytes that name the initiation, cookie of 16 bytes: begin again with this |
//! | versions | 6, receiver's index u32, 16 bytes that name the initiation, oldest and newest version that the sender speaks, u8 each: the initiation was of none of them |
//! | open initiation, open response | 17 and 18, as 1 and 2, in the clear: of a build with the feature `insecure`, and taken by such only |
//!
//! This is version 3 (the handshake's prologue says so). Version 2 shows no time, and is spoken as
//! well (`version`). Version 1 had a counter of 64 bits and no epoch, and no cookies.

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use ringway_transport::link_packet;

use super::cookie::{COOKIE, Cookie};
use super::handshake;

/// Bytes of a data packet before its ciphertext.
pub(super) const DATA_HEADER: usize = 1 + 4 + 4 + 4;

/// Whether a build encrypts its links; handshakes of the two kinds have different numbers.
const OPEN: u8 = if cfg!(feature = "insecure") {
    link_packet::OPEN
} else {
    0
};
const INITIATION: u8 = link_packet::INITIATION + OPEN;
const RESPONSE: u8 = link_packet::RESPONSE + OPEN;
/// Handshakes of the other kind of build.
const FOREIGN: [u8; 2] = [
    link_packet::INITIATION + link_packet::OPEN - OPEN,
    link_packet::RESPONSE + link_packet::OPEN - OPEN,
];

/// A packet, borrowed from what arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    Initiation {
        sender: u32,
        cookie: &'a Cookie,
        noise: &'a [u8],
    },
    Response {
        sender: u32,
        receiver: u32,
        noise: &'a [u8],
    },
    Data {
        receiver: u32,
        epoch: u32,
        counter: u32,
        ciphertext: &'a [u8],
    },
    Unknown {
        receiver: u32,
    },
    Cookie {
        receiver: u32,
        initiation: &'a Cookie,
        cookie: &'a Cookie,
    },
    Versions {
        receiver: u32,
        initiation: &'a Cookie,
        oldest: u8,
        newest: u8,
    },
    /// A handshake of a build that differs in whether links are encrypted.
    Foreign(&'a [u8]),
}

/// What a peer says of its versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    /// The name of our initiation.
    pub(super) initiation: &'a Cookie,
    pub(super) oldest: u8,
    pub(super) newest: u8,
}

impl<'a> Packet<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            INITIATION => {
                let (sender, rest) = take_u32(rest)?;
                let (cookie, noise) = rest.split_first_chunk::<COOKIE>()?;
                // So short a packet is none, and would be worth no answer as long as a cookie.
                (noise.len() >= handshake::LEAST).then_some(Packet::Initiation {
                    sender,
                    cookie,
                    noise,
                })
            }
            RESPONSE => {
                let (sender, rest) = take_u32(rest)?;
                let (receiver, noise) = take_u32(rest)?;
                Some(Packet::Response {
                    sender,
                    receiver,
                    noise,
                })
            }
            link_packet::DATA => {
                let (receiver, rest) = take_u32(rest)?;
                let (epoch, rest) = take_u32(rest)?;
                let (counter, ciphertext) = take_u32(rest)?;
                Some(Packet::Data {
                    receiver,
                    epoch,
                    counter,
                    ciphertext,
                })
            }
            link_packet::UNKNOWN => {
                let (receiver, rest) = take_u32(rest)?;
                rest.is_empty().then_some(Packet::Unknown { receiver })
            }
            link_packet::COOKIE => {
                let (receiver, rest) = take_u32(rest)?;
                let (initiation, rest) = rest.split_first_chunk::<COOKIE>()?;
                let (cookie, rest) = rest.split_first_chunk::<COOKIE>()?;
                rest.is_empty().then_some(Packet::Cookie {
                    receiver,
                    initiation,
                    cookie,
                })
            }
            link_packet::VERSIONS => {
                let (receiver, rest) = take_u32(rest)?;
                let (initiation, rest) = rest.split_first_chunk::<COOKIE>()?;
                let [oldest, newest] = *rest else {
                    return None;
                };
                Some(Packet::Versions {
                    receiver,
                    initiation,
                    oldest,
                    newest,
                })
            }
            kind if FOREIGN.contains(&kind) => Some(Packet::Foreign(bytes)),
            _ => None,
        }
    }

    /// The notice to the sender of a foreign initiation that there is no link with it.
    pub(super) fn foreign_answer(bytes: &[u8]) -> Option<Vec<u8>> {
        let [initiation, _] = FOREIGN;
        let answer = || {
            let (sender, receiver, noise) = (0, 0, &[][..]);
            let response = Packet::Response {
                sender,
                receiver,
                noise,
            };
            response.encode()
        };
        let worth_it = bytes.first() == Some(&initiation) && bytes.len() > handshake::LEAST;
        worth_it.then(answer)
    }

    /// The part of a data packet before its ciphertext.
    pub(super) fn data_header(receiver: u32, epoch: u32, counter: u32) -> [u8; DATA_HEADER] {
        let mut header = [link_packet::DATA; DATA_HEADER];
        let numbers = [receiver, epoch, counter].map(u32::to_be_bytes);
        for (target, byte) in header.iter_mut().skip(1).zip(numbers.as_flattened()) {
            *target = *byte;
        }
        header
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        match *self {
            Packet::Initiation {
                sender,
                cookie,
                noise,
            } => {
                bytes.push(INITIATION);
                bytes.extend_from_slice(&sender.to_be_bytes());
                bytes.extend_from_slice(cookie);
                bytes.extend_from_slice(noise);
            }
            Packet::Response {
                sender,
                receiver,
                noise,
            } => {
                bytes.push(RESPONSE);
                bytes.extend_from_slice(&sender.to_be_bytes());
                bytes.extend_from_slice(&receiver.to_be_bytes());
                bytes.extend_from_slice(noise);
            }
            Packet::Data {
                receiver,
                epoch,
                counter,
                ciphertext,
            } => {
                bytes.extend_from_slice(&Packet::data_header(receiver, epoch, counter));
                bytes.extend_from_slice(ciphertext);
            }
            Packet::Unknown { receiver } => {
                bytes.push(link_packet::UNKNOWN);
                bytes.extend_from_slice(&receiver.to_be_bytes());
            }
            Packet::Versions {
                receiver,
                initiation,
                oldest,
                newest,
            } => {
                bytes.push(link_packet::VERSIONS);
                bytes.extend_from_slice(&receiver.to_be_bytes());
                bytes.extend_from_slice(initiation);
                bytes.extend_from_slice(&[oldest, newest]);
            }
            Packet::Cookie {
                receiver,
                initiation,
                cookie,
            } => {
                bytes.push(link_packet::COOKIE);
                bytes.extend_from_slice(&receiver.to_be_bytes());
                bytes.extend_from_slice(initiation);
                bytes.extend_from_slice(cookie);
            }
            Packet::Foreign(all) => bytes.extend_from_slice(all),
        }
        bytes
    }
}

fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (value, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*value), rest))
}

/// What members say to each other inside a session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum LinkMessage {
    /// Where the sender can be reached; the `transport` crate's encoding.
    #[n(0)]
    Hello(#[n(0)] ByteVec),
    /// A challenge to an address; likewise.
    #[n(1)]
    Ping(#[n(0)] ByteVec),
    /// Its answer; likewise.
    #[n(2)]
    Pong(#[n(0)] ByteVec),
    /// Ring maintenance and lookups; the `overlay` crate's encoding.
    #[n(3)]
    Overlay(#[n(0)] ByteVec),
    /// Asks for an [`LinkMessage::EchoReply`] with the same number.
    #[n(4)]
    Echo(#[n(0)] u64),
    /// Answers an echo.
    #[n(5)]
    EchoReply(#[n(0)] u64),
    /// A leaf asks its parent to look a key up.
    #[n(6)]
    Lookup {
        /// Chosen by the asker.
        #[n(0)]
        id: u64,
        /// What to look for.
        #[n(1)]
        target: ByteArray<32>,
    },
    /// A parent's answer.
    #[n(7)]
    LookupReply {
        /// As asked.
        #[n(0)]
        id: u64,
        /// The router responsible, or none if the lookup failed.
        #[n(1)]
        owner: Option<ByteArray<32>>,
        /// The routers asked, in order.
        #[n(2)]
        hops: Vec<ByteArray<32>>,
        /// Whether the router that looked it up verified the answer.
        #[n(3)]
        verified: bool,
    },
    /// The sender ends the session.
    #[n(8)]
    Close,
    /// Asks for a [`LinkMessage::Hello`]: the last one was lost or forgotten.
    #[n(9)]
    HelloWanted,
    /// A datagram of QUIC: streams where no UDP passes.
    #[n(10)]
    Quic(#[n(0)] ByteVec),
    /// A piece of a message that is longer than the path takes.
    #[n(11)]
    Fragment {
        /// Which message, as the sender counts them.
        #[n(0)]
        id: u32,
        /// Which piece.
        #[n(1)]
        index: u8,
        /// Of how many.
        #[n(2)]
        count: u8,
        /// The encoded message's next bytes.
        #[n(3)]
        bytes: ByteVec,
    },
    /// A message of an application.
    #[n(12)]
    Message(#[n(0)] ByteVec),
    /// Which packets have come: see [`super::flow::Report`].
    #[n(13)]
    Received {
        /// The sender's name for the session.
        #[n(0)]
        session: u32,
        /// The highest counter.
        #[n(1)]
        highest: u64,
        /// Microseconds since it came.
        #[n(2)]
        delay: u32,
        /// A bit for each counter below it, nearest first.
        #[n(3)]
        seen: ByteVec,
        /// Bytes that may be under way at once.
        #[n(4)]
        room: u32,
    },
    /// Makes a packet as long as the path is to be tried for.
    #[n(14)]
    Padding(#[n(0)] ByteVec),
    /// Asks a router to pass a packet on.
    #[n(20)]
    Relay {
        /// To whom.
        #[n(0)]
        to: ByteArray<32>,
        /// The packet, sealed for its receiver.
        #[n(1)]
        packet: ByteVec,
    },
    /// A packet that a router passes on.
    #[n(21)]
    Relayed {
        /// Who has given it to the router.
        #[n(0)]
        from: ByteArray<32>,
        /// The packet.
        #[n(1)]
        packet: ByteVec,
    },
    /// A leaf asks its parent to make its HELLO findable. Answered by [`LinkMessage::Observed`].
    #[n(22)]
    Register {
        /// As in [`LinkMessage::Hello`].
        #[n(0)]
        hello: ByteVec,
    },
    /// A router asks the one that is responsible to keep a leaf's HELLO for a while.
    #[n(23)]
    Keep {
        /// As the leaf has signed it, with receipts: a [`ringway_transport::Referral`].
        #[n(0)]
        referral: ByteVec,
        /// How many successors are to keep it as well.
        #[n(1)]
        copies: u8,
    },
    /// Asks the router that is responsible for a leaf's HELLO.
    #[n(24)]
    FindLeaf {
        /// Chosen by the asker.
        #[n(0)]
        id: u64,
        /// The leaf.
        #[n(1)]
        member: ByteArray<32>,
    },
    /// Its answer.
    #[n(25)]
    LeafFound {
        /// As asked.
        #[n(0)]
        id: u64,
        /// The newest HELLO kept, with receipts, or none.
        #[n(1)]
        referral: Option<ByteVec>,
    },
    /// A parent reports to its leaf from which address it receives it, and whether it passes
    /// packets on.
    #[n(26)]
    Observed {
        /// Such as `udp://192.0.2.1:7000`; none if it is no UDP socket.
        #[n(0)]
        address: Option<String>,
        /// Whether it does.
        #[n(1)]
        relays: bool,
    },
    /// A leaf asks its parent to put a record. Answered by [`LinkMessage::RecordReply`].
    #[n(27)]
    PutRecord {
        /// Chosen by the asker.
        #[n(0)]
        id: u64,
        /// The `overlay` crate's encoding.
        #[n(1)]
        record: ByteVec,
    },
    /// A leaf asks its parent to get a record. Answered likewise.
    #[n(28)]
    GetRecord {
        /// Chosen by the asker.
        #[n(0)]
        id: u64,
        /// Where on the ring.
        #[n(1)]
        point: ByteArray<32>,
    },
    /// What the ring's owner states, from a router to its leaves.
    #[n(30)]
    Statement(#[n(0)] ByteVec),
    /// How that ended: as the router that did it knows it.
    #[n(29)]
    RecordReply {
        /// As asked.
        #[n(0)]
        id: u64,
        /// Routers that have the record that was put.
        #[n(1)]
        copies: u32,
        /// Routers that answered.
        #[n(2)]
        answers: u32,
        /// Routers around the record's point; 0 if they could not be found.
        #[n(3)]
        group: u32,
        /// Whether they are known for sure.
        #[n(4)]
        verified: bool,
        /// The newest record, of a get.
        #[n(5)]
        record: Option<ByteVec>,
    },
    /// The sender's release, such as `0.3.0`, for `ringway members`. Only over links of the newest
    /// version: builds before it would drop what follows in the packet.
    #[n(31)]
    Release(#[n(0)] String),
    /// A frame of messages that are stored until they are signed for; the encoding of `message`.
    /// Only over links of the newest version, likewise.
    #[n(32)]
    Stored(#[n(0)] ByteVec),
}

impl LinkMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        crate::cbor::encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<LinkMessage> {
        minicbor::decode(bytes).ok()
    }

    /// The messages of a packet, in order. The first that makes no sense ends them, as `None`.
    pub(super) fn decode_all(plain: &[u8]) -> impl Iterator<Item = Option<LinkMessage>> {
        let mut decoder = minicbor::Decoder::new(plain);
        std::iter::from_fn(move || {
            let left = plain.len().saturating_sub(decoder.position());
            (left > 0).then(|| {
                let message = decoder.decode().ok();
                if message.is_none() {
                    decoder.set_position(plain.len());
                }
                message
            })
        })
    }

    /// True for what leaves only as fast as the path and the receiver take it, and is reported.
    pub(super) fn is_paced(&self) -> bool {
        matches!(self, LinkMessage::Message(_) | LinkMessage::Stored(_))
    }

    /// True for what should arrive: it is worth finding out whether its path works.
    pub(super) fn needs_live_path(&self) -> bool {
        !matches!(
            self,
            LinkMessage::Echo(_)
                | LinkMessage::EchoReply(_)
                | LinkMessage::Ping(_)
                | LinkMessage::Pong(_)
                | LinkMessage::Close
                | LinkMessage::Received { .. }
                | LinkMessage::Padding(_)
                | LinkMessage::Release(_)
        )
    }

    /// True for what a member wants done, false for what only keeps a link going.
    pub(super) fn is_application(&self) -> bool {
        matches!(
            self,
            LinkMessage::Overlay(_)
                | LinkMessage::Lookup { .. }
                | LinkMessage::LookupReply { .. }
                | LinkMessage::Quic(_)
                | LinkMessage::Message(_)
                | LinkMessage::Stored(_)
                | LinkMessage::Relay { .. }
                | LinkMessage::Relayed { .. }
                | LinkMessage::FindLeaf { .. }
                | LinkMessage::LeafFound { .. }
                | LinkMessage::PutRecord { .. }
                | LinkMessage::GetRecord { .. }
                | LinkMessage::RecordReply { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_survive_a_round_trip(sender: u32, receiver: u32, counter: u32, cookie: Cookie, bytes in proptest::collection::vec(any::<u8>(), 96..200)) {
            for packet in [
                Packet::Initiation { sender, cookie: &cookie, noise: &bytes },
                Packet::Response { sender, receiver, noise: &bytes },
                Packet::Data { receiver, epoch: sender, counter, ciphertext: &bytes },
                Packet::Unknown { receiver },
                Packet::Cookie { receiver, initiation: &cookie, cookie: &cookie },
                Packet::Versions { receiver, initiation: &cookie, oldest: 1, newest: 9 },
            ] {
                let encoded = packet.encode();
                prop_assert_eq!(Packet::parse(&encoded), Some(packet));
            }
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(packet) = Packet::parse(&bytes) {
                prop_assert_eq!(packet.encode(), bytes.clone());
            }
            let _ignored = LinkMessage::decode(&bytes);
        }

        #[test]
        fn messages_survive_a_round_trip(id: u64, target: [u8; 32], count in 0usize..20) {
            let hops = vec![ByteArray::from(target); count];
            for message in [
                LinkMessage::Lookup { id, target: target.into() },
                LinkMessage::LookupReply { id, owner: Some(target.into()), hops, verified: true },
                LinkMessage::Overlay(target.to_vec().into()),
                LinkMessage::Echo(id),
                LinkMessage::Relay { to: target.into(), packet: target.to_vec().into() },
                LinkMessage::Relayed { from: target.into(), packet: target.to_vec().into() },
                LinkMessage::Register { hello: target.to_vec().into() },
                LinkMessage::Keep { referral: target.to_vec().into(), copies: 1 },
                LinkMessage::FindLeaf { id, member: target.into() },
                LinkMessage::LeafFound { id, referral: Some(target.to_vec().into()) },
                LinkMessage::Observed { address: Some("udp://192.0.2.1:7000".to_owned()), relays: true },
                LinkMessage::Statement(target.to_vec().into()),
                LinkMessage::PutRecord { id, record: target.to_vec().into() },
                LinkMessage::GetRecord { id, point: target.into() },
                LinkMessage::RecordReply { id, copies: 5, answers: 6, group: 9, verified: true, record: Some(target.to_vec().into()) },
                LinkMessage::Stored(target.to_vec().into()),
                LinkMessage::Close,
                LinkMessage::Received { session: 7, highest: id, delay: 8, seen: target.to_vec().into(), room: 9 },
            ] {
                prop_assert_eq!(LinkMessage::decode(&message.encode()), Some(message));
            }
        }

        #[test]
        fn messages_that_share_a_packet_come_apart_again(numbers in proptest::collection::vec(any::<u64>(), 0..50), torn: bool) {
            let messages: Vec<LinkMessage> = numbers.into_iter().map(LinkMessage::Echo).collect();
            let mut plain: Vec<u8> = messages.iter().flat_map(LinkMessage::encode).collect();
            if torn {
                plain.push(0xff);
            }
            let mut decoded: Vec<Option<LinkMessage>> = LinkMessage::decode_all(&plain).collect();
            if torn {
                prop_assert_eq!(decoded.pop(), Some(None));
            }
            prop_assert_eq!(decoded, messages.into_iter().map(Some).collect::<Vec<_>>());
        }
    }
}
