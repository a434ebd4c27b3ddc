//! The commands' side of the control socket.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;

use super::descriptor;
use super::message::{ControlError, Line, MALFORMED, Reply, Request, Speaker};
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
    /// The request cannot be put into words.
    #[error("the request cannot be written: {0}")]
    Unwritten(serde_json::Error),
    /// The daemon is of another version.
    #[error("{}", incompatible(daemon))]
    Incompatible {
        /// What it says of itself.
        daemon: Speaker,
    },
    /// The daemon refused or failed.
    #[error(transparent)]
    Refused(#[from] ControlError),
}

fn incompatible(daemon: &Speaker) -> String {
    let own = Speaker::own();
    if daemon.is_newer() {
        format!(
            "the member daemon is {daemon} and answers in a form that this one, {own}, does not know: use its `ringway`"
        )
    } else {
        format!(
            "the member daemon is {daemon} and does not do what this one, {own}, asks: restart it, so that it is of this version too"
        )
    }
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
    /// What the daemon says of itself, once it has answered.
    daemon: Option<Speaker>,
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
        let line = Line {
            content: request,
            speaker: Speaker::own(),
        };
        let mut line = serde_json::to_vec(&line).map_err(ClientError::Unwritten)?;
        line.push(b'\n');
        descriptor::send(&mut stream, &line, file).await?;
        let reader = BufReader::new(stream);
        let daemon = None;
        Ok(Client { reader, daemon })
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
        let daemon = self
            .daemon
            .get_or_insert_with(|| Speaker::of(line.as_bytes()));
        let incompatible = |daemon: &Speaker| ClientError::Incompatible {
            daemon: daemon.clone(),
        };
        match serde_json::from_str(&line) {
            Ok(Reply::Done) => Ok(None),
            // A daemon of release 0.2 has no other words for a command that it does not know.
            Ok(Reply::Error(error))
                if daemon.control.is_none() && error.message.starts_with(MALFORMED) =>
            {
                Err(incompatible(daemon))
            }
            Ok(Reply::Error(error)) => Err(error.into()),
            Ok(reply) => Ok(Some(reply)),
            Err(error) => {
                tracing::debug!(%error, "an answer was not understood");
                Err(incompatible(daemon))
            }
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
