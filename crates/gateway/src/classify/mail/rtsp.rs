//! RTSP (RFC 2326, RFC 7826): HTTP's form with its own version, addresses and numbers.

use crate::classify::message::{Finding, Memory, Message, text_lines};

/// A request or an answer, numbered.
pub(super) fn message(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut lines = text_lines(message.bytes);
    let first = lines.next()?;
    let is_version = |text: &str| matches!(text, "RTSP/1.0" | "RTSP/2.0");
    let (begin, rest) = first.split_once(' ')?;
    let why = if is_version(begin) {
        let (code, _) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
        is_code.then(|| format!("an answer, {code}"))?
    } else {
        let (address, version) = rest.rsplit_once(' ')?;
        let address = address.to_ascii_lowercase();
        let known =
            address == "*" || address.starts_with("rtsp://") || address.starts_with("rtsps://");
        let is_method = begin.len() >= 3
            && begin
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        (is_method && known && is_version(version)).then(|| format!("the request {begin}"))?
    };
    // Each message is numbered, so one that is not may be a line out of a text.
    let numbered = lines.any(|line| line.to_ascii_lowercase().starts_with("cseq:"));
    Some(if numbered {
        Finding::certain(why)
    } else {
        Finding::likely(why)
    })
}
