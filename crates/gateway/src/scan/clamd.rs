//! ClamAV's daemon, over its socket.
//!
//! A file is streamed to it while it passes (`INSTREAM` of clamd(8)), and its last packet waits for
//! the answer: archives and documents are unpacked there, which no look at single windows can do.

use std::collections::HashMap;
use std::io::{self, Read as _, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::Scanner;
use crate::flow::Direction;
use crate::limits::{MAX_SCAN_ANSWER, MAX_SCAN_SESSIONS, SCAN_IDLE, SCAN_TIMEOUT};
use crate::reader::length32;
use crate::verdict::{FlowId, ScanJob, Scanned};

/// Where the daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Unix(std::path::PathBuf),
    Tcp(String),
}

/// A client of the daemon. One connection for each file under way.
#[derive(Debug)]
pub struct Clamd {
    address: Address,
    sessions: HashMap<(FlowId, Direction), Session>,
}

#[derive(Debug)]
struct Session {
    stream: Stream,
    used: Instant,
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Clamd {
    /// A client of the daemon at a socket's path, or at `host:port`. It connects with the first
    /// file.
    #[must_use]
    pub fn new(address: &str) -> Self {
        let address = if address.starts_with('/') {
            Address::Unix(address.into())
        } else {
            Address::Tcp(address.to_owned())
        };
        Self {
            address,
            sessions: HashMap::new(),
        }
    }

    /// Asks whether it is there (`PING`).
    ///
    /// # Errors
    /// It is not, or something else listens there.
    pub fn ping(&self) -> io::Result<()> {
        let mut stream = self.connect()?;
        stream.write_all(b"zPING\0")?;
        match stream.answer()?.as_str() {
            "PONG" => Ok(()),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it answers PING with `{other}`"),
            )),
        }
    }

    fn connect(&self) -> io::Result<Stream> {
        match &self.address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(SCAN_TIMEOUT))?;
                stream.set_write_timeout(Some(SCAN_TIMEOUT))?;
                Ok(Stream::Unix(stream))
            }
            Address::Tcp(host) => {
                let address = host
                    .to_socket_addrs()?
                    .next()
                    .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                let stream = TcpStream::connect_timeout(&address, SCAN_TIMEOUT)?;
                stream.set_read_timeout(Some(SCAN_TIMEOUT))?;
                stream.set_write_timeout(Some(SCAN_TIMEOUT))?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    fn look(&mut self, job: &ScanJob) -> io::Result<Scanned> {
        let key = (job.flow, job.direction);
        let mut session = if job.first {
            self.tidy();
            let mut stream = self.connect()?;
            stream.write_all(b"zINSTREAM\0")?;
            Session {
                stream,
                used: Instant::now(),
            }
        } else {
            self.sessions.remove(&key).ok_or_else(|| {
                io::Error::other(
                    "the beginning of this file was not seen, or it stood still for too long",
                )
            })?
        };
        let new = job.bytes.get(job.repeated..).unwrap_or_default();
        if !new.is_empty() {
            session
                .stream
                .write_all(&length32(new.len()).to_be_bytes())?;
            session.stream.write_all(new)?;
        }
        if !job.last {
            session.used = Instant::now();
            self.sessions.insert(key, session);
            return Ok(Scanned::Clean);
        }
        session.stream.write_all(&[0; 4])?;
        Ok(verdict(&session.stream.answer()?))
    }

    /// Ends what stands still, and the oldest where there are too many.
    fn tidy(&mut self) {
        let now = Instant::now();
        self.sessions
            .retain(|_, session| now.duration_since(session.used) < SCAN_IDLE);
        while self.sessions.len() >= MAX_SCAN_SESSIONS {
            let oldest = self
                .sessions
                .iter()
                .min_by_key(|(_, session)| session.used)
                .map(|(key, _)| *key);
            let Some(oldest) = oldest else { break };
            self.sessions.remove(&oldest);
        }
    }
}

impl Scanner for Clamd {
    fn scan(&mut self, job: &ScanJob) -> Scanned {
        self.look(job).unwrap_or_else(|error| {
            self.sessions.remove(&(job.flow, job.direction));
            Scanned::Failed(format!("clamd: {error}"))
        })
    }
}

/// `stream: OK`, `stream: NAME FOUND`, or an error in words.
fn verdict(answer: &str) -> Scanned {
    let told = answer.strip_prefix("stream: ").unwrap_or(answer);
    if told == "OK" {
        return Scanned::Clean;
    }
    match told.strip_suffix(" FOUND") {
        Some(name) => Scanned::Found(name.to_owned()),
        None => Scanned::Failed(format!("clamd: {told}")),
    }
}

impl Stream {
    /// The answer up to its zero byte.
    fn answer(&mut self) -> io::Result<String> {
        let mut answer = Vec::new();
        let mut buffer = [0; 256];
        let began = Instant::now();
        while !answer.ends_with(&[0]) {
            let read = match self {
                Self::Unix(stream) => stream.read(&mut buffer)?,
                Self::Tcp(stream) => stream.read(&mut buffer)?,
            };
            let late = began.elapsed() > SCAN_TIMEOUT.saturating_add(Duration::from_secs(1));
            if read == 0 || late || answer.len() > MAX_SCAN_ANSWER {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            answer.extend_from_slice(buffer.get(..read).unwrap_or_default());
        }
        answer.pop();
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::verdict;
    use crate::verdict::Scanned;

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(verdict("stream: OK"), Scanned::Clean);
        let found = Scanned::Found("Win.Test.EICAR_HDB-1".to_owned());
        assert_eq!(verdict("stream: Win.Test.EICAR_HDB-1 FOUND"), found);
        for wrong in ["", "INSTREAM size limit exceeded. ERROR", "stream: x ERROR"] {
            assert!(matches!(verdict(wrong), Scanned::Failed(_)), "{wrong}");
        }
    }
}
