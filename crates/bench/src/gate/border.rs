//! Three namespaces in a row, and what runs in the middle one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ringway_gateway::limits::MAX_BATCH;
use ringway_gateway::linux::queue::Queue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

use super::proxy::{INTERCEPTED, Proxy};
use super::suricata::{self, Suricata};
use crate::cli::Offloads;
use crate::program::ringway;
use ringway_terminal::Failure;

pub(super) const SERVER: &str = "198.51.100.9";

/// The numbers of the queues whose packets are all accepted. The first has segments without data,
/// and is looked at first, so that handshakes do not wait, as the gateway does it: a sender that
/// has once seen a short way across sends large pieces.
const SMALL: u16 = 7_300;
const ACCEPTED: u16 = 7_301;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Gateway,
    Server,
}

/// The namespaces; they are removed with this.
#[derive(Debug)]
pub(super) struct Border {
    prefix: String,
    folder: TempDir,
}

impl Border {
    /// Lays them out. Needs root and `ip`.
    pub(super) fn lay() -> Result<Border, Failure> {
        let folder = tempfile::tempdir().map_err(Failure::failed)?;
        let border = Border {
            prefix: format!("rwb{}", std::process::id()),
            folder,
        };
        for side in [Side::Client, Side::Gateway, Side::Server] {
            border.ip(&["netns", "add", &border.name(side)])?;
            border.inside(side, &["ip", "link", "set", "lo", "up"])?;
        }
        let (client, gateway, server) = (
            border.name(Side::Client),
            border.name(Side::Gateway),
            border.name(Side::Server),
        );
        border.ip(&[
            "link", "add", "lan0", "netns", &gateway, "type", "veth", "peer", "name", "eth0",
            "netns", &client,
        ])?;
        border.ip(&[
            "link", "add", "wan0", "netns", &gateway, "type", "veth", "peer", "name", "eth0",
            "netns", &server,
        ])?;
        let ends = [
            (Side::Client, "eth0", "10.66.0.2/24".to_owned()),
            (Side::Gateway, "lan0", "10.66.0.1/24".to_owned()),
            (Side::Gateway, "wan0", "198.51.100.1/24".to_owned()),
            (Side::Server, "eth0", format!("{SERVER}/24")),
        ];
        for (side, interface, address) in ends {
            border.inside(side, &["ip", "addr", "add", &address, "dev", interface])?;
            border.inside(side, &["ip", "link", "set", interface, "up"])?;
        }
        border.inside(
            Side::Client,
            &["ip", "route", "add", "default", "via", "10.66.0.1"],
        )?;
        border.inside(
            Side::Server,
            &["ip", "route", "add", "default", "via", "198.51.100.1"],
        )?;
        border.inside(Side::Gateway, &["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
        // Tens of thousands of short connections a second would fill its table within seconds.
        // Older kernels have no such bound for a namespace.
        for state in ["time_wait", "close", "close_wait", "last_ack", "fin_wait"] {
            let bound = format!("net.netfilter.nf_conntrack_tcp_timeout_{state}=2");
            border
                .inside(Side::Gateway, &["sysctl", "-qw", &bound])
                .ok();
        }
        Ok(border)
    }

    /// Whether packets travel joined, as far as the cables of these namespaces join them. False:
    /// they cannot be set to do without, because ethtool is not there.
    pub(super) fn offload(&self, offloads: Offloads) -> Result<bool, Failure> {
        let version = Command::new("ethtool").arg("--version").output();
        if version.is_err() {
            return Ok(offloads == Offloads::On);
        }
        let ends = [
            (Side::Client, "eth0"),
            (Side::Gateway, "lan0"),
            (Side::Gateway, "wan0"),
            (Side::Server, "eth0"),
        ];
        // These cables join nothing that arrives in pieces unless they are set to.
        let words: &[&str] = match offloads {
            Offloads::On => &["tso", "on", "gso", "on"],
            Offloads::Off => &["tso", "off", "gso", "off", "gro", "off"],
        };
        for (side, interface) in ends {
            self.inside(side, &[&["ethtool", "-K", interface], words].concat())?;
        }
        Ok(true)
    }

    fn name(&self, side: Side) -> String {
        let end = match side {
            Side::Client => 'c',
            Side::Gateway => 'g',
            Side::Server => 's',
        };
        format!("{}{end}", self.prefix)
    }

    fn ip(&self, words: &[&str]) -> Result<(), Failure> {
        check(Command::new("ip").args(words))
    }

    pub(super) fn inside(&self, side: Side, words: &[&str]) -> Result<(), Failure> {
        check(
            Command::new("ip")
                .args(["netns", "exec", &self.name(side)])
                .args(words),
        )
    }

    /// A program in a namespace.
    pub(super) fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name(side)])
            .arg(program);
        command
    }

    /// Does something on a thread that stays in a namespace: its sockets belong there.
    pub(super) fn at<T: Send + 'static>(
        &self,
        side: Side,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<std::thread::JoinHandle<io::Result<T>>> {
        let namespace = File::open(format!("/run/netns/{}", self.name(side)))?;
        std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(move || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            })
    }

    /// Address translation towards the server.
    pub(super) fn translate(&self) -> Result<Running, Failure> {
        let rule = [
            "-t",
            "nat",
            "-A",
            "POSTROUTING",
            "-o",
            "wan0",
            "-j",
            "MASQUERADE",
        ];
        self.inside(Side::Gateway, &[&["iptables"], rule.as_slice()].concat())?;
        Ok(Running {
            gateway: None,
            proxy: None,
            suricata: None,
            accepting: None,
            undo: Some(vec![
                "netns".to_owned(),
                "exec".to_owned(),
                self.name(Side::Gateway),
                "iptables".to_owned(),
                "-t".to_owned(),
                "nat".to_owned(),
                "-F".to_owned(),
            ]),
        })
    }

    /// A proxy that takes all connections to the port of files, and address translation for the
    /// others.
    pub(super) fn proxy(&self, clamd: Option<&Path>) -> Result<Option<Running>, Failure> {
        let mut running = self.translate()?;
        running.proxy = Proxy::start(self, clamd)?;
        if running.proxy.is_none() {
            running.end()?;
            return Ok(None);
        }
        let to = INTERCEPTED.to_string();
        let taken = ["iptables", "-t", "nat", "-A", "PREROUTING", "-i", "lan0"];
        let redirected = ["-p", "tcp", "--dport", "80", "-j", "REDIRECT", "--to-ports"];
        // The rule goes with the translation's.
        let rule = [taken.as_slice(), &redirected, &[&to]].concat();
        self.inside(Side::Gateway, &rule)?;
        Ok(Some(running))
    }

    /// Every packet is queued and accepted, and nothing else, with address translation: what the
    /// queue alone costs.
    pub(super) fn accept(&self) -> Result<Running, Failure> {
        let mut running = self.translate()?;
        let over = Arc::new(AtomicBool::new(false));
        let signal = Arc::clone(&over);
        let thread = self.at(Side::Gateway, move || accept_all(&signal));
        running.accepting = Some(Accepting {
            over,
            thread: thread.map_err(Failure::failed)?,
        });
        // Headers of IP and TCP without data; an end must not overtake what it ends.
        let small = ["-p", "tcp", "!", "--tcp-flags", "FIN", "FIN"];
        let small = [small.as_slice(), &["-m", "length", "--length", ":80"]].concat();
        for (of, number) in [(small.as_slice(), SMALL), (&[], ACCEPTED)] {
            let number = number.to_string();
            let rule = ["iptables", "-A", "FORWARD"];
            let to = ["-j", "NFQUEUE", "--queue-num", &number, "--queue-bypass"];
            self.inside(Side::Gateway, &[rule.as_slice(), of, &to].concat())?;
        }
        running.clear_forward();
        Ok(running)
    }

    /// Suricata asked about every packet of connections of which it has not seen enough, with
    /// address translation. `None`: it is not installed.
    pub(super) fn suricata(&self) -> Result<Option<Running>, Failure> {
        let mut running = self.translate()?;
        running.suricata = Suricata::start(self)?;
        if running.suricata.is_none() {
            running.end()?;
            return Ok(None);
        }
        running.clear_forward();
        let (enough, queue) = (suricata::ENOUGH, suricata::QUEUE);
        let rules = [
            format!("-A FORWARD -m connmark --mark {enough} -j ACCEPT"),
            format!("-A FORWARD -j NFQUEUE --queue-num {queue} --queue-bypass"),
            format!("-t mangle -A POSTROUTING -m mark --mark {enough} -j CONNMARK --save-mark"),
        ];
        for rule in rules {
            let rule: Vec<&str> = rule.split(' ').collect();
            self.inside(Side::Gateway, &[&["iptables"], rule.as_slice()].concat())?;
        }
        Ok(Some(running))
    }

    /// A file beside the policy.
    pub(super) fn file(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).map_err(Failure::failed)?;
        Ok(path)
    }

    /// What the gateway says that it has done.
    pub(super) fn status(&self) -> Result<serde_json::Value, Failure> {
        let program = ringway()?;
        let reported = Command::new(program)
            .args(["--json", "gate", "status", "--control"])
            .arg(self.folder.path().join("gate.sock"))
            .output()
            .map_err(Failure::failed)?;
        serde_json::from_slice(&reported.stdout).map_err(|_| {
            let why = String::from_utf8_lossy(&reported.stderr);
            Failure::failed(format_args!("the gateway does not answer: {}", why.trim()))
        })
    }

    /// A gateway with this policy, and address translation. `more`: further words for `gate up`.
    pub(super) fn gateway(&self, policy: &str, more: &[String]) -> Result<Running, Failure> {
        let mut running = self.translate()?;
        let path = |name: &str| self.folder.path().join(name);
        std::fs::write(path("policy.toml"), policy).map_err(Failure::failed)?;
        let program = ringway()?;
        let mut command = self.command(Side::Gateway, program);
        command
            .args(["--json", "gate", "up", "--exit-with-stdin", "--enforce"])
            .args(["--inside", "lan0", "--outside", "wan0", "--policy"])
            .arg(path("policy.toml"))
            .arg("--state")
            .arg(path("state"))
            .arg("--control")
            .arg(path("gate.sock"))
            .args(more);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::failed)?;
        let mut ready = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut ready)
                .map_err(Failure::failed)?;
        }
        running.gateway = Some(child);
        if ready.is_empty() {
            running.end()?;
            return Err(Failure::failed("the gateway did not start"));
        }
        Ok(running)
    }
}

