//! ClamAV's daemon, over its socket.
//!
//! A file is streamed to it while it passes (`INSTREAM` of clamd(8)), and its last packet waits for
//! the answer: archives and documents are unpacked there, which no look at single windows can do.
//!
//! The daemon takes streams up to a limit of its own (`StreamMaxLength`), which [`Clamd::limit`]
//! finds out. A longer file is given to it in several streams, each with the end of the one before:
//! what is unpacked has to lie in one of them.

use std::collections::HashMap;
use std::io::{self, Read as _, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::Scanner;
use crate::flow::Direction;
use crate::limits::{
    CLAMD_OVERLAP, CLAMD_PROBE, CLAMD_STREAMS, MAX_SCAN_ANSWER, MAX_SCAN_SESSIONS, SCAN_IDLE,
    SCAN_TIMEOUT,
};
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
    /// Bytes of the longest stream that it takes.
    limit: u64,
    sessions: HashMap<(FlowId, Direction), Session>,
}

#[derive(Debug)]
struct Session {
    stream: Stream,
    used: Instant,
    /// Bytes of this stream so far.
    sent: u64,
    /// The end of what was sent, which the next stream begins with.
    tail: Vec<u8>,
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Clamd {
    /// A client of the daemon at a socket's path, or at `host:port`. It connects with the first
    /// file. `limit`: bytes of the longest stream that the daemon takes, if that is known
    /// ([`limit`](Self::limit)).
    #[must_use]
    pub fn new(address: &str, limit: Option<u64>) -> Self {
        let address = if address.starts_with('/') {
            Address::Unix(address.into())
        } else {
            Address::Tcp(address.to_owned())
        };
        Self {
            address,
            limit: limit.unwrap_or(DEBIANS),
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

    /// Bytes of the longest stream that the daemon takes, of a few sizes that are tried: it refuses
    /// a piece that is too long before it has come. `None`: it takes not even the shortest.
    ///
    /// # Errors
    /// It does not answer.
    pub fn limit(&self) -> io::Result<Option<u64>> {
        for size in CLAMD_STREAMS {
            let mut stream = self.connect()?;
            stream.set_read_timeout(CLAMD_PROBE)?;
            stream.write_all(b"zINSTREAM\0")?;
            stream.write_all(&size.to_be_bytes())?;
            match stream.answer() {
                Ok(refused) if refused.contains("limit") => {}
                // It waits for so many bytes.
                Err(error) if is_timeout(&error) => return Ok(Some(size.into())),
                Ok(other) => return Err(io::Error::other(other)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
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
            self.begin()?
        } else {
            self.sessions.remove(&key).ok_or_else(|| {
                io::Error::other(
                    "the beginning of this file was not seen, or it stood still for too long",
                )
            })?
        };
        let new = job.bytes.get(job.repeated..).unwrap_or_default();
        let after = session
            .sent
            .saturating_add(new.len().try_into().unwrap_or(u64::MAX));
        if after > self.limit {
            // Another stream, with what may lie across both.
            match session.end()? {
                Scanned::Clean => {}
                found => return Ok(found),
            }
            let tail = std::mem::take(&mut session.tail);
            session = self.begin()?;
            session.send(&tail)?;
        }
        session.send(new)?;
        if !job.last {
            session.used = Instant::now();
            self.sessions.insert(key, session);
            return Ok(Scanned::Clean);
        }
        session.end()
    }

    fn begin(&self) -> io::Result<Session> {
        let mut stream = self.connect()?;
        stream.write_all(b"zINSTREAM\0")?;
        Ok(Session {
            stream,
            used: Instant::now(),
            sent: 0,
            tail: Vec::new(),
        })
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

/// What Debian's and ClamAV's own configuration have for `StreamMaxLength`.
const DEBIANS: u64 = 25 << 20;

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

impl Session {
    /// Sends the next bytes of the file.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.stream
            .write_all(&length32(bytes.len()).to_be_bytes())?;
        self.stream.write_all(bytes)?;
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.sent = self.sent.saturating_add(count);
        self.tail.extend_from_slice(bytes);
        let surplus = self.tail.len().saturating_sub(CLAMD_OVERLAP);
        self.tail.drain(..surplus);
        Ok(())
    }

    /// Ends the stream; what was found in it.
    fn end(&mut self) -> io::Result<Scanned> {
        self.stream.write_all(&[0; 4])?;
        Ok(verdict(&self.stream.answer()?))
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
    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(Some(time)),
            Self::Tcp(stream) => stream.set_read_timeout(Some(time)),
        }
    }

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
