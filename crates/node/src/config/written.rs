//! The `ringway.toml` of a new member.

use std::net::SocketAddr;
use std::path::Path;

use super::{Config, ConfigError};
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
         [receive]\n\
         directory = \"inbox\"\n\
         # Names of members whose files are taken; \"*\" is everybody in the ring.\n\
         accept = [\"*\"]\n\
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
            assert!(config.receive.accepts("anybody"));
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
