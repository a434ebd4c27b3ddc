//! From the first data packets of a flow to the application that speaks there.
//!
//! Signatures are data (`signatures/*.toml`): patterns with an anchor, a confidence, and the name
//! of a check. All patterns are searched in one pass ([`Classifier`]); a check then confirms the
//! message's structure and may lower the confidence, never raise it above the signature's. One file
//! per protocol holds its checks; those of a family are in a folder.

mod bittorrent;
mod bittorrent_http;
mod calls;
mod checks;
mod coins;
mod databases;
mod der;
mod direct_connect;
mod discord;
mod dns;
mod edonkey;
mod endpoints;
mod fasttrack;
mod games;
mod gnutella;
mod http;
mod http_marks;
mod hyperswarm;
mod inspection;
mod irc;
mod kad;
mod libp2p;
mod lines;
mod mail;
mod matcher;
mod message;
mod msn;
mod names;
mod network;
mod numbers;
mod opening;
mod ppstream;
mod qq;
mod quic;
mod quic_crypto;
mod remote;
mod resilio;
mod ringway;
mod signature;
mod skype;
mod soulseek;
mod stun;
mod surroundings;
mod syncthing;
mod telegram;
mod things;
mod tls;
mod tor;
mod torrents;
mod tunnels;
mod utp;
mod web_torrent;
mod whatsapp;
mod wireguard;
mod xmpp;

pub(crate) use bittorrent::HANDSHAKE as BITTORRENT_HANDSHAKE;
pub use endpoints::Endpoints;
pub use inspection::{Inspection, Verdict};
pub use matcher::{Bounds, Classifier};
pub use message::Details;
pub(crate) use quic_crypto::initial as quic_initial;
pub use signature::{Anchor, Pattern, Sender, Signature, SignatureError, SignatureSet};
pub use surroundings::Surroundings;
pub(crate) use telegram::keystream as telegram_keystream;
pub(crate) use torrents::{
    LONGEST_PARAMETER, in_datagram, in_frame, in_requests, of_handshake as handshake_infohash,
};
pub(crate) use utp::{UtpData, data as utp_data};

/// How sure a classification is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The bytes would also fit something else.
    Guess,
    /// Little else would produce these bytes.
    Likely,
    /// The message's structure was confirmed.
    Certain,
}

impl Confidence {
    /// The next lower one; a guess stays a guess.
    #[must_use]
    pub fn lowered(self) -> Self {
        match self {
            Self::Certain => Self::Likely,
            Self::Likely | Self::Guess => Self::Guess,
        }
    }

    /// The name used in records: `certain`, `likely` or `guess`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Guess => "guess",
        }
    }
}

/// The application of flows that no signature knows.
pub const UNKNOWN: &str = "unknown";
/// Name of BitTorrent in records and signatures.
pub const BITTORRENT: &str = "bittorrent";
/// Name of I2P.
pub const I2P: &str = "i2p";
/// Name of tunnels whose bytes look random from the first one on: Shadowsocks, VMess.
pub const SHADOWSOCKS: &str = "shadowsocks";
/// Applications that no signature finds, because none of their bytes is fixed.
const BY_SHAPE_ALONE: [&str; 1] = [SHADOWSOCKS];
/// Name of Ringway's own traffic.
pub const RINGWAY: &str = "ringway";
/// Applications of file sharing. Their endpoints are remembered, because their users move from port
/// to port and hide some flows.
pub const PEER_TO_PEER: [&str; 6] = [
    BITTORRENT,
    "edonkey",
    "gnutella",
    "fasttrack",
    "directconnect",
    "soulseek",
];
