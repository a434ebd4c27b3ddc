//! The commands' side of the control socket.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;

use super::descriptor;
use super::message::{ControlError, Reply, Request};
use crate::limits::CONTROL_LINE;

/// Why a request got no answer, or a refusal.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No program listens at the socket.
    #[error("no member daemon runs at {}: start it with `ringway node`{}; `ringway doctor` says what stands in its way", path.display(), unusual(source))]
    NotRunning {
        /// The socket tried.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It belongs to another user.
    #[error("{} is another user's: be in the group of that socket (`id` shows yours), run this as the user whose member it is, or choose your own with --home", path.display())]
    NotPermitted {
        /// The socket tried.
        path: PathBuf,
    },
    /// The daemon went away in the middle of an answer.
    #[error(
        "the member daemon ended before it had answered: see its log; what it had recorded goes on when it runs again"
    )]
    Closed,
    /// The connection failed.
    #[error("the control socket failed: {0}")]
    Io(#[from] io::Error),
    /// The daemon is of another version.
    #[error(
        "the member daemon answered in a form this program does not know ({0}): restart it with this version"
    )]
    Incompatible(serde_json::Error),
    /// The daemon refused or failed.
    #[error(transparent)]
    Refused(#[from] ControlError),
}

/// What the system says, unless that is only what the message says already: no socket, or no
/// program at it.
fn unusual(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => String::new(),
        _ => format!(" ({source})"),
    }
}

/// A connection to the daemon for one request.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the daemon's socket and sends `request`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when nothing listens there, [`ClientError::Io`] when sending
    /// fails.
    pub async fn request(socket: &Path, request: &Request) -> Result<Client, ClientError> {
        Client::request_with(socket, request, None).await
    }

    /// The same with a file that is handed over: that of [`Request::Send`], for a daemon of another
    /// user.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn request_with(
        socket: &Path,
        request: &Request,
        file: Option<&File>,
    ) -> Result<Client, ClientError> {
        let mut stream = UnixStream::connect(socket).await.map_err(|source| {
            let path = socket.to_owned();
            match source.kind() {
                io::ErrorKind::PermissionDenied => ClientError::NotPermitted { path },
                _ => ClientError::NotRunning { path, source },
            }
        })?;
        let mut line = serde_json::to_vec(request).map_err(ClientError::Incompatible)?;
        line.push(b'\n');
        descriptor::send(&mut stream, &line, file).await?;
        let reader = BufReader::new(stream);
        Ok(Client { reader })
    }

    /// The next answer, or none after the last.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the daemon's reason; the others when the connection fails.
    pub async fn next(&mut self) -> Result<Option<Reply>, ClientError> {
        let mut line = String::new();
        let limit = u64::try_from(CONTROL_LINE).unwrap_or(u64::MAX);
        let read = (&mut self.reader).take(limit).read_line(&mut line).await?;
        if read == 0 {
            return Err(ClientError::Closed);
        }
        match serde_json::from_str(&line).map_err(ClientError::Incompatible)? {
            Reply::Done => Ok(None),
            Reply::Error(error) => Err(error.into()),
            reply => Ok(Some(reply)),
        }
    }

    /// All answers at once.
    ///
    /// # Errors
    /// As [`Client::next`].
    pub async fn all(mut self) -> Result<Vec<Reply>, ClientError> {
        let mut replies = Vec::new();
        while let Some(reply) = self.next().await? {
            replies.push(reply);
        }
        Ok(replies)
    }
}
