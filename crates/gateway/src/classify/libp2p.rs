//! libp2p, the network library of IPFS: multistream-select at the beginning of its connections.
//!
//! Source: libp2p specifications, "multistream-select" and "Connection Establishment". QUIC and TLS
//! connections name `libp2p` as their application protocol instead.

use super::message::{Finding, Memory, Message, text};
use crate::reader::Reader;

/// Length byte, name, line end.
const MULTISTREAM: &[u8] = b"\x13/multistream/1.0.0\n";

/// The protocol's own name, and the next one that is proposed.
pub(super) fn multistream(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.take(MULTISTREAM.len())? != MULTISTREAM {
        return None;
    }
    let proposed = reader
        .u8()
        .and_then(|length| reader.take(length.into()))
        .and_then(|line| line.strip_suffix(b"\n"))
        .and_then(text);
    Some(Finding::certain(match proposed {
        Some(name) => format!("multistream-select, then {name}"),
        None => "multistream-select".to_owned(),
    }))
}
