//! The endpoint: one UDP socket, connections out and in.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use noq::{ClientConfig, EndpointConfig, ServerConfig, TokioRuntime, VarInt};
use ringway_dtl::{Algorithm, Config, Priority};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use super::connection::QuicConnection;
use super::controller::Control;
use super::error::QuicError;
use super::group::{Groups, SharedCoupling};
use super::messages::{DatagramCarrier, Members, MessageSocket, member_address};
use super::settings::{self, Role};
use super::tls::{Expected, Identity, Purpose, Shown, from_spki};
use crate::address::canonical;
use crate::counters::{Counter, StreamCounters};
use crate::limits;
use crate::listening::CannotListen;
use crate::member::MemberId;
use crate::places::Places;

/// Says whether a key belongs to an admitted member. Called in every handshake: it must not block.
pub type Allow = Arc<dyn Fn(&MemberId) -> bool + Send + Sync>;

/// Which congestion control connections use.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CongestionControl {
    /// Ours, which follows the connection's priority.
    Priority(Config),
    /// The QUIC stack's CUBIC (RFC 9438), which ignores priorities: the yardstick of measurements.
    Cubic,
}

/// How to bind a [`QuicEndpoint`].
#[derive(Debug, Clone)]
pub struct QuicOptions {
    /// Whether to accept connections.
    pub accept: bool,
    /// Priority of what we send on accepted connections until it is set.
    pub priority: Priority,
    /// The congestion control of every connection.
    pub congestion: CongestionControl,
    /// Connections in both directions, at most [`limits::QUIC_CONNECTIONS`].
    pub connections: usize,
    /// Whether members may connect to send messages as well: set it where a
    /// [`QuicTransport`](crate::QuicTransport) takes them.
    pub links: bool,
    /// Whether it serves a program that has no ring ([`crate::dtl`]) instead of a member: the two
    /// refuse each other.
    pub dtl: bool,
    /// Whether to ask peers for readings of their clocks where we send at priority 0. Without them
    /// a queue on the way back counts like one on the way there.
    pub clocks: bool,
    /// Priorities to different members are those of one sender among all endpoints that have
    /// clones of this: where connections to them wait in one queue, mostly that of
    /// the own line, they get parts of what they have there as their priorities say
    /// ([`ringway_dtl::Coupling`]). Whether they do shows after some seconds. `None` leaves
    /// them to share it as strangers do.
    pub coupling: Option<SharedCoupling>,
}

impl Default for QuicOptions {
    fn default() -> Self {
        Self {
            accept: true,
            priority: Priority::NORMAL,
            congestion: CongestionControl::Priority(Config::default()),
            connections: limits::QUIC_CONNECTIONS,
            links: false,
            dtl: false,
            clocks: true,
            coupling: Some(SharedCoupling::default()),
        }
    }
}

/// A UDP socket that makes and accepts connections. Dropping it closes them all with code 0.
pub struct QuicEndpoint {
    inner: Arc<Inner>,
    accepted: Mutex<mpsc::Receiver<QuicConnection>>,
    /// Connections for messages, until a transport takes them.
    links: std::sync::Mutex<Option<mpsc::Receiver<QuicConnection>>>,
}

struct Inner {
    endpoint: noq::Endpoint,
    identity: Identity,
    allow: Allow,
    server: Option<ServerConfig>,
    /// Of an endpoint over messages.
    members: Option<Members>,
    options: QuicOptions,
    connections: Arc<Semaphore>,
    handshakes: Arc<Places>,
    refused: Counter,
    streams: Arc<StreamCounters>,
    groups: Groups,
}

impl QuicEndpoint {
    /// Binds a socket (port 0 lets the system choose) for the member with the key `identity`, who
    /// connects to and accepts the members that `allow` allows. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`QuicError::Bind`] if the address is taken, [`QuicError::Setup`] if TLS cannot start.
    pub fn bind(
        address: SocketAddr,
        identity: &ed25519_dalek::SigningKey,
        allow: Allow,
        options: QuicOptions,
    ) -> Result<Self, QuicError> {
        let open = |server| {
            let config = settings::endpoint(identity).map_err(std::io::Error::other)?;
            let socket = crate::udp::socket(address)?;
            noq::Endpoint::new(config, server, socket, Arc::new(TokioRuntime))
        };
        Self::start(address, identity, allow, options, None, open)
    }

