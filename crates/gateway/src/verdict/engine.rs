//! Flows, and what is decided on them: the owner of the table, of time and of all that flows share.
//! Each packet borrows its flow once, as a [`FlowContext`], which goes through the
//! [machine](super::machine).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::account::{Accounts, known, view};
use super::blocked::Blocked;
use super::effects::Effects;
use super::env::Env;
use super::expected::Announcements;
use super::machine::{FlowContext, QueuedPacket};
use super::quotas;
use super::state::{DecidedFlow, Stage, State};
use super::torrents;
use super::trace::{Passing, TraceStep, Traces};
use super::{FlowId, Mode, ScanJob, Scanned, Settings, Verdict};
use crate::classify::Classifier;
use crate::flow::{Seniority, TableBounds};
use crate::limits::{FOLLOW_LOOK, MAX_CONTENT, MAX_EARLY};
use crate::packet::Packet;
use crate::policy::{Policy, Ruling};
use crate::quota::OverQuota;
use crate::torrent::TorrentNames;
use crate::tracker::{FlowEntry, Tracker};

/// Flows and what is decided on them.
#[derive(Debug)]
pub(super) struct FlowEngine {
    pub(super) tracker: Tracker<State>,
    pub(super) env: Env,
    pub(super) blocked: Blocked,
    pub(super) effects: Effects,
    /// What decisions were made of.
    pub(super) traces: Traces,
    pub(super) over: VecDeque<DecidedFlow>,
    pub(super) over_dropped: u64,
    pub(super) accounts: Accounts,
    /// Flows whose contents are followed and that wait for their time.
    timed: Vec<FlowId>,
    /// When they are looked at next.
    next_look: Duration,
    /// Followed flows that are not decided, the first one first.
    early: Seniority,
    /// The packet at hand belongs to a connection that was to be read.
    watched: bool,
    /// A policy about torrents has come, by which decided flows were not judged yet.
    other_policy: bool,
}

impl FlowEngine {
    pub(super) fn new(
        classifier: Classifier,
        bounds: TableBounds,
        policy: Arc<Policy>,
        settings: Settings,
    ) -> Self {
        Self {
            tracker: Tracker::new(classifier, bounds),
            env: Env {
                policy,
                settings,
                announced: Announcements::default(),
                torrent_names: TorrentNames::default(),
                came_by: 0,
                over_quota: OverQuota::default(),
                above: Arc::default(),
                above_changes: 0,
            },
            blocked: Blocked::default(),
            effects: Effects::default(),
            traces: Traces::default(),
            over: VecDeque::new(),
            over_dropped: 0,
            accounts: Accounts::default(),
            timed: Vec::new(),
            next_look: Duration::ZERO,
            early: Seniority::default(),
            watched: false,
            other_policy: false,
        }
    }

    /// Whether the next packets belong to connections that were to be read.
    pub(super) fn set_watched(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// By which interface the next packets come, by its number; 0: that is not known.
    pub(super) fn set_came_by(&mut self, interface: u32) {
        self.env.came_by = interface;
    }

    /// Takes in a packet. `bytes` is what traces keep of it: empty, nothing.
    pub(super) fn handle_packet(
        &mut self,
        now: Duration,
        token: u64,
        packet: &Packet<'_>,
        bytes: &[u8],
    ) -> Verdict {
        self.make_room(now);
        self.judge_torrents(now);
        self.judge_quotas(now);
        self.effects.rewritten = None;
        let Some(entry) = self.tracker.handle_packet(now, packet) else {
            return self.env.missing(&mut self.effects);
        };
        let mut context = FlowContext {
            now,
            entry,
            env: &self.env,
            blocked: &mut self.blocked,
            effects: &mut self.effects,
        };
        let before = context.stage();
        context.seek_name(packet);
        let verdict = context.verdict(QueuedPacket {
            packet,
            token,
            watched: self.watched,
        });
        let after = context.stage();
        // What is refused is nothing that its hosts do.
        if !(self.env.enforces() && after.blocked) {
            context.entry.learn();
        }
        let is_first = context.entry.flow.packets == 1;
        if self.accounts.are_wanted() && (is_first || before != after) {
            let known = known(context.entry.flow, context.entry.conclude());
            self.accounts.note(view(context.entry.flow, known, None));
        }
        if !bytes.is_empty() {
            let changes = Changes { before, after };
            trace(
                &mut self.traces,
                now,
                &context.entry,
                packet,
                bytes,
                changes,
            );
        }
        if let Some(id) = self.effects.followed.take() {
            let is_early = is_early(&self.tracker);
            self.early.push(id.slot, id.serial, is_early);
        }
        self.timed.append(&mut self.effects.timed);
        verdict
    }

    /// What has kept bytes for longest without being known gives way to connections that are new.
    fn make_room(&mut self, now: Duration) {
        while self.effects.content_held.saturating_add(MAX_EARLY) > MAX_CONTENT {
            let Some((slot, serial)) = self.early.pop(is_early(&self.tracker)) else {
                return;
            };
            if let Some(mut context) = self.context(now, FlowId { slot, serial }) {
                context.stop_following(Verdict::ACCEPT);
            }
        }
    }

    /// A flow that is still there, at a moment without a packet of it.
    pub(super) fn context(&mut self, now: Duration, id: FlowId) -> Option<FlowContext<'_>> {
        Some(FlowContext {
            now,
            entry: self.tracker.entry(id.slot, id.serial)?,
            env: &self.env,
            blocked: &mut self.blocked,
            effects: &mut self.effects,
        })
    }

