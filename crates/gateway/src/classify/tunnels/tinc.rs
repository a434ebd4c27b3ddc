//! tinc (manual, chapter 6, "The meta-protocol"): lines of text that say who connects.

use crate::classify::message::{Finding, Memory, Message, is_number, text_lines};

/// `0 NAME 17` or `0 NAME 17.7`: the request, a node's name, the version of the protocol.
pub(super) fn identification(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = text_lines(message.bytes).next()?;
    let fields: Vec<&str> = line.split(' ').collect();
    let [request, name, version] = fields.as_slice() else {
        return None;
    };
    let named = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // Versions up to 1.0 wrote no minor number.
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    if *request != "0" || !named || major != "17" || !is_number(minor, 2) {
        return None;
    }
    memory.numbers().ask("tinc", message.direction, 17);
    let both = memory.numbers().answers("tinc", message.direction, 17);
    Some(if both {
        Finding::certain("both sides name their nodes")
    } else {
        Finding::likely("a node's name and the version of the protocol")
    })
}
