//! SIP (RFC 3261 §7): text like HTTP's with its own methods, addresses and header lines.

use crate::classify::message::{Finding, Memory, Message, text_lines};

/// RFC 3261 §20, long and short: each message has them.
const HEADERS: [&str; 7] = ["via:", "v:", "call-id:", "i:", "cseq:", "from:", "f:"];
const ADDRESSES: [&str; 3] = ["sip:", "sips:", "tel:"];

/// A request or an answer.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut lines = text_lines(message.bytes);
    let first = lines.next()?;
    let why = match first.strip_prefix("SIP/2.0 ") {
        Some(status) => {
            let (code, _) = status.split_once(' ').unwrap_or((status, ""));
            let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
            is_code.then(|| format!("an answer, {code}"))?
        }
        None => request(first)?,
    };
    let known = |line: &str| {
        let line = line.to_ascii_lowercase().replace([' ', '\t'], "");
        HEADERS.iter().any(|name| line.starts_with(name))
    };
    // A line alone may be what a program writes into a log.
    Some(if lines.any(known) {
        Finding::certain(why)
    } else {
        Finding::likely(why)
    })
}

/// `INVITE sip:bob@example.com SIP/2.0`
fn request(line: &str) -> Option<String> {
    let (method, rest) = line.split_once(' ')?;
    let (address, version) = rest.rsplit_once(' ')?;
    let address = address.to_ascii_lowercase();
    let known = ADDRESSES.iter().any(|scheme| address.starts_with(scheme));
    let is_method = method.len() > 1 && method.bytes().all(|byte| byte.is_ascii_uppercase());
    (known && is_method && version == "SIP/2.0").then(|| format!("the request {method}"))
}
