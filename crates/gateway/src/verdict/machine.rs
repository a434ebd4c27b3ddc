//! The machine of a flow's states: what the policy says of each flow, and what follows for its
//! packets. The diagram stands in the [module](super) above.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::blocked::Blocked;
use super::content::Content;
use super::effects::Effects;
use super::env::{Env, Subject};
use super::event::{DroppedPacket, Ends, Event, EventKind};
use super::reset::Broken;
use super::state::{Decided, FlowState, Stage, State};
use super::torrents::is_about_many;
use super::{FlowId, Offload, Settings, Verdict};
use crate::classify::{Confidence, Inspection, UNKNOWN, Verdict as Classified};
use crate::flow::SynRole;
use crate::inspect::{decoder, expected};
use crate::limits::{KILL_PACKETS, MAX_STEPS, MAX_UNDECIDED_PACKETS, MIN_READ};
use crate::packet::{L4, Packet};
use crate::policy::{Action, Decision, FlowFacts, Found, Moment, Plan};
use crate::tracker::{FlowEntry, Tracked};

/// A packet that asks for its verdict.
#[derive(Clone, Copy)]
pub(super) struct QueuedPacket<'a> {
    pub(super) packet: &'a Packet<'a>,
    /// The name of the packet for the code that asks.
    pub(super) token: u64,
    /// It belongs to a connection that was to be read, in this run or in an earlier one.
    pub(super) watched: bool,
}

/// What a state makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its verdict.
    Done(Verdict),
    /// The flow is in another state now, which is asked about the same packet.
    Again,
}

/// One flow at one moment, with what it is judged by and what that leads to.
pub(super) struct FlowContext<'a> {
    pub(super) now: Duration,
    pub(super) entry: FlowEntry<'a, State>,
    pub(super) env: &'a Env,
    pub(super) blocked: &'a mut Blocked,
    pub(super) effects: &'a mut Effects,
}

