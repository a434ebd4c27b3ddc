//! Services of members, and the streams that lead to them.
//!
//! | module | does |
//! |---|---|
//! | `resumable` | one end of a stream that outlives its connections; sans-IO |
//! | `record`, `wire` | what travels |
//! | `offers` | which service is offered to whom |
//! | `local` | the program at this end: a socket |
//! | `datagrams` | those of a UDP service, beside its stream |
//! | `drive` | one task for each stream: between the program and the connections |
//! | `pool` | connections to peers, by priority |
//! | `open`, `accept` | streams that begin here, and those of peers |
//! | `table` | the open streams |

mod accept;
mod datagrams;
mod drive;
mod local;
mod offers;
mod open;
mod pool;
mod record;
mod resumable;
mod table;
mod wire;

use std::sync::Arc;

use ringway_dtl::Priority;
use tokio::net::UnixStream;

use self::offers::Offers;
use self::pool::Pool;
use self::table::Table;
use crate::config::{ServiceConfig, ServiceName};
use crate::connection::Connections;
use crate::control::{ServiceStatus, StreamStatus};
use crate::directory::Directory;

pub(crate) use self::local::Handed;
pub(crate) use self::offers::Program;
pub(crate) use self::open::Ready;

/// Why a stream or a service was not had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The user asked for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// It did not work.
    #[error("{0}")]
    Failed(String),
}

impl StreamError {
    fn failed(error: impl std::fmt::Display) -> StreamError {
        StreamError::Failed(error.to_string())
    }
}

/// The services and streams of a member. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: Arc<Directory>,
    offers: Offers,
    table: Table,
    pool: Pool,
}

impl Streams {
    /// Serves what the configuration offers, once `connections` are started.
    pub(crate) fn start(
        connections: &Connections,
        directory: &Arc<Directory>,
        services: &[ServiceConfig],
    ) -> Streams {
        let inner = Arc::new(Inner {
            directory: Arc::clone(directory),
            offers: Offers::new(services),
            table: Table::default(),
            pool: Pool::new(connections.clone()),
        });
        let streams = Streams { inner };
        connections.register(Arc::new(accept::Service(Arc::downgrade(&streams.inner))));
        tokio::spawn(pool::look_after(Arc::downgrade(&streams.inner)));
        streams
    }

    /// Offers these from now on. Streams to what is no longer offered end.
    pub(crate) fn configure(&self, services: &[ServiceConfig]) {
        self.inner.offers.configure(services);
        self.withdraw();
    }

    /// Ends the streams of peers to services that they may not use, or no longer.
    fn withdraw(&self) {
        let offers = &self.inner.offers;
        self.inner.table.end_where(
            |entry| !entry.outgoing && !offers.is_offered(&entry.service, &entry.peer_name),
            "the service is offered no longer",
        );
    }

    /// Ends the streams with members that are none any more.
    pub(crate) fn end_unadmitted(&self) {
        let directory = &self.inner.directory;
        self.inner.table.end_where(
            |entry| directory.has_ended(&entry.peer),
            "the membership has ended",
        );
    }

    /// The services of this member, by name.
    pub(crate) fn own_services(&self) -> Vec<ServiceStatus> {
        let mut all = self.inner.offers.list();
        for service in &mut all {
            service.open = self
                .inner
                .table
                .count(|entry| !entry.outgoing && entry.service == service.name);
        }
        all
    }

    /// The open streams, oldest first.
    pub(crate) fn list(&self) -> Vec<StreamStatus> {
        self.inner.table.list()
    }

    /// Changes the priority of the stream with an id that begins so. None if there is no such.
    pub(crate) fn set_priority(
        &self,
        prefix: &str,
        priority: Priority,
    ) -> Result<Option<StreamStatus>, StreamError> {
        self.inner.table.set_priority(prefix, priority)
    }

    /// Offers what a program of this machine serves, for as long as the result lives.
    pub(crate) fn offer_program(
        &self,
        name: &str,
        from: Vec<String>,
        priority: Priority,
    ) -> Result<(Program, ServiceStatus), StreamError> {
        let name: ServiceName = name
            .parse()
            .map_err(|error| StreamError::Usage(format!("`{}`: {error}", name.escape_debug())))?;
        let program = self.inner.offers.add_program(name, from, priority)?;
        let name = program.name().to_owned();
        let mut all = self.own_services().into_iter();
        let status = all.find(|service| service.name == name);
        let status = status.ok_or_else(|| StreamError::failed("the service is gone"))?;
        Ok((program, status))
    }

    /// What is known of a stream that was announced to a program.
    pub(crate) fn announced(&self, id: &str) -> Result<StreamStatus, StreamError> {
        self.inner.offers.announced(id)
    }

    /// Gives a stream that was announced to the program at the other end of this socket.
    pub(crate) fn take(&self, id: &str, socket: UnixStream) -> Result<(), StreamError> {
        self.inner.offers.take(id, socket)
    }
}

/// What the fuzz targets read.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    record::decode_anything(data);
    wire::decode_anything(data);
}
