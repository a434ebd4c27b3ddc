//! The program that a rule runs for a file that has come. No shell reads its arguments or the
//! file's name; it gets the facts in its environment, nothing on its standard input, and a bounded
//! time.

use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::arrival::Hook;
use super::record::Record;
use crate::limits::{HOOK_LINE, HOOK_LINES, HOOK_OUTPUT, HOOK_OUTPUT_WAIT, HOOK_TIME};
use crate::text::printable;

/// What it gets of the daemon's own environment.
const INHERITED: [&str; 10] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
];

/// Runs the program to its end, or to the end of its time. Gives how it ended, and why it failed.
pub(super) async fn run(record: &Record) -> (Hook, Option<String>) {
    let Some(mut command) = command(record) else {
        return (Hook::None, None);
    };
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (Hook::Failed, Some(format!("it did not start: {error}"))),
    };
    match watch(child, record).await {
        Ok(status) if status.success() => (Hook::Done, None),
        Ok(status) => (Hook::Failed, Some(format!("it ended with {status}"))),
        Err(reason) => (Hook::Failed, Some(reason)),
    }
}

fn command(record: &Record) -> Option<Command> {
    let arrival = record.arrival.as_ref()?;
    let (program, arguments) = arrival.run.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let hash = record.hash.map(|hash| hash.to_hex().to_string());
    command
        .env("RINGWAY_FILE", &record.path)
        .env("RINGWAY_FROM", &record.peer_name)
        .env("RINGWAY_SIZE", record.size.to_string())
        .env("RINGWAY_BLAKE3", hash.unwrap_or_default())
        .env("RINGWAY_ID", record.id.to_string())
        .env("RINGWAY_RULE", arrival.rule.to_string())
        .env("RINGWAY_KIND", &arrival.kind);
    if let Some(folder) = record.path.parent().filter(|folder| folder.is_dir()) {
        command.current_dir(folder);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts itself ends with it.
        .process_group(0)
        .kill_on_drop(true);
    Some(command)
}

async fn watch(mut child: Child, record: &Record) -> Result<ExitStatus, String> {
    let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let id = record.id.to_string();
    let mut readers = tokio::task::JoinSet::new();
    if let Some(out) = child.stdout.take() {
        readers.spawn(log(out, id.clone(), "out"));
    }
    if let Some(err) = child.stderr.take() {
        readers.spawn(log(err, id, "err"));
    }
    let ended = timeout(HOOK_TIME, child.wait()).await;
    let all_read = async { while readers.join_next().await.is_some() {} };
    let ended = match ended {
        Ok(status) => status.map_err(|error| error.to_string()),
        Err(_) => {
            if let Some(group) = group {
                kill_process_group(group, Signal::KILL).ok();
            }
            child.wait().await.ok();
            let seconds = HOOK_TIME.as_secs();
            Err(format!("it was killed after {seconds} s"))
        }
    };
    // A program that it has left behind may hold its output open.
    timeout(HOOK_OUTPUT_WAIT, all_read).await.ok();
    ended
}

/// Logs the beginning of what a program writes, line by line once it has ended. The rest is read
/// and dropped: it waits for no reader.
async fn log(mut from: impl AsyncRead + Unpin, id: String, stream: &'static str) {
    let mut kept = Vec::new();
    let mut block = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut block).await {
        let room = HOOK_OUTPUT.saturating_sub(kept.len());
        kept.extend_from_slice(block.get(..read.min(room)).unwrap_or_default());
    }
    let text = String::from_utf8_lossy(&kept);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    for line in lines.take(HOOK_LINES) {
        let line = printable(line, HOOK_LINE);
        tracing::info!(id, stream, line, "the program for a received file wrote");
    }
}
