//! eDonkey and eMule: frames over TCP, messages over UDP. The Kad network is in its own file.

use super::Confidence;
use super::message::{Finding, Memory, Message, Tally};
use crate::reader::{Reader, index};

const EDONKEY: u8 = 0xe3;
const EMULE: u8 = 0xc5;
const PACKED: u8 = 0xd4;
/// eMule refuses longer frames (`MAX_PACKET_SIZE`).
const MAX_FRAME: u32 = 2_000_000;
/// Frames looked at in one stream.
const MAX_FRAMES: usize = 16;

/// A stream of frames: protocol byte, little-endian length, opcode.
pub(super) fn tcp(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let mut frames = 0_u8;
    let mut cut = false;
    for _ in 0..MAX_FRAMES {
        if reader.is_empty() {
            break;
        }
        let Some((protocol, length, opcode)) = head(&mut reader) else {
            // A header that is not all there yet says nothing against the frames before it.
            cut = true;
            break;
        };
        if length == 0 || length > MAX_FRAME || !is_frame(protocol, opcode, length) {
            return None;
        }
        let body = reader.rest();
        let size = index(length.checked_sub(1)?);
        let greets = frames == 0 && matches!((protocol, opcode), (EDONKEY, 0x01 | 0x4c));
        let greeting = body
            .get(..size)
            .filter(|_| greets)
            .and_then(|body| hello(opcode, body));
        if greeting.is_some() {
            return greeting;
        }
        frames = frames.saturating_add(1);
        if reader.take(size).is_none() {
            cut = true;
            break;
        }
    }
    if frames == 0 || (cut && frames < 2) {
        return None;
    }
    memory.edonkey.count(message.direction);
    if memory.edonkey.both() || frames >= 4 {
        return Some(Finding::certain(format!(
            "{frames} frames with known opcodes and exact lengths"
        )));
    }
    Some(if frames >= 2 {
        Finding::likely(format!(
            "{frames} frames with known opcodes and exact lengths"
        ))
    } else {
        Finding::guess("one frame with a known opcode and exact length")
    })
}

fn head(reader: &mut Reader<'_>) -> Option<(u8, u32, u8)> {
    Some((reader.u8()?, reader.le32()?, reader.u8()?))
}

/// Hello and its answer, login to a server: user hash, id, port, and tags that end where the frame
/// does.
fn hello(opcode: u8, body: &[u8]) -> Option<Finding> {
    let mut reader = Reader::new(body);
    // A client's hello says how long the hash is; the answer and the login to a server do not.
    let to_client = opcode == 0x01 && body.first() == Some(&16);
    if to_client {
        reader.u8()?;
    }
    let hash = reader.take(16)?;
    let _id = reader.le32()?;
    let _port = reader.le16()?;
    let count = reader.le32()?;
    if count > 64 {
        return None;
    }
    for _ in 0..count {
        tag(&mut reader)?;
    }
    // A server's address follows, except in a login; some programs add bytes of their own.
    let rest = reader.rest().len();
    let ends = if opcode == 0x01 && !to_client {
        rest == 0
    } else {
        (6..=16).contains(&rest)
    };
    if !ends {
        return None;
    }
    // eMule marks its user hashes: bytes 5 and 14.
    let emule = hash.get(5) == Some(&0x0e) && hash.get(14) == Some(&0x6f);
    let name = if opcode == 0x4c {
        "hello answer"
    } else {
        "hello"
    };
    let marked = if emule { " and eMule's user hash" } else { "" };
    Some(Finding::certain(format!(
        "{name} with {count} tags{marked}"
    )))
}

/// A tag: type, name, value. The new form has the type's top bit set and a name of one byte.
fn tag(reader: &mut Reader<'_>) -> Option<()> {
    let kind = reader.u8()?;
    if kind & 0x80 != 0 {
        reader.u8()?;
    } else {
        let length = reader.le16()?;
        reader.take(length.into())?;
    }
    let size = match kind & 0x7f {
        1 => 16,
        2 => usize::from(reader.le16()?),
        3 | 4 => 4,
        5 | 9 => 1,
        8 => 2,
        11 => 8,
        // Strings of 1 to 16 bytes have their length in their type.
        short @ 0x11..=0x20 => usize::from(short.checked_sub(0x10)?),
        _ => return None,
    };
    reader.take(size).map(|_| ())
}

