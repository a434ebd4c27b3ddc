//! SSDP ("UPnP Device Architecture" 1.1, §1): HTTP's form in datagrams.

use crate::classify::message::{Finding, Memory, Message, text_lines};

/// A search, an advertisement, or an answer to a search.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut lines = text_lines(message.bytes);
    let first = lines.next()?;
    let headers: Vec<String> = lines.map(str::to_ascii_lowercase).collect();
    let has = |name: &str| headers.iter().any(|line| line.starts_with(name));
    let (name, told) = match first {
        "M-SEARCH * HTTP/1.1" => ("a search", has("man:") || has("st:")),
        "NOTIFY * HTTP/1.1" => ("an advertisement", has("nt:") || has("nts:")),
        "HTTP/1.1 200 OK" => {
            return (has("st:") && has("usn:")).then(|| Finding::certain("an answer"));
        }
        _ => return None,
    };
    Some(if told {
        Finding::certain(name)
    } else {
        Finding::likely(name)
    })
}
