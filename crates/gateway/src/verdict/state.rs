//! What is kept of a flow for its verdict, and what is reported when it is over.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::content::Content;
use super::torrent_names::Naming;
use super::torrents::Torrents;
use crate::classify::Verdict as Classified;
use crate::infohash::InfoHash;
use crate::inspect::Expected;
use crate::policy::{Action, Plan, Policy};
use crate::record::FlowRecord;

/// What stands in place of a rule where the connection cache decided.
pub(crate) const CACHE_RULE: &str = "connection-cache";

/// What is kept of a flow.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) flow: FlowState,
    /// Its contents were followed, and are not any more, before it was known what it is.
    pub(super) given_up: bool,
    /// It was announced by another flow, which said what it is.
    pub(super) announced: Option<Box<Expected>>,
    /// The torrents that it names.
    pub(super) torrents: Option<Box<Torrents>>,
    /// What torrents it has shown to be called, and whether it may show more.
    pub(super) naming: Naming,
}

/// How far the decision on a flow is. The diagram stands in the [module](super).
#[derive(Debug, Default)]
pub(super) enum FlowState {
    /// Its first packet is being looked at.
    #[default]
    New,
    /// The classifier's result is awaited.
    Classifying {
        /// What it has carried so far, where a rule may read it.
        kept: Option<Box<Content>>,
    },
    /// Decided, and its contents are read.
    Inspecting {
        decided: Decided,
        content: Box<Content>,
    },
    /// Decided; packets that are not left to the kernel still come here.
    Decided(Decided),
    /// It was dropped at once, like one before it.
    Refused,
}

/// How far a flow is, as traces record it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) decided: bool,
    pub(super) blocked: bool,
    /// Torrents that it has named, and names of torrents that it has shown.
    pub(super) torrents: usize,
    pub(super) torrent_names: usize,
}

impl State {
    /// Nothing is decided on it.
    pub(super) fn is_undecided(&self) -> bool {
        matches!(self.flow, FlowState::New | FlowState::Classifying { .. })
    }

    /// Its contents are followed, and it is not known what it is.
    pub(super) fn is_early(&self) -> bool {
        matches!(self.flow, FlowState::Classifying { kept: Some(_) })
    }

    pub(super) fn stage(&self) -> Stage {
        let refused = matches!(self.flow, FlowState::Refused);
        let blocks = |decided: &Decided| decided.plan.ruling.action == Action::Block;
        Stage {
            decided: refused || self.decided().is_some(),
            blocked: refused || self.decided().is_some_and(blocks),
            torrents: self.named_torrents().len(),
            torrent_names: self.naming.found().len(),
        }
    }

    /// The torrents that it has named.
    pub(super) fn named_torrents(&self) -> &[InfoHash] {
        self.torrents
            .as_ref()
            .map_or(&[], |torrents| torrents.seen())
    }

    /// The decision on it.
    pub(super) fn decided(&self) -> Option<&Decided> {
        match &self.flow {
            FlowState::Decided(decided) | FlowState::Inspecting { decided, .. } => Some(decided),
            FlowState::New | FlowState::Classifying { .. } | FlowState::Refused => None,
        }
    }

    /// The same, to change.
    pub(super) fn decided_mut(&mut self) -> Option<&mut Decided> {
        match &mut self.flow {
            FlowState::Decided(decided) | FlowState::Inspecting { decided, .. } => Some(decided),
            FlowState::New | FlowState::Classifying { .. } | FlowState::Refused => None,
        }
    }

    /// What is followed of its contents.
    pub(super) fn content(&self) -> Option<&Content> {
        match &self.flow {
            FlowState::Classifying { kept } => kept.as_deref(),
            FlowState::Inspecting { content, .. } => Some(content),
            FlowState::New | FlowState::Decided(_) | FlowState::Refused => None,
        }
    }

    /// The same, to work on, with the decision that it is judged by.
    pub(super) fn content_mut(&mut self) -> Option<(Option<&Decided>, &mut Content)> {
        match &mut self.flow {
            FlowState::Classifying { kept } => kept.as_deref_mut().map(|content| (None, content)),
            FlowState::Inspecting { decided, content } => Some((Some(decided), content)),
            FlowState::New | FlowState::Decided(_) | FlowState::Refused => None,
        }
    }

    /// Takes its contents out: they are followed no more.
    pub(super) fn take_content(&mut self) -> Option<Box<Content>> {
        match std::mem::take(&mut self.flow) {
            FlowState::Classifying { kept } => {
                self.flow = FlowState::Classifying { kept: None };
                kept
            }
            FlowState::Inspecting { decided, content } => {
                self.flow = FlowState::Decided(decided);
                Some(content)
            }
            other => {
                self.flow = other;
                None
            }
        }
    }
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

/// A flow that is over, and what the policy decided on it.
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
    /// The flow's number, which no other flow of this machine has.
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
    /// The quota of the rule is used up, and so it gets what is above it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_quota: bool,
    /// Packets that had been seen when it was decided, that one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_after: Option<u64>,
}
