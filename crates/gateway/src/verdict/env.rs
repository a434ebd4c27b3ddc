//! What steps of the machine look up and never change: the policy, the settings, and what flows of
//! this border have announced.

use std::sync::Arc;
use std::time::Duration;

use super::effects::Effects;
use super::event::{Alert, Ends, Event, EventKind};
use super::expected::Announcements;
use super::state::{Decided, State};
use super::{FlowId, Mode, Settings, Verdict};
use crate::classify::Verdict as Classified;
use crate::flow::Flow;
use crate::policy::{Action, Failure, Moment, Policy, Ruling};
use crate::quota::{AboveNow, OverQuota, Owner};
use crate::torrent::TorrentNames;
use crate::tracker::{Tracked, is_answered};

/// By what flows are judged.
#[derive(Debug)]
pub(super) struct Env {
    pub(super) policy: Arc<Policy>,
    pub(super) settings: Settings,
    pub(super) announced: Announcements,
    /// What torrents are called, as far as that was seen.
    pub(super) torrent_names: TorrentNames,
    /// The number of the interface by which the packet at hand came; 0: it is not known.
    pub(super) came_by: u32,
    /// Who is above a quota, and the latest of it that flows were decided by.
    pub(super) over_quota: OverQuota,
    pub(super) above: Arc<AboveNow>,
    /// Changes of it that were taken in.
    pub(super) above_changes: u64,
}

/// Which flow an event is about, and how far it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) id: FlowId,
    pub(super) ends: Ends,
    /// Packets of the flow so far.
    pub(super) packets: u64,
    /// Both sides take part in what it is said to be.
    pub(super) answered: bool,
}

impl Subject {
    pub(super) fn of(flow: &Flow<Tracked<State>>, slot: usize) -> Self {
        Self {
            id: FlowId {
                slot,
                serial: flow.serial,
            },
            ends: Ends::of(flow),
            packets: flow.packets,
            answered: is_answered(flow),
        }
    }
}

/// A flow whose contents cannot be read, and what follows.
pub(super) struct Unreadable<'a> {
    pub(super) subject: &'a Subject,
    pub(super) decided: &'a Decided,
    pub(super) ruling: &'a Ruling,
    pub(super) failure: Failure,
    pub(super) reason: &'a str,
}

impl Env {
    /// Decisions are carried out.
    pub(super) fn enforces(&self) -> bool {
        self.settings.mode == Mode::Enforce
    }

    /// The time as the policy's schedules see it.
    pub(super) fn moment(&self, now: Duration) -> Moment {
        Moment::of(now, &self.settings.zone)
    }

    /// What becomes of a ruling by this policy, if the quota of its rule is used up.
    pub(super) fn by_quota(
        &self,
        policy: &Policy,
        ruling: Ruling,
        ends: &Ends,
        found: Option<&Classified>,
    ) -> Ruling {
        if self.above.is_empty() || ruling.rule.is_none() {
            return ruling;
        }
        let (client, server) = (ends.client.ip(), ends.server.ip());
        let owner = Owner {
            client,
            server,
            way: policy.way(client, server),
            member: found.and_then(|found| found.details.member.as_deref()),
        };
        let over = self.above.over(policy.name_of(&ruling), &owner);
        over.map_or(ruling, |over| ruling.above(over))
    }

    /// The flow of a packet is not there, which is a fault of this program. It is counted, and
    /// nothing goes on by it where the policy fails closed.
    pub(super) fn missing(&self, effects: &mut Effects) -> Verdict {
        effects.flows_missing = effects.flows_missing.saturating_add(1);
        match (self.policy.failure(), self.settings.mode) {
            (Failure::Closed, Mode::Enforce) => Verdict::DROP,
            _ => Verdict::ACCEPT,
        }
    }

    /// A decision by a rule of `policy`, made with the packet of this number.
    pub(super) fn alert(
        &self,
        policy: &Policy,
        ruling: &Ruling,
        found: &Classified,
        packet: u64,
    ) -> Alert {
        let action = match (ruling.action, self.settings.mode) {
            (Action::Block, Mode::Enforce) => "blocked",
            _ => "allowed",
        };
        Alert {
            action,
            signature: policy.name_of(ruling).to_owned(),
            policy: ruling.action,
            confidence: found.confidence,
            evidence: if ruling.over {
                format!("its quota is used up; {}", found.evidence)
            } else {
                found.evidence.clone()
            },
            packet,
            answered: true,
            mode: self.settings.mode,
        }
    }

    /// What is written down of a decided flow, by this ruling.
    pub(super) fn event(
        &self,
        now: Duration,
        kind: EventKind,
        subject: &Subject,
        decided: &Decided,
        ruling: &Ruling,
    ) -> Event {
        let found = &decided.found;
        let mut alert = self.alert(&decided.policy, ruling, found, subject.packets);
        if !subject.answered {
            alert = alert.unanswered();
        }
        Event {
            names: found.details.clone(),
            came_by: self.came_by,
            ..Event::new(now, kind, subject.ends, &found.application, alert)
        }
    }

    /// The event of a decided flow whose contents cannot be read, which `failure` blocks or not.
    pub(super) fn unreadable(
        &self,
        now: Duration,
        kind: EventKind,
        unreadable: &Unreadable<'_>,
    ) -> Event {
        let Unreadable {
            subject,
            decided,
            ruling,
            failure,
            reason,
        } = unreadable;
        let mut event = self.event(now, kind, subject, decided, ruling);
        event.alert.evidence = format!("its contents cannot be read: {reason}");
        if *failure == Failure::Closed && self.enforces() {
            event.alert.action = "blocked";
        }
        event
    }
}
