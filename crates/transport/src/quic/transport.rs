//! The `quic` transport: messages in QUIC datagrams (RFC 9221), on the port that transfers use as
//! well.
//!
//! Connections for messages are told from those for streams by their ALPN. Both sides prove to be
//! members in the handshake; which member an address belongs to is not known here, and is proved
//! above.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::connection::QuicConnection;
use super::endpoint::QuicEndpoint;
use super::error::QuicError;
use super::link::{self, Accepted, Context};
use crate::address::{Address, AddressDescriptor, Protocol, canonical};
use crate::counters::{CounterSnapshot, Counters};
use crate::limits::{
    CONNECT_TIME, QUIC_LINK_ATTEMPTS, QUIC_LINK_MTU, QUIC_LINK_PAUSE, QUIC_LINK_UNUSED, QUIC_LINKS,
};
use crate::transport::{BoxFuture, ConnectError, Inbox, Incoming, Session, StartError, Transport};
use crate::udp::advertised;

/// How to start a [`QuicTransport`].
#[derive(Debug, Clone)]
pub struct QuicTransportOptions {
    /// Addresses to advertise instead of the endpoint's own, for example outside a NAT.
    pub advertise: Vec<SocketAddr>,
    /// Cost in HELLOs; less is better, no unit.
    pub cost: u32,
    /// Connections in both directions, at most [`QUIC_LINKS`].
    pub connections: usize,
    /// Silence after which a connection without a held session is closed.
    pub idle: Duration,
}

impl Default for QuicTransportOptions {
    fn default() -> Self {
        Self {
            advertise: Vec::new(),
            cost: Protocol::Quic.usual_cost(),
            connections: QUIC_LINKS,
            idle: QUIC_LINK_UNUSED,
        }
    }
}

/// The `quic` transport. Dropping it closes its connections, but not the endpoint.
#[derive(Debug)]
pub struct QuicTransport {
    endpoint: Arc<QuicEndpoint>,
    options: QuicTransportOptions,
    local: SocketAddr,
    context: Context,
    slots: Arc<Semaphore>,
    /// Held for its drop: it ends all tasks.
    _stop: watch::Sender<()>,
}

