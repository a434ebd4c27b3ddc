//! Services and streams as the control socket shows them.

use serde::{Deserialize, Serialize};

/// A service of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// What it is called.
    pub name: String,
    /// Name of the peer that offers it; none for this member's own.
    #[serde(default)]
    pub peer: Option<String>,
    /// `tcp`, `unix`, `udp`, or `program` for one that a program of that machine serves.
    pub protocol: String,
    /// Where it is; own ones only.
    #[serde(default)]
    pub to: Option<String>,
    /// Its own port, if it has one.
    #[serde(default)]
    pub port: Option<u16>,
    /// Names of the members that may use it, with `*` for any characters; own ones only.
    #[serde(default)]
    pub from: Vec<String>,
    /// What its streams are sent with unless their users ask for less.
    pub priority: f64,
    /// Streams that it may have at once; own ones only, else 0.
    #[serde(default)]
    pub max: usize,
    /// Those that it has; own ones only, else 0.
    #[serde(default)]
    pub open: usize,
}

/// A stream between this member and a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// 32 hex digits; the same on both sides.
    pub id: String,
    /// Name of the other member.
    pub peer: String,
    /// Name of the service.
    pub service: String,
    /// `out` if it was opened here, `in` if the peer has.
    pub direction: String,
    /// `open`, or `waiting` while there is no connection.
    pub state: String,
    /// `quic` over a straight connection, `link` over the link, whatever carries that; none while
    /// it waits, and where the peer has made the connection it is `quic` for both.
    #[serde(default)]
    pub way: Option<String>,
    /// When it began, Unix seconds.
    pub since: u64,
    /// Bytes that the local program has sent.
    pub sent: u64,
    /// Bytes that have come for it.
    pub received: u64,
    /// In force for what is sent.
    pub priority: f64,
    /// How often it went over to another connection.
    #[serde(default)]
    pub resumed: u32,
}
