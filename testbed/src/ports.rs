//! Ports of loopback that are free, and stay free for the test that was given them.
//!
//! A port that the kernel picks (`bind` to 0) is free only until the next one who asks: two tests
//! beside each other, or one that asks twice, get the same. These come from below the range of
//! which the kernel picks, and none is given out twice.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

use crate::TestbedError;

/// The ports that are given out: below 32 768, where Linux begins to pick, and above those of most
/// services.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// What keeps others from this process's ports: one name in the machine's abstract socket namespace
/// for each, till its end.
static LEASES: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port of 127.0.0.1 that is free for UDP and TCP, and of which no other test gets this one or
/// the next.
///
/// # Errors
/// If none is left.
pub fn free_port() -> Result<u16, TestbedError> {
    let mut leases = LEASES.lock().unwrap_or_else(PoisonError::into_inner);
    // Processes begin at places of their own, so that they seldom ask for the same names.
    let pairs = RANGE.len() / 2;
    let begin = usize::try_from(std::process::id())
        .unwrap_or(0)
        .wrapping_mul(97);
    for step in leases.len()..leases.len() + pairs {
        let offset = u16::try_from(2 * (begin.wrapping_add(step) % pairs)).unwrap_or(0);
        let port = RANGE.start + offset;
        if let Some(lease) = lease(port).filter(|_| is_free(port) && is_free(port + 1)) {
            leases.push(lease);
            return Ok(port);
        }
    }
    Err(TestbedError("no free ports on 127.0.0.1".to_owned()))
}

/// The address of such a port.
///
/// # Errors
/// If none is left.
pub fn free_address() -> Result<SocketAddr, TestbedError> {
    free_port().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// The sole right to a port among the tests of this machine, as long as the result lives.
fn lease(port: u16) -> Option<UnixListener> {
    let name = UnixAddr::from_abstract_name(format!("ringway-testbed-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// Whether no other program has it: a test may stand beside other programs.
fn is_free(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn parallel_tests_get_different_ports() {
        let ask = || (0..50).map(|_| free_port().unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(ask)).collect();
        let ports: Vec<u16> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        let different: BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!(different.len(), 400);
        assert!(ports.iter().all(|port| RANGE.contains(port)));
    }

    /// Nor is one that a process has leased.
    #[test]
    fn port_in_use_is_not_given_out() {
        let port = free_port().unwrap();
        assert!(is_free(port) && lease(port).is_none());
        let _taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
    }
}
