//! Whom to ask: a DNS server of the configuration, or those of the system, which change with its
//! network and which a machine that has just started may not have yet.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;

use super::DirectoryError;

/// The resolver, as far as there is one.
#[derive(Debug)]
pub(super) struct Resolving {
    server: Option<SocketAddr>,
    current: Mutex<Option<TokioResolver>>,
}

impl Resolving {
    pub(super) fn new(server: Option<SocketAddr>) -> Result<Resolving, DirectoryError> {
        let resolving = Resolving {
            server,
            current: Mutex::default(),
        };
        match (resolving.resolver(), server) {
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => {
                tracing::warn!(%error, "no DNS server is known yet: the daemon goes on, and asks once there is one");
            }
            (Ok(_), _) => {}
        }
        Ok(resolving)
    }

    fn current(&self) -> MutexGuard<'_, Option<TokioResolver>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn resolver(&self) -> Result<TokioResolver, DirectoryError> {
        let mut current = self.current();
        if let Some(resolver) = &*current {
            return Ok(resolver.clone());
        }
        let made = resolver(self.server)?;
        Ok(current.insert(made).clone())
    }

    /// The system's servers are read again for the next question.
    pub(super) fn forget(&self) {
        if self.server.is_none() {
            *self.current() = None;
        }
    }
}

/// A resolver that asks `server`, or those of the system.
pub(crate) fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, DirectoryError> {
    let failed = |error: NetError| DirectoryError::Resolver(error.to_string());
    let mut builder = match server {
        Some(server) => {
            let mut udp = ConnectionConfig::udp();
            udp.port = server.port();
            let mut tcp = ConnectionConfig::tcp();
            tcp.port = server.port();
            let server = NameServerConfig::new(server.ip(), true, vec![udp, tcp]);
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
        None => TokioResolver::builder_tokio().map_err(failed)?,
    };
    let options = builder.options_mut();
    options.timeout = Duration::from_secs(2);
    options.attempts = 2;
    // Our own cache knows better: a certificate is valid until it is revoked, an absence only
    // briefly.
    options.cache_size = 0;
    builder.build().map_err(failed)
}
