//! Torrents that packets name. One flow may be about many: a client has one socket for the DHT and
//! its peers by uTP, and keeps its connection to a tracker. So each message is judged by itself,
//! and one that is refused costs no other torrent, and its host nothing.

use std::sync::Arc;
use std::time::Duration;

use super::effects::Effects;
use super::env::{Env, Subject};
use super::event::{Ends, EventKind};
use super::machine::{FlowContext, QueuedPacket, Step, facts};
use super::{Event, Verdict};
use crate::classify::{
    BITTORRENT, LONGEST_PARAMETER, Verdict as Classified, in_datagram, in_frame, in_requests,
};
use crate::flow::{Direction, Flow};
use crate::infohash::InfoHash;
use crate::limits::MAX_FLOW_TORRENTS;
use crate::packet::{L4, Packet};
use crate::policy::{Action, Decision, Plan, Policy, Ruling};
use crate::tracker::Tracked;

use super::state::State;

/// Torrents of one flow.
#[derive(Debug, Default)]
pub(super) struct Torrents {
    /// Those that it was about, in their order.
    seen: Vec<InfoHash>,
    /// The end of what its client has said: a request may be split.
    tail: Vec<u8>,
    /// The one that was refused last.
    refused: Option<InfoHash>,
}

impl Torrents {
    pub(super) fn seen(&self) -> &[InfoHash] {
        &self.seen
    }

    fn note(&mut self, hashes: &[InfoHash]) {
        for hash in hashes {
            if self.seen.len() < MAX_FLOW_TORRENTS && !self.seen.contains(hash) {
                self.seen.push(*hash);
            }
        }
    }

    /// The torrents that the client's next bytes to a tracker name.
    fn asked(&mut self, payload: &[u8]) -> Vec<InfoHash> {
        let mut hashes: Vec<InfoHash> = in_frame(payload).into_iter().collect();
        self.tail.extend_from_slice(payload);
        hashes.extend(in_requests(&self.tail));
        let over = self.tail.len().saturating_sub(LONGEST_PARAMETER);
        self.tail.drain(..over);
        hashes
    }
}

/// Each message of this flow may be about another torrent, and some rule is about torrents: the
/// kernel must not carry it.
pub(super) fn is_about_many(policy: &Policy, flow: &Flow<Tracked<State>>) -> bool {
    let inspection = &flow.attachment.inspection;
    policy.names_torrents()
        && match flow.l4 {
            L4::Udp => {
                let verdict = inspection.verdict();
                verdict.is_some_and(|verdict| verdict.application == BITTORRENT)
            }
            L4::Tcp => inspection.is_about_many(),
        }
}

/// What a decided flow gets from now on because a policy that came later refuses all torrents that
/// it has named. One that is about another torrent as well goes on, message by message.
pub(super) fn refused_since(
    env: &Env,
    now: Duration,
    flow: &Flow<Tracked<State>>,
) -> Option<Ruling> {
    let own = &flow.attachment.own;
    let decided = own.decided()?;
    if decided.plan.ruling.action == Action::Block {
        return None;
    }
    let (ends, moment) = (Ends::of(flow), env.moment(now));
    let mut refused = None;
    for hash in own.named_torrents() {
        let mut found = (*decided.found).clone();
        found.details.infohash = Some(*hash);
        let Decision::Settled(plan) = env.policy.decide(&facts(&ends, Some(&found), moment)) else {
            return None;
        };
        if !env.policy.refuses_torrent(&plan.ruling) {
            return None;
        }
        refused = Some(plan.ruling);
    }
    refused
}

impl FlowContext<'_> {
    /// The flow is refused by the policy at work, which came after it was decided.
    pub(super) fn refuse_since(&mut self, ruling: Ruling) {
        let policy = Arc::clone(&self.env.policy);
        if let Some(decided) = self.own().decided_mut() {
            decided.policy = policy;
        }
        self.rule_again(ruling);
        self.note_moved(&ruling);
    }

    /// What becomes of a packet because of the torrents that it names. `None`: no rule about
    /// torrents refuses one of them.
    pub(super) fn torrents(&mut self, packet: QueuedPacket<'_>) -> Option<Step> {
        let hashes = self.named(packet.packet);
        if hashes.is_empty() || !self.env.policy.names_torrents() || self.stage().blocked {
            return None;
        }
        let found = self.found();
        // A flow that was allowed for one torrent is not for all.
        let any_rule = self.stage().decided;
        let refuses = |ruling: &Ruling| {
            let blocks = ruling.action == Action::Block;
            blocks && (any_rule || self.env.policy.refuses_torrent(ruling))
        };
        for hash in hashes {
            let mut found = found.clone();
            found.details.infohash = Some(hash);
            let refused = self.plan_of(&found).filter(|plan| refuses(&plan.ruling));
            if let Some(plan) = refused {
                return Some(self.refuse_torrent(packet, plan, found));
            }
        }
        None
    }

    /// The torrents that a packet names, noted with its flow. A peer's connection by TCP is about
    /// one, which the classifier finds where the connection begins.
    fn named(&mut self, packet: &Packet<'_>) -> Vec<InfoHash> {
        let flow = &mut *self.entry.flow;
        let (l4, direction) = (flow.l4, flow.direction(packet));
        let Tracked {
            own, inspection, ..
        } = &mut flow.attachment;
        let verdict = inspection.verdict();
        let Some(verdict) = verdict.filter(|verdict| verdict.application == BITTORRENT) else {
            return Vec::new();
        };
        if packet.payload.is_empty() {
            return Vec::new();
        }
        let (judged, noted) = match l4 {
            L4::Udp => (in_datagram(packet.payload), None),
            L4::Tcp if !inspection.is_about_many() => (Vec::new(), verdict.details.infohash),
            L4::Tcp if direction == Direction::FromClient => {
                let torrents = own.torrents.get_or_insert_default();
                (torrents.asked(packet.payload), None)
            }
            L4::Tcp => return Vec::new(),
        };
        if noted.is_some() || !judged.is_empty() {
            let torrents = own.torrents.get_or_insert_default();
            torrents.note(&judged);
            torrents.note(noted.as_slice());
        }
        judged
    }

    /// Refuses a message about a torrent: of UDP the packet, of TCP the connection, because what
    /// its sender says next could not be told from it.
    fn refuse_torrent(&mut self, packet: QueuedPacket<'_>, plan: Plan, found: Classified) -> Step {
        if self.entry.flow.l4 == L4::Tcp {
            let answered = self.entry.is_answered();
            return self.settle(packet, plan, Box::new(found), answered);
        }
        let hash = found.details.infohash;
        let subject = self.subject();
        let torrents = self.own().torrents.get_or_insert_default();
        // Repetitions are no news.
        if torrents.refused != hash {
            torrents.refused = hash;
            self.note_refused(&subject, &plan, found);
        }
        Step::Done(Verdict::DROP)
    }

    fn note_refused(&mut self, subject: &Subject, plan: &Plan, found: Classified) {
        let (env, packets) = (self.env, subject.packets);
        let mut alert = env.alert(&env.policy, &plan.ruling, &found, packets);
        if !subject.answered {
            alert = alert.unanswered();
        }
        let event = Event::new(
            self.now,
            EventKind::Alert,
            subject.ends,
            &found.application,
            alert,
        );
        let effects: &mut Effects = self.effects;
        effects.note(Event {
            names: found.details,
            came_by: env.came_by,
            ..event
        });
    }
}
