//! Buildings: BACnet/IP (ASHRAE 135, annex J), and Tuya's devices.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// BACnet's virtual link, with its functions.
const VIRTUAL_LINK: u8 = 0x81;
const LAST_FUNCTION: u8 = 0x0b;
const MOST: usize = 1_535;
/// What a message of Tuya's begins and ends with.
const BEGIN: u32 = 0x0000_55aa;
const END: u32 = 0x0000_aa55;

/// A function and the datagram's length; then the version of the network layer, where one is.
pub(super) fn bacnet(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let kind = reader.u8()?;
    let function = reader.u8()?;
    let length = usize::from(reader.be16()?);
    if kind != VIRTUAL_LINK
        || function > LAST_FUNCTION
        || length != message.bytes.len()
        || length > MOST
    {
        return None;
    }
    // Messages that are passed on begin with the sender's address.
    if function == 4 {
        reader.take(6)?;
    }
    let layered = matches!(function, 4 | 9..=11);
    if layered && reader.u8()? == 1 && reader.u8()? & 0x50 == 0 {
        return Some(Finding::certain("a message of exactly its length"));
    }
    (!layered).then(|| Finding::likely("a message of the virtual link"))
}

/// Fixed numbers at both ends, and the length of what lies between.
pub(super) fn tuya(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let begins = reader.be32()? == BEGIN;
    reader.be32()?;
    let command = reader.be32()?;
    let length = index(reader.be32()?);
    let body = reader.take(length)?;
    (begins && command < 256 && body.ends_with(&END.to_be_bytes()))
        .then(|| Finding::certain("a message between its fixed numbers"))
}
