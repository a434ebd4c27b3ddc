//! All transfers of a member: what the control socket asks for, and the tasks that carry it out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use ringway_dtl::Priority;
use ringway_transport::MemberId;
use tokio::sync::{Semaphore, mpsc};

use super::arrival::Arrival;
use super::arrived::Event;
use super::deadline::{self, Deadlines};
use super::distribute::Shares;
use super::live::{Live, SAMPLE};
use super::origin::Origin;
use super::patience::Patience;
use super::record::{Direction, Phase, Record, TransferId};
use super::rules::Receiving;
use super::to_send::ToSend;
use super::told::{self, Refusals};
use super::uplink::Uplink;
use super::{arrived, give_up, inbox, receive, send};
use crate::certificate::Certificate;
use crate::clock::{date_of, unix_seconds};
use crate::config::{InterfaceConfig, ReceiveConfig};
use crate::connection::Connections;
use crate::connection::code::REVOKED;
use crate::control::{CapStatus, TransferStatus};
use crate::directory::Directory;
use crate::limits::{
    ACTIVE_RECEIVES_PER_MEMBER, BUNDLE_MEMORY, BUNDLE_PATHS, CONNECTING_PER_MEMBER, HASHES,
    QUEUED_SENDS, RECEIVES, SENDS, TRANSFER_HISTORY, WAITING_RECEIVE_TIME,
};
use crate::member::MemberHandle;
use crate::state::{State, StateError};
use crate::text::printable;

/// How often it is looked whether something has waited for too long.
const EXPIRY_LOOK: Duration = Duration::from_secs(60);

/// Why a request about transfers was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("{}: {source}", printable(&path.to_string_lossy(), 300))]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not a regular file", printable(&.0.to_string_lossy(), 300))]
    NotAFile(PathBuf),
    #[error(
        "{}: its size is 0, but there is something in it, as in /proc: send what a program reads there, `cat FILE | ringway send - PEER --name NAME`",
        printable(&.0.to_string_lossy(), 300)
    )]
    NoSize(PathBuf),
    #[error(
        "a command sends 1 to {BUNDLE_PATHS} files and folders: send the folder that they are in"
    )]
    TooManyPaths,
    #[error("what was handed over is no bundle: {0}")]
    Bundle(String),
    #[error("a transfer to oneself is a copy: use `cp`")]
    Oneself,
    #[error("{QUEUED_SENDS} transfers wait or run already: let some end first")]
    TooMany,
    #[error("no transfer `{0}`: `ringway transfers` lists them")]
    Unknown(String),
    #[error("`{0}` fits more than one transfer: give more of its id")]
    Ambiguous(String),
    #[error("transfer {0} does not wait for an answer: `ringway inbox` shows those that do")]
    NotAsked(TransferId),
    #[error("transfer {0} has ended already")]
    Ended(TransferId),
    #[error("only the sender sets a transfer's priority")]
    NotOurs,
    #[error("the deadline {} has passed: it is {} now", date_of(*by), date_of(*now))]
    Past { by: u64, now: u64 },
    #[error("a deadline may be a year ahead, and no more")]
    FarAhead,
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
    pub(super) connections: Connections,
    pub(super) member: MemberHandle,
    pub(super) uplink: Uplink,
    pub(super) deadlines: Deadlines,
    /// Whose files are taken, and where they go.
    receiving: Mutex<Arc<Receiving>>,
    /// Offers that were refused lately.
    pub(super) refusals: Refusals,
    events: mpsc::UnboundedSender<Event>,
    /// Where the trees of files on their way out are kept.
    pub(super) trees: PathBuf,
    /// Files that are hashed.
    pub(super) hashes: Semaphore,
    pub(super) sends: Semaphore,
    pub(super) receives: Semaphore,
    pub(super) patience: Patience,
    /// Files that are given to others who get the same.
    pub(super) shares: Shares,
    /// MiB of memory for lists of bundles on their way in.
    pub(super) lists: Arc<Semaphore>,
    /// This member's home, which no folder that is sent includes.
    pub(super) home: PathBuf,
    /// Held while it is decided whether one makes way.
    making_way: Mutex<()>,
    live: Mutex<BTreeMap<(TransferId, Direction), Arc<Live>>>,
    /// Those that look for a peer, for each that is looked for.
    lines: Mutex<BTreeMap<MemberId, Weak<Semaphore>>>,
}

