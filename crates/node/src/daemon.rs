//! `ringway node`: everything that one member runs, started and stopped in the right order.

mod boot;
mod bring;
mod key;
mod leave;
mod lookup;
mod moving;
mod pulse;
mod reload;
mod renew;
mod report;
mod routers;
mod stored;
mod validity;
mod wake;

use std::fs::File;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ringway_overlay::{Destination, RingKey};
use ringway_transport::MemberId;
use tokio::sync::{mpsc, oneshot};

use self::bring::StatementBringer;
use self::key::KeyKeeper;
pub(crate) use self::leave::Leaver;
pub use self::lookup::{NotFound, Owner};
pub use self::pulse::Pulse;
use self::reload::Configured;
pub use self::reload::Reloader;
use self::renew::CertificateKeeper;
use self::report::Reporter;
use self::routers::RouterFollower;
use self::validity::{check_time, has_run_out, is_over};
use crate::certificate::{Certificate, CertificateError, Name, Role};
use crate::config::{Config, ConfigError, Wrong};
use crate::connection::Connections;
use crate::control::{self, ControlPlace, ControlServerError, ControlSocket, Services};
use crate::directory::{Directory, DirectoryError};
use crate::enrol;
use crate::home::{self, HomeError};
use crate::identity::{Identity, IdentityError};
use crate::leave::wipe;
use crate::machine::{self, Changes};
use crate::member::{
    Arrived, Inboxes, MemberHandle, Network, NetworkError, Runtime, Setup, listens_at,
};
pub use crate::member::{Delivered, MessageSender, RingMessage};
use crate::member_list::MemberList;
use crate::message;
use crate::priorities::Priorities;
use crate::state::{Membership, State, StateError};
use crate::stream::Streams;
use crate::transfer::{self, Transfers};

/// How often DNS is asked for a newer statement.
const STATEMENT_REFRESH: Duration = Duration::from_secs(5);

/// Why the daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// No member has joined with this home.
    #[error("{0} is not a member's home: join a ring first with `ringway join`")]
    NotAMember(String),
    /// The key in the home is not the one that the certificate names.
    #[error(
        "{0}/identity.key is not the key of this member's certificate: restore it from a backup"
    )]
    OtherKey(String),
    /// The membership has ended, or begins later.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// It has ended by itself.
    #[error(
        "the certificate of {0} has run out: if the clock is right, ask the ring owner for a new invite, and join by it with the same --home"
    )]
    RunOut(Name),
    /// The owner has revoked it.
    #[error(
        "the ring owner has revoked this member: ask for a new invite, and join by it with the same --home"
    )]
    Revoked,
    /// Its certificate was replaced, and the new key is not here.
    #[error(
        "the ring has another key for this member, and it is not in this home: if that was not your doing, somebody has stolen the old key, and the ring owner has to revoke this member (`ringway ring revoke`); else go on in the home that has the new key"
    )]
    Replaced,
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The key could not be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// A folder could not be made.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The resolver could not be made.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A transport could not start.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The control socket could not be opened.
    #[error(transparent)]
    Control(#[from] ControlServerError),
}

impl DaemonError {
    /// True when the user's input was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            DaemonError::NotAMember(_) => true,
            DaemonError::Config(error) => error.is_usage(),
            DaemonError::Network(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// How to run a member.
#[derive(Clone, Debug)]
pub struct Options {
    /// The member's home folder.
    pub home: PathBuf,
    /// Bytes per second for all transfers together; overrides the configuration.
    pub upload_limit: Option<u64>,
    /// Where commands reach the daemon.
    pub control: ControlPlace,
}

/// What a started daemon reports.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Ready {
    /// The member's name.
    pub name: String,
    /// Its id in base32.
    pub member: String,
    /// `router` or `leaf`.
    pub role: String,
    /// The ring's domain.
    pub ring: String,
    /// The control socket.
    pub socket: PathBuf,
    /// Process id.
    pub pid: u32,
}

impl Ready {
    fn of(membership: &Membership, socket: PathBuf) -> Ready {
        let own = &membership.certificate;
        Ready {
            name: own.name().to_string(),
            member: own.member().to_string(),
            role: own.role().as_str().to_owned(),
            ring: membership.domain.clone(),
            socket,
            pid: std::process::id(),
        }
    }
}

/// Why a daemon has ended that nothing was wrong with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was ordered to.
    Stopped,
    /// The member has another key. Started again, it goes on with that: with the same name, and
    /// with all that was under way.
    Rotated,
    /// The member has left the ring for good: its key and state are gone.
    Left,
}

