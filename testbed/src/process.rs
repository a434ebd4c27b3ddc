//! A daemon of the program: started, signalled, waited for.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{TestbedError, wait_until};

/// How long a process may take to end after it was told to; generous, the machine is busy.
const END: Duration = Duration::from_secs(180);

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    _stdin: Option<ChildStdin>,
    log: PathBuf,
    /// The object that it printed first.
    pub ready: Value,
}

impl Process {
    /// Starts `command`, with stderr going to the file `log`, and waits for its first line of JSON.
    ///
    /// # Errors
    /// When it cannot be started, or ends or prints something else first; the end of its log is
    /// part of the message.
    pub fn start(mut command: Command, log: &Path) -> Result<Process, TestbedError> {
        let wrong = |error: std::io::Error| TestbedError::of(&log.display().to_string(), error);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(wrong)?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file);
        let mut child = command.spawn().map_err(wrong)?;
        let stdin = child.stdin.take();
        let mut process = Process {
            child,
            _stdin: stdin,
            log: log.to_owned(),
            ready: Value::Null,
        };
        let mut line = String::new();
        if let Some(stdout) = process.child.stdout.take() {
            let mut stdout = BufReader::new(stdout);
            stdout.read_line(&mut line).map_err(wrong)?;
            // Whatever it prints later is read, or it would block one day.
            thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
        }
        process.ready = serde_json::from_str(&line).map_err(|error| {
            TestbedError(format!(
                "not ready ({error}), it said `{line}` and logged: {}",
                process.log_text()
            ))
        })?;
        Ok(process)
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything that it has logged.
    #[must_use]
    pub fn log_text(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Kills it without warning (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed
            .map(|_| ())
            .map_err(|error| TestbedError::of("killing a process", error))
    }

    /// Sends SIGINT, as a terminal's Ctrl-C does, and gives the exit code.
    ///
    /// # Errors
    /// When it does not end within a minute.
    pub fn interrupt(&mut self) -> Result<Option<i32>, TestbedError> {
        self.signal(Signal::INT)
    }

    /// Sends SIGTERM, as a service manager does, and gives the exit code.
    ///
    /// # Errors
    /// As [`Process::interrupt`].
    pub fn terminate(&mut self) -> Result<Option<i32>, TestbedError> {
        self.signal(Signal::TERM)
    }

    /// Makes it stand still (SIGSTOP) until [`resume`](Self::resume); its threads do when this
    /// returns.
    ///
    /// # Errors
    /// When the system refuses, or a thread goes on for a minute.
    pub fn pause(&mut self) -> Result<(), TestbedError> {
        self.send(Signal::STOP)?;
        let tasks = PathBuf::from(format!("/proc/{}/task", self.id()));
        wait_until(END, || {
            let threads = std::fs::read_dir(&tasks)
                .map_err(|error| TestbedError::of("pausing a process", error))?;
            let stands = |stat: &str| {
                stat.rsplit(") ")
                    .next()
                    .is_some_and(|rest| rest.starts_with('T'))
            };
            let running = threads.flatten().any(|thread| {
                // One that has just ended does nothing more.
                let stat = std::fs::read_to_string(thread.path().join("stat"));
                stat.is_ok_and(|stat| !stands(&stat))
            });
            match running {
                true => Err(TestbedError("a thread goes on".to_owned())),
                false => Ok(()),
            }
        })
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn resume(&mut self) -> Result<(), TestbedError> {
        self.send(Signal::CONT)
    }

    /// Sends SIGHUP, which has a daemon load its configuration again.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn hang_up(&mut self) -> Result<(), TestbedError> {
        self.send(Signal::HUP)
    }

    /// Sends SIGUSR1, which has a daemon open its files again.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn reopen(&mut self) -> Result<(), TestbedError> {
        self.send(Signal::USR1)
    }

    fn send(&mut self, signal: Signal) -> Result<(), TestbedError> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|error| TestbedError::of("sending a signal", error))
    }

    fn signal(&mut self, signal: Signal) -> Result<Option<i32>, TestbedError> {
        self.send(signal)?;
        let pid = self.id();
        wait_until(END, || {
            let status = self
                .child
                .try_wait()
                .map_err(|error| TestbedError::of("waiting", error))?;
            status
                .map(|status| status.code())
                .ok_or_else(|| TestbedError(format!("process {pid} runs")))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
