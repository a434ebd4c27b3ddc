//! What is said when an address cannot be listened at: the system's word, and what helps.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use crate::limits::UNPRIVILEGED_PORTS_FROM;

/// Why nothing can listen at an address, with the mend. Shown, it is one sentence without a full
/// stop that begins with the system's word.
#[derive(Debug)]
pub struct CannotListen<'a> {
    /// The address.
    pub address: SocketAddr,
    /// What the system said.
    pub source: &'a io::Error,
}

impl fmt::Display for CannotListen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CannotListen { address, source } = self;
        let port = address.port();
        let from = unprivileged_from();
        match source.kind() {
            io::ErrorKind::PermissionDenied if port < from => write!(
                f,
                "{source}; ports below {from} need the capability CAP_NET_BIND_SERVICE. The unit of the authority has it; in another unit set both AmbientCapabilities and CapabilityBoundingSet to it (`systemctl edit`). Without a unit: `sudo setcap cap_net_bind_service=+ep \"$(readlink -f \"$(command -v ringway)\")\"`, or let every program have them by `sudo sysctl net.ipv4.ip_unprivileged_port_start={port}`, or listen at a port from {from} on and have the kernel redirect {port} to it"
            ),
            io::ErrorKind::AddrInUse => write!(
                f,
                "{source}; `ss -lntup sport = :{port}` shows the program that has it: end that one, or choose another port"
            ),
            io::ErrorKind::AddrNotAvailable => write!(
                f,
                "{source}; it is no address of this machine (`ip address` lists those): choose one that is, or 0.0.0.0 or [::] for all of them"
            ),
            _ => write!(f, "{source}; choose another address or port"),
        }
    }
}

/// The first port that every program may have: the kernel's setting, which is for IPv6 as well.
fn unprivileged_from() -> u16 {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let read = setting.ok().and_then(|text| text.trim().parse().ok());
    read.unwrap_or(UNPRIVILEGED_PORTS_FROM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: io::ErrorKind, address: &str) -> String {
        let (address, source) = (address.parse().unwrap(), &io::Error::from(kind));
        CannotListen { address, source }.to_string()
    }

    #[test]
    fn each_reason_names_what_helps() {
        let port = unprivileged_from().saturating_sub(1);
        if port > 0 {
            let denied = shown(io::ErrorKind::PermissionDenied, &format!("0.0.0.0:{port}"));
            for word in [
                "CAP_NET_BIND_SERVICE",
                "AmbientCapabilities",
                "setcap",
                &format!("ip_unprivileged_port_start={port}"),
                "redirect",
            ] {
                assert!(denied.contains(word), "{denied}");
            }
        }
        let above = shown(io::ErrorKind::PermissionDenied, "127.0.0.1:60000");
        assert!(!above.contains("CAP_NET_BIND_SERVICE"), "{above}");
        let used = shown(io::ErrorKind::AddrInUse, "127.0.0.1:53");
        assert!(used.contains("sport = :53"), "{used}");
        let foreign = shown(io::ErrorKind::AddrNotAvailable, "192.0.2.1:53");
        assert!(foreign.contains("no address of this machine"), "{foreign}");
    }
}
