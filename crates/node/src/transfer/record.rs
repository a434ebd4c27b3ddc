//! What is kept on disk about a transfer.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ringway_dtl::Priority;
use ringway_transport::MemberId;

use super::arrival::Arrival;
use super::bundle::Bundle;

/// Names a transfer on both sides: 16 random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TransferId(pub(crate) [u8; 16]);

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

/// Which way a transfer goes, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Direction {
    Send,
    Receive,
}

impl Direction {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Direction::Send => "send",
            Direction::Receive => "receive",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Direction> {
        [Direction::Send, Direction::Receive]
            .into_iter()
            .find(|d| d.as_str() == text)
    }
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Will be tried (again).
    Waiting,
    /// The file is being read for its hash.
    Hashing,
    /// The peer is looked for.
    Connecting,
    /// Data flows.
    Active,
    Done,
    Failed,
    Cancelled,
}

impl Phase {
    const ALL: [Phase; 7] = [
        Phase::Waiting,
        Phase::Hashing,
        Phase::Connecting,
        Phase::Active,
        Phase::Done,
        Phase::Failed,
        Phase::Cancelled,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Hashing => "hashing",
            Phase::Connecting => "connecting",
            Phase::Active => "active",
            Phase::Done => "done",
            Phase::Failed => "failed",
            Phase::Cancelled => "cancelled",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.as_str() == text)
    }

    /// True once nothing more will happen.
    pub(crate) fn is_ended(self) -> bool {
        matches!(self, Phase::Done | Phase::Failed | Phase::Cancelled)
    }
}

/// A transfer as stored.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) id: TransferId,
    pub(crate) direction: Direction,
    pub(crate) peer: MemberId,
    /// Of the certificate that the peer had when this was last looked at: it leads to the peer's
    /// next key. 0 where it was never noted.
    pub(crate) peer_serial: u64,
    pub(crate) peer_name: String,
    /// Read from (send) or written to (receive).
    pub(crate) path: PathBuf,
    /// File name without folders.
    pub(crate) file: String,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) priority: Priority,
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    /// BLAKE3 of the content, once known.
    pub(crate) hash: Option<blake3::Hash>,
    /// Unix seconds.
    pub(crate) created: u64,
    /// When it ended, in Unix seconds; none where it has not, or an earlier release did not note
    /// it.
    pub(crate) ended: Option<u64>,
    /// How long data flowed, over all attempts.
    pub(crate) active: Duration,
    /// Bytes moved in that time.
    pub(crate) moved: u64,
    /// Of a transfer that goes out: whether the receiver knows of it, and not of its end.
    pub(crate) offered: bool,
    /// Of a transfer that goes out: whether somebody else has opened the file and handed it over.
    /// Then its path is only a name: nothing is read from there.
    pub(crate) handed: bool,
    /// Of a transfer that comes in: what was decided about it. None where an earlier release did.
    pub(crate) arrival: Option<Arrival>,
    /// What it is, if it is more than one file for one member.
    pub(crate) bundle: Option<Bundle>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_and_directions_survive_their_text_form() {
        for phase in Phase::ALL {
            assert_eq!(Phase::parse(phase.as_str()), Some(phase));
        }
        for direction in [Direction::Send, Direction::Receive] {
            assert_eq!(Direction::parse(direction.as_str()), Some(direction));
        }
    }
}
