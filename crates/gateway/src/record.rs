//! What is reported of a finished flow.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::classify::{Confidence, Details, Verdict};
use crate::flow::Flow;
use crate::packet::L4;
use crate::policy::group_of;

/// Name and version of the record's form. Fields may be added under the same version.
pub const SCHEMA: &str = "ringway.flow/1";

/// One finished flow. Serialises to one flat object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// [`SCHEMA`].
    #[serde(skip_deserializing, default = "schema")]
    pub schema: &'static str,
    /// The capture it was read from; absent for live traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// `tcp` or `udp`.
    pub l4: L4,
    /// The side that opened the flow; see [`Flow::begin`](crate::flow::Flow::begin) for the rule.
    pub client_ip: IpAddr,
    /// Its port.
    pub client_port: u16,
    /// The side that was called.
    pub server_ip: IpAddr,
    /// Its port.
    pub server_port: u16,
    /// Application in lower case, or `unknown`.
    pub app: String,
    /// The application's group in policies; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How sure the application is; `guess` for `unknown`.
    pub confidence: Confidence,
    /// Packets in both directions.
    pub packets: u64,
    /// Bytes of the innermost IP packets in both directions, IP and transport headers included.
    pub bytes: u64,
    /// The signature that decided and what it saw, or why none did.
    pub evidence: String,
    /// `sni`, `host`, `query` and `member`, where known.
    #[serde(flatten)]
    pub details: Details,
}

fn schema() -> &'static str {
    SCHEMA
}

impl FlowRecord {
    pub(crate) fn new<T>(flow: &Flow<T>, verdict: Verdict) -> Self {
        Self {
            schema: SCHEMA,
            file: None,
            l4: flow.l4,
            client_ip: flow.client.ip(),
            client_port: flow.client.port(),
            server_ip: flow.server.ip(),
            server_port: flow.server.port(),
            group: group_of(&verdict.application).map(str::to_owned),
            app: verdict.application,
            confidence: verdict.confidence,
            packets: flow.packets,
            bytes: flow.bytes,
            evidence: verdict.evidence,
            details: verdict.details,
        }
    }
}
