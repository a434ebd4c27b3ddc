//! What types alone do not show: values that contradict each other, or mean nothing.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ringway_transport::{Address, ExecAddress, WebAddress};

use super::service::is_pattern;
use super::{Config, ConfigError, ExecConfig, InterfaceConfig, PathConfig, ServiceName, Wrong};
use crate::certificate::{Name, Role};
use crate::limits::{INTERFACE_NAME_BYTES, SERVICES};

impl Config {
    /// Refuses what cannot be meant.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let checks = [
            self.check_transports(),
            self.receive.check(),
            self.check_interfaces(),
            self.check_paths(),
            self.check_ws(),
            self.check_exec(),
            self.check_mail(),
            self.check_peers(),
            self.check_classes(),
            self.check_services(),
        ];
        let all: Result<(), Wrong> = checks.into_iter().collect();
        all.map_err(|wrong| self.refuse(wrong))
    }

    fn check_transports(&self) -> Result<(), Wrong> {
        let key = "node.transports";
        let names = &self.node.transports;
        // A hidden leaf does not use programs.
        let programs = !self.exec.is_empty() && !self.node.hide_address;
        if names.is_empty() && !programs && !self.smtp.is_used() {
            let reason = "name at least one of \"udp\", \"tcp\", \"quic\" and \"ws\", or nothing carries messages";
            return Err(Wrong::new(key, reason));
        }
        let twice = |(index, name)| names.iter().take(index).any(|other| other == name);
        if names.iter().enumerate().any(twice) {
            return Err(Wrong::new(
                key,
                "a transport stands here twice: once is enough",
            ));
        }
        Ok(())
    }

    fn check_interfaces(&self) -> Result<(), Wrong> {
        let mut names = BTreeSet::new();
        for (index, InterfaceConfig { name, .. }) in self.interface.iter().enumerate() {
            let wrong = |reason: String| Err(Wrong::new(format!("interface.{index}.name"), reason));
            // Linux: `dev_valid_name`.
            let fits = |c: char| !c.is_whitespace() && !c.is_control() && c != '/' && c != ':';
            if name.len() > INTERFACE_NAME_BYTES || !name.chars().all(fits) {
                return wrong(format!(
                    "`{}` is no interface's name: `ip link` shows them, such as `name = \"eth0\"`",
                    name.escape_debug()
                ));
            }
            if !names.insert(name) {
                return wrong("this interface has a cap already: one is enough".to_owned());
            }
        }
        Ok(())
    }

    fn check_paths(&self) -> Result<(), Wrong> {
        let check = |(index, path): (usize, &PathConfig)| {
            let wrong = |reason| Wrong::new(format!("path.{index}.to"), reason);
            path.rule().map(drop).map_err(wrong)
        };
        self.path.iter().enumerate().try_for_each(check)
    }

    fn check_ws(&self) -> Result<(), Wrong> {
        let path = &self.ws.path;
        // As an address would spell it.
        let spelled = format!("ws://localhost{path}").parse::<WebAddress>();
        if !spelled.is_ok_and(|address| address.path() == *path) {
            let reason = format!(
                "`{}` is no path: it begins with `/` and has letters, digits and `/._-`, such as `path = \"/ringway\"`",
                path.escape_debug()
            );
            return Err(Wrong::new("ws.path", reason));
        }
        if !self.ws.advertise.is_empty() && self.ws.listen.is_none() {
            let reason = "without `listen` no socket answers there: add, for example, `listen = \"127.0.0.1:7080\"`";
            return Err(Wrong::new("ws.advertise", reason));
        }
        Ok(())
    }

    fn check_exec(&self) -> Result<(), Wrong> {
        let mut names = BTreeSet::new();
        for (index, exec) in self.exec.iter().enumerate() {
            let ExecConfig { name, command, .. } = exec;
            let wrong = |key: &str, reason: &str| Wrong::new(format!("exec.{index}.{key}"), reason);
            if ExecAddress::new(name, "").is_err() {
                let reason = format!(
                    "`{}` is no name: it has lower-case letters, digits and hyphens, such as `name = \"folder\"`",
                    name.escape_debug()
                );
                return Err(wrong("name", &reason));
            }
            if !names.insert(name) {
                return Err(wrong(
                    "name",
                    "another program has this name: addresses could not tell them apart",
                ));
            }
            // A hidden leaf does not start it.
            let usable = if self.node.hide_address {
                Ok(())
            } else {
                check_program(command, "such as `command = \"/usr/bin/python3\"`")
            };
            usable.map_err(|reason| wrong("command", &reason))?;
        }
        Ok(())
    }

    fn check_mail(&self) -> Result<(), Wrong> {
        if self.smtp.is_used() || self.document.has("smtp") {
            self.smtp.options().map(drop)
        } else {
            Ok(())
        }
    }

    fn check_peers(&self) -> Result<(), Wrong> {
        for (index, peer) in self.peer.iter().enumerate() {
            if let Err(error) = peer.name.parse::<Name>() {
                return Err(Wrong::new(format!("peer.{index}.name"), error.to_string()));
            }
            for (number, address) in peer.addresses.iter().enumerate() {
                let Address::Exec(exec) = address else {
                    continue;
                };
                if !self.exec.iter().any(|program| program.name == exec.name()) {
                    let reason = format!(
                        "no [[exec]] has the name of `{address}`: add one with `name = \"{}\"`, or remove the address",
                        exec.name()
                    );
                    return Err(Wrong::new(
                        format!("peer.{index}.addresses.{number}"),
                        reason,
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_services(&self) -> Result<(), Wrong> {
        if self.service.len() > SERVICES {
            let reason = format!("there may be {SERVICES} services: remove some");
            return Err(Wrong::new("service", reason));
        }
        let mut names = BTreeSet::new();
        for (index, service) in self.service.iter().enumerate() {
            let wrong = |key: &str, reason: String| {
                Err(Wrong::new(format!("service.{index}.{key}"), reason))
            };
            if let Err(error) = service.name.parse::<ServiceName>() {
                return wrong("name", format!("{error}, such as `name = \"ssh\"`"));
            }
            if !names.insert(&service.name) {
                return wrong("name", "another service has this name".to_owned());
            }
            if let Some(odd) = service.from.iter().find(|text| !is_pattern(text)) {
                return wrong(
                    "from",
                    format!(
                        "`{}` is no name of a member, and no pattern such as \"lab-*\"",
                        odd.escape_debug()
                    ),
                );
            }
        }
        Ok(())
    }

    /// Refuses what a member of this role cannot do, or need not know.
    ///
    /// # Errors
    /// With the key and the mend.
    pub fn check_role(&self, role: Role) -> Result<(), ConfigError> {
        let has = |key| self.document.has(key);
        let refused = match role {
            Role::Router if self.node.hide_address => Some((
                "node.hide_address",
                "this member is a router, whose address stands in its certificate for \
                 everybody to read; remove the line, or join as a leaf"
                    .to_owned(),
            )),
            Role::Router if self.node.port_mapping && has("node.port_mapping") => Some((
                "node.port_mapping",
                "this member is a router, whose address stands in its certificate: it asks no home router for a port; \
                 remove the line"
                    .to_owned(),
            )),
            Role::Router => None,
            Role::Leaf => ["node.listen", "node.quic", "limits.relay"]
                .into_iter()
                .find(|key| has(key))
                .map(|key| {
                    let what = match key {
                        "limits.relay" => "passes nothing on for others",
                        _ => "listens at no address that others know",
                    };
                    (
                        key,
                        format!("this member is a leaf, which {what}; remove the line, or join as a router"),
                    )
                }),
        };
        match refused {
            Some((key, reason)) => Err(self.refuse(Wrong::new(key, reason))),
            None => Ok(()),
        }
    }
}

/// Whether a program can be started. The example is what a user could write.
pub(super) fn check_program(command: &Path, example: &str) -> Result<(), String> {
    let shown = command.display();
    if !command.is_absolute() {
        return Err(format!("`{shown}` is no absolute path, {example}"));
    }
    match command.metadata() {
        Err(error) => Err(format!(
            "`{shown}` cannot be used: {error}; name a program, {example}"
        )),
        Ok(metadata) if !metadata.is_file() => Err(format!("`{shown}` is no program, {example}")),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => Err(format!(
            "`{shown}` cannot be run: use `chmod +x`, or name its interpreter and put it into `arguments`"
        )),
        Ok(_) => Ok(()),
    }
}
