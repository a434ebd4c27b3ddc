//! The decisions: what the policy says of each flow, and what follows for its packets.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::cache::ConnectionCache;
use super::content::Content;
use super::event::{Ends, Event, EventKind};
use super::expected::Announcements;
use super::reset::{Broken, resets};
use super::state::{Decided, DecidedFlow, State, Status};
use super::trace::{Deed, Passing, Traces};
use super::unanswered::Unanswered;
use super::{FilePart, FlowId, Mode, Offload, ScanJob, Settings, Verdict};
use crate::classify::{Classifier, Confidence, Inspection, UNKNOWN, Verdict as Classified};
use crate::flow::{Calling, Flow, Seniority, TableBounds};
use crate::inspect::{decoder, expected, is_announced};
use crate::limits::{KILL_PACKETS, MAX_STEPS, MAX_UNDECIDED_PACKETS, MIN_HEARD};
use crate::packet::{L4, Packet};
use crate::policy::{Action, Decision, Failure, FlowFacts, Found, Moment, Plan, Policy, Ruling};
use crate::tracker::{Tracked, Tracker};

/// Applications many of which share an address: a new connection to it may be something else.
const SHARED: [&str; 3] = ["http", "tls", "quic"];

/// A packet and the place of its flow, valid until the next packet.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) packet: &'a Packet<'a>,
    pub(super) place: usize,
    /// The caller's name for the packet.
    pub(super) token: u64,
}

/// What a state makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its verdict.
    Done(Verdict),
    /// The flow is in another state now, which is asked about the same packet.
    Again,
}

