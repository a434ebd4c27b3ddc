//! What accounts are given of a flow: what it is, and what is decided on it.

use std::collections::VecDeque;
use std::time::Duration;

use super::machine::as_announced;
use super::state::{CACHE_RULE, FlowState, State};
use crate::accounting::{Asked, Ends, FlowAccount, Named};
use crate::classify::{UNKNOWN, Verdict as Classified};
use crate::flow::{Count, Flow};
use crate::limits::{MAX_READY, MAX_UNDECIDED_PACKETS};
use crate::packet::L4;
use crate::policy::Action;
use crate::tracker::{Tracked, is_answered};

/// Views of flows that have begun, were decided or are over, if any are wanted.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    views: Option<VecDeque<FlowAccount>>,
    pub(super) dropped: u64,
}

impl Accounts {
    /// Keeps views from now on.
    pub(super) fn begin(&mut self) {
        self.views.get_or_insert_default();
    }

    /// Somebody wants them.
    pub(super) fn are_wanted(&self) -> bool {
        self.views.is_some()
    }

    /// Keeps a view to be polled, or counts it where too many wait.
    pub(super) fn note(&mut self, view: FlowAccount) {
        let Some(views) = &mut self.views else {
            return;
        };
        if views.len() < MAX_READY {
            views.push_back(view);
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    pub(super) fn poll(&mut self) -> Option<FlowAccount> {
        self.views.as_mut()?.pop_front()
    }
}

/// What a flow is called: as the decision found it, unless more is known by now. `concluded`: what
/// the classifier says now.
pub(super) fn known(flow: &Flow<Tracked<State>>, concluded: Classified) -> Classified {
    let own = &flow.attachment.own;
    let now = as_announced(concluded, own.announced.as_deref());
    match own.decided() {
        Some(decided) if decided.found.confidence >= now.confidence => (*decided.found).clone(),
        _ => now,
    }
}

/// The view of a flow. `known`: what it is called; `ended`: when the gateway forgets it.
pub(super) fn view(
    flow: &Flow<Tracked<State>>,
    known: Classified,
    ended: Option<Duration>,
) -> FlowAccount {
    let own = &flow.attachment.own;
    let (action, rule, class) = match (&own.flow, own.decided()) {
        (FlowState::Refused, _) => (Some(Action::Block), Some(CACHE_RULE.to_owned()), None),
        (_, Some(decided)) => {
            let (ruling, policy) = (&decided.plan.ruling, &decided.policy);
            let class = ruling.class.and_then(|class| policy.classes().get(class));
            (
                Some(ruling.action),
                Some(policy.name_of(ruling).to_owned()),
                class.map(|class| class.name.clone()),
            )
        }
        _ => (None, None, None),
    };
    let named = named(flow, &known);
    FlowAccount {
        flow_id: flow.serial,
        ends: Ends {
            protocol: match flow.l4 {
                L4::Tcp => 6,
                L4::Udp => 17,
            },
            client: flow.client,
            server: flow.server,
        },
        asked: Asked::Yes,
        app: known.application,
        confidence: Some(known.confidence),
        named,
        answered: is_answered(flow),
        details: known.details,
        torrents: own.named_torrents().to_vec(),
        torrent_names: own.naming.found().to_vec(),
        action,
        rule,
        class,
        over_quota: own
            .decided()
            .is_some_and(|decided| decided.plan.ruling.over),
        host: flow.client.ip(),
        outside: None,
        to_server: flow.from_client(),
        to_client: flow.from_server,
        before: [Count::default(); 2],
        exact: false,
        began: flow.first_seen,
        ended,
        reason: None,
        kernel: None,
    }
}

fn named(flow: &Flow<Tracked<State>>, known: &Classified) -> Named {
    let inspection = &flow.attachment.inspection;
    if known.application == UNKNOWN {
        let finished = inspection.is_done() || inspection.is_overlooked();
        let looked = finished || flow.packets >= MAX_UNDECIDED_PACKETS;
        return if looked { Named::Itself } else { Named::No };
    }
    let own = inspection.verdict();
    let by_itself = own.is_some_and(|own| {
        own.application == known.application && own.confidence >= known.confidence
    });
    if by_itself {
        Named::Itself
    } else {
        Named::Others
    }
}
