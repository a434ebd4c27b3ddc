//! What the gateway does and has done, as it is shown and counted.

use serde::{Deserialize, Serialize};

use super::reload::Reload;
use crate::feed::FeedStatus;
use crate::linux::kernel::InKernel;
use crate::linux::terminate::TerminatedTotals;
use crate::quota::QuotaTotals;
use crate::verdict::Mode;

/// What the gateway does and has done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// The process.
    pub pid: u32,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// The policy at work: the path of its file.
    pub policy: String,
    /// Rules of the policy.
    pub rules: usize,
    /// Seconds until the policy is taken back unless it is confirmed.
    pub reverts_in_s: Option<u64>,
    /// What came of the latest order to load the policy again; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<Reload>,
    /// Queues whose loops answer, and how many there should be.
    pub queues: u64,
    /// How many queues there should be.
    pub queues_begun: u64,
    /// How often another program had changed the packet filter's rules, and they were put back.
    #[serde(default)]
    pub rules_put_back: u64,
    /// Why it is not known whether they are in force; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_not_looked_after: Option<String>,
    /// Lists in files that the policy names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feeds: Vec<FeedStatus>,
    /// Flows that are not over.
    pub flows: u64,
    /// Packets that were queued for a verdict.
    pub packets: u64,
    /// Packets that were dropped of them.
    pub dropped: u64,
    /// What the kernel did by itself; absent without the in-kernel path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_kernel: Option<InKernel>,
    /// Connections that end at the gateway; absent where none can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminated: Option<TerminatedTotals>,
    /// Packets that wait for a scan.
    pub held: u64,
    /// Windows of files that were scanned.
    pub scanned: u64,
    /// Resets that were sent.
    pub resets: u64,
    /// Resets that could not be sent.
    pub resets_failed: u64,
    /// Flows that were forgotten early because there were too many.
    pub evicted: u64,
    /// Events that were written down.
    pub events: u64,
    /// Events that were lost.
    pub events_lost: u64,
    /// Events that could not be written as EVE, counted for each place.
    #[serde(default)]
    pub eve_lost: u64,
    /// Events that were not written because there were too many.
    #[serde(default)]
    pub events_left_out: u64,
    /// Events that were forgotten before their time, to make room.
    #[serde(default)]
    pub events_forgotten: u64,
    /// Packets whose flow was not there: a fault of this program.
    #[serde(default)]
    pub flows_missing: u64,
    /// How many hosts and members use quotas, by rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaTotals>,
}
