//! What was written and lost, and what the writer is to know of the gateway.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use crate::eve::EveKind;
use crate::service::GatewayStatus;
use crate::service::eve::EveConfig;
use crate::verdict::DecidedFlow;

/// Counts of what was written and lost.
#[derive(Debug, Default)]
pub struct Written {
    /// Events that were written.
    pub events: AtomicU64,
    /// Those that could not be written in the audit.
    pub lost: AtomicU64,
    /// Those that could not be written as EVE, counted for each place, because a disk is full or a
    /// reader is slow or absent.
    pub eve_lost: AtomicU64,
    /// Those that were not written because there were too many.
    pub left_out: AtomicU64,
    /// Those that were forgotten before their time, to make room.
    pub forgotten: AtomicU64,
    /// Flows that are over, by application and action; there are as many as signatures name.
    flows: Mutex<BTreeMap<Kind, (u64, u64)>>,
    /// Figures are written as EVE.
    pub(in crate::service) wants_status: bool,
    /// Flows are written as EVE.
    pub(super) wants_flows: bool,
    /// Figures that are to be written.
    status: Mutex<Option<GatewayStatus>>,
}

/// An application and what the policy said.
type Kind = (String, &'static str);

/// Flows of one application that are over and of which the policy said the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The application.
    pub app: String,
    /// What the policy said, as it is called in policies.
    pub action: &'static str,
    /// Flows.
    pub flows: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Written {
    /// Nothing, of a writer with this EVE.
    pub(super) fn for_eve(eve: &EveConfig) -> Written {
        Written {
            wants_status: eve.wants(EveKind::Stats),
            wants_flows: eve.wants(EveKind::Flow),
            ..Written::default()
        }
    }

    /// Has the gateway's figures written as EVE; those before that were not yet written go.
    pub(in crate::service) fn report(&self, status: GatewayStatus) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    /// The figures to write.
    pub(super) fn take_status(&self) -> Option<GatewayStatus> {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.take()
    }

    /// Counts a flow that is over.
    pub(super) fn end(&self, flow: DecidedFlow) {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = (flow.record.app, flow.action.name());
        let (count, bytes) = flows.entry(kind).or_default();
        *count = count.saturating_add(1);
        *bytes = bytes.saturating_add(flow.record.bytes);
    }

    /// What was counted, by application.
    #[must_use]
    pub fn ended(&self) -> Vec<Ended> {
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        flows
            .iter()
            .map(|((app, action), (flows, bytes))| Ended {
                app: app.clone(),
                action,
                flows: *flows,
                bytes: *bytes,
            })
            .collect()
    }
}
