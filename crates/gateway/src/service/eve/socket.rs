//! A reader at a Unix socket, of streams or of datagrams. It is connected to when it is there, and
//! gets what it takes; what it does not take in time is counted and forgotten.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::{Domain, SockAddr, Socket, Type};

use super::Line;
use crate::eve::EveKind;
use crate::limits::{EVE_PENDING, EVE_RECONNECT};

/// Facility local5 (RFC 5424 §6.2.1), as Suricata's default is.
const FACILITY: u8 = 21;
const NOTICE: u8 = 5;
const INFORMATIONAL: u8 = 6;

/// What stands around an event.
#[derive(Debug)]
pub(super) enum Frame {
    /// An end of line.
    Line,
    /// A message of RFC 5424.
    Syslog {
        /// The sensor's name.
        host: String,
    },
}

impl Frame {
    pub(super) fn syslog(host: Option<String>) -> Frame {
        // RFC 5424 §6.2.4: printable characters only, and `-` where there is none.
        let host = host.filter(|host| host.bytes().all(|byte| byte.is_ascii_graphic()));
        Frame::Syslog {
            host: host.unwrap_or_else(|| "-".to_owned()),
        }
    }

    fn around(&self, line: &Line) -> Vec<u8> {
        match self {
            Frame::Line => [line.json.as_slice(), b"\n"].concat(),
            Frame::Syslog { host } => {
                let urgent = matches!(line.kind, Some(EveKind::Alert | EveKind::Drop));
                let severity = if urgent { NOTICE } else { INFORMATIONAL };
                let priority = FACILITY.saturating_mul(8).saturating_add(severity);
                let micros = i64::try_from(line.at.as_micros()).unwrap_or(i64::MAX);
                let at = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
                let kind = line.kind.map_or("-", EveKind::name);
                let process = std::process::id();
                let head = format!("<{priority}>1 {at:.6} {host} ringway {process} {kind} - ");
                [head.as_bytes(), &line.json].concat()
            }
        }
    }
}

/// Connects without waiting, to a socket of either kind.
fn connect_to(path: &Path) -> io::Result<Socket> {
    let address = SockAddr::unix(path)?;
    let open = |kind| {
        let socket = Socket::new(Domain::UNIX, kind, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&address).map(|()| socket)
    };
    match open(Type::STREAM) {
        // It is there, and of the other kind.
        Err(error) if error.raw_os_error() == Some(libc::EPROTOTYPE) => open(Type::DGRAM),
        opened => opened,
    }
}

/// A reader, and what waits for it.
#[derive(Debug)]
pub(super) struct EveSocket {
    path: PathBuf,
    frame: Frame,
    connection: Option<Socket>,
    /// Not before this time it is connected to again.
    next_try: Option<Instant>,
    pending: VecDeque<Vec<u8>>,
    /// Bytes of these.
    bytes: usize,
    /// Bytes of the first one that the reader has taken.
    sent: usize,
}

impl EveSocket {
    pub(super) fn new(path: &Path, frame: Frame) -> EveSocket {
        EveSocket {
            path: path.to_owned(),
            frame,
            connection: None,
            next_try: None,
            pending: VecDeque::new(),
            bytes: 0,
            sent: 0,
        }
    }

    /// Takes events, as far as there is room, and sends what the reader takes. Returns how many are
    /// lost.
    pub(super) fn append(&mut self, lines: &[Line]) -> u64 {
        let mut lost = 0_u64;
        for line in lines {
            let framed = self.frame.around(line);
            if self.bytes.saturating_add(framed.len()) > EVE_PENDING {
                // The reader may have caught up since.
                lost = lost.saturating_add(self.flush());
            }
            if self.bytes.saturating_add(framed.len()) > EVE_PENDING {
                lost = lost.saturating_add(1);
                continue;
            }
            self.bytes = self.bytes.saturating_add(framed.len());
            self.pending.push_back(framed);
        }
        lost.saturating_add(self.flush())
    }

    /// Something waits for the reader, who is there.
    pub(super) fn waits(&self) -> bool {
        self.connection.is_some() && !self.pending.is_empty()
    }

    /// Events that wait.
    pub(super) fn waiting(&self) -> u64 {
        u64::try_from(self.pending.len()).unwrap_or(u64::MAX)
    }

