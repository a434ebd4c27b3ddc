//! The thread that writes the history of flows. The accounts never wait for it: what it cannot take
//! is counted as lost.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::error::ServiceError;
use crate::accounting::FlowAccount;
use crate::audit::FlowStore;
use crate::limits::{
    ACCOUNT_BACKLOG, AUDIT_BATCH, AUDIT_PAUSE, AUDIT_TIDY, HISTORY_FILE, MAX_KNOWN_NAMES,
};
use crate::linux::priority::reset_priority;
use crate::torrent::TorrentName;

/// How much of the history is kept.
#[derive(Clone, Debug)]
pub struct HistoryConfig {
    /// The folder of state.
    pub folder: PathBuf,
    /// For how long.
    pub keep: Duration,
    /// Bytes; the oldest flows make room.
    pub size: u64,
}

/// The running thread; it ends when all recorders are gone, with everything written.
#[derive(Debug)]
pub(super) struct HistoryThread {
    recorder: HistoryRecorder,
    thread: JoinHandle<()>,
    /// What torrents were called before.
    torrent_names: Vec<TorrentName>,
}

/// Takes flows for the history, and counts those that it does not take.
#[derive(Clone, Debug)]
pub(super) struct HistoryRecorder {
    flows: SyncSender<FlowAccount>,
    lost: Arc<AtomicU64>,
}

impl HistoryRecorder {
    /// Hands over a flow, or counts it as lost.
    pub(super) fn record(&self, flow: FlowAccount) {
        if self.flows.try_send(flow).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl HistoryThread {
    /// Opens the history and starts to write.
    pub(super) fn start(config: &HistoryConfig) -> Result<Self, ServiceError> {
        let store = FlowStore::open(&config.folder.join(HISTORY_FILE));
        let store = store.map_err(ServiceError::failed)?;
        // Of more the older half would be forgotten at once.
        let names = store.torrent_names(MAX_KNOWN_NAMES.div_euclid(2));
        let torrent_names = names.map_err(ServiceError::failed)?;
        let (flows, received) = sync_channel(ACCOUNT_BACKLOG);
        let lost = Arc::new(AtomicU64::new(0));
        let mut history = History {
            store,
            keep: config.keep,
            size: config.size,
            tidied: None,
            lost: Arc::clone(&lost),
            reported: 0,
        };
        let thread = std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || {
                reset_priority();
                history.write(&received);
            })
            .map_err(|error| {
                ServiceError::failed(format_args!("a thread did not start: {error}"))
            })?;
        Ok(Self {
            recorder: HistoryRecorder { flows, lost },
            thread,
            torrent_names,
        })
    }

    /// What torrents were called when it was opened.
    pub(super) fn torrent_names(&self) -> &[TorrentName] {
        &self.torrent_names
    }

    pub(super) fn recorder(&self) -> HistoryRecorder {
        self.recorder.clone()
    }

    /// Waits until all is written. Recorders must be gone.
    pub(super) fn end(self) {
        drop(self.recorder);
        // A panic there was reported already.
        self.thread.join().ok();
    }
}

struct History {
    store: FlowStore,
    keep: Duration,
    size: u64,
    tidied: Option<Instant>,
    lost: Arc<AtomicU64>,
    /// Losses that the log has told.
    reported: u64,
}

impl History {
    fn write(&mut self, flows: &Receiver<FlowAccount>) {
        let mut batch = Vec::new();
        loop {
            let ended = match flows.recv_timeout(AUDIT_PAUSE) {
                Ok(flow) => {
                    batch.push(flow);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            batch.extend(flows.try_iter().take(AUDIT_BATCH));
            self.flush(&batch);
            batch.clear();
            self.tidy();
            if ended {
                return;
            }
        }
    }

    fn flush(&mut self, batch: &[FlowAccount]) {
        if batch.is_empty() {
            return;
        }
        if let Err(error) = self.store.append(now(), batch) {
            let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            self.lost.fetch_add(count, Ordering::Relaxed);
            tracing::error!(%error, count, "flows are missing from the history");
        }
    }

    /// Forgets what is older than it is kept, and the oldest where there is too much.
    fn tidy(&mut self) {
        if self.tidied.is_some_and(|at| at.elapsed() < AUDIT_TIDY) {
            return;
        }
        self.tidied = Some(Instant::now());
        let tidied = self.store.forget_before(now().saturating_sub(self.keep));
        if let Err(error) = tidied.and_then(|()| self.store.shrink_to(self.size).map(drop)) {
            tracing::warn!(%error, "old flows stay in the history");
        }
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > self.reported {
            tracing::warn!(
                lost,
                "flows are missing from the history: its disk is too slow"
            );
            self.reported = lost;
        }
    }
}

fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
