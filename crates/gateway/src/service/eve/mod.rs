//! Where events go as EVE: files, Unix sockets, syslog. None of them is waited for.

mod file;
mod socket;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use self::file::EveFile;
use self::socket::{EveSocket, Frame};
use crate::eve::{EveKind, EveKinds};

/// The socket of the system's log.
const SYSLOG: &str = "/dev/log";

/// A place to which events are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EveTarget {
    /// A file, a line for each event: any path without one of the prefixes below.
    File(PathBuf),
    /// A Unix socket on which a reader listens, of streams or of datagrams: `unix:PATH`.
    Unix(PathBuf),
    /// The system's log, by the socket on which it listens: `syslog:`, or `syslog:PATH`.
    Syslog(PathBuf),
}

impl EveTarget {
    /// The path of the file; `None` for a socket.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Unix(_) | Self::Syslog(_) => None,
        }
    }
}

/// What names no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no place for events: take FILE, unix:PATH or syslog:")]
pub struct NoTarget(String);

impl FromStr for EveTarget {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Self, NoTarget> {
        let wrong = || NoTarget(text.to_owned());
        Ok(match text.split_once(':') {
            Some(("unix", "")) => return Err(wrong()),
            Some(("unix", path)) => Self::Unix(path.into()),
            Some(("syslog", "")) => Self::Syslog(SYSLOG.into()),
            Some(("syslog", path)) => Self::Syslog(path.into()),
            _ if text.is_empty() => return Err(wrong()),
            _ => Self::File(text.into()),
        })
    }
}

impl fmt::Display for EveTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Syslog(path) => write!(f, "syslog:{}", path.display()),
        }
    }
}

/// Which events are written as EVE, and where.
#[derive(Clone, Debug, Default)]
pub struct EveConfig {
    /// Where; nowhere if it is empty.
    pub targets: Vec<EveTarget>,
    /// Which kinds.
    pub kinds: EveKinds,
    /// Bytes that a file and its predecessor may have together.
    pub file_size: u64,
    /// The sensor's name in events. `None`: this machine's.
    pub sensor: Option<String>,
}

impl EveConfig {
    /// The sensor's name.
    pub(super) fn sensor_name(&self) -> Option<String> {
        let machine = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let name = self.sensor.clone().or_else(machine)?;
        let name = name.trim();
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// Events of this kind are written somewhere.
    pub(super) fn wants(&self, kind: EveKind) -> bool {
        !self.targets.is_empty() && self.kinds.has(kind)
    }
}

/// A written event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Its object, without an end of line.
    pub(super) json: Vec<u8>,
    /// The time since the Unix epoch.
    pub(super) at: Duration,
    /// Its kind; absent in tests.
    pub(super) kind: Option<EveKind>,
}

impl Line {
    pub(super) fn of(
        kind: EveKind,
        at: Duration,
        event: &impl Serialize,
    ) -> Result<Line, serde_json::Error> {
        Ok(Line {
            json: serde_json::to_vec(event)?,
            at,
            kind: Some(kind),
        })
    }
}

/// All places to which events go.
#[derive(Debug, Default)]
pub(super) struct EveOutputs {
    files: Vec<EveFile>,
    sockets: Vec<EveSocket>,
}

impl EveOutputs {
    /// Opens the files. Readers of sockets may come later.
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub(super) fn open(config: &EveConfig) -> io::Result<EveOutputs> {
        let mut outputs = EveOutputs::default();
        for target in &config.targets {
            match target {
                EveTarget::File(path) => {
                    let file = EveFile::open(path, config.file_size).map_err(|error| {
                        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                    })?;
                    outputs.files.push(file);
                }
                EveTarget::Unix(path) => {
                    outputs.sockets.push(EveSocket::new(path, Frame::Line));
                }
                EveTarget::Syslog(path) => {
                    let host = config.sensor_name();
                    outputs
                        .sockets
                        .push(EveSocket::new(path, Frame::syslog(host)));
                }
            }
        }
        Ok(outputs)
    }

    /// Writes events to all places. Returns how many are lost, counted for each place.
    pub(super) fn append(&mut self, lines: &[Line]) -> u64 {
        let mut lost = 0_u64;
        for file in &mut self.files {
            if let Err(error) = file.append(lines) {
                tracing::error!(%error, count = lines.len(), "events are missing from the EVE file");
                lost = lost.saturating_add(u64::try_from(lines.len()).unwrap_or(u64::MAX));
            }
        }
        for socket in &mut self.sockets {
            lost = lost.saturating_add(socket.append(lines));
        }
        lost
    }

    /// Gives readers what waits for them; returns how many events are lost, and whether more wait.
    pub(super) fn flush(&mut self) -> (u64, bool) {
        let (mut lost, mut waits) = (0_u64, false);
        for socket in &mut self.sockets {
            lost = lost.saturating_add(socket.flush());
            waits |= socket.waits();
        }
        (lost, waits)
    }

    /// Events that wait for their readers, who get no more time.
    pub(super) fn waiting(&self) -> u64 {
        let waiting = self.sockets.iter().map(EveSocket::waiting);
        waiting.fold(0, u64::saturating_add)
    }

    /// Opens all files again, by their names.
    pub(super) fn reopen(&mut self) {
        for file in &mut self.files {
            if let Err(error) = file.reopen() {
                tracing::error!(%error, "an EVE file could not be opened again: the old one is written on");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EveTarget;

    #[test]
    fn places_are_written_as_they_are_read() {
        for (text, shown) in [
            ("/var/log/eve.json", "/var/log/eve.json"),
            ("unix:/run/eve.sock", "unix:/run/eve.sock"),
            ("syslog:", "syslog:/dev/log"),
            ("syslog:/tmp/log", "syslog:/tmp/log"),
            ("C:odd", "C:odd"),
        ] {
            assert_eq!(text.parse::<EveTarget>().unwrap().to_string(), shown);
        }
        for wrong in ["", "unix:"] {
            let error = wrong.parse::<EveTarget>().unwrap_err();
            assert!(error.to_string().contains("syslog:"), "{error}");
        }
    }
}
