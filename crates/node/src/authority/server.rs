//! The authority's two servers, DNS and enrolment, and what keeps the zone up to date.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::dns::{self, LiveZone, ZoneError};
use super::{Authority, AuthorityError, Renewed};
use super::{dns_tcp, kept};
use crate::enrol;
use crate::limits::{RENEWAL_BY_DNS_PAUSE, RENEWALS_BY_DNS};
use crate::machine::{self, Changes};
use crate::renewal::by_dns;

/// How often the server looks whether a command has changed the ring.
const REFRESH: Duration = Duration::from_millis(200);

/// Why the servers could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address is not free.
    #[error("cannot listen for {what} at {address}: {source}")]
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

/// An authority shared by the tasks of its servers. Each use is one short database query.
#[derive(Clone, Debug)]
pub(crate) struct SharedAuthority(Arc<Mutex<Authority>>);

impl SharedAuthority {
    /// Runs `work` on a thread that may wait for the disk.
    pub(crate) async fn with<T, F>(&self, work: F) -> Result<T, AuthorityError>
    where
        F: FnOnce(&mut Authority) -> Result<T, AuthorityError> + Send + 'static,
        T: Send + 'static,
    {
        let shared = Arc::clone(&self.0);
        let result = tokio::task::spawn_blocking(move || {
            let mut authority = shared.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut authority)
        });
        result.await.unwrap_or(Err(AuthorityError::EnrolmentRefused(
            "the authority failed: see its log",
        )))
    }
}

/// Both ends of what the running servers are asked by.
#[derive(Debug)]
struct Orders {
    sender: mpsc::Sender<Order>,
    receiver: mpsc::Receiver<Order>,
}

impl Default for Orders {
    fn default() -> Orders {
        let (sender, receiver) = mpsc::channel(1);
        Orders { sender, receiver }
    }
}

/// The bound, not yet running servers.
#[derive(Debug)]
pub struct Server {
    authority: SharedAuthority,
    dns_socket: UdpSocket,
    dns_listener: TcpListener,
    enrol_listener: TcpListener,
    dns_address: SocketAddr,
    enrol_address: SocketAddr,
    domain: String,
    orders: Orders,
}

/// Asks the running servers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerHandle(mpsc::Sender<Order>);

/// What the task is asked that keeps the zone current.
#[derive(Debug)]
enum Order {
    /// To build the zone of what is on disk now.
    Publish(oneshot::Sender<bool>),
    /// How the authority does.
    Look(oneshot::Sender<Option<String>>),
}

impl ServerHandle {
    /// Has the zone built again of what is on disk now, which otherwise is done whenever a command
    /// has changed the ring. False if it stays as it was, and the log says why.
    pub async fn republish(&self) -> bool {
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send(Order::Publish(reply)).await;
        sent.is_ok() && answer.await.unwrap_or_default()
    }

    /// A line about the authority, from the task that keeps its zone current: while that stands
    /// still this waits, and if the ring cannot be read there is none.
    pub async fn beat(&self) -> Option<String> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Order::Look(reply)).await.ok()?;
        answer.await.ok()?
    }
}

impl Server {
    /// Binds both servers at the addresses that the ring was made with. On a machine that has
    /// started a moment ago it waits for them.
    ///
    /// # Errors
    /// When an address is not free.
    pub async fn bind(authority: Authority) -> Result<Server, ServerError> {
        crate::open_files::raise_limit();
        let ring = authority.ring();
        machine::await_addresses(&[ring.dns, ring.enrol], &mut Changes::watch()).await;
        let listen = |what, address| {
            move |source| ServerError::Listen {
                what,
                address,
                source,
            }
        };
        let dns_failed = listen("DNS", ring.dns);
        let dns_socket = UdpSocket::bind(ring.dns).await.map_err(dns_failed)?;
        let dns_listener = TcpListener::bind(ring.dns).await.map_err(dns_failed)?;
        let enrol_failed = listen("enrolment", ring.enrol);
        let enrol_listener = TcpListener::bind(ring.enrol).await.map_err(enrol_failed)?;
        Ok(Server {
            dns_address: dns_socket.local_addr().map_err(dns_failed)?,
            enrol_address: enrol_listener.local_addr().map_err(enrol_failed)?,
            authority: SharedAuthority(Arc::new(Mutex::new(authority))),
            dns_socket,
            dns_listener,
            enrol_listener,
            domain: ring.domain,
            orders: Orders::default(),
        })
    }

    /// Where DNS is answered.
    #[must_use]
    pub fn dns_address(&self) -> SocketAddr {
        self.dns_address
    }

