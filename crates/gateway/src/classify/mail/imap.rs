//! IMAP (RFC 9051): a server's greeting, then commands behind tags.

use super::{both, first_line};
use crate::classify::message::{Finding, Memory, Message};

/// Commands with which clients begin; RFC 9051 §6.1, RFC 2971.
const BEGINNINGS: [&str; 7] = [
    "CAPABILITY",
    "LOGIN",
    "AUTHENTICATE",
    "STARTTLS",
    "ID",
    "NOOP",
    "LOGOUT",
];

/// `* OK ...`, `* PREAUTH ...`
pub(super) fn greeting(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?;
    let text = ["* OK ", "* PREAUTH ", "* BYE "]
        .iter()
        .find_map(|begin| line.strip_prefix(begin))?
        .to_ascii_uppercase();
    if both(message, memory, "imap") {
        return Some(Finding::certain("a greeting and a client's command"));
    }
    Some(if text.contains("IMAP4") {
        Finding::certain("a greeting that names the protocol's version")
    } else {
        Finding::likely("a greeting")
    })
}

/// `a1 LOGIN ...`
pub(super) fn command(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?;
    let mut words = line.split(' ');
    let (tag, verb) = (words.next()?, words.next()?.to_ascii_uppercase());
    let is_tag = (1..=16).contains(&tag.len())
        && tag
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    (is_tag && BEGINNINGS.contains(&verb.as_str()) && both(message, memory, "imap"))
        .then(|| Finding::certain("the server's greeting and a command"))
}
