//! Daemons under a supervisor: what they notify it of by systemd's protocol, and the log that they
//! write to its journal.

use std::fs::{self, File};
use std::os::linux::fs::MetadataExt as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use ringway_testbed::{Process, RingBuilder};

use super::program;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

/// What a supervisor of this process sets, in microseconds: a sign of life each half second.
pub(crate) const WATCHDOG_USEC: &str = "1000000";

/// The socket of a supervisor.
#[derive(Debug)]
pub(crate) struct Supervisor(UnixDatagram);

impl Supervisor {
    /// One with a name in the file system.
    pub(crate) fn at(path: &Path) -> Supervisor {
        Supervisor::of(UnixDatagram::bind(path).unwrap())
    }

    fn of(socket: UnixDatagram) -> Supervisor {
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Supervisor(socket)
    }

    /// The next notification that has this line.
    pub(crate) fn until(&self, line: &str) -> String {
        let mut bytes = [0; 4096];
        loop {
            let length = self.0.recv(&mut bytes);
            let length = length.unwrap_or_else(|error| panic!("no `{line}`: {error}"));
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if text.lines().any(|other| other == line) {
                return text;
            }
        }
    }

    /// A reload is begun and ended, with this in its status.
    pub(crate) fn until_reloaded(&self, status: &str) {
        let begun = self.until("RELOADING=1");
        assert!(begun.contains("\nMONOTONIC_USEC="), "{begun}");
        let ended = self.until("READY=1");
        assert!(ended.contains(status), "{ended}");
    }
}

#[test]
fn supervisor_follows_a_member_from_start_to_end() {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .absent_leaf("lima");
    let ring = builder.start().unwrap();
    let name = format!("ringway-supervised-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let supervisor = Supervisor::of(UnixDatagram::bind_addr(&address).unwrap());
    let home = &ring.member("lima").unwrap().home;
    let log = home.with_extension("log");
    let stat = File::create(&log).unwrap().metadata().unwrap();
    let mut command = program().command(["--json", "--home", home.to_str().unwrap(), "node"]);
    command
        .env("NOTIFY_SOCKET", format!("@{name}"))
        .env("WATCHDOG_USEC", WATCHDOG_USEC)
        .env("RUST_LOG", "ringway=info,ringway_node=debug")
        .env(
            "JOURNAL_STREAM",
            format!("{}:{}", stat.st_dev(), stat.st_ino()),
        );
    let mut daemon = Process::start(command, &log).unwrap();
    let ready = supervisor.until("READY=1");
    assert!(ready.contains("STATUS=lima of "), "{ready}");
    supervisor.until("WATCHDOG=1");
    daemon.hang_up().unwrap();
    supervisor.until_reloaded("STATUS=lima of ");
    fs::write(home.join("ringway.toml"), "[node]\ncolour = 1\n").unwrap();
    daemon.hang_up().unwrap();
    supervisor.until_reloaded("STATUS=the configuration was NOT loaded again");
    daemon.interrupt().unwrap();
    supervisor.until("STOPPING=1");
    let text = daemon.log_text();
    let priorities = ["<3>ringway", "<4>ringway", "<6>ringway", "<7>ringway"];
    let known = |line: &str| priorities.iter().any(|begin| line.starts_with(begin));
    assert!(text.lines().all(known), "{text}");
    for priority in ["<3>", "<6>", "<7>"] {
        assert!(
            text.lines().any(|line| line.starts_with(priority)),
            "{text}"
        );
    }
}

#[test]
fn supervisor_follows_an_authority() {
    let mut ring = RingBuilder::new(program()).router("oslo").start().unwrap();
    ring.authority.terminate().unwrap();
    let path = ring.folder().join("notify");
    let supervisor = Supervisor::at(&path);
    let owner = ring.folder().join("owner");
    let mut command = program().command(["--json", "--home", owner.to_str().unwrap()]);
    command
        .args(["ring", "serve"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", WATCHDOG_USEC);
    let mut daemon = Process::start(command, &ring.folder().join("served.log")).unwrap();
    let ready = supervisor.until("READY=1");
    assert!(ready.contains(": 1 members, DNS at "), "{ready}");
    supervisor.until("WATCHDOG=1");
    daemon.hang_up().unwrap();
    supervisor.until_reloaded("STATUS=authority of ");
    assert_eq!(daemon.terminate().unwrap(), Some(0));
    supervisor.until("STOPPING=1");
}
