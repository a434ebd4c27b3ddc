//! Networks for tests: hosts, cables, gateways, and what goes wrong with them, all in namespaces of
//! the test's own.
//!
//! Nothing here touches the machine's own network: interfaces are made inside the namespaces. A
//! namespace is called `rw-PID-NUMBER`, PID being the test's process; whatever a dead process left
//! behind is removed when the next [`Network`] is made. When a [`Network`] is dropped, also by a
//! panic, what still runs in its namespaces is killed and they are removed. Hold the `Network`
//! before everything that runs in it: Rust drops in reverse order.
//!
//! | module | does |
//! |---|---|
//! | `host` | [`Host`]: a namespace; commands, addresses and routes in it |
//! | `link` | [`Link`]: a cable between two hosts; [`Line`]: how good it is |
//! | `rules` | [`Rule`]: what a host, gateway or switch drops or translates |
//! | `wire` | carries frames with a delay, loss and a rate, without `netem`, which many kernels lack |
//!
//! `RINGWAY_RECORD=FOLDER` has each host's packets written to files there (`tcpdump`), so that a
//! test with real programs gives captures of them.
//!
//! It needs root and the commands `ip` and `nft`: [`Network::available`] says what is missing.
//!
//! ```no_run
//! use ringway_testbed::{Line, Network, Rule, Traffic};
//!
//! # fn main() -> Result<(), ringway_testbed::TestbedError> {
//! let mut network = Network::new()?;
//! let switch = network.switch("switch")?;
//! let (oslo, lima) = (network.host("oslo")?, network.host("lima")?);
//! network.attach(&oslo, &switch, "10.77.0.1/24", &Line::plain())?;
//! let far = Line::plain().delay_ms(20).loss(0.01);
//! network.attach(&lima, &switch, "10.77.0.2/24", &far)?;
//! switch.rules(&[Rule::Drop(Traffic::udp())])?;
//! assert_eq!(oslo.run(&["ping", "-c", "1", "10.77.0.2"])?.code, Some(0));
//! # Ok(())
//! # }
//! ```

mod host;
mod link;
mod rules;
mod wire;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use host::Host;
pub use link::{Line, Link};
pub use rules::{Rule, Traffic};

use crate::program::finish;
use crate::{TestbedError, wait_until};
use wire::Wire;

/// Where `ip netns` keeps its names.
const NAMES: &str = "/run/netns";

/// The variable that names a folder: each host's packets are written there.
const RECORD: &str = "RINGWAY_RECORD";

/// Numbers the namespaces of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A network of a test's own; removed when dropped.
#[derive(Debug)]
pub struct Network {
    namespaces: Vec<String>,
    wires: Vec<Wire>,
}