    /// What a scanner reports of a window.
    pub(super) fn handle_scanned(&mut self, now: Duration, job: &ScanJob, scanned: &Scanned) {
        // The packet at hand is not the file's.
        self.env.came_by = 0;
        if let Some(mut context) = self.context(now, job.flow) {
            context.handle_scanned(job, scanned);
        }
    }

    /// Followed flows wait for their time: [`handle_timeout`](Self::handle_timeout) has work.
    pub(super) fn is_waiting(&self) -> bool {
        !self.timed.is_empty()
    }

    /// Does what is due for flows whose contents are followed.
    pub(super) fn handle_timeout(&mut self, now: Duration) {
        self.judge_quotas(now);
        // All that wait are looked at: not at each packet.
        if now < self.next_look {
            return;
        }
        self.next_look = now.saturating_add(FOLLOW_LOOK);
        self.env.came_by = 0;
        self.blocked.expire(now, &mut self.effects);
        let mut timed = std::mem::take(&mut self.timed);
        timed.retain(|id| {
            self.context(now, *id)
                .is_some_and(|mut context| context.handle_timeout())
        });
        // Flows that began to wait meanwhile.
        timed.append(&mut self.effects.timed);
        self.timed = timed;
    }

    /// Another policy, for flows that are not decided yet, and for those whose torrents it refuses.
    pub(super) fn set_policy(&mut self, policy: Arc<Policy>) {
        self.other_policy = policy.names_torrents();
        self.env.policy = policy;
    }

    /// Blocks decided flows whose torrents a new policy refuses.
    fn judge_torrents(&mut self, now: Duration) {
        if !std::mem::take(&mut self.other_policy) {
            return;
        }
        let flows = self.tracker.flows_with_slots();
        let refused: Vec<(FlowId, Ruling)> = flows
            .filter_map(|(slot, flow)| {
                let serial = flow.serial;
                let ruling = torrents::refused_since(&self.env, now, flow)?;
                Some((FlowId { slot, serial }, ruling))
            })
            .collect();
        self.env.came_by = 0;
        self.rule_flows_again(now, refused, |context, ruling| context.refuse_since(ruling));
    }

    /// Has flows get something else, and the accounts know it.
    fn rule_flows_again(
        &mut self,
        now: Duration,
        flows: Vec<(FlowId, Ruling)>,
        rule: impl Fn(&mut FlowContext<'_>, Ruling),
    ) {
        let wanted = self.accounts.are_wanted();
        for (id, ruling) in flows {
            let Some(mut context) = self.context(now, id) else {
                continue;
            };
            rule(&mut context, ruling);
            let flow = &*context.entry.flow;
            let seen = wanted.then(|| view(flow, known(flow, context.entry.conclude()), None));
            if let Some(seen) = seen {
                self.accounts.note(seen);
            }
        }
    }

    /// Takes in who is above a quota now, if that has changed, and decides flows by it.
    fn judge_quotas(&mut self, now: Duration) {
        let changes = self.env.over_quota.changes();
        if changes == self.env.above_changes {
            return;
        }
        self.env.above_changes = changes;
        self.env.above = self.env.over_quota.now();
        let flows = self.tracker.flows_with_slots();
        let changed: Vec<(FlowId, Ruling)> = flows
            .filter_map(|(slot, flow)| {
                let serial = flow.serial;
                Some((FlowId { slot, serial }, quotas::changed(&self.env, flow)?))
            })
            .collect();
        // No packet at hand led to this.
        self.env.came_by = 0;
        self.rule_flows_again(now, changed, |context, ruling| {
            context.rule_again(ruling);
            context.note_moved(&ruling);
        });
    }

    /// Whether decisions are carried out from now on. Files under way are held back from here on,
    /// or not any more.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.env.settings.mode = mode;
        if mode == Mode::Observe {
            // The kernel refuses without asking who observes.
            self.blocked.cache.clear();
            self.blocked.report(&mut self.effects);
        }
        for flow in self.tracker.flows_mut() {
            if let Some((_, content)) = flow.attachment.own.content_mut() {
                let free = content.set_holds(mode == Mode::Enforce);
                self.effects.release(free, Verdict::ACCEPT);
            }
        }
    }

    /// Ends all flows.
    pub(super) fn finish(&mut self) {
        self.blocked.close(&mut self.effects);
        self.tracker.finish();
    }
}

/// What a packet has changed of its flow.
#[derive(Clone, Copy)]
struct Changes {
    before: Stage,
    after: Stage,
}

/// Keeps a packet that came before the decision, or changed what was known or decided.
fn trace(
    traces: &mut Traces,
    now: Duration,
    entry: &FlowEntry<'_, State>,
    packet: &Packet<'_>,
    bytes: &[u8],
    Changes { before, after }: Changes,
) {
    let flow = &*entry.flow;
    let step = TraceStep {
        named: flow.attachment.named_at == flow.packets,
        decided: after.decided && !before.decided,
        blocked: after.blocked && !before.blocked,
    };
    if !before.decided || step != TraceStep::default() {
        let passing = Passing {
            number: flow.packets,
            time: now,
            direction: flow.direction(packet),
            bytes,
            payload: packet.payload,
            step,
        };
        traces.note(flow.serial, &passing);
    }
}

/// Whether a flow is followed and not decided.
fn is_early(tracker: &Tracker<State>) -> impl FnMut(usize, u64) -> bool {
    |slot, serial| {
        tracker
            .flow(slot, serial)
            .is_some_and(|flow| flow.attachment.own.is_early())
    }
}