impl Drop for Border {
    fn drop(&mut self) {
        for side in [Side::Client, Side::Gateway, Side::Server] {
            // A failure is not reported.
            self.ip(&["netns", "del", &self.name(side)]).ok();
        }
    }
}

/// The thread that accepts all packets.
#[derive(Debug)]
struct Accepting {
    over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<io::Result<()>>>,
}

/// What runs in the middle, and how it is undone.
#[derive(Debug)]
pub(super) struct Running {
    gateway: Option<Child>,
    proxy: Option<Proxy>,
    suricata: Option<Suricata>,
    accepting: Option<Accepting>,
    undo: Option<Vec<String>>,
}

impl Running {
    /// Nothing.
    pub(super) fn plain() -> Running {
        Running {
            gateway: None,
            proxy: None,
            suricata: None,
            accepting: None,
            undo: None,
        }
    }

    /// The rules of FORWARD and mangle go with the translation's.
    fn clear_forward(&mut self) {
        if let Some(undo) = &mut self.undo {
            undo.truncate(3);
            let all = "iptables -F FORWARD; iptables -t mangle -F POSTROUTING; iptables -t nat -F";
            undo.extend(["sh", "-c", all].map(str::to_owned));
        }
    }

    /// The gateway's process.
    pub(super) fn process(&self) -> Option<u32> {
        self.gateway.as_ref().map(Child::id)
    }