impl Network {
    /// Whether this machine lets us make networks.
    ///
    /// # Errors
    /// With what is missing, for a person. A test says so on stderr and ends.
    pub fn available() -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".to_owned());
        }
        for command in [["ip", "-V"], ["nft", "-v"]] {
            let found = Command::new(command[0]).arg(command[1]).output();
            if !found.is_ok_and(|output| output.status.success()) {
                return Err(format!("the command `{}` is missing", command[0]));
            }
        }
        if !Path::new("/dev/net/tun").exists() {
            return Err("/dev/net/tun is missing".to_owned());
        }
        // Only trying tells whether a container's root may do it.
        let tried = Network::new().and_then(|mut network| {
            let host = network.host("trial")?;
            host.rules(&[Rule::Drop(Traffic::udp())])
        });
        tried.map_err(|error| error.to_string())
    }

    /// A network, or one loud line on stderr, past the test runner's capture, that says why `test`
    /// is skipped.
    ///
    /// # Errors
    /// As [`Network::new`], where networks can be made at all.
    pub fn or_skip(test: &str) -> Result<Option<Network>, TestbedError> {
        static AVAILABLE: OnceLock<Result<(), String>> = OnceLock::new();
        if let Err(reason) = AVAILABLE.get_or_init(Network::available) {
            // Without a stderr it is not reported.
            writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}").ok();
            return Ok(None);
        }
        Network::new().map(Some)
    }

    /// A network without hosts. Removes what dead processes have left.
    ///
    /// # Errors
    /// When stale namespaces cannot be listed.
    pub fn new() -> Result<Network, TestbedError> {
        for name in namespaces()? {
            if owner(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // Another test may be removing it in this moment.
                remove(&name).ok();
            }
        }
        Ok(Network {
            namespaces: Vec::new(),
            wires: Vec::new(),
        })
    }

    /// Adds a host; it has a loopback interface and no other.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn host(&mut self, label: &str) -> Result<Host, TestbedError> {
        let host = self.namespace(label)?;
        record(&host)?;
        Ok(host)
    }

    fn namespace(&mut self, label: &str) -> Result<Host, TestbedError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rw-{}-{number}", std::process::id());
        ip(&["netns", "add", &name])?;
        self.namespaces.push(name.clone());
        ip(&["-n", &name, "link", "set", "lo", "up"])?;
        Ok(Host::new(label, &name))
    }

    /// Adds a switch, to which hosts are attached.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn switch(&mut self, label: &str) -> Result<Host, TestbedError> {
        let switch = self.namespace(label)?.into_switch();
        let name = switch.namespace();
        ip(&["-n", name, "link", "add", host::BRIDGE, "type", "bridge"])?;
        ip(&["-n", name, "link", "set", host::BRIDGE, "up"])?;
        Ok(switch)
    }

    /// Adds a host that forwards between its interfaces.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn gateway(&mut self, label: &str) -> Result<Host, TestbedError> {
        let gateway = self.namespace(label)?;
        gateway.check(&["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])?;
        let all = "test ! -e /proc/sys/net/ipv6 || echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
        gateway.check(&["sh", "-c", all])?;
        Ok(gateway)
    }

    /// Lays a cable from `host` to `switch`; the host's end gets the address, such as
    /// `10.77.0.1/24`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn attach(
        &mut self,
        host: &Host,
        switch: &Host,
        address: &str,
        line: &Line,
    ) -> Result<Link, TestbedError> {
        let (link, wire) = link::lay((host, Some(address)), (switch, None), line)?;
        self.wires.extend(wire);
        Ok(link)
    }

    /// Lays a cable between two hosts, each with an address such as `10.77.1.1/24`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn connect(
        &mut self,
        first: (&Host, &str),
        second: (&Host, &str),
        line: &Line,
    ) -> Result<Link, TestbedError> {
        let ends = ((first.0, Some(first.1)), (second.0, Some(second.1)));
        let (link, wire) = link::lay(ends.0, ends.1, line)?;
        self.wires.extend(wire);
        Ok(link)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The threads first: they hold interfaces of the namespaces.
        self.wires.clear();
        for name in &self.namespaces {
            // A failure is not reported; the next network tries again.
            remove(name).ok();
        }
    }
}

/// Writes down all that a host sends and gets, if [`RECORD`] is set; removing the namespace ends
/// it.
fn record(host: &Host) -> Result<(), TestbedError> {
    let Some(folder) = std::env::var_os(RECORD) else {
        return Ok(());
    };
    let file = format!("{}-{}.pcap", host.label(), host.namespace());
    let file = Path::new(&folder).join(file);
    // As root, because it may not write there otherwise; each packet at once, because it is killed.
    host.command("tcpdump")
        .args(["-i", "any", "-U", "-Z", "root", "-w"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| TestbedError::of("tcpdump", error))?;
    wait_until(Duration::from_secs(10), || {
        // It makes the file when it listens.
        let made = file.exists().then_some(());
        made.ok_or_else(|| TestbedError(format!("tcpdump does not write {}", file.display())))
    })
}

/// All names of namespaces on this machine.
fn namespaces() -> Result<Vec<String>, TestbedError> {
    if !Path::new(NAMES).exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(NAMES).map_err(|error| TestbedError::of(NAMES, error))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.into_string().ok()).collect())
}

/// The process that made a namespace of ours.
fn owner(namespace: &str) -> Option<u32> {
    let (pid, number) = namespace.strip_prefix("rw-")?.split_once('-')?;
    number.parse::<u64>().ok()?;
    pid.parse().ok()
}

/// Kills what runs in a namespace of ours, and removes it.
fn remove(namespace: &str) -> Result<(), TestbedError> {
    for pid in ip(&["netns", "pids", namespace])?.split_whitespace() {
        let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may end in this very moment.
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    }
    ip(&["netns", "delete", namespace]).map(drop)
}

/// Runs `ip` and gives what it prints.
fn ip(arguments: &[&str]) -> Result<String, TestbedError> {
    let mut command = Command::new("ip");
    command.args(arguments);
    let outcome = finish(command, "")?;
    match outcome.code {
        Some(0) => Ok(outcome.stdout),
        _ => Err(TestbedError(format!(
            "ip {}: {}",
            arguments.join(" "),
            outcome.stderr.trim()
        ))),
    }
}

#[cfg(test)]
mod tests;
