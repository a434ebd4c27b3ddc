//! Heads of HTTP messages, read as strictly as RFC 9112 asks: what another receiver may understand
//! otherwise is refused.

use super::body::Body;
use super::line::with_whole_target;
use crate::inspect::FileForm;
use crate::inspect::held::Reason;
use crate::inspect::names::{in_disposition, media_type, parameter, text};
use crate::limits::MAX_HEAD_LINES;

/// The header lines of a message.
#[derive(Debug)]
pub(super) struct Fields {
    lines: Vec<(String, String)>,
    old: bool,
}

/// A request's head.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) fields: Fields,
}

/// An answer's head.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: Fields,
}

impl Request {
    pub(super) fn parse(head: &[u8]) -> Result<Self, Reason> {
        if head.starts_with(b"PRI * HTTP/2.0\r\n") {
            return Err("http/2");
        }
        check_line_ends(head)?;
        let head = with_whole_target(head)?;
        let mut lines = [httparse::EMPTY_HEADER; MAX_HEAD_LINES];
        let mut request = httparse::Request::new(&mut lines);
        let whole = request.parse(&head).map_err(reason)?;
        let (Some(method), Some(target), true) =
            (request.method, request.path, whole.is_complete())
        else {
            return Err("a malformed request");
        };
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            fields: Fields::new(request.headers, request.version),
        })
    }

    /// How its body is framed: without a length it has none.
    pub(super) fn body(&self) -> Result<Body, Reason> {
        Ok(self.fields.framing()?.unwrap_or(Body::Length(0)))
    }
}

impl Answer {
    pub(super) fn parse(head: &[u8]) -> Result<Self, Reason> {
        check_line_ends(head)?;
        let mut lines = [httparse::EMPTY_HEADER; MAX_HEAD_LINES];
        let mut answer = httparse::Response::new(&mut lines);
        let whole = answer.parse(head).map_err(reason)?;
        let (Some(status @ 100..=599), true) = (answer.code, whole.is_complete()) else {
            return Err("a malformed answer");
        };
        Ok(Self {
            status,
            fields: Fields::new(answer.headers, answer.version),
        })
    }

    /// How its body is framed: without a length it goes on until the connection closes.
    pub(super) fn body(&self, of_head: bool) -> Result<Body, Reason> {
        if of_head || matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(Body::Length(0));
        }
        Ok(self.fields.framing()?.unwrap_or(Body::Close))
    }

    /// The length of the file: of the whole one where only a range comes.
    pub(super) fn size(&self, body: &Body) -> Option<u64> {
        let range = self.fields.get("content-range");
        match (self.status, range, body) {
            // Whose end only its framing shows counts as one of unknown length: its last data has
            // to wait.
            (206, Some(range), Body::Length(_)) => range.rsplit('/').next().and_then(digits),
            (206, _, _) => None,
            (_, _, Body::Length(length)) => Some(*length),
            _ => None,
        }
    }
}

impl Fields {
    fn new(lines: &[httparse::Header<'_>], version: Option<u8>) -> Self {
        let line = |line: &httparse::Header<'_>| {
            (
                line.name.to_ascii_lowercase(),
                text(line.value).trim().to_owned(),
            )
        };
        Self {
            lines: lines.iter().map(line).collect(),
            old: version == Some(0),
        }
    }

    pub(super) fn parse(head: &[u8]) -> Result<Self, Reason> {
        check_line_ends(head)?;
        let mut lines = [httparse::EMPTY_HEADER; MAX_HEAD_LINES];
        match httparse::parse_headers(head, &mut lines).map_err(reason)? {
            httparse::Status::Complete((_, lines)) => Ok(Self::new(lines, None)),
            httparse::Status::Partial => Err("a malformed head"),
        }
    }

    /// The values of a header line, by its name in lower case.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let lines = self.lines.iter().filter(move |(key, _)| key == name);
        lines.map(|(_, value)| value.as_str())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.lines
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The file name that the message gives.
    pub(super) fn file_name(&self) -> Option<String> {
        self.all("content-disposition").find_map(in_disposition)
    }

    /// What comes of the file in the body. `part`: the message says by itself that it is a part.
    pub(super) fn form(&self, part: bool) -> FileForm {
        let codings = self
            .all("content-encoding")
            .flat_map(|line| line.split(','));
        let encoded = codings
            .map(str::trim)
            .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
        // Parts of a form may have a coding of their own (RFC 2045 §6.1).
        let mut transfer = self.all("content-transfer-encoding");
        let plain = |value: &str| {
            ["7bit", "8bit", "binary"]
                .iter()
                .any(|name| value.eq_ignore_ascii_case(name))
        };
        let encoded = encoded || transfer.any(|value| !plain(value));
        if encoded {
            FileForm::Encoded
        } else if part || self.get("content-range").is_some() {
            FileForm::Part
        } else {
            FileForm::Whole
        }
    }

    pub(super) fn kind(&self) -> Option<String> {
        self.get("content-type").and_then(media_type)
    }

    /// The boundary of a form with files. Two different types could make two receivers see two
    /// different bodies.
    pub(super) fn form_boundary(&self) -> Result<Option<String>, Reason> {
        let mut types = self.all("content-type");
        let Some(first) = types.next() else {
            return Ok(None);
        };
        let is_form = |value: &str| media_type(value).as_deref() == Some("multipart/form-data");
        if types.any(|other| other != first && (is_form(first) || is_form(other))) {
            return Err("two different media types of a form");
        }
        if !is_form(first) {
            return Ok(None);
        }
        // RFC 2046 §5.1.1: one to 70 characters.
        let boundary = parameter(first, "boundary").filter(|found| (1..=70).contains(&found.len()));
        boundary.map(Some).ok_or("a form without a boundary")
    }

    /// RFC 9112 §6.3, all that is ambiguous refused.
    fn framing(&self) -> Result<Option<Body>, Reason> {
        let mut codings = self.all("transfer-encoding");
        let length = self.length()?;
        let Some(coding) = codings.next() else {
            return Ok(length.map(Body::Length));
        };
        if length.is_some() {
            return Err("a length and a transfer coding");
        }
        if self.old {
            return Err("a transfer coding in HTTP/1.0");
        }
        if codings.next().is_some() || !coding.eq_ignore_ascii_case("chunked") {
            return Err("an unknown transfer coding");
        }
        Ok(Some(Body::chunked()))
    }

    /// The content's length; the same one may stand there more than once.
    fn length(&self) -> Result<Option<u64>, Reason> {
        let mut found = None;
        for value in self.all("content-length").flat_map(|line| line.split(',')) {
            let length = digits(value.trim()).ok_or("a malformed length")?;
            if found.is_some_and(|other| other != length) {
                return Err("two different lengths");
            }
            found = Some(length);
        }
        Ok(found)
    }
}

/// A number of decimal digits and nothing else.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A CR must begin a line's end: some receivers take a bare one for it.
fn check_line_ends(head: &[u8]) -> Result<(), Reason> {
    let bare = |pair: &[u8]| matches!(pair, [b'\r', next] if *next != b'\n');
    if head.windows(2).any(bare) {
        return Err("a bare CR");
    }
    Ok(())
}

fn reason(error: httparse::Error) -> Reason {
    match error {
        httparse::Error::HeaderName => "a malformed or folded header line",
        httparse::Error::HeaderValue => "a malformed value of a header line",
        httparse::Error::TooManyHeaders => "too many header lines",
        httparse::Error::Version => "another version of HTTP",
        _ => "a malformed first line",
    }
}