impl FlowContext<'_> {
    pub(super) fn own(&mut self) -> &mut State {
        &mut self.entry.flow.attachment.own
    }

    pub(super) fn stage(&self) -> Stage {
        self.entry.flow.attachment.own.stage()
    }

    pub(super) fn subject(&self) -> Subject {
        Subject::of(self.entry.flow, self.entry.slot)
    }

    /// Takes the flow from state to state until one has a verdict on the packet.
    pub(super) fn verdict(&mut self, packet: QueuedPacket<'_>) -> Verdict {
        for _ in 0..MAX_STEPS {
            if let Step::Done(verdict) = self.step(packet) {
                return verdict;
            }
        }
        self.env.missing(self.effects)
    }

    /// What the flow's state makes of a packet.
    fn step(&mut self, packet: QueuedPacket<'_>) -> Step {
        let flow = &*self.entry.flow;
        // Its numbers are another connection's, and would disturb what is read of this one.
        if flow.syn_role(packet.packet) != SynRole::Own {
            return Step::Done(self.other_connection(packet));
        }
        let unseen_beginning = flow.midway && flow.attachment.own.is_undecided();
        if packet.watched
            && unseen_beginning
            && let Some(step) = self.unread(packet)
        {
            return step;
        }
        if let Some(step) = self.torrents(packet) {
            return step;
        }
        let Tracked {
            own, inspection, ..
        } = &self.entry.flow.attachment;
        match &own.flow {
            FlowState::New => self.first(packet),
            FlowState::Classifying { .. } => self.classifying(packet),
            FlowState::Inspecting { .. } => self.inspecting(packet),
            FlowState::Decided(decided) if is_named_late(decided, inspection) => {
                self.decide_again(packet)
            }
            FlowState::Decided(_) => self.stand(packet),
            FlowState::Refused => Step::Done(Verdict::DROP),
        }
    }

    /// A packet of a decided flow that is not read.
    pub(super) fn stand(&mut self, packet: QueuedPacket<'_>) -> Step {
        let flow = &mut *self.entry.flow;
        let (follows, enforces) = (flow.attachment.own.naming.follows(), self.env.enforces());
        let is_about_many = is_about_many(&self.env.policy, flow) || follows;
        let Tracked {
            own, inspection, ..
        } = &mut flow.attachment;
        let Some(decided) = own.decided_mut() else {
            return Step::Again;
        };
        // Who only observes reads on what a rule would block.
        if follows && !enforces && decided.plan.ruling.action == Action::Block {
            return Step::Done(Verdict::DROP);
        }
        let verdict = standing(decided, packet.packet, inspection, is_about_many);
        if verdict == Verdict::DROP && self.env.enforces() {
            flow.close();
            self.effects.reset(&Broken::by(packet.packet));
        }
        Step::Done(verdict)
    }

    /// A packet that may be the beginning of another connection of the same ends. What is decided
    /// on the old one must not become the new one's, so no state settles it. A SYN goes on if it
    /// carries nothing: its data would be taken for the old one's, and its sender repeats it
    /// without (RFC 7413). A SYN-ACK to another SYN than the latest does not: its connection
    /// would not be known for a new one, and its SYN is retransmitted.
    fn other_connection(&mut self, packet: QueuedPacket<'_>) -> Verdict {
        let packet = packet.packet;
        let answers = packet.tcp.is_some_and(|tcp| tcp.ack);
        if answers || !packet.payload.is_empty() {
            return Verdict::DROP;
        }
        let ends = self.ends_of(packet);
        if (self.blocked).refuses(self.now, self.env, &ends, self.effects) {
            return Verdict::DROP;
        }
        Verdict::ACCEPT
    }

    /// The flow's ends as this packet has them, in either direction.
    fn ends_of(&self, packet: &Packet<'_>) -> Ends {
        Ends {
            l4: packet.l4,
            client: packet.source,
            server: packet.destination,
            serial: self.entry.flow.serial,
        }
    }

    /// The first packet of a flow: it may be like one that was just blocked, or be decided without
    /// the classifier.
    fn first(&mut self, packet: QueuedPacket<'_>) -> Step {
        let ends = Ends::of(self.entry.flow);
        let midway = self.entry.flow.midway;
        let announced = self.env.announced.get(self.now, ends.server);
        self.own().announced = announced.map(Box::new);
        if !midway && (self.blocked).refuses(self.now, self.env, &ends, self.effects) {
            self.own().flow = FlowState::Refused;
            return Step::Again;
        }
        let facts = facts(&ends, None, self.env.moment(self.now));
        let mut decision = self.env.policy.decide(&facts);
        if let Decision::Settled(plan) = &mut decision {
            plan.ruling = (self.env).by_quota(&self.env.policy, plan.ruling, &ends, None);
        }
        match decision {
            // From either side: what the policy says without a look inside is true of the packet.
            Decision::Settled(plan) if !self.env.policy.waits_for_name(&plan.ruling) => {
                let found = Box::new(self.found());
                self.settle(packet, plan, found, true)
            }
            Decision::Settled(_) | Decision::NotYet => {
                // Where messages begin is not known of a connection that was picked up midway.
                let reads = self.env.policy.looks_into_content();
                let kept = (ends.l4 == L4::Tcp && !midway && reads).then(|| self.follow());
                self.own().flow = FlowState::Classifying { kept };
                Step::Again
            }
        }
    }

    /// Follows the flow's contents from this packet on.
    fn follow(&mut self) -> Box<Content> {
        self.effects.followed = Some(FlowId {
            slot: self.entry.slot,
            serial: self.entry.flow.serial,
        });
        let Settings {
            scan_window,
            fast_pass,
            ..
        } = self.env.settings;
        Box::new(Content::new(scan_window, self.env.enforces(), fast_pass))
    }

    /// Asks the policy once the classifier has finished, has seen enough packets that it will not,
    /// or has found something whose contents have to be read from the beginning.
    fn classifying(&mut self, packet: QueuedPacket<'_>) -> Step {
        if self.entry.flow.attachment.own.content().is_some() {
            let step = self.take_in(packet);
            if step != Step::Done(Verdict::ACCEPT) {
                return step;
            }
        }
        let known = self.progress();
        if !(known.finished || known.readable) {
            return Step::Done(Verdict::ACCEPT);
        }
        let found = self.found();
        let plan = self.plan(&found);
        let Some(plan) = plan.filter(|plan| known.finished || plan.looks_into_content()) else {
            return Step::Done(Verdict::ACCEPT);
        };
        let answered = self.entry.is_answered();
        let blocks = plan.ruling.action == Action::Block;
        // One side alone may be made up: its packets are dropped, and its host is not named.
        if found.application != UNKNOWN && !answered && (blocks || plan.ruling.audit) {
            if blocks && self.env.enforces() {
                return Step::Done(self.drop_alone(packet, &plan, &found));
            }
            if !known.crowded {
                return Step::Done(Verdict::ACCEPT);
            }
        }
        self.settle(packet, plan, Box::new(found), answered)
    }

    /// How much is known of a flow that is not decided.
    fn progress(&self) -> Progress {
        let flow = &*self.entry.flow;
        let (own, inspection) = (&flow.attachment.own, &flow.attachment.inspection);
        // An announcement counts once there is data: what that certainly is counts more, or any
        // host could pass for a chat's.
        let read = inspection.held() >= MIN_READ && self.entry.is_announced();
        let announced = read || (inspection.has_data() && own.announced.is_some());
        // One that was picked up midway may be one that has to be stopped with its first data: what
        // only acknowledges must not settle it before.
        let mute = flow.midway && !inspection.has_data() && {
            let facts = facts(&Ends::of(flow), None, self.env.moment(self.now));
            self.env.policy.stops_unread(&facts).is_some()
        };
        let crowded = flow.packets >= MAX_UNDECIDED_PACKETS && !mute;
        let looked = inspection.is_done() || inspection.is_overlooked();
        let named = inspection.verdict().is_some();
        Progress {
            crowded,
            finished: looked || crowded || announced,
            // Of what was given up the policy's failure decides, before more of it goes on.
            readable: named && (own.content().is_some() || own.given_up),
        }
    }

    /// Decides by what is known now, if that makes a difference.
    fn decide_again(&mut self, packet: QueuedPacket<'_>) -> Step {
        let found = self.found();
        let plan = self.plan(&found);
        let Some(decided) = self.own().decided_mut() else {
            return Step::Again;
        };
        if plan.is_none_or(|plan| plan == decided.plan) {
            *decided.found = found;
            return self.stand(packet);
        }
        self.own().flow = FlowState::Classifying { kept: None };
        Step::Again
    }

    /// Drops a packet of a flow in which only one side has spoken. Anybody can send it in that
    /// side's name, so it is dropped by itself, and its content is forgotten.
    fn drop_alone(&mut self, packet: QueuedPacket<'_>, plan: &Plan, found: &Classified) -> Verdict {
        let packets = self.entry.flow.packets;
        let alert = (self.env).alert(&self.env.policy, &plan.ruling, found, packets);
        let ends = self.ends_of(packet.packet);
        let (kind, alert) = (EventKind::Drop, alert.unanswered());
        let event = Event {
            names: found.details.clone(),
            dropped: Some(Box::new(DroppedPacket::of(packet.packet))),
            came_by: self.env.came_by,
            ..Event::new(self.now, kind, ends, &found.application, alert)
        };
        if let Some(event) = self.blocked.unanswered.note(self.now, &ends, event) {
            self.effects.note(event);
        }
        self.stop_following(Verdict::DROP);
        self.entry.forget();
        Verdict::DROP
    }

    /// What the policy says of a flow of which this was found. One that is about many torrents is
    /// not refused for its first: its messages are judged by themselves.
    fn plan(&self, found: &Classified) -> Option<Plan> {
        let policy = &self.env.policy;
        let plan = self.plan_of(found)?;
        if !(policy.refuses_torrent(&plan.ruling) && is_about_many(policy, self.entry.flow)) {
            return Some(plan);
        }
        let mut found = found.clone();
        found.details.infohash = None;
        self.plan_of(&found)
    }

    /// What the policy says of a message of which this was found.
    pub(super) fn plan_of(&self, found: &Classified) -> Option<Plan> {
        let ends = Ends::of(self.entry.flow);
        let facts = facts(&ends, Some(found), self.env.moment(self.now));
        match self.env.policy.decide(&facts) {
            Decision::Settled(mut plan) => {
                let policy = &self.env.policy;
                plan.ruling = self.env.by_quota(policy, plan.ruling, &ends, Some(found));
                Some(plan)
            }
            Decision::NotYet => None,
        }
    }

    /// What the classifier found, or another flow had announced.
    pub(super) fn found(&self) -> Classified {
        let announced = &self.entry.flow.attachment.own.announced;
        as_announced(self.entry.conclude(), announced.as_deref())
    }

    /// Decides the flow. `answered`: both sides take part, so that one may be refused or named for
    /// it.
    pub(super) fn settle(
        &mut self,
        packet: QueuedPacket<'_>,
        plan: Plan,
        found: Box<Classified>,
        answered: bool,
    ) -> Step {
        let ruling = plan.ruling;
        let flow = &mut *self.entry.flow;
        let (own, inspection) = (&mut flow.attachment.own, &flow.attachment.inspection);
        // What a conversation announces is for rules on what it announces, also where none is about
        // the conversation.
        let announces =
            inspection.listens() && own.content().is_some() && ruling.action != Action::Block;
        let reads = plan.looks_into_content() || announces;
        let decoder = reads.then(|| match own.announced.take() {
            Some(announced) => expected(announced.application, announced.file),
            None => decoder(&found.application),
        });
        let kept = own.take_content();
        let decided = Decided {
            plan,
            policy: Arc::clone(&self.env.policy),
            after: flow.packets,
            killed: 0,
            found,
        };
        if ruling.action == Action::Block {
            // Of a quota new connections may have some again at any time, and another torrent of
            // the same hosts may be allowed.
            if answered && !ruling.over && !self.env.policy.refuses_torrent(&ruling) {
                let (ends, name) = (Ends::of(flow), &decided.found.application);
                self.blocked.remember(self.now, self.env, &ends, name);
            }
            self.entry.end_inspection();
        }
        self.note_decision(&decided);
        match (decoder.flatten(), kept) {
            (Some(decoder), Some(content)) => {
                self.own().flow = FlowState::Inspecting { decided, content };
                self.begin_reading(packet, decoder)
            }
            (decoder, kept) => {
                self.own().flow = FlowState::Decided(decided);
                match (decoder, kept) {
                    // Picked up midway, or given up before it was known what it is.
                    (Some(_), _) => drop(self.give_up(MIDWAY)),
                    (None, Some(content)) => self.give_back(content, Verdict::ACCEPT, false),
                    (None, None) => {}
                }
                Step::Again
            }
        }
    }
}

