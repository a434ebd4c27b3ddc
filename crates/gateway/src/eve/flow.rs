//! A flow that is over, with what it carried.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::header::{Common, Names, Sensor, Subject, timestamp};
use super::{EveKind, SCHEMA};
use crate::accounting::{Asked, EndReason, FlowAccount};
use crate::classify::Confidence;
use crate::infohash::InfoHash;
use crate::policy::Action;
use crate::verdict::CACHE_RULE;

/// A flow that is over. Serialises to one event `flow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowLog {
    account: FlowAccount,
    reason: EndReason,
    /// When it ended.
    pub(crate) ended: Duration,
    /// Who writes.
    pub sensor: Sensor,
}

#[derive(Serialize)]
struct Form<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    flow: Counts,
    #[serde(flatten)]
    names: Names<'a>,
    ringway: Ours<'a>,
}

#[derive(Serialize)]
struct Counts {
    pkts_toserver: u64,
    pkts_toclient: u64,
    bytes_toserver: u64,
    bytes_toclient: u64,
    start: String,
    end: String,
    /// Whole seconds.
    age: u64,
    state: &'static str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    alerted: Option<bool>,
}

#[derive(Serialize)]
struct Ours<'a> {
    schema: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    app: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<Confidence>,
    asked: Asked,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    over_quota: bool,
    inside: IpAddr,
    exact: bool,
    end: EndReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    infohash: Option<InfoHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    torrent: Option<&'a str>,
}

impl FlowLog {
    /// The event of a flow. `None` while it lives: who adds flows up would count its bytes twice.
    #[must_use]
    pub fn of(account: FlowAccount) -> Option<Self> {
        let (ended, reason) = (account.ended?, account.reason?);
        Some(Self {
            account,
            reason,
            ended,
            sensor: Sensor::default(),
        })
    }

    fn counts(&self) -> Counts {
        let account = &self.account;
        let answered = account.to_client.packets > 0;
        // What an earlier run has written is not added up twice.
        let [before, before_back] = account.before;
        let to_server = account.to_server.since(before);
        let to_client = account.to_client.since(before_back);
        Counts {
            pkts_toserver: to_server.packets,
            pkts_toclient: to_client.packets,
            bytes_toserver: to_server.bytes,
            bytes_toclient: to_client.bytes,
            start: timestamp(account.began),
            end: timestamp(self.ended),
            age: self.ended.saturating_sub(account.began).as_secs(),
            state: match self.reason {
                EndReason::Closed => "closed",
                _ if answered => "established",
                _ => "new",
            },
            reason: reason(self.reason),
            alerted: self.alerted(),
        }
    }

    /// An alert was written of it; `None` where a rule says so by a key that is not known here.
    fn alerted(&self) -> Option<bool> {
        let by_cache = self.account.rule.as_deref() == Some(CACHE_RULE);
        match self.account.action {
            Some(Action::Block | Action::Audit) => Some(!by_cache),
            Some(Action::Allow | Action::Shape | Action::Scan) => None,
            None => Some(false),
        }
    }

    fn ours(&self) -> Ours<'_> {
        let account = &self.account;
        let first = account.torrents.first().copied();
        let infohash = account.details.infohash.or(first);
        Ours {
            schema: SCHEMA,
            app: &account.app,
            confidence: account.confidence,
            asked: account.asked,
            policy: account.action,
            rule: account.rule.as_deref(),
            class: account.class.as_deref(),
            over_quota: account.over_quota,
            inside: account.host,
            exact: account.exact,
            end: self.reason,
            member: account.details.member.as_deref(),
            infohash,
            torrent: infohash.and_then(|hash| account.torrent_name(hash)),
        }
    }
}

/// Suricata's word. It has none for a flow that both ends have closed, which it forgets after a
/// time as well.
fn reason(end: EndReason) -> &'static str {
    match end {
        EndReason::Closed | EndReason::Timeout => "timeout",
        EndReason::Dropped => "forced",
        EndReason::Replaced => "tcp_reuse",
        EndReason::Lost => "unknown",
        EndReason::Shutdown => "shutdown",
    }
}

impl Serialize for FlowLog {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let account = &self.account;
        let subject = Subject {
            flow_id: account.flow_id,
            protocol: account.ends.protocol,
            source: account.ends.client,
            destination: account.ends.server,
            app: &account.app,
        };
        let kind = EveKind::Flow.name();
        let form = Form {
            common: Common::new(self.ended, kind, &self.sensor, Some(subject)),
            flow: self.counts(),
            names: Names::of(&account.app, &account.details),
            ringway: self.ours(),
        };
        form.serialize(serializer)
    }
}