    /// Sends what the reader takes. Returns how many events are lost because they are longer than
    /// a datagram may be.
    pub(super) fn flush(&mut self) -> u64 {
        let mut lost = 0_u64;
        if self.pending.is_empty() || !self.connect() {
            return lost;
        }
        while let (Some(first), Some(connection)) = (self.pending.front(), &self.connection) {
            let rest = first.get(self.sent..).unwrap_or_default();
            match send(connection, rest, SendFlags::NOSIGNAL) {
                Ok(sent) if sent < rest.len() => self.sent = self.sent.saturating_add(sent),
                Ok(_) => self.done(),
                Err(Errno::INTR) => {}
                // The reader is slow.
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                // Longer than a datagram may be.
                Err(Errno::MSGSIZE) => {
                    self.done();
                    lost = lost.saturating_add(1);
                }
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "the reader of events has gone");
                    self.connection = None;
                    // The next reader gets whole events only.
                    self.sent = 0;
                    self.next_try = Instant::now().checked_add(EVE_RECONNECT);
                    break;
                }
            }
        }
        lost
    }

    /// The first event is out of the way.
    fn done(&mut self) {
        if let Some(first) = self.pending.pop_front() {
            self.bytes = self.bytes.saturating_sub(first.len());
        }
        self.sent = 0;
    }

    /// Connects, if it is not connected and the time has come; returns whether it is.
    fn connect(&mut self) -> bool {
        if self.connection.is_some() {
            return true;
        }
        let now = Instant::now();
        if self.next_try.is_some_and(|at| at > now) {
            return false;
        }
        match connect_to(&self.path) {
            Ok(connection) => {
                tracing::info!(path = %self.path.display(), "a reader of events is there");
                self.connection = Some(connection);
            }
            Err(error) => {
                // Once for each absence; a reader that is looked for every second is no news.
                if self.next_try.is_none() {
                    tracing::warn!(path = %self.path.display(), %error, "no reader of events is there yet");
                }
                self.next_try = now.checked_add(EVE_RECONNECT);
            }
        }
        self.connection.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::net::{UnixDatagram, UnixListener};
    use std::time::{Duration, Instant};

    use super::{EveSocket, Frame};
    use crate::eve::EveKind;
    use crate::limits::{EVE_PENDING, EVE_RECONNECT};
    use crate::service::eve::Line;

    fn line(number: usize) -> Line {
        Line {
            json: format!("{{\"number\":{number},\"x\":\"{}\"}}", "x".repeat(1_000)).into_bytes(),
            at: Duration::from_secs(1_795_982_400),
            kind: Some(EveKind::Alert),
        }
    }

    #[test]
    fn absent_and_slow_readers_stall_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.sock");
        let mut socket = EveSocket::new(&path, Frame::Line);
        let many = 2 * EVE_PENDING / 1_000;
        let lines: Vec<Line> = (0..many).map(line).collect();
        let begun = Instant::now();
        let lost = socket.append(&lines);
        assert!(lost > 0 && socket.waiting() + lost == u64::try_from(many).unwrap());
        // One that is there and does not read.
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::sleep(EVE_RECONNECT);
        assert_eq!(socket.flush(), 0);
        assert!(socket.waits());
        assert!(begun.elapsed() < EVE_RECONNECT + Duration::from_secs(5));
        // It reads at last, and gets whole lines in their order.
        let (stream, _) = listener.accept().unwrap();
        let expected = socket.waiting();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(stream).lines().map(Result::unwrap);
            lines.take_while(|line| !line.contains("\"end\"")).count()
        });
        while socket.waiting() > 0 {
            socket.flush();
            std::thread::yield_now();
        }
        let end = Line {
            json: b"{\"end\":1}".to_vec(),
            ..line(0)
        };
        socket.append(&[end]);
        // What was sent before it was found to be connected counts as well.
        assert!(u64::try_from(reader.join().unwrap()).unwrap() >= expected);
    }

    #[test]
    fn readers_that_restart_get_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut socket = EveSocket::new(&path, Frame::Line);
        socket.append(&[line(1)]);
        drop(listener);
        std::fs::remove_file(&path).unwrap();
        socket.append(&(2..2_000).map(line).collect::<Vec<_>>());
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::sleep(EVE_RECONNECT);
        socket.flush();
        let (stream, _) = listener.accept().unwrap();
        let first = BufReader::new(stream).lines().next().unwrap().unwrap();
        assert!(first.starts_with("{\"number\":"), "{first}");
    }

    #[test]
    fn each_event_is_a_syslog_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        let mut socket = EveSocket::new(&path, Frame::syslog(Some("gate-1".to_owned())));
        assert_eq!(socket.append(&[line(7), line(8)]), 0);
        let mut buffer = [0; 4_096];
        let length = log.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        let process = std::process::id();
        let head =
            format!("<173>1 2026-11-29T20:00:00.000000Z gate-1 ringway {process} alert - {{");
        assert!(
            text.starts_with(&head) && text.contains("\"number\":7"),
            "{text}"
        );
        assert!(log.recv(&mut buffer).is_ok());
    }
}
