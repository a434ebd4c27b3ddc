//! The machine that this runs on: its network may change, and after its start neither network nor
//! clock may be what they will be.

mod changes;

use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, timeout};

pub(crate) use self::changes::{Changes, LOOK_AGAIN};
use crate::limits::{MACHINE_STARTS, WAITING_PAUSE};

/// True while the machine's clock and network may not be what they will be.
pub(crate) fn starts() -> bool {
    let up = clock_gettime(ClockId::Boottime).tv_sec;
    u64::try_from(up).is_ok_and(|up| up < MACHINE_STARTS.as_secs())
}

/// Lines about one wait, not too many.
#[derive(Default)]
pub(crate) struct Lines(Option<Instant>);

impl Lines {
    /// True if it is time for another one.
    pub(crate) fn due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.0.is_none_or(|last| now >= last + WAITING_PAUSE);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

/// The first of these addresses that is not this machine's, or not yet.
pub(crate) fn missing(addresses: impl IntoIterator<Item = SocketAddr>) -> Option<SocketAddr> {
    addresses.into_iter().find(is_foreign)
}

/// True if nothing here can listen at the address.
pub(crate) fn is_foreign(address: &SocketAddr) -> bool {
    let bound = UdpSocket::bind((address.ip(), 0));
    bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// Waits until the addresses at which to listen are this machine's: for some minutes after the
/// machine's start, and while the machine has none at all. One that is wrong is refused later, by
/// name.
pub(crate) async fn await_addresses(addresses: &[SocketAddr], changes: &mut Changes) {
    let mut lines = Lines::default();
    while let Some(missing) = missing(addresses.iter().copied()) {
        if !starts() && has_addresses() {
            return;
        }
        if lines.due() {
            tracing::warn!(%missing, "an address to listen at is not there yet: the start waits for the network");
        }
        // Where changes are not noticed it is looked again all the same.
        let look = timeout(LOOK_AGAIN * 5, changes.next());
        look.await.unwrap_or_default();
    }
}

/// True if the machine has an address that others could use; where that cannot be found out, it
/// has.
#[cfg(target_os = "linux")]
fn has_addresses() -> bool {
    let lines = |path: &str| std::fs::read_to_string(path).ok();
    // Interface, destination, ...: each address that is up has a route to its network.
    let v4 = lines("/proc/net/route").map(|text| text.lines().count() > 1);
    // Address, index, prefix, scope (RFC 4291 §2.7; 00 is global), flags, interface.
    let v6 = lines("/proc/net/if_inet6").map(|text| {
        let mut scopes = text.lines().map(|line| line.split_whitespace().nth(3));
        scopes.any(|scope| scope == Some("00"))
    });
    match (v4, v6) {
        (None, None) => true,
        (v4, v6) => v4 == Some(true) || v6 == Some(true),
    }
}

#[cfg(not(target_os = "linux"))]
fn has_addresses() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_says_so_once_a_minute() {
        let mut lines = Lines::default();
        assert!(lines.due() && !lines.due());
    }

    #[tokio::test]
    async fn what_is_there_is_not_waited_for() {
        let here: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let elsewhere: SocketAddr = "192.0.2.1:1".parse().unwrap();
        assert_eq!(missing([here, elsewhere]), Some(elsewhere));
        let mut changes = Changes::watch();
        await_addresses(&[here], &mut changes).await;
    }
}
