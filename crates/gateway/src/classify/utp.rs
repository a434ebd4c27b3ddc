//! uTP, BitTorrent's transport over UDP (BEP 29).
//!
//! One uTP header proves little. Two sides that name each other's numbers prove much: a SYN and its
//! answer, or connection ids one apart with acknowledgements that follow the other side's sequence
//! numbers.

use super::bittorrent::HANDSHAKE;
use super::message::{Finding, Memory, Message};
use super::torrents;
use crate::flow::Direction;
use crate::reader::Reader;

const STATE: u8 = 2;
const SYN: u8 = 4;
/// Extension headers of one packet; libutp sends at most two.
const MAX_EXTENSIONS: usize = 3;
/// Packets that may be under way unacknowledged.
const MAX_BEHIND: u16 = 2_048;
/// Microseconds between packets of a live flow.
const MAX_PAUSE: u32 = 30_000_000;

/// What a uTP header says.
#[derive(Clone, Copy, Debug)]
struct Header {
    kind: u8,
    id: u16,
    sent_at: u32,
    delay: u32,
    sequence: u16,
    acknowledged: u16,
}

/// What was seen of one direction.
#[derive(Clone, Copy, Debug)]
struct Side {
    id: u16,
    sequence: u16,
    sent_at: u32,
    /// Packets that fit the ones before.
    steady: u8,
    /// Packets whose acknowledgement follows the other side.
    answers: u8,
}

/// What was seen of a flow that may be uTP.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    syn: Option<(Direction, Header)>,
    sides: [Option<Side>; 2],
}

/// A datagram that may be a uTP packet.
pub(super) fn packet(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let (header, payload) = parse(message.bytes)?;
    let track = memory.utp.get_or_insert_default();
    let direction = message.direction;
    if header.kind == SYN {
        // BEP 29: nothing was received before a SYN, so it acknowledges nothing and reports no
        // delay.
        let fresh = header.acknowledged == 0 && header.delay == 0 && payload.is_empty();
        if fresh && track.syn.is_none() {
            track.syn = Some((direction, header));
        }
        return fresh.then(|| Finding::guess("a SYN"));
    }
    if let Some((opener, syn)) = track.syn {
        if opener != direction && header.id == syn.id && header.acknowledged == syn.sequence {
            return Some(Finding::likely(
                "the answer names the SYN's connection id and sequence number",
            ));
        }
        let first = header.sequence == syn.sequence.wrapping_add(1) && header.kind != STATE;
        if opener == direction && header.id == syn.id.wrapping_add(1) && first {
            return Some(Finding::likely(
                "data follows the SYN with the next connection id and sequence number",
            ));
        }
    }
    track.follow(direction, header)
}

/// The BitTorrent handshake inside a uTP packet.
pub(super) fn handshake(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (_, payload) = parse(message.bytes)?;
    payload.starts_with(HANDSHAKE).then(|| {
        let finding = Finding::certain("the peer handshake in a uTP packet");
        finding.with_infohash(torrents::of_handshake(payload))
    })
}

/// A uTP packet with data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UtpData<'a> {
    /// The connection, as its sender numbers it.
    pub(crate) connection: u16,
    /// The packet's number among those with data of its direction.
    pub(crate) number: u16,
    pub(crate) payload: &'a [u8],
}

/// What a uTP packet carries; `None`: it is none, or carries nothing.
pub(crate) fn data(bytes: &[u8]) -> Option<UtpData<'_>> {
    let (header, payload) = parse(bytes)?;
    (!payload.is_empty()).then_some(UtpData {
        connection: header.id,
        number: header.sequence,
        payload,
    })
}

impl Track {
    fn follow(&mut self, direction: Direction, header: Header) -> Option<Finding> {
        let [from_client, from_server] = &mut self.sides;
        let (mine, theirs) = match direction {
            Direction::FromClient => (from_client, &*from_server),
            Direction::FromServer => (from_server, &*from_client),
        };
        let side = mine.get_or_insert(Side {
            id: header.id,
            sequence: header.sequence,
            sent_at: header.sent_at,
            steady: 0,
            answers: 0,
        });
        // A connection keeps its ids (BEP 29), so these bytes are something else, or another
        // connection.
        if side.id != header.id {
            *mine = None;
            return None;
        }
        let pause = header.sent_at.wrapping_sub(side.sent_at);
        let step = header.sequence.wrapping_sub(side.sequence);
        if (1..MAX_PAUSE).contains(&pause) && step <= 64 {
            side.steady = side.steady.saturating_add(1);
        }
        side.sequence = header.sequence;
        side.sent_at = header.sent_at;
        let Some(theirs) = theirs else {
            return (side.steady >= 3).then(|| Finding::guess("one direction with steady numbers"));
        };
        let paired = theirs.id.abs_diff(side.id) == 1;
        if paired && theirs.sequence.wrapping_sub(header.acknowledged) <= MAX_BEHIND {
            side.answers = side.answers.saturating_add(1);
        }
        let both = side.answers >= 2 && theirs.answers >= 2;
        both.then(|| {
            Finding::likely("both directions acknowledge each other under paired connection ids")
        })
    }
}

/// BEP 29: version 1, a known type, and a chain of extensions that ends inside the packet.
fn parse(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let mut reader = Reader::new(bytes);
    let first = reader.u8()?;
    let kind = first >> 4;
    if first & 0x0f != 1 || kind > SYN {
        return None;
    }
    let mut extension = reader.u8()?;
    let id = reader.be16()?;
    let sent_at = reader.be32()?;
    let delay = reader.be32()?;
    reader.be32()?;
    let sequence = reader.be16()?;
    let acknowledged = reader.be16()?;
    for _ in 0..MAX_EXTENSIONS {
        if extension == 0 {
            break;
        }
        let next = reader.u8()?;
        let length = reader.u8()?;
        let fits = match extension {
            // Selective acknowledgement: a bit mask of whole 32-bit words.
            1 => length > 0 && length.is_multiple_of(4),
            2 => length == 8,
            3 => length == 4,
            _ => false,
        };
        if !fits {
            return None;
        }
        reader.take(length.into())?;
        extension = next;
    }
    // Only data packets carry data.
    let carries = reader.is_empty() || kind == 0;
    let header = Header {
        kind,
        id,
        sent_at,
        delay,
        sequence,
        acknowledged,
    };
    (extension == 0 && carries).then(|| (header, reader.rest()))
}
