//! The thread that writes events down. Packets never wait for it: what it cannot take is counted as
//! lost.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::audit::{AuditStore, FileStore, FileStoreBounds};
use crate::linux::hash_worker::Deliver;
use crate::linux::priority::reset_priority;
use crate::verdict::{DecidedFlow, Event};

use super::error::ServiceError;
use super::eve::Eve;
use super::joined::Joined;
use crate::limits::{
    AUDIT_BACKLOG, AUDIT_BATCH, AUDIT_FILE, AUDIT_PAUSE, AUDIT_TIDY, FILE_STORE_FOLDER,
};

/// The folder of state: where events and files go, and how much of them is kept.
#[derive(Clone, Debug)]
pub struct StateConfig {
    /// The folder; no other user can read it.
    pub folder: PathBuf,
    /// For how long events and files are kept.
    pub keep: Duration,
    /// Bytes of the audit.
    pub audit_size: u64,
    /// Where events are written as EVE JSON as well.
    pub eve: Option<PathBuf>,
    /// Bytes that this file and its predecessor may have together.
    pub eve_size: u64,
    /// Bytes of the largest file that is kept.
    pub kept_file: u64,
    /// Bytes of all files that are kept.
    pub kept_files: u64,
    /// How often flows are reported that live.
    pub flows_every: Duration,
}

/// Counts of what was written and lost.
#[derive(Debug, Default)]
pub struct Written {
    /// Events that were written.
    pub events: AtomicU64,
    /// Those that could not be written, in the audit or in the EVE file.
    pub lost: AtomicU64,
    /// Those that were not written because there were too many.
    pub left_out: AtomicU64,
    /// Those that were forgotten before their time, to make room.
    pub forgotten: AtomicU64,
    /// Flows that are over, by application and action; there are as many as signatures name.
    flows: Mutex<BTreeMap<Kind, (u64, u64)>>,
}

/// An application and what the policy said.
type Kind = (String, &'static str);

/// Flows of one application that are over and of which the policy said the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The application.
    pub app: String,
    /// What the policy said, as it is called in policies.
    pub action: &'static str,
    /// Flows.
    pub flows: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Written {
    /// Counts a flow that is over.
    pub(super) fn end(&self, flow: DecidedFlow) {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = (flow.record.app, flow.action.name());
        let (count, bytes) = flows.entry(kind).or_default();
        *count = count.saturating_add(1);
        *bytes = bytes.saturating_add(flow.record.bytes);
    }

    /// What was counted, by application.
    #[must_use]
    pub fn ended(&self) -> Vec<Ended> {
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        flows
            .iter()
            .map(|((app, action), (flows, bytes))| Ended {
                app: app.clone(),
                action,
                flows: *flows,
                bytes: *bytes,
            })
            .collect()
    }
}

/// The running thread; it ends when all senders are gone, with everything written.
#[derive(Debug)]
pub(super) struct EventWriter {
    sender: SyncSender<Event>,
    written: Arc<Written>,
    thread: JoinHandle<()>,
    store: FileStore,
}

/// Takes events for the writer, and counts those that it does not take.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    events: SyncSender<Event>,
    written: Arc<Written>,
}

impl Recorder {
    /// Hands over an event, or counts it as lost.
    pub(super) fn record(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.written.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a flow that is over.
    pub(super) fn end(&self, flow: DecidedFlow) {
        self.written.end(flow);
    }
}

impl EventWriter {
    /// Opens the files and starts to write.
    pub(super) fn start(state: &StateConfig) -> Result<EventWriter, ServiceError> {
        let audit =
            AuditStore::open(&state.folder.join(AUDIT_FILE)).map_err(ServiceError::failed)?;
        let eve = match &state.eve {
            Some(file) => {
                let eve = Eve::open(file, state.eve_size);
                Some(eve.map_err(|error| {
                    ServiceError::failed(format_args!("{}: {error}", file.display()))
                })?)
            }
            None => None,
        };
        let store_folder = state.folder.join(FILE_STORE_FOLDER);
        let bounds = FileStoreBounds {
            file: state.kept_file,
            total: state.kept_files,
            keep: state.keep,
        };
        let store = FileStore::open(&store_folder, bounds).map_err(|error| {
            ServiceError::failed(format_args!("{}: {error}", store_folder.display()))
        })?;
        let (sender, receiver) = sync_channel(AUDIT_BACKLOG);
        let written = Arc::new(Written::default());
        let mut log = EventLog {
            audit,
            audit_size: state.audit_size,
            joined: Joined::default(),
            eve,
            keep: state.keep,
            store: store.clone(),
            tidied: None,
            written: Arc::clone(&written),
        };
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || {
                // A thread inherits its starter's priority, and writing must not compete with the
                // queues.
                reset_priority();
                log.write(&receiver)
            })
            .map_err(|error| {
                ServiceError::failed(format_args!("a thread did not start: {error}"))
            })?;
        Ok(EventWriter {
            sender,
            written,
            thread,
            store,
        })
    }

