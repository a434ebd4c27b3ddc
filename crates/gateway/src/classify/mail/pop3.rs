//! POP3 (RFC 1939): a server's greeting, then who the client is.

use super::{both, first_line};
use crate::classify::message::{Finding, Memory, Message};

/// Commands with which clients begin; RFC 1939, RFC 2449, RFC 2595, RFC 5034.
const BEGINNINGS: [&str; 6] = ["USER ", "APOP ", "CAPA", "AUTH", "STLS", "QUIT"];

/// `+OK ...`
pub(super) fn greeting(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?;
    let text = line.strip_prefix("+OK")?;
    if !text.is_empty() && !text.starts_with(' ') {
        return None;
    }
    if both(message, memory, "pop3") {
        return Some(Finding::certain("a greeting and a client's command"));
    }
    Some(if text.to_ascii_uppercase().contains("POP") {
        Finding::likely("a greeting that names the protocol")
    } else {
        Finding::guess("a greeting")
    })
}

/// A command, after the greeting: other protocols have the same words.
pub(super) fn command(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?.to_ascii_uppercase();
    let begins = BEGINNINGS.iter().any(|word| line.starts_with(word));
    (begins && both(message, memory, "pop3"))
        .then(|| Finding::certain("the server's greeting and a command"))
}