/// Opcodes with the lengths their frames can have (opcode included).
fn is_frame(protocol: u8, opcode: u8, length: u32) -> bool {
    match (protocol, opcode) {
        (EDONKEY, 0x01 | 0x4c) => (27..=4_096).contains(&length),
        // Client to server and back.
        (EDONKEY, 0x14 | 0x18) => length == 1,
        (EDONKEY, 0x05 | 0x15 | 0x16 | 0x19 | 0x1c | 0x23 | 0x32 | 0x33 | 0x38 | 0x41..=0x44) => {
            length >= 3
        }
        (EDONKEY, 0x34) => length == 9,
        (EDONKEY, 0x36) => length == 1,
        (EDONKEY, 0x40) => (5..=64).contains(&length),
        // Client to client.
        (EDONKEY, 0x46) => length > 25,
        (EDONKEY, 0x47) => length == 41,
        (EDONKEY, 0x48 | 0x4f | 0x51 | 0x49) => length == 17,
        (EDONKEY, 0x50) => length >= 19,
        (EDONKEY, 0x52) => length >= 19,
        (EDONKEY, 0x54) => length == 1 || length == 17,
        (EDONKEY, 0x4a | 0x55 | 0x56 | 0x57 | 0x5d) => length == 1,
        (EDONKEY, 0x58) => length >= 17,
        (EDONKEY, 0x59) => length >= 19,
        (EDONKEY, 0x4b | 0x4d | 0x4e | 0x5b | 0x5e | 0x5f | 0x60 | 0x61) => length >= 3,
        (EDONKEY, 0x5c) => length == 5,
        (EMULE, 0x01 | 0x02) => (7..=4_096).contains(&length),
        (EMULE, 0x40) => length > 25,
        (EMULE, 0x60) => length == 13,
        (EMULE, 0x61 | 0x82..=0x86 | 0x90..=0x93 | 0x97..=0x99) => length >= 5,
        (EMULE, 0x81) => length == 17,
        (EMULE, 0x87) => length == 6,
        (EMULE, 0xa1..=0xa8) => length >= 17,
        (PACKED, _) => length > 8,
        _ => false,
    }
}

/// How much the form of a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Little: a known opcode, any length. Encrypted traffic of other kinds hits this now and then.
    Open,
    /// Some: a length that the opcode prescribes.
    Fixed,
    /// Much: a length that follows from the contents.
    Derived,
}

impl Weight {
    /// The confidence that this datagram and the ones before it give together.
    pub(super) fn judge(self, seen: Tally) -> Option<Confidence> {
        Some(match (self, seen.both(), seen.total() >= 3) {
            (Self::Derived, true, _) => Confidence::Certain,
            (Self::Derived, false, _) | (Self::Fixed, true, _) | (_, true, true) => {
                Confidence::Likely
            }
            (Self::Fixed, false, _) | (Self::Open, false, true) => Confidence::Guess,
            (Self::Open, _, false) => return None,
        })
    }
}

/// Messages between a client and a server, and eMule's between clients.
pub(super) fn udp(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let [protocol @ (EDONKEY | EMULE), opcode, body @ ..] = message.bytes else {
        return None;
    };
    let weight = datagram_weight(*protocol, *opcode, body)?;
    memory.edonkey.count(message.direction);
    let confidence = weight.judge(memory.edonkey)?;
    Some(Finding::new(
        confidence,
        format!("datagram {protocol:#04x} {opcode:#04x} with a fitting length"),
    ))
}

fn datagram_weight(protocol: u8, opcode: u8, body: &[u8]) -> Option<Weight> {
    let length = body.len();
    let fixed = |fits: bool| fits.then_some(Weight::Fixed);
    let open = |fits: bool| fits.then_some(Weight::Open);
    match (protocol, opcode) {
        // Server status, source search by hashes, server description.
        (EDONKEY, 0x96) => fixed(length == 4),
        (EDONKEY, 0x97) => open((12..=64).contains(&length)),
        (EDONKEY, 0x9a) => fixed(length > 0 && length.is_multiple_of(16)),
        (EDONKEY, 0x94) => fixed(length > 0 && length.is_multiple_of(20)),
        (EDONKEY, 0x9b) => found_sources(body).then_some(Weight::Derived),
        (EDONKEY, 0xa2) => fixed(matches!(length, 0 | 4)),
        (EDONKEY, 0xa3 | 0x99) => open(length >= 8),
        (EDONKEY, 0x98 | 0x92 | 0x90) => open(length >= 4),
        // Asking again for a place in a queue, its answers, call back.
        (EMULE, 0x90) => fixed(matches!(length, 16 | 18)).or(open(length >= 20)),
        (EMULE, 0x91) => fixed(length == 2).or(open(length >= 4)),
        (EMULE, 0x92 | 0x93) => fixed(length == 0),
        (EMULE, 0x94) => open(length >= 16),
        _ => None,
    }
}

/// Hash, number of sources, six bytes each.
fn found_sources(body: &[u8]) -> bool {
    let Some((_, [count, sources @ ..])) = body.split_at_checked(16) else {
        return false;
    };
    *count > 0 && sources.len() == usize::from(*count).saturating_mul(6)
}