impl FlowContext<'_> {
    /// Writes down that a flow is blocked that went on until now.
    pub(super) fn note_block(&mut self) {
        let subject = self.subject();
        let own = &self.entry.flow.attachment.own;
        if let Some(decided) = own.decided() {
            let ruling = &decided.plan.ruling;
            let event = (self.env).event(self.now, EventKind::Alert, &subject, decided, ruling);
            self.effects.note(event);
        }
    }

    /// Writes down what was decided, where that is asked for, and what the flow asked for by name.
    fn note_decision(&mut self, decided: &Decided) {
        let (subject, ruling) = (self.subject(), decided.plan.ruling);
        let named = self.env.settings.names && decided.found.details.name().is_some();
        let judged = ruling.audit || ruling.action == Action::Block;
        for (kind, due) in [(EventKind::Names, named), (EventKind::Alert, judged)] {
            if due {
                let event = (self.env).event(self.now, kind, &subject, decided, &ruling);
                self.effects.note(event);
            }
        }
    }
}

/// Why the contents of a connection are not read whose beginning was not seen.
pub(super) const MIDWAY: &str = "it was not followed from its beginning";

/// How much is known of a flow that is not decided.
struct Progress {
    /// It is not waited for any longer.
    crowded: bool,
    /// The classifier has finished.
    finished: bool,
    /// It has a name, and something of its contents is there to be read.
    readable: bool,
}

