//! FTP (RFC 959): a server's greeting, then who the client is.

use super::{both, first_line};
use crate::classify::message::{Finding, Memory, Message};

/// Commands with which clients begin: a name, encryption (RFC 4217), features (RFC 2389).
const BEGINNINGS: [&str; 4] = ["USER ", "AUTH TLS", "AUTH SSL", "FEAT"];

/// `220 ...`, which SMTP has as well.
pub(super) fn greeting(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?;
    let text = line
        .strip_prefix("220 ")
        .or_else(|| line.strip_prefix("220-"))?
        .to_ascii_uppercase();
    if both(message, memory, "ftp") {
        return Some(Finding::certain("a greeting and a client's command"));
    }
    (text.contains("FTP") && !text.contains("SMTP"))
        .then(|| Finding::likely("a greeting that names the protocol"))
}

/// A command that belongs to it, after the greeting: other protocols have the same words.
pub(super) fn command(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?.to_ascii_uppercase();
    let begins = BEGINNINGS.iter().any(|word| line.starts_with(word));
    (begins && both(message, memory, "ftp"))
        .then(|| Finding::certain("the server's greeting and a command"))
}
