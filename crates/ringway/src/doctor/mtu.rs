//! How long packets may be: on this machine's interfaces, and on the ways to some peers.

use std::fs;
use std::path::Path;

use super::finding::Findings;
use super::subject::Subject;
use super::{Check, Look, Looking};
use crate::limits::DOCTOR_PEERS;

pub(super) const CHECK: Check = Check {
    name: "mtu",
    look: Look::InTime(look),
};

/// Bytes that every link of IPv6 carries (RFC 8200 §5); QUIC's packets of 1 200 bytes need as much.
const LEAST: u32 = 1_280;

/// Bytes of a message that go over any such link: a QUIC packet of 1 200 (RFC 9000 §14).
const LEAST_MESSAGE: u32 = 1_120;

fn look<'a>(subject: &'a Subject, findings: &'a mut Findings) -> Looking<'a> {
    Box::pin(async move {
        if !subject.has_member() && subject.authority.is_none() && !subject.has_gateway {
            return;
        }
        interfaces(Path::new("/sys/class/net"), findings);
        let linked = subject.status().map_or(&[][..], |status| &status.links);
        for link in linked.iter().take(DOCTOR_PEERS) {
            let Some(found) = subject.paths(&link.name).await else {
                continue;
            };
            let used = found.paths.iter().filter(|path| path.used_for.is_some());
            // Of streams the length of messages says nothing.
            let direct = used.filter(|path| is_datagram(&path.address));
            for path in direct {
                let at = format!("{} to {}", path.address, found.peer);
                let seen = format!("messages of {} bytes", path.mtu);
                if path.mtu < LEAST_MESSAGE {
                    let mend = "a tunnel or a filter on the way drops long packets: let ICMP \"too big\" pass, or set its MTU";
                    findings.note(&at, &seen, mend);
                } else {
                    findings.ok(&at, &seen);
                }
            }
        }
    })
}

/// Whether the length of a message is that of a packet.
fn is_datagram(address: &str) -> bool {
    address.starts_with("udp://") || address.starts_with("quic://")
}

/// Those that are up, but for loopback.
fn interfaces(folder: &Path, findings: &mut Findings) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    // Tunnels are in state "unknown" while they work.
    let mut found: Vec<(String, u32)> = entries
        .flatten()
        .filter(|entry| read(&entry.path().join("operstate")).trim() != "down")
        .filter_map(|entry| {
            let mtu = read(&entry.path().join("mtu")).trim().parse().ok()?;
            Some((entry.file_name().into_string().ok()?, mtu))
        })
        .filter(|(name, _)| name != "lo")
        .collect();
    found.sort();
    let (small, enough): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, mtu)| *mtu < LEAST);
    for (name, mtu) in small {
        let mend = format!("sudo ip link set dev {name} mtu {LEAST}");
        findings.wrong(
            &name,
            &format!("{mtu}, below {LEAST}: QUIC does not pass"),
            &mend,
        );
    }
    if !enough.is_empty() {
        let shown: Vec<String> = enough
            .iter()
            .map(|(name, mtu)| format!("{name} {mtu}"))
            .collect();
        findings.ok("interfaces", &shown.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn short_packets_of_interfaces_are_wrong() {
        let folder = tempfile::tempdir().unwrap();
        for (name, state, mtu) in [
            ("eth0", "up", "1500"),
            ("tun0", "unknown", "1200"),
            ("eth1", "down", "68"),
            ("lo", "unknown", "65536"),
        ] {
            let place = folder.path().join(name);
            fs::create_dir(&place).unwrap();
            fs::write(place.join("operstate"), state).unwrap();
            fs::write(place.join("mtu"), mtu).unwrap();
        }
        let mut findings = Findings::new("mtu");
        interfaces(folder.path(), &mut findings);
        let found = findings.into_found();
        assert_eq!(found[0].level, Level::Wrong);
        assert!(found[0].mend.as_ref().unwrap().contains("dev tun0"));
        assert_eq!(
            (found[1].level, found[1].seen.as_str()),
            (Level::Ok, "eth0 1500")
        );
        assert_eq!(found.len(), 2);
    }
}
