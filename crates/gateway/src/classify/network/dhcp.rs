//! DHCP for IPv4 (RFC 2131, RFC 2132) and IPv6 (RFC 8415).

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Where options begin, and the number before them; RFC 2131 §3.
const OPTIONS: usize = 236;
const COOKIE: u32 = 0x6382_5363;
/// Options without a length, and the one that says what a message is; RFC 2132 §3, §9.6.
const PAD: u8 = 0;
const END: u8 = 255;
const MESSAGE_TYPE: u8 = 53;
/// Options of IPv6 that say who asks and who answers; RFC 8415 §21.2.
const CLIENT: u16 = 1;
const SERVER: u16 = 2;
/// Far above the last one that is assigned.
const LAST_OPTION: u16 = 255;

/// A message with its type among the options.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let (&[operation, _, address, hops], _) = message.bytes.split_first_chunk()?;
    if !matches!(operation, 1 | 2) || address > 16 || hops > 16 {
        return None;
    }
    let mut reader = Reader::new(message.bytes.get(OPTIONS..)?);
    if reader.be32()? != COOKIE {
        return None;
    }
    // Without a message type it is BOOTP, which few still speak.
    loop {
        match reader.u8()? {
            PAD => {}
            END => return None,
            option => {
                let length = usize::from(reader.u8()?);
                let value = reader.take(length)?;
                if let (MESSAGE_TYPE, [kind @ 1..=18]) = (option, value) {
                    return Some(Finding::certain(format!("message type {kind}")));
                }
            }
        }
    }
}

/// Options that fill the message, one of which says who it is from.
pub(super) fn version_6(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let kind = reader.u8()?;
    reader.take(3)?;
    let mut identified = false;
    while !reader.is_empty() {
        let option = reader.be16()?;
        if option > LAST_OPTION {
            return None;
        }
        let length = usize::from(reader.be16()?);
        let value = reader.take(length)?;
        // An identifier has a type of two bytes from 1 to 4 first; RFC 8415 §11.
        let typed = matches!(value, [0, 1..=4, _, _, ..]);
        identified |= matches!(option, CLIENT | SERVER) && typed;
    }
    ((1..=11).contains(&kind) && identified)
        .then(|| Finding::certain(format!("version 6, message type {kind}")))
}
