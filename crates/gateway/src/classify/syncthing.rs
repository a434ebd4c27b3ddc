//! Syncthing: local discovery (version 4), relays, and the first message of its block exchange.
//!
//! Sources: docs.syncthing.net, "Local Discovery Protocol v4", "Relay Protocol v1", "Block
//! Exchange Protocol v1". Between two devices all is TLS; there the name of the application
//! protocol decides.

use super::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Discovery and hello of the block exchange.
const MAGIC: u32 = 0x2ea7_d90b;
/// Relays.
const RELAY: u32 = 0x9e79_bc40;

/// An announcement: the fixed number, then a protobuf whose first field is the device's id of 32
/// bytes.
pub(super) fn discovery(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.be32()? != MAGIC {
        return None;
    }
    let fits = reader.array::<2>()? == [0x0a, 32] && reader.take(32).is_some();
    Some(if fits {
        Finding::certain("an announcement with a device id of 32 bytes")
    } else {
        Finding::likely("the fixed number of discovery")
    })
}

/// A relay's message: fixed number, type, length; the length must be the type's own.
pub(super) fn relay(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.be32()? != RELAY {
        return None;
    }
    let kind = reader.be32()?;
    let length = reader.be32()?;
    let fits = match kind {
        // Ping, pong, full.
        0 | 1 | 6 => length == 0,
        // A request to join may carry a token; invitations carry an id, a key, an address.
        2..=5 => length <= 512 && index(length) == reader.rest().len().min(index(length)),
        _ => false,
    };
    fits.then(|| Finding::certain(format!("a relay's message of type {kind}")))
}

/// The hello of the block exchange where it is not encrypted: fixed number, length, protobuf.
pub(super) fn hello(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let magic = reader.be32()?;
    let length = reader.be16()?;
    let fits = magic == MAGIC && reader.u8()? == 0x0a && (3..=32_767).contains(&length);
    fits.then(|| Finding::certain("a hello of the block exchange"))
}
