//! ClamAV's daemon, over its socket.
//!
//! A file is gathered in memory while it passes and handed to the daemon by its descriptor
//! (`FILDES` of clamd(8)). Where the daemon takes none, because it is on another machine or
//! confined, the file is streamed to it (`INSTREAM`). Its last packet waits for the answer either
//! way: archives and documents are unpacked there, which no look at single windows can do.
//!
//! The daemon looks at files up to a limit of its own (`StreamMaxLength`), which [`Clamd::takes`]
//! finds out. A longer file is given to it in several parts, each with the end of the one before:
//! what is unpacked has to lie in one of them.

mod connection;
#[cfg(target_os = "linux")]
mod gathered;

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::time::Instant;

use connection::{Address, Stream};
#[cfg(target_os = "linux")]
use gathered::Gathered;

use super::Scanner;
use crate::flow::Direction;
use crate::limits::{
    CLAMD_OVERLAP, CLAMD_PROBE, CLAMD_STREAMS, MAX_GATHERED, MAX_SCAN_SESSIONS, SCAN_IDLE,
};
use crate::reader::length32;
use crate::verdict::{FlowId, ScanJob, Scanned};

/// What a daemon takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Bytes of the longest stream; of a longer file it is given one such part after another.
    pub stream: u64,
    /// Files by their descriptors.
    pub descriptors: bool,
}

impl Default for Takes {
    /// What Debian's and ClamAV's own configuration have for `StreamMaxLength`, and streams only.
    fn default() -> Self {
        Self {
            stream: 25 << 20,
            descriptors: false,
        }
    }
}

/// A client of the daemon. One connection for each file under way.
#[derive(Debug)]
pub struct Clamd {
    address: Address,
    takes: Takes,
    sessions: HashMap<(FlowId, Direction), Session>,
}

#[derive(Debug)]
struct Session {
    part: Part,
    used: Instant,
    /// Bytes of this part so far.
    sent: u64,
    /// The end of what was sent, which the next part begins with.
    tail: Vec<u8>,
}

/// How a part of a file gets to the daemon.
#[derive(Debug)]
enum Part {
    Streamed(Stream),
    #[cfg(target_os = "linux")]
    Gathered(Gathered),
}

impl Clamd {
    /// A client of the daemon at a socket's path, or at `host:port`. It connects with the first
    /// file. `takes`: what the daemon takes, if that is known ([`takes`](Self::takes)).
    #[must_use]
    pub fn new(address: &str, takes: Option<Takes>) -> Self {
        Self {
            address: Address::of(address),
            takes: takes.unwrap_or_default(),
            sessions: HashMap::new(),
        }
    }