/// Flows and what is decided on them.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) tracker: Tracker<State>,
    pub(super) policy: Arc<Policy>,
    pub(super) settings: Settings,
    pub(super) cache: ConnectionCache,
    pub(super) unanswered: Unanswered,
    pub(super) injections: VecDeque<Vec<u8>>,
    pub(super) events: VecDeque<Event>,
    pub(super) events_dropped: u64,
    /// Packets whose flow was not there.
    pub(super) flows_missing: u64,
    pub(super) over: VecDeque<DecidedFlow>,
    pub(super) over_dropped: u64,
    /// Flows whose contents are followed and that wait for their time.
    pub(super) timed: Vec<FlowId>,
    /// When they are looked at next.
    pub(super) next_look: Duration,
    /// Followed flows that are not decided, the first one first.
    pub(super) early: Seniority,
    /// Bytes that followed flows hold.
    pub(super) content_held: usize,
    pub(super) announced: Announcements,
    pub(super) released: VecDeque<(u64, Verdict)>,
    pub(super) scans: VecDeque<ScanJob>,
    /// Parts of audited files.
    pub(super) parts: VecDeque<FilePart>,
    /// What the next audited file is called.
    pub(super) next_file: u64,
    /// What decisions were made of.
    pub(super) traces: Traces,
    /// The payload to put in place of the packet's own, of the packet that was just handled.
    pub(super) rewritten: Option<Vec<u8>>,
    /// The packet at hand belongs to a connection that was to be read, in this run or in an
    /// earlier one.
    pub(super) watched: bool,
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
            unanswered: Unanswered::default(),
            injections: VecDeque::new(),
            events: VecDeque::new(),
            events_dropped: 0,
            flows_missing: 0,
            over: VecDeque::new(),
            over_dropped: 0,
            timed: Vec::new(),
            next_look: Duration::ZERO,
            early: Seniority::default(),
            content_held: 0,
            announced: Announcements::default(),
            released: VecDeque::new(),
            scans: VecDeque::new(),
            parts: VecDeque::new(),
            next_file: 0,
            traces: Traces::default(),
            rewritten: None,
            watched: false,
        }
    }

    pub(super) fn handle_packet(
        &mut self,
        now: Duration,
        token: u64,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) -> Verdict {
        let place = self.tracker.handle_packet(now, packet);
        self.rewritten = None;
        let before = self.stage(place);
        let seen = Seen {
            packet,
            place,
            token,
        };
        let verdict = self.verdict(now, seen);
        // What is refused is nothing that its hosts do.
        if !(self.settings.mode == Mode::Enforce && self.stage(place).1) {
            self.tracker.learn(place);
        }
        if !bytes.is_empty() {
            self.trace(now, seen, bytes, before);
        }
        verdict
    }

    /// How far a flow is: whether it is decided, and blocked.
    fn stage(&self, place: usize) -> (bool, bool) {
        let status = self
            .tracker
            .flow(place)
            .map(|flow| &flow.attachment.own.status);
        match status {
            Some(Status::Decided(decided)) => (true, decided.plan.ruling.action == Action::Block),
            Some(Status::Refused) => (true, true),
            _ => (false, false),
        }
    }

    /// Keeps a packet that came before the decision, or changed what was known or decided.
    fn trace(&mut self, now: Duration, seen: Seen<'_>, bytes: &[u8], before: (bool, bool)) {
        let after = self.stage(seen.place);
        let Some(flow) = self.tracker.flow(seen.place) else {
            return;
        };
        let deed = Deed {
            named: flow.attachment.named_at == flow.packets,
            decided: after.0 && !before.0,
            blocked: after.1 && !before.1,
        };
        if !before.0 || deed != Deed::default() {
            let passing = Passing {
                number: flow.packets,
                time: now,
                direction: flow.direction(seen.packet),
                bytes,
                payload: seen.packet.payload,
                deed,
            };
            self.traces.note(flow.serial, &passing);
        }
    }

    pub(super) fn finish(&mut self) {
        self.close_refused();
        self.tracker.finish();
    }

    pub(super) fn live_flows(&self) -> usize {
        self.tracker.live_flows()
    }

    pub(super) fn evicted(&self) -> u64 {
        self.tracker.evicted()
    }

    /// Takes the packet's flow from state to state until one has a verdict on it.
    fn verdict(&mut self, now: Duration, seen: Seen<'_>) -> Verdict {
        for _ in 0..MAX_STEPS {
            if let Step::Done(verdict) = self.step(now, seen) {
                return verdict;
            }
        }
        self.missing()
    }

    /// What the flow's state makes of a packet. See the diagram in the [module](super).
    fn step(&mut self, now: Duration, seen: Seen<'_>) -> Step {
        let Some(flow) = self.tracker.flow(seen.place) else {
            return Step::Done(self.missing());
        };
        if flow.calling(seen.packet) != Calling::Own {
            return Step::Done(self.called(now, seen));
        }
        let undecided = matches!(flow.attachment.own.status, Status::New | Status::Undecided);
        if self.watched
            && undecided
            && flow.midway
            && let Some(step) = self.unread(now, seen)
        {
            return step;
        }
        let Some(flow) = self.tracker.flow(seen.place) else {
            return Step::Done(self.missing());
        };
        match &flow.attachment.own.status {
            Status::New => self.first(now, seen),
            Status::Undecided => self.undecided(now, seen),
            Status::Decided(_) if flow.attachment.own.content.is_some() => self.read_on(now, seen),
            Status::Decided(_) if is_named_late(flow) => self.decide_again(now, seen),
            Status::Decided(_) => self.stand(seen),
            Status::Refused => Step::Done(Verdict::DROP),
        }
    }

    /// A packet of a decided flow that nobody reads.
    pub(super) fn stand(&mut self, seen: Seen<'_>) -> Step {
        let Some(flow) = self.tracker.flow_mut(seen.place) else {
            return Step::Done(self.missing());
        };
        let Status::Decided(decided) = &mut flow.attachment.own.status else {
            return Step::Again;
        };
        let verdict = standing(decided, seen.packet, &flow.attachment.inspection);
        if verdict == Verdict::DROP && self.settings.mode == Mode::Enforce {
            flow.close();
            self.injections.extend(resets(&Broken::by(seen.packet)));
        }
        Step::Done(verdict)
    }

    /// The flow of the packet at hand is not there, which is a fault of this program. It is
    /// counted, and nothing goes on by it where the policy fails closed.
    pub(super) fn missing(&mut self) -> Verdict {
        self.flows_missing = self.flows_missing.saturating_add(1);
        match (self.policy.failure(), self.settings.mode) {
            (Failure::Closed, Mode::Enforce) => Verdict::DROP,
            _ => Verdict::ACCEPT,
        }
    }

    /// A packet that may be the beginning of another connection of the same ends. What is decided
    /// on the old one must not become the new one's, so it is settled by nothing. A call goes
    /// on if it carries nothing: what it says would be taken for the old one's, and its sender
    /// repeats it without (RFC 7413). An answer to another call than the latest does not: its
    /// connection would not be known for a new one, and its call is repeated.
    fn called(&mut self, now: Duration, seen: Seen<'_>) -> Verdict {
        let (packet, flow) = (seen.packet, self.tracker.flow(seen.place));
        let answers = packet.tcp.is_some_and(|tcp| tcp.ack);
        if answers || !packet.payload.is_empty() {
            return Verdict::DROP;
        }
        let ends = Ends {
            l4: packet.l4,
            client: packet.source,
            server: packet.destination,
            serial: flow.map_or(0, |flow| flow.serial),
        };
        let announced = self.announced.last(ends.server);
        if self.settings.mode == Mode::Enforce && self.cache.refuses(&ends, now, announced) {
            self.tell_refused();
            return Verdict::DROP;
        }
        Verdict::ACCEPT
    }

    /// The first packet of a flow: it may be one that was just blocked, or be decided without the
    /// classifier.
    fn first(&mut self, now: Duration, seen: Seen<'_>) -> Step {
        let Some(server) = self.tracker.flow(seen.place).map(|flow| flow.server) else {
            return Step::Done(self.missing());
        };
        let announced = self.announced.get(now, server);
        let last = self.announced.last(server);
        let Some(flow) = self.tracker.flow_mut(seen.place) else {
            return Step::Done(self.missing());
        };
        let l4 = flow.l4;
        flow.attachment.own.status = Status::Undecided;
        flow.attachment.own.announced = announced.map(Box::new);
        let enforcing = self.settings.mode == Mode::Enforce;
        if enforcing && !flow.midway && self.cache.refuses(&ends(flow), now, last) {
            flow.attachment.own.status = Status::Refused;
            self.tell_refused();
            return Step::Again;
        }
        let facts = facts(flow, None, Moment::of(now, &self.settings.zone));
        match self.policy.decide(&facts) {
            // Whoever sent it: what the policy says without a look inside is true of the packet.
            Decision::Settled(plan) => self.settle(now, seen, plan, true),
            Decision::NotYet => {
                // Of a connection that was picked up midway nobody knows where its messages begin.
                if l4 == L4::Tcp && !flow.midway && self.policy.looks_into_content() {
                    let id = FlowId {
                        place: seen.place,
                        serial: flow.serial,
                    };
                    let Settings {
                        scan_window,
                        fast_pass,
                        ..
                    } = self.settings;
                    let content = Content::new(scan_window, enforcing, fast_pass);
                    flow.attachment.own.content = Some(Box::new(content));
                    self.early
                        .push(id.place, id.serial, is_early(&self.tracker));
                }
                Step::Again
            }
        }
    }

    /// Asks the policy once the classifier has finished, has seen enough packets that it will not,
    /// or has found something whose contents have to be read from the beginning.
    fn undecided(&mut self, now: Duration, seen: Seen<'_>) -> Step {
        let followed = self.keep(now, seen);
        if let Some(step) = followed
            && step != Step::Done(Verdict::ACCEPT)
        {
            return step;
        }
        let Some(flow) = self.tracker.flow(seen.place) else {
            return Step::Done(self.missing());
        };
        let own = &flow.attachment.own;
        // An announcement counts once there is data: what that certainly is counts more, or any
        // host could pass for a chat's.
        let inspection = &flow.attachment.inspection;
        let heard = inspection.held() >= MIN_HEARD && self.tracker.is_announced(flow);
        let announced = heard || (inspection.has_data() && own.announced.is_some());
        // One that was picked up midway may be one that has to be stopped with its first data: what
        // only acknowledges must not settle it before.
        let mute = flow.midway && !inspection.has_data() && {
            let at = Moment::of(now, &self.settings.zone);
            self.policy.stops_unread(&facts(flow, None, at)).is_some()
        };
        let crowded = flow.packets >= MAX_UNDECIDED_PACKETS && !mute;
        let looked = inspection.is_done() || inspection.is_overlooked();
        let finished = looked || crowded || announced;
        let named = flow.attachment.inspection.verdict().is_some();
        // Of what was given up the policy's failure decides, before more of it goes on.
        let readable = named && (own.content.is_some() || own.given_up);
        if !(finished || readable) {
            return Step::Done(Verdict::ACCEPT);
        }
        let plan = self.plan(now, seen.place);
        let Some(plan) = plan.filter(|plan| finished || plan.looks_into_content()) else {
            return Step::Done(Verdict::ACCEPT);
        };
        let answered = self.tracker.is_answered(seen.place);
        let blocks = plan.ruling.action == Action::Block;
        let known = self.tracker.flow(seen.place).map(|flow| self.found(flow));
        let known = known.is_some_and(|found| found.application != UNKNOWN);
        if known && !answered && (blocks || plan.ruling.audit) {
            if blocks && self.settings.mode == Mode::Enforce {
                return Step::Done(self.drop_alone(now, seen, &plan.ruling));
            }
            if !crowded {
                return Step::Done(Verdict::ACCEPT);
            }
        }
        self.settle(now, seen, plan, answered)
    }

    /// Decides by what is known now, if that makes a difference.
    fn decide_again(&mut self, now: Duration, seen: Seen<'_>) -> Step {
        let plan = self.plan(now, seen.place);
        let found = (self.tracker.flow(seen.place)).map(|flow| Box::new(self.found(flow)));
        if let Some(found) = found
            && let Some(flow) = self.tracker.flow_mut(seen.place)
            && let Status::Decided(decided) = &mut flow.attachment.own.status
        {
            if plan.is_none_or(|plan| plan == decided.plan) {
                decided.found = found;
                return self.stand(seen);
            }
            flow.attachment.own.status = Status::Undecided;
        }
        Step::Again
    }

    /// Drops a packet of a flow in which only one side has spoken. Anybody can send it in that
    /// side's name, so it is dropped by itself, and what it says is forgotten.
    fn drop_alone(&mut self, now: Duration, seen: Seen<'_>, ruling: &Ruling) -> Verdict {
        let Some(flow) = self.tracker.flow(seen.place) else {
            return Verdict::DROP;
        };
        let found = self.found(flow);
        let alert = self.alert(&self.policy, ruling, &found, flow.packets);
        let alert = alert.unanswered();
        let ends = Ends {
            l4: flow.l4,
            client: seen.packet.source,
            server: seen.packet.destination,
            serial: flow.serial,
        };
        let event = Event::new(now, EventKind::Drop, ends, &found.application, alert);
        if let Some(event) = self.unanswered.note(now, &ends, event) {
            self.note(event);
        }
        self.stop_following(seen.place, Verdict::DROP);
        self.tracker.forget(seen.place);
        Verdict::DROP
    }

    /// What the policy says of a flow that the classifier will say no more of.
    fn plan(&self, now: Duration, place: usize) -> Option<Plan> {
        let flow = self.tracker.flow(place)?;
        let verdict = self.found(flow);
        let facts = facts(flow, Some(&verdict), Moment::of(now, &self.settings.zone));
        match self.policy.decide(&facts) {
            Decision::Settled(plan) => Some(plan),
            Decision::NotYet => None,
        }
    }

    /// What the classifier found, or another flow had announced.
    pub(super) fn found(&self, flow: &Flow<Tracked<State>>) -> Classified {
        let found = self.tracker.conclude(flow);
        match &flow.attachment.own.announced {
            Some(announced) if found.confidence < Confidence::Certain => Classified {
                application: announced.known_as().to_owned(),
                confidence: Confidence::Certain,
                evidence: "announced by another flow".to_owned(),
                ..found
            },
            _ => found,
        }
    }

    /// `answered`: both sides take part, so that one may be refused or named for it.
    fn settle(&mut self, now: Duration, seen: Seen<'_>, plan: Plan, answered: bool) -> Step {
        let ruling = plan.ruling;
        let policy = Arc::clone(&self.policy);
        let found = match self.tracker.flow(seen.place) {
            Some(flow) => Box::new(self.found(flow)),
            None => return Step::Done(self.missing()),
        };
        let Some(flow) = self.tracker.flow_mut(seen.place) else {
            return Step::Done(self.missing());
        };
        // What a conversation announces is for rules on what it announces, also where none is about
        // the conversation.
        let announces = flow.attachment.inspection.listens()
            && flow.attachment.own.content.is_some()
            && ruling.action != Action::Block;
        let reads = plan.looks_into_content() || announces;
        let (ends, after) = (ends(flow), flow.packets);
        let decoder = reads.then(|| match flow.attachment.own.announced.take() {
            Some(announced) => expected(announced.application, announced.file),
            None => decoder(&found.application),
        });
        flow.attachment.own.status = Status::Decided(Decided {
            plan,
            policy,
            after,
            killed: 0,
            found: found.clone(),
        });
        if ruling.action == Action::Block {
            if answered {
                self.remember_blocked(now, ends, &found.application);
            }
            self.tracker.end_inspection(seen.place);
        }
        if ruling.audit || ruling.action == Action::Block {
            let mut alert = self.alert(&self.policy, &ruling, &found, after);
            if !self.tracker.is_answered(seen.place) {
                alert = alert.unanswered();
            }
            self.note(Event::new(
                now,
                EventKind::Alert,
                ends,
                &found.application,
                alert,
            ));
        }
        match decoder.flatten() {
            Some(decoder) => self.begin_reading(now, seen, decoder),
            None => {
                self.stop_following(seen.place, Verdict::ACCEPT);
                Step::Again
            }
        }
    }

    /// While observing nobody is blocked, and so nobody is to be refused when that changes.
    pub(super) fn remember_blocked(&mut self, now: Duration, ends: Ends, application: &str) {
        let enforcing = self.settings.mode == Mode::Enforce;
        if enforcing && !SHARED.contains(&application) && !self.settings.blocked_for.is_zero() {
            let until = now.saturating_add(self.settings.blocked_for);
            let announced = is_announced(application).then(|| self.announced.count());
            self.cache.block(&ends, until, announced);
        }
    }
}