impl Context {
    /// What counts for files that are offered now.
    pub(super) fn receiving(&self) -> Arc<Receiving> {
        let receiving = self.receiving.lock();
        Arc::clone(&receiving.unwrap_or_else(PoisonError::into_inner))
    }

    /// Where transfers to `peer` wait for their turn to look for it.
    pub(super) fn line_to(&self, peer: MemberId) -> Arc<Semaphore> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|_, line| line.strong_count() > 0);
        let there = lines.get(&peer).and_then(Weak::upgrade);
        there.unwrap_or_else(|| {
            let line = Arc::new(Semaphore::new(CONNECTING_PER_MEMBER));
            lines.insert(peer, Arc::downgrade(&line));
            line
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(TransferId, Direction), Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, id: TransferId, direction: Direction) -> Option<Arc<Live>> {
        self.lock().get(&(id, direction)).cloned()
    }

    /// Stores the transfer as it is now. A disk that refuses is logged: the transfer itself goes
    /// on.
    pub(super) fn save(&self, live: &Live) {
        // Held while it is written, so that an older state is never written over a newer one.
        let record = live.lock_record();
        if let Err(error) = self.state.put_transfer(&record) {
            tracing::error!(%error, "a transfer's state could not be stored");
        }
    }

    /// Moves the transfer to `phase`, and stores that. What has ended stays as it ended.
    pub(super) fn set_phase(&self, live: &Live, phase: Phase, reason: Option<String>) {
        if live.phase() == Phase::Active && phase != Phase::Active {
            live.sample(Instant::now());
        }
        {
            let mut record = live.lock_record();
            if record.phase.is_ended() {
                return;
            }
            record.phase = phase;
            // It may hold a peer's words, and end up on a terminal.
            record.reason = reason.map(|reason| printable(&reason, 300));
            if phase.is_ended() {
                record.ended = Some(unix_seconds());
            }
            told::ended(&record);
        }
        self.save(live);
        self.tell_arrival(live, phase);
    }

    /// From now on the transfer is with the member that has this certificate: the same as before,
    /// or the same with another key.
    pub(super) fn follow(&self, live: &Live, certificate: &Certificate) {
        let (peer, serial) = (certificate.member(), certificate.serial());
        {
            let mut record = live.lock_record();
            if (record.peer, record.peer_serial) == (peer, serial) {
                return;
            }
            (record.peer, record.peer_serial) = (peer, serial);
        }
        self.save(live);
    }

    /// A transfer that has ended with its sender's membership begins again: the sender has joined
    /// again.
    pub(super) fn revive(&self, live: &Live) {
        {
            let mut record = live.lock_record();
            if !receive::ended_with_membership(&record) {
                return;
            }
            (record.phase, record.reason, record.ended) = (Phase::Waiting, None, None);
        }
        live.cancelled.send_replace(false);
        self.save(live);
    }

    /// For what is done once a file is there.
    pub(super) fn tell(&self, event: Event) {
        // There is no receiver only where the daemon ends.
        self.events.send(event).ok();
    }

    fn tell_arrival(&self, live: &Live, phase: Phase) {
        let record = live.lock_record();
        if phase == Phase::Done && record.direction == Direction::Receive {
            self.tell(Event::Arrived(record.id));
        }
    }

    /// How many offers wait for a person's answer.
    pub(super) fn awaited(&self) -> usize {
        let waits = |live: &&Arc<Live>| {
            let record = live.lock_record();
            let waits = record.arrival.as_ref().is_some_and(Arrival::waits);
            waits && !record.phase.is_ended()
        };
        self.lock().values().filter(waits).count()
    }

    pub(super) fn status(&self, live: &Live) -> TransferStatus {
        let mut status = live.status(&self.directory);
        self.deadlines.describe(live, &mut status);
        status
    }

    /// Transfers in one direction that have not ended, with everybody or with one peer.
    pub(super) fn open_transfers(&self, direction: Direction, peer: Option<MemberId>) -> usize {
        let counts = |live: &&Arc<Live>| {
            let record = live.lock_record();
            let fits = peer.is_none_or(|peer| peer == record.peer);
            fits && record.direction == direction && !record.phase.is_ended()
        };
        self.lock().values().filter(counts).count()
    }

    /// Files that flow in from `peer` now.
    pub(super) fn active_with(&self, peer: MemberId) -> usize {
        let counts = |live: &&Arc<Live>| {
            let record = live.lock_record();
            let active = record.direction == Direction::Receive && record.phase == Phase::Active;
            active && record.peer == peer
        };
        self.lock().values().filter(counts).count()
    }

    /// Whether a transfer that stands still may keep its permit, because half of those that it
    /// could have are free. If not, it counts as waiting from now on, so that no more make way
    /// than have to.
    pub(super) fn may_stay(&self, live: &Live, reason: &str) -> bool {
        let _one_after_the_other = self.making_way.lock();
        let record = live.record();
        let (mut all, mut of_peer) = (0, 0);
        for other in self.all() {
            let other = other.lock_record();
            if other.direction == record.direction && other.phase == Phase::Active {
                all += 1;
                of_peer += usize::from(other.peer == record.peer);
            }
        }
        let stays = match record.direction {
            Direction::Send => all <= SENDS / 2,
            Direction::Receive => all <= RECEIVES / 2 && of_peer <= ACTIVE_RECEIVES_PER_MEMBER / 2,
        };
        if !stays {
            self.set_phase(live, Phase::Waiting, Some(reason.to_owned()));
        }
        stays
    }

    pub(super) fn all(&self) -> Vec<Arc<Live>> {
        self.lock().values().cloned().collect()
    }

    pub(super) fn add(&self, record: Record) -> Result<Arc<Live>, StateError> {
        self.state.put_transfer(&record)?;
        let key = (record.id, record.direction);
        let live = Arc::new(Live::new(record));
        let mut all = self.lock();
        all.insert(key, Arc::clone(&live));
        if all.len() > TRANSFER_HISTORY {
            let ended = all.iter().filter(|(_, live)| live.phase().is_ended());
            let oldest = ended.min_by_key(|(_, live)| live.lock_record().created);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                all.remove(&key);
            }
        }
        drop(all);
        Ok(live)
    }
}

