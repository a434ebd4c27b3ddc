//! Messages in UDP datagrams: one socket for all sessions, one message a datagram.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};

use crate::address::{Address, AddressDescriptor, Protocol, canonical};
use crate::counters::{CounterSnapshot, Counters};
use crate::limits::{SOCKET_BUFFER, UDP_LARGEST};
use crate::transport::{
    BoxFuture, ConnectError, Inbox, Incoming, Link, SendError, Session, StartError, Transport,
};

/// How to start a [`UdpTransport`].
#[derive(Debug, Clone)]
pub struct UdpOptions {
    /// Where to listen; port 0 lets the system choose. `None` for a leaf: it sends, hears answers
    /// and advertises nothing.
    pub listen: Option<SocketAddr>,
    /// Addresses to advertise instead of the one listened on, for example outside a NAT.
    pub advertise: Vec<SocketAddr>,
    /// Cost in HELLOs; less is better, no unit.
    pub cost: u32,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            listen: None,
            advertise: Vec::new(),
            cost: Protocol::Udp.usual_cost(),
        }
    }
}

/// The `udp` transport. Dropping it stops it.
#[derive(Debug)]
pub struct UdpTransport {
    shared: Arc<Shared>,
    options: UdpOptions,
    local: SocketAddr,
    /// Held for its drop: it ends the receiving task.
    _stop: watch::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    socket: UdpSocket,
    /// Whether the socket is IPv6, which carries IPv4 in mapped addresses.
    v6: bool,
    counters: Arc<Counters>,
}

impl UdpTransport {
    /// Binds the socket and starts receiving into `incoming`. Call it inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if the address cannot be bound.
    pub fn start(
        options: UdpOptions,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, StartError> {
        let bound = match options.listen {
            Some(listen) => bind(listen),
            None => bind((Ipv6Addr::UNSPECIFIED, 0).into())
                .or_else(|_| bind((Ipv4Addr::UNSPECIFIED, 0).into())),
        };
        let (socket, local) = bound.map_err(|source| StartError::Listen {
            protocol: Protocol::Udp,
            listen: options.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, 0).into()),
            source,
        })?;
        let counters = Arc::new(Counters::default());
        let shared = Arc::new(Shared {
            socket,
            v6: local.is_ipv6(),
            counters: counters.clone(),
        });
        let (stop, stopped) = watch::channel(());
        tokio::spawn(receive(
            shared.clone(),
            Inbox::new(incoming, counters),
            stopped,
        ));
        Ok(Self {
            shared,
            options,
            local: canonical(local),
            _stop: stop,
        })
    }

    /// The address of the socket, with the port that the system chose.
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }
}

fn not_accepted(address: Address) -> ConnectError {
    ConnectError::NotAccepted {
        address,
        protocol: Protocol::Udp,
    }
}

