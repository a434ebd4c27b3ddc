//! Kerberos (RFC 4120 §5) and LDAP (RFC 4511): messages in ASN.1 whose lengths fit into each other.

use crate::classify::der::{INTEGER, OCTETS, SEQUENCE, integer, tagged, value};
use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Tags of an enumeration and of a boolean.
const ENUMERATED: u8 = 0x0a;
const BOOLEAN: u8 = 0x01;
/// Kerberos's version; RFC 4120 §5.4.1.
const VERSION: u32 = 5;

/// A datagram of Kerberos.
pub(super) fn kerberos(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    ticket(message.bytes)
}

/// Over TCP each message has its length before it; RFC 4120 §7.2.2.
pub(super) fn kerberos_stream(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.be32()?);
    ticket(reader.take(length)?)
}

/// A message whose type stands in its tag and once more inside, behind the version.
fn ticket(bytes: &[u8]) -> Option<Finding> {
    let mut reader = Reader::new(bytes);
    let (tag, inner) = value(&mut reader)?;
    if !reader.is_empty() || !matches!(tag, 0x6a..=0x6f | 0x74..=0x76 | 0x7e) {
        return None;
    }
    let mut fields = Reader::new(tagged(&mut Reader::new(inner), SEQUENCE)?);
    let mut number = |wanted: u8| {
        let contents = tagged(&mut fields, wanted)?;
        integer(&mut Reader::new(contents))
    };
    // Requests count their fields from 1, all others from 0.
    let (first, second) = match tag {
        0x6a | 0x6c => (0xa1, 0xa2),
        _ => (0xa0, 0xa1),
    };
    let (version, kind) = (number(first)?, number(second)?);
    (version == VERSION && kind == u32::from(tag & 0x1f))
        .then(|| Finding::certain(format!("message type {kind}")))
}

/// A message with a number and an operation whose fields are those of that operation.
pub(super) fn ldap(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let whole = tagged(&mut Reader::new(message.bytes), SEQUENCE)?;
    let mut reader = Reader::new(whole);
    integer(&mut reader)?;
    let (operation, contents) = value(&mut reader)?;
    // Each operation has fields of its own, which tells it from SNMP's and others' ASN.1.
    let mut fields = Reader::new(contents);
    let mut tags = std::iter::from_fn(|| value(&mut fields).map(|(tag, _)| tag));
    let mut begin = [0; 6];
    for (place, tag) in begin.iter_mut().zip(&mut tags) {
        *place = tag;
    }
    let name = match (operation, begin) {
        (0x60, [INTEGER, OCTETS, 0x80 | 0xa3, ..]) => "a bind request",
        (0x61, [ENUMERATED, OCTETS, OCTETS, ..]) => "a bind response",
        (0x63, [OCTETS, ENUMERATED, ENUMERATED, INTEGER, INTEGER, BOOLEAN]) => "a search",
        (0x65, [ENUMERATED, OCTETS, OCTETS, ..]) => "the end of a search",
        (0x64, [OCTETS, SEQUENCE, 0, ..]) => "an entry",
        (0x77, [0x80, 0 | 0x81, ..]) => "an extended request",
        (0x78, [ENUMERATED, OCTETS, OCTETS, ..]) => "an extended response",
        _ => return None,
    };
    Some(Finding::certain(name))
}
