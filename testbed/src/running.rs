//! A program of somebody else's that runs until the test is done with it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::TestbedError;

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

impl Running {
    /// Starts it; what it prints goes to the file `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, log: &Path) -> Result<Running, TestbedError> {
        let shown = format!("starting {command:?}");
        let wrong = |error: std::io::Error| TestbedError::of(&shown, error);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(wrong)?;
        let errors = file.try_clone().map_err(wrong)?;
        command.stdin(Stdio::piped()).stdout(file).stderr(errors);
        let mut child = command.spawn().map_err(wrong)?;
        Ok(Running {
            stdin: child.stdin.take(),
            child,
            log: log.to_owned(),
        })
    }

    /// Everything that it has printed.
    #[must_use]
    pub fn log_text(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Types a line, for programs that are told what to do.
    ///
    /// # Errors
    /// When it has ended.
    pub fn type_line(&mut self, line: &str) -> Result<(), TestbedError> {
        let stdin = self.stdin.as_mut();
        let stdin = stdin.ok_or_else(|| TestbedError("no stdin".to_owned()))?;
        let written = stdin.write_all(format!("{line}\n").as_bytes());
        written
            .and_then(|()| stdin.flush())
            .map_err(|error| TestbedError::of("typing a line", error))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
