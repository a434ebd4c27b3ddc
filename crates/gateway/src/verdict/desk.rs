//! The decisions: what the policy says of each flow, and what follows for its packets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::cache::ConnectionCache;
use super::event::{Alert, Ends, Event, EventKind};
use super::reset::resets;
use super::state::{Decided, DecidedFlow, LiveFlow, Status};
use super::{Mode, Settings, Settled, Verdict};
use crate::classify::{Classifier, Confidence, UNKNOWN, Verdict as Classified};
use crate::flow::{Flow, TableBounds};
use crate::limits::{KILL_PACKETS, MAX_EVENTS, MAX_READY, MAX_UNDECIDED_PACKETS};
use crate::packet::{L4, Packet};
use crate::policy::{Action, Decision, FlowFacts, Found, Moment, Plan, Policy, Ruling};
use crate::record::FlowRecord;
use crate::tracker::{Tracked, Tracker};

/// Applications many of which share an address: a new connection to it may be something else.
const SHARED: [&str; 3] = ["http", "tls", "quic"];
/// What stands in place of a rule where the connection cache decided.
const CACHE_RULE: &str = "connection-cache";

/// A packet and the place of its flow, valid until the next packet.
#[derive(Clone, Copy)]
struct Seen<'a> {
    packet: &'a Packet<'a>,
    place: usize,
}

/// Flows and what is decided on them.
#[derive(Debug)]
pub(super) struct Desk {
    tracker: Tracker<Status>,
    pub(super) policy: Arc<Policy>,
    pub(super) settings: Settings,
    cache: ConnectionCache,
    pub(super) injections: VecDeque<Vec<u8>>,
    pub(super) events: VecDeque<Event>,
    pub(super) events_dropped: u64,
    pub(super) over: VecDeque<DecidedFlow>,
    pub(super) over_dropped: u64,
}

impl Desk {
    pub(super) fn new(
        classifier: Classifier,
        bounds: TableBounds,
        policy: Arc<Policy>,
        settings: Settings,
    ) -> Self {
        Self {
            tracker: Tracker::new(classifier, bounds),
            policy,
            settings,
            cache: ConnectionCache::default(),
            injections: VecDeque::new(),
            events: VecDeque::new(),
            events_dropped: 0,
            over: VecDeque::new(),
            over_dropped: 0,
        }
    }

    pub(super) fn handle_packet(&mut self, now: Duration, packet: &Packet<'_>) -> Verdict {
        let place = self.tracker.handle_packet(now, packet);
        self.verdict(now, Seen { packet, place })
    }

    pub(super) fn finish(&mut self) {
        self.tracker.finish();
    }

    pub(super) fn live_flows(&self) -> usize {
        self.tracker.live_flows()
    }

    pub(super) fn evicted(&self) -> u64 {
        self.tracker.evicted()
    }

    /// Flows that are not over, the latest first, at most so many.
    pub(super) fn flows(&self, most: usize) -> Vec<LiveFlow> {
        let mut flows: Vec<&Flow<Tracked<Status>>> = self.tracker.flows().collect();
        flows.sort_unstable_by_key(|flow| std::cmp::Reverse(flow.last_seen));
        flows.truncate(most);
        flows.into_iter().map(|flow| self.live(flow)).collect()
    }

    fn live(&self, flow: &Flow<Tracked<Status>>) -> LiveFlow {
        let (action, rule, decided_after) = match &flow.attachment.own {
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
            record: FlowRecord::new(flow, self.tracker.conclude(flow)),
            action,
            rule,
            decided_after,
        }
    }

    fn verdict(&mut self, now: Duration, seen: Seen<'_>) -> Verdict {
        let Some(flow) = self.tracker.flow_mut(seen.place) else {
            return Verdict::PASS;
        };
        match &mut flow.attachment.own {
            Status::Decided(decided) => {
                let verdict = standing(decided, seen.packet);
                if verdict == Verdict::DROP && self.settings.mode == Mode::Enforce {
                    self.injections.extend(resets(seen.packet));
                }
                verdict
            }
            Status::Refused => Verdict::DROP,
            Status::New => self.first(now, seen),
            Status::Undecided => self.undecided(now, seen),
        }
    }

