//! The machine's other half: flows whose contents are read, judged and held back.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::content::{Answer, Content, ContentContext, Stop};
use super::env::{Subject, Unreadable};
use super::event::{Ends, EventKind};
use super::machine::{FlowContext, MIDWAY, QueuedPacket, Step, facts};
use super::reset::{Broken, question};
use super::state::{Decided, FlowState};
use super::{Mode, Verdict};
use crate::flow::Direction;
use crate::inspect::Decoder;
use crate::limits::{EARLY_RESERVE, MAX_CONTENT};
use crate::policy::{Action, Failure, Plan, Ruling};

impl FlowContext<'_> {
    /// A packet of a decided flow whose contents are read.
    pub(super) fn inspecting(&mut self, packet: QueuedPacket<'_>) -> Step {
        let step = self.take_in(packet);
        let followed = matches!(self.own().flow, FlowState::Inspecting { .. });
        match step {
            // It is not read any more: what was decided stands for this packet too, unless it was
            // blocked with it.
            Step::Done(Verdict::ACCEPT) if !followed => Step::Again,
            step => step,
        }
    }

    /// A decided flow is read from its beginning; the packet at hand stands for what is found.
    pub(super) fn begin_reading(
        &mut self,
        packet: QueuedPacket<'_>,
        decoder: Box<dyn Decoder>,
    ) -> Step {
        let (now, direction) = (self.now, self.entry.flow.direction(packet.packet));
        let mut rewritten = None;
        let outcome = self.with_content(|content, context| {
            // Compressed files cannot be scanned, so this very request must not accept them.
            if context.forbids_codings() {
                content.forbid_codings();
                if direction == Direction::FromClient {
                    rewritten = content.without_codings(packet.packet.payload);
                }
            }
            let stop = content.read_by(decoder, context);
            let waits = stop.is_none() && content.hold_or_accept(now, direction, packet).is_held();
            (stop, waits)
        });
        self.effects.rewritten = self.effects.rewritten.take().or(rewritten);
        match outcome {
            Some((Some(stop), _)) => self.stopped(stop),
            Some((None, true)) => Step::Done(Verdict::HOLD),
            Some((None, false)) => Step::Done(Verdict::ACCEPT),
            None => Step::Done(self.env.missing(self.effects)),
        }
    }

    /// Takes a packet of a followed flow into its contents.
    pub(super) fn take_in(&mut self, packet: QueuedPacket<'_>) -> Step {
        let direction = self.entry.flow.direction(packet.packet);
        // Those that are known leave some for those that are not.
        let known = self.own().decided().is_some();
        let bound = MAX_CONTENT.saturating_sub(if known { EARLY_RESERVE } else { 0 });
        let room = bound.saturating_sub(self.effects.content_held);
        let answer = self.with_content(|content, context| {
            content.handle_packet(direction, packet, room, context)
        });
        let Some(answer) = answer else {
            return Step::Done(self.env.missing(self.effects));
        };
        let Answer {
            verdict,
            rewritten,
            offload,
            stop,
        } = answer;
        // While observing nothing is changed, not even what would fool somebody.
        self.effects.rewritten = rewritten.filter(|_| self.env.enforces());
        if let Some(stop) = stop {
            return self.stopped(stop);
        }
        self.release();
        Step::Done(match verdict.unwrap_or(Verdict::ACCEPT) {
            Verdict::Drop { .. } => Verdict::DROP,
            goes_on => goes_on.with(offload),
        })
    }

    /// Lets the flow's contents work, if they are followed.
    fn with_content<T>(
        &mut self,
        work: impl FnOnce(&mut Content, &mut ContentContext<'_>) -> T,
    ) -> Option<T> {
        let subject = self.subject();
        let own = &mut self.entry.flow.attachment.own;
        let (decided, content) = own.content_mut()?;
        let before = content.held();
        let mut context = ContentContext {
            now: self.now,
            subject,
            decided,
            env: self.env,
            cache: &mut self.blocked.cache,
            effects: self.effects,
        };
        let answer = work(content, &mut context);
        self.effects.account(before, content.held());
        if content.begin_wait() {
            self.effects.timed.push(subject.id);
        }
        Some(answer)
    }

    /// The contents are blocked, or cannot be read any more.
    fn stopped(&mut self, stop: Stop) -> Step {
        match stop {
            Stop::Blocked(ruling) => {
                self.block(ruling);
                Step::Again
            }
            Stop::Lost(reason) => match self.give_up(reason) {
                Failure::Open => Step::Done(Verdict::ACCEPT),
                Failure::Closed => Step::Again,
            },
        }
    }

    /// Stops reading this flow; the policy says what becomes of it.
    pub(super) fn give_up(&mut self, reason: &str) -> Failure {
        let subject = self.subject();
        let decided = self.entry.flow.attachment.own.decided();
        // Of one that is not decided yet, what it carries will not be known, the rest will.
        // Another was read for what it announces only: no rule asks for what it carries.
        let Some(decided) = decided.filter(|decided| decided.plan.looks_into_content()) else {
            self.stop_following(Verdict::ACCEPT);
            return Failure::Open;
        };
        let (ruling, failure) = decided.policy.failure_of_plan(&decided.plan);
        let event = self.env.unreadable(
            self.now,
            EventKind::Alert,
            &Unreadable {
                subject: &subject,
                decided,
                ruling: &ruling,
                failure,
                reason,
            },
        );
        self.effects.note(event);
        match failure {
            Failure::Open => self.stop_following(Verdict::ACCEPT),
            Failure::Closed => self.block(blocking(ruling)),
        }
        failure
    }

    /// Stops a connection that an earlier run read, or this one before it forgot the flow: what is
    /// left of a file would come unread, and is often nothing that names the application.
    /// `None`: the policy lets it go on.
    pub(super) fn unread(&mut self, packet: QueuedPacket<'_>) -> Option<Step> {
        let facts = facts(&Ends::of(self.entry.flow), None, self.env.moment(self.now));
        let ruling = self.env.policy.stops_unread(&facts)?;
        // Not remembered as blocked: a new connection is read from the beginning.
        let decided = Decided {
            plan: Plan {
                ruling: blocking(ruling),
                content: Vec::new(),
            },
            policy: Arc::clone(&self.env.policy),
            after: self.entry.flow.packets,
            killed: 0,
            found: Box::new(self.found()),
        };
        let event = self.env.unreadable(
            self.now,
            EventKind::Alert,
            &Unreadable {
                subject: &self.subject(),
                decided: &decided,
                ruling: &ruling,
                failure: Failure::Closed,
                reason: MIDWAY,
            },
        );
        self.effects.note(event);
        self.own().flow = FlowState::Decided(decided);
        self.entry.end_inspection();
        let step = self.stand(packet);
        if self.env.enforces() {
            // The packet may repeat what its receiver has had for long: its acknowledgement was not
            // seen here.
            let question = question(&Broken::by(packet.packet));
            self.effects.injections.extend(question);
        }
        Some(step)
    }

    /// Blocks a flow for what it carries. What waits of it never arrives.
    pub(super) fn block(&mut self, ruling: Ruling) {
        let Subject { ends, answered, .. } = self.subject();
        let enforces = self.env.enforces();
        let own = &mut self.entry.flow.attachment.own;
        // The resets take their numbers from packets that the end of the inspection lets go.
        if let Some(content) = own.content()
            && enforces
            && own.decided().is_some()
        {
            for direction in [Direction::FromClient, Direction::FromServer] {
                if let Some(broken) = content.first_held(direction) {
                    self.effects.reset(&broken);
                }
            }
        }
        let Some(decided) = own.decided_mut() else {
            return;
        };
        decided.plan = Plan {
            ruling,
            content: Vec::new(),
        };
        decided.killed = 0;
        // A single packet proves nothing, so only a flow with two sides is remembered.
        if answered && !ruling.over {
            let application = &decided.found.application;
            (self.blocked).remember(self.now, self.env, &ends, application);
        }
        self.entry.end_inspection();
        self.stop_following(match self.env.settings.mode {
            Mode::Enforce => Verdict::DROP,
            Mode::Observe => Verdict::ACCEPT,
        });
    }

    /// Forgets the flow's contents; what waits of it gets this verdict. A flow that was inspected
    /// is decided from here on.
    pub(super) fn stop_following(&mut self, verdict: Verdict) {
        let own = self.own();
        let undecided = own.is_undecided();
        if let Some(content) = own.take_content() {
            self.give_back(content, verdict, undecided);
        }
    }

    /// Gives back what the contents hold. `given_up`: before it was known what the flow is.
    pub(super) fn give_back(
        &mut self,
        mut content: Box<Content>,
        verdict: Verdict,
        given_up: bool,
    ) {
        self.own().given_up = given_up;
        self.effects.account(content.held(), 0);
        self.effects
            .parts
            .extend(content.cut_off(verdict.accepts()));
        self.effects.release(content.take_held(), verdict);
    }

    /// Lets go what has waited long enough.
    pub(super) fn release(&mut self) {
        let own = &mut self.entry.flow.attachment.own;
        if let Some((_, content)) = own.content_mut() {
            while let Some((token, goes_on)) = content.poll_released() {
                let verdict = if goes_on {
                    Verdict::ACCEPT
                } else {
                    Verdict::DROP
                };
                self.effects.released.push_back((token, verdict));
            }
        }
    }

    /// Does what is due; returns whether the flow still waits for its time.
    pub(super) fn handle_timeout(&mut self) -> bool {
        let now: Duration = self.now;
        let Some((_, content)) = self.own().content_mut() else {
            return false;
        };
        match content.poll_timeout() {
            None => {
                content.end_wait();
                return false;
            }
            Some(due) if due > now => return true,
            Some(_) => {}
        }
        let stop = self.with_content(Content::handle_timeout);
        match stop.flatten() {
            Some(Stop::Blocked(ruling)) => self.block(ruling),
            Some(Stop::Lost(reason)) => drop(self.give_up(reason)),
            None => {}
        }
        self.release();
        true
    }
}

/// The same ruling, which blocks for what is carried, whatever becomes of a quota.
pub(super) fn blocking(ruling: Ruling) -> Ruling {
    Ruling {
        action: Action::Block,
        over: false,
        ..ruling
    }
}
