//! Frames with checks of their own: DNP3 (IEEE 1815), IEC 60870-5-104, and DLMS in HDLC
//! (IEC 62056-46).

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// What begins and ends a frame of HDLC, and its kind 3 with the upper bits of its length.
const FLAG: u8 = 0x7e;
const KIND: u16 = 0xa000;

/// A cyclic check of 16 bits, lowest bit first.
fn check(bytes: &[u8], start: u16, polynomial: u16) -> u16 {
    let mut sum = start;
    for byte in bytes {
        sum ^= u16::from(*byte);
        for _ in 0..8 {
            let carry = sum & 1;
            sum >>= 1;
            if carry == 1 {
                sum ^= polynomial;
            }
        }
    }
    !sum
}

/// The header of a frame, with its length and its check.
pub(super) fn dnp3(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (header, rest) = message.bytes.split_first_chunk::<8>()?;
    let sum = check(header, 0, 0xa6bc);
    (header.starts_with(&[0x05, 0x64]) && header[2] >= 5 && rest.starts_with(&sum.to_le_bytes()))
        .then(|| Finding::certain("a frame's header with its check"))
}

/// The frame that starts the transfer, or the one that confirms it.
pub(super) fn iec104(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let (&[0x68, 4, control, 0, 0, 0], _) = message.bytes.split_first_chunk()? else {
        return None;
    };
    // Start and test, each with what confirms it; the start of a transfer comes first.
    let confirmation = match control {
        0x07 => 0x0b,
        0x43 => 0x83,
        0x0b | 0x83 => {
            let answers = memory
                .numbers()
                .answers("iec104", message.direction, control.into());
            return answers.then(|| Finding::certain("a start or a test, and what confirms it"));
        }
        _ => return None,
    };
    memory
        .numbers()
        .ask("iec104", message.direction, confirmation);
    Some(Finding::likely("the start or a test of a transfer"))
}

/// A whole frame with its length and both its checks at their places.
pub(super) fn dlms(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.u8()? != FLAG {
        return None;
    }
    let format = u16::from_be_bytes(*reader.rest().first_chunk()?);
    let length = usize::from(format & 0x07ff);
    let frame = reader.take(length)?;
    let (contents, sum) = frame.split_last_chunk::<2>()?;
    let checked = check(contents, 0xffff, 0x8408).to_le_bytes() == *sum;
    (format & 0xf000 == KIND && reader.u8()? == FLAG && checked)
        .then(|| Finding::certain("a frame with its length and its check"))
}
