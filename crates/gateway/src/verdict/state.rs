//! What is kept of a flow for its verdict, and what is told when it is over.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::content::Content;
use crate::classify::Verdict as Classified;
use crate::inspect::Expected;
use crate::policy::{Action, Plan, Policy};
use crate::record::FlowRecord;

/// What is kept of a flow.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) status: Status,
    /// What it carries is followed.
    pub(super) content: Option<Box<Content>>,
    /// It was followed, and is not any more, before anybody knew what it is.
    pub(super) given_up: bool,
    /// It was announced by another flow, which said what it is.
    pub(super) announced: Option<Box<Expected>>,
}

/// How far the decision on a flow is.
#[derive(Clone, Debug, Default)]
pub(super) enum Status {
    /// Its first packet is being looked at.
    #[default]
    New,
    /// The classifier's answer is waited for.
    Undecided,
    /// Decided; the packets of managed flows still come here.
    Decided(Decided),
    /// It was dropped at once, like one before it.
    Refused,
}

/// A decision and when it was made.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    pub(super) plan: Plan,
    /// The policy that made the plan; another one may be at work by now.
    pub(super) policy: Arc<Policy>,
    /// Packets of the flow that were seen by then, that one included.
    pub(super) after: u64,
    /// Packets that were answered with resets.
    pub(super) killed: u8,
    /// What the classifier had found.
    pub(super) found: Box<Classified>,
}

/// A flow that is over, and what the policy said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecidedFlow {
    /// The flow.
    #[serde(flatten)]
    pub record: FlowRecord,
    /// What happens to flows like it.
    pub action: Action,
    /// Name of the rule that decided.
    pub rule: String,
    /// Name of the class of bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Packets that had been seen when it was decided, that one included. Absent: it was over
    /// before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_after: Option<u64>,
    /// It was dropped at its first packet because one like it had just been blocked.
    pub refused: bool,
}

/// A flow that is not over, as a table of flows shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveFlow {
    /// The flow's number in this run of the gateway.
    pub flow_id: u64,
    /// What is known of it so far. Packets that the kernel decided by itself are not counted.
    #[serde(flatten)]
    pub record: FlowRecord,
    /// Whether its beginning was not seen; absent where it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub midway: bool,
    /// What happens to it; absent while it is undecided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Name of the rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Packets that had been seen when it was decided, that one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_after: Option<u64>,
}
