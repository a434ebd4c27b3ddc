//! HSRP (RFC 2281; version 2 as Cisco documents it): which of several routers is the one in use.

use crate::classify::message::{Finding, Memory, Message};

/// Opcodes and states; RFC 2281 §5.1.
const LAST_OPCODE: u8 = 3;
const STATES: [u8; 6] = [0, 1, 2, 4, 8, 16];
/// Version 2 begins with a field of this type and length, which holds the version again.
const GROUP_STATE: [u8; 3] = [1, 40, 2];

/// A message of either version.
pub(super) fn hello(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    match message.bytes {
        [0, opcode, state, _, _, _, _, 0, rest @ ..] => {
            // What proves it genuine is a text of eight bytes, then the address follows.
            let text = rest.get(..8)?;
            let is_text = text
                .iter()
                .all(|byte| *byte == 0 || byte.is_ascii_graphic());
            let known = *opcode <= LAST_OPCODE && STATES.contains(state) && rest.len() == 12;
            (known && is_text && text.first()?.is_ascii_graphic())
                .then(|| Finding::certain("version 1"))
        }
        [kind, length, version, opcode, state, family, ..] => {
            let known = [*kind, *length, *version] == GROUP_STATE && message.bytes.len() >= 42;
            (known && *opcode <= LAST_OPCODE && *state <= 6 && matches!(family, 4 | 6))
                .then(|| Finding::certain("version 2"))
        }
        _ => None,
    }
}
