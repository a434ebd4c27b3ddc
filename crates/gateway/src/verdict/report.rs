//! What is reported of flows: what they are and got, live and over.

use std::time::Duration;

use super::Verdict;
use super::account::{known, view};
use super::engine::FlowEngine;
use super::event::Ends;
use super::machine::facts;
use super::state::{CACHE_RULE, DecidedFlow, FlowState, LiveFlow, State};
use super::trace::Why;
use crate::classify::Verdict as Classified;
use crate::flow::Flow;
use crate::limits::MAX_READY;
use crate::policy::{Action, Decision, Ruling};
use crate::record::FlowRecord;
use crate::tracker::Tracked;

const BLOCK: Ruling = Ruling {
    action: Action::Block,
    ..Ruling::ALLOW
};

impl FlowEngine {
    /// Why a flow got what it got.
    pub(super) fn why(&self, serial: u64) -> Option<Why> {
        let live = self.tracker.flows().find(|flow| flow.serial == serial);
        let over = live.is_none();
        let flow = match live {
            Some(flow) => self.live(flow),
            None => self.traces.ended(serial)?,
        };
        Some(Why {
            flow,
            over,
            trace: self.traces.packets(serial),
        })
    }

    /// Flows that are not over, the latest first, at most so many.
    pub(super) fn flows(&self, most: usize) -> Vec<LiveFlow> {
        let mut flows: Vec<&Flow<Tracked<State>>> = self.tracker.flows().collect();
        flows.sort_unstable_by_key(|flow| std::cmp::Reverse(flow.last_seen));
        flows.truncate(most);
        flows.into_iter().map(|flow| self.live(flow)).collect()
    }

    fn live(&self, flow: &Flow<Tracked<State>>) -> LiveFlow {
        let (action, rule, decided_after) = match &flow.attachment.own.flow {
            FlowState::Decided(decided) | FlowState::Inspecting { decided, .. } => (
                Some(decided.plan.ruling.action),
                Some(decided.policy.name_of(&decided.plan.ruling).to_owned()),
                Some(decided.after),
            ),
            FlowState::Refused => (Some(Action::Block), Some(CACHE_RULE.to_owned()), Some(1)),
            FlowState::New | FlowState::Classifying { .. } => (None, None, None),
        };
        LiveFlow {
            flow_id: flow.serial,
            record: FlowRecord::new(flow, self.known(flow)),
            midway: flow.midway,
            action,
            rule,
            over_quota: (flow.attachment.own.decided()).is_some_and(|one| one.plan.ruling.over),
            decided_after,
        }
    }

    fn known(&self, flow: &Flow<Tracked<State>>) -> Classified {
        known(flow, self.tracker.conclude(flow))
    }

    /// Takes in the flows that have ended.
    pub(super) fn collect(&mut self, now: Duration) {
        while let Some(mut flow) = self.tracker.poll_finished() {
            if let Some(mut content) = flow.attachment.own.take_content() {
                self.effects.account(content.held(), 0);
                self.effects.parts.extend(content.cut_off(false));
                // What waits was not judged, and must not pass because its flow has ended.
                self.effects.release(content.take_held(), Verdict::DROP);
            }
            if self.accounts.are_wanted() {
                let known = self.known(&flow);
                self.accounts.note(view(&flow, known, Some(now)));
            }
            let over = self.conclude(now, &flow);
            if self.traces.knows(flow.serial) {
                self.traces.end(LiveFlow {
                    flow_id: flow.serial,
                    record: over.record.clone(),
                    midway: flow.midway,
                    action: Some(over.action),
                    rule: Some(over.rule.clone()),
                    over_quota: (flow.attachment.own.decided())
                        .is_some_and(|decided| decided.plan.ruling.over),
                    decided_after: over.decided_after,
                });
            }
            if self.over.len() < MAX_READY {
                self.over.push_back(over);
            } else {
                self.over_dropped = self.over_dropped.saturating_add(1);
            }
        }
    }

    /// What is reported of a flow that is over. One that ended undecided is reported with what
    /// would have happened.
    fn conclude(&self, now: Duration, flow: &Flow<Tracked<State>>) -> DecidedFlow {
        let verdict = self.known(flow);
        let policy = &self.env.policy;
        let (ruling, policy, decided_after) = match &flow.attachment.own.flow {
            FlowState::Decided(decided) | FlowState::Inspecting { decided, .. } => {
                (decided.plan.ruling, &decided.policy, Some(decided.after))
            }
            FlowState::Refused => (BLOCK, policy, Some(1)),
            FlowState::New | FlowState::Classifying { .. } => {
                let facts = facts(&Ends::of(flow), Some(&verdict), self.env.moment(now));
                let ruling = match policy.decide(&facts) {
                    Decision::Settled(plan) => plan.ruling,
                    Decision::NotYet => Ruling::ALLOW,
                };
                (ruling, policy, None)
            }
        };
        let refused = matches!(flow.attachment.own.flow, FlowState::Refused);
        let rule = if refused {
            CACHE_RULE
        } else {
            policy.name_of(&ruling)
        };
        DecidedFlow {
            action: ruling.action,
            rule: rule.to_owned(),
            class: ruling
                .class
                .and_then(|class| policy.classes().get(class))
                .map(|class| class.name.clone()),
            decided_after,
            refused,
            record: FlowRecord::new(flow, verdict),
        }
    }
}