/// The transfers of a member. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    pub(super) context: Arc<Context>,
}

/// What the service is made from.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) state: Arc<State>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) connections: Connections,
    pub(crate) member: MemberHandle,
    pub(crate) receive: ReceiveConfig,
    /// Bytes per second of all that is sent, and the interfaces that have caps of their own.
    pub(crate) caps: (Option<u64>, Vec<InterfaceConfig>),
    /// What this member is called.
    pub(crate) own_name: String,
    pub(crate) home: PathBuf,
}

impl Transfers {
    /// Takes up the transfers that an earlier run has left, and begins to accept new ones.
    pub(crate) fn start(setup: Setup) -> Result<Transfers, StateError> {
        Transfers::start_with(setup, Patience::USUAL)
    }

    pub(super) fn start_with(setup: Setup, patience: Patience) -> Result<Transfers, StateError> {
        let receiving = Receiving::new(setup.receive, &setup.home, &setup.own_name);
        let (events, happened) = mpsc::unbounded_channel();
        let context = Arc::new(Context {
            receiving: Mutex::new(Arc::new(receiving)),
            refusals: Refusals::default(),
            events,
            trees: crate::home::trees_path(&setup.home),
            deadlines: Deadlines::load(&setup.state)?,
            state: setup.state,
            directory: setup.directory,
            connections: setup.connections,
            member: setup.member,
            uplink: Uplink::start(
                setup.caps.0,
                setup
                    .caps
                    .1
                    .iter()
                    .map(|capped| (capped.name.as_str(), capped.upload)),
            ),
            hashes: Semaphore::new(HASHES),
            sends: Semaphore::new(SENDS),
            receives: Semaphore::new(RECEIVES),
            patience,
            shares: Shares::default(),
            lists: Arc::new(Semaphore::new(BUNDLE_MEMORY)),
            home: setup.home,
            making_way: Mutex::default(),
            live: Mutex::default(),
            lines: Mutex::default(),
        });
        let mut groups: BTreeMap<[u8; 16], Arc<Origin>> = BTreeMap::new();
        for mut record in context.state.transfers()? {
            // A daemon that has just started has no channel, so none is active.
            if !record.phase.is_ended() {
                record.phase = Phase::Waiting;
            }
            let live = context.add(record)?;
            arrived::take_up(&context, &live);
            let record = live.record();
            if record.direction == Direction::Send && !record.phase.is_ended() {
                let group = record.bundle.as_ref().and_then(|bundle| bundle.group);
                let origin = group.map(|group| Arc::clone(groups.entry(group).or_default()));
                live.origin.set(Some(origin.unwrap_or_default()));
                tokio::spawn(send::run(Arc::clone(&context), live));
            } else if give_up::is_due(&record) {
                tokio::spawn(give_up::run(Arc::clone(&context), live));
            }
        }
        tokio::spawn(arrived::run(Arc::clone(&context), happened));
        tokio::spawn(look_after_all(Arc::clone(&context)));
        tokio::spawn(deadline::run(Arc::clone(&context)));
        let connections = context.connections.clone();
        connections.register(Arc::new(receive::Receiver::new(Arc::clone(&context))));
        Ok(Transfers { context })
    }

