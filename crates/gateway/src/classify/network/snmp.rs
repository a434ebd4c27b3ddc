//! SNMP (RFC 1157, RFC 3416, RFC 3412): a version, a community or a header, an operation.

use crate::classify::der::{OCTETS, SEQUENCE, integer, tagged, value};
use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Operations: get, get next, response, set, trap, get bulk, inform, trap 2, report.
const OPERATIONS: std::ops::RangeInclusive<u8> = 0xa0..=0xa8;
/// The trap of version 1, whose fields differ.
const TRAP: u8 = 0xa4;

/// A message whose parts fill it.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let mut whole = Reader::new(tagged(&mut reader, SEQUENCE)?);
    if !reader.is_empty() {
        return None;
    }
    let version = integer(&mut whole)?;
    if version == 3 {
        // A number, the largest size, flags of one byte, a model; then parameters and data.
        let mut header = Reader::new(tagged(&mut whole, SEQUENCE)?);
        integer(&mut header)?;
        integer(&mut header)?;
        let flags = tagged(&mut header, OCTETS)?.len() == 1;
        integer(&mut header)?;
        tagged(&mut whole, OCTETS)?;
        value(&mut whole)?;
        return (flags && whole.is_empty()).then(|| Finding::certain("version 3"));
    }
    tagged(&mut whole, OCTETS)?;
    let (operation, contents) = value(&mut whole)?;
    let mut fields = Reader::new(contents);
    if operation != TRAP {
        // A number, an error and where, and a list.
        for _ in 0..3 {
            tagged(&mut fields, crate::classify::der::INTEGER)?;
        }
        tagged(&mut fields, SEQUENCE)?;
    }
    let fits = whole.is_empty() && (operation == TRAP || fields.is_empty());
    (version <= 1 && OPERATIONS.contains(&operation) && fits)
        .then(|| Finding::certain(format!("version {}", version.saturating_add(1))))
}
