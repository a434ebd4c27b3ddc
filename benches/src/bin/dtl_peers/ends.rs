//! What both ends of every flow have in common: a runtime of one thread, the lines, the time.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot};
use tokio::time::{MissedTickBehavior, interval};

use crate::Failure;

/// Time between two lines.
const TICK: Duration = Duration::from_millis(100);

/// How long a connection that is closed may take to say so.
const FAREWELL: Duration = Duration::from_secs(1);

/// Bytes that a sender hands over at once.
const CHUNK: usize = 256 * 1024;

/// Counts what has arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    first: OnceLock<Instant>,
    begun: Notify,
}

impl Meter {
    /// `bytes` more have arrived.
    pub(crate) fn add(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.0.first.get().is_none() {
            self.0.first.get_or_init(Instant::now);
            self.0.begun.notify_one();
        }
    }

    /// Prints where things stand. Nothing before the first byte.
    fn print(&self) -> Result<(), Failure> {
        let Some(first) = self.0.first.get() else {
            return Ok(());
        };
        let seconds = first.elapsed().as_secs_f64();
        line(&format!(
            "{seconds:.6} {}",
            self.0.bytes.load(Ordering::Relaxed)
        ))
    }

    /// Prints a line each tick, without end.
    async fn print_always(&self) -> Failure {
        self.0.begun.notified().await;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if let Err(failure) = self.print() {
                return failure;
            }
        }
    }
}

/// One line on stdout, at once.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Runs the end that receives until `work` ends or stdin is closed.
pub(crate) fn receive(
    work: impl AsyncFnOnce(&Meter) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let meter = Meter::default();
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = work(&meter) => ended,
            failure = meter.print_always() => Err(failure),
            () = stdin_closed() => Ok(()),
        }
    });
    ended?;
    meter.print()
}

/// Ends when nothing more can come from stdin.
async fn stdin_closed() {
    let (closed, wait) = oneshot::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while std::io::stdin()
            .read(&mut buffer)
            .is_ok_and(|count| count > 0)
        {}
        // The receiver is gone if the connection has ended first.
        closed.send(()).ok();
    });
    wait.await.ok();
}

/// Runs the end that sends.
pub(crate) fn send(work: impl AsyncFnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work())
}

/// Does `work`, which never ends by itself, for so long.
pub(crate) async fn for_so_long(
    time: Duration,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::time::timeout(time, work).await.unwrap_or(Ok(()))
}

/// Waits for the last packets of a connection that was closed; without them the peer would wait for
/// its idle timeout.
pub(crate) async fn farewell(idle: impl Future) {
    // A peer that says nothing has the packets lost to it, and waits.
    tokio::time::timeout(FAREWELL, idle).await.ok();
}

/// What is sent again and again.
pub(crate) fn payload() -> Bytes {
    Bytes::from(vec![0x5a; CHUNK])
}

/// Processor time of this process, user and system.
pub(crate) fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// Time that the threads of this process have waited for a processor that somebody else had: the
/// second number of `schedstat`, nanoseconds.
pub(crate) fn waited() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task");
    let waits = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split(' ').nth(1)?.parse::<u64>().ok()
        });
    Duration::from_nanos(waits.sum())
}