/// A flow that was decided without anybody knowing for certain what it is has said so since.
fn is_named_late(flow: &Flow<Tracked<State>>) -> bool {
    let inspection = &flow.attachment.inspection;
    let named = inspection.verdict().map(|verdict| verdict.confidence);
    matches!(&flow.attachment.own.status, Status::Decided(decided)
        if decided.found.confidence < Confidence::Certain)
        && inspection.is_overlooked()
        && named == Some(Confidence::Certain)
}

/// Whether a flow is still followed without anybody knowing what it is.
pub(super) fn is_early(tracker: &Tracker<State>) -> impl FnMut(usize, u64) -> bool {
    |place, serial| {
        tracker.flow(place).is_some_and(|flow| {
            let own = &flow.attachment.own;
            let undecided = matches!(own.status, Status::New | Status::Undecided);
            flow.serial == serial && undecided && own.content.is_some()
        })
    }
}

/// What the policy is asked about.
pub(super) fn facts<'a>(
    flow: &Flow<Tracked<State>>,
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
            member: verdict.details.member.as_deref(),
        }),
        at,
    }
}

/// What happens to a packet of a decided flow.
fn standing(decided: &mut Decided, packet: &Packet<'_>, inspection: &Inspection) -> Verdict {
    let ruling = decided.plan.ruling;
    // A conversation that announces other flows goes on being heard.
    let listens = inspection.listens();
    let offload = match (ruling.action, ruling.class) {
        (Action::Block, _) => {
            // The first ones after the decision are answered; then the kernel drops the rest.
            let answered = decided.killed >= KILL_PACKETS || packet.l4 == L4::Udp;
            decided.killed = decided.killed.saturating_add(1);
            if !answered {
                return Verdict::DROP;
            }
            Offload::Blocked
        }
        (_, Some(class)) if listens => Offload::WatchedIn(class),
        (_, Some(class)) => Offload::Shaped(class),
        (_, None) if listens => Offload::Watched,
        // It may yet be named. Nothing of it is read, and so nobody is to remember that it was.
        (_, None) if inspection.is_overlooked() && !inspection.is_done() => return Verdict::ACCEPT,
        (_, None) => Offload::Allowed,
    };
    let offload = Some(offload);
    match ruling.action {
        Action::Block => Verdict::Drop { offload },
        _ => Verdict::Accept { offload },
    }
}

pub(super) fn ends(flow: &Flow<Tracked<State>>) -> Ends {
    Ends {
        l4: flow.l4,
        client: flow.client,
        server: flow.server,
        serial: flow.serial,
    }
}
