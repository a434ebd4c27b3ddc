//! RTP and RTCP (RFC 3550): sound and pictures, also where they are encrypted (RFC 3711), which
//! leaves their heads readable.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Packets that may be lost between two.
const MOST_LOST: u64 = 16;
/// Packets that have to follow each other.
const ENOUGH: u8 = 3;
/// RTCP's sender's and receiver's report, and the last kind that is assigned.
const SENDER: u8 = 200;
const RECEIVER: u8 = 201;
const LAST: u8 = 207;

/// Packets of one source and kind, numbered on.
pub(super) fn packet(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let first = reader.u8()?;
    let kind = reader.u8()? & 0x7f;
    let number = reader.be16()?;
    let _time = reader.be32()?;
    let source = reader.be32()?;
    reader.take(usize::from(first & 0x0f).checked_mul(4)?)?;
    if first & 0x10 != 0 {
        // An extension: what it is, and its length in words.
        reader.be16()?;
        let words = usize::from(reader.be16()?);
        reader.take(words.checked_mul(4)?)?;
    }
    // Kinds from 35 to 95 are not assigned: RTCP's fall into them.
    if first >> 6 != 2 || (35..96).contains(&kind) || source == 0 || reader.is_empty() {
        return None;
    }
    let key = u64::from(source) << 8 | u64::from(kind);
    let steps = memory
        .numbers()
        .count("rtp", message.direction, key, number.into(), MOST_LOST);
    (steps >= ENOUGH).then(|| Finding::likely("packets of one source and kind, numbered on"))
}

/// Reports with what describes their source, packets whose lengths fill the datagram.
pub(super) fn control(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let mut kinds = Vec::new();
    while !reader.is_empty() {
        let first = reader.u8()?;
        let kind = reader.u8()?;
        let words = usize::from(reader.be16()?);
        let body = reader.take(words.checked_mul(4)?)?;
        let reports = usize::from(first & 0x1f).saturating_mul(24);
        let least = match kind {
            SENDER => reports.saturating_add(24),
            RECEIVER => reports.saturating_add(4),
            _ => 0,
        };
        if first >> 6 != 2 || !(SENDER..=LAST).contains(&kind) || body.len() < least {
            return None;
        }
        kinds.push(kind);
    }
    // A report comes first, and the names of its source go with it (RFC 3550 §6.1).
    match kinds.as_slice() {
        [SENDER | RECEIVER] => Some(Finding::guess("a report")),
        [SENDER | RECEIVER, ..] => Some(Finding::certain("a report and what goes with it")),
        _ => None,
    }
}