    /// An endpoint whose datagrams somebody else carries from member to member, as messages over
    /// any transport. It is patient: they may take long.
    ///
    /// # Errors
    /// [`QuicError::Setup`] if TLS cannot start.
    pub fn over_messages(
        identity: &ed25519_dalek::SigningKey,
        allow: Allow,
        options: QuicOptions,
    ) -> Result<(Self, DatagramCarrier), QuicError> {
        let members = Members::default();
        let me = MemberId::new(identity.verifying_key().to_bytes());
        let (socket, carrier) = MessageSocket::new(&me, members.clone());
        let open = |server| {
            let mut config = EndpointConfig::default();
            config
                .max_udp_payload_size(limits::QUIC_MESSAGE_BYTES)
                .map_err(std::io::Error::other)?;
            let runtime = Arc::new(TokioRuntime);
            noq::Endpoint::new_with_abstract_socket(config, server, Box::new(socket), runtime)
        };
        let address = member_address(&me);
        let endpoint = Self::start(address, identity, allow, options, Some(members), open)?;
        Ok((endpoint, carrier))
    }

    fn start(
        address: SocketAddr,
        identity: &ed25519_dalek::SigningKey,
        allow: Allow,
        mut options: QuicOptions,
        members: Option<Members>,
        open: impl FnOnce(Option<ServerConfig>) -> std::io::Result<noq::Endpoint>,
    ) -> Result<Self, QuicError> {
        options.connections = options.connections.min(limits::QUIC_CONNECTIONS);
        let identity = Identity::new(identity);
        let server = options.accept.then(|| server(&identity, &allow, &options));
        let server = server.transpose()?;
        let endpoint = open(server.clone()).map_err(|error| QuicError::Bind {
            address,
            reason: CannotListen {
                address,
                source: &error,
            }
            .to_string(),
        })?;
        let inner = Arc::new(Inner {
            endpoint,
            identity,
            allow,
            server,
            members,
            connections: Arc::new(Semaphore::new(options.connections)),
            handshakes: Places::new(limits::QUIC_HANDSHAKES),
            options,
            refused: Counter::default(),
            streams: Arc::default(),
            groups: Groups::default(),
        });
        let (streams, accepted) = mpsc::channel(limits::QUIC_ACCEPT_QUEUE);
        let (links, for_links) = mpsc::channel(limits::QUIC_ACCEPT_QUEUE);
        tokio::spawn(inner.clone().listen(Queues { streams, links }));
        Ok(Self {
            inner,
            accepted: Mutex::new(accepted),
            links: std::sync::Mutex::new(Some(for_links)),
        })
    }

    /// The address of the socket, with the port that the system chose.
    ///
    /// # Errors
    /// [`QuicError::Closed`] if the system no longer knows the socket.
    pub fn local_address(&self) -> Result<SocketAddr, QuicError> {
        let local = self.inner.endpoint.local_addr();
        local.map(canonical).map_err(|_| QuicError::Closed)
    }

    /// Connects to the member `expected` at `address` and sends with `priority`. When it returns
    /// both sides have proved their keys and accepted each other's.
    ///
    /// All connections made so to one member at one address share one congestion control, worth the
    /// sum of their priorities, and get exact parts of it ([`ringway_dtl::Group`]). Where the
    /// connections to different members turn out to wait in one queue, their parts of what they
    /// have together come to be those of their priorities, too ([`QuicOptions::coupling`]).
    ///
    /// # Errors
    /// [`QuicError`]: `WrongPeer` if another key answers, `Refused` if the peer does not accept
    /// ours, `NotAllowed` if we do not accept its own, `TimedOut`, `Busy`, `Dial`.
    pub async fn connect(
        &self,
        address: SocketAddr,
        expected: MemberId,
        priority: Priority,
    ) -> Result<QuicConnection, QuicError> {
        let inner = &self.inner;
        if let Some(members) = &inner.members {
            members.learn(expected);
        }
        if !(inner.allow)(&expected) {
            return Err(QuicError::NotAllowed { member: expected });
        }
        let expected = Expected::Member(expected);
        inner
            .dial(address, expected, priority, Purpose::Streams)
            .await
    }

    /// Connects for a program without a ring to the peer that is expected, whatever the endpoint
    /// itself allows.
    pub(crate) async fn connect_dtl(
        &self,
        address: SocketAddr,
        expected: Expected,
        priority: Priority,
    ) -> Result<QuicConnection, QuicError> {
        self.inner
            .dial(address, expected, priority, Purpose::Dtl)
            .await
    }

    /// Goes on with another socket: all connections move to it.
    pub(crate) fn rebind(&self, address: SocketAddr) -> std::io::Result<()> {
        self.inner.endpoint.rebind(crate::udp::socket(address)?)
    }

    /// Connects for messages to whichever allowed member answers at `address`.
    pub(super) async fn connect_link(
        &self,
        address: SocketAddr,
    ) -> Result<QuicConnection, QuicError> {
        let expected = Expected::Anybody(self.inner.allow.clone());
        self.inner
            .dial(address, expected, Priority::NORMAL, Purpose::Link)
            .await
    }

