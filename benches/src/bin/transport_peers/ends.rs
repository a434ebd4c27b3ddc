//! Two ends in one process: each on a thread of its own with a runtime of one thread, as Ringway's
//! members are when measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::Failure;

/// Time without any message after which nothing more is expected of the library.
const STALLED: Duration = Duration::from_secs(60);

/// What the end that answers has counted of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) received: u32,
    /// When the last of them came.
    pub(crate) last: Instant,
}

/// What the end that answers is given.
#[derive(Debug)]
pub(crate) struct There<A> {
    ready: Option<oneshot::Sender<A>>,
    /// Takes what came of a burst.
    pub(crate) counted: mpsc::UnboundedSender<Counted>,
    pub(crate) progress: Progress,
}

impl<A> There<A> {
    /// Tells the other end where this one listens, once.
    pub(crate) fn say(&mut self, address: A) {
        if let Some(ready) = self.ready.take() {
            // The other end is gone only when the measurement has failed there.
            ready.send(address).ok();
        }
    }
}

/// What the end that asks is given.
#[derive(Debug)]
pub(crate) struct Here<A> {
    /// Where the other one listens.
    pub(crate) address: A,
    counted: mpsc::UnboundedReceiver<Counted>,
    pub(crate) progress: Progress,
}

impl<A> Here<A> {
    /// What came of a burst, once the other end has said so.
    pub(crate) async fn counted(&mut self) -> Result<Counted, Failure> {
        let counted = self.counted.recv().await;
        counted.ok_or_else(|| "the end that receives has stopped".into())
    }
}

/// Counts messages, so that a stall is seen without a timer for each of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU32>);

impl Progress {
    /// Something has arrived.
    pub(crate) fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends once nothing has arrived for [`STALLED`].
    async fn stalled(&self) -> Failure {
        let (mut before, mut since) = (self.0.load(Ordering::Relaxed), Instant::now());
        while since.elapsed() < STALLED {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.0.load(Ordering::Relaxed);
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
        format!("no message arrived for {} seconds", STALLED.as_secs()).into()
    }
}

/// Runs both ends; `there` is abandoned when `here` is done.
pub(crate) fn both<A, R>(
    there: impl AsyncFnOnce(There<A>) -> Result<(), Failure> + Send + 'static,
    here: impl AsyncFnOnce(Here<A>) -> Result<R, Failure>,
) -> Result<R, Failure>
where
    A: Send + 'static,
{
    let progress = Progress::default();
    let (ready, address) = oneshot::channel();
    let (counts, counted) = mpsc::unbounded_channel();
    let (done, finished) = oneshot::channel::<()>();
    let given = There {
        ready: Some(ready),
        counted: counts,
        progress: progress.clone(),
    };
    on_own_core(0);
    let answering = thread::spawn(move || {
        on_own_core(1);
        runtime()?.block_on(async {
            tokio::select! {
                ended = there(given) => ended,
                _ = finished => Ok(()),
            }
        })
    });
    let asked = runtime()?.block_on(async {
        let work = async {
            let address = address.await?;
            let progress = progress.clone();
            here(Here {
                address,
                counted,
                progress,
            })
            .await
        };
        tokio::select! {
            ended = work => ended,
            stalled = progress.stalled() => Err(stalled),
        }
    });
    drop(done);
    let answered = answering.join();
    asked.map_err(|asked| match answered {
        // Why nothing went on here.
        Ok(Err(answered)) => answered,
        Ok(Ok(())) => asked,
        Err(_) => "the end that answers has panicked".into(),
    })
}

/// Keeps this thread, one end, on a core of its own, as `ringway-bench transport` does with its
/// ends.
fn on_own_core(end: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    // The first thread has given up all cores but one by the time the second asks: the process
    // knows them all.
    let Ok(allowed) = ALLOWED
        .get_or_init(|| sched_getaffinity(None).ok())
        .ok_or(())
    else {
        return;
    };
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    if let Some(core) = cores.nth(end) {
        let mut own = CpuSet::new();
        own.set(core);
        // Without the right to, it is measured as it is.
        sched_setaffinity(None, &own).ok();
    }
}

/// The cores that the process may use.
static ALLOWED: std::sync::OnceLock<Option<rustix::thread::CpuSet>> = std::sync::OnceLock::new();

fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
