//! Messages over a stream of bytes: one [`Framing`] says where a message ends, and the rest is the
//! same for all: a listener, places for connections, sessions that end when they are not used.
//!
//! ```text
//! StreamTransport<F> ── dial, accept ──▶ F: Framing makes an Opened: a Writer and a pump
//!        │                                          │
//!        └── connection::start ─▶ StreamLink (sends by the Writer) + a task that runs the pump
//! ```

mod connection;
mod frames;
pub(crate) mod tcp;
pub(crate) mod ws;

use std::fmt::Debug;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::connection::{Context, Opened, Writer};
use crate::address::{Address, AddressDescriptor, Protocol, canonical};
use crate::counters::{CounterSnapshot, Counters};
use crate::limits::ACCEPT_PAUSE;
use crate::places::{Place, Places};
use crate::transport::{BoxFuture, ConnectError, Inbox, Incoming, Session, StartError, Transport};

/// How messages are told apart in a stream, and how one begins. The types that it speaks of are
/// this crate's own: no other crate can add a framing.
pub trait Framing: Debug + Send + Sync + Sized + 'static {
    /// Its addresses.
    const PROTOCOL: Protocol;
    /// Bytes of the longest message.
    const MTU: usize;
    /// Time for a connection to be open, in either direction.
    const OPEN_TIME: Duration;

    /// Sends without waiting.
    type Writer: Writer;

    /// Whether an address is one of its own.
    fn takes(address: &Address) -> bool;

    /// The addresses to advertise for a listener here.
    fn advertised(&self, local: SocketAddr) -> Vec<Address>;

    /// Opens a connection to one of its addresses. The caller limits the time.
    fn open(
        &self,
        address: &Address,
    ) -> impl Future<Output = io::Result<Opened<Self::Writer>>> + Send;

    /// Answers a connection; `None` if it wants something else. The caller limits the time.
    fn answer(
        &self,
        stream: TcpStream,
        remote: SocketAddr,
    ) -> impl Future<Output = io::Result<Option<Opened<Self::Writer>>>> + Send;
}

/// What all framings have as options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamOptions {
    listen: Option<SocketAddr>,
    cost: u32,
    /// Connections in both directions.
    connections: usize,
    /// Silence after which a connection without a session is closed.
    idle: Duration,
}

/// A transport over streams. Dropping it closes its listener and all its connections.
#[derive(Debug)]
pub struct StreamTransport<F: Framing> {
    framing: Arc<F>,
    options: StreamOptions,
    local: Option<SocketAddr>,
    context: Context,
    places: Arc<Places>,
    /// Held for its drop: it ends all tasks.
    _stop: watch::Sender<()>,
}

impl<F: Framing> StreamTransport<F> {
    fn begin(
        framing: F,
        options: StreamOptions,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, StartError> {
        let listener = options.listen.map(bind).transpose();
        let listener = listener.map_err(|source| StartError::Listen {
            protocol: F::PROTOCOL,
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
        let framing = Arc::new(framing);
        let places = Places::new(options.connections);
        let local = listener.as_ref().map(|(_, local)| canonical(*local));
        if let Some((listener, _)) = listener {
            let door = Door {
                framing: framing.clone(),
                context: context.clone(),
                places: places.clone(),
            };
            tokio::spawn(door.listen(listener));
        }
        Ok(Self {
            framing,
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
        if !self.accepts(&address) {
            return Err(ConnectError::NotAccepted {
                address,
                protocol: F::PROTOCOL,
            });
        }
        let place = self.places.take().ok_or_else(|| ConnectError::Busy {
            address: address.clone(),
            limit: self.options.connections,
        })?;
        match timeout(F::OPEN_TIME, self.framing.open(&address)).await {
            Ok(Ok(opened)) => Ok(connection::start::<F>(opened, self.context.clone(), place)),
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

impl<F: Framing> Transport for StreamTransport<F> {
    fn protocol(&self) -> Protocol {
        F::PROTOCOL
    }

    fn mtu(&self) -> usize {
        F::MTU
    }

    fn cost(&self) -> u32 {
        self.options.cost
    }

    fn addresses(&self) -> Vec<AddressDescriptor> {
        let Some(local) = self.local else {
            return Vec::new();
        };
        let mtu = u32::try_from(F::MTU).unwrap_or(u32::MAX);
        let advertised = self.framing.advertised(local).into_iter();
        advertised
            .filter(Address::is_dialable)
            .map(|address| AddressDescriptor::new(address, mtu, self.options.cost))
            .collect()
    }

    fn accepts(&self, address: &Address) -> bool {
        F::takes(address) && address.is_dialable()
    }

    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<Session, ConnectError>> {
        Box::pin(self.dial(address))
    }

    fn counters(&self) -> CounterSnapshot {
        self.context.counters.snapshot()
    }
}

/// Where connections come in.
#[derive(Debug)]
struct Door<F> {
    framing: Arc<F>,
    context: Context,
    places: Arc<Places>,
}

impl<F: Framing> Door<F> {
    async fn listen(mut self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = self.context.stopped.changed() => return,
            };
            match accepted {
                Ok((stream, remote)) => match self.places.take() {
                    Some(place) => {
                        let framing = self.framing.clone();
                        let remote = canonical(remote);
                        let context = self.context.clone();
                        tokio::spawn(accept(framing, stream, remote, context, place));
                    }
                    // Closed at once: a full backlog would hide from the peer that we are busy.
                    None => self.context.counters.refused.add(),
                },
                Err(error) => {
                    tracing::debug!(protocol = %F::PROTOCOL, %error, "accept failed");
                    self.context.counters.failed.add();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn accept<F: Framing>(
    framing: Arc<F>,
    stream: TcpStream,
    remote: SocketAddr,
    mut context: Context,
    place: Place,
) {
    let answered = tokio::select! {
        answered = timeout(F::OPEN_TIME, framing.answer(stream, remote)) => answered,
        _ = context.stopped.changed() => return,
        () = place.must_go() => return context.counters.refused.add(),
    };
    match answered {
        // The session lives on in the messages that arrive.
        Ok(Ok(Some(opened))) => drop(connection::start::<F>(opened, context, place)),
        Ok(Ok(None)) => context.counters.malformed.add(),
        Ok(Err(error)) => {
            tracing::debug!(protocol = %F::PROTOCOL, %remote, %error, "no connection");
            context.counters.failed.add();
        }
        Err(_) => context.counters.timed_out.add(),
    }
}

pub(crate) fn bind(listen: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let local = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, local))
}
