//! A client, a gateway and a server, each a host of its own.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ringway_testbed::{Host, Line, Network, Outcome, Process, Program, TestbedError, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use super::both::GatePath;
use crate::{not_tested, program};

pub(super) const CLIENT: &str = "10.66.0.2";
pub(super) const SERVER: &str = "198.51.100.9";
pub(super) const CLIENT_V6: &str = "2001:db8:1::2";
pub(super) const SERVER_V6: &str = "2001:db8:2::9";

/// How long each part may take; generous, the machine is busy.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// Says that a test is skipped for want of a program.
pub(super) fn skipped<T>(test: &str, program: &str) -> Option<T> {
    not_tested(&format!(
        "{test}: {program} is not installed (./setup.sh --tests)"
    ));
    None
}

/// The border; what was started on it ends with it.
pub(super) struct Border {
    pub(super) client: Host,
    pub(super) gateway: Host,
    pub(super) server: Host,
    pub(super) inside: String,
    pub(super) outside: String,
    pub(super) client_interface: String,
    server_interface: String,
    pub(super) folder: TempDir,
    daemon: Option<Process>,
    path: GatePath,
    _network: Network,
}

impl Border {
    /// Lays it out. `None`: something is missing here, and stderr says so.
    pub(super) fn new(test: &str) -> Option<Border> {
        Border::over(test, &Line::plain())
    }

    /// The same with this line towards the server.
    pub(super) fn over(test: &str, line: &Line) -> Option<Border> {
        let mut network = Network::or_skip(test).unwrap()?;
        if Command::new("iptables").arg("--version").output().is_err() {
            return skipped(test, "iptables");
        }
        let (client, gateway, server) = (
            network.host("client").unwrap(),
            network.host("gateway").unwrap(),
            network.host("server").unwrap(),
        );
        let plain = Line::plain();
        let inside = network
            .connect(
                (&client, &format!("{CLIENT}/24")),
                (&gateway, "10.66.0.1/24"),
                &plain,
            )
            .unwrap();
        let outside = network
            .connect(
                (&gateway, "198.51.100.1/24"),
                (&server, &format!("{SERVER}/24")),
                line,
            )
            .unwrap();
        gateway
            .check(&["sysctl", "-qw", "net.ipv4.ip_forward=1"])
            .unwrap();
        client
            .route("default", "10.66.0.1".parse().unwrap())
            .unwrap();
        server
            .route("default", "198.51.100.1".parse().unwrap())
            .unwrap();
        Some(Border {
            inside: inside.second_interface().to_owned(),
            outside: outside.first_interface().to_owned(),
            client_interface: inside.first_interface().to_owned(),
            server_interface: outside.second_interface().to_owned(),
            client,
            gateway,
            server,
            folder: tempfile::tempdir().unwrap(),
            daemon: None,
            path: GatePath::of_the_rest(),
            _network: network,
        })
    }

    /// A border whose gateway goes this path. `None`: something is missing here, and stderr says
    /// so.
    pub(super) fn on(test: &str, path: GatePath) -> Option<Border> {
        Border::new(test)?.by(test, path)
    }

    /// Its gateway goes this path. `None`: there is no such one here, and stderr says so.
    pub(super) fn by(mut self, test: &str, path: GatePath) -> Option<Border> {
        self.path = path;
        if path == GatePath::Kernel {
            let looked = self.program().run(["--json", "gate", "doctor"]).unwrap();
            if looked.code != Some(0) {
                not_tested(&format!("{test}: {}{}", looked.stdout, looked.stderr));
                return None;
            }
        }
        Some(self)
    }

