//! Resilio Sync, before that BitTorrent Sync: the message that opens a connection, and local
//! discovery.
//!
//! Source: recorded conversations; the format is not published.

use super::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// `BSYNC` and a zero, over TCP a length, then a bencoded dictionary.
pub(super) fn opening(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    reader.take(6)?;
    if let [b'd', b'1'..=b'9', ..] = reader.rest() {
        return Some(Finding::certain("BSYNC and a dictionary"));
    }
    let length = reader.be32()?;
    let fits = (2..=65_536).contains(&length) && reader.u8()? == b'd';
    fits.then(|| Finding::certain("BSYNC, a length and a dictionary"))
}
