//! Free ports on loopback.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{SystemTime, UNIX_EPOCH};

use ringway_terminal::Failure;

/// First port tried.
const LOWEST: u16 = 20_000;

/// Number of pairs of ports from there: all below the range from which Linux gives ports to
/// outgoing connections (32 768 up), so that a port stays free between the trial and its use.
const PAIRS: u16 = 6_000;

/// Hands out ports that are free now, none of them twice.
///
/// The port behind each is free as well, because a router takes its own port and the next one.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    given: BTreeSet<u16>,
}

impl Ports {
    /// The next address that is free for UDP and TCP.
    pub(crate) fn next(&mut self) -> Result<SocketAddr, Failure> {
        let seed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .subsec_nanos();
        let start = (seed ^ std::process::id().rotate_left(16)) % u32::from(PAIRS);
        let start = u16::try_from(start).unwrap_or(0);
        let candidates = (0..PAIRS).map(|step| LOWEST + 2 * ((start + step) % PAIRS));
        let mut free = candidates.filter(|port| !self.given.contains(port));
        let free = free.find(|&port| is_free(port) && is_free(port + 1));
        let port = free.ok_or_else(|| {
            Failure::failed("no two free ports side by side on 127.0.0.1 from 20000 to 31999")
        })?;
        self.given.insert(port);
        Ok(address(port))
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn is_free(port: u16) -> bool {
    UdpSocket::bind(address(port)).is_ok() && TcpListener::bind(address(port)).is_ok()
}

/// True if a process could not start because somebody else has its port.
pub(crate) fn is_conflict(failure: &Failure) -> bool {
    matches!(failure, Failure::Failed(reason) if reason.to_ascii_lowercase().contains("address already in use"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_differ() {
        let mut ports = Ports::default();
        let (first, second) = (ports.next().unwrap(), ports.next().unwrap());
        assert_ne!(first, second);
        let taken = UdpSocket::bind(first).unwrap();
        assert!(!is_free(first.port()));
        drop(taken);
    }
}
