//! A validating resolver of the test's own.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::nameserver::installed;
use crate::{TestbedError, free_address, wait_until};

/// How long it may take to start.
const START: Duration = Duration::from_secs(60);

/// A running unbound; killed when dropped.
#[derive(Debug)]
pub struct Unbound {
    child: Child,
    folder: TempDir,
    /// Where it answers, over UDP and TCP.
    pub address: SocketAddr,
}

impl Unbound {
    /// One on loopback that asks `server` for `zone`, and believes only what `trust_anchor` proves.
    /// None where it is not installed.
    ///
    /// # Errors
    /// When its folder cannot be made or it does not start.
    pub fn start(
        zone: &str,
        server: SocketAddr,
        trust_anchor: &str,
    ) -> Result<Option<Unbound>, TestbedError> {
        let Some(program) = installed("unbound") else {
            return Ok(None);
        };
        let wrong = |error: std::io::Error| TestbedError::of("starting unbound", error);
        let folder = tempfile::tempdir().map_err(wrong)?;
        let address = free_address()?;
        let here = folder.path().display();
        let (ip, port) = (address.ip(), address.port());
        let (server_ip, server_port) = (server.ip(), server.port());
        let text = format!(
            "server:\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n directory: \"{here}\"\n pidfile: \"{here}/pid\"\n\
             logfile: \"{here}/log\"\n use-syslog: no\n verbosity: 1\n num-threads: 1\n\
             interface: {ip}@{port}\n access-control: 127.0.0.0/8 allow\n do-not-query-localhost: no\n\
             module-config: \"validator iterator\"\n trust-anchor: \"{trust_anchor}\"\n\
             local-zone: \"test.\" nodefault\n val-log-level: 2\n cache-max-ttl: 1\n cache-max-negative-ttl: 1\n infra-host-ttl: 1\n\
             stub-zone:\n name: \"{zone}\"\n stub-addr: {server_ip}@{server_port}\n\
             remote-control:\n control-enable: no\n"
        );
        fs::write(folder.path().join("unbound.conf"), text).map_err(wrong)?;
        let mut command = Command::new(program);
        command
            .arg("-d")
            .arg("-c")
            .arg(folder.path().join("unbound.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().map_err(wrong)?;
        let unbound = Unbound {
            child,
            folder,
            address,
        };
        let log = unbound.folder.path().join("log");
        wait_until(START, || {
            let text = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            match text.contains("start of service") {
                true => Ok(()),
                false => Err(TestbedError(text)),
            }
        })?;
        Ok(Some(unbound))
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