    /// Queues a file. It is on disk, and will survive a restart, when this returns.
    pub(crate) fn send(
        &self,
        file: ToSend<'_>,
        peer: &Certificate,
        own: &Certificate,
        priority: Priority,
    ) -> Result<TransferStatus, TransferError> {
        if peer.member() == own.member() {
            return Err(TransferError::Oneself);
        }
        let path = file.path;
        let size = file.readable_size()?;
        if self.context.open_transfers(Direction::Send, None) >= QUEUED_SENDS {
            return Err(TransferError::TooMany);
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(TransferError::Random)?;
        let record = Record {
            id: TransferId(id),
            direction: Direction::Send,
            peer: peer.member(),
            peer_serial: peer.serial(),
            peer_name: peer.name().to_string(),
            path: path.to_owned(),
            file: path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            size,
            priority,
            phase: Phase::Waiting,
            reason: None,
            hash: None,
            created: unix_seconds(),
            active: Duration::ZERO,
            moved: 0,
            offered: false,
            handed: file.handed.is_some(),
            ended: None,
            arrival: None,
            bundle: None,
        };
        self.begin_send(record, Origin::new(file.handed))
    }

    pub(super) fn begin_send(
        &self,
        record: Record,
        origin: Arc<Origin>,
    ) -> Result<TransferStatus, TransferError> {
        let live = self.context.add(record)?;
        live.origin.set(Some(origin));
        let status = self.context.status(&live);
        tokio::spawn(send::run(Arc::clone(&self.context), live));
        Ok(status)
    }

    /// Every transfer known, oldest first.
    pub(crate) fn list(&self) -> Vec<TransferStatus> {
        let mut all: Vec<Arc<Live>> = self.context.lock().values().cloned().collect();
        all.sort_by_key(|live| live.record().created);
        all.iter().map(|live| self.context.status(live)).collect()
    }

    /// How many transfers have not ended.
    pub(crate) fn open(&self) -> usize {
        let directions = [Direction::Send, Direction::Receive].into_iter();
        let open = directions.map(|direction| self.context.open_transfers(direction, None));
        open.sum()
    }

    /// Other caps and rules from now on: caps for transfers under way as well, rules for files that
    /// are offered from now on.
    pub(crate) fn configure(
        &self,
        all: Option<u64>,
        interfaces: &[InterfaceConfig],
        receive: ReceiveConfig,
        home: &Path,
    ) {
        let interfaces = interfaces
            .iter()
            .map(|capped| (capped.name.as_str(), capped.upload));
        self.context.uplink.set(all, interfaces);
        let own_name = self.context.receiving().own_name().to_owned();
        let receiving = Arc::new(Receiving::new(receive, home, &own_name));
        let current = self.context.receiving.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = receiving;
    }

    /// The caps on what is sent, to be shown.
    pub(crate) fn caps(&self) -> Vec<CapStatus> {
        self.context.uplink.status()
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn by_prefix(&self, prefix: &str) -> Result<Arc<Live>, TransferError> {
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
        Ok((self.context.status(&live), ended))
    }

    /// Changes the priority of what is not yet sent.
    pub(crate) fn set_priority(
        &self,
        prefix: &str,
        priority: Priority,
    ) -> Result<TransferStatus, TransferError> {
        let live = self.open_send(prefix)?;
        self.context.take_from_deadline(&live.record().id);
        live.set_priority(priority);
        self.context.save(&live);
        Ok(self.context.status(&live))
    }

    /// A transfer that goes out and has not ended.
    pub(super) fn open_send(&self, prefix: &str) -> Result<Arc<Live>, TransferError> {
        let live = self.by_prefix(prefix)?;
        let record = live.record();
        if record.direction == Direction::Receive {
            return Err(TransferError::NotOurs);
        }
        if record.phase.is_ended() {
            return Err(TransferError::Ended(record.id));
        }
        Ok(live)
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
        live.cancelled.send_replace(true);
        if live.record().direction == Direction::Receive {
            let context = Arc::clone(&self.context);
            let gone = Arc::clone(&live);
            tokio::spawn(async move { receive::discard(&context, &gone).await });
        }
        Ok(self.context.status(&live))
    }

    /// The machine's network is another, or this member is back: what waits tries again.
    pub(crate) fn wake(&self, member: Option<MemberId>) {
        for live in self.context.all() {
            if member.is_none_or(|member| live.lock_record().peer == member) {
                live.woken.notify_one();
            }
            if member.is_none() {
                live.moved.notify_one();
            }
        }
    }

    /// Makes links to members whose files wait to go on: this one was away, and they do not know
    /// that it is back before they receive something.
    pub(crate) fn call_senders(&self) {
        let waiting = self.context.all().into_iter().filter_map(|live| {
            let record = live.lock_record();
            let waits = record.direction == Direction::Receive && record.phase == Phase::Waiting;
            waits.then_some(record.peer)
        });
        let senders: BTreeSet<MemberId> = waiting.collect();
        for sender in senders.into_iter().take(RECEIVES) {
            let Some(certificate) = self.context.directory.cached(&sender) else {
                continue;
            };
            let member = self.context.member.clone();
            tokio::spawn(async move {
                if let Err(error) = member.reach(certificate).await {
                    tracing::debug!(%error, "a member whose file waits is not reached");
                }
            });
        }
    }

    /// Ends what flows to or from members who are no longer good: revoked, or past their
    /// certificate's time. What comes from one that has only another key, or may have another
    /// certificate, waits for it.
    pub(crate) fn end_unadmitted(&self) {
        for live in self.context.all() {
            let record = live.record();
            let directory = &self.context.directory;
            if record.phase.is_ended() || directory.cached(&record.peer).is_some() {
                continue;
            }
            live.close(REVOKED, "the membership has ended");
            if record.direction == Direction::Receive
                && directory.has_lost(&record.peer, record.peer_serial)
            {
                let reason = receive::MEMBERSHIP_ENDED.to_owned();
                self.context.set_phase(&live, Phase::Failed, Some(reason));
                live.cancelled.send_replace(true);
                let context = Arc::clone(&self.context);
                tokio::spawn(async move { receive::discard(&context, &live).await });
            }
        }
    }
}

/// Measures the rates of what flows, and lets go of what no sender comes back for.
async fn look_after_all(context: Arc<Context>) {
    let mut tick = tokio::time::interval(SAMPLE);
    let mut next_expiry = Instant::now();
    loop {
        tick.tick().await;
        let now = Instant::now();
        let all = context.all();
        for live in all.iter().filter(|live| live.phase() == Phase::Active) {
            live.sample(now);
        }
        if now < next_expiry {
            continue;
        }
        next_expiry = now + EXPIRY_LOOK;
        let too_old = unix_seconds().saturating_sub(WAITING_RECEIVE_TIME.as_secs());
        for live in all {
            let record = live.record();
            let waits = record.direction == Direction::Receive && record.phase == Phase::Waiting;
            if inbox::expire(&context, &live).await {
                continue;
            }
            if waits && record.created < too_old {
                let reason = "the sender has not come back".to_owned();
                context.set_phase(&live, Phase::Failed, Some(reason));
                receive::discard(&context, &live).await;
            }
        }
    }
}
