//! The built program, and commands of it that run to their end.

use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Host, TestbedError};

/// How long a command may take. Generous: two busy cores, a debug build.
const DEADLINE: Duration = Duration::from_secs(1_200);

/// Time between two looks at a running command.
const POLL: Duration = Duration::from_millis(5);

/// What a command did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Outcome {
    /// The JSON objects on stdout, one a line.
    ///
    /// # Errors
    /// When a line is no JSON.
    pub fn objects(&self) -> Result<Vec<Value>, TestbedError> {
        let objects = self
            .stdout
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>();
        objects.map_err(|error| TestbedError(format!("no JSON lines ({error}): {}", self.stdout)))
    }
}

/// The program's file, and where it runs.
#[derive(Clone, Debug)]
pub struct Program {
    executable: PathBuf,
    host: Option<Host>,
}

impl Program {
    /// The program in this file, usually `env!("CARGO_BIN_EXE_ringway")`.
    #[must_use]
    pub fn new(executable: &Path) -> Program {
        Program {
            executable: executable.to_owned(),
            host: None,
        }
    }

    /// The same program on this host.
    #[must_use]
    pub fn on(&self, host: &Host) -> Program {
        Program {
            executable: self.executable.clone(),
            host: Some(host.clone()),
        }
    }

    /// A command with nothing of this user's configuration in its environment.
    #[must_use]
    pub fn command<I, S>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = match &self.host {
            Some(host) => host.command(&self.executable),
            None => Command::new(&self.executable),
        };
        command.args(arguments);
        for variable in ["RINGWAY_HOME", "RINGWAY_LOG", "RUST_LOG", "XDG_DATA_HOME"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it cannot be started or does not end in time; a bad exit code is no error.
    pub fn run<I, S>(&self, arguments: I) -> Result<Outcome, TestbedError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        finish(self.command(arguments), "")
    }

    /// As [`Program::run`], with something to read on stdin.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_with_input<I, S>(&self, arguments: I, input: &str) -> Result<Outcome, TestbedError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        finish(self.command(arguments), input)
    }
}

/// Runs `command` with `input` on its stdin until it ends.
pub(crate) fn finish(mut command: Command, input: &str) -> Result<Outcome, TestbedError> {
    let shown = format!("{command:?}");
    let wrong = |error: std::io::Error| TestbedError::of(&shown, error);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(wrong)?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its stdin may have closed it.
        stdin.write_all(input.as_bytes()).ok();
    }
    let code = wait(&mut child, &shown)?;
    let text = |reader: JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Ok(Outcome {
        code,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn wait(child: &mut Child, shown: &str) -> Result<Option<i32>, TestbedError> {
    let end = Instant::now() + DEADLINE;
    loop {
        match child
            .try_wait()
            .map_err(|error| TestbedError::of(shown, error))?
        {
            Some(status) => return Ok(status.code()),
            None if Instant::now() < end => sleep(POLL),
            None => {
                // It may end in this very moment; then there is nothing to kill.
                child.kill().ok();
                return Err(TestbedError(format!(
                    "{shown} did not end in {} s",
                    DEADLINE.as_secs()
                )));
            }
        }
    }
}

/// Reads to the end beside everything else, so that a full pipe stops no program.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is kept.
            pipe.read_to_end(&mut bytes).ok();
        }
        bytes
    })
}
