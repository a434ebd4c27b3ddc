//! One request as it arrives on a control connection, with a file beside it (`SCM_RIGHTS`,
//! unix(7)).
//!
//! Who may not be trusted with the daemon's rights opens a file by their own, and hands it over.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::limits::CONTROL_LINE;
use crate::transfer::ToSend;

/// Bytes that are read at once: most requests are shorter.
const PIECE: usize = 4_096;

/// The request's line, and the file that came beside it. The line is as far as it has come where
/// the connection ends within it; more than [`CONTROL_LINE`] bytes are not read.
pub(super) async fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<File>)> {
    let (mut line, mut handed) = (Vec::new(), None);
    while line.len() < CONTROL_LINE {
        let mut piece = [0; PIECE];
        let received = stream.async_io(Interest::READABLE, || {
            // Room for one: of more than that the kernel keeps the rest back.
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut piece)];
            let got = recvmsg(stream, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
            for message in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = message {
                    handed = files.map(File::from).next().or(handed.take());
                }
            }
            Ok(got.bytes)
        });
        let bytes = received.await?;
        let piece = piece.get(..bytes).unwrap_or_default();
        let ends = piece.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(piece.get(..ends.unwrap_or(piece.len())).unwrap_or_default());
        if ends.is_some() || piece.is_empty() {
            break;
        }
    }
    Ok((line, handed))
}

/// Who asks, and what was handed over.
#[derive(Debug)]
pub(super) struct Caller {
    /// It is the daemon's own user, or root: what the daemon can read, that one can read.
    own: bool,
    root: bool,
    file: Option<File>,
}

impl Caller {
    pub(super) fn of(stream: &UnixStream, file: Option<File>) -> Caller {
        // Somebody of the socket's group, if the system does not say.
        let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
        Caller {
            own: user == Some(rustix::process::geteuid().as_raw()),
            root: user == Some(0),
            file,
        }
    }

    /// True for the daemon's own user, and for root.
    pub(super) fn is_own(&self) -> bool {
        self.own || self.root
    }

    /// What was handed over.
    pub(super) fn take_file(self) -> Option<File> {
        self.file
    }

    /// The file that is to be sent, opened with the rights of the caller and no others. None if
    /// somebody has not handed it over who has to.
    pub(super) fn into_file(self, path: &Path) -> Option<ToSend<'_>> {
        match self.file {
            // The path outlives a restart of the daemon, the descriptor does not.
            _ if self.own => Some(ToSend::at(path)),
            Some(file) => Some(ToSend {
                path,
                handed: Some(file),
            }),
            None => self.root.then(|| ToSend::at(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use ringway_client::descriptor::send;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_bounded() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let long = vec![b'x'; 3 * PIECE];
        send(&mut near, &[&long, b"\nmore".as_slice()].concat(), None)
            .await
            .unwrap();
        let (line, file) = receive(&far).await.unwrap();
        assert!(line == long && file.is_none());
        let (mut near, far) = UnixStream::pair().unwrap();
        let endless = tokio::spawn(async move {
            let piece = vec![b'x'; CONTROL_LINE];
            while near.write_all(&piece).await.is_ok() {}
        });
        let (line, _) = receive(&far).await.unwrap();
        assert!(line.len() < CONTROL_LINE + PIECE);
        drop(far);
        endless.await.unwrap();
    }

    #[tokio::test]
    async fn file_comes_beside_its_line() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"report").unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        send(&mut near, b"{}\n", Some(&file)).await.unwrap();
        let (line, handed) = receive(&far).await.unwrap();
        assert_eq!(line, b"{}");
        let mut handed = handed.unwrap();
        std::io::Seek::rewind(&mut handed).unwrap();
        let mut text = String::new();
        handed.read_to_string(&mut text).unwrap();
        assert_eq!(text, "report");
    }

    #[test]
    fn strangers_hand_files_over() {
        let path = Path::new("/etc/hostname");
        let caller = |own, root, file| Caller { own, root, file };
        assert!(caller(false, false, None).into_file(path).is_none());
        let handed = caller(false, false, tempfile::tempfile().ok()).into_file(path);
        assert!(handed.unwrap().handed.is_some());
        let own = caller(true, false, tempfile::tempfile().ok()).into_file(path);
        assert!(own.unwrap().handed.is_none());
        assert!(caller(false, true, None).into_file(path).is_some());
    }
}