/// What ends a daemon without an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The membership is over.
    Over,
    /// Its key is another's.
    Replaced,
    Rotated,
    Left,
}

/// A member whose sockets are bound.
#[derive(Debug)]
pub struct Daemon {
    runtime: Runtime,
    socket: ControlSocket,
    /// Held for its life: one daemon for each home.
    _lock: File,
    services: Services,
    state: Arc<State>,
    keys: KeyKeeper,
    routers: RouterFollower,
    bringer: StatementBringer,
    renewer: CertificateKeeper,
    reporter: Reporter,
    /// Says that the member has left the ring.
    left: mpsc::Receiver<()>,
    changes: Changes,
    /// Where a router is reached.
    listens: Vec<SocketAddr>,
    ready: Ready,
    configured: Configured,
    messages: Option<Messages>,
    ring_messages: Option<RingMessages>,
}

/// Messages between applications of members: unreliable, unordered, at most 64 KiB long. For
/// programs that run a member within themselves.
#[derive(Debug)]
pub struct Messages {
    member: MemberHandle,
    directory: Arc<Directory>,
    arrived: mpsc::Receiver<Arrived>,
}

impl Messages {
    /// A way to send to the member with this name or id. None if there is no such member, or this
    /// one is stopping.
    pub async fn to(&self, peer: &str) -> Option<MessageSender> {
        let certificate = self.directory.find(peer).await.ok()?;
        self.member.messages_to(&certificate).await
    }

    /// The next message that has arrived and who sent it; none once the member has stopped.
    pub async fn receive(&mut self) -> Option<(MemberId, Bytes)> {
        self.arrived.recv().await
    }

    /// The next message if one waits.
    pub fn try_receive(&mut self) -> Option<(MemberId, Bytes)> {
        self.arrived.try_recv().ok()
    }
}

/// Messages through the ring, between applications of its routers: from hop to hop, acknowledged by
/// their receivers, in no order, at most 399 bytes long. For programs that run a router within
/// themselves.
#[derive(Debug)]
pub struct RingMessages {
    sender: RingSender,
    arrived: mpsc::Receiver<RingMessage>,
}

/// Sends messages through the ring. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RingSender {
    member: MemberHandle,
    directory: Arc<Directory>,
}

/// Why a message through the ring has not arrived, or why nothing is known of it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotDelivered(String);

impl RingMessages {
    /// A way to send.
    #[must_use]
    pub fn sender(&self) -> RingSender {
        self.sender.clone()
    }

    /// The next message that has come, once it is proven that its sender has sent it; none once the
    /// member has stopped.
    pub async fn receive(&mut self) -> Option<RingMessage> {
        self.arrived.recv().await
    }
}

impl RingSender {
    /// Sends `body` to the router with this name or id, sealed for it.
    ///
    /// # Errors
    /// When there is no such router, or no answer has come, whichever way the message went.
    pub async fn to_router(&self, peer: &str, body: &[u8]) -> Result<Delivered, NotDelivered> {
        let found = self.directory.find(peer).await;
        let certificate = found.map_err(|error| NotDelivered(error.to_string()))?;
        let key = certificate.ring_key();
        let key = key.ok_or_else(|| NotDelivered(format!("`{peer}` is no router")))?;
        self.send(Destination::Member(key), body).await
    }

    /// Sends `body` to the owner of `point`. Those on the way can read it, and a router that
    /// claims the point is believed.
    ///
    /// # Errors
    /// When no answer has come, whichever way the message went.
    pub async fn to_point(&self, point: RingKey, body: &[u8]) -> Result<Delivered, NotDelivered> {
        self.send(Destination::Point(point), body).await
    }

    async fn send(&self, to: Destination, body: &[u8]) -> Result<Delivered, NotDelivered> {
        let sent = self.member.send_through(to, body).await;
        sent.map_err(|error| NotDelivered(error.to_string()))
    }
}

