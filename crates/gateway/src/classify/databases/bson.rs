//! MongoDB's wire protocol: messages with lengths around documents with lengths.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Of a message: its header of four numbers. Longer ones than this are refused by servers.
const HEADER: usize = 16;
const LONGEST: usize = 48_000_000;
/// Bytes of the shortest document: a length and an end.
const DOCUMENT: usize = 5;

/// A message of a known kind with a document at its place.
pub(super) fn mongodb(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.le32()?);
    reader.le32()?;
    reader.le32()?;
    let code = reader.le32()?;
    let fits = match code {
        // Flags of which 0, 1 and 16 are assigned, then a section with one document.
        2013 => reader.le32()? & !0x0001_0003 == 0 && reader.u8()? == 0,
        // Flags, a collection's name, two numbers.
        2004 => {
            reader.le32()?;
            let end = reader.rest().iter().position(|&byte| byte == 0)?;
            let name = reader.take(end)?;
            reader.take(9)?;
            name.contains(&b'.') && name.iter().all(u8::is_ascii_graphic)
        }
        // Flags, a cursor, two numbers.
        1 => reader.take(20).is_some(),
        _ => return None,
    };
    let document = index(reader.le32()?);
    let room = length.checked_sub(HEADER + DOCUMENT)?;
    (fits && length <= LONGEST && (DOCUMENT..=room).contains(&document))
        .then(|| Finding::certain(format!("a message of kind {code} with a document")))
}
