//! Why a transfer is not faster, as one word.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why an active transfer is not faster. It is read and written as [`word`](Self::word).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitedBy {
    /// It is finding out what the path carries: its rate is not known yet.
    SlowStart,
    /// The network would take more than the disk gives.
    Application,
    /// It has priority 0 and yields to other traffic.
    Yielding,
    /// It has priority 0 and all that is free.
    Path,
    /// Losses hold it back.
    Loss,
    /// It is growing.
    Growth,
    /// An upload limit holds it back.
    Capped,
    /// Others have a priority above its 0, under that limit.
    BehindOthers,
    /// The receiver takes no more for now.
    Receiver,
    /// The path holds more than one transfer may have in flight.
    FlowControl,
    /// Nothing arrives from the receiver at all.
    Unanswered,
    /// A word that this version does not know: the daemon is newer.
    Unknown,
}

impl LimitedBy {
    /// All that this version knows.
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

    /// Its word in JSON.
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
            LimitedBy::Unknown => "unknown",
        }
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
        Ok(known.unwrap_or(LimitedBy::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_written() {
        for reason in LimitedBy::ALL {
            let text = serde_json::to_string(&reason).unwrap();
            assert_eq!(text, format!("\"{}\"", reason.word()));
            let read: LimitedBy = serde_json::from_str(&text).unwrap();
            assert_eq!(read, reason);
        }
        let newer: LimitedBy = serde_json::from_str("\"by-the-moon\"").unwrap();
        assert_eq!(newer, LimitedBy::Unknown);
        assert!(serde_json::from_str::<LimitedBy>("7").is_err());
    }
}
