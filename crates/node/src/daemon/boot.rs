//! A member's start waits for a clock that is right, as the machine may have started a moment ago.

use std::fs::File;
use std::path::{Path, PathBuf};

use tokio::time::sleep;

use super::{DaemonError, Opened};
use crate::certificate::CertificateError;
use crate::control::{ControlPlace, ControlSocket};
use crate::home;
use crate::machine::{self, LOOK_AGAIN, Lines};

/// What the home holds, once the clock permits to use it.
pub(super) async fn opened(home: &Path) -> Result<Opened, DaemonError> {
    let mut lines = Lines::default();
    loop {
        let error = match Opened::read(home) {
            Err(error) if is_the_clocks(&error, machine::starts()) => error,
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
fn is_the_clocks(error: &DaemonError, machine_starts: bool) -> bool {
    match error {
        // As the clock was then: it may be right by now.
        DaemonError::Certificate(CertificateError::NotValidNow { from, now, .. }) => now < from,
        DaemonError::RunOut(_) => machine_starts,
        _ => false,
    }
}

/// What one daemon of a home has for itself.
pub(super) struct Taken {
    pub(super) lock: File,
    /// Of the socket.
    pub(super) path: PathBuf,
    pub(super) socket: ControlSocket,
}

/// What the home holds, and the home for this daemon: its lock, and the socket for commands.
pub(super) async fn taken(
    home: &Path,
    control: ControlPlace,
) -> Result<(Opened, Taken), DaemonError> {
    crate::open_files::raise_limit();
    let opened = opened(home).await?;
    // The lock before the sockets: a second daemon of this home must not disturb the first.
    let lock = home::lock(home)?;
    let path = control.path.unwrap_or_else(|| home::socket_path(home));
    let socket = ControlSocket::bind_for(&path, control.group.as_deref()).await?;
    Ok((opened, Taken { lock, path, socket }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::{Certificate, CertificateFields};
    use crate::clock::unix_seconds;
    use crate::config::Config;
    use crate::home;
    use crate::identity::Identity;
    use crate::state::{Membership, State};
    use crate::statement::Statement;
    use ringway_transport::Signer as _;

    #[test]
    fn only_what_time_mends_is_waited_for() {
        let at = |now| {
            DaemonError::Certificate(CertificateError::NotValidNow {
                name: "oslo".to_owned(),
                from: 100,
                until: 200,
                now,
            })
        };
        for machine_starts in [true, false] {
            assert!(is_the_clocks(&at(99), machine_starts));
            assert!(!is_the_clocks(&at(200), machine_starts));
            assert!(!is_the_clocks(&DaemonError::Revoked, machine_starts));
        }
        let late = DaemonError::RunOut("oslo".parse().unwrap());
        assert!(is_the_clocks(&late, true));
        assert!(!is_the_clocks(&late, false));
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
        Config::write_new(home, &"127.0.0.1:1".parse().unwrap(), None).unwrap();
        drop(state);
        let opened = opened(home).await.unwrap();
        assert!(unix_seconds() >= now + 2);
        assert_eq!(opened.membership.certificate.member(), identity.member());
    }
}
