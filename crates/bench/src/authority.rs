//! The authority of a benchmark's ring, on a thread of its own.

use std::thread::JoinHandle;

use ringway_node::authority::{Authority, Server};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use ringway_terminal::Failure;

/// A part of a benchmark on a thread of its own.
#[derive(Debug)]
pub(super) struct Thread<T> {
    pub(super) stop: oneshot::Sender<()>,
    pub(super) thread: JoinHandle<Result<T, Failure>>,
}

impl<T> Thread<T> {
    /// Ends it and gives what it came to.
    pub(super) fn end(self) -> Result<T, Failure> {
        // It may have ended by itself.
        self.stop.send(()).ok();
        let joined = self.thread.join();
        joined.unwrap_or_else(|_| Err(Failure::failed("a thread of the benchmark failed")))
    }
}

/// Runs one thread's part.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(Failure::failed)
}

/// Lets the authority answer until it is stopped.
pub(super) fn serve(authority: Authority) -> Result<Thread<()>, Failure> {
    let (stop, stopped) = oneshot::channel();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        runtime()?.block_on(async {
            let server = Server::bind(authority).await.map_err(Failure::failed)?;
            // The receiver is gone if the benchmark has failed meanwhile.
            ready.send(()).ok();
            let stop = async { stopped.await.unwrap_or_default() };
            server.run(stop).await.map_err(Failure::failed)
        })
    });
    // If it failed, joining says why.
    if is_ready.recv().is_err() {
        let failed = Thread { stop, thread };
        failed.end()?;
        return Err(Failure::failed("the authority did not start"));
    }
    Ok(Thread { stop, thread })
}
