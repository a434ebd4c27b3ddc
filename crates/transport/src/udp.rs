//! Messages in UDP datagrams: one socket for all sessions, one message a datagram.
//!
//! Where the system can, a run of messages goes in as one train and comes out as one (segmentation
//! offload: GSO and GRO), and several trains are had with one call.

mod receive;
mod send;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use noq::udp::UdpSocketState;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};

use crate::address::{Address, AddressDescriptor, Protocol, canonical};
use crate::counters::{CounterSnapshot, Counters};
use crate::limits::{SOCKET_BUFFER, UDP_LARGEST};
use crate::transport::{BoxFuture, ConnectError, Inbox, Incoming, Session, StartError, Transport};

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
    /// What the system can do with trains.
    offload: UdpSocketState,
    /// Where trains are put together.
    train: Mutex<Vec<u8>>,
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
        let (socket, offload, local) = bound.map_err(|source| StartError::Listen {
            protocol: Protocol::Udp,
            listen: options.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, 0).into()),
            source,
        })?;
        let counters = Arc::new(Counters::default());
        let shared = Arc::new(Shared {
            socket,
            offload,
            train: Mutex::default(),
            v6: local.is_ipv6(),
            counters: counters.clone(),
        });
        let (stop, stopped) = watch::channel(());
        tokio::spawn(receive::run(
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

fn bind(listen: SocketAddr) -> io::Result<(UdpSocket, UdpSocketState, SocketAddr)> {
    let socket = socket(listen)?;
    let local = socket.local_addr()?;
    let offload = UdpSocketState::new((&socket).into())?;
    Ok((UdpSocket::from_std(socket)?, offload, local))
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
            Ok(send::session(&self.shared, socket))
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
