//! The thread that writes events down. Packets never wait for it: what it cannot take is counted as
//! lost.

mod log;
mod written;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use self::log::EventLog;
pub use self::written::{Ended, Written};
use super::error::ServiceError;
use super::eve::EveConfig;
use crate::accounting::FlowAccount;
use crate::audit::{FileStore, FileStoreBounds};
use crate::eve::FlowLog;
use crate::limits::{AUDIT_BACKLOG, EVE_BACKLOG, FILE_STORE_FOLDER};
use crate::linux::hash_worker::Deliver;
use crate::linux::priority::reset_priority;
use crate::verdict::{DecidedFlow, Event, EventKind};

/// The folder of state: where events and files go, and how much of them is kept.
#[derive(Clone, Debug)]
pub struct StateConfig {
    /// The folder; no other user can read it.
    pub folder: PathBuf,
    /// For how long events and files are kept.
    pub keep: Duration,
    /// Bytes of the audit.
    pub audit_size: u64,
    /// Where events are written as EVE as well.
    pub eve: EveConfig,
    /// Bytes of the largest file that is kept.
    pub kept_file: u64,
    /// Bytes of all files that are kept.
    pub kept_files: u64,
    /// How often flows are reported that live.
    pub flows_every: Duration,
    /// For how long the history of flows is kept.
    pub keep_flows: Duration,
    /// Bytes of the history of flows.
    pub flows_size: u64,
}

/// What the thread is given.
#[derive(Debug)]
enum Record {
    /// For the audit and for EVE.
    Event(Box<Event>),
    /// What flows asked for by name, for EVE alone.
    Names(Box<Event>),
    /// A flow that is over, for EVE alone.
    Flow(Box<FlowLog>),
}

/// The running thread; it ends when all senders are gone, with everything written.
#[derive(Debug)]
pub(super) struct EventWriter {
    recorder: Recorder,
    /// Files are to be opened again, by their names.
    reopen: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    store: FileStore,
}

/// Takes events for the writer, and counts those that it does not take.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    records: SyncSender<Record>,
    /// Records that wait and are for EVE alone.
    eve_only: Arc<AtomicUsize>,
    written: Arc<Written>,
}

impl Recorder {
    /// Hands over an event, or counts it as lost.
    pub(super) fn record(&self, event: Event) {
        if event.kind == EventKind::Names {
            self.record_eve(Record::Names(Box::new(event)));
        } else if (self.records.try_send(Record::Event(Box::new(event)))).is_err() {
            self.written.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Hands over a flow that is over, to be written as EVE, or counts it as lost there. One that
    /// lives is not written.
    pub(super) fn flow(&self, account: FlowAccount) {
        if let Some(flow) = FlowLog::of(account).filter(|_| self.written.wants_flows) {
            self.record_eve(Record::Flow(Box::new(flow)));
        }
    }

    /// Hands over what is for EVE alone. There may be as many of these as flows, so they leave room
    /// for decisions.
    fn record_eve(&self, record: Record) {
        let waiting = self.eve_only.fetch_add(1, Ordering::Relaxed);
        if waiting >= EVE_BACKLOG || self.records.try_send(record).is_err() {
            self.eve_only.fetch_sub(1, Ordering::Relaxed);
            self.written.eve_lost.fetch_add(1, Ordering::Relaxed);
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
        let store_folder = state.folder.join(FILE_STORE_FOLDER);
        let bounds = FileStoreBounds {
            file: state.kept_file,
            total: state.kept_files,
            keep: state.keep,
        };
        let store = FileStore::open(&store_folder, bounds).map_err(|error| {
            ServiceError::failed(format_args!("{}: {error}", store_folder.display()))
        })?;
        let (records, receiver) = sync_channel(AUDIT_BACKLOG);
        let written = Arc::new(Written::for_eve(&state.eve));
        let recorder = Recorder {
            records,
            eve_only: Arc::default(),
            written,
        };
        let reopen = Arc::<AtomicBool>::default();
        let log = EventLog::open(state, &store, &recorder, &reopen)?;
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || {
                // A thread inherits its starter's priority, and writing must not compete with the
                // queues.
                reset_priority();
                log.write(&receiver);
            })
            .map_err(|error| {
                ServiceError::failed(format_args!("a thread did not start: {error}"))
            })?;
        Ok(EventWriter {
            recorder,
            reopen,
            thread,
            store,
        })
    }

    /// Counts of what was written.
    pub(super) fn written(&self) -> Arc<Written> {
        Arc::clone(&self.recorder.written)
    }

    /// Has the EVE files opened again, by their names, within a second: another program has renamed
    /// or removed them. What was handed over before may stand in either.
    pub(super) fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// The folder of files that are kept.
    pub(super) fn store(&self) -> FileStore {
        self.store.clone()
    }

    /// Waits until all that was handed over is written down. Recorders must be gone.
    pub(super) fn end(self) {
        drop(self.recorder);
        // A panic there was reported already.
        self.thread.join().ok();
    }

    /// What hands events over; each queue's loop has one.
    pub(super) fn recorder(&self) -> Recorder {
        self.recorder.clone()
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
