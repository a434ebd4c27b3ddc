//! SMTP (RFC 5321 §4): a server's greeting, then the client's.

use super::{both, first_line};
use crate::classify::message::{Finding, Memory, Message};

/// `220 host ...`, which FTP has as well.
pub(super) fn greeting(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?;
    let text = line
        .strip_prefix("220 ")
        .or_else(|| line.strip_prefix("220-"))?
        .to_ascii_uppercase();
    let answered = both(message, memory, "smtp");
    if answered {
        return Some(Finding::certain("a greeting and the client's"));
    }
    ["SMTP", "POSTFIX", "EXIM", "SENDMAIL"]
        .iter()
        .any(|word| text.contains(word))
        .then(|| Finding::likely("a greeting that names the protocol"))
}

/// `EHLO host`, `HELO host`; `LHLO host` of its local form (RFC 2033).
pub(super) fn command(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let line = first_line(message)?;
    let (verb, host) = line.split_once(' ')?;
    let greets = ["EHLO", "HELO", "LHLO"]
        .iter()
        .any(|word| verb.eq_ignore_ascii_case(word));
    let named = !host.trim().is_empty() && host.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !greets || !named {
        return None;
    }
    Some(if both(message, memory, "smtp") {
        Finding::certain("the server's greeting and the client's")
    } else {
        Finding::likely("a client's greeting")
    })
}