    /// The connections that members make for messages; once.
    pub(super) fn take_links(&self) -> Option<mpsc::Receiver<QuicConnection>> {
        let links = self.links.lock();
        links
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
    }

    /// Whether members can connect to us.
    pub(super) fn accepts(&self) -> bool {
        self.inner.options.accept
    }

    /// The next connection that an admitted member makes; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<QuicConnection> {
        self.accepted.lock().await.recv().await
    }

    /// Incoming connections refused because too many were open or under way.
    pub fn refused(&self) -> u64 {
        self.inner.refused.get()
    }

    /// What the streams of all connections have carried, as far as it was counted there.
    pub fn streams(&self) -> &StreamCounters {
        &self.inner.streams
    }

    /// Closes the endpoint and all its connections.
    pub fn close(&self, code: u32, reason: &str) {
        let code = VarInt::from_u32(code);
        self.inner.endpoint.close(code, reason.as_bytes());
    }

    /// Waits until all connections have ended and their peers were told: call it before exit.
    pub async fn wait_idle(&self) {
        self.inner.endpoint.wait_idle().await;
    }
}

impl Drop for QuicEndpoint {
    fn drop(&mut self) {
        self.close(0, "");
    }
}

impl fmt::Debug for QuicEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicEndpoint")
            .field("endpoint", &self.inner.endpoint)
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

/// What TLS takes as the server's name; never sent, as members are known by their keys.
const SERVER_NAME: &str = "ringway";

fn server(
    identity: &Identity,
    allow: &Allow,
    options: &QuicOptions,
) -> Result<ServerConfig, QuicError> {
    let purposes: &[Purpose] = if options.dtl {
        &[Purpose::Dtl]
    } else if options.links {
        &[Purpose::Streams, Purpose::Link]
    } else {
        &[Purpose::Streams]
    };
    let tls = identity.server(allow.clone(), purposes)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config
        .max_incoming(limits::QUIC_HANDSHAKES)
        .incoming_buffer_size(limits::QUIC_INCOMING_BYTES)
        .incoming_buffer_size_total(limits::QUIC_INCOMING_BYTES.saturating_mul(64));
    Ok(config)
}

/// Keeps the place of a connection taken until the connection has ended, however many handles it
/// has.
fn hold_until_closed(slot: OwnedSemaphorePermit, connection: &noq::Connection) {
    let closed = connection.on_closed();
    tokio::spawn(async move {
        drop(closed.await);
        drop(slot);
    });
}

fn blame(error: noq::ConnectionError, expected: &Expected, shown: &Shown) -> QuicError {
    match (shown.get(), expected) {
        (Some(&found), &Expected::Member(expected)) if found != expected => {
            QuicError::WrongPeer { expected, found }
        }
        (Some(&member), Expected::Anybody(allow)) if !allow(&member) => {
            QuicError::NotAllowed { member }
        }
        _ => QuicError::of_handshake(error),
    }
}

/// Where accepted connections go, by what they are for.
#[derive(Clone)]
struct Queues {
    streams: mpsc::Sender<QuicConnection>,
    links: mpsc::Sender<QuicConnection>,
}

/// The key that the peer proved in the handshake.
fn peer(connection: &noq::Connection) -> Option<MemberId> {
    let identity = connection.peer_identity()?;
    let keys = identity.downcast::<Vec<rustls::pki_types::CertificateDer<'static>>>();
    from_spki(keys.ok()?.first()?)
}

impl Inner {
    fn handshake_time(&self) -> Duration {
        match self.members {
            Some(_) => limits::QUIC_MESSAGE_HANDSHAKE_TIME,
            None => limits::QUIC_HANDSHAKE_TIME,
        }
    }

