//! Teredo (RFC 4380): IPv6 in UDP, of which a gateway sees the outside.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// What an address of Teredo begins with, and one of a link: 2001:0::/32, fe80::/10.
const PREFIX: [u8; 4] = [0x20, 0x01, 0, 0];
/// Bytes of IPv6's header.
const HEADER: usize = 40;

/// A packet of IPv6 with an address of Teredo, which fills the datagram behind what shows who sends
/// it and from where.
pub(super) fn packet(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let bytes = inside(message.bytes)?;
    let mut reader = Reader::new(bytes);
    let version = reader.u8()? >> 4;
    reader.take(3)?;
    let length = usize::from(reader.be16()?);
    reader.be16()?;
    let ends = [reader.array::<16>()?, reader.array::<16>()?];
    let of_teredo = ends.iter().any(|end| end.starts_with(&PREFIX));
    let is_link = |end: &[u8; 16]| end[0] == 0xff || (end[0] == 0xfe && end[1] & 0xc0 == 0x80);
    let of_link = ends.iter().all(is_link);
    let whole = length.checked_add(HEADER)? == bytes.len();
    (version == 6 && whole && (of_teredo || of_link))
        .then(|| Finding::certain("a packet of IPv6 with an address of Teredo"))
}

/// What is behind the two headers that may stand before the packet; RFC 4380 §5.1.1.
fn inside(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    if let [0, 1, identifier, proof, ..] = rest {
        let length = usize::from(*identifier).checked_add(usize::from(*proof))?;
        rest = rest.get(length.checked_add(13)?..)?;
    }
    if rest.starts_with(&[0, 0]) {
        rest = rest.get(8..)?;
    }
    Some(rest)
}
