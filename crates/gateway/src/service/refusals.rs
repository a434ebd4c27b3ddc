//! Flows that the kernel carries and whose torrents a new policy refuses: their next packets go to
//! their queue, which resets both ends, or the kernel drops them.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::accounting::{Ends, FlowAccount, KernelFlow, Ledger};
use crate::limits::REFUSAL_LOOKS;
use crate::linux::conntrack::Conntrack;
use crate::linux::marks::Marks;
use crate::policy::{Decision, FlowFacts, Found, Moment, Policy};
use crate::quota::blocked;
use crate::verdict::{Mode, Offload};

/// Looks at all connections for a while after a policy about torrents has come.
pub(super) struct Refusals {
    policy: Arc<Policy>,
    zone: TimeZone,
    marks: Marks,
    /// Looks that are left.
    left: u32,
    /// Looks for which a flow waits for its next packet.
    waiting: HashMap<(u32, Ends), u32>,
    /// Marks that flows have to get once the look is over.
    due: Vec<(KernelFlow, Offload)>,
}

impl Refusals {
    pub(super) fn new(policy: Arc<Policy>, zone: TimeZone, marks: Marks) -> Self {
        Self {
            policy,
            zone,
            marks,
            left: 0,
            waiting: HashMap::new(),
            due: Vec::new(),
        }
    }

    /// Another policy or mode is at work.
    pub(super) fn set_policy(&mut self, policy: Arc<Policy>, mode: Mode) {
        let judges = mode == Mode::Enforce && policy.names_torrents();
        self.left = if judges { REFUSAL_LOOKS } else { 0 };
        self.policy = policy;
        self.waiting.clear();
    }

    /// Flows have to be looked at often.
    pub(super) fn is_wanted(&self) -> bool {
        self.left > 0
    }

    /// A flow that a look shows, which the ledger has taken in.
    pub(super) fn handle_kernel(&mut self, kernel: &KernelFlow, ledger: &Ledger) {
        if self.left == 0 {
            return;
        }
        let Some((known, asks)) = ledger.find(kernel.ends) else {
            return;
        };
        if !self.refuses(known) {
            return;
        }
        let waited = self.waiting.entry((kernel.id, kernel.ends)).or_default();
        let mark = self.marks.read(kernel.mark);
        if let Some(wanted) = blocked(mark, asks, waited).filter(|wanted| mark != Some(*wanted)) {
            self.due.push((*kernel, wanted));
        }
    }

    /// The policy refuses all torrents that the flow has named.
    fn refuses(&self, flow: &FlowAccount) -> bool {
        let refuses = |infohash| {
            let confidence = flow.confidence?;
            let found = Found {
                application: &flow.app,
                confidence,
                host: flow.details.name(),
                member: flow.details.member.as_deref(),
                infohash: Some(infohash),
            };
            let decision = self.policy.decide(&FlowFacts {
                l4: flow.ends.l4()?,
                client: flow.ends.client,
                server: flow.ends.server,
                found: Some(found),
                at: Moment::of(flow.began, &self.zone),
            });
            match decision {
                Decision::Settled(plan) => Some(self.policy.refuses_torrent(&plan.ruling)),
                Decision::NotYet => None,
            }
        };
        let mut torrents = flow.torrents.iter();
        !flow.torrents.is_empty() && torrents.all(|hash| refuses(*hash) == Some(true))
    }

    /// The look is over: flows get their marks.
    pub(super) fn end_look(&mut self, conntrack: &mut Conntrack) {
        self.left = self.left.saturating_sub(1);
        for (flow, verdict) in self.due.drain(..) {
            if let Err(error) = conntrack.mark(&flow, self.marks, verdict) {
                tracing::error!(%error, "a flow whose torrent is refused now cannot be stopped");
            }
        }
    }
}
