//! What the supervisor of this process is notified of, by systemd's protocol sd_notify(3): a
//! datagram of lines `NAME=VALUE` to the socket that `NOTIFY_SOCKET` names.
//!
//! Nothing waits for the supervisor: a datagram that it has no room for is dropped.

use std::ffi::OsStr;
use std::future::Future;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::limits::{START_EXTENSION, STATUS_INTERVAL, SUPERVISOR_STATUS};

/// Whom this process notifies; of no effect without a supervisor. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supervisor(Option<Arc<Channel>>);

#[derive(Debug)]
struct Channel {
    socket: UnixDatagram,
    supervisor: SocketAddr,
    /// How often it wants a sign of life, at least.
    watchdog: Option<Duration>,
}

/// What the environment says of a supervisor.
#[derive(Clone, Copy, Debug, Default)]
struct Environment<'a> {
    socket: Option<&'a OsStr>,
    watchdog_usec: Option<&'a str>,
    watchdog_pid: Option<&'a str>,
}

impl Supervisor {
    /// The one that the environment names. Programs that this one runs do not get these variables;
    /// itself, started again in its own place, does.
    pub(crate) fn of_environment() -> Supervisor {
        let socket = std::env::var_os("NOTIFY_SOCKET");
        let [usec, pid] = ["WATCHDOG_USEC", "WATCHDOG_PID"].map(|name| std::env::var(name).ok());
        let found = Supervisor::of(Environment {
            socket: socket.as_deref(),
            watchdog_usec: usec.as_deref(),
            watchdog_pid: pid.as_deref(),
        });
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "NOTIFY_SOCKET is no socket that can be used: the supervisor is not notified");
            Supervisor::default()
        })
    }

    fn of(environment: Environment<'_>) -> std::io::Result<Supervisor> {
        let Some(name) = environment.socket.filter(|name| !name.is_empty()) else {
            return Ok(Supervisor::default());
        };
        // A name that begins with `@` is one of the abstract namespace (unix(7)).
        let supervisor = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let own = std::process::id().to_string();
        let is_meant = environment.watchdog_pid.is_none_or(|pid| pid == own);
        let usec = environment.watchdog_usec.filter(|_| is_meant);
        let usec = usec
            .and_then(|usec| usec.parse().ok())
            .filter(|usec| *usec > 0);
        Ok(Supervisor(Some(Arc::new(Channel {
            socket,
            supervisor,
            watchdog: usec.map(Duration::from_micros),
        }))))
    }

    /// Sends these lines.
    fn notify(&self, lines: &[&str]) {
        let Some(channel) = &self.0 else { return };
        let sent = channel
            .socket
            .send_to_addr(lines.join("\n").as_bytes(), &channel.supervisor);
        if let Err(error) = sent {
            tracing::warn!(%error, "the supervisor could not be notified");
        }
    }

    /// The daemon has loaded its configuration again, or goes on with the one before.
    pub(crate) fn ready(&self, status: &str) {
        self.notify(&["READY=1", &status_line(status)]);
    }

    /// The daemon loads its configuration again; [`ready`](Self::ready) is to follow.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.notify(&["RELOADING=1", &format!("MONOTONIC_USEC={usec}")]);
    }

    /// The daemon begins to end.
    pub(crate) fn stopping(&self) {
        self.notify(&["STOPPING=1"]);
    }

    /// Completes with `shutdown`, when the supervisor is notified that the daemon ends.
    pub(crate) async fn told_of(&self, shutdown: impl Future<Output = ()>) {
        shutdown.await;
        self.stopping();
    }

    /// Asks for more time again and again, for ever: a start may wait for the machine's clock and
    /// network for longer than a supervisor waits by itself.
    pub(crate) async fn starting(&self) {
        // Most starts are over by then.
        tokio::time::sleep(START_EXTENSION / 12).await;
        loop {
            let usec = START_EXTENSION.as_micros();
            self.notify(&[
                &format!("EXTEND_TIMEOUT_USEC={usec}"),
                &status_line("waits for what it needs to start"),
            ]);
            tokio::time::sleep(START_EXTENSION / 3).await;
        }
    }

    /// Shows the supervisor how the daemon does, for ever. `look` asks the loop that does the
    /// daemon's work: its answer, a line for people, is the sign of life. With the first answer the
    /// daemon is ready. Without answers there is no sign of life, and a supervisor that waits for
    /// one starts the daemon again.
    pub(crate) async fn watch<F>(&self, mut look: impl FnMut() -> F)
    where
        F: Future<Output = Option<String>>,
    {
        let Some(channel) = &self.0 else {
            return std::future::pending().await;
        };
        // Half of the time, as sd_watchdog_enabled(3) advises.
        let half = channel.watchdog.map(|watchdog| watchdog / 2);
        let every = half.map_or(STATUS_INTERVAL, |half| half.min(STATUS_INTERVAL));
        let mut first = ["READY=1"].as_slice();
        loop {
            match look().await {
                Some(status) => {
                    let life = ["WATCHDOG=1", &status_line(&status)];
                    self.notify(&[std::mem::take(&mut first), &life].concat());
                }
                None => tracing::error!("what does the work gives no sign of life"),
            }
            tokio::time::sleep(every).await;
        }
    }
}