/// Binds a UDP socket with buffers that hold a burst.
pub(crate) fn socket(listen: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(listen)?;
    let options = socket2::SockRef::from(&socket);
    let enlarged = options
        .set_recv_buffer_size(SOCKET_BUFFER)
        .and_then(|()| options.set_send_buffer_size(SOCKET_BUFFER));
    if let Err(error) = enlarged {
        // Smaller buffers lose more and work nevertheless.
        tracing::debug!(%listen, %error, "udp buffers stay as they are");
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn bind(listen: SocketAddr) -> io::Result<(UdpSocket, SocketAddr)> {
    let socket = socket(listen)?;
    let local = socket.local_addr()?;
    Ok((UdpSocket::from_std(socket)?, local))
}

fn session(shared: &Arc<Shared>, remote: SocketAddr) -> Session {
    Session::new(Arc::new(UdpLink {
        shared: shared.clone(),
        remote: canonical(remote),
    }))
}

impl Transport for UdpTransport {
    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn mtu(&self) -> usize {
        UDP_LARGEST
    }

    fn cost(&self) -> u32 {
        self.options.cost
    }

    fn addresses(&self) -> Vec<AddressDescriptor> {
        let mtu = u32::try_from(UDP_LARGEST).unwrap_or(u32::MAX);
        advertised(self.options.listen, &self.options.advertise, self.local)
            .map(Address::Udp)
            .filter(Address::is_dialable)
            .map(|address| AddressDescriptor::new(address, mtu, self.options.cost))
            .collect()
    }

    fn accepts(&self, address: &Address) -> bool {
        let Address::Udp(socket) = address else {
            return false;
        };
        address.is_dialable() && (self.shared.v6 || canonical(*socket).is_ipv4())
    }

    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, Result<Session, ConnectError>> {
        Box::pin(async move {
            let address = address.clone();
            let Address::Udp(socket) = address else {
                return Err(not_accepted(address));
            };
            if !self.accepts(&address) {
                return Err(not_accepted(address));
            }
            let ready = self.shared.socket.writable().await;
            ready.map_err(|source| ConnectError::Network { address, source })?;
            Ok(session(&self.shared, socket))
        })
    }

    fn counters(&self) -> CounterSnapshot {
        self.shared.counters.snapshot()
    }
}

/// What a transport with a listener advertises: the configured addresses, else the local one.
/// Without a listener nothing.
pub(crate) fn advertised(
    listen: Option<SocketAddr>,
    advertise: &[SocketAddr],
    local: SocketAddr,
) -> impl Iterator<Item = SocketAddr> {
    let own = (listen.is_some() && advertise.is_empty()).then_some(local);
    let given = advertise.iter().copied().filter(move |_| listen.is_some());
    given.chain(own).map(canonical)
}

#[derive(Debug)]
struct UdpLink {
    shared: Arc<Shared>,
    remote: SocketAddr,
}

impl Link for UdpLink {
    fn send(&self, message: &[u8]) -> Result<(), SendError> {
        let counters = &self.shared.counters;
        if message.len() > UDP_LARGEST {
            counters.too_large.add();
            return Err(SendError::TooLarge {
                size: message.len(),
                mtu: UDP_LARGEST,
            });
        }
        let to = on_socket(self.remote, self.shared.v6);
        match self.shared.socket.try_send_to(message, to) {
            Ok(_) => {
                counters.sent(message.len());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                counters.would_block.add();
                Err(SendError::WouldBlock)
            }
            Err(error) => {
                // A route that is gone may come back: for an unreliable message it is a loss.
                tracing::debug!(remote = %self.remote, %error, "udp message lost");
                counters.failed.add();
                Ok(())
            }
        }
    }

    fn remote(&self) -> Address {
        Address::Udp(self.remote)
    }

    fn mtu(&self) -> usize {
        UDP_LARGEST
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// The address as the socket takes it: IPv4 is mapped on an IPv6 socket.
fn on_socket(remote: SocketAddr, v6: bool) -> SocketAddr {
    match remote {
        SocketAddr::V4(v4) if v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        other => other,
    }
}

async fn receive(shared: Arc<Shared>, inbox: Inbox, mut stopped: watch::Receiver<()>) {
    // One byte more than the MTU shows which datagrams are too long.
    let mut buffer = vec![0; UDP_LARGEST.saturating_add(1)];
    // Until the system has said once that the socket takes datagrams, every answer would be dropped.
    if shared.socket.writable().await.is_err() {
        return;
    }
    loop {
        let received = tokio::select! {
            received = shared.socket.recv_from(&mut buffer) => received,
            _ = stopped.changed() => return,
        };
        match received {
            Ok((size, remote)) => {
                let Some(message) = buffer.get(..size).filter(|m| m.len() <= UDP_LARGEST) else {
                    shared.counters.malformed.add();
                    continue;
                };
                let message = Bytes::copy_from_slice(message);
                if !inbox.deliver(session(&shared, remote), message) {
                    return;
                }
            }
            Err(error) => {
                // The system reports an earlier datagram's fate here; the socket stays good.
                tracing::debug!(%error, "udp receive failed");
                shared.counters.failed.add();
                tokio::task::yield_now().await;
            }
        }
    }
}
