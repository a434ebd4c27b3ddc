//! Flows that are decided already, when a quota is used up or there is room in it again.

use std::net::SocketAddr;
use std::sync::Arc;

use super::env::Env;
use super::event::Ends;
use super::machine::FlowContext;
use super::state::{FlowState, State};
use crate::flow::Flow;
use crate::limits::MAX_READY;
use crate::policy::{Action, Plan, Ruling};
use crate::tracker::Tracked;

/// A decided flow that gets something else from now on, for who carries it without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The side that opened it.
    pub(crate) client: SocketAddr,
    /// The other side.
    pub(crate) server: SocketAddr,
    /// It is blocked.
    pub(crate) blocked: bool,
    /// The class in which it goes on, if in one.
    pub(crate) class: Option<usize>,
}

/// What a decided flow gets from now on, if a quota makes that another thing.
pub(super) fn changed(env: &Env, flow: &Flow<Tracked<State>>) -> Option<Ruling> {
    let decided = flow.attachment.own.decided()?;
    let ruled = decided.plan.ruling;
    // What is blocked for what it carries stays so.
    if ruled.action == Action::Block && !ruled.over {
        return None;
    }
    let base = decided.policy.ruling_of(&ruled)?;
    let found = Some(&*decided.found);
    let ruling = env.by_quota(&decided.policy, base, &Ends::of(flow), found);
    (ruling != ruled && (ruling.over || ruled.over)).then_some(ruling)
}

impl FlowContext<'_> {
    /// Keeps what becomes of a flow for who carries it, if somebody does.
    pub(super) fn note_moved(&mut self, ruling: &Ruling) {
        let Ends { client, server, .. } = Ends::of(self.entry.flow);
        let enforces = self.env.enforces();
        let Some(moved) = self.effects.moved.as_mut().filter(|_| enforces) else {
            return;
        };
        // Past the bound new flows are moved, and this one is not.
        if moved.len() < MAX_READY {
            moved.push_back(Moved {
                client,
                server,
                blocked: ruling.action == Action::Block,
                class: ruling.class,
            });
        }
    }

    /// A decided flow gets this from now on. What it carries goes on to be read, unless it is
    /// blocked.
    pub(super) fn rule_again(&mut self, ruling: Ruling) {
        let policy = Arc::clone(&self.env.policy);
        let Some(decided) = self.own().decided_mut() else {
            return;
        };
        // The class above a quota is the present policy's, in which the rule may stand elsewhere.
        let name = decided.policy.name_of(&ruling).to_owned();
        let rule = policy.rules().iter().position(|rule| rule.name == name);
        let is_current = decided.plan.content.is_empty() && rule.is_some();
        let ruling = if is_current {
            decided.policy = policy;
            Ruling { rule, ..ruling }
        } else {
            ruling
        };
        if ruling.action != Action::Block {
            decided.plan.ruling = ruling;
            if let FlowState::Inspecting { content, .. } = &mut self.own().flow {
                content.set_class(ruling.class);
            }
            return;
        }
        if matches!(self.own().flow, FlowState::Inspecting { .. }) {
            self.block(ruling);
        } else if let Some(decided) = self.own().decided_mut() {
            decided.plan = Plan {
                ruling,
                content: Vec::new(),
            };
            decided.killed = 0;
            self.entry.end_inspection();
        }
        self.note_block();
    }
}

#[cfg(test)]
mod tests;
