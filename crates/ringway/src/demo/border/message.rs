//! What the process with the border tells the demo: an object a line.

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Said {
    /// What is going on.
    Now {
        /// For people.
        text: String,
    },
    /// There is no border on this machine.
    Missing {
        /// What is missing and what mends it, in one line.
        reason: String,
    },
    /// Something went wrong that should not.
    Failed {
        /// What happened.
        reason: String,
    },
    /// It is over.
    Shown(Box<Shown>),
}

/// Why there is nothing more to show.
#[derive(Debug)]
pub(super) enum Stop {
    /// This machine cannot do it.
    Missing(String),
    /// It should have gone on.
    Failed(String),
}

/// All that was seen at the border.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Shown {
    /// What the gateway enforced.
    pub(super) policy: String,
    /// The transfer that was blocked.
    pub(super) torrent: Torrent,
    /// The download in a class.
    pub(super) class: Class,
    /// The downloads that were scanned.
    pub(super) files: Files,
    /// `gate why` for the blocked transfer.
    pub(super) why: Why,
    /// `gate top --once` while the class was measured.
    pub(super) top: String,
}

/// A BitTorrent transfer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Torrent {
    /// Bytes of the torrent.
    pub(super) size: u64,
    /// Bytes of it that arrived before the gateway was at work.
    pub(super) before: u64,
    /// Bytes that arrived when it was tried first at the gateway.
    pub(super) arrived: u64,
    /// How often the client connected again.
    pub(super) again: u32,
    /// Bytes that arrived by all of that.
    pub(super) arrived_again: u64,
    /// Seconds for which it tried.
    pub(super) seconds: f64,
}

/// A download in a class of bandwidth.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Class {
    /// The class.
    pub(super) name: String,
    /// Its rate in bits a second.
    pub(super) rate: f64,
    /// Bits a second before the gateway was at work.
    pub(super) before: f64,
    /// Bits of payload a second at the gateway.
    pub(super) measured: f64,
    /// Seconds over which that was measured.
    pub(super) seconds: f64,
}

/// Downloads that are scanned.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Files {
    /// Bytes of the clean file.
    pub(super) clean: u64,
    /// Whether it arrived whole and unchanged.
    pub(super) clean_arrived: bool,
    /// Bytes of the file with the signature.
    pub(super) infected: u64,
    /// Bytes of it that arrived before the gateway was at work.
    pub(super) infected_before: u64,
    /// Bytes of it that arrived at the gateway.
    pub(super) infected_arrived: u64,
    /// What the audit says was found in it.
    pub(super) found: String,
    /// The policy's rule that had it scanned.
    pub(super) rule: String,
}

/// What the gateway says of a flow.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Why {
    /// The flow's number.
    pub(super) flow: u64,
    /// The rule that decided about it.
    pub(super) rule: String,
    /// What `gate why` printed.
    pub(super) text: String,
}
