//! The sockets of the authority's servers, which follow its addresses while it runs.
//!
//! What a server has listened at stays open until the process ends, as far as it is not in the way
//! of a new address: members that know the old one only learn the new one there.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use ringway_transport::CannotListen;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::dns::{LiveZone, ZoneError};
use super::dns_tcp;
use super::server::SharedAuthority;
use super::{AuthorityError, RingInfo};
use crate::enrol;
use crate::limits::SERVED_ADDRESSES;
use crate::sso::SignIns;

/// Why the servers could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address cannot be listened at.
    #[error("cannot listen for {what} at {address}: {}; `ringway ring address` changes where it listens", CannotListen { address: *.address, source })]
    Listen {
        /// DNS or enrolment.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The ring could not be read.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The zone could not be built.
    #[error("{0}")]
    Zone(String),
}

impl From<ZoneError> for ServerError {
    fn from(error: ZoneError) -> ServerError {
        ServerError::Zone(error.to_string())
    }
}

/// Which of the two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dns,
    Enrolment,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Dns => "DNS",
            Kind::Enrolment => "enrolment",
        }
    }
}

/// A server's sockets at one address.
#[derive(Debug)]
pub(super) enum Bound {
    Dns(UdpSocket, TcpListener),
    Enrolment(TcpListener),
}

impl Bound {
    pub(super) async fn at(kind: Kind, address: SocketAddr) -> Result<Bound, ServerError> {
        let failed = |source| ServerError::Listen {
            what: kind.name(),
            address,
            source,
        };
        match kind {
            Kind::Dns => {
                let datagrams = UdpSocket::bind(address).await.map_err(failed)?;
                let streams = TcpListener::bind(address).await.map_err(failed)?;
                Ok(Bound::Dns(datagrams, streams))
            }
            Kind::Enrolment => {
                let streams = TcpListener::bind(address).await.map_err(failed)?;
                Ok(Bound::Enrolment(streams))
            }
        }
    }

    /// Where it is bound.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Bound::Dns(_, streams) | Bound::Enrolment(streams) => streams.local_addr(),
        }
    }
}

/// A server at one address. It ends when this is dropped; who waits for that calls `end`.
#[derive(Debug)]
struct Slot {
    kind: Kind,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Slot {
    /// True if what comes to `address` comes here.
    fn covers(&self, kind: Kind, address: SocketAddr) -> bool {
        let all = self.address.ip();
        let any = all.is_unspecified() && (all.is_ipv6() || address.is_ipv4());
        let same_port = self.address.port() == address.port();
        self.kind == kind && same_port && (any || all == address.ip())
    }

    async fn end(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "a server failed");
        }
    }
}

/// Both servers, wherever they listen.
#[derive(Debug)]
pub(super) struct Serving {
    zone: LiveZone,
    authority: SharedAuthority,
    sign_ins: SignIns,
    slots: Vec<Slot>,
}

impl Serving {
    pub(super) fn new(zone: LiveZone, authority: SharedAuthority, sign_ins: SignIns) -> Serving {
        let slots = Vec::new();
        Serving {
            zone,
            authority,
            sign_ins,
            slots,
        }
    }

    /// Serves at what has been bound.
    pub(super) fn start(&mut self, bound: Bound) -> io::Result<()> {
        let address = bound.address()?;
        let (stop, stopped) = oneshot::channel();
        let (kind, task) = match bound {
            Bound::Dns(datagrams, streams) => {
                let task = serve_dns(self.zone.clone(), datagrams, streams, stopped);
                (Kind::Dns, tokio::spawn(task))
            }
            Bound::Enrolment(streams) => {
                let serving = enrol::serve(streams, self.authority.clone(), self.sign_ins.clone());
                let task = async {
                    tokio::select! {
                        () = serving => {}
                        // Also when the other end is gone.
                        _ = stopped => {}
                    }
                };
                (Kind::Enrolment, tokio::spawn(task))
            }
        };
        self.slots.push(Slot {
            kind,
            address,
            stop,
            task,
        });
        Ok(())
    }

    /// Listens where the ring's authority is to listen now, too. What cannot be had is logged, and
    /// what was there before stays.
    pub(super) async fn follow(&mut self, ring: &RingInfo) {
        for (kind, address) in [
            (Kind::Dns, ring.dns_listen),
            (Kind::Enrolment, ring.enrol_listen),
        ] {
            if self.slots.iter().any(|slot| slot.covers(kind, address)) {
                continue;
            }
            match self.listen(kind, address).await {
                Ok(()) => {
                    tracing::info!(%kind, %address, "the authority listens at another address; until it is restarted at the earlier one, too")
                }
                Err(error) => {
                    tracing::error!(%error, "the authority goes on where it has listened")
                }
            }
        }
    }

    /// Sockets at single addresses give way to one for all of them.
    async fn listen(&mut self, kind: Kind, address: SocketAddr) -> Result<(), ServerError> {
        let gives_way = |slot: &Slot| {
            let same = slot.kind == kind && slot.address.port() == address.port();
            address.ip().is_unspecified() && same
        };
        let mut freed = Vec::new();
        while let Some(index) = self.slots.iter().position(gives_way) {
            let slot = self.slots.remove(index);
            freed.push(slot.address);
            slot.end().await;
        }
        let bound = Bound::at(kind, address).await;
        if bound.is_err() {
            for address in freed {
                match Bound::at(kind, address).await {
                    Ok(bound) => self.started(kind, address, bound)?,
                    Err(error) => tracing::error!(%error, "the authority listens there no more"),
                }
            }
        }
        self.started(kind, address, bound?)?;
        let of_kind = self.slots.iter().filter(|slot| slot.kind == kind).count();
        if of_kind > SERVED_ADDRESSES
            && let Some(oldest) = self.slots.iter().position(|slot| slot.kind == kind)
        {
            self.slots.remove(oldest).end().await;
        }
        Ok(())
    }

    fn started(
        &mut self,
        kind: Kind,
        address: SocketAddr,
        bound: Bound,
    ) -> Result<(), ServerError> {
        self.start(bound).map_err(|source| ServerError::Listen {
            what: kind.name(),
            address,
            source,
        })
    }

    /// Where DNS is answered, the newest address last.
    pub(super) fn dns(&self) -> Option<SocketAddr> {
        let mut dns = self.slots.iter().filter(|slot| slot.kind == Kind::Dns);
        dns.next_back().map(|slot| slot.address)
    }

    /// Ends all of it.
    pub(super) async fn end(self) {
        for slot in self.slots {
            slot.end().await;
        }
    }
}

async fn serve_dns(
    zone: LiveZone,
    datagrams: UdpSocket,
    streams: TcpListener,
    stopped: oneshot::Receiver<()>,
) {
    let mut server = hickory_server::Server::new(zone.clone());
    server.register_socket(datagrams);
    tokio::select! {
        () = dns_tcp::serve(streams, zone) => {}
        // Also when the other end is gone.
        _ = stopped => {}
    }
    if let Err(error) = server.shutdown_gracefully().await {
        tracing::warn!(%error, "the DNS server did not stop cleanly");
    }
}
