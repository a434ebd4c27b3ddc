//! From flows to verdicts: the policy is asked once for each flow, and every packet is told whether it goes on.
//!
//! [`Gateway`] is the whole pipeline with a policy, without any I/O: packets in, a [`Verdict`] for each, and to be polled
//! packets to send ([`Gateway::poll_injection`]), [`Event`]s to write down and [`DecidedFlow`]s that are over. The live path
//! and the replay of captures run the same code.

mod cache;
mod desk;
mod event;
mod gateway;
mod reset;
mod state;

use std::time::Duration;

pub use event::{Event, EventKind};
pub use gateway::Gateway;
pub use state::{DecidedFlow, LiveFlow};

use crate::limits::BLOCKED_FOR;

/// Whether decisions are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everything goes on; what would have happened is written down.
    #[default]
    Observe,
    /// The policy is carried out.
    Enforce,
}

/// How a gateway works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// For how long new connections like a blocked one are dropped at once; zero: they are not.
    pub blocked_for: Duration,
    /// The zone of the policy's times.
    pub zone: jiff::tz::TimeZone,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Observe,
            blocked_for: BLOCKED_FOR,
            zone: jiff::tz::TimeZone::UTC,
        }
    }
}

/// What happens to all further packets of a flow without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// They go on.
    Allowed,
    /// They are dropped.
    Blocked,
    /// They go on in this class, counted from 0 in [`Policy::classes`](crate::policy::Policy::classes).
    Shaped(usize),
}

/// What happens to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It goes on.
    pub pass: bool,
    /// What the kernel may do with the rest of the flow.
    pub settled: Option<Settled>,
}

impl Verdict {
    /// It goes on, and the next one is asked about too.
    pub(crate) const PASS: Self = Self {
        pass: true,
        settled: None,
    };
    /// It is dropped, and the next one is asked about too.
    pub(crate) const DROP: Self = Self {
        pass: false,
        settled: None,
    };
}
