//! HTTP/1: request and status lines, and the header lines that show most.

use std::borrow::Cow;

use super::message::{Finding, Memory, Message, text};
use crate::limits::MAX_HTTP_HEADERS;

/// A request as far as it has arrived; its first line is complete.
#[derive(Debug)]
pub(super) struct Request<'a> {
    method: &'a str,
    target: Cow<'a, str>,
    headers: &'a [u8],
}

impl<'a> Request<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let (line, headers) = bytes.split_at_checked(end.checked_add(1)?)?;
        let (method, target) = request_line(line.trim_ascii_end())?;
        Some(Self {
            method,
            target: String::from_utf8_lossy(target),
            headers,
        })
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }

    pub(super) fn path(&self) -> &str {
        self.target
            .split_once('?')
            .map_or(&*self.target, |(path, _)| path)
    }

    pub(super) fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// The value of a header line that has arrived whole.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        header(self.headers, name)
    }

    /// The host asked for: `Host`, else the target of a proxy request.
    pub(super) fn host(&self) -> Option<String> {
        let named = self.header("host").and_then(|host| text(host.as_bytes()));
        named.or_else(|| {
            if self.method == "CONNECT" {
                text(self.target.as_bytes())
            } else {
                None
            }
        })
    }
}

/// Method and target of a request line, as servers forgive it: the target is all between the first
/// space and the last one. Programs write names of files with their spaces, and in any encoding.
fn request_line(line: &[u8]) -> Option<(&str, &[u8])> {
    let (method, rest) = split_at(line, line.iter().position(|&byte| byte == b' ')?)?;
    let (target, version) = split_at(rest, rest.iter().rposition(|&byte| byte == b' ')?)?;
    let method = std::str::from_utf8(method).ok()?;
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0' | b'1'] = version else {
        return None;
    };
    let is_token = !method.is_empty()
        && method
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    let target = target.trim_ascii();
    let is_target = !target.is_empty() && !target.iter().any(u8::is_ascii_control);
    (is_token && is_target).then_some((method, target))
}

/// What lies before and behind the byte at this position.
fn split_at(bytes: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    Some((bytes.get(..at)?, bytes.get(at.checked_add(1)?..)?))
}

/// The value of a header line in a block of lines; the block may be incomplete.
pub(super) fn header<'a>(block: &'a [u8], name: &str) -> Option<&'a str> {
    headers(block)
        .find(|(key, _)| key.trim_end().eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// The names of the header lines in a block.
pub(super) fn header_names(block: &[u8]) -> impl Iterator<Item = &str> {
    headers(block).map(|(name, _)| name)
}

/// Names and values of the header lines in a block.
pub(super) fn headers(block: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    lines(block)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
}

fn lines(block: &[u8]) -> impl Iterator<Item = &str> {
    block
        .split_inclusive(|&byte| byte == b'\n')
        .take_while(|line| line.ends_with(b"\n") && !line.trim_ascii().is_empty())
        .take(MAX_HTTP_HEADERS)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .map(str::trim_ascii_end)
}

/// A request line with an HTTP version.
pub(super) fn request(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    if let Some(request) = Request::parse(message.bytes) {
        return Some(
            Finding::certain(format!("{} request", request.method)).with_host(request.host()),
        );
    }
    // A long first line that has not ended yet: printable, and a target that looks like one.
    let open = !message.bytes.contains(&b'\n') && message.bytes.len() > 64;
    let target = message.bytes.split(|&byte| byte == b' ').nth(1)?;
    let plausible = target.starts_with(b"/") || target.starts_with(b"http");
    let printable = message
        .bytes
        .iter()
        .all(|&byte| byte >= b' ' && byte != 0x7f);
    (open && plausible && printable).then(|| Finding::likely("the beginning of a request line"))
}

/// A status line.
pub(super) fn response(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let line = message.bytes.get(..13)?;
    let [
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        b'0' | b'1',
        b' ',
        code @ b'1'..=b'5',
        ten,
        one,
        b' ' | b'\r' | b'\n',
    ] = line
    else {
        return None;
    };
    let digits = ten.is_ascii_digit() && one.is_ascii_digit();
    digits.then(|| {
        Finding::certain(format!(
            "status {}{}{}",
            char::from(*code),
            char::from(*ten),
            char::from(*one)
        ))
    })
}
