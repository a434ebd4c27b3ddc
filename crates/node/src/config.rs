//! `ringway.toml`: what a member's user may set.

mod bytes;
mod check;
mod class;
mod document;
mod mail;
mod receive;
mod schema;
mod service;
#[cfg(test)]
mod tests;
mod written;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ringway_dtl::Algorithm;
use ringway_transport::quic::CongestionControl;
use ringway_transport::{Address, PathRule, PathRules, WebAddress};
use serde::{Deserialize, Deserializer};

pub use self::bytes::parse_bytes;
pub use self::class::ClassConfig;
pub(crate) use self::class::PREDEFINED;
pub use self::class::is_class_name;
use self::document::Document;
pub(crate) use self::document::Wrong;
pub use self::mail::{MailConfig, ServerConfig, TlsName};
pub use self::receive::{Globs, OfferedType, ReceiveConfig, ReceiveRule};
pub use self::service::{
    NoServiceName, NoTarget, ServiceConfig, ServiceName, ServiceTarget, fits_pattern,
};
use crate::endpoint::Endpoint;
use crate::home::{self, HomeError};
use crate::limits::RELAY_RATE;

/// Why the configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A value is wrong.
    #[error("{path}: {reason}")]
    Invalid {
        /// The file.
        path: String,
        /// Line, key, what is wrong with it and the mend.
        reason: String,
    },
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[node]`
    pub node: NodeConfig,
    /// `[messages]`
    #[serde(default)]
    pub messages: MessagesConfig,
    /// `[[receive]]`, any number of rules; or `[receive]`, the one rule of earlier releases.
    #[serde(default)]
    pub receive: ReceiveConfig,
    /// `[limits]`
    #[serde(default)]
    pub limits: LimitsConfig,
    /// `[[path]]`, any number of them: the first that fits an address counts.
    #[serde(default)]
    pub path: Vec<PathConfig>,
    /// `[ws]`
    #[serde(default)]
    pub ws: WsConfig,
    /// `[[exec]]`, one for each program.
    #[serde(default)]
    pub exec: Vec<ExecConfig>,
    /// `[smtp]`
    #[serde(default)]
    pub smtp: MailConfig,
    /// `[[interface]]`, one for each network interface with a cap.
    #[serde(default)]
    pub interface: Vec<InterfaceConfig>,
    /// `[[peer]]`, one for each member whose addresses are known beforehand.
    #[serde(default)]
    pub peer: Vec<PeerConfig>,
    /// `[[class]]`, one for each name of a priority; without any there are `backup`, `work` and
    /// `live`.
    #[serde(default)]
    pub class: Vec<ClassConfig>,
    /// `[[service]]`, one for each service of this machine that other members may use.
    #[serde(default)]
    pub service: Vec<ServiceConfig>,
    /// What was read, for errors that show only later.
    #[serde(skip)]
    document: Document,
}

impl ConfigError {
    /// True when the user has written something wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, ConfigError::Invalid { .. })
    }
}

/// `[ws]`: messages over WebSocket.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WsConfig {
    /// Where to listen for plain WebSocket, usually on loopback behind a web server. Without it
    /// the member only dials.
    pub listen: Option<SocketAddr>,
    /// The path that is answered.
    pub path: String,
    /// What others get instead of the address listened on: where the web server in front is.
    #[serde(deserialize_with = "parsed")]
    pub advertise: Vec<WebAddress>,
    /// PEM file of authorities that are believed besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl Default for WsConfig {
    fn default() -> WsConfig {
        WsConfig {
            listen: None,
            path: "/ringway".to_owned(),
            advertise: Vec::new(),
            ca_file: None,
        }
    }
}

/// `[[exec]]`: a transport that is a program.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecConfig {
    /// The transport's name in addresses: lower-case letters, digits and hyphens.
    pub name: String,
    /// The program, by its absolute path.
    pub command: PathBuf,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What its environment has besides `PATH`.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// `[[interface]]`: what may leave by one network interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceConfig {
    /// Its name, as `ip link` shows it. It need not be there yet.
    pub name: String,
    /// Bytes per second that all transfers which leave by it may send together; 0 is no limit.
    #[serde(deserialize_with = "bytes::deserialize")]
    pub upload: u64,
}

/// `[[peer]]`: where a member can be reached before it has said so itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerConfig {
    /// Its name.
    pub name: String,
    /// Such as `"wss://oslo.example.org/ringway"`.
    #[serde(deserialize_with = "parsed")]
    pub addresses: Vec<Address>,
}

fn parsed<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: std::fmt::Display>,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    let values = texts.iter().map(|text| text.parse());
    values
        .map(|value| value.map_err(serde::de::Error::custom))
        .collect()
}

/// `[[path]]`: what the user says of some paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// A protocol, a network or an address.
    pub to: String,
    /// The cost to use instead of the peer's; less is better.
    pub cost: Option<u32>,
    /// Whether to use such a path only if no other works.
    #[serde(default)]
    pub metered: bool,
}

/// `[node]`: where the member listens and asks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The DNS server that has the ring's records; without it the system's resolver is used.
    pub resolver: Option<Endpoint>,
    /// Where a router listens if that is not the address of its certificate, as behind a port
    /// forward.
    pub listen: Option<SocketAddr>,
    /// Where a router listens for QUIC; without it the port after its address, or any if that is
    /// taken.
    pub quic: Option<SocketAddr>,
    /// Whether a leaf shows its address to its parents only.
    #[serde(default)]
    pub hide_address: bool,
    /// The transports in use.
    #[serde(default = "all_transports")]
    pub transports: Vec<TransportName>,
    /// Whether a leaf asks its home router for a port.
    #[serde(default = "yes")]
    pub port_mapping: bool,
    /// The rules by which transfers keep their priority.
    #[serde(default)]
    pub algorithm: AlgorithmName,
    /// Whether transfers to different members that wait in one queue share it by their priorities.
    #[serde(default = "yes")]
    pub coupling: bool,
}

fn yes() -> bool {
    true
}

/// The rules of priority by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlgorithmName {
    /// Ours.
    #[default]
    Adaptive,
    /// LEDBAT and MulTCP2, for comparison.
    Paper,
}

impl AlgorithmName {
    /// The congestion control of connections that carry transfers.
    pub(crate) fn congestion(self) -> CongestionControl {
        CongestionControl::Priority(ringway_dtl::Config {
            algorithm: match self {
                AlgorithmName::Adaptive => Algorithm::Adaptive,
                AlgorithmName::Paper => Algorithm::Paper,
            },
            ..ringway_dtl::Config::default()
        })
    }
}

/// A transport by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportName {
    /// Datagrams.
    Udp,
    /// Framed messages over connections.
    Tcp,
    /// Streams for transfers, and messages in datagrams beside them.
    Quic,
    /// Messages over the web.
    Ws,
}

/// `[messages]`: whose messages are taken, and what their senders are told.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessagesConfig {
    /// Whether senders are told when their messages were read.
    pub receipts: bool,
    /// Names of the members whose messages are taken; `*` is everybody in the ring.
    pub from: Vec<String>,
}

impl Default for MessagesConfig {
    fn default() -> MessagesConfig {
        MessagesConfig {
            receipts: true,
            from: vec!["*".to_owned()],
        }
    }
}

impl MessagesConfig {
    /// True if messages of the member `name` are taken.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        self.from.iter().any(|from| from == "*" || from == name)
    }
}

/// `[limits]`: what this member may use up.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Bytes per second that all transfers together may send; 0 or none is no limit.
    #[serde(deserialize_with = "bytes::deserialize_some")]
    pub upload: Option<u64>,
    /// Bytes per second that a router passes on between its leaves and others; 0 passes nothing
    /// on.
    #[serde(deserialize_with = "bytes::deserialize")]
    pub relay: u64,
    /// Highest priority that others than the daemon's own user and root may ask for; none is
    /// [`MAX_GROUP_PRIORITY`](crate::limits::MAX_GROUP_PRIORITY).
    pub max_priority: Option<f64>,
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            upload: None,
            relay: RELAY_RATE,
            max_priority: None,
        }
    }
}

fn all_transports() -> Vec<TransportName> {
    vec![
        TransportName::Udp,
        TransportName::Tcp,
        TransportName::Quic,
        TransportName::Ws,
    ]
}

impl Config {
    /// Bytes per second of all transfers' content, where `all` overrides what stands here, and the
    /// interfaces that have caps of their own.
    pub(crate) fn caps(&self, all: Option<u64>) -> (Option<u64>, Vec<InterfaceConfig>) {
        (all.or(self.limits.upload), self.interface.clone())
    }

    /// Reads the configuration in `home`.
    ///
    /// # Errors
    /// With file, line, key and reason when something in it is wrong or unknown.
    pub fn load(home: &Path) -> Result<Config, ConfigError> {
        Config::of(Document::read(&home::config_path(home))?)
    }

    pub(crate) fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        Config::of(Document::new(text.to_owned(), path))
    }

    fn of(document: Document) -> Result<Config, ConfigError> {
        document.check()?;
        let read = toml::from_str(document.text());
        let mut config: Config = read.map_err(|error| document.unreadable(&error))?;
        config.document = document;
        config.check()?;
        Ok(config)
    }

    /// The error for a value that turns out to be wrong, with its line.
    pub(crate) fn refuse(&self, wrong: Wrong) -> ConfigError {
        self.document.refuse(wrong)
    }

    /// What the user says of paths.
    #[must_use]
    pub fn path_rules(&self) -> PathRules {
        PathRules::new(self.path.iter().flat_map(PathConfig::rule).collect())
    }
}

impl PathConfig {
    fn rule(&self) -> Result<PathRule, String> {
        if self.cost.is_none() && !self.metered {
            return Err("it needs `cost` or `metered = true`, else it says nothing".to_owned());
        }
        PathRule::new(&self.to, self.cost, self.metered).map_err(|error| error.to_string())
    }
}
