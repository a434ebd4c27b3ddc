//! Messages framed in a TCP connection: two bytes of length (big endian), then the message.
//!
//! As in the paper a message is dropped when the write would block: TCP is used for where it gets
//! through, not for its reliability. At most the unsent rest of one frame is kept per connection.

mod connection;

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::connection::Context;
use crate::address::{Address, AddressDescriptor, Protocol, canonical};
use crate::counters::{CounterSnapshot, Counters};
use crate::limits::{ACCEPT_PAUSE, CONNECT_TIME, TCP_CONNECTIONS, TCP_IDLE, TCP_MTU};
use crate::places::{Place, Places};
use crate::transport::{BoxFuture, ConnectError, Inbox, Incoming, Session, StartError, Transport};
use crate::udp::advertised;

/// How to start a [`TcpTransport`].
#[derive(Debug, Clone)]
pub struct TcpOptions {
    /// Where to listen; port 0 lets the system choose. `None` for a leaf: it only dials out.
    pub listen: Option<SocketAddr>,
    /// Addresses to advertise instead of the one listened on, for example outside a NAT.
    pub advertise: Vec<SocketAddr>,
    /// Cost in HELLOs; less is better, no unit.
    pub cost: u32,
    /// Connections in both directions, at most [`TCP_CONNECTIONS`].
    pub connections: usize,
    /// Silence after which a connection that nobody holds a session of is closed.
    pub idle: std::time::Duration,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            listen: None,
            advertise: Vec::new(),
            cost: Protocol::Tcp.usual_cost(),
            connections: TCP_CONNECTIONS,
            idle: TCP_IDLE,
        }
    }
}

/// The `tcp` transport. Dropping it closes its listener and all its connections.
#[derive(Debug)]
pub struct TcpTransport {
    options: TcpOptions,
    local: Option<SocketAddr>,
    context: Context,
    places: Arc<Places>,
    /// Held for its drop: it ends all tasks.
    _stop: watch::Sender<()>,
}

impl TcpTransport {
    /// Starts listening, if so configured. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if the address cannot be bound.
    pub fn start(
        mut options: TcpOptions,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, StartError> {
        options.connections = options.connections.min(TCP_CONNECTIONS);
        let listener = options.listen.map(bind).transpose();
        let listener = listener.map_err(|source| StartError::Listen {
            protocol: Protocol::Tcp,
            listen: options.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, 0).into()),
            source,
        })?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = watch::channel(());
        let context = Context {
            inbox: Inbox::new(incoming, counters.clone()),
            counters,
            stopped,
            idle: options.idle,
        };
        let places = Places::new(options.connections);
        let local = listener.as_ref().map(|(_, local)| canonical(*local));
        if let Some((listener, _)) = listener {
            tokio::spawn(listen(listener, context.clone(), places.clone()));
        }
        Ok(Self {
            options,
            local,
            context,
            places,
            _stop: stop,
        })
    }

    /// The address listened on, with the port that the system chose; `None` without a listener.
    pub const fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    async fn dial(&self, address: &Address) -> Result<Session, ConnectError> {
        let address = address.clone();
        let Address::Tcp(socket) = address else {
            return Err(not_accepted(address));
        };
        if !self.accepts(&address) {
            return Err(not_accepted(address));
        }
        let place = self.places.take().ok_or_else(|| ConnectError::Busy {
            address: address.clone(),
            limit: self.options.connections,
        })?;
        match timeout(CONNECT_TIME, open(socket)).await {
            Ok(Ok(stream)) => Ok(connection::start(
                stream,
                socket,
                self.context.clone(),
                place,
            )),
            Ok(Err(source)) => {
                self.context.counters.failed.add();
                Err(ConnectError::Network { address, source })
            }
            Err(_) => {
                self.context.counters.timed_out.add();
                Err(ConnectError::TimedOut { address })
            }
        }
    }
}

fn not_accepted(address: Address) -> ConnectError {
    ConnectError::NotAccepted {
        address,
        protocol: Protocol::Tcp,
    }
}

pub(crate) fn bind(listen: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let local = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, local))
}

async fn open(socket: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(socket).await?;
    ready(&stream).await?;
    Ok(stream)
}

/// Prepares a stream so that the first `try_write` already knows that the socket takes bytes.
async fn ready(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.writable().await
}

impl Transport for TcpTransport {
    fn protocol(&self) -> Protocol {
        Protocol::Tcp
    }

    fn mtu(&self) -> usize {
        TCP_MTU
    }

    fn cost(&self) -> u32 {
        self.options.cost
    }

    fn addresses(&self) -> Vec<AddressDescriptor> {
        let Some(local) = self.local else {
            return Vec::new();
        };
        let mtu = u32::try_from(TCP_MTU).unwrap_or(u32::MAX);
        advertised(self.options.listen, &self.options.advertise, local)
            .map(Address::Tcp)
            .filter(Address::is_dialable)
            .map(|address| AddressDescriptor::new(address, mtu, self.options.cost))
            .collect()
    }

    fn accepts(&self, address: &Address) -> bool {
        matches!(address, Address::Tcp(_)) && address.is_dialable()
    }

    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<Session, ConnectError>> {
        Box::pin(self.dial(address))
    }

    fn counters(&self) -> CounterSnapshot {
        self.context.counters.snapshot()
    }
}

async fn listen(listener: TcpListener, mut context: Context, places: Arc<Places>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = context.stopped.changed() => return,
        };
        match accepted {
            Ok((stream, remote)) => match places.take() {
                Some(place) => {
                    tokio::spawn(accept(stream, remote, context.clone(), place));
                }
                // Closed at once: a full backlog would hide from the peer that we are busy.
                None => context.counters.refused.add(),
            },
            Err(error) => {
                tracing::debug!(%error, "tcp accept failed");
                context.counters.failed.add();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept(stream: TcpStream, remote: SocketAddr, context: Context, place: Place) {
    if ready(&stream).await.is_ok() {
        // The session lives on in the messages that arrive.
        drop(connection::start(stream, canonical(remote), context, place));
    }
}
