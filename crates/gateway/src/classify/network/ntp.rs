//! NTP (RFC 5905 §7.3): the answer repeats the time at which was asked.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::Reader;

/// A message without extensions and without what proves it genuine.
const LEAST: usize = 48;
/// Unsynchronised; RFC 5905 §7.3.
const LAST_STRATUM: u8 = 16;
const CLIENT: u8 = 3;
const SERVER: u8 = 4;

/// A message of modes 1 to 5.
pub(super) fn message(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let length = message.bytes.len();
    let mut reader = Reader::new(message.bytes);
    let first = reader.u8()?;
    let stratum = reader.u8()?;
    let interval = reader.u8()?;
    let precision = reader.u8()?;
    let delay = reader.be32()?;
    reader.take(16)?;
    let asked = reader.be64()?;
    reader.be64()?;
    let sent = reader.be64()?;
    let version = first >> 3 & 7;
    // Distances are below 16 seconds, intervals at most 2^17.
    let fits = (1..=4).contains(&version) && stratum <= LAST_STRATUM && delay >> 20 == 0;
    if !fits || interval > 17 || !length.saturating_sub(LEAST).is_multiple_of(4) || sent == 0 {
        return None;
    }
    let numbers = memory.numbers();
    match first & 7 {
        CLIENT => {
            numbers.ask("ntp", message.direction, sent);
            Some(Finding::likely("a client asks"))
        }
        SERVER if numbers.answers("ntp", message.direction, asked) => {
            Some(Finding::certain("an answer with the time of the question"))
        }
        // Clocks are accurate to a part of a second: negative powers of two.
        1 | 2 | SERVER | 5 if precision >= 0x80 && stratum > 0 => {
            Some(Finding::likely("a server's or a peer's time"))
        }
        _ => None,
    }
}
