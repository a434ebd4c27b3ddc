//! The authority's two servers, DNS and enrolment, and what keeps the zone up to date.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::dns::{self, LiveZone};
use super::serving::{Bound, Kind, ServerError, Serving};
use super::{Authority, AuthorityError, Renewed, RingInfo};
use super::{former, kept};
use crate::limits::{RENEWAL_BY_DNS_PAUSE, RENEWALS_BY_DNS};
use crate::machine::{self, Changes};
use crate::renewal::by_dns;
use crate::sso::{Refused, Settings, SettingsError, SignIns};

/// How often the server looks whether a command has changed the ring.
const REFRESH: Duration = Duration::from_millis(200);

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
    dns: Bound,
    enrolment: Bound,
    dns_address: SocketAddr,
    enrol_address: SocketAddr,
    domain: String,
    orders: Orders,
    sign_ins: SignIns,
}

/// Asks the running servers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    orders: mpsc::Sender<Order>,
    sign_ins: SignIns,
}

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
        let sent = self.orders.send(Order::Publish(reply)).await;
        sent.is_ok() && answer.await.unwrap_or_default()
    }

    /// A line about the authority, from the task that keeps its zone current: while that stands
    /// still this waits, and if the ring cannot be read there is none.
    pub async fn beat(&self) -> Option<String> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Look(reply)).await.ok()?;
        answer.await.ok()?
    }

    /// From now on people may join by signing in as the settings say; none: no person. Sign-ins
    /// that have begun by other settings are closed.
    ///
    /// # Errors
    /// When the settings cannot be used: then nothing is changed.
    pub fn set_sign_in(&self, settings: Option<Settings>) -> Result<(), SettingsError> {
        self.sign_ins.set(settings)
    }

    /// Whether people can sign in now, as far as the issuer says. Without an issuer all is well.
    ///
    /// # Errors
    /// What they would be answered.
    pub async fn check_sign_in(&self) -> Result<(), Refused> {
        self.sign_ins.check().await
    }
}

impl Server {
    /// Binds both servers where the ring's authority is to listen. On a machine that has started a
    /// moment ago it waits for those addresses.
    ///
    /// # Errors
    /// When an address cannot be listened at.
    pub async fn bind(authority: Authority) -> Result<Server, ServerError> {
        crate::open_files::raise_limit();
        let ring = authority.ring();
        let (dns, enrol) = (ring.dns_listen, ring.enrol_listen);
        machine::await_addresses(&[dns, enrol], &mut Changes::watch()).await;
        let (dns, dns_address) = bound(Kind::Dns, dns).await?;
        let (enrolment, enrol_address) = bound(Kind::Enrolment, enrol).await?;
        Ok(Server {
            authority: SharedAuthority(Arc::new(Mutex::new(authority))),
            dns,
            enrolment,
            dns_address,
            enrol_address,
            domain: ring.domain,
            orders: Orders::default(),
            sign_ins: SignIns::default(),
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
        ServerHandle {
            orders: self.orders.sender.clone(),
            sign_ins: self.sign_ins.clone(),
        }
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
            orders: self.orders.receiver,
        };
        let (built, catalog) = publisher.build().await?;
        let (renewals, asked) = mpsc::channel(RENEWALS_BY_DNS);
        let zone = LiveZone::new(&publisher.domain, catalog, renewals)?;
        let mut serving = Serving::new(zone.clone(), self.authority.clone(), self.sign_ins);
        for (what, address, bound) in [
            ("DNS", self.dns_address, self.dns),
            ("enrolment", self.enrol_address, self.enrolment),
        ] {
            let started = serving.start(bound);
            started.map_err(|source| ServerError::Listen {
                what,
                address,
                source,
            })?;
        }
        // Its address may have been changed since it was bound: the zone has the new one already.
        serving.follow(&built.ring).await;
        let mut tasks = JoinSet::new();
        tasks.spawn(kept::keep_current(self.authority.clone()));
        tasks.spawn(former::tell(self.authority.clone()));
        tasks.spawn(renew_by_dns(self.authority, asked));
        tokio::select! {
            () = shutdown => {}
            () = publisher.keep_current(&zone, &mut serving, built.generation) => {}
        }
        tasks.shutdown().await;
        serving.end().await;
        Ok(())
    }
}

/// The sockets, and where they are bound.
async fn bound(kind: Kind, address: SocketAddr) -> Result<(Bound, SocketAddr), ServerError> {
    let bound = Bound::at(kind, address).await?;
    let at = bound.address().unwrap_or(address);
    Ok((bound, at))
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
    orders: mpsc::Receiver<Order>,
}

/// What a zone was built of.
struct Built {
    generation: u64,
    ring: RingInfo,
}

impl Publisher {
    async fn build(&self) -> Result<(Built, hickory_server::zone_handler::Catalog), ServerError> {
        let read = |authority: &mut Authority| {
            authority.store.read_options()?;
            Ok((authority.zone()?, authority.ring()))
        };
        let (zone, ring) = self.authority.with(read).await?;
        let catalog = dns::build(&self.domain, &ring.dns, zone.serial, &zone.records)?;
        let generation = zone.generation;
        Ok((Built { generation, ring }, catalog))
    }

    async fn keep_current(mut self, zone: &LiveZone, serving: &mut Serving, mut published: u64) {
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
                        self.publish(zone, serving, &mut published, false).await;
                    }
                    _ => {}
                },
                Some(Order::Publish(reply)) => {
                    let done = self.publish(zone, serving, &mut published, true).await;
                    // Who has asked may have gone.
                    reply.send(done).ok();
                }
                Some(Order::Look(reply)) => {
                    reply.send(self.look(serving).await).ok();
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

    async fn publish(
        &self,
        zone: &LiveZone,
        serving: &mut Serving,
        published: &mut u64,
        ordered: bool,
    ) -> bool {
        match self.build().await {
            Ok((Built { generation, ring }, catalog)) => {
                zone.replace(catalog);
                *published = generation;
                // The zone first: it says where to ask from now on.
                serving.follow(&ring).await;
                tracing::info!(generation, ordered, "zone published");
                true
            }
            Err(error) => {
                tracing::error!(%error, "the zone stays as it was");
                false
            }
        }
    }

    async fn look(&self, serving: &Serving) -> Option<String> {
        let members = self.authority.with(|authority| authority.members());
        let members = members.await.ok()?;
        Some(format!(
            "authority of {}: {} members, DNS at {}",
            self.domain,
            members.len(),
            serving.dns()?
        ))
    }
}
