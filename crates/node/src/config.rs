//! `ringway.toml`: what a member's user may set.

mod mail;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ringway_transport::{Address, PathRule, PathRules, WebAddress};
use serde::{Deserialize, Deserializer};

pub use self::mail::{MailConfig, ServerConfig, TlsName};
use crate::certificate::Role;
use crate::home::{self, HomeError};
use crate::limits::RELAY_RATE;

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
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
    /// `[[peer]]`, one for each member whose addresses are known beforehand.
    #[serde(default)]
    pub peer: Vec<PeerConfig>,
}

/// `[ws]`: messages over WebSocket.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WsConfig {
    /// Where to listen for plain WebSocket, usually on loopback behind a web server. Without it the member only dials.
    pub listen: Option<SocketAddr>,
    /// The path that is answered.
    pub path: String,
    /// What to tell others instead of the address listened on: where the web server in front is.
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The DNS server that has the ring's records; without it the system's resolver is used.
    pub resolver: Option<SocketAddr>,
    /// Where a router listens if that is not the address of its certificate, as behind a port forward.
    pub listen: Option<SocketAddr>,
    /// Where a router listens for QUIC; without it the port after its address, or any if that is taken.
    pub quic: Option<SocketAddr>,
    /// Whether a leaf shows its address to nobody but its parents.
    #[serde(default)]
    pub hide_address: bool,
    /// The transports in use.
    #[serde(default = "all_transports")]
    pub transports: Vec<TransportName>,
    /// Whether a leaf asks its home router for a port.
    #[serde(default = "yes")]
    pub port_mapping: bool,
}

