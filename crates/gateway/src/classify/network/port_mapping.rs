//! NAT-PMP (RFC 6886) and PCP (RFC 6887): hosts ask a router to open ports.

use crate::classify::message::{Finding, Memory, Message};

/// A question or its answer, of the length that it has.
pub(super) fn message(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let bytes = message.bytes;
    let (&[version, operation], rest) = bytes.split_first_chunk()?;
    let (is_answer, operation) = (operation & 0x80 != 0, operation & 0x7f);
    let fits = match (version, is_answer, operation) {
        (0, false, 0) => bytes.len() == 2,
        (0, true, 0) => bytes.len() == 12,
        (0, false, 1 | 2) => bytes.len() == 12 && rest.starts_with(&[0, 0]),
        (0, true, 1 | 2) => bytes.len() == 16,
        // The longest of PCP has 1 100 bytes; RFC 6887 §7.
        (2, _, 0..=2) => (24..=1_100).contains(&bytes.len()) && bytes.len().is_multiple_of(4),
        _ => false,
    };
    if !fits {
        return None;
    }
    let key = u64::from(version) << 8 | u64::from(operation);
    if is_answer && memory.numbers().answers("pcp", message.direction, key) {
        return Some(Finding::certain("a question and its answer"));
    }
    if !is_answer {
        memory.numbers().ask("pcp", message.direction, key);
    }
    Some(Finding::likely("a message of the length that it has"))
}
