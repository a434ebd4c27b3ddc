//! One line on a control connection, with an open file beside it (`SCM_RIGHTS`, unix(7)).
//!
//! The daemon may be another user's, who cannot read what is sent: it is handed over, open.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

/// Sends a line, with a file beside its first bytes if there is one.
///
/// # Errors
/// When the connection fails.
pub async fn send(stream: &mut UnixStream, line: &[u8], file: Option<&File>) -> io::Result<()> {
    let mut sent = 0;
    if let Some(file) = file {
        let first = stream.async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            let files: [BorrowedFd<'_>; 1] = [file.as_fd()];
            beside.push(SendAncillaryMessage::ScmRights(&files));
            let line = [IoSlice::new(line)];
            Ok(sendmsg(&*stream, &line, &mut beside, SendFlags::NOSIGNAL)?)
        });
        sent = first.await?;
    }
    stream.write_all(line.get(sent..).unwrap_or_default()).await
}
