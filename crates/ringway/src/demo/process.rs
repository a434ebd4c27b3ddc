//! Running the program itself: commands that end, and daemons that end with us.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::limits::{DEMO_COMMAND, DEMO_GRACE, DEMO_READY};
use ringway_terminal::Failure;

/// The program on disk and where its daemons log to.
#[derive(Clone, Debug)]
pub(super) struct Program {
    inner: Arc<Places>,
}

#[derive(Debug)]
struct Places {
    executable: PathBuf,
    logs: PathBuf,
}

/// A process that runs until it is told to end, or until its stdin closes.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
    stdin: Option<ChildStdin>,
}

/// What a process prints, an object a line.
#[derive(Debug)]
pub(super) struct Objects {
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// This very program.
    pub(super) fn this(logs: PathBuf) -> Result<Program, Failure> {
        let executable = std::env::current_exe();
        let executable = executable.map_err(|error| {
            Failure::failed(format_args!(
                "the program's own file is not to be found: {error}"
            ))
        })?;
        Ok(Program {
            inner: Arc::new(Places { executable, logs }),
        })
    }

    /// The program's file.
    pub(super) fn executable(&self) -> &Path {
        &self.inner.executable
    }

    /// Where the daemon `name` logs to.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.inner.logs.join(format!("{name}.log"))
    }

    /// A process group of its own keeps a terminal's Ctrl-C from the children: the demo ends them,
    /// in order.
    fn command(&self, home: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.inner.executable);
        command
            .arg("--json")
            .arg("--home")
            .arg(home)
            .args(arguments);
        command
            .env_remove("RINGWAY_HOME")
            .env_remove("NOTIFY_SOCKET")
            .kill_on_drop(true)
            .process_group(0);
        command
    }

    /// Runs a command to its end and reads the objects that it prints.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        home: &Path,
        arguments: &[&str],
    ) -> Result<Vec<T>, Failure> {
        self.call_with_input(home, arguments, "").await
    }

    /// As [`Program::call`], for a command that prints one object.
    pub(super) async fn call_one<T: DeserializeOwned>(
        &self,
        home: &Path,
        arguments: &[&str],
    ) -> Result<T, Failure> {
        self.call(home, arguments)
            .await?
            .pop()
            .ok_or_else(|| failed(home, arguments, "it printed nothing"))
    }

    /// As [`Program::call`], with something to read on stdin.
    pub(super) async fn call_with_input<T: DeserializeOwned>(
        &self,
        home: &Path,
        arguments: &[&str],
        input: &str,
    ) -> Result<Vec<T>, Failure> {
        let mut command = self.command(home, arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let ran = timeout(DEMO_COMMAND, async {
            let mut child = command.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // A command that does not read its stdin may have closed it.
                stdin.write_all(input.as_bytes()).await.ok();
            }
            child.wait_with_output().await
        });
        let output = ran
            .await
            .map_err(|_| failed(home, arguments, "it did not end in time"))?
            .map_err(|error| failed(home, arguments, &error.to_string()))?;
        if !output.status.success() {
            let reason = reason(&String::from_utf8_lossy(&output.stderr));
            return Err(failed(
                home,
                arguments,
                &reason.unwrap_or_else(|| output.status.to_string()),
            ));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let objects = text
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>();
        objects.map_err(|error| {
            failed(
                home,
                arguments,
                &format!("it printed something unexpected: {error}"),
            )
        })
    }

    /// Starts a daemon and waits for the object that says it is ready.
    pub(super) async fn daemon(
        &self,
        name: &str,
        home: &Path,
        arguments: &[&str],
    ) -> Result<(Daemon, Value), Failure> {
        let words = [arguments, &["-v", "--exit-with-stdin"]].concat();
        let (mut daemon, mut objects) = self.listen(name, home, &words, &[])?;
        let first = timeout(DEMO_READY, objects.next()).await;
        let ready = first.map_err(|_| failed(home, arguments, "it was not ready in time"))?;
        let Some(ready) = ready.map_err(|failure| failed(home, arguments, failure.message()))?
        else {
            let ended = daemon.child.wait().await;
            let status = ended.map_err(|error| failed(home, arguments, &error.to_string()))?;
            let text = std::fs::read_to_string(self.log(name)).unwrap_or_default();
            return Err(failed(
                home,
                arguments,
                &reason(&text).unwrap_or_else(|| status.to_string()),
            ));
        };
        // Whatever it prints later is read, or it would block one day.
        tokio::spawn(async move { while let Ok(Some(_)) = objects.lines.next_line().await {} });
        Ok((daemon, ready))
    }

    /// Starts a process that ends when its stdin closes, with these variables besides, and gives
    /// what it prints.
    pub(super) fn listen(
        &self,
        name: &str,
        home: &Path,
        arguments: &[&str],
        variables: &[(&str, PathBuf)],
    ) -> Result<(Daemon, Objects), Failure> {
        let cannot = |error: std::io::Error| failed(home, arguments, &error.to_string());
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log(name))
            .map_err(cannot)?;
        let mut command = self.command(home, arguments);
        command
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file);
        let mut child = command.spawn().map_err(cannot)?;
        let stdin = child.stdin.take();
        let Some(stdout) = child.stdout.take() else {
            return Err(failed(home, arguments, "it has no stdout"));
        };
        let lines = BufReader::new(stdout).lines();
        Ok((Daemon { child, stdin }, Objects { lines }))
    }
}

impl Objects {
    /// The next one; `None`: the process has ended, or prints no more.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let line = self.lines.next_line().await;
        let line = line
            .map_err(|error| Failure::failed(format_args!("its output cannot be read: {error}")))?;
        let object = line.map(|line| serde_json::from_str(&line)).transpose();
        object.map_err(|error| {
            Failure::failed(format_args!("it printed something unexpected: {error}"))
        })
    }
}

impl Daemon {
    /// Kills it without warning (SIGKILL) and waits until it is gone.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        let killed = self.child.kill().await;
        killed.map_err(|error| Failure::failed(format_args!("killing a process failed: {error}")))
    }

    /// Lets it end by itself, and kills it if it does not.
    pub(super) async fn end(mut self) {
        drop(self.stdin.take());
        if timeout(DEMO_GRACE, self.child.wait()).await.is_err() {
            // An error here means that it has ended by itself after all.
            self.child.kill().await.ok();
        }
    }
}

/// The reason that a process, which was asked for JSON, gave on stderr.
pub(super) fn reason(stderr: &str) -> Option<String> {
    let objects = stderr.lines().rev().map(serde_json::from_str::<Value>);
    objects
        .flatten()
        .find(|object| object["schema"] == "ringway.error/1")
        .and_then(|object| object["message"].as_str().map(str::to_owned))
}

fn failed(home: &Path, arguments: &[&str], reason: &str) -> Failure {
    let who = home
        .file_name()
        .unwrap_or(OsStr::new("?"))
        .to_string_lossy()
        .into_owned();
    Failure::failed(format_args!(
        "`ringway {}` at {who}: {reason}",
        arguments.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_last_reason_counts() {
        let error =
            |message| format!("{{\"schema\":\"ringway.error/1\",\"message\":\"{message}\"}}");
        let stderr = format!(
            "2026 INFO x\n{}\n{}\n{{}}\n",
            error("first"),
            error("second")
        );
        assert_eq!(reason(&stderr).as_deref(), Some("second"));
        assert_eq!(reason("noise"), None);
    }
}
