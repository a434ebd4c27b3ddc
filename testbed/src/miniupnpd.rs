//! A home router's daemon that gives ports to hosts inside: NAT-PMP and PCP.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::{Host, TestbedError};

/// A running `miniupnpd`; killed when dropped.
#[derive(Debug)]
pub struct Miniupnpd {
    child: Child,
    folder: TempDir,
}

impl Miniupnpd {
    /// One on this gateway, whose rules have [`Rule::HomeRouter`](crate::Rule::HomeRouter) for the
    /// interface `outside`. That must have an address that is public in earnest: the daemon
    /// refuses those for documentation. None where it is not installed.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        gateway: &Host,
        outside: &str,
        inside: &str,
    ) -> Result<Option<Miniupnpd>, TestbedError> {
        let program = Path::new("/usr/sbin/miniupnpd");
        if !program.is_file() {
            return Ok(None);
        }
        let wrong = |error: std::io::Error| TestbedError::of("starting miniupnpd", error);
        let folder = tempfile::tempdir().map_err(wrong)?;
        let configuration = folder.path().join("conf");
        let text = format!(
            "ext_ifname={outside}\nlistening_ip={inside}\nenable_natpmp=yes\nenable_upnp=no\nsecure_mode=yes\n\
             upnp_table_name=ringway\nupnp_nat_table_name=ringway\nupnp_forward_chain=miniupnpd\n\
             upnp_nat_chain=prerouting_miniupnpd\nupnp_nat_postrouting_chain=postrouting_miniupnpd\n\
             uuid=00000000-0000-0000-0000-000000000001\nallow 1024-65535 0.0.0.0/0 1024-65535\n"
        );
        fs::write(&configuration, text).map_err(wrong)?;
        let log = fs::File::create(folder.path().join("log")).map_err(wrong)?;
        let mut command = gateway.command(program);
        command.arg("-d").arg("-f").arg(configuration);
        command.arg("-P").arg(folder.path().join("pid"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(log).spawn().map_err(wrong)?;
        Ok(Some(Miniupnpd { child, folder }))
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        let log: PathBuf = self.folder.path().join("log");
        String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Miniupnpd {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
