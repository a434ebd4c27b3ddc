//! NNTP (RFC 3977): a server's greeting, then commands.

use super::{both, first_line};
use crate::classify::message::{Finding, Memory, Message};

/// Commands with which clients begin; RFC 3977 §5, RFC 4643, RFC 4642.
const BEGINNINGS: [&str; 9] = [
    "MODE READER",
    "CAPABILITIES",
    "GROUP ",
    "AUTHINFO ",
    "STARTTLS",
    "LIST",
    "ARTICLE ",
    "IHAVE ",
    "MODE STREAM",
];

/// `200 ...`, `201 ...`: posting is allowed, or not.
pub(super) fn greeting(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?;
    let text = line
        .strip_prefix("200 ")
        .or_else(|| line.strip_prefix("201 "))?
        .to_ascii_uppercase();
    if both(message, memory, "nntp") {
        return Some(Finding::certain("a greeting and a client's command"));
    }
    ["NNTP", "NEWS", "POSTING", "INN"]
        .iter()
        .any(|word| text.contains(word))
        .then(|| Finding::likely("a greeting that names the protocol"))
}

/// A command, after the greeting.
pub(super) fn command(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?.to_ascii_uppercase();
    let begins = BEGINNINGS.iter().any(|word| line.starts_with(word));
    (begins && both(message, memory, "nntp"))
        .then(|| Finding::certain("the server's greeting and a command"))
}
