//! Postfix's policy delegation protocol: lines `name=value`, then an empty line; the answer is
//! `action=…` and an empty line. <https://www.postfix.org/SMTPD_POLICY_README.html>

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::limits::{IDLE, REQUEST};
use crate::request::Request;

/// Reads one request; none if the other side has ended the connection before one.
pub(crate) async fn read(reading: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Request>> {
    let mut request = Request::default();
    let mut left = REQUEST;
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(left).unwrap_or(u64::MAX);
        let mut limited = (&mut *reading).take(limit);
        let size = timeout(IDLE, limited.read_until(b'\n', &mut line)).await??;
        match (size, line.pop()) {
            (0, _) if left == REQUEST => return Ok(None),
            (_, Some(b'\n')) => {}
            _ => return Err(io::Error::other("it ends within a line, or is too long")),
        }
        left = left.saturating_sub(size);
        if line.is_empty() {
            return Ok(Some(request));
        }
        if !request.take(&line) {
            return Err(io::Error::other("a line has no `=`"));
        }
    }
}

/// Writes the answer: an action as in `access(5)`.
pub(crate) async fn write(writing: &mut (impl AsyncWrite + Unpin), action: &str) -> io::Result<()> {
    let answer = format!("action={action}\n\n");
    writing.write_all(answer.as_bytes()).await
}
