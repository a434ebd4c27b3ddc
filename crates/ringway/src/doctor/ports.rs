//! Whether the ports that others dial are free for our daemons, or theirs already.

use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;

use ringway_node::certificate::Role;

use super::finding::Findings;
use super::sockets::{self, Protocol, Socket};
use super::subject::Subject;
use super::{Check, Look, Looking, program};

pub(super) const CHECK: Check = Check {
    name: "ports",
    look: Look::InTime(look),
};

/// First port that any user may have (ip-sysctl).
const FIRST_FREE: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// Whose port it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Member,
    Authority,
}

impl Owner {
    fn unit(self) -> &'static str {
        match self {
            Owner::Member => "ringway-node",
            Owner::Authority => "ringway-authority",
        }
    }
}

/// A port that a daemon of ours is to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) owner: Owner,
    pub(super) what: &'static str,
    pub(super) protocol: Protocol,
    pub(super) at: SocketAddr,
}

impl Port {
    fn shown(&self) -> String {
        format!("{} {} ({})", self.protocol.word(), self.at, self.what)
    }
}

/// All that others dial, as far as it is known.
pub(super) fn wanted(subject: &Subject) -> Vec<Port> {
    let mut ports = Vec::new();
    let mut add = |owner, what, protocol, at| {
        ports.push(Port {
            owner,
            what,
            protocol,
            at,
        });
    };
    // A leaf takes any port, so that none can be in its way.
    if let (Some(own), Some(config)) = (subject.member.known(), subject.config.known()) {
        let own = &own.certificate;
        let listen = own.address().map(|own| config.node.listen.unwrap_or(own));
        if let Some(listen) = listen.filter(|_| own.role() == Role::Router) {
            add(Owner::Member, "links", Protocol::Udp, listen);
            add(Owner::Member, "links", Protocol::Tcp, listen);
            let next = listen.port().checked_add(1);
            let next = next.map(|port| SocketAddr::new(listen.ip(), port));
            if let Some(quic) = config.node.quic.or(next).filter(|quic| quic.port() > 0) {
                add(Owner::Member, "QUIC", Protocol::Udp, quic);
            }
        }
        if let Some(web) = config.ws.listen.filter(|web| web.port() > 0) {
            add(Owner::Member, "WebSocket", Protocol::Tcp, web);
        }
    }
    let authority = subject.authority.as_ref();
    if let Some(ring) = authority.and_then(|found| found.ring.known()) {
        add(Owner::Authority, "DNS", Protocol::Udp, ring.dns_listen);
        add(Owner::Authority, "DNS", Protocol::Tcp, ring.dns_listen);
        add(
            Owner::Authority,
            "enrolment",
            Protocol::Tcp,
            ring.enrol_listen,
        );
    }
    ports
}

fn look<'a>(subject: &'a Subject, findings: &'a mut Findings) -> Looking<'a> {
    Box::pin(async move {
        let udp = sockets::listening(Protocol::Udp);
        let tcp = sockets::listening(Protocol::Tcp);
        for port in wanted(subject) {
            let all = match port.protocol {
                Protocol::Udp => &udp,
                Protocol::Tcp => &tcp,
            };
            let holder = all.iter().find(|socket| socket.takes(port.at));
            one(subject, &port, holder, findings).await;
        }
    })
}

