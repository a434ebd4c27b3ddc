//! HTTP/1: request and status lines, and the header lines that tell most.

use super::message::{Finding, Memory, Message, text};
use crate::limits::MAX_HTTP_HEADERS;

/// A request as far as it has arrived; its first line is complete.
#[derive(Debug)]
pub(super) struct Request<'a> {
    method: &'a str,
    target: &'a str,
    headers: &'a [u8],
}

impl<'a> Request<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let (line, headers) = bytes.split_at_checked(end.checked_add(1)?)?;
        let line = line.trim_ascii_end();
        let mut none = [httparse::EMPTY_HEADER; 0];
        let mut request = httparse::Request::new(&mut none);
        let whole = [line, b"\r\n\r\n"].concat();
        let is_request = matches!(request.parse(&whole), Ok(httparse::Status::Complete(_)));
        let mut words = std::str::from_utf8(line).ok()?.splitn(3, ' ');
        let (method, target) = (words.next()?, words.next()?);
        is_request.then_some(Self {
            method,
            target,
            headers,
        })
    }

    pub(super) fn target(&self) -> &'a str {
        self.target
    }

    pub(super) fn path(&self) -> &'a str {
        self.target
            .split_once('?')
            .map_or(self.target, |(path, _)| path)
    }

    pub(super) fn query(&self) -> Option<&'a str> {
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
