//! NetFlow (RFC 3954) and IPFIX (RFC 7011): records of flows, from routers to who collects them.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// Bytes of version 5's header and of each of its records.
const HEADER_5: usize = 24;
const RECORD_5: usize = 48;

/// A datagram of version 5, 9 or 10 (IPFIX), filled by its records or sets.
pub(super) fn netflow(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let version = reader.be16()?;
    let count = usize::from(reader.be16()?);
    let length = message.bytes.len();
    let fits = match version {
        5 => {
            (1..=30).contains(&count)
                && length == count.checked_mul(RECORD_5)?.checked_add(HEADER_5)?
        }
        // Uptime, time, number, source.
        9 => reader.take(16).is_some() && count > 0 && sets(reader)?,
        // Time, number, source; the count is the message's length.
        10 => reader.take(12).is_some() && count == length && sets(reader)?,
        _ => false,
    };
    fits.then(|| Finding::certain(format!("version {version}, filled by its records")))
}

/// Sets with an identifier and their length, to the end.
fn sets(mut reader: Reader<'_>) -> Option<bool> {
    let some = !reader.is_empty();
    while !reader.is_empty() {
        let identifier = reader.be16()?;
        let length = usize::from(reader.be16()?);
        reader.take(length.checked_sub(4)?)?;
        // Templates have 0 to 3, data from 256 on.
        if (4..256).contains(&identifier) {
            return None;
        }
    }
    Some(some)
}
