//! Ringway's own links: packets over UDP and in frames over TCP, its WebSockets, and what its open
//! builds show.
//!
//! Source: the crates `ringway-node` (`link::wire`) and `ringway-transport` (`link_packet`,
//! `stream`, `quic`). The handshake is Noise: who the members are is encrypted, except in builds
//! that encrypt nothing (types 17 and 18).

use data_encoding::BASE32_NOPAD;
use ringway_transport::link_packet::{
    COOKIE, COOKIE_BYTES, DATA, INITIATION, INITIATION_NOISE, OPEN, RESPONSE, RESPONSE_NOISE,
    SUBPROTOCOL,
};

use super::http::Request;
use super::http_marks;
use super::message::{Finding, Memory, Message};
use super::opening::Bytes;
use crate::flow::Direction;
use crate::reader::Reader;

const OPEN_INITIATION: u8 = INITIATION + OPEN;
const OPEN_RESPONSE: u8 = RESPONSE + OPEN;
/// Bytes of the shortest certificate: two keys, a nonce, a signature, and what holds them.
const CERTIFICATE: usize = 32 + 32 + 16 + 64;
/// Counters that a live direction may skip between two packets.
const MAX_STEP: u32 = 256;
/// Frames looked at in one stream.
const MAX_FRAMES: usize = 8;

/// What was seen of a flow that may be a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exchange {
    /// Who has begun, and its index.
    initiation: Option<(Direction, u32)>,
    /// Receiver's index, epoch, and counter of the last data, by direction.
    data: [Option<(u32, u32, u32)>; 2],
    steady: u8,
}

/// A datagram that may be a link's packet.
pub(super) fn datagram(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if message.truncated || !may_be(message.bytes) {
        return None;
    }
    let exchange = memory.ringway.get_or_insert_default();
    exchange.packet(message.bytes, message.direction)
}

/// Frames over TCP: two bytes of length, a packet.
pub(super) fn frames(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !may_be(message.bytes.get(2..)?) {
        return None;
    }
    let mut reader = Reader::new(message.bytes);
    let mut best: Option<Finding> = None;
    let exchange = memory.ringway.get_or_insert_default();
    // The stream is walked from its beginning each time it grows; what was counted before counts
    // again.
    if let Some(last) = exchange.data.get_mut(message.direction.slot()) {
        *last = None;
    }
    exchange.steady = 0;
    for _ in 0..MAX_FRAMES {
        let Some(length) = reader.be16() else { break };
        let Some(packet) = reader.take(length.into()) else {
            break;
        };
        let Some(found) = exchange.packet(packet, message.direction) else {
            continue;
        };
        if best
            .as_ref()
            .is_none_or(|best| found.confidence > best.confidence)
        {
            best = Some(found);
        }
    }
    best
}

/// A packet of a known type that is long enough to hold more than its numbers.
fn may_be(packet: &[u8]) -> bool {
    packet.len() > 13
        && matches!(
            packet.first(),
            Some(&(INITIATION | RESPONSE | DATA | COOKIE | OPEN_INITIATION | OPEN_RESPONSE))
        )
}

/// A WebSocket of the subprotocol `ringway`.
pub(super) fn web_socket(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !http_marks::of(message, &mut memory.http).ringway {
        return None;
    }
    let request = Request::parse(message.bytes)?;
    let asked = request.header("sec-websocket-protocol")? == SUBPROTOCOL;
    let upgrades = request.header("upgrade")?.eq_ignore_ascii_case("websocket");
    (asked && upgrades)
        .then(|| Finding::certain("a WebSocket of the protocol ringway").with_host(request.host()))
}

/// The first message of a handshake.
struct Initiation<'a> {
    kind: u8,
    sender: u32,
    cookie: [u8; 16],
    noise: &'a [u8],
    rest: Reader<'a>,
}

impl Exchange {
    fn packet(&mut self, bytes: &[u8], from: Direction) -> Option<Finding> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        match kind {
            INITIATION | OPEN_INITIATION => {
                let sender = reader.be32()?;
                let cookie = reader.array::<COOKIE_BYTES>()?;
                let noise = reader.take(INITIATION_NOISE)?;
                let initiation = Initiation {
                    kind,
                    sender,
                    cookie,
                    noise,
                    rest: reader,
                };
                self.initiation(from, initiation)
            }
            RESPONSE | OPEN_RESPONSE => {
                let _sender = reader.be32()?;
                let receiver = reader.be32()?;
                let noise = reader.take(RESPONSE_NOISE);
                // A refusal of the other kind of build has no more than its head.
                let long = noise.is_some() && reader.rest().len() >= CERTIFICATE;
                let open = kind == OPEN_RESPONSE;
                if !(long && self.names(from, receiver)) {
                    return None;
                }
                let member = open.then(|| member(reader)).flatten();
                Some(Finding::certain("a response to the initiation's index").with_member(member))
            }
            COOKIE => {
                let receiver = reader.be32()?;
                (bytes.len() == 37 && self.names(from, receiver))
                    .then(|| Finding::certain("a cookie for the initiation's index"))
            }
            DATA => {
                let receiver = reader.be32()?;
                let epoch = reader.be32()?;
                let counter = reader.be32()?;
                // At least one byte and its tag.
                (reader.rest().len() > 16).then_some(())?;
                self.follow(from, (receiver, epoch, counter))
            }
            _ => None,
        }
    }

    fn initiation(&mut self, from: Direction, initiation: Initiation<'_>) -> Option<Finding> {
        let Initiation {
            kind,
            sender,
            cookie,
            noise,
            rest,
        } = initiation;
        if rest.rest().len() < CERTIFICATE {
            return None;
        }
        if kind == OPEN_INITIATION {
            let zeros = noise.iter().all(|&byte| byte == 0);
            let member = member(rest).filter(|_| zeros)?;
            self.initiation = Some((from, sender));
            return Some(
                Finding::certain("an open initiation with a certificate").with_member(Some(member)),
            );
        }
        if !Bytes::of(noise).are_random() {
            return None;
        }
        self.initiation = Some((from, sender));
        // The first one has no cookie; a random one says nothing by itself.
        (cookie == [0; 16])
            .then(|| Finding::likely("an initiation: an index, no cookie, an encrypted handshake"))
    }

    /// The other side has begun with this index.
    fn names(&self, from: Direction, receiver: u32) -> bool {
        self.initiation
            .is_some_and(|(begun, index)| begun != from && index == receiver)
    }

    fn follow(&mut self, from: Direction, now: (u32, u32, u32)) -> Option<Finding> {
        let last = self.data.get_mut(from.slot())?;
        let follows = last.is_some_and(|(receiver, epoch, counter)| {
            (receiver, epoch) == (now.0, now.1)
                && (1..=MAX_STEP).contains(&now.2.wrapping_sub(counter))
        });
        *last = Some(now);
        if follows {
            self.steady = self.steady.saturating_add(1);
        }
        (self.steady >= 2)
            .then(|| Finding::likely("data of one session and epoch with rising counters"))
    }
}

/// The member that an open handshake's certificate names: newest epoch, then CBOR: `[[1, ring,
/// member, …], signature]`.
fn member(mut reader: Reader<'_>) -> Option<String> {
    reader.be32()?;
    let head = reader.array::<3>()?;
    let ring = reader.array::<2>()?;
    reader.take(32)?;
    let id = reader.array::<2>()?;
    let member = reader.take(32)?;
    let fits = head == [0x82, 0x8a, 1] && ring == [0x58, 32] && id == [0x58, 32];
    fits.then(|| BASE32_NOPAD.encode(member).to_ascii_lowercase())
}