fn yes() -> bool {
    true
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

/// `[receive]`: whose files are taken and where they go.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Bytes per second that all transfers together may send; 0 or none is no limit.
    pub upload: Option<u64>,
    /// Bytes per second that a router passes on between its leaves and others; 0 passes nothing on.
    pub relay: u64,
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            upload: None,
            relay: RELAY_RATE,
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
        let others = !config.exec.is_empty() || config.smtp.is_used();
        if config.node.transports.is_empty() && !others {
            return Err(invalid(
                "node.transports: name at least one of \"udp\", \"tcp\", \"quic\" and \"ws\""
                    .to_owned(),
            ));
        }
        if config.smtp.is_used() {
            config.smtp.options().map_err(invalid)?;
        }
        Ok(config)
    }

    /// Refuses what a router cannot do.
    ///
    /// # Errors
    /// With the key and the mend.
    pub(crate) fn check_role(&self, home: &Path, role: Role) -> Result<(), ConfigError> {
        if role == Role::Router && self.node.hide_address {
            return Err(ConfigError::Invalid {
                path: home::config_path(home).display().to_string(),
                reason: "node.hide_address: this member is a router, whose address stands in its certificate for \
                         everybody to read; remove the line, or join as a leaf"
                    .to_owned(),
            });
        }
        Ok(())
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
             transports = [\"udp\", \"tcp\", \"quic\", \"ws\"]\n\
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
        assert!(refused("[node]\ntransports = []\n").contains("at least one"));
    }

    #[test]
    fn a_leaf_may_hide_and_a_router_may_not() {
        let text = "[node]\nhide_address = true\n";
        let hidden = Config::parse(text, Path::new("ringway.toml")).unwrap();
        assert!(hidden.node.hide_address);
        let home = Path::new("/home/oslo");
        assert!(hidden.check_role(home, Role::Leaf).is_ok());
        let refused = hidden
            .check_role(home, Role::Router)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("ringway.toml") && refused.contains("hide_address"),
            "{refused}"
        );
        let usual = Config::parse("[node]\n", Path::new("ringway.toml")).unwrap();
        assert!(!usual.node.hide_address && usual.check_role(home, Role::Router).is_ok());
    }

    #[test]
    fn transports_and_known_peers_are_read() {
        let text = "[node]\n[ws]\nlisten = \"127.0.0.1:7080\"\nadvertise = [\"wss://oslo.example.org/ringway\"]\n\
            [[exec]]\nname = \"folder\"\ncommand = \"/usr/bin/python3\"\narguments = [\"x.py\"]\n\
            [[peer]]\nname = \"lima\"\naddresses = [\"ws://192.0.2.1/ringway\", \"exec://folder/lima\"]\n";
        let config = Config::parse(text, Path::new("ringway.toml")).unwrap();
        assert_eq!(config.ws.advertise[0].path(), "/ringway");
        assert_eq!(config.peer[0].addresses.len(), 2);
        for (text, word) in [
            ("[node]\n[ws]\nadvertise = [\"http://x/\"]\n", "ws://"),
            (
                "[node]\n[[peer]]\nname = \"a\"\naddresses = [\"x\"]\n",
                "scheme",
            ),
        ] {
            let message = refused(text);
            assert!(
                message.contains("line ") && message.contains(word),
                "{message}"
            );
        }
    }

    #[test]
    fn mail_needs_a_mailbox_with_a_header_and_a_way() {
        let text = "[node]\ntransports = []\n[smtp]\nmailbox = \"oslo@example.org\"\nheader = [\"X-Ringway\", \"k3\"]\n\
            maildir = \"/var/mail/oslo\"\nquota = 200\nrelay = { host = \"mail.example.org\", port = 465 }\nbatch_ms = 0\nmailbox_hourly = 7\n\
            pop3 = { host = \"h\", port = 995, user = \"u\", password_file = \"/p\", poll_seconds = 60 }\n";
        let config = Config::parse(text, Path::new("ringway.toml")).unwrap();
        let options = config.smtp.options().unwrap();
        assert_eq!(options.sources.len(), 2);
        assert_eq!(
            (
                options.batch_time.as_millis(),
                options.mailbox_budget.hourly
            ),
            (0, 7)
        );
        assert!(options.relay.is_some() && options.address.is_some());
        assert_eq!(options.quota, Some(200));
        for (text, word) in [
            (
                "[node]\n[smtp]\nmailbox = \"a@b\"\nmaildir = \"/m\"\n",
                "header",
            ),
            (
                "[node]\n[smtp]\nmailbox = \"a@b\"\nheader = [\"Bcc\", \"x\"]\nmaildir = \"/m\"\n",
                "X-",
            ),
            (
                "[node]\n[smtp]\nmailbox = \"a@b\"\nheader = [\"X-R\", \"x\"]\n",
                "relay",
            ),
            (
                "[node]\n[smtp]\nimap = { host = \"h\", port = 993 }\n",
                "password_file",
            ),
            (
                "[node]\n[smtp]\npop3 = { host = \"h\", port = 995, user = \"u\" }\n",
                "belong together",
            ),
            (
                "[node]\n[smtp]\npop3 = { host = \"h\", port = 995, user = \"u\", password_file = \"/p\", folder = \"f\" }\n",
                "folder",
            ),
            (
                "[node]\n[smtp]\npop3 = { host = \"h\", port = 995, user = \"u\", password_credential = \"../x\" }\n",
                "no path",
            ),
            (
                "[node]\n[smtp]\nrelay = { host = \"h\", port = 25, user = \"u\", password_file = \"/p\", password_credential = \"x\" }\n",
                "not both",
            ),
        ] {
            assert!(refused(text).contains(word), "{}", refused(text));
        }
    }

    #[test]
    fn what_is_done_for_others_has_a_limit_and_can_be_switched_off() {
        let of = |text| Config::parse(text, Path::new("ringway.toml")).unwrap();
        let usual = of("[node]\n");
        assert_eq!(
            (usual.limits.relay, usual.node.port_mapping),
            (RELAY_RATE, true)
        );
        let none = of("[node]\nport_mapping = false\n[limits]\nrelay = 0\n");
        assert_eq!((none.limits.relay, none.node.port_mapping), (0, false));
        assert_eq!(
            of("[node]\n[limits]\nupload = 5\n").limits.relay,
            RELAY_RATE
        );
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
