//! The authority's two servers, DNS and enrolment, and what keeps the zone up to date.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc;
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
        })
    }

    /// Where DNS is answered.
    #[must_use]
    pub fn dns_address(&self) -> SocketAddr {
        self.dns_address
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
}

impl Publisher {
    async fn build(&self) -> Result<(u64, hickory_server::zone_handler::Catalog), ServerError> {
        let zone = self.authority.with(|authority| authority.zone()).await?;
        let catalog = dns::build(&self.domain, self.address, zone.serial, &zone.records)?;
        Ok((zone.generation, catalog))
    }

    async fn keep_current(self, zone: LiveZone, mut published: u64) {
        let mut tick = tokio::time::interval(REFRESH);
        loop {
            tick.tick().await;
            match self
                .authority
                .with(|authority| authority.generation())
                .await
            {
                Ok(generation) if generation == published => continue,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, "the ring could not be read");
                    continue;
                }
            }
            match self.build().await {
                Ok((generation, catalog)) => {
                    zone.replace(catalog);
                    published = generation;
                    tracing::info!(generation, "zone published");
                }
                Err(error) => tracing::error!(%error, "the zone stays as it was"),
            }
        }
    }
}
