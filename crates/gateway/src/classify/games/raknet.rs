//! RakNet, the library of Minecraft's Bedrock edition and many others: messages before a
//! connection.

use crate::classify::message::{Finding, Memory, Message};

/// "Offline message data id".
const MAGIC: [u8; 16] = [
    0x00, 0xff, 0xff, 0x00, 0xfe, 0xfe, 0xfe, 0xfe, 0xfd, 0xfd, 0xfd, 0xfd, 0x12, 0x34, 0x56, 0x78,
];

/// A kind, and the 16 bytes where that kind has them.
pub(super) fn offline(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let at = match message.bytes.first()? {
        // A ping and its answer, which has a server's number too.
        1 | 2 => 9,
        0x1c => 17,
        // What a connection begins with.
        5..=8 => 1,
        // Versions that do not fit.
        0x19 => 2,
        _ => return None,
    };
    let magic = message.bytes.get(at..)?.starts_with(&MAGIC);
    magic.then(|| Finding::certain("a message before a connection, with its 16 bytes"))
}