    /// Processor time of the gateway's process, or Suricata's: all threads, and those of its
    /// queues. Nothing where there is none.
    pub(super) fn processor_time(&self) -> Result<[Duration; 2], Failure> {
        let (mut all, mut queues) = (0_u64, 0_u64);
        let suricata = self.suricata.as_ref().map(Suricata::process);
        let Some(process) = self.process().or(suricata) else {
            return Ok([Duration::ZERO; 2]);
        };
        let threads = format!("/proc/{process}/task");
        for thread in std::fs::read_dir(threads).map_err(Failure::failed)? {
            let path = thread.map_err(Failure::failed)?.path();
            // A thread may have ended meanwhile.
            let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
            let spent = read("schedstat");
            let spent = spent.split_whitespace().next().map(str::parse::<u64>);
            let spent = spent.and_then(Result::ok).unwrap_or(0);
            all = all.saturating_add(spent);
            if read("comm").starts_with("queue-") {
                queues = queues.saturating_add(spent);
            }
        }
        Ok([all, queues].map(Duration::from_nanos))
    }

    /// Ends it.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        if let Some(mut gateway) = self.gateway.take() {
            drop(gateway.stdin.take());
            gateway.wait().map_err(Failure::failed)?;
        }
        if let Some(proxy) = self.proxy.take() {
            proxy.end();
        }
        drop(self.suricata.take());
        if let Some(Accepting { over, thread }) = self.accepting.take() {
            over.store(true, Ordering::Relaxed);
            thread
                .join()
                .map_err(|_| Failure::failed("the accepting thread ended by a fault"))?
                .and_then(|ended| ended)
                .map_err(Failure::failed)?;
        }
        match self.undo.take() {
            Some(words) => check(Command::new("ip").args(words)),
            None => Ok(()),
        }
    }
}

/// Accepts all that comes until it is over.
fn accept_all(over: &AtomicBool) -> io::Result<()> {
    let mut queues = [Queue::open(SMALL, true)?, Queue::open(ACCEPTED, true)?];
    let nap = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    let mut ids = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let watched = |queue| PollFd::from_borrowed_fd(queue, PollFlags::IN);
        poll(
            &mut queues.each_ref().map(|queue| watched(queue.as_fd())),
            Some(&nap),
        )?;
        let [small, others] = &mut queues;
        for _ in 0..MAX_BATCH {
            if !accept(small, &mut ids)? && !accept(others, &mut ids)? {
                break;
            }
            small.flush()?;
        }
        others.flush()?;
    }
    Ok(())
}

/// Accepts what one read gives; false if there is nothing. `ids` is empty before and after.
fn accept(queue: &mut Queue, ids: &mut Vec<u32>) -> io::Result<bool> {
    let there = queue.receive()?;
    if there {
        ids.extend(queue.packets().map(|packet| packet.id));
    }
    for id in ids.drain(..) {
        queue.verdict(id, true, None, None)?;
    }
    Ok(there)
}

fn check(command: &mut Command) -> Result<(), Failure> {
    let output = command
        .output()
        .map_err(|error| Failure::failed(format_args!("`ip` cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::failed(format_args!(
        "{command:?} failed ({}); this benchmark needs root, iproute2 and iptables",
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}