impl QuicTransport {
    /// Takes the connections for messages of `endpoint`, which must have been bound with
    /// [`links`](super::QuicOptions::links). Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if another transport has taken them, or the endpoint is closed.
    pub fn start(
        endpoint: Arc<QuicEndpoint>,
        mut options: QuicTransportOptions,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, StartError> {
        let refused = |reason: &str| StartError::Option {
            protocol: Protocol::Quic,
            reason: reason.to_owned(),
        };
        options.connections = options.connections.min(QUIC_LINKS);
        let local = endpoint.local_address();
        let local = local.map_err(|error| refused(&error.to_string()))?;
        let links = endpoint.take_links();
        let links = links.ok_or_else(|| refused("the endpoint has a transport already"))?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = watch::channel(());
        let context = Context {
            inbox: Inbox::new(incoming, counters.clone()),
            counters,
            stopped,
            idle: options.idle,
            accepted: Accepted::default(),
        };
        let slots = Arc::new(Semaphore::new(options.connections));
        tokio::spawn(accept(links, context.clone(), slots.clone()));
        Ok(Self {
            endpoint,
            options,
            local,
            context,
            slots,
            _stop: stop,
        })
    }

    async fn dial(&self, address: &Address) -> Result<Session, ConnectError> {
        let address = address.clone();
        let not_accepted = |address| ConnectError::NotAccepted {
            address,
            protocol: Protocol::Quic,
        };
        let Address::Quic(socket) = address else {
            return Err(not_accepted(address));
        };
        if !self.accepts(&address) {
            return Err(not_accepted(address));
        }
        let slot = self.slots.clone().try_acquire_owned();
        let slot = slot.map_err(|_| ConnectError::Busy {
            address: address.clone(),
            limit: self.options.connections,
        })?;
        let connected = timeout(CONNECT_TIME, self.dial_until_known(socket)).await;
        match connected.unwrap_or(Err(QuicError::TimedOut)) {
            Ok(connection) => Ok(link::start(
                connection,
                canonical(socket),
                self.context.clone(),
                slot,
            )),
            Err(error) => Err(self.explain(address, error)),
        }
    }

    /// Dials again if the peer refuses us: it may have to look up first who we are.
    async fn dial_until_known(&self, socket: SocketAddr) -> Result<QuicConnection, QuicError> {
        for _ in 1..QUIC_LINK_ATTEMPTS {
            match self.endpoint.connect_link(socket).await {
                Err(QuicError::Refused { reason }) => {
                    tracing::debug!(%socket, reason, "quic: refused, to be tried again");
                }
                // Our own look-up of the peer may be under way just the same.
                Err(QuicError::NotAllowed { member }) => {
                    tracing::debug!(%socket, %member, "quic: not known here, to be tried again");
                }
                ended => return ended,
            }
            sleep(QUIC_LINK_PAUSE).await;
        }
        self.endpoint.connect_link(socket).await
    }

    fn explain(&self, address: Address, error: QuicError) -> ConnectError {
        let counters = &self.context.counters;
        let kind = match &error {
            QuicError::TimedOut => {
                counters.timed_out.add();
                return ConnectError::TimedOut { address };
            }
            QuicError::Busy { limit } => {
                let limit = *limit;
                return ConnectError::Busy { address, limit };
            }
            QuicError::Refused { .. } | QuicError::ClosedByPeer { .. } => {
                io::ErrorKind::ConnectionRefused
            }
            QuicError::NotAllowed { .. } => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        counters.failed.add();
        let source = io::Error::new(kind, error);
        ConnectError::Network { address, source }
    }
}

impl Transport for QuicTransport {
    fn protocol(&self) -> Protocol {
        Protocol::Quic
    }

    /// What always fits; a session takes more where its path does.
    fn mtu(&self) -> usize {
        QUIC_LINK_MTU
    }

    fn cost(&self) -> u32 {
        self.options.cost
    }

    fn addresses(&self) -> Vec<AddressDescriptor> {
        let mtu = u32::try_from(QUIC_LINK_MTU).unwrap_or(u32::MAX);
        let listens = self.endpoint.accepts().then_some(self.local);
        advertised(listens, &self.options.advertise, self.local)
            .map(Address::Quic)
            .filter(Address::is_dialable)
            .map(|address| AddressDescriptor::new(address, mtu, self.options.cost))
            .collect()
    }

    fn accepts(&self, address: &Address) -> bool {
        let Address::Quic(socket) = address else {
            return false;
        };
        address.is_dialable() && (self.local.is_ipv6() || canonical(*socket).is_ipv4())
    }

    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<Session, ConnectError>> {
        Box::pin(self.dial(address))
    }

    fn counters(&self) -> CounterSnapshot {
        self.context.counters.snapshot()
    }
}

async fn accept(
    mut links: mpsc::Receiver<QuicConnection>,
    mut context: Context,
    slots: Arc<Semaphore>,
) {
    loop {
        let connection = tokio::select! {
            connection = links.recv() => connection,
            _ = context.stopped.changed() => return,
        };
        let Some(connection) = connection else {
            return;
        };
        let Some(remote) = connection.remote() else {
            // It has ended already.
            continue;
        };
        let slot = slots.clone().try_acquire_owned().ok();
        let room = context.accepted.has_room(&connection.peer(), remote);
        if let Some(slot) = slot.filter(|_| room) {
            link::start_accepted(connection, remote, context.clone(), slot);
        } else {
            context.counters.refused.add();
            connection.close(BUSY, "too many connections for messages");
        }
    }
}

/// The code of a connection that is one too many.
const BUSY: u32 = 1;