    /// The first packet of a flow: it may be one that was just blocked, or be decided without the classifier.
    fn first(&mut self, now: Duration, seen: Seen<'_>) -> Verdict {
        let Some(flow) = self.tracker.flow_mut(seen.place) else {
            return Verdict::PASS;
        };
        let (l4, client, server) = (flow.l4, flow.client, flow.server);
        flow.attachment.own = Status::Undecided;
        let enforcing = self.settings.mode == Mode::Enforce;
        if enforcing && !flow.midway && self.cache.holds(l4, client.ip(), server, now) {
            flow.attachment.own = Status::Refused;
            let ends = ends(flow);
            self.refused(now, ends);
            return Verdict::DROP;
        }
        let facts = facts(flow, None, Moment::of(now, &self.settings.zone));
        match self.policy.decide(&facts) {
            Decision::Settled(plan) => self.settle(now, seen, plan),
            Decision::NotYet => self.undecided(now, seen),
        }
    }

    /// Asks the policy once the classifier has finished, or has seen enough packets that it will not.
    fn undecided(&mut self, now: Duration, seen: Seen<'_>) -> Verdict {
        let Some(flow) = self.tracker.flow_mut(seen.place) else {
            return Verdict::PASS;
        };
        if !flow.attachment.inspection.is_done() && flow.packets < MAX_UNDECIDED_PACKETS {
            return Verdict::PASS;
        }
        let Some(plan) = self.plan(now, seen.place) else {
            return Verdict::PASS;
        };
        self.settle(now, seen, plan)
    }

    /// What the policy says of a flow that the classifier will say no more of.
    fn plan(&self, now: Duration, place: usize) -> Option<Plan> {
        let flow = self.tracker.flow(place)?;
        let verdict = self.tracker.conclude(flow);
        let facts = facts(flow, Some(&verdict), Moment::of(now, &self.settings.zone));
        match self.policy.decide(&facts) {
            Decision::Settled(plan) => Some(plan),
            Decision::NotYet => None,
        }
    }

    fn settle(&mut self, now: Duration, seen: Seen<'_>, plan: Plan) -> Verdict {
        let ruling = plan.ruling;
        let policy = Arc::clone(&self.policy);
        let (ends, after) = {
            let Some(flow) = self.tracker.flow_mut(seen.place) else {
                return Verdict::PASS;
            };
            let after = flow.packets;
            flow.attachment.own = Status::Decided(Decided {
                plan,
                policy,
                after,
                killed: 0,
            });
            (ends(flow), after)
        };
        let verdict = match self.tracker.flow(seen.place) {
            Some(flow) => self.tracker.conclude(flow),
            None => return Verdict::PASS,
        };
        if ruling.action == Action::Block {
            let shared = SHARED.contains(&verdict.application.as_str());
            // While observing nobody is blocked, and so nobody is to be refused when that changes.
            let enforcing = self.settings.mode == Mode::Enforce;
            if enforcing && !shared && !self.settings.blocked_for.is_zero() {
                let until = now.saturating_add(self.settings.blocked_for);
                self.cache
                    .block(ends.l4, ends.client.ip(), ends.server, until);
            }
        }
        if ruling.audit || ruling.action == Action::Block {
            let alert = Alert {
                action: self.done(&ruling),
                signature: self.policy.name_of(&ruling).to_owned(),
                policy: ruling.action,
                confidence: verdict.confidence,
                evidence: verdict.evidence,
                packet: after,
                mode: self.settings.mode,
            };
            self.note(Event::new(
                now,
                EventKind::Alert,
                ends,
                &verdict.application,
                alert,
            ));
        }
        self.verdict(now, seen)
    }