    /// What asks the servers once they run.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle(self.orders.sender.clone())
    }

    /// Where members enrol.
    #[must_use]
    pub fn enrol_address(&self) -> SocketAddr {
        self.enrol_address
    }

    /// Serves until `shutdown` completes.
    ///
    /// # Errors
    /// When the ring cannot be read at the start.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServerError> {
        let publisher = Publisher {
            authority: self.authority.clone(),
            domain: self.domain,
            address: self.dns_address,
            orders: self.orders.receiver,
        };
        let (generation, catalog) = publisher.build().await?;
        let (renewals, asked) = mpsc::channel(RENEWALS_BY_DNS);
        let zone = LiveZone::new(&publisher.domain, catalog, renewals)?;
        let mut dns_server = hickory_server::Server::new(zone.clone());
        dns_server.register_socket(self.dns_socket);
        let mut tasks = JoinSet::new();
        tasks.spawn(dns_tcp::serve(self.dns_listener, zone.clone()));
        tasks.spawn(publisher.keep_current(zone, generation));
        tasks.spawn(kept::keep_current(self.authority.clone()));
        tasks.spawn(renew_by_dns(self.authority.clone(), asked));
        tasks.spawn(enrol::serve(self.enrol_listener, self.authority));
        shutdown.await;
        tasks.shutdown().await;
        if let Err(error) = dns_server.shutdown_gracefully().await {
            tracing::warn!(%error, "the DNS server did not stop cleanly");
        }
        Ok(())
    }
}

/// Looks at requests for newer certificates one after the other. The zone shows what comes of them.
async fn renew_by_dns(authority: SharedAuthority, mut asked: mpsc::Receiver<by_dns::Request>) {
    while let Some(request) = asked.recv().await {
        let renewed = authority.with(move |authority| authority.renew_by_dns(&request));
        match renewed.await {
            Ok(Some(Renewed { certificate, again })) => {
                let (name, serial) = (certificate.name(), certificate.serial());
                tracing::info!(%name, serial, again, "a member's certificate is renewed, as it has asked by DNS");
            }
            Ok(None) => tracing::debug!("a request by DNS for a newer certificate is nobody's"),
            Err(error) => {
                tracing::debug!(%error, "a request by DNS for a newer certificate is refused")
            }
        }
        tokio::time::sleep(RENEWAL_BY_DNS_PAUSE).await;
    }
}

/// Turns the ring into a zone.
struct Publisher {
    authority: SharedAuthority,
    domain: String,
    address: SocketAddr,
    orders: mpsc::Receiver<Order>,
}

impl Publisher {
    async fn build(&self) -> Result<(u64, hickory_server::zone_handler::Catalog), ServerError> {
        let zone = self.authority.with(|authority| authority.zone()).await?;
        let catalog = dns::build(&self.domain, self.address, zone.serial, &zone.records)?;
        Ok((zone.generation, catalog))
    }

    async fn keep_current(mut self, zone: LiveZone, mut published: u64) {
        let mut tick = tokio::time::interval(REFRESH);
        loop {
            let order = tokio::select! {
                _ = tick.tick() => None,
                order = self.orders.recv() => order,
            };
            // One task answers and publishes, so that an answer shows that publishing goes on.
            match order {
                None => match self.generation().await {
                    Some(generation) if generation != published => {
                        self.publish(&zone, &mut published, false).await;
                    }
                    _ => {}
                },
                Some(Order::Publish(reply)) => {
                    let done = self.publish(&zone, &mut published, true).await;
                    // Who has asked may have gone.
                    reply.send(done).ok();
                }
                Some(Order::Look(reply)) => {
                    reply.send(self.look().await).ok();
                }
            }
        }
    }

    /// The number of the ring's latest change; none if it cannot be read.
    async fn generation(&self) -> Option<u64> {
        let read = self.authority.with(|authority| authority.generation());
        match read.await {
            Ok(generation) => Some(generation),
            Err(error) => {
                tracing::error!(%error, "the ring could not be read");
                None
            }
        }
    }

    async fn publish(&self, zone: &LiveZone, published: &mut u64, ordered: bool) -> bool {
        match self.build().await {
            Ok((generation, catalog)) => {
                zone.replace(catalog);
                *published = generation;
                tracing::info!(generation, ordered, "zone published");
                true
            }
            Err(error) => {
                tracing::error!(%error, "the zone stays as it was");
                false
            }
        }
    }

    async fn look(&self) -> Option<String> {
        let members = self.authority.with(|authority| authority.members());
        let members = members.await.ok()?;
        Some(format!(
            "authority of {}: {} members, DNS at {}",
            self.domain,
            members.len(),
            self.address
        ))
    }
}
