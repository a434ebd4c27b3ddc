//! A connection to the daemon.

use std::io::{self, Read as _, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::limits::{MAX_SCAN_ANSWER, SCAN_TIMEOUT};

/// Where the daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Unix(std::path::PathBuf),
    Tcp(String),
}

impl Address {
    /// A socket's path, or `host:port`.
    pub(super) fn of(text: &str) -> Self {
        if text.starts_with('/') {
            Self::Unix(text.into())
        } else {
            Self::Tcp(text.to_owned())
        }
    }

    pub(super) fn connect(&self) -> io::Result<Stream> {
        // Packets wait for a scan, so a clamd that hangs must not keep its thread for ever.
        match self {
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(SCAN_TIMEOUT))?;
                stream.set_write_timeout(Some(SCAN_TIMEOUT))?;
                Ok(Stream::Unix(stream))
            }
            Self::Tcp(host) => {
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
}

#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(Some(time)),
            Self::Tcp(stream) => stream.set_read_timeout(Some(time)),
        }
    }

    /// The answer up to its zero byte.
    pub(super) fn answer(&mut self) -> io::Result<String> {
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
