//! AFP's session layer DSI ("Apple Filing Protocol Reference"): a header of 16 bytes.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Commands of a session: close, command, status, open, tickle, write, attention.
const COMMANDS: std::ops::RangeInclusive<u8> = 1..=8;

/// A request, and the reply with its number, each with the length of what follows.
pub(super) fn session(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let is_reply = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let command = reader.u8()?;
    let number = reader.be16()?;
    reader.be32()?;
    let length = index(reader.be32()?);
    let reserved = reader.be32()?;
    if !COMMANDS.contains(&command) || reserved != 0 || reader.rest().len() != length {
        return None;
    }
    // A reply proves more than a length does: it repeats command and number.
    let key = u64::from(command) << 16 | u64::from(number);
    if is_reply {
        let answers = memory.numbers().answers("afp", message.direction, key);
        return answers.then(|| Finding::certain("a request and its reply"));
    }
    memory.numbers().ask("afp", message.direction, key);
    Some(Finding::guess("a request of exactly its length"))
}
