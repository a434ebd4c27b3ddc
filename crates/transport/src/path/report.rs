//! Why a path is used or is not.

use std::fmt;
use std::time::{Duration, Instant};

use super::entry::{Entry, Life, Source};
use crate::address::{Address, LatencyClass};

/// One path as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct PathReport {
    /// Where to.
    pub address: Address,
    /// Whether the peer's HELLO names it.
    pub advertised: bool,
    /// The cost that counts: the user's, or else the peer's.
    pub cost: u32,
    /// Whether the user calls it metered.
    pub metered: bool,
    /// How long messages take.
    pub latency: LatencyClass,
    /// Largest message, bytes.
    pub mtu: u32,
    /// Out over it, back over any; none before it was measured.
    pub rtt: Option<Duration>,
    /// Share of the latest probes that were lost, 0 to 1.
    pub loss: f64,
    /// How long ago the way out was shown to work.
    pub proved: Option<Duration>,
    /// How long ago something came in over it.
    pub heard: Option<Duration>,
    /// Used or not, and why.
    pub state: PathState,
}

/// Whether a path is used, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathState {
    /// Messages go over it.
    Active,
    /// It works, but loses more than the one in use.
    Lossier,
    /// It works, but is metered.
    Metered,
    /// It works, but costs more.
    Dearer,
    /// It works, and costs as much, but takes longer, or not clearly less.
    NotFaster,
    /// It would be better and worked a while ago; it is used once a probe is answered.
    ToBeProbed,
    /// The peer has not yet answered there.
    Unproved,
    /// As many messages as the peer accepts there in a day have left.
    QuotaUsed {
        /// Until the next may leave.
        again_in: Duration,
    },
    /// Probes went unanswered; the next leaves after this time.
    Dead {
        /// Until the next probe.
        again_in: Duration,
    },
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Active => "in use: the best that works",
            Self::Lossier => "works, but loses more",
            Self::Metered => "works, but is metered",
            Self::Dearer => "works, but costs more",
            Self::NotFaster => "works, but is not clearly faster",
            Self::ToBeProbed => "better; to be used once a probe is answered",
            Self::Unproved => "the peer has not yet answered there",
            Self::QuotaUsed { again_in } => {
                let hours = again_in.as_secs().div_ceil(3600);
                return write!(
                    f,
                    "the peer's quota for today is used up; again in {hours} h"
                );
            }
            Self::Dead { again_in } => {
                return write!(
                    f,
                    "does not answer; tried again in {} s",
                    again_in.as_secs()
                );
            }
        };
        f.write_str(text)
    }
}

pub(super) fn of(now: Instant, entry: &Entry, active: Option<&Entry>) -> PathReport {
    let kind = entry.kind();
    let age = |at| now.saturating_duration_since(at);
    PathReport {
        address: entry.address.clone(),
        advertised: entry.source == Source::Advertised,
        cost: kind.cost,
        metered: kind.metered,
        latency: kind.latency,
        mtu: entry.mtu.current(),
        rtt: entry.rtt,
        loss: entry.loss(),
        proved: entry.proved.map(age),
        heard: entry.heard.map(age),
        state: state(now, entry, active),
    }
}

fn state(now: Instant, entry: &Entry, active: Option<&Entry>) -> PathState {
    if let Some(until) = entry.spent {
        let again_in = until.saturating_duration_since(now);
        return PathState::QuotaUsed { again_in };
    }
    match entry.life {
        Life::Unproved => return PathState::Unproved,
        Life::Dead(_, until) => {
            let again_in = until.saturating_duration_since(now);
            return PathState::Dead { again_in };
        }
        Life::Alive(_) => {}
    }
    let Some(active) = active else {
        return PathState::ToBeProbed;
    };
    if active.address == entry.address {
        return PathState::Active;
    }
    let (own, used) = (entry.kind(), active.kind());
    if own < used {
        PathState::ToBeProbed
    } else if own.lossy && !used.lossy {
        PathState::Lossier
    } else if own.metered && !used.metered {
        PathState::Metered
    } else if own == used {
        PathState::NotFaster
    } else {
        PathState::Dearer
    }
}