    async fn dial(
        &self,
        address: SocketAddr,
        expected: Expected,
        priority: Priority,
        purpose: Purpose,
    ) -> Result<QuicConnection, QuicError> {
        let slot = self.connections.clone().try_acquire_owned();
        let slot = slot.map_err(|_| QuicError::Busy {
            limit: self.options.connections,
        })?;
        let shown = Shown::new(OnceLock::new());
        let tls = self
            .identity
            .client(expected.clone(), shown.clone(), purpose)?;
        let group = match (&expected, purpose, &self.options.congestion) {
            (
                Expected::Member(member),
                Purpose::Streams | Purpose::Dtl,
                CongestionControl::Priority(config),
            ) => {
                let coupling = self.options.coupling.as_ref();
                Some(self.groups.of(*member, address, config, coupling))
            }
            _ => None,
        };
        let control = Arc::new(Control::in_group(priority, group));
        let mut config = ClientConfig::new(Arc::new(tls));
        let role = match purpose {
            Purpose::Dtl => Role::Dtl,
            Purpose::Streams | Purpose::Link => Role::Dialled(purpose),
        };
        config.transport_config(self.settings(&control, role, address));
        let handshake = self
            .endpoint
            .connect_with(config, address, SERVER_NAME)
            .map_err(|error| QuicError::dial(address, &error))?;
        // Confirmed, not only complete: TLS 1.3 lets the client finish before its key is judged.
        let confirmed = async {
            let connection = handshake.await?;
            connection.handshake_confirmed().await?;
            Ok(connection)
        };
        let connection = match timeout(self.handshake_time(), confirmed).await {
            Ok(result) => result.map_err(|error| blame(error, &expected, &shown))?,
            Err(_) => return Err(QuicError::TimedOut),
        };
        hold_until_closed(slot, &connection);
        let member = peer(&connection).ok_or(QuicError::Closed)?;
        let streams = self.streams.clone();
        let connection = QuicConnection::new(member, connection, control, streams);
        Ok(self.with_clock(connection, purpose))
    }

    /// Readings of clocks are of use to our own congestion control only: the paper's wants one-way
    /// delays always or never.
    fn with_clock(&self, connection: QuicConnection, purpose: Purpose) -> QuicConnection {
        let wants = match &self.options.congestion {
            CongestionControl::Priority(config) => config.algorithm == Algorithm::Adaptive,
            CongestionControl::Cubic => false,
        };
        match purpose {
            Purpose::Streams | Purpose::Dtl => connection.with_clock(wants && self.options.clocks),
            Purpose::Link => connection,
        }
    }

    fn settings(
        &self,
        control: &Arc<Control>,
        role: Role,
        peer: SocketAddr,
    ) -> Arc<noq::TransportConfig> {
        let over_messages = self.members.is_some();
        let largest = (!over_messages).then(|| settings::largest_payload(canonical(peer)));
        settings::transport(&self.options.congestion, control, role, largest)
    }

    async fn listen(self: Arc<Self>, queues: Queues) {
        while let Some(incoming) = self.endpoint.accept().await {
            let busy = self.handshakes.count() > limits::QUIC_HANDSHAKES / 2;
            if busy && !incoming.remote_address_validated() {
                if incoming.retry().is_err() {
                    self.refused.add();
                }
                continue;
            }
            let handshake = self.handshakes.take();
            let slot = self.connections.clone().try_acquire_owned();
            let (Some(handshake), Ok(slot)) = (handshake, slot) else {
                self.refused.add();
                incoming.refuse();
                continue;
            };
            let (inner, queue) = (self.clone(), queues.clone());
            tokio::spawn(async move {
                // The handshake that has been stuck for longest makes room for others.
                let accepted = tokio::select! {
                    accepted = inner.accept(incoming, slot, queue) => accepted,
                    () = handshake.must_go() => Err(QuicError::TimedOut),
                };
                if let Err(error) = accepted {
                    tracing::debug!(%error, "quic: incoming handshake failed");
                }
            });
        }
    }

    async fn accept(
        &self,
        incoming: noq::Incoming,
        slot: OwnedSemaphorePermit,
        queues: Queues,
    ) -> Result<(), QuicError> {
        let control = Arc::new(Control::new(self.options.priority));
        let mut config = self.server.clone().ok_or(QuicError::Closed)?;
        let role = if self.options.dtl {
            Role::Dtl
        } else {
            Role::Accepted {
                links: self.options.links,
            }
        };
        config.transport_config(self.settings(&control, role, incoming.remote_address()));
        let handshake = incoming
            .accept_with(Arc::new(config))
            .map_err(QuicError::of_handshake)?;
        let connection = timeout(self.handshake_time(), handshake)
            .await
            .map_err(|_| QuicError::TimedOut)?
            .map_err(QuicError::of_handshake)?;
        hold_until_closed(slot, &connection);
        let peer = peer(&connection).ok_or(QuicError::Closed)?;
        let purpose = Purpose::of(&connection).ok_or(QuicError::Closed)?;
        let queue = match purpose {
            Purpose::Streams | Purpose::Dtl => queues.streams,
            Purpose::Link => {
                settings::link_only(&connection);
                queues.links
            }
        };
        let streams = self.streams.clone();
        let connection = QuicConnection::new(peer, connection, control, streams);
        let connection = self.with_clock(connection, purpose);
        // The endpoint's owner may be gone; then the connection goes too.
        queue.send(connection).await.map_err(|_| QuicError::Closed)
    }
}
