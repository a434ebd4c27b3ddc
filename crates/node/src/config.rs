//! `ringway.toml`: what a member's user may set.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ringway_transport::{PathRule, PathRules, Protocol};
use serde::{Deserialize, Serialize};

use crate::home::{self, HomeError};

/// Why the configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A line is wrong.
    #[error("{path}: {reason}")]
    Invalid {
        /// The file.
        path: String,
        /// Line, key and what is wrong with it.
        reason: String,
    },
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[node]`
    pub node: NodeConfig,
    /// `[receive]`
    #[serde(default)]
    pub receive: ReceiveConfig,
    /// `[limits]`
    #[serde(default)]
    pub limits: LimitsConfig,
    /// `[[path]]`, any number of them: the first that fits an address counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathConfig>,
}

/// `[[path]]`: what the user says of some paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "RawPathConfig")]
pub struct PathConfig {
    /// A protocol, a network or an address.
    pub to: String,
    /// The cost to use instead of the peer's; less is better.
    pub cost: Option<u32>,
    /// Whether to use such a path only if no other works.
    pub metered: bool,
    #[serde(skip)]
    rule: PathRule,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPathConfig {
    to: String,
    cost: Option<u32>,
    #[serde(default)]
    metered: bool,
}

impl TryFrom<RawPathConfig> for PathConfig {
    type Error = String;

    fn try_from(raw: RawPathConfig) -> Result<PathConfig, String> {
        let RawPathConfig { to, cost, metered } = raw;
        if cost.is_none() && !metered {
            return Err("a path needs `cost` or `metered = true`".to_owned());
        }
        let rule = PathRule::new(&to, cost, metered).map_err(|error| error.to_string())?;
        Ok(PathConfig {
            to,
            cost,
            metered,
            rule,
        })
    }
}

/// `[node]`: where the member listens and asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The DNS server that has the ring's records; without it the system's resolver is used.
    pub resolver: Option<SocketAddr>,
    /// Where a router listens if that is not the address of its certificate, as behind a port forward.
    pub listen: Option<SocketAddr>,
    /// Where a router listens for QUIC; without it the port after its address, or any if that is taken.
    pub quic: Option<SocketAddr>,
    /// The transports in use.
    #[serde(default = "all_transports")]
    pub transports: Vec<TransportName>,
}

/// A transport by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportName {
    /// Datagrams.
    Udp,
    /// Framed messages over connections.
    Tcp,
    /// Streams for transfers.
    Quic,
}

impl From<TransportName> for Protocol {
    fn from(name: TransportName) -> Protocol {
        match name {
            TransportName::Udp => Protocol::Udp,
            TransportName::Tcp => Protocol::Tcp,
            TransportName::Quic => Protocol::Quic,
        }
    }
}

/// `[receive]`: whose files are taken and where they go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiveConfig {
    /// Folder for received files; a relative one stands in the home folder.
    pub directory: PathBuf,
    /// Names of the members whose files are taken; `*` is everybody in the ring.
    pub accept: Vec<String>,
    /// Largest file taken, in bytes.
    pub max_bytes: u64,
}

impl Default for ReceiveConfig {
    fn default() -> ReceiveConfig {
        ReceiveConfig {
            directory: PathBuf::from("inbox"),
            accept: vec!["*".to_owned()],
            max_bytes: 1 << 40,
        }
    }
}

impl ReceiveConfig {
    /// True if files of the member `name` are taken.
    #[must_use]
    pub fn accepts(&self, name: &str) -> bool {
        self.accept
            .iter()
            .any(|accepted| accepted == "*" || accepted == name)
    }
}

/// `[limits]`: what this member may use up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Bytes per second that all transfers together may send; 0 or none is no limit.
    pub upload: Option<u64>,
}

fn all_transports() -> Vec<TransportName> {
    vec![TransportName::Udp, TransportName::Tcp, TransportName::Quic]
}

impl Config {
    /// Reads the configuration in `home`.
    ///
    /// # Errors
    /// With file, line and reason when something in it is wrong or unknown.
    pub fn load(home: &Path) -> Result<Config, ConfigError> {
        let path = home::config_path(home);
        let text = std::fs::read_to_string(&path)
            .map_err(|source| HomeError::new("reading", &path, source))?;
        Config::parse(&text, &path)
    }

    fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let invalid = |reason: String| ConfigError::Invalid {
            path: path.display().to_string(),
            reason,
        };
        let config: Config = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                text.bytes()
                    .take(span.start)
                    .filter(|b| *b == b'\n')
                    .count()
                    + 1
            });
            invalid(format!(
                "line {line}: {}",
                error.message().lines().next().unwrap_or("malformed")
            ))
        })?;
        if !config
            .node
            .transports
            .iter()
            .any(|t| *t != TransportName::Quic)
        {
            return Err(invalid(
                "node.transports: name at least one of \"udp\" and \"tcp\"".to_owned(),
            ));
        }
        Ok(config)
    }

    /// What the user says of paths.
    #[must_use]
    pub fn path_rules(&self) -> PathRules {
        PathRules::new(self.path.iter().map(|path| path.rule.clone()).collect())
    }

    /// Writes the configuration of a new member.
    pub(crate) fn write_new(
        home: &Path,
        resolver: SocketAddr,
        listen: Option<SocketAddr>,
    ) -> Result<(), ConfigError> {
        let listen = listen.map_or("# listen = \"0.0.0.0:4000\"".to_owned(), |address| {
            format!("listen = \"{address}\"")
        });
        let text = format!(
            "# Written by `ringway join`. Restart `ringway node` after a change.\n\
             \n\
             [node]\n\
             # The DNS server that has the ring's records. Remove the line to use the system's resolver.\n\
             resolver = \"{resolver}\"\n\
             # Where a router listens.\n\
             {listen}\n\
             transports = [\"udp\", \"tcp\", \"quic\"]\n\
             \n\
             [receive]\n\
             directory = \"inbox\"\n\
             # Names of members whose files are taken; \"*\" is everybody in the ring.\n\
             accept = [\"*\"]\n\
             \n\
             [limits]\n\
             # Bytes per second for all transfers together; 0 is no limit.\n\
             upload = 0\n"
        );
        let path = home::config_path(home);
        Config::parse(&text, &path)?;
        Ok(home::write_private(&path, text.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Config::parse(text, Path::new("ringway.toml"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn what_join_writes_can_be_read() {
        let home = tempfile::tempdir().unwrap();
        let resolver = "127.0.0.1:5300".parse().unwrap();
        Config::write_new(home.path(), resolver, None).unwrap();
        let config = Config::load(home.path()).unwrap();
        assert_eq!(config.node.resolver, Some(resolver));
        assert!(config.receive.accepts("anybody"));
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let text = "[node]\nresolver = \"127.0.0.1:53\"\ntransport = [\"udp\"]\n";
        let message = refused(text);
        assert!(
            message.contains("line 3") && message.contains("transport"),
            "{message}"
        );
        let message = refused("[node]\ntransports = [\"pigeon\"]\n");
        assert!(
            message.contains("line 2") && message.contains("pigeon"),
            "{message}"
        );
        assert!(refused("[node]\ntransports = [\"quic\"]\n").contains("at least one"));
    }

    #[test]
    fn paths_have_costs_and_mistakes_in_them_have_lines() {
        let text = "[node]\n[[path]]\nto = \"tcp\"\ncost = 5\n[[path]]\nto = \"10.0.0.0/8\"\nmetered = true\n";
        let config = Config::parse(text, Path::new("ringway.toml")).unwrap();
        let address = "tcp://10.0.0.1:1".parse().unwrap();
        assert_eq!(config.path_rules().of(&address).unwrap().cost, Some(5));
        for (text, word) in [
            ("[node]\n[[path]]\nto = \"pigeon\"\ncost = 1\n", "pigeon"),
            ("[node]\n[[path]]\nto = \"udp\"\n", "metered"),
            ("[node]\n[[path]]\nto = \"udp\"\nprice = 1\n", "price"),
        ] {
            let message = refused(text);
            assert!(
                message.contains("line ") && message.contains(word),
                "{message}"
            );
        }
    }
}