async fn one(subject: &Subject, port: &Port, holder: Option<&Socket>, findings: &mut Findings) {
    let at = port.shown();
    if is_foreign(port.at) {
        let seen = format!("{} is no address of this machine", port.at.ip());
        let mend = match port.owner {
            Owner::Member => format!(
                "behind a port forward: `listen = \"0.0.0.0:{}\"` under [node] in ringway.toml",
                port.at.port()
            ),
            Owner::Authority => {
                "`ringway ring address --dns-listen ADDR:PORT`, or `--enrol-listen`, with an address of this machine"
                    .to_owned()
            }
        };
        return findings.wrong(&at, &seen, &mend);
    }
    // Of the authority's daemon no process is known.
    let pid = match port.owner {
        Owner::Member => subject.status().map(|status| status.pid),
        Owner::Authority => None,
    };
    match holder {
        Some(socket) => held(port, socket, pid, findings),
        None if pid.is_some() => findings.wrong(
            &at,
            "the daemon runs and does not listen there",
            &format!("`transports` under [node] may leave it out; else {}", subject.start_command()),
        ),
        None if needs_root(port, subject).await => findings.wrong(
            &at,
            "free, but below the first port that any user may have",
            &format!(
                "`sudo systemctl edit {}` with [Service] AmbientCapabilities=CAP_NET_BIND_SERVICE, or a higher port",
                port.owner.unit()
            ),
        ),
        None => findings.ok(&at, "free for the daemon, which does not run"),
    }
}

/// Somebody listens there: our daemon, or another program.
fn held(port: &Port, socket: &Socket, daemon: Option<u32>, findings: &mut Findings) {
    let at = port.shown();
    let process = socket.process();
    let ours = match (&process, daemon) {
        (Some((pid, _)), Some(daemon)) => *pid == daemon,
        (Some((_, name)), None) => name.starts_with("ringway"),
        // Another user's process is not named to this one: then its user tells.
        (None, Some(daemon)) => user_of(daemon) == Some(socket.user),
        (None, None) => port.owner == Owner::Authority,
    };
    let by = match &process {
        Some((pid, name)) => format!("{name}, process {pid}"),
        None => format!("a process of user {}", socket.user),
    };
    if ours {
        return findings.ok(&at, &format!("held by {by}"));
    }
    let (word, number) = (port.protocol.word(), port.at.port());
    findings.wrong(
        &at,
        &format!("taken by {by}"),
        &format!("end that program (`sudo ss -lpn --{word} sport = :{number}` shows it), or choose another port"),
    );
}

fn user_of(pid: u32) -> Option<u32> {
    // A folder of a process that may not be dumped is root's; the line of its status is not.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// True if nothing here can listen at the address.
fn is_foreign(at: SocketAddr) -> bool {
    let bound = UdpSocket::bind((at.ip(), 0));
    bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Whether the port is for root alone, and the daemon is neither root's nor allowed to have it.
async fn needs_root(port: &Port, subject: &Subject) -> bool {
    let first = fs::read_to_string(FIRST_FREE).ok();
    let first = first
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1_024);
    if port.at.port() >= first {
        return false;
    }
    let folder = match port.owner {
        Owner::Member => Some(&subject.home),
        Owner::Authority => subject.authority.as_ref().map(|found| &found.folder),
    };
    let user = folder.and_then(|folder| Some(fs::metadata(folder).ok()?.uid()));
    if user == Some(0) {
        return false;
    }
    let words = ["show", "--property=AmbientCapabilities", port.owner.unit()];
    let unit = program::run("systemctl", &words).await;
    !unit.is_some_and(|unit| unit.text.contains("cap_net_bind_service"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Level, only};

    #[test]
    fn holders_of_ports_are_told_apart() {
        let bound = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = bound.local_addr().unwrap();
        let port = Port {
            owner: Owner::Member,
            what: "links",
            protocol: Protocol::Udp,
            at,
        };
        let all = sockets::listening(Protocol::Udp);
        let socket = all.iter().find(|socket| socket.at == at).unwrap();
        for (daemon, level) in [
            (std::process::id(), Level::Ok),
            (std::process::id() + 1, Level::Wrong),
        ] {
            let mut findings = Findings::new("ports");
            held(&port, socket, Some(daemon), &mut findings);
            assert_eq!(only(findings).0, level);
        }
        assert!(is_foreign("192.0.2.1:1".parse().unwrap()));
        assert_eq!(
            user_of(std::process::id()),
            Some(rustix::process::geteuid().as_raw())
        );
    }
}
