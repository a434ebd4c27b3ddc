//! Which services there are, and who may use them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringway_dtl::Priority;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::StreamError;
use super::wire::Offered;
use crate::config::{ServiceConfig, ServiceName, ServiceTarget, fits_pattern};
use crate::control::{ServiceStatus, StreamStatus};
use crate::limits::{SERVICE_STREAMS, SERVICE_STREAMS_PER_PEER, SERVICES};

/// Where the streams of a service lead.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A socket of this machine.
    Socket(ServiceTarget),
    /// A program that serves, by the control socket.
    Program(mpsc::Sender<Announced>),
}

/// A service.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) target: Target,
    from: Vec<String>,
    pub(super) priority: Priority,
    pub(super) max: usize,
    pub(super) max_per_peer: usize,
    /// None: no limit.
    pub(super) idle: Option<Duration>,
    pub(super) time: Option<Duration>,
}

impl Offer {
    fn of(service: &ServiceConfig) -> Offer {
        let limit = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
        let count = |most: u64| usize::try_from(most).unwrap_or(usize::MAX);
        Offer {
            target: Target::Socket(service.to.clone()),
            from: service.from.clone(),
            // Checked when the file was read.
            priority: Priority::new(service.priority).unwrap_or(Priority::NORMAL),
            max: count(service.max),
            max_per_peer: count(service.max_per_peer),
            idle: limit(service.idle),
            time: limit(service.time),
        }
    }

    fn is_for(&self, peer: &str) -> bool {
        self.from.iter().any(|pattern| fits_pattern(pattern, peer))
    }

    fn protocol(&self) -> &'static str {
        match &self.target {
            Target::Socket(target) => target.protocol(),
            Target::Program(_) => "program",
        }
    }

    fn port(&self) -> Option<u16> {
        match &self.target {
            Target::Socket(target) => target.port(),
            Target::Program(_) => None,
        }
    }
}

/// A stream for a program that serves.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    /// By which the program takes it.
    pub(crate) id: String,
    /// Who opens it.
    pub(crate) peer: String,
}

/// A stream that waits for the program.
#[derive(Debug)]
struct Waiting {
    status: StreamStatus,
    taken: oneshot::Sender<UnixStream>,
}

#[derive(Debug, Default)]
struct Known {
    configured: BTreeMap<String, Offer>,
    programs: BTreeMap<String, Offer>,
    waiting: BTreeMap<String, Waiting>,
}

impl Known {
    fn all(&self) -> impl Iterator<Item = (&String, &Offer)> {
        self.configured.iter().chain(&self.programs)
    }
}

/// The services of this member.
#[derive(Debug)]
pub(super) struct Offers {
    known: Arc<Mutex<Known>>,
}

/// A service that lasts as long as the program that serves.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    known: Arc<Mutex<Known>>,
    streams: mpsc::Receiver<Announced>,
}

impl Program {
    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The next stream that a peer opens.
    pub(crate) async fn next(&mut self) -> Option<Announced> {
        self.streams.recv().await
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        lock(&self.known).programs.remove(&self.name);
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Offers {
    pub(super) fn new(services: &[ServiceConfig]) -> Offers {
        let offers = Offers {
            known: Arc::default(),
        };
        offers.configure(services);
        offers
    }

    pub(super) fn configure(&self, services: &[ServiceConfig]) {
        let configured = services
            .iter()
            .map(|service| (service.name.clone(), Offer::of(service)));
        lock(&self.known).configured = configured.collect();
    }

    /// The service of this name, if the peer may use it. Whether there is one that it may not use
    /// makes no difference.
    pub(super) fn find(&self, name: &str, peer: &str) -> Option<Offer> {
        let known = lock(&self.known);
        let offer = known
            .configured
            .get(name)
            .or_else(|| known.programs.get(name));
        offer.filter(|offer| offer.is_for(peer)).cloned()
    }

    pub(super) fn is_offered(&self, name: &str, peer: &str) -> bool {
        self.find(name, peer).is_some()
    }

    /// What a peer may use.
    pub(super) fn offered_to(&self, peer: &str) -> Vec<Offered> {
        let known = lock(&self.known);
        let fitting = known.all().filter(|(_, offer)| offer.is_for(peer));
        let listed = fitting.map(|(name, offer)| Offered {
            name: name.clone(),
            protocol: offer.protocol().to_owned(),
            port: offer.port(),
            priority: offer.priority.get(),
        });
        listed.take(SERVICES).collect()
    }

    /// All of them, by name.
    pub(super) fn list(&self) -> Vec<ServiceStatus> {
        let known = lock(&self.known);
        let mut all: Vec<ServiceStatus> = known
            .all()
            .map(|(name, offer)| ServiceStatus {
                name: name.clone(),
                peer: None,
                protocol: offer.protocol().to_owned(),
                to: match &offer.target {
                    Target::Socket(target) => Some(target.to_string()),
                    Target::Program(_) => None,
                },
                port: offer.port(),
                from: offer.from.clone(),
                priority: offer.priority.get(),
                max: offer.max,
                open: 0,
            })
            .collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// A service that a program serves from now on.
    pub(super) fn add_program(
        &self,
        name: ServiceName,
        from: Vec<String>,
        priority: Priority,
    ) -> Result<Program, StreamError> {
        let name = name.as_str().to_owned();
        let mut known = lock(&self.known);
        if known.configured.contains_key(&name) || known.programs.contains_key(&name) {
            return Err(StreamError::Usage(format!(
                "there is a service `{name}` already: `ringway services` lists them"
            )));
        }
        if known.all().count() >= SERVICES {
            return Err(StreamError::Failed(format!(
                "there are {SERVICES} services already: end some"
            )));
        }
        let (announce, streams) = mpsc::channel(SERVICE_STREAMS_PER_PEER);
        let offer = Offer {
            target: Target::Program(announce),
            from,
            priority,
            max: SERVICE_STREAMS,
            max_per_peer: SERVICE_STREAMS_PER_PEER,
            idle: None,
            time: None,
        };
        known.programs.insert(name.clone(), offer);
        Ok(Program {
            name,
            known: Arc::clone(&self.known),
            streams,
        })
    }

    /// Keeps a stream until the program takes it.
    pub(super) fn wait_for_program(&self, status: StreamStatus) -> oneshot::Receiver<UnixStream> {
        let (taken, comes) = oneshot::channel();
        let mut known = lock(&self.known);
        known
            .waiting
            .retain(|_, waiting| !waiting.taken.is_closed());
        known
            .waiting
            .insert(status.id.clone(), Waiting { status, taken });
        comes
    }

    pub(super) fn announced(&self, id: &str) -> Result<StreamStatus, StreamError> {
        let known = lock(&self.known);
        let waiting = known.waiting.get(id);
        let waiting = waiting.filter(|waiting| !waiting.taken.is_closed());
        waiting
            .map(|waiting| waiting.status.clone())
            .ok_or_else(gone)
    }

    pub(super) fn take(&self, id: &str, socket: UnixStream) -> Result<(), StreamError> {
        let waiting = lock(&self.known).waiting.remove(id).ok_or_else(gone)?;
        waiting.taken.send(socket).map_err(|_| gone())
    }
}

fn gone() -> StreamError {
    StreamError::Failed("no stream with this id waits to be taken any more".to_owned())
}