    /// A bridge without any address between client and server. `None`: something is missing here,
    /// and stderr says so.
    pub(super) fn bridged(test: &str) -> Option<Border> {
        let mut network = Network::or_skip(test).unwrap()?;
        if Command::new("iptables").arg("--version").output().is_err() {
            return skipped(test, "iptables");
        }
        if !PathBuf::from("/proc/sys/net/bridge").exists() {
            return skipped(test, "the kernel's br_netfilter");
        }
        let client = network.host("client").unwrap();
        let gateway = network.switch("gateway").unwrap();
        let server = network.host("server").unwrap();
        let plain = Line::plain();
        let inside = network
            .attach(&client, &gateway, &format!("{CLIENT}/24"), &plain)
            .unwrap();
        let outside = network
            .attach(&server, &gateway, &format!("{SERVER}/24"), &plain)
            .unwrap();
        gateway
            .check(&["sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1"])
            .unwrap();
        // Both are on one link, whatever their addresses.
        for (host, link) in [(&client, &inside), (&server, &outside)] {
            let interface = link.first_interface();
            host.check(&["ip", "route", "add", "default", "dev", interface])
                .unwrap();
        }
        Some(Border {
            inside: inside.second_interface().to_owned(),
            outside: outside.second_interface().to_owned(),
            client_interface: inside.first_interface().to_owned(),
            server_interface: outside.first_interface().to_owned(),
            client,
            gateway,
            server,
            folder: tempfile::tempdir().unwrap(),
            daemon: None,
            path: GatePath::of_the_rest(),
            _network: network,
        })
    }

    /// Gives all three IPv6 as well.
    pub(super) fn with_ipv6(&self) {
        let ip = |host: &Host, words: &[&str]| {
            let words: Vec<&str> = [&["ip", "-6"], words].concat();
            host.check(&words).unwrap();
        };
        self.gateway
            .check(&["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"])
            .unwrap();
        let (inside, outside) = (&self.inside, &self.outside);
        // Without duplicate address detection the addresses are there at once.
        ip(
            &self.gateway,
            &["addr", "add", "2001:db8:1::1/64", "dev", inside, "nodad"],
        );
        ip(
            &self.gateway,
            &["addr", "add", "2001:db8:2::1/64", "dev", outside, "nodad"],
        );
        let (client, server) = (&self.client_interface, &self.server_interface);
        let address = format!("{CLIENT_V6}/64");
        ip(
            &self.client,
            &["addr", "add", &address, "dev", client, "nodad"],
        );
        let address = format!("{SERVER_V6}/64");
        ip(
            &self.server,
            &["addr", "add", &address, "dev", server, "nodad"],
        );
        ip(
            &self.client,
            &["route", "add", "default", "via", "2001:db8:1::1"],
        );
        ip(
            &self.server,
            &["route", "add", "default", "via", "2001:db8:2::1"],
        );
    }

    /// Gives the server these addresses besides, of its own network.
    pub(super) fn with_addresses(&self, addresses: &[Ipv4Addr]) {
        for address in addresses {
            let address = format!("{address}/24");
            let words = ["ip", "addr", "add", &address, "dev", &self.server_interface];
            self.server.check(&words).unwrap();
        }
    }

    /// Lets both ends, and the gateway where connections end there, send each segment by itself:
    /// joined ones of up to 64 KiB come in lumps where a class is slow, and the other end
    /// counts one header for all that HTB counted one each for.
    pub(super) fn unjoined(&self) {
        for (host, interface) in [
            (&self.client, &self.client_interface),
            (&self.gateway, &self.inside),
            (&self.gateway, &self.outside),
            (&self.server, &self.server_interface),
        ] {
            host.check(&["ip", "link", "set", "dev", interface, "gso_max_segs", "1"])
                .unwrap();
        }
    }

    /// Has the gateway give what leaves its own address.
    pub(super) fn masquerade(&self) -> Result<(), TestbedError> {
        let rule = ["iptables", "-t", "nat", "-A", "POSTROUTING", "-o"];
        let words = [rule.as_slice(), &[&self.outside, "-j", "MASQUERADE"]].concat();
        self.gateway.check(&words).map(drop)
    }

    /// A file of the test's folder with this text.
    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program on the gateway.
    pub(super) fn program(&self) -> Program {
        program().on(&self.gateway)
    }

    /// Starts the gateway and waits until it is at work.
    pub(super) fn up(&mut self, policy: &str, more: &[&str]) {
        self.up_by(&self.program(), policy, more);
    }