    /// Asks whether it is there (`PING`).
    ///
    /// # Errors
    /// It is not, or something else listens there.
    pub fn ping(&self) -> io::Result<()> {
        let mut stream = self.address.connect()?;
        stream.write_all(b"zPING\0")?;
        match stream.answer()?.as_str() {
            "PONG" => Ok(()),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it answers PING with `{other}`"),
            )),
        }
    }

    /// What the daemon takes. Of a few lengths of streams each is tried: it refuses a piece that is
    /// too long before it has come. `None`: it takes not even the shortest.
    ///
    /// # Errors
    /// It does not answer.
    pub fn takes(&self) -> io::Result<Option<Takes>> {
        for size in CLAMD_STREAMS {
            let mut stream = self.address.connect()?;
            stream.set_read_timeout(CLAMD_PROBE)?;
            stream.write_all(b"zINSTREAM\0")?;
            stream.write_all(&size.to_be_bytes())?;
            match stream.answer() {
                Ok(refused) if refused.contains("limit") => {}
                // It waits for so many bytes.
                Err(error) if is_timeout(&error) => {
                    return Ok(Some(Takes {
                        stream: size.into(),
                        descriptors: self.takes_descriptors(),
                    }));
                }
                Ok(other) => return Err(io::Error::other(other)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether it finds some harmless bytes clean that it is handed by a descriptor.
    #[cfg(target_os = "linux")]
    fn takes_descriptors(&self) -> bool {
        let asked = || {
            let mut gathered = Gathered::new()?;
            gathered.push(b"ringway")?;
            self.ask(gathered)
        };
        asked().is_ok_and(|answer| answer == Scanned::Clean)
    }

    #[cfg(not(target_os = "linux"))]
    fn takes_descriptors(&self) -> bool {
        false
    }

    #[cfg(target_os = "linux")]
    fn ask(&self, gathered: Gathered) -> io::Result<Scanned> {
        let mut stream = self.address.connect()?;
        let Stream::Unix(socket) = &mut stream else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        gathered.hand_over(socket)?;
        Ok(verdict(&stream.answer()?))
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
        if after > self.takes.stream {
            // Another part, with what may lie across both.
            match self.end(session.part)? {
                Scanned::Clean => {}
                found => return Ok(found),
            }
            let tail = std::mem::take(&mut session.tail);
            session = self.begin()?;
            session.send(&tail)?;
        }
        self.make_room(&mut session, new.len())?;
        session.send(new)?;
        if !job.last {
            session.used = Instant::now();
            self.sessions.insert(key, session);
            return Ok(Scanned::Clean);
        }
        self.end(session.part)
    }

    fn begin(&self) -> io::Result<Session> {
        Ok(Session {
            part: self.part()?,
            used: Instant::now(),
            sent: 0,
            tail: Vec::new(),
        })
    }

    fn part(&self) -> io::Result<Part> {
        #[cfg(target_os = "linux")]
        if self.takes.descriptors {
            return Ok(Part::Gathered(Gathered::new()?));
        }
        Ok(Part::Streamed(self.stream()?))
    }

    fn stream(&self) -> io::Result<Stream> {
        let mut stream = self.address.connect()?;
        stream.write_all(b"zINSTREAM\0")?;
        Ok(stream)
    }

    /// Streams what a part has gathered, and what follows, where too much is gathered.
    #[cfg(target_os = "linux")]
    fn make_room(&self, session: &mut Session, more: usize) -> io::Result<()> {
        let Part::Gathered(gathered) = &session.part else {
            return Ok(());
        };
        let others = self.sessions.values().map(|session| match &session.part {
            Part::Gathered(gathered) => gathered.length(),
            Part::Streamed(_) => 0,
        });
        let all = others.fold(gathered.length(), u64::saturating_add);
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        if all.saturating_add(more) <= MAX_GATHERED {
            return Ok(());
        }
        let mut stream = self.stream()?;
        gathered.each(|bytes| send(&mut stream, bytes))?;
        session.part = Part::Streamed(stream);
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn make_room(&self, _: &mut Session, _: usize) -> io::Result<()> {
        Ok(())
    }

    /// Ends a part; what was found in it.
    fn end(&self, part: Part) -> io::Result<Scanned> {
        match part {
            Part::Streamed(mut stream) => {
                stream.write_all(&[0; 4])?;
                Ok(verdict(&stream.answer()?))
            }
            #[cfg(target_os = "linux")]
            Part::Gathered(gathered) => self.ask(gathered),
        }
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

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

impl Session {
    /// Sends the next bytes of the file.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.part {
            Part::Streamed(stream) => send(stream, bytes)?,
            #[cfg(target_os = "linux")]
            Part::Gathered(gathered) => gathered.push(bytes)?,
        }
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.sent = self.sent.saturating_add(count);
        self.tail.extend_from_slice(bytes);
        let surplus = self.tail.len().saturating_sub(CLAMD_OVERLAP);
        self.tail.drain(..surplus);
        Ok(())
    }
}

/// A piece of a stream: its length, which must not be zero, and its bytes.
fn send(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    stream.write_all(&length32(bytes.len()).to_be_bytes())?;
    stream.write_all(bytes)
}

impl Scanner for Clamd {
    fn scan(&mut self, job: &ScanJob) -> Scanned {
        self.look(job).unwrap_or_else(|error| {
            self.sessions.remove(&(job.flow, job.direction));
            Scanned::Failed(format!("clamd: {error}"))
        })
    }
}

/// `stream: OK`, `fd[7]: NAME FOUND`, or an error in words.
fn verdict(answer: &str) -> Scanned {
    let result = match answer.split_once(": ") {
        Some((what, result)) if what == "stream" || what.starts_with("fd[") => result,
        _ => answer,
    };
    if result == "OK" {
        return Scanned::Clean;
    }
    match result.strip_suffix(" FOUND") {
        Some(name) => Scanned::Found(name.to_owned()),
        None => Scanned::Failed(format!("clamd: {result}")),
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
        assert_eq!(verdict("fd[10]: OK"), Scanned::Clean);
        assert_eq!(verdict("fd[10]: Win.Test.EICAR_HDB-1 FOUND"), found);
        for wrong in [
            "",
            "INSTREAM size limit exceeded. ERROR",
            "stream: x ERROR",
            "fd[10]: x",
        ] {
            assert!(matches!(verdict(wrong), Scanned::Failed(_)), "{wrong}");
        }
    }
}
