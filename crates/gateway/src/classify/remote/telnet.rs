//! Telnet (RFC 854): commands that negotiate options.

use crate::classify::message::{Finding, Memory, Message};

/// "Interpret as command", and the commands that negotiate: will, won't, do, don't.
const COMMAND: u8 = 255;
const NEGOTIATES: std::ops::RangeInclusive<u8> = 251..=254;
/// Options that are assigned one after the other (IANA "Telnet Options"), and those above.
const OPTIONS: std::ops::RangeInclusive<u8> = 0..=49;

/// A stream that begins with two or more negotiations of known options.
pub(super) fn negotiation(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let negotiates = |part: &[u8]| match part {
        [COMMAND, verb, option] => {
            NEGOTIATES.contains(verb) && (OPTIONS.contains(option) || *option >= 138)
        }
        _ => false,
    };
    let count = message
        .bytes
        .chunks(3)
        .take_while(|part| negotiates(part))
        .count();
    match count {
        0 | 1 => None,
        2 => Some(Finding::likely("two options are negotiated")),
        _ => Some(Finding::certain(format!("{count} options are negotiated"))),
    }
}