    fn refused(&mut self, now: Duration, ends: Ends) {
        let alert = Alert {
            action: match self.settings.mode {
                Mode::Enforce => "blocked",
                Mode::Observe => "allowed",
            },
            signature: CACHE_RULE.to_owned(),
            policy: Action::Block,
            confidence: Confidence::Guess,
            evidence: "one like it was just blocked".to_owned(),
            packet: 1,
            mode: self.settings.mode,
        };
        self.note(Event::new(now, EventKind::Drop, ends, UNKNOWN, alert));
    }

    fn done(&self, ruling: &Ruling) -> &'static str {
        match (ruling.action, self.settings.mode) {
            (Action::Block, Mode::Enforce) => "blocked",
            _ => "allowed",
        }
    }

    fn note(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else {
            self.events_dropped = self.events_dropped.saturating_add(1);
        }
    }

    /// Takes in the flows that have ended.
    pub(super) fn collect(&mut self, now: Duration) {
        while let Some(flow) = self.tracker.poll_finished() {
            let over = self.conclude(now, &flow);
            if self.over.len() < MAX_READY {
                self.over.push_back(over);
            } else {
                self.over_dropped = self.over_dropped.saturating_add(1);
            }
        }
    }

    /// What is told of a flow that is over. One that ended undecided is told what would have happened.
    fn conclude(&self, now: Duration, flow: &Flow<Tracked<Status>>) -> DecidedFlow {
        let verdict = self.tracker.conclude(flow);
        let (ruling, policy, decided_after) = match &flow.attachment.own {
            Status::Decided(decided) => (decided.plan.ruling, &decided.policy, Some(decided.after)),
            Status::Refused => (BLOCK, &self.policy, Some(1)),
            Status::New | Status::Undecided => {
                let facts = facts(flow, Some(&verdict), Moment::of(now, &self.settings.zone));
                let ruling = match self.policy.decide(&facts) {
                    Decision::Settled(plan) => plan.ruling,
                    Decision::NotYet => ALLOW,
                };
                (ruling, &self.policy, None)
            }
        };
        let refused = matches!(flow.attachment.own, Status::Refused);
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

/// What the policy is asked about.
fn facts<'a>(
    flow: &Flow<Tracked<Status>>,
    verdict: Option<&'a Classified>,
    at: Moment,
) -> FlowFacts<'a> {
    FlowFacts {
        l4: flow.l4,
        client: flow.client,
        server: flow.server,
        found: verdict.map(|verdict| Found {
            application: &verdict.application,
            confidence: verdict.confidence,
            host: verdict.details.name(),
            member: None,
        }),
        at,
    }
}

const ALLOW: Ruling = Ruling {
    action: Action::Allow,
    rule: None,
    class: None,
    audit: false,
};

const BLOCK: Ruling = Ruling {
    action: Action::Block,
    ..ALLOW
};

/// What happens to a packet of a decided flow.
fn standing(decided: &mut Decided, packet: &Packet<'_>) -> Verdict {
    let ruling = decided.plan.ruling;
    let settled = match (ruling.action, ruling.class) {
        (Action::Block, _) => {
            // The first ones after the decision are answered; then the kernel drops the rest.
            let answered = decided.killed >= KILL_PACKETS || packet.l4 == L4::Udp;
            decided.killed = decided.killed.saturating_add(1);
            if !answered {
                return Verdict::DROP;
            }
            Settled::Blocked
        }
        (_, Some(class)) => Settled::Shaped(class),
        (_, None) => Settled::Allowed,
    };
    Verdict {
        pass: settled != Settled::Blocked,
        settled: Some(settled),
    }
}

fn ends(flow: &Flow<Tracked<Status>>) -> Ends {
    Ends {
        l4: flow.l4,
        client: flow.client,
        server: flow.server,
        serial: flow.serial,
    }
}