/// `STATUS=` with this text, on one line and of a length that is read.
fn status_line(status: &str) -> String {
    let shown = status.chars().map(|c| if c.is_control() { ' ' } else { c });
    let shown: String = shown.take(SUPERVISOR_STATUS).collect();
    format!("STATUS={shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn supervisor(socket: &str, usec: &str, pid: &str) -> Supervisor {
        let found = Supervisor::of(Environment {
            socket: Some(OsStr::new(socket)),
            watchdog_usec: Some(usec),
            watchdog_pid: Some(pid),
        });
        found.unwrap()
    }

    fn watchdog(usec: &str, pid: &str) -> Option<Duration> {
        supervisor("/nowhere", usec, pid).0.unwrap().watchdog
    }

    #[test]
    fn both_kinds_of_sockets_are_notified() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("ringway-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets = [
            (UnixDatagram::bind(&path), path.to_str().unwrap().to_owned()),
            (UnixDatagram::bind_addr(&address), format!("@{name}")),
        ];
        for (socket, name) in sockets {
            let (socket, supervisor) = (socket.unwrap(), supervisor(&name, "1", "1"));
            supervisor.ready("two\nlines");
            assert_eq!(received(&socket), "READY=1\nSTATUS=two lines");
            supervisor.reloading();
            assert!(received(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
            supervisor.stopping();
            assert_eq!(received(&socket), "STOPPING=1");
        }
    }

    #[test]
    fn watchdog_of_another_process_does_not_count() {
        let own = std::process::id().to_string();
        assert_eq!(watchdog("3000000", &own), Some(Duration::from_secs(3)));
        assert_eq!(watchdog("3000000", "1"), None);
        assert_eq!(watchdog("0", &own), None);
        assert_eq!(watchdog("soon", &own), None);
    }

    #[test]
    fn absent_supervisor_is_no_error() {
        assert!(Supervisor::of(Environment::default()).unwrap().0.is_none());
        supervisor("/nowhere/at/all", "1", "1").ready("");
        let long = "x".repeat(200);
        let refused = Supervisor::of(Environment {
            socket: Some(OsStr::new(&long)),
            ..Environment::default()
        });
        assert!(refused.is_err());
    }

    #[tokio::test]
    async fn no_answer_is_no_sign_of_life() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let own = std::process::id().to_string();
        let supervisor = supervisor(path.to_str().unwrap(), "2000", &own);
        let mut looks = 0;
        let watching = supervisor.watch(|| {
            looks += 1;
            let answer = (looks >= 3).then(|| format!("look {looks}"));
            async move { answer }
        });
        let first = tokio::task::spawn_blocking(move || received(&socket));
        tokio::select! {
            () = watching => {}
            first = first => assert_eq!(first.unwrap(), "READY=1\nWATCHDOG=1\nSTATUS=look 3"),
        }
    }
}
