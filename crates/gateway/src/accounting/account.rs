//! A flow with what it carried, and what the kernel says of one.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::classify::{Confidence, Details};
use crate::flow::Count;
use crate::infohash::InfoHash;
use crate::packet::L4;
use crate::policy::Action;
use crate::torrent::TorrentName;

/// Who talks with whom, and over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ends {
    /// The number of the protocol (IANA): 6 is TCP, 17 UDP.
    pub protocol: u8,
    /// The side that opened the flow. Its port is 0 where the protocol has none.
    pub client: SocketAddr,
    /// The other side, as it is called behind the border: after destination NAT, before source NAT.
    pub server: SocketAddr,
}

impl Ends {
    /// The transport, if it is one that rules decide on.
    #[must_use]
    pub fn l4(self) -> Option<L4> {
        match self.protocol {
            6 => Some(L4::Tcp),
            17 => Some(L4::Udp),
            _ => None,
        }
    }

    /// The same from the other side.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            client: self.server,
            server: self.client,
            ..self
        }
    }
}

/// A connection as the kernel's connection tracking knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFlow {
    /// The kernel's number, which no other connection has at the same time.
    pub id: u32,
    /// Its ends.
    pub ends: Ends,
    /// Whom the client called: another address than the server's where destination NAT is at work.
    pub called: SocketAddr,
    /// Where the server answers to: another address than the client's where source NAT is at work.
    pub answered_at: SocketAddr,
    /// The zone of connection tracking.
    pub zone: u16,
    /// Its mark.
    pub mark: u32,
    /// What was counted, from the client and from the server. `None`: counting was off when it
    /// began.
    pub counts: Option<[Count; 2]>,
    /// When it began, since the Unix epoch, if the kernel notes that.
    pub began: Option<Duration>,
    /// When it ended; absent while it lives.
    pub ended: Option<Duration>,
    /// A TCP connection that both ends have closed, or that was reset.
    pub is_closed: bool,
}

/// Whether the gateway was asked about a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// It was; while `action` is absent it is undecided.
    Yes,
    /// It crossed without being asked about.
    #[default]
    No,
    /// It began before this run of the gateway did.
    Before,
}

fn is_nothing(counts: &[Count; 2]) -> bool {
    *counts == [Count::default(); 2]
}

/// By what a flow has its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// It was not looked for: nothing depended on it.
    #[default]
    No,
    /// By its own packets; also `unknown`, where these were looked at to the end.
    Itself,
    /// By what other flows of its hosts had shown before.
    Others,
}

/// Why a flow has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// Its ends closed or reset it.
    Closed,
    /// Nothing came for the time that the kernel waits.
    Timeout,
    /// It was dropped before the kernel took it for a connection.
    Dropped,
    /// Another flow between the same ports began.
    Replaced,
    /// The kernel's report of its end was lost: counts are those of the last look.
    Lost,
    /// The gateway ends.
    Shutdown,
}

/// A flow and what it carried: the one record that events, history, metrics and `gate top` are made
/// from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowAccount {
    /// The flow's number, as in events.
    pub flow_id: u64,
    /// Its ends.
    #[serde(flatten)]
    pub ends: Ends,
    /// Whether the gateway was asked.
    pub asked: Asked,
    /// The application; `unknown`, and empty if the gateway was not asked.
    pub app: String,
    /// How sure that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// By what it has its name.
    #[serde(default)]
    pub named: Named,
    /// Both sides have spoken.
    #[serde(default)]
    pub answered: bool,
    /// Names that the flow contained.
    #[serde(flatten)]
    pub details: Details,
    /// The torrents that it named in clear, in their order; at most
    /// [`MAX_FLOW_TORRENTS`](crate::limits::MAX_FLOW_TORRENTS).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub torrents: Vec<InfoHash>,
    /// What torrents are called that it has shown the names of: as metadata between peers, or in a
    /// `.torrent` file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub torrent_names: Vec<TorrentName>,
    /// What happens to it; absent while it is undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Name of the rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Name of its class of bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The quota of the rule is used up, and so it gets what is above it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_quota: bool,
    /// The host of the own network.
    pub host: std::net::IpAddr,
    /// That host as the other side sees it, where an address is translated (NAT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<SocketAddr>,
    /// From the client to the server.
    pub to_server: Count,
    /// From the server to the client.
    pub to_client: Count,
    /// What of both had been carried when this run of the gateway saw it first: nothing, unless it
    /// began before.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub before: [Count; 2],
    /// The kernel has counted; else these are the packets that reached the gateway.
    pub exact: bool,
    /// When it began, since the Unix epoch.
    pub began: Duration,
    /// When it ended; absent while it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Duration>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// The kernel's number of it, once it is reported; only this run has a use for it.
    #[serde(skip)]
    pub kernel: Option<u32>,
}

impl FlowAccount {
    /// The same flow as a later run of the gateway has it, which knows what it carried and when it
    /// ended, and not what it is.
    #[must_use]
    pub fn outlived(self, later: Self) -> Self {
        let (to_server, to_client) = if self.ends == later.ends {
            (later.to_server, later.to_client)
        } else {
            (later.to_client, later.to_server)
        };
        Self {
            to_server,
            to_client,
            exact: later.exact,
            ended: later.ended,
            reason: later.reason,
            ..self
        }
    }

    /// What this torrent is called, if the flow has shown it.
    #[must_use]
    pub fn torrent_name(&self, infohash: InfoHash) -> Option<&str> {
        let mut names = self.torrent_names.iter();
        let named = names.find(|named| named.infohash == infohash);
        named.map(|named| named.name.as_str())
    }

    /// What it carried both ways.
    #[must_use]
    pub fn total(&self) -> Count {
        self.to_server.plus(self.to_client)
    }
}
