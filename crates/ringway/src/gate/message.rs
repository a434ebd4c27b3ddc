//! What the gateway's daemon is asked over its control socket, and what it answers: one JSON object
//! a line, one request a connection.

use std::path::PathBuf;

use ringway_gateway::linux::kernel::InKernel;
use ringway_gateway::linux::terminate::TerminatedTotals;
use ringway_gateway::verdict::{LiveFlow, Mode, Why};
use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(super) enum Request {
    /// What the gateway does and has done.
    Status,
    /// The flows that are not over.
    Flows {
        /// At most so many of each queue.
        most: usize,
    },
    /// Why a flow got what it got.
    Why {
        /// Its number.
        flow: u64,
    },
    /// Another policy.
    Apply {
        /// What it is called in messages.
        file: PathBuf,
        /// Its text.
        text: String,
        /// Whether decisions are carried out; unchanged if absent.
        mode: Option<Mode>,
        /// Seconds after which everything is as before unless it is confirmed.
        confirm: Option<u64>,
    },
    /// The latest policy stays.
    Confirm,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reply {
    /// To `Status`.
    Status(Box<Status>),
    /// To `Flows`.
    Flows(Vec<LiveFlow>),
    /// To `Why`, if the flow is known.
    Why(Option<Box<Why>>),
    /// To `Apply` and `Confirm`: it was done.
    Done(String),
    /// It was not, and why: a line each.
    Refused(Vec<String>),
}

/// What the gateway does and has done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) pid: u32,
    pub(super) uptime_s: u64,
    pub(super) mode: Mode,
    pub(super) policy: String,
    pub(super) rules: usize,
    /// Seconds until the policy is taken back unless it is confirmed.
    pub(super) reverts_in_s: Option<u64>,
    /// Queues whose loops answer, and how many there should be.
    pub(super) queues: u64,
    pub(super) queues_begun: u64,
    /// How often another program had changed the packet filter's rules, and they were put back.
    #[serde(default)]
    pub(super) rules_put_back: u64,
    /// Why it is not known whether they are in force; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rules_not_looked_after: Option<String>,
    pub(super) flows: u64,
    pub(super) packets: u64,
    pub(super) dropped: u64,
    /// What the kernel did by itself; absent without the in-kernel path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) in_kernel: Option<InKernel>,
    /// Connections that end at the gateway; absent where none can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) terminated: Option<TerminatedTotals>,
    pub(super) held: u64,
    pub(super) scanned: u64,
    pub(super) resets: u64,
    pub(super) resets_failed: u64,
    pub(super) evicted: u64,
    pub(super) events: u64,
    pub(super) events_lost: u64,
    /// Events that were not written because there were too many.
    #[serde(default)]
    pub(super) events_left_out: u64,
    /// Events that were forgotten before their time, to make room.
    #[serde(default)]
    pub(super) events_forgotten: u64,
    /// Packets whose flow was not there: a fault of this program.
    #[serde(default)]
    pub(super) flows_missing: u64,
}
