//! How members are reached: ways to a peer, answers to pings, and lookups.

use serde::{Deserialize, Serialize};

use super::RouterRef;

/// All ways to one peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathsStatus {
    /// Name of the peer.
    pub peer: String,
    /// True if there is a link with it now.
    pub linked: bool,
    /// Why there is none, if there is none.
    pub reason: Option<String>,
    /// Version of the link protocol that the link is of, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_version: Option<u8>,
    /// What the peer's build speaks, and what is spoken here, where that leaves no common version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_version: Option<String>,
    /// The one in use first.
    pub paths: Vec<PathStatus>,
}

impl PathsStatus {
    /// Why there is no link, as far as that is known: the peer's version, or why the last attempts
    /// to connect failed, each with its address.
    pub fn last_errors(&self) -> impl Iterator<Item = &str> {
        let failed = self.paths.iter();
        let failed = failed.filter_map(|path| path.last_error.as_deref());
        self.other_version.as_deref().into_iter().chain(failed)
    }
}

/// One way to a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// Such as `udp://192.0.2.1:4000`.
    pub address: String,
    /// Name of the router, if that is a `relay://` address and the name is known here.
    pub via: Option<String>,
    /// `messages` if the link's messages leave over it now, `files` if transfers may; none if it
    /// is not used.
    pub used_for: Option<String>,
    /// True if the peer's HELLO names it.
    pub advertised: bool,
    /// The cost that counts; less is better.
    pub cost: u32,
    /// True if the user calls it metered.
    pub metered: bool,
    /// How long messages take: `interactive`, `seconds` or `minutes`.
    pub latency: String,
    /// Largest message in bytes.
    pub mtu: u32,
    /// Milliseconds out over it and back over any, once measured.
    pub rtt_ms: Option<f64>,
    /// Share of the latest probes that were lost, 0 to 1; none where the peer has never answered,
    /// or there is no link that would probe.
    pub loss: Option<f64>,
    /// Seconds since the peer was last shown to receive over it, by a probe or by a PING.
    pub proven_s: Option<f64>,
    /// Seconds since something last came in over it.
    pub heard_s: Option<f64>,
    /// Seconds since the peer last answered a PING there.
    pub validated_s: Option<f64>,
    /// Why it is or is not used.
    pub reason: String,
    /// Why the last attempt to connect to it failed; none if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// One answer, or its absence, to a ping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pong {
    /// Counts from 1.
    pub sequence: u32,
    /// Name of the peer.
    pub peer: String,
    /// The address used, such as `udp://192.0.2.1:4000`.
    pub address: Option<String>,
    /// Name of the router, if that is a `relay://` address and the name is known here.
    pub via: Option<String>,
    /// Round-trip time in milliseconds; none when no answer within the time.
    pub rtt_ms: Option<f64>,
    /// How many ways through the ring it took, the last of which is straight to the peer; none if
    /// it was not to go through the ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
}

/// Outcome of a lookup through the overlay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteFound {
    /// The point looked for, 64 hex digits.
    pub target: String,
    /// The router responsible for it.
    pub owner: RouterRef,
    /// Whether several routers agree on it; if not, it is the best answer and may be a lie.
    pub verified: bool,
    /// The first router that answered at each step; empty when the answer was known here.
    pub hops: Vec<RouterRef>,
    /// Milliseconds from question to answer.
    pub elapsed_ms: f64,
}
