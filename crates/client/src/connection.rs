//! One request on the control socket, and the answers to it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;

use crate::descriptor;
use crate::limits::CONTROL_LINE;
use crate::message::{ControlError, Line, MALFORMED, Reply, Request, Speaker};

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
    /// A file that is to be sent cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It answers something else than was asked.
    #[error(
        "the member daemon answered something else than was asked: restart it with this version"
    )]
    Unexpected,
    /// No folder is known in which a member could be.
    #[error("no home folder: set HOME, or name one with --home or RINGWAY_HOME")]
    NoHome,
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
pub struct Connection {
    reader: BufReader<UnixStream>,
    /// What has come of the next answer.
    line: Vec<u8>,
    /// What the daemon says of itself, once it has answered.
    daemon: Option<Speaker>,
}

impl Connection {
    /// Connects to the daemon's socket and sends `request`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when no program listens there, [`ClientError::Io`] when sending
    /// fails.
    pub async fn request(socket: &Path, request: &Request) -> Result<Connection, ClientError> {
        Connection::request_with(socket, request, None).await
    }

    /// The same with a file that is handed over: that of [`Request::Send`], for a daemon of another
    /// user.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub async fn request_with(
        socket: &Path,
        request: &Request,
        file: Option<&File>,
    ) -> Result<Connection, ClientError> {
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
        Ok(Connection {
            reader: BufReader::new(stream),
            line: Vec::new(),
            daemon: None,
        })
    }

    /// What the daemon says of itself; none before its first answer.
    #[must_use]
    pub fn daemon(&self) -> Option<&Speaker> {
        self.daemon.as_ref()
    }

    /// The next answer, or none after the last. A call that is given up loses nothing.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the daemon's reason; the others when the connection fails.
    pub async fn next(&mut self) -> Result<Option<Reply>, ClientError> {
        let left = CONTROL_LINE.saturating_sub(self.line.len());
        let limit = u64::try_from(left).unwrap_or(u64::MAX);
        // What has come stays in `line` when this is given up.
        let mut reader = (&mut self.reader).take(limit);
        let read = reader.read_until(b'\n', &mut self.line).await?;
        if read == 0 && left > 0 {
            return Err(ClientError::Closed);
        }
        let line = std::mem::take(&mut self.line);
        let daemon = self.daemon.get_or_insert_with(|| Speaker::of(&line));
        let incompatible = |daemon: &Speaker| ClientError::Incompatible {
            daemon: daemon.clone(),
        };
        match serde_json::from_slice(&line) {
            Ok(Reply::Done) => Ok(None),
            // A daemon of release 0.2 has no other words for a command that it does not know.
            Ok(Reply::Error(error))
                if daemon.control.is_none() && error.message.starts_with(MALFORMED) =>
            {
                Err(incompatible(daemon))
            }
            Ok(Reply::Error(error)) => Err(error.into()),
            Ok(reply) => Ok(Some(reply)),
            Err(_) => Err(incompatible(daemon)),
        }
    }

    /// All answers at once.
    ///
    /// # Errors
    /// As [`Connection::next`].
    pub async fn all(mut self) -> Result<Vec<Reply>, ClientError> {
        let mut replies = Vec::new();
        while let Some(reply) = self.next().await? {
            replies.push(reply);
        }
        Ok(replies)
    }

    /// The one answer, which `pick` knows.
    ///
    /// # Errors
    /// As [`Connection::next`], and [`ClientError::Unexpected`] for anything else.
    pub async fn only<T>(self, pick: impl Fn(Reply) -> Option<T>) -> Result<T, ClientError> {
        let mut replies = self.each(pick).await?.into_iter();
        match (replies.next(), replies.next()) {
            (Some(answer), None) => Ok(answer),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// All answers, each of which `pick` knows.
    ///
    /// # Errors
    /// As [`Connection::only`].
    pub async fn each<T>(self, pick: impl Fn(Reply) -> Option<T>) -> Result<Vec<T>, ClientError> {
        let replies = self.all().await?.into_iter();
        let picked: Option<Vec<T>> = replies.map(pick).collect();
        picked.ok_or(ClientError::Unexpected)
    }

    /// The connection itself: the bytes of a stream, behind [`Reply::Opened`].
    #[must_use]
    pub fn into_bytes(self) -> BufReader<UnixStream> {
        self.reader
    }
}
