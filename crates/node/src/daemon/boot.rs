//! What a start waits for, as the machine may have started a moment ago: a clock that is right, and
//! addresses that are there.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, sleep, timeout};

use super::changes::{Changes, LOOK_AGAIN};
use super::{DaemonError, Opened};
use crate::certificate::{Certificate, CertificateError};
use crate::clock::unix_seconds;
use crate::config::Config;
use crate::limits::{MACHINE_STARTS, WAITING_PAUSE};
use crate::member;

/// True while the machine's clock and network may not be what they will be.
pub(super) fn machine_starts() -> bool {
    let up = clock_gettime(ClockId::Boottime).tv_sec;
    u64::try_from(up).is_ok_and(|up| up < MACHINE_STARTS.as_secs())
}

/// Lines about one wait, not too many.
#[derive(Default)]
struct Lines(Option<Instant>);

impl Lines {
    fn due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.0.is_none_or(|last| now >= last + WAITING_PAUSE);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

/// What the home holds, once the clock permits to use it.
pub(super) async fn opened(home: &Path) -> Result<Opened, DaemonError> {
    let mut lines = Lines::default();
    loop {
        let error = match Opened::read(home) {
            Err(error) if is_the_clocks(&error, unix_seconds(), machine_starts()) => error,
            opened => return opened,
        };
        if lines.due() {
            tracing::warn!(%error, "the clock may be wrong: the start waits until it is right");
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// True if another time would mend it: a certificate is never given out before it is valid, and at
/// the machine's start one may seem to have run out.
fn is_the_clocks(error: &DaemonError, now: u64, machine_starts: bool) -> bool {
    match error {
        DaemonError::Certificate(CertificateError::NotValidNow { from, .. }) => now < *from,
        DaemonError::RunOut(_) => machine_starts,
        _ => false,
    }
}

/// Waits until the addresses at which this member is to listen are this machine's: for some minutes
/// after the machine's start, and while the machine has none at all. One that is wrong is refused
/// later, by name.
pub(super) async fn await_addresses(config: &Config, own: &Certificate, changes: &mut Changes) {
    let mut lines = Lines::default();
    while let Some(missing) = member::missing_address(config, own) {
        if !machine_starts() && has_addresses() {
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

/// True if the machine has an address that others could use; where that cannot be told, it has.
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
    use crate::certificate::CertificateFields;
    use crate::home;
    use crate::identity::Identity;
    use crate::state::{Membership, State};
    use crate::statement::Statement;
    use ringway_transport::Signer as _;

    #[test]
    fn only_what_time_mends_is_waited_for() {
        let early = || {
            DaemonError::Certificate(CertificateError::NotValidNow {
                name: "oslo".to_owned(),
                from: 100,
                until: 200,
                now: 50,
            })
        };
        for machine_starts in [true, false] {
            assert!(is_the_clocks(&early(), 50, machine_starts));
            assert!(!is_the_clocks(&early(), 100, machine_starts));
            assert!(!is_the_clocks(&DaemonError::Revoked, 50, machine_starts));
        }
        let late = DaemonError::RunOut("oslo".parse().unwrap());
        assert!(is_the_clocks(&late, 300, true));
        assert!(!is_the_clocks(&late, 300, false));
    }

    #[tokio::test]
    async fn a_clock_that_is_behind_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let (owner, now) = (Identity::generate().unwrap(), unix_seconds());
        let identity = Identity::load_or_create(&home::identity_path(home)).unwrap();
        let fields = CertificateFields {
            member: identity.member(),
            name: "alice".parse().unwrap(),
            address: None,
            nonce: [0; 16],
            not_before: now + 2,
            not_after: now + 1_000,
            serial: 1,
        };
        let membership = Membership {
            ring: owner.member(),
            domain: "ring.test".to_owned(),
            certificate: Certificate::issue(&owner, &fields),
            statement: Statement::issue(&owner, 1, 3, [].into()),
        };
        let state = State::open(home).unwrap();
        state.set_membership(&membership).unwrap();
        Config::write_new(home, "127.0.0.1:1".parse().unwrap(), None).unwrap();
        drop(state);
        let opened = opened(home).await.unwrap();
        assert!(unix_seconds() >= now + 2);
        assert_eq!(opened.membership.certificate.member(), identity.member());
    }

    #[test]
    fn one_wait_says_so_once_a_minute() {
        let mut lines = Lines::default();
        assert!(lines.due() && !lines.due());
    }
}
