//! The system's own tools for packet filters and queues, run to their end.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where administrators' tools lie when PATH does not say so.
const ADMINISTRATORS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A tool that could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not installed.
    #[error("`{0}` is not installed; it comes with the package {1}")]
    Missing(&'static str, &'static str),
    /// It could not be run.
    #[error("`{0}` cannot be run: {1}")]
    Run(&'static str, io::Error),
    /// It refused.
    #[error("`{0}` refused: {1}")]
    Refused(&'static str, String),
}

/// A tool and the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// The program's name, without a folder.
    pub name: &'static str,
    /// The package.
    pub package: &'static str,
}

/// Interfaces, addresses and routes.
pub const IP: Tool = Tool {
    name: "ip",
    package: "iproute2",
};

impl Tool {
    /// Runs it, with this on stdin; returns what it printed.
    ///
    /// # Errors
    /// It is not installed, cannot be run, or its exit code is not 0.
    pub fn run(self, arguments: &[&str], input: &str) -> Result<String, ToolError> {
        let path = self
            .find()
            .ok_or(ToolError::Missing(self.name, self.package))?;
        let wrong = |error| ToolError::Run(self.name, error);
        let mut command = Command::new(path);
        // The supervisor is notified of the gateway, not of tools.
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A tool that refuses its arguments does not read its input; its exit code says more.
            let _closed = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(wrong)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().replace('\n', "; ");
        Err(ToolError::Refused(self.name, message))
    }

    /// The same without input, for what there is nothing of where the tool is not installed: `None`
    /// then.
    pub(super) fn run_if_there(self, arguments: &[&str]) -> Result<Option<String>, ToolError> {
        match self.run(arguments, "") {
            Err(ToolError::Missing(..)) => Ok(None),
            run => run.map(Some),
        }
    }

    fn find(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(ADMINISTRATORS.map(PathBuf::from))
            .map(|folder| folder.join(self.name))
            .find(|file| file.is_file())
    }
}
