//! What lies between this member and the others: address translation, and ports that lead through.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use ringway_node::control::NatStatus;

use super::finding::Findings;
use super::subject::Subject;
use super::{Check, Look};

pub(super) const CHECK: Check = Check {
    name: "nat",
    look: Look::AtOnce(check),
};

/// An address of the Internet (RFC 5737) to which nothing is sent: the kernel chooses by which
/// address it would leave.
const SOMEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

fn check(subject: &Subject, findings: &mut Findings) {
    if let Some(own) = subject.member.known()
        && let Some(address) = own.certificate.address()
    {
        let listen = subject.config.known().and_then(|config| config.node.listen);
        return as_router(address, listen, findings);
    }
    if let Some(nat) = subject.status().and_then(|status| status.nat.as_ref()) {
        as_leaf(nat, own_address(), findings);
    }
}

/// What others dial stands in the certificate.
fn as_router(address: SocketAddr, listen: Option<SocketAddr>, findings: &mut Findings) {
    let at = format!("{address}, which others dial");
    let through = match listen {
        // `join` writes the address itself.
        Some(listen) if listen != address => format!("comes in at {listen}, as by a port forward"),
        _ => "is this machine's own".to_owned(),
    };
    match address.ip() {
        ip if ip.is_loopback() => findings.note(
            &at,
            "loopback: no other machine reaches it",
            "for others: `ringway ring move NAME ADDR:PORT` at the owner, with an address that they reach",
        ),
        IpAddr::V4(ip) if ip.is_private() || ip.is_link_local() => findings.note(
            &at,
            &format!("{through}; it is private: members elsewhere do not reach it"),
            "for members elsewhere: `ringway ring move NAME ADDR:PORT` at the owner, or be a leaf",
        ),
        _ => findings.ok(&at, &through),
    }
}

/// A leaf is reached as its parents hear it.
fn as_leaf(nat: &NatStatus, own: Option<IpAddr>, findings: &mut Findings) {
    let heard: Vec<SocketAddr> = nat
        .heard_from
        .iter()
        .filter_map(|text| socket(text))
        .collect();
    let at = "between this leaf and its parents";
    let shown = nat.heard_from.join(", ");
    if heard.iter().all(|heard| Some(heard.ip()) == own) {
        return findings.ok(at, &format!("no NAT: heard from {shown}"));
    }
    let ports: BTreeSet<u16> = heard.iter().map(SocketAddr::port).collect();
    let kind = match (heard.len(), ports.len()) {
        (0 | 1, _) => "a NAT, of a kind that one parent does not show",
        (_, 1) => "a NAT that keeps one port for all (endpoint-independent)",
        _ => "a NAT with a port for each destination (symmetric)",
    };
    let seen = format!("{kind}: heard from {shown}");
    if let Some(mapped) = &nat.mapped {
        return findings.ok(at, &format!("{seen}; the home router leads {mapped} here"));
    }
    let mend = match (nat.asked, ports.len() > 1) {
        (true, _) => {
            "the home router gave no port: switch PCP or NAT-PMP on there, or forward UDP by hand"
        }
        (false, true) => "`port_mapping = true` under [node] asks the home router for a port",
        // Hole punching does without.
        (false, false) => return findings.ok(at, &seen),
    };
    findings.note(at, &format!("{seen}; files may go by a relay"), mend);
}

fn socket(address: &str) -> Option<SocketAddr> {
    address.strip_prefix("udp://")?.parse().ok()
}

/// This machine's address on the way to the Internet. Sends nothing.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(SOMEWHERE).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Level, only};

    fn heard(from: &[&str], asked: bool, mapped: Option<&str>) -> (Level, String) {
        let nat = NatStatus {
            heard_from: from.iter().map(|from| format!("udp://{from}")).collect(),
            mapped: mapped.map(str::to_owned),
            asked,
        };
        let mut findings = Findings::new("nat");
        as_leaf(&nat, "10.0.0.2".parse().ok(), &mut findings);
        let (level, seen, _) = only(findings);
        (level, seen)
    }

    #[test]
    fn kinds_of_nat_are_told_apart() {
        for (from, asked, mapped, level, word) in [
            (&["10.0.0.2:7"][..], false, None, Level::Ok, "no NAT"),
            (&["198.51.100.1:7"], false, None, Level::Ok, "one parent"),
            (
                &["198.51.100.1:7", "198.51.100.1:8"],
                true,
                None,
                Level::Note,
                "symmetric",
            ),
            (
                &["198.51.100.1:7"],
                true,
                Some("udp://198.51.100.1:9"),
                Level::Ok,
                ":9",
            ),
        ] {
            let (found, seen) = heard(from, asked, mapped);
            assert!(found == level && seen.contains(word), "{seen}");
        }
    }

    #[test]
    fn private_addresses_of_routers_are_noted() {
        for (address, level) in [
            ("127.0.0.1:7", Level::Note),
            ("192.168.1.2:7", Level::Note),
            ("198.51.100.1:7", Level::Ok),
            ("[2001:db8::1]:7", Level::Ok),
        ] {
            let mut findings = Findings::new("nat");
            as_router(address.parse().unwrap(), None, &mut findings);
            assert_eq!(only(findings).0, level, "{address}");
        }
    }
}
