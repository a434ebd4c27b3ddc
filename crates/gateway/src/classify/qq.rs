//! QQ's first protocol OICQ: datagrams between two fixed bytes.

use super::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// What a datagram begins and ends with.
const BEGIN: u8 = 2;
const END: u8 = 3;
/// Commands are assigned up to here; accounts are numbered from 10 000 on.
const LAST_COMMAND: u16 = 0x01ff;
const FIRST_ACCOUNT: u32 = 10_000;

/// A version, a command, a number, an account.
pub(super) fn datagram(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let begins = reader.u8()? == BEGIN;
    let version = reader.be16()?;
    let command = reader.be16()?;
    reader.be16()?;
    let account = reader.be32()?;
    let ends = reader.rest().last() == Some(&END) && reader.rest().len() >= 8;
    (begins && ends && version >= 0x0100 && command <= LAST_COMMAND && account >= FIRST_ACCOUNT)
        .then(|| Finding::likely("a command and an account between fixed bytes"))
}