    /// The same with this program.
    pub(super) fn up_by(&mut self, program: &Program, policy: &str, more: &[&str]) {
        let arguments = self.gate_up(policy, more);
        self.begin(program, arguments);
    }

    /// Starts the gateway with these words, and waits until it is at work.
    pub(super) fn begin(&mut self, program: &Program, arguments: Vec<String>) {
        let log = self.folder.path().join("gateway.log");
        self.daemon = Some(Process::start(program.command(arguments), &log).unwrap());
    }

    /// The words with which the gateway is started.
    pub(super) fn gate_up(&self, policy: &str, more: &[&str]) -> Vec<String> {
        let policy = self.file("policy.toml", policy);
        let (state, control) = (self.path("state"), self.path("gate.sock"));
        let mut arguments = vec![
            "--json",
            "gate",
            "up",
            "--exit-with-stdin",
            "--policy",
            policy.to_str().unwrap(),
            "--inside",
            &self.inside,
            "--outside",
            &self.outside,
            "--state",
            &state,
            "--control",
            &control,
        ];
        if !more.contains(&"--path") {
            arguments.extend(["--path", self.path.word()]);
        }
        arguments.extend_from_slice(more);
        arguments.into_iter().map(str::to_owned).collect()
    }

    pub(super) fn daemon(&mut self) -> &mut Process {
        self.daemon.as_mut().unwrap()
    }

    /// Asks the running gateway.
    pub(super) fn ask(&self, words: &[&str]) -> Outcome {
        let control = self.path("gate.sock");
        let mut arguments = vec!["--json", "gate"];
        arguments.extend_from_slice(words);
        arguments.extend(["--control", &control]);
        self.program().run(&arguments).unwrap()
    }

    /// What `gate status` says.
    pub(super) fn status(&self) -> Value {
        let outcome = self.ask(&["status"]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.objects().unwrap().remove(0)
    }

    /// The audit, once it is as wanted.
    pub(super) fn audit_when(&self, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let state = self.path("state");
        wait_until(DEADLINE, || {
            let outcome = self.program().run([
                "--json", "gate", "audit", "--state", &state, "--most", "100000",
            ])?;
            let events = outcome.objects()?;
            if wanted(&events) {
                Ok(events)
            } else {
                Err(TestbedError(format!("the audit has {events:#?}")))
            }
        })
        .unwrap()
    }

    /// The audit as it is; empty where it cannot be read yet.
    pub(super) fn audit(&self) -> Vec<Value> {
        let state = self.path("state");
        let words = [
            "--json", "gate", "audit", "--state", &state, "--most", "100000",
        ];
        let read = self.program().run(words);
        read.and_then(|outcome| outcome.objects())
            .unwrap_or_default()
    }

    /// The gateway's rules and classes that are in the kernel.
    pub(super) fn traces(&self) -> String {
        let rules = self
            .gateway
            .check(&["iptables-save", "-t", "mangle"])
            .unwrap();
        let rules6 = self
            .gateway
            .check(&["ip6tables-save", "-t", "mangle"])
            .unwrap();
        let shaped = self.gateway.check(&["tc", "qdisc", "show"]).unwrap();
        let tables = self.gateway.check(&["nft", "list", "tables"]).unwrap();
        let ways = ["-4", "-6"].map(|family| {
            let rules = self.gateway.check(&["ip", family, "rule", "show"]);
            let routes = ["ip", family, "route", "show", "table", "all"];
            [rules.unwrap(), self.gateway.check(&routes).unwrap()].concat()
        });
        [rules, rules6, shaped, tables, ways.concat()]
            .concat()
            .lines()
            .filter(|line| {
                let marks = ["RINGWAY", "7a11", "ringway", "31249"];
                marks.iter().any(|mark| line.contains(mark))
            })
            .collect()
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

/// The file of an event: of one that went by whole, or of an alert about one.
pub(super) fn file_of(event: &Value) -> &Value {
    let whole = &event["fileinfo"];
    if whole.is_object() {
        whole
    } else {
        &event["files"][0]
    }
}
