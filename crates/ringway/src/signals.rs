//! The signals that end a running command, and those that have a daemon read its files again.
//!
//! | signal | commands | daemons |
//! |---|---|---|
//! | SIGINT (Ctrl-C), SIGTERM | end | end |
//! | SIGHUP | end | load again; end where the terminal that they were started on has gone |
//! | SIGUSR1 | end, as in any program | open files of events again |

use std::fs::File;
use std::io::{self, Read as _};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::limits::HANG_UP;
use ringway_terminal::Failure;

/// Interrupt (Ctrl-C), termination and hang-up, caught from the moment this exists.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Begins to catch them.
    pub(crate) fn catch() -> Result<Signals, Failure> {
        Ok(Signals {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    /// Waits for the next of them and gives its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "terminated",
            _ = self.hang_up.recv() => "hung up",
        }
    }
}

fn catch(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::failed(format_args!("catching signals failed: {error}")))
}

/// The signals of a daemon, caught from the moment this exists.
#[derive(Debug)]
pub(crate) struct DaemonSignals {
    signals: Signals,
    reloads: Reloads,
}

impl DaemonSignals {
    /// Begins to catch them.
    pub(crate) fn catch() -> Result<DaemonSignals, Failure> {
        // Before a handler stands in the place of what the parent has set.
        let terminal = Terminal::of_start();
        Ok(DaemonSignals {
            signals: Signals::catch()?,
            reloads: Reloads {
                hang_up: catch(SignalKind::hangup())?,
                reopen: catch(SignalKind::user_defined1())?,
                terminal,
            },
        })
    }

    /// What ends the daemon, which completes at its end, and what has it read its files again.
    pub(crate) fn split(self, exit_with_stdin: bool) -> (impl Future<Output = ()>, Reloads) {
        let terminal = self.reloads.terminal;
        (
            shutdown(self.signals, terminal, exit_with_stdin),
            self.reloads,
        )
    }
}

/// What a daemon is asked to do without ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To load its configuration again, and to open its files again.
    Reload,
    /// To open its files again.
    Reopen,
}

/// The signals by which a daemon is asked to read its files again.
#[derive(Debug)]
pub(crate) struct Reloads {
    hang_up: Signal,
    reopen: Signal,
    terminal: Terminal,
}

impl Reloads {
    /// Waits for the next one. Several that come at once count as one.
    pub(crate) async fn next(&mut self) -> Asked {
        loop {
            tokio::select! {
                // A terminal that has gone ends the daemon: see `shutdown`.
                _ = self.hang_up.recv() => if !self.terminal.has_gone().await {
                    return Asked::Reload;
                },
                _ = self.reopen.recv() => return Asked::Reopen,
            }
        }
    }
}

/// What the daemon was started on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terminal {
    /// A terminal, whose end is this program's: a person runs it by hand.
    Controlling,
    /// None, or the parent has hang-ups ignored, as `nohup` does.
    None,
}

impl Terminal {
    fn of_start() -> Terminal {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        match is_there() && !ignores_hang_ups(&status) {
            true => Terminal::Controlling,
            false => Terminal::None,
        }
    }

    /// The kernel takes a terminal that hangs up from all processes of its session. The signal may
    /// come from a shell while it is still at that.
    async fn has_gone(self) -> bool {
        if self == Terminal::None {
            return false;
        }
        if is_there() {
            tokio::time::sleep(HANG_UP).await;
        }
        !is_there()
    }
}

/// Whether the process has a controlling terminal: without one this name leads nowhere (tty(4)).
fn is_there() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Whether the process with this `/proc/PID/status` ignores SIGHUP: bit 0 of its mask.
fn ignores_hang_ups(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let last = mask.and_then(|mask| mask.trim().chars().next_back());
    last.and_then(|digit| digit.to_digit(16))
        .is_some_and(|digit| digit & 1 == 1)
}

/// Ends when a daemon should: at a signal, when its terminal goes or, if asked for, when stdin
/// closes.
async fn shutdown(mut signals: Signals, terminal: Terminal, exit_with_stdin: bool) {
    let mut closed = exit_with_stdin.then(stdin_closes);
    let reason = loop {
        tokio::select! {
            _ = signals.interrupt.recv() => break "interrupted",
            _ = signals.terminate.recv() => break "terminated",
            _ = signals.hang_up.recv() => if terminal.has_gone().await {
                break "its terminal has gone";
            },
            () = wait(closed.as_mut()) => break "stdin closed",
        }
    };
    tracing::info!(reason, "ending");
}

async fn wait(closed: Option<&mut oneshot::Receiver<()>>) {
    match closed {
        // A sender that is gone has ended too, so both outcomes say the same.
        Some(closed) => drop(closed.await),
        None => std::future::pending().await,
    }
}

/// A thread of its own, because a read from stdin cannot be cancelled and must not hold the runtime
/// up at the end.
fn stdin_closes() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut ignored = [0; 256];
        let mut stdin = io::stdin().lock();
        while stdin.read(&mut ignored).is_ok_and(|read| read > 0) {}
        // The receiver has gone when the daemon ends for another reason.
        sender.send(()).ok();
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::ignores_hang_ups;

    #[test]
    fn ignored_hang_ups_are_found() {
        let status = |mask: &str| {
            format!("Name:\tringway\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t0\n")
        };
        assert!(ignores_hang_ups(&status("0000000000001001")));
        assert!(!ignores_hang_ups(&status("0000000000001000")));
        assert!(!ignores_hang_ups("") && !ignores_hang_ups("SigIgn:\n"));
    }
}