impl Daemon {
    /// Reads the home folder and binds every socket.
    ///
    /// # Errors
    /// With the first thing that is missing or wrong.
    pub async fn start(options: Options) -> Result<Daemon, DaemonError> {
        let home = options.home;
        let mut changes = Changes::watch();
        let (opened, taken) = boot::taken(&home, options.control).await?;
        let moving::Ready {
            opened:
                Opened {
                    state,
                    membership,
                    config,
                    identity,
                },
            directory,
            routers,
        } = moving::ready(&home, opened, &mut changes).await?;
        let own = membership.certificate.clone();
        let (network, arrivals) = Network::start(&config, &identity, &own, &directory).await?;
        let endpoints = [network.quic(), network.over_links()].map(Arc::clone);
        let ready = Ready::of(&membership, taken.path);
        let keeping = Keeping::of(&identity, &membership, &state, &directory);
        let (runtime, member, inboxes) = Runtime::new(Setup {
            identity,
            membership,
            state: Arc::clone(&state),
            directory: Arc::clone(&directory),
            network,
            arrivals,
        })?;
        let connections = Connections::new(endpoints, member.clone());
        let served = Served {
            transfers: Transfers::start(transfer::Setup {
                state: Arc::clone(&state),
                directory: Arc::clone(&directory),
                connections: connections.clone(),
                member: member.clone(),
                caps: config.caps(options.upload_limit),
                receive: config.receive.clone(),
                own_name: own.name().to_string(),
                home: home.clone(),
            })?,
            streams: Streams::start(&connections, &directory, &config.service),
            messages: keeping.stored(&config, &home, &member, &inboxes)?,
        };
        connections.start();
        let (reporter, leaver, left) = keeping.voices(&config, &home);
        let listens = listens_at(&config, &own);
        let services = keeping.services(&member, served, Priorities::of(&config), leaver);
        let configured = Configured::new(config, options.upload_limit, own.role(), &home);
        let (keys, bringer, renewer) = keeping.keepers(home, &member, &changes);
        let (messages, ring_messages) = mailboxes(&member, &directory, inboxes);
        Ok(Daemon {
            runtime,
            socket: taken.socket,
            _lock: taken.lock,
            services,
            state,
            keys,
            routers,
            bringer,
            renewer,
            reporter,
            left,
            changes,
            listens,
            ready,
            configured,
            messages: Some(messages),
            ring_messages: Some(ring_messages),
        })
    }

    /// What to show to the user.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// What asks the member how it does.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        Pulse {
            member: self.services.member.clone(),
            transfers: self.services.transfers.clone(),
        }
    }

    /// What reads the configuration again.
    #[must_use]
    pub fn reloader(&self) -> Reloader {
        Reloader {
            configured: self.configured.clone(),
            transfers: self.services.transfers.clone(),
            priorities: self.services.priorities.clone(),
            messages: self.services.messages.clone(),
            streams: self.services.streams.clone(),
            member: self.services.member.clone(),
        }
    }

    /// The messages of this member's applications; only the first caller gets them. If none asks,
    /// what arrives is dropped and counted.
    pub fn take_messages(&mut self) -> Option<Messages> {
        self.messages.take()
    }

    /// The messages through the ring of this member's applications; only the first caller gets
    /// them. If none asks, what arrives is dropped and counted.
    pub fn take_ring_messages(&mut self) -> Option<RingMessages> {
        self.ring_messages.take()
    }

    /// Runs until `shutdown` completes, the membership ends, or the member has another key.
    ///
    /// # Errors
    /// [`DaemonError::Revoked`] when the ring owner has ended the membership,
    /// [`DaemonError::Replaced`] when somebody else has its place.
    pub async fn run(
        mut self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<Ended, DaemonError> {
        self.messages = None;
        self.ring_messages = None;
        let own = self.services.certificate.clone();
        let directory = Arc::clone(&self.services.directory);
        let (ending, mut own_end) = mpsc::channel(1);
        let stored = self.keys.membership.statement.number();
        let keeping = tokio::spawn(self.keys.run(ending.clone()));
        let following = tokio::spawn(self.routers.run());
        let bringing = tokio::spawn(self.bringer.run());
        let renewing = tokio::spawn(self.renewer.run());
        let staying = tokio::spawn(moving::watch_addresses(self.listens, self.changes.clone()));
        let reporting = tokio::spawn(self.reporter.run());
        let home = self.configured.home().to_owned();
        let mut left = self.left;
        let disk = (self.state, stored);
        let messages = self.services.messages.clone();
        let waking = wake::run(
            self.services.clone(),
            self.changes.clone(),
            self.runtime.returns(),
        );
        let waking = tokio::spawn(waking);
        let services = self.services.clone();
        let watching = tokio::spawn(watch_statement(
            services,
            disk.0,
            disk.1,
            self.changes,
            ending,
        ));
        let serving = tokio::spawn(control::serve(self.socket, self.services));
        // A task of its own: in the caller's `block_on` every wake-up would cross threads.
        let (stop, stopped) = oneshot::channel();
        let member = tokio::spawn(self.runtime.run(async {
            // Also when the sender is gone.
            stopped.await.unwrap_or_default();
        }));
        let ended = tokio::select! {
            () = shutdown => None,
            ended = own_end.recv() => ended,
            // The sender lives as long as the task that serves the control socket.
            Some(()) = left.recv() => Some(Ending::Left),
        };
        // The end of its certificate may have come back to it first.
        let ended = match left.try_recv() {
            Ok(()) => Some(Ending::Left),
            Err(_) => ended,
        };
        if stop.send(()).is_err() {
            tracing::error!("the member's task has ended before its time");
        }
        if let Err(error) = member.await {
            tracing::error!(%error, "the member's task failed");
        }
        // The socket's file goes when the task that holds it has ended.
        let tasks = [
            keeping, following, bringing, renewing, staying, reporting, waking, watching, serving,
        ];
        for task in tasks {
            task.abort();
            if let Err(error) = task.await
                && !error.is_cancelled()
            {
                tracing::error!(%error, "a task of the daemon failed");
            }
        }
        messages.end().await;
        outcome(ended, &home, &directory.own(&own))
    }
}

