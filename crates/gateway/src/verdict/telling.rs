//! What is told of flows: what they are and got, live and over, and events to write down.

use std::time::Duration;

use super::cache::Refusals;
use super::desk::{Desk, ends, facts};
use super::event::{Alert, Event, EventKind};
use super::state::{Decided, DecidedFlow, LiveFlow, State, Status};
use super::trace::Why;
use super::{Mode, Verdict};
use crate::classify::{Confidence, UNKNOWN, Verdict as Classified};
use crate::flow::Flow;
use crate::limits::{MAX_EVENTS, MAX_READY};
use crate::policy::{Action, Decision, Moment, Policy, Ruling};
use crate::record::FlowRecord;
use crate::tracker::{Tracked, is_answered};

/// What stands in place of a rule where the connection cache decided.
const CACHE_RULE: &str = "connection-cache";

const BLOCK: Ruling = Ruling {
    action: Action::Block,
    ..Ruling::ALLOW
};

impl Desk {
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
        let (action, rule, decided_after) = match &flow.attachment.own.status {
            Status::Decided(decided) => (
                Some(decided.plan.ruling.action),
                Some(decided.policy.name_of(&decided.plan.ruling).to_owned()),
                Some(decided.after),
            ),
            Status::Refused => (Some(Action::Block), Some(CACHE_RULE.to_owned()), Some(1)),
            Status::New | Status::Undecided => (None, None, None),
        };
        LiveFlow {
            flow_id: flow.serial,
            record: FlowRecord::new(flow, self.known(flow)),
            midway: flow.midway,
            action,
            rule,
            decided_after,
        }
    }

    /// What a flow is called: as the decision found it, unless more is known by now.
    fn known(&self, flow: &Flow<Tracked<State>>) -> Classified {
        let now = self.found(flow);
        match &flow.attachment.own.status {
            Status::Decided(decided) if decided.found.confidence >= now.confidence => {
                (*decided.found).clone()
            }
            _ => now,
        }
    }

    pub(super) fn alert(
        &self,
        policy: &Policy,
        ruling: &Ruling,
        found: &Classified,
        packet: u64,
    ) -> Alert {
        Alert {
            action: self.done(ruling),
            signature: policy.name_of(ruling).to_owned(),
            policy: ruling.action,
            confidence: found.confidence,
            evidence: found.evidence.clone(),
            packet,
            answered: true,
            mode: self.settings.mode,
        }
    }

    /// What is to be told of a decided flow, by this ruling.
    pub(super) fn event_of(
        &self,
        (now, kind): (Duration, EventKind),
        flow: &Flow<Tracked<State>>,
        decided: &Decided,
        ruling: &Ruling,
    ) -> Event {
        let found = &decided.found;
        let mut alert = self.alert(&decided.policy, ruling, found, flow.packets);
        if !is_answered(flow) {
            alert = alert.unanswered();
        }
        Event::new(now, kind, ends(flow), &found.application, alert)
    }

    /// Tells attempts that were refused, as far as it is time to.
    pub(super) fn tell_refused(&mut self) {
        for refusals in self.cache.take_told() {
            let Refusals {
                latest,
                at,
                attempts,
            } = refusals;
            // Only where decisions are carried out is anybody refused.
            let alert = Alert {
                action: "blocked",
                signature: CACHE_RULE.to_owned(),
                policy: Action::Block,
                confidence: Confidence::Guess,
                evidence: "one like it was just blocked".to_owned(),
                packet: 1,
                answered: true,
                mode: Mode::Enforce,
            };
            let mut event = Event::new(at, EventKind::Drop, latest, UNKNOWN, alert);
            event.attempts = Some(attempts);
            self.note(event);
        }
    }

    /// Tells what was refused to those who are not refused any more.
    pub(super) fn expire_refused(&mut self, now: Duration) {
        self.cache.expire(now);
        self.tell_refused();
        for event in self.unanswered.take_told(Some(now)) {
            self.note(event);
        }
    }

    /// Tells all that was refused: nobody will ask again.
    pub(super) fn close_refused(&mut self) {
        self.cache.close();
        self.tell_refused();
        for event in self.unanswered.take_told(None) {
            self.note(event);
        }
    }

    fn done(&self, ruling: &Ruling) -> &'static str {
        match (ruling.action, self.settings.mode) {
            (Action::Block, Mode::Enforce) => "blocked",
            _ => "allowed",
        }
    }

    pub(super) fn note(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else {
            self.events_dropped = self.events_dropped.saturating_add(1);
        }
    }

    /// Takes in the flows that have ended.
    pub(super) fn collect(&mut self, now: Duration) {
        while let Some(mut flow) = self.tracker.poll_finished() {
            if let Some(mut content) = flow.attachment.own.content.take() {
                self.content_held = self.content_held.saturating_sub(content.held());
                self.parts.extend(content.cut_off(false));
                let waiting = content.take_held();
                self.released
                    .extend(waiting.into_iter().map(|token| (token, Verdict::DROP)));
            }
            let over = self.conclude(now, &flow);
            if self.traces.knows(flow.serial) {
                self.traces.end(LiveFlow {
                    flow_id: flow.serial,
                    record: over.record.clone(),
                    midway: flow.midway,
                    action: Some(over.action),
                    rule: Some(over.rule.clone()),
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

    /// What is told of a flow that is over. One that ended undecided is told what would have
    /// happened.
    fn conclude(&self, now: Duration, flow: &Flow<Tracked<State>>) -> DecidedFlow {
        let verdict = self.known(flow);
        let (ruling, policy, decided_after) = match &flow.attachment.own.status {
            Status::Decided(decided) => (decided.plan.ruling, &decided.policy, Some(decided.after)),
            Status::Refused => (BLOCK, &self.policy, Some(1)),
            Status::New | Status::Undecided => {
                let facts = facts(flow, Some(&verdict), Moment::of(now, &self.settings.zone));
                let ruling = match self.policy.decide(&facts) {
                    Decision::Settled(plan) => plan.ruling,
                    Decision::NotYet => Ruling::ALLOW,
                };
                (ruling, &self.policy, None)
            }
        };
        let refused = matches!(flow.attachment.own.status, Status::Refused);
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
