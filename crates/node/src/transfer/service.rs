//! All transfers of a member: what the control socket asks for, and the tasks that carry it out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ringway_dtl::Priority;
use ringway_transport::quic::QuicEndpoint;
use tokio::sync::Semaphore;

use super::live::{Live, SAMPLE, Stop};
use super::record::{Direction, Phase, Record, TransferId};
use super::uplink::Uplink;
use super::{receive, send};
use crate::certificate::{Certificate, Role};
use crate::clock::unix_seconds;
use crate::config::ReceiveConfig;
use crate::control::TransferStatus;
use crate::directory::Directory;
use crate::limits::{QUEUED_SENDS, RECEIVES, SENDS};
use crate::member::MemberHandle;
use crate::state::{State, StateError};

/// Why a request about transfers was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("a transfer to oneself is a copy: use `cp`")]
    Oneself,
    #[error(
        "`{0}` is a leaf: a leaf has no address at which it can receive; send to a router, or let the leaf send"
    )]
    NoAddress(String),
    #[error("{QUEUED_SENDS} transfers wait or run already: let some end first")]
    TooMany,
    #[error("no transfer `{0}`: `ringway transfers` lists them")]
    Unknown(String),
    #[error("`{0}` fits more than one transfer: give more of its id")]
    Ambiguous(String),
    #[error("transfer {0} has ended already")]
    Ended(TransferId),
    #[error("only the sender sets a transfer's priority")]
    NotOurs,
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the operating system gave no random bytes: {0}")]
    Random(getrandom::Error),
}

impl TransferError {
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(
            self,
            TransferError::TooMany | TransferError::State(_) | TransferError::Random(_)
        )
    }
}

/// What every attempt needs.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) state: Arc<State>,
    pub(super) directory: Arc<Directory>,
    pub(super) endpoint: Arc<QuicEndpoint>,
    pub(super) member: MemberHandle,
    pub(super) uplink: Uplink,
    pub(super) receive: ReceiveConfig,
    /// Where received files go.
    pub(super) inbox: PathBuf,
    /// Where the trees of files on their way out are kept.
    pub(super) trees: PathBuf,
    pub(super) sends: Semaphore,
    pub(super) receives: Semaphore,
    live: Mutex<BTreeMap<(TransferId, Direction), Arc<Live>>>,
}

impl Context {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(TransferId, Direction), Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: TransferId, direction: Direction) -> Option<Arc<Live>> {
        self.lock().get(&(id, direction)).cloned()
    }

    /// Stores the transfer as it is now. A disk that refuses is logged: the transfer itself goes on.
    pub(super) fn save(&self, live: &Live) {
        if let Err(error) = self.state.put_transfer(&live.record()) {
            tracing::error!(%error, "a transfer's state could not be stored");
        }
    }

    /// Moves the transfer to `phase`, and stores that.
    pub(super) fn set_phase(&self, live: &Live, phase: Phase, reason: Option<String>) {
        {
            let mut record = live.lock_record();
            // What has been cancelled stays cancelled.
            if record.phase.is_ended() && phase != Phase::Waiting {
                return;
            }
            record.phase = phase;
            record.reason = reason;
        }
        self.save(live);
    }

    pub(super) fn add(&self, record: Record) -> Result<Arc<Live>, StateError> {
        self.state.put_transfer(&record)?;
        let key = (record.id, record.direction);
        let live = Arc::new(Live::new(record));
        self.lock().insert(key, Arc::clone(&live));
        Ok(live)
    }
}

/// The transfers of a member. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    context: Arc<Context>,
}

/// What the service is made from.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) state: Arc<State>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) endpoint: Arc<QuicEndpoint>,
    pub(crate) member: MemberHandle,
    pub(crate) receive: ReceiveConfig,
    pub(crate) upload: Option<u64>,
    pub(crate) home: PathBuf,
}

impl Transfers {
    /// Takes up the transfers that an earlier run has left, and begins to accept new ones.
    pub(crate) fn start(setup: Setup) -> Result<Transfers, StateError> {
        let inbox = setup.home.join(&setup.receive.directory);
        let context = Arc::new(Context {
            inbox,
            trees: crate::home::trees_path(&setup.home),
            state: setup.state,
            directory: setup.directory,
            endpoint: setup.endpoint,
            member: setup.member,
            uplink: Uplink::start(setup.upload.filter(|rate| *rate > 0)),
            receive: setup.receive,
            sends: Semaphore::new(SENDS),
            receives: Semaphore::new(RECEIVES),
            live: Mutex::default(),
        });
        for mut record in context.state.transfers()? {
            if !record.phase.is_ended() {
                record.phase = Phase::Waiting;
            }
            let live = context.add(record)?;
            if live.record().direction == Direction::Send && !live.phase().is_ended() {
                tokio::spawn(send::run(Arc::clone(&context), live));
            }
        }
        tokio::spawn(sample_all(Arc::clone(&context)));
        tokio::spawn(receive::serve(Arc::clone(&context)));
        Ok(Transfers { context })
    }

