//! The `ringway.toml` of a new member.

use std::net::SocketAddr;
use std::path::Path;

use super::{Config, ConfigError, Document};
use crate::certificate::Role;
use crate::endpoint::Endpoint;
use crate::home;
use crate::limits::RELAY_RATE;

impl Config {
    /// Writes the configuration of a new member: of a router if it has an address, else of a leaf.
    pub(crate) fn write_new(
        home: &Path,
        resolver: &Endpoint,
        address: Option<SocketAddr>,
    ) -> Result<(), ConfigError> {
        let text = text(resolver, address);
        let path = home::config_path(home);
        Config::parse(&text, &path)?;
        Ok(home::write_private(&path, text.as_bytes())?)
    }
}

impl Config {
    /// A router has gone on from one address to another. Where the file says that it listens at the
    /// old one it says the new one from now on; else, as behind a port forward, it stays.
    pub(crate) fn move_listen(
        home: &Path,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<(), ConfigError> {
        let path = home::config_path(home);
        let text = Document::read(&path)?.text().to_owned();
        let moved = moved(&text, from, to);
        if moved == text {
            return Ok(());
        }
        Config::parse(&moved, &path)?;
        Ok(home::write_private(&path, moved.as_bytes())?)
    }
}

/// The text with the new address in the keys of `[node]` that name the old one.
fn moved(text: &str, from: SocketAddr, to: SocketAddr) -> String {
    let mut in_node = false;
    let lines = text.split_inclusive('\n').map(|line| {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            in_node = trimmed.starts_with("[node]");
        }
        let key = trimmed.split('=').next().unwrap_or_default().trim();
        let value = trimmed
            .split('"')
            .nth(1)
            .and_then(|value| value.parse().ok());
        let value: Option<SocketAddr> = value.filter(|_| in_node);
        let next = match (key, value) {
            ("listen", Some(value)) if value == from => Some(to),
            // Its port is its own.
            ("quic", Some(value)) if value.ip() == from.ip() => {
                Some(SocketAddr::new(to.ip(), value.port()))
            }
            _ => None,
        };
        match value.zip(next) {
            Some((value, next)) => line.replacen(&value.to_string(), &next.to_string(), 1),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

/// What concerns the other role only is not in it.
fn text(resolver: &Endpoint, address: Option<SocketAddr>) -> String {
    let (role, own, limit) = match address {
        Some(address) => (
            Role::Router,
            format!(
                "# Where this router listens. Others find it at the address in its certificate; behind a port forward this one differs.\n\
                 listen = \"{address}\"\n"
            ),
            format!(
                "# Bytes per second that this router passes on between its leaves and others; 0 passes nothing on.\n\
                 # relay = {RELAY_RATE}\n"
            ),
        ),
        None => (
            Role::Leaf,
            "# true: only the routers that this leaf keeps a link to learn its address.\n\
             # hide_address = false\n\
             # false: the home router is not asked for a port.\n\
             # port_mapping = true\n"
                .to_owned(),
            String::new(),
        ),
    };
    format!(
        "# Written by `ringway join` for a {role}. After a change SIGHUP has `ringway node` load it\n\
         # again; sections that count from the next start only are named in its log.\n\
         \n\
         [node]\n\
         # The DNS server that has the ring's records. Remove the line to use the system's resolver.\n\
         resolver = \"{resolver}\"\n\
         {own}\
         transports = [\"udp\", \"tcp\", \"quic\", \"ws\"]\n\
         \n\
         # Rules for files that members offer; the first that fits counts. What fits none is refused.\n\
         # With `ask` a person accepts each (`ringway inbox`); `run` names a program to be run then.\n\
         [[receive]]\n\
         from = [\"*\"]\n\
         into = \"inbox\"\n\
         \n\
         [limits]\n\
         # Bytes per second for all transfers together; 0 is no limit.\n\
         upload = 0\n\
         {limit}",
        role = role.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_old_address_in_node_moves() {
        let (from, to) = ("192.0.2.7:7400", "192.0.2.9:7500");
        let moves = |text: &str| moved(text, from.parse().unwrap(), to.parse().unwrap());
        let text = "# listen = \"192.0.2.7:7400\"\n[node]\nlisten = \"192.0.2.7:7400\" # ours\nquic=\"192.0.2.7:443\"\n[ws]\nlisten = \"192.0.2.7:7400\"\n";
        assert_eq!(
            moves(text),
            "# listen = \"192.0.2.7:7400\"\n[node]\nlisten = \"192.0.2.9:7500\" # ours\nquic=\"192.0.2.9:443\"\n[ws]\nlisten = \"192.0.2.7:7400\"\n"
        );
        for text in [
            "[node]\nlisten = \"0.0.0.0:7400\"\n",
            "[node]\nlisten = \"192.0.2.7:7401\"\n",
            "[node]\n",
            "",
        ] {
            assert_eq!(moves(text), text);
        }
    }

    #[test]
    fn the_written_file_is_valid_for_its_role() {
        let resolver: Endpoint = "127.0.0.1:5300".parse().unwrap();
        let address: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        for (address, role, has, has_not) in [
            (
                None,
                Role::Leaf,
                ["hide_address", "port_mapping"],
                ["listen", "relay"],
            ),
            (
                Some(address),
                Role::Router,
                ["listen", "relay"],
                ["hide_address", "port_mapping"],
            ),
        ] {
            let home = tempfile::tempdir().unwrap();
            Config::write_new(home.path(), &resolver, address).unwrap();
            let config = Config::load(home.path()).unwrap();
            config.check_role(role).unwrap();
            assert_eq!(config.node.resolver.as_ref(), Some(&resolver));
            assert_eq!(config.node.listen, address);
            assert!(config.receive.rules[0].from.fit("anybody"));
            let text = std::fs::read_to_string(home::config_path(home.path())).unwrap();
            assert!(has.iter().all(|key| text.contains(key)), "{text}");
            assert!(!has_not.iter().any(|key| text.contains(key)), "{text}");
            // What is commented out is right as well.
            let whole: String = text
                .lines()
                .map(|line| match line.strip_prefix("# ") {
                    Some(set) if set.contains(" = ") => format!("{set}\n"),
                    _ => format!("{line}\n"),
                })
                .collect();
            assert_ne!(whole, text);
            std::fs::write(home::config_path(home.path()), whole).unwrap();
            Config::load(home.path()).unwrap().check_role(role).unwrap();
        }
    }
}
