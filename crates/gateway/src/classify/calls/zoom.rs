//! Zoom's sound and pictures: RTP behind a header for its servers and one for the kind of media.
//!
//! The layout was published by Michel et al., "Enabling Passive Measurement of Zoom Performance in
//! Production Networks" (IMC 2022).

use crate::classify::message::{Finding, Memory, Message};

/// Bytes of the header for servers; its first byte says that media follow.
const FOR_SERVERS: usize = 8;
const MEDIA: u8 = 5;
/// Packets that may be lost between two, and those that have to follow each other.
const MOST_LOST: u64 = 16;
const ENOUGH: u8 = 3;

/// Packets of RTP of one source, numbered on, where the kind of media says that RTP begins.
pub(super) fn media(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let &first = message.bytes.first()?;
    let media = message.bytes.get(FOR_SERVERS..)?;
    let (kind, before) = match media.first()? {
        13 => ("a shared screen", 27),
        15 => ("sound", 19),
        16 => ("pictures", 24),
        _ => return None,
    };
    let (&[version, _, high, low, _, _, _, _, one, two, three, four], data) =
        media.get(before..)?.split_first_chunk()?;
    if first != MEDIA || version >> 6 != 2 || data.is_empty() {
        return None;
    }
    let source = u32::from_be_bytes([one, two, three, four]);
    let number = u16::from_be_bytes([high, low]);
    let steps = memory.numbers().count(
        "zoom",
        message.direction,
        source.into(),
        number.into(),
        MOST_LOST,
    );
    (steps >= ENOUGH).then(|| Finding::likely(format!("{kind}, packets numbered on")))
}