    /// Queues a file. It is on disk, and will survive a restart, when this returns.
    pub(crate) fn send(
        &self,
        path: &Path,
        peer: &Certificate,
        own: &Certificate,
        priority: Priority,
    ) -> Result<TransferStatus, TransferError> {
        if peer.member() == own.member() {
            return Err(TransferError::Oneself);
        }
        if peer.role() == Role::Leaf {
            return Err(TransferError::NoAddress(peer.name().to_string()));
        }
        let file_error = |source| TransferError::File {
            path: path.to_owned(),
            source,
        };
        // Opened, not only looked at: whether it can be read is better known now than later.
        let metadata = std::fs::File::open(path)
            .and_then(|file| file.metadata())
            .map_err(file_error)?;
        if !metadata.is_file() {
            return Err(TransferError::NotAFile(path.to_owned()));
        }
        let waiting = self
            .context
            .lock()
            .values()
            .filter(|live| !live.phase().is_ended())
            .count();
        if waiting >= QUEUED_SENDS {
            return Err(TransferError::TooMany);
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(TransferError::Random)?;
        let record = Record {
            id: TransferId(id),
            direction: Direction::Send,
            peer: peer.member(),
            peer_name: peer.name().to_string(),
            path: path.to_owned(),
            file: path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            size: metadata.len(),
            priority,
            phase: Phase::Waiting,
            reason: None,
            hash: None,
            created: unix_seconds(),
        };
        let live = self.context.add(record)?;
        let status = live.status();
        tokio::spawn(send::run(Arc::clone(&self.context), live));
        Ok(status)
    }

    /// Every transfer known, oldest first.
    pub(crate) fn list(&self) -> Vec<TransferStatus> {
        let mut all: Vec<Arc<Live>> = self.context.lock().values().cloned().collect();
        all.sort_by_key(|live| live.record().created);
        all.iter().map(|live| live.status()).collect()
    }

    fn by_prefix(&self, prefix: &str) -> Result<Arc<Live>, TransferError> {
        let live = self.context.lock();
        let mut fitting = live
            .values()
            .filter(|live| live.record().id.to_string().starts_with(prefix));
        match (fitting.next(), fitting.next()) {
            (Some(live), None) if !prefix.is_empty() => Ok(Arc::clone(live)),
            (None, _) => Err(TransferError::Unknown(prefix.to_owned())),
            _ => Err(TransferError::Ambiguous(prefix.to_owned())),
        }
    }

    /// One transfer's state, and whether it has ended.
    pub(crate) fn status(&self, prefix: &str) -> Result<(TransferStatus, bool), TransferError> {
        let live = self.by_prefix(prefix)?;
        let ended = live.phase().is_ended();
        Ok((live.status(), ended))
    }

    /// Changes the priority of what is not yet sent.
    pub(crate) fn set_priority(
        &self,
        prefix: &str,
        priority: Priority,
    ) -> Result<TransferStatus, TransferError> {
        let live = self.by_prefix(prefix)?;
        let record = live.record();
        if record.direction == Direction::Receive {
            return Err(TransferError::NotOurs);
        }
        if record.phase.is_ended() {
            return Err(TransferError::Ended(record.id));
        }
        live.set_priority(priority);
        self.context.save(&live);
        Ok(live.status())
    }

    /// Gives a transfer up.
    pub(crate) fn cancel(&self, prefix: &str) -> Result<TransferStatus, TransferError> {
        let live = self.by_prefix(prefix)?;
        let id = live.record().id;
        if live.phase().is_ended() {
            return Err(TransferError::Ended(id));
        }
        self.context
            .set_phase(&live, Phase::Cancelled, Some("cancelled here".to_owned()));
        live.stop.send_replace(Stop::Cancelled);
        Ok(live.status())
    }
}

/// Measures the rates of what flows.
async fn sample_all(context: Arc<Context>) {
    let mut tick = tokio::time::interval(SAMPLE);
    loop {
        tick.tick().await;
        let now = Instant::now();
        let active: Vec<Arc<Live>> = {
            let live = context.lock();
            live.values()
                .filter(|live| live.phase() == Phase::Active)
                .cloned()
                .collect()
        };
        for live in active {
            live.sample(now);
        }
    }
}
