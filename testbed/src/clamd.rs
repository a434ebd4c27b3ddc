//! ClamAV's daemon with signatures of the test's own: no virus database has to be downloaded.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::nameserver::installed;
use crate::{TestbedError, wait_until};

/// How long it may take to start.
const START: Duration = Duration::from_secs(120);

/// A running clamd; killed when dropped.
#[derive(Debug)]
pub struct Clamd {
    child: Child,
    folder: TempDir,
}

impl Clamd {
    /// One that finds these bytes, anywhere in a file and in archives, and calls them `name`. None
    /// where it is not installed.
    ///
    /// # Errors
    /// When its folder cannot be made or it does not start.
    pub fn start(name: &str, bytes: &[u8]) -> Result<Option<Clamd>, TestbedError> {
        Clamd::finding(&[(name, bytes)])
    }

    /// One that finds any of these.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn finding(signatures: &[(&str, &[u8])]) -> Result<Option<Clamd>, TestbedError> {
        Clamd::taking("100M", signatures)
    }

    /// The same with this `StreamMaxLength`.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn taking(
        stream: &str,
        signatures: &[(&str, &[u8])],
    ) -> Result<Option<Clamd>, TestbedError> {
        let Some(program) = installed("clamd") else {
            return Ok(None);
        };
        let wrong = |error: std::io::Error| TestbedError::of("starting clamd", error);
        let folder = tempfile::tempdir().map_err(wrong)?;
        let mut lines = String::new();
        for (name, bytes) in signatures {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            lines.push_str(&format!("{name}:0:*:{hex}\n"));
        }
        fs::write(folder.path().join("own.ndb"), lines).map_err(wrong)?;
        let here = folder.path().display();
        let text = format!(
            "Foreground yes\nLocalSocket {here}/clamd.sock\nDatabaseDirectory {here}\nTemporaryDirectory {here}\n\
             LogFile {here}/log\nStreamMaxLength {stream}\nMaxThreads 20\nSelfCheck 0\n"
        );
        let configuration = folder.path().join("clamd.conf");
        fs::write(&configuration, text).map_err(wrong)?;
        let mut command = Command::new(program);
        command.arg("--config-file").arg(&configuration);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn().map_err(wrong)?;
        let clamd = Clamd { child, folder };
        wait_until(START, || match clamd.socket().exists() {
            true => Ok(()),
            false => {
                let log = fs::read(clamd.folder.path().join("log")).unwrap_or_default();
                Err(TestbedError(String::from_utf8_lossy(&log).into_owned()))
            }
        })?;
        Ok(Some(clamd))
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("clamd.sock")
    }

    /// Stops it in its tracks: its socket takes connections and none is answered.
    ///
    /// # Errors
    /// When it has ended.
    pub fn hang(&self) -> Result<(), TestbedError> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| TestbedError("clamd has no process id".to_owned()))?;
        kill_process(pid, Signal::STOP).map_err(|error| TestbedError::of("stopping clamd", error))
    }

    /// Kills it: its socket stays, without a listener.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed
            .map(|_| ())
            .map_err(|error| TestbedError::of("killing clamd", error))
    }
}

impl Drop for Clamd {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
