//! The ways in which a running command is ended.

use std::io::{self, Read as _};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

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
        let catch = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format_args!("catching signals failed: {error}")))
        };
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

/// Ends when a daemon should: at a signal or, if asked for, when stdin closes.
pub(crate) async fn shutdown(mut signals: Signals, exit_with_stdin: bool) {
    let closed = exit_with_stdin.then(stdin_closes);
    let reason = tokio::select! {
        reason = signals.next() => reason,
        () = wait(closed) => "stdin closed",
    };
    tracing::info!(reason, "ending");
}

async fn wait(closed: Option<oneshot::Receiver<()>>) {
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