/// What a daemon has come to that nothing runs of any more.
fn outcome(ended: Option<Ending>, home: &Path, own: &Certificate) -> Result<Ended, DaemonError> {
    match ended {
        None => Ok(Ended::Stopped),
        Some(Ending::Rotated) => Ok(Ended::Rotated),
        Some(Ending::Left) => {
            wipe(home)?;
            tracing::warn!("this member has left the ring for good: its key is gone");
            Ok(Ended::Left)
        }
        Some(Ending::Replaced) => Err(DaemonError::Replaced),
        Some(Ending::Over) => {
            check_time(own)?;
            Err(DaemonError::Revoked)
        }
    }
}

/// What members exchange.
struct Served {
    transfers: Transfers,
    streams: Streams,
    messages: message::Messages,
}

/// What those need that look after the member's key and certificate.
struct Keeping {
    identity: Identity,
    membership: Membership,
    state: Arc<State>,
    directory: Arc<Directory>,
}

impl Keeping {
    fn of(
        identity: &Identity,
        membership: &Membership,
        state: &Arc<State>,
        directory: &Arc<Directory>,
    ) -> Keeping {
        Keeping {
            identity: identity.clone(),
            membership: membership.clone(),
            state: Arc::clone(state),
            directory: Arc::clone(directory),
        }
    }

    /// What commands are answered from.
    fn services(
        &self,
        member: &MemberHandle,
        served: Served,
        priorities: Priorities,
        leaver: Leaver,
    ) -> Services {
        let Served {
            transfers,
            streams,
            messages,
        } = served;
        let list = MemberList {
            directory: Arc::clone(&self.directory),
            ring: self.membership.ring,
            identity: self.identity.clone(),
            got: Mutex::default(),
        };
        Services {
            member: member.clone(),
            transfers,
            priorities,
            streams,
            directory: Arc::clone(&self.directory),
            certificate: self.membership.certificate.clone(),
            list: Arc::new(list),
            leaver,
            messages,
        }
    }

    fn keepers(
        self,
        home: PathBuf,
        member: &MemberHandle,
        changes: &Changes,
    ) -> (KeyKeeper, StatementBringer, CertificateKeeper) {
        let Keeping {
            identity,
            membership,
            state,
            directory,
        } = self;
        let keys = KeyKeeper {
            home,
            membership: membership.clone(),
            state: Arc::clone(&state),
            directory: Arc::clone(&directory),
            network: changes.clone(),
        };
        let bringer = StatementBringer {
            certificate: membership.certificate.clone(),
            directory: Arc::clone(&directory),
        };
        let renewer = CertificateKeeper {
            identity,
            membership,
            state,
            directory,
            member: member.clone(),
            changes: changes.clone(),
        };
        (keys, bringer, renewer)
    }
}

/// Who is known from before.
async fn known(
    membership: &Membership,
    config: &Config,
    state: &Arc<State>,
) -> Result<(Arc<Directory>, RouterFollower), DirectoryError> {
    let directory = Arc::new(Directory::new(
        membership.ring,
        &membership.domain,
        membership.statement.clone(),
        config.node.resolver.clone(),
    )?);
    match state.forgotten(&membership.ring) {
        Ok(forgotten) => directory.remember(forgotten),
        Err(error) => tracing::error!(%error, "what the owner's newest statement lacks is lost"),
    }
    let routers = RouterFollower {
        ring: membership.ring,
        state: Arc::clone(state),
        directory: Arc::clone(&directory),
    };
    // A leaf looks again and again; a router once.
    if membership.certificate.role() == Role::Router {
        routers.at_start().await;
    }
    Ok((directory, routers))
}