    /// Counts of what was written.
    pub(super) fn written(&self) -> Arc<Written> {
        Arc::clone(&self.written)
    }

    /// The folder of files that are kept.
    pub(super) fn store(&self) -> FileStore {
        self.store.clone()
    }

    /// Waits until all that was handed over is written down. Recorders must be gone.
    pub(super) fn end(self) {
        drop(self.sender);
        // A panic there was reported already.
        self.thread.join().ok();
    }

    /// What hands events over; each queue's loop has one.
    pub(super) fn recorder(&self) -> Recorder {
        Recorder {
            events: self.sender.clone(),
            written: Arc::clone(&self.written),
        }
    }

    /// The same for what comes of files.
    pub(super) fn deliver(&self) -> Deliver {
        let recorder = self.recorder();
        Box::new(move |hashed| match hashed {
            Ok(event) => recorder.record(event),
            Err(error) => tracing::warn!(%error, "a file is not kept"),
        })
    }
}

/// Where events are written, and how much of that is kept.
struct EventLog {
    audit: AuditStore,
    audit_size: u64,
    joined: Joined,
    eve: Option<Eve>,
    keep: Duration,
    store: FileStore,
    tidied: Option<Duration>,
    written: Arc<Written>,
}

impl EventLog {
    fn write(&mut self, events: &Receiver<Event>) {
        let mut batch = Vec::new();
        loop {
            match events.recv_timeout(AUDIT_PAUSE) {
                Ok(event) => batch.push(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.sift(&mut batch);
                    let rest = self.joined.rest();
                    self.flush(&rest);
                    return;
                }
            }
            batch.extend(events.try_iter().take(AUDIT_BATCH));
            self.sift(&mut batch);
            self.tidy();
        }
    }

    /// Writes what is to be written of a batch.
    fn sift(&mut self, batch: &mut Vec<Event>) {
        let (written, left_out) = self.joined.sift(now(), std::mem::take(batch));
        self.written.left_out.fetch_add(left_out, Ordering::Relaxed);
        self.flush(&written);
        if !written.is_empty() {
            self.make_room();
        }
    }

    /// The audit has a bound in bytes: the oldest events make room.
    fn make_room(&mut self) {
        match self.audit.shrink_to(self.audit_size) {
            Ok(0) => {}
            Ok(forgotten) => {
                let before = self
                    .written
                    .forgotten
                    .fetch_add(forgotten, Ordering::Relaxed);
                if before == 0 {
                    tracing::warn!(
                        bytes = self.audit_size,
                        "the audit is full (--audit-size): its oldest events make room"
                    );
                }
            }
            Err(error) => tracing::warn!(%error, "the audit cannot be kept within its bound"),
        }
    }

    fn flush(&mut self, batch: &[Event]) {
        if batch.is_empty() {
            return;
        }
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        match self.audit.append(batch) {
            Ok(()) => self.written.events.fetch_add(count, Ordering::Relaxed),
            Err(error) => {
                // Traffic goes on without its audit: the count says so, and the disk may have room
                // again later.
                tracing::error!(%error, count, "events are lost");
                self.written.lost.fetch_add(count, Ordering::Relaxed)
            }
        };
        if let Some(eve) = &mut self.eve
            && let Err(error) = eve.append(batch)
        {
            tracing::error!(%error, count, "events are missing from the EVE file");
            self.written.lost.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Forgets what is older than it is kept.
    fn tidy(&mut self) {
        let now = now();
        let due = self
            .tidied
            .is_none_or(|tidied| now.saturating_sub(tidied) >= AUDIT_TIDY);
        if !due {
            return;
        }
        self.tidied = Some(now);
        match self.audit.forget_before(now.saturating_sub(self.keep)) {
            Ok(early) => {
                self.written.forgotten.fetch_add(early, Ordering::Relaxed);
            }
            Err(error) => tracing::warn!(%error, "old events stay"),
        }
        if let Err(error) = self.store.tidy(0) {
            tracing::warn!(%error, "old files stay");
        }
    }
}

fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