/// What was found, unless another flow has announced this one and named it.
pub(super) fn as_announced(
    found: Classified,
    announced: Option<&crate::inspect::Expected>,
) -> Classified {
    match announced {
        Some(announced) if found.confidence < Confidence::Certain => Classified {
            application: announced.known_as().to_owned(),
            confidence: Confidence::Certain,
            evidence: "announced by another flow".to_owned(),
            ..found
        },
        _ => found,
    }
}

/// A flow that was decided before its application was certain has shown it since.
fn is_named_late(decided: &Decided, inspection: &Inspection) -> bool {
    let named = inspection.verdict().map(|verdict| verdict.confidence);
    decided.found.confidence < Confidence::Certain
        && inspection.is_overlooked()
        && named == Some(Confidence::Certain)
}

/// What the policy is asked about.
pub(super) fn facts<'a>(ends: &Ends, found: Option<&'a Classified>, at: Moment) -> FlowFacts<'a> {
    FlowFacts {
        l4: ends.l4,
        client: ends.client,
        server: ends.server,
        found: found.map(|found| Found {
            application: &found.application,
            confidence: found.confidence,
            host: found.details.name(),
            member: found.details.member.as_deref(),
            infohash: found.details.infohash,
        }),
        at,
    }
}

/// What happens to a packet of a decided flow.
fn standing(
    decided: &mut Decided,
    packet: &Packet<'_>,
    inspection: &Inspection,
    is_about_many: bool,
) -> Verdict {
    let ruling = decided.plan.ruling;
    // A conversation that announces other flows goes on being read.
    let listens = inspection.listens();
    let offload = match (ruling.action, ruling.class) {
        (Action::Block, _) => {
            // The first ones after the decision are reset; then the kernel drops the rest.
            let answered = decided.killed >= KILL_PACKETS || packet.l4 == L4::Udp;
            decided.killed = decided.killed.saturating_add(1);
            if !answered {
                return Verdict::DROP;
            }
            Offload::Blocked
        }
        (_, Some(class)) if listens || is_about_many => Offload::WatchedIn(class),
        (_, Some(class)) => Offload::Shaped(class),
        (_, None) if listens => Offload::Watched,
        // Its next message may be about a torrent that is refused, or bring a torrent's name.
        (_, None) if is_about_many => return Verdict::ACCEPT,
        // It may yet be named. Nothing of it is read, and so the kernel is not to remember that it
        // was.
        (_, None) if inspection.is_overlooked() && !inspection.is_done() => return Verdict::ACCEPT,
        (_, None) => Offload::Allowed,
    };
    let offload = Some(offload);
    match ruling.action {
        Action::Block => Verdict::Drop { offload },
        _ => Verdict::Accept { offload },
    }
}
