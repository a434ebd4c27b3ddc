//! Kafka ("Kafka protocol guide"): requests with a length, a key, a version, a number and a name;
//! answers repeat the number.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Keys of requests and their versions, as far as they are assigned.
const LAST_KEY: u16 = 92;
const LAST_VERSION: u16 = 18;

/// A request, or the answer with its number.
pub(super) fn request(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.be32()?);
    let first = reader.be32()?;
    if length >= 1 << 27 {
        return None;
    }
    if memory
        .numbers()
        .answers("kafka", message.direction, first.into())
    {
        return Some(Finding::certain("a request and the answer with its number"));
    }
    let [key, version] =
        [first >> 16, first & 0xffff].map(|half| u16::try_from(half).unwrap_or(u16::MAX));
    // The name is the client's own; most programs have one.
    let number = reader.be32()?;
    let size = usize::from(reader.be16()?);
    let name = reader.take(size)?;
    let known = key <= LAST_KEY && version <= LAST_VERSION && number < 1 << 31;
    let fits = length >= size.checked_add(10)?;
    let named = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    (known && fits && named).then(|| {
        memory
            .numbers()
            .ask("kafka", message.direction, number.into());
        Finding::likely("a request with a name")
    })
}
