//! What Gnutella and FastTrack borrowed from HTTP: a head of lines, then a body of a known length.

use std::io::{self, Write as _};
use std::net::TcpStream;

use super::{line, strange, up_to};

/// The lines of a head up to the empty one.
pub(super) fn head(stream: &mut TcpStream) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let line = line(stream)?;
        if line.is_empty() && !lines.is_empty() {
            return Ok(lines);
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
}

/// Sends a head and gives the body that answers it.
pub(super) fn body(stream: &mut TcpStream, request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let lines = head(stream)?;
    let status = lines.first().and_then(|line| line.split(' ').nth(1));
    if !status.is_some_and(|status| status.starts_with('2')) {
        return Err(strange(&format!("the answer {lines:?}")));
    }
    let length = lines.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let length = name.eq_ignore_ascii_case("content-length");
        length.then(|| value.trim().parse().ok()).flatten()
    });
    let length = length.ok_or_else(|| strange("no length"))?;
    Ok(up_to(stream, length))
}
