//! A host, a gateway or a switch: one network namespace.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::rules::{self, Rule};
use super::{NAMES, ip};
use crate::program::finish;
use crate::{Outcome, TestbedError};

/// The name of a switch's bridge.
pub(super) const BRIDGE: &str = "br0";

/// One namespace. Copies are the same host; the [`Network`](crate::Network) that made it removes
/// it.
#[derive(Clone, Debug)]
pub struct Host {
    label: String,
    namespace: String,
    switch: bool,
    ports: Arc<Mutex<Ports>>,
}

#[derive(Debug, Default)]
struct Ports {
    interfaces: usize,
    addresses: Vec<IpAddr>,
}

impl Host {
    pub(super) fn new(label: &str, namespace: &str) -> Host {
        Host {
            label: label.to_owned(),
            namespace: namespace.to_owned(),
            switch: false,
            ports: Arc::default(),
        }
    }

    pub(super) fn into_switch(mut self) -> Host {
        self.switch = true;
        self
    }

    /// What the test calls it.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The name of its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The address of its first interface.
    ///
    /// # Errors
    /// When it has none.
    pub fn address(&self) -> Result<IpAddr, TestbedError> {
        let first = self.ports().addresses.first().copied();
        first.ok_or_else(|| TestbedError(format!("{} has no address", self.label)))
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command that will run on it.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        // `ip` becomes the program, with the same process id.
        command
            .args(["netns", "exec", &self.namespace])
            .arg(program);
        command
    }

    /// Does something on it, on a thread of its own: sockets that `work` makes belong to this host
    /// for good.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or `work` panicked.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        let path = Path::new(NAMES).join(&self.namespace);
        let done = thread::scope(|scope| {
            let entered = scope.spawn(|| -> io::Result<T> {
                let file = File::open(path)?;
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            });
            entered.join()
        });
        match done {
            Ok(result) => result.map_err(|error| TestbedError::of(&self.namespace, error)),
            Err(_) => Err(TestbedError(format!("a panic on {}", self.label))),
        }
    }

    /// Runs a command on it to its end; the first word is the program.
    ///
    /// # Errors
    /// When it cannot be started or does not end in time; a bad exit code is no error.
    pub fn run(&self, words: &[&str]) -> Result<Outcome, TestbedError> {
        self.run_with_input(words, "")
    }

    fn run_with_input(&self, words: &[&str], input: &str) -> Result<Outcome, TestbedError> {
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| TestbedError("an empty command".to_owned()))?;
        let mut command = self.command(program);
        command.args(arguments);
        finish(command, input)
    }

    /// As [`Host::run`], and gives what it printed.
    ///
    /// # Errors
    /// Also when the exit code is not 0.
    pub fn check(&self, words: &[&str]) -> Result<String, TestbedError> {
        self.checked(words, "")
    }

    fn checked(&self, words: &[&str], input: &str) -> Result<String, TestbedError> {
        let outcome = self.run_with_input(words, input)?;
        match outcome.code {
            Some(0) => Ok(outcome.stdout),
            code => Err(TestbedError(format!(
                "`{}` on {} ended with {code:?}: {}",
                words.join(" "),
                self.label,
                outcome.stderr.trim()
            ))),
        }
    }

    /// Sends what goes to `destination`, such as `default` or `10.78.0.0/24`, through a neighbour.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn route(&self, destination: &str, via: IpAddr) -> Result<(), TestbedError> {
        let via = via.to_string();
        ip(&[
            "-n",
            &self.namespace,
            "route",
            "replace",
            destination,
            "via",
            &via,
        ])
        .map(drop)
    }

    /// Puts these rules in the place of all former ones, at once.
    ///
    /// They concern what arrives at the host and what passes through it, not what it sends itself:
    /// its own firewall would answer a sender with an error, and a network drops in silence.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn rules(&self, rules: &[Rule]) -> Result<(), TestbedError> {
        let text = rules::ruleset(rules, self.switch);
        self.checked(&["nft", "-f", "-"], &text).map(drop)
    }

    /// A name for one more interface.
    pub(super) fn next_interface(&self) -> String {
        let mut ports = self.ports();
        let name = format!("eth{}", ports.interfaces);
        ports.interfaces += 1;
        name
    }

    /// Makes an interface ready: MTU, up, and an address or a place in the bridge.
    pub(super) fn set_up(
        &self,
        interface: &str,
        address: Option<&str>,
        mtu: u32,
    ) -> Result<(), TestbedError> {
        let name = self.namespace.as_str();
        let mtu = mtu.to_string();
        ip(&["-n", name, "link", "set", interface, "mtu", &mtu])?;
        if self.switch {
            ip(&["-n", name, "link", "set", interface, "master", BRIDGE])?;
        }
        ip(&["-n", name, "link", "set", interface, "up"])?;
        let Some(address) = address else {
            return Ok(());
        };
        let host = address.split('/').next().unwrap_or_default();
        let host: IpAddr = host
            .parse()
            .map_err(|error| TestbedError::of(address, error))?;
        let mut words = vec!["-n", name, "address", "add", address, "dev", interface];
        if host.is_ipv6() {
            // No other host can have it, and the check takes a second.
            words.push("nodad");
        }
        ip(&words)?;
        self.ports().addresses.push(host);
        Ok(())
    }
}
