//! What a controller reports of itself.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::priority::Priority;

/// Which half of the algorithm is at work.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Priority 0: less than best effort. The paper's polite mode.
    Scavenger,
    /// Priority N > 0: like N TCP flows. The paper's variable mode.
    Flows,
}

impl From<Priority> for Mode {
    fn from(priority: Priority) -> Mode {
        if priority.is_scavenger() {
            Mode::Scavenger
        } else {
            Mode::Flows
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Scavenger => "scavenger",
            Mode::Flows => "flows",
        })
    }
}

/// Why a flow is not faster. A controller sees the first six; who drives it may know better.
///
/// It is read and written as [`word`](Self::word).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitedBy {
    /// Slow start: the rate of the path is not known yet, or all of a raised priority is on its way
    /// to what it is worth (0.25 to 1, not 1 to 4).
    SlowStart,
    /// The window is not used up: the application, or the receiver, holds sending back.
    Application,
    /// Others need the path, and priority 0 gives way. With the paper's algorithm: the queueing
    /// delay last reached the target, whichever flow filled it.
    Yielding,
    /// Priority 0 has reached its target, and no other seems to need the path: it has what the
    /// path gives.
    Path,
    /// A loss, or an ECN mark, cut the window; with the default algorithm in the last ten seconds,
    /// or it is smaller than before still.
    Loss,
    /// Nothing has cut the window; it is growing.
    Growth,
    /// A limit on what its program sends holds it back.
    Capped,
    /// Flows above its priority 0 come first under such a limit.
    BehindOthers,
    /// The receiver takes no more for now.
    Receiver,
    /// The path holds more than one flow may have in flight.
    FlowControl,
    /// Nothing arrives from the receiver at all.
    Unanswered,
}

impl LimitedBy {
    /// All of them.
    pub const ALL: [LimitedBy; 11] = [
        LimitedBy::SlowStart,
        LimitedBy::Application,
        LimitedBy::Yielding,
        LimitedBy::Path,
        LimitedBy::Loss,
        LimitedBy::Growth,
        LimitedBy::Capped,
        LimitedBy::BehindOthers,
        LimitedBy::Receiver,
        LimitedBy::FlowControl,
        LimitedBy::Unanswered,
    ];

    /// Its word in messages and in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            LimitedBy::SlowStart => "slow-start",
            LimitedBy::Application => "application-limited",
            LimitedBy::Yielding => "yielding",
            LimitedBy::Path => "path-limited",
            LimitedBy::Loss => "loss-limited",
            LimitedBy::Growth => "growing",
            LimitedBy::Capped => "capped",
            LimitedBy::BehindOthers => "behind-others",
            LimitedBy::Receiver => "receiver-limited",
            LimitedBy::FlowControl => "window-limited",
            LimitedBy::Unanswered => "unanswered",
        }
    }
}

impl fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LimitedBy::SlowStart => "slow start",
            LimitedBy::Application => "application",
            LimitedBy::Path => "path",
            LimitedBy::Loss => "loss",
            LimitedBy::Growth => "growth",
            other => other.word(),
        })
    }
}

impl Serialize for LimitedBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for LimitedBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LimitedBy, D::Error> {
        let word = <Cow<'de, str>>::deserialize(deserializer)?;
        let known = LimitedBy::ALL.into_iter().find(|one| one.word() == word);
        known.ok_or_else(|| {
            let words = "why a transfer is not faster: see `limited_by`";
            D::Error::invalid_value(Unexpected::Str(&word), &words)
        })
    }
}

/// The state of a [`Controller`](crate::Controller) at one moment.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The priority in force.
    pub priority: Priority,
    /// Which half of the algorithm is at work.
    pub mode: Mode,
    /// Congestion window in bytes.
    pub window: u64,
    /// Slow start threshold in bytes; `None` until a loss or a delay ended slow start.
    pub ssthresh: Option<u64>,
    /// Smoothed round-trip time; `None` until the first acknowledgement.
    pub srtt: Option<Duration>,
    /// The delay without a queue: the smallest round trip of the last minute (in which something
    /// was sent), or what another route has taught since; with the paper's algorithm the
    /// smallest of its history, of the kind that is in use (one-way or round trip).
    pub base_delay: Option<Duration>,
    /// How much above the base delay the last samples were, without what waits on the way back, as
    /// far as that is known.
    pub queueing_delay: Option<Duration>,
    /// What waits on the way back; `None` unless the receiver reports
    /// ([`on_one_way_delay`](crate::Controller::on_one_way_delay)).
    pub way_back_delay: Option<Duration>,
    /// Pacing rate in bytes per second; `None` until the first acknowledgement.
    pub pacing_rate: Option<u64>,
    /// Why the flow is not faster.
    pub limited_by: LimitedBy,
    /// Bytes sent since the beginning, retransmissions included.
    pub sent_bytes: u64,
    /// Bytes acknowledged since the beginning.
    pub acked_bytes: u64,
    /// Bytes lost since the beginning.
    pub lost_bytes: u64,
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    #[test]
    fn words_differ_and_are_read_again() {
        for (index, reason) in LimitedBy::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "the list has all of them in order");
            let word: StrDeserializer<'_, Error> = reason.word().into_deserializer();
            assert_eq!(LimitedBy::deserialize(word), Ok(reason));
        }
        let other: StrDeserializer<'_, Error> = "tired".into_deserializer();
        assert!(LimitedBy::deserialize(other).is_err());
    }
}