/// Where applications send and receive.
fn mailboxes(
    member: &MemberHandle,
    directory: &Arc<Directory>,
    inboxes: Inboxes,
) -> (Messages, RingMessages) {
    let messages = Messages {
        member: member.clone(),
        directory: Arc::clone(directory),
        arrived: inboxes.messages,
    };
    let sender = RingSender {
        member: member.clone(),
        directory: Arc::clone(directory),
    };
    let arrived = inboxes.routed;
    (messages, RingMessages { sender, arrived })
}

/// What the home folder holds, checked.
struct Opened {
    state: Arc<State>,
    membership: Membership,
    config: Config,
    identity: Identity,
}

impl Opened {
    fn read(home: &Path) -> Result<Opened, DaemonError> {
        let shown = || home.display().to_string();
        // What cannot be examined is opened, and the error is reported there.
        if !home::state_path(home).try_exists().unwrap_or(true) {
            return Err(DaemonError::NotAMember(shown()));
        }
        let state = Arc::new(State::open(home)?);
        let membership = state.membership()?;
        let membership = membership.ok_or_else(|| DaemonError::NotAMember(shown()))?;
        let config = Config::load(home)?;
        config.check_role(membership.certificate.role())?;
        let own = &membership.certificate;
        let identity = enrol::load_identity(home, own)?;
        let identity = identity.ok_or_else(|| DaemonError::OtherKey(shown()))?;
        check_time(own)?;
        if is_over(&membership.statement, own) {
            return Err(DaemonError::Revoked);
        }
        home::create_own_folder(&home::trees_path(home))?;
        make_inbox(home, &config)?;
        Ok(Opened {
            state,
            membership,
            config,
            identity,
        })
    }
}

/// Makes the folders for received files that are missing.
fn make_inbox(home: &Path, config: &Config) -> Result<(), DaemonError> {
    for (key, folder) in config.receive.folders() {
        home::create_private_folder(&home.join(folder)).map_err(|error| {
            let example = config.receive.example();
            let reason = format!("{error}; name another folder, such as `{example}`");
            config.refuse(Wrong::new(key, reason))
        })?;
    }
    Ok(())
}

/// Takes over each newer statement, from DNS or from another member; ends links of revoked members,
/// and this daemon if it is one. On disk is the statement with the number that comes with the
/// state.
async fn watch_statement(
    services: Services,
    state: Arc<State>,
    mut stored: u64,
    mut changes: Changes,
    ending: mpsc::Sender<Ending>,
) {
    let mut tick = tokio::time::interval(STATEMENT_REFRESH);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let directory = &services.directory;
    loop {
        let asks = async {
            tick.tick().await;
            directory.refresh_statement().await
        };
        // A daemon that gets an order need not wait for a DNS server that is silent.
        let asked = tokio::select! {
            asked = asks => asked,
            () = directory.await_newer() => Ok(None),
            () = changes.next() => {
                directory.network_changed();
                tick.reset_immediately();
                continue;
            }
        };
        match asked {
            Ok(Some(statement)) => services.member.stated(statement.as_bytes().to_vec()).await,
            Ok(None) => {}
            // DNS that does not answer revokes no member.
            Err(error) => tracing::debug!(%error, "no newer statement"),
        }
        // Certificates also run out by themselves.
        services.transfers.end_unadmitted();
        services.streams.end_unadmitted();
        services.member.memberships_changed().await;
        let own = directory.own(&services.certificate);
        if has_run_out(&own) && !machine::starts() {
            tracing::error!("this member's certificate has run out");
            return end(&ending).await;
        }
        let statement = directory.statement();
        if statement.number() <= stored {
            continue;
        }
        stored = statement.number();
        if let Err(error) = state.set_statement(&statement, &directory.forgotten()) {
            tracing::error!(%error, "the statement could not be stored");
        }
        if is_over(&statement, &own) {
            tracing::error!("the ring owner has revoked this member");
            return end(&ending).await;
        }
    }
}

async fn end(membership: &mpsc::Sender<Ending>) {
    if membership.send(Ending::Over).await.is_err() {
        tracing::debug!("the daemon is stopping already");
    }
}
