//! Whom to ask: a DNS server of the configuration, or those of the system, which change with its
//! network and which a machine that has just started may not have yet.
//!
//! Where the ring's owner has stated that the server of the configuration is at another place now,
//! that place is asked instead.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;

use super::DirectoryError;
use crate::endpoint::Endpoint;
use crate::limits::NAME_SERVER_RESOLVED;
use crate::statement::Statement;

/// The resolver, as far as there is one.
#[derive(Debug)]
pub(super) struct Resolving {
    /// As the configuration says.
    configured: Option<Endpoint>,
    /// Whom to ask instead, as the ring's owner has stated.
    moved: Mutex<Option<Endpoint>>,
    current: Mutex<Option<Current>>,
}

#[derive(Debug)]
struct Current {
    resolver: TokioResolver,
    /// When the server's host name is looked up again; none for an address.
    until: Option<Instant>,
}

impl Resolving {
    pub(super) fn new(configured: Option<Endpoint>) -> Result<Resolving, DirectoryError> {
        let address = configured.as_ref().and_then(Endpoint::address);
        let is_named = configured.is_some() && address.is_none();
        // A host name is looked up when the first question is asked.
        let made = (!is_named).then(|| resolver(address.as_slice()));
        let current = match (made, address) {
            (Some(Err(error)), Some(_)) => return Err(error),
            (Some(Err(error)), None) => {
                tracing::warn!(%error, "no DNS server is known yet: the daemon goes on, and asks once there is one");
                None
            }
            (Some(Ok(resolver)), _) => Some(Current {
                resolver,
                until: None,
            }),
            (None, _) => None,
        };
        Ok(Resolving {
            configured,
            moved: Mutex::default(),
            current: Mutex::new(current),
        })
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom to ask now; none: the system's servers.
    pub(super) fn server(&self) -> Option<Endpoint> {
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.as_ref().or(self.configured.as_ref()).cloned()
    }

    /// Asks where the owner has stated that the server of the configuration is now. One that the
    /// owner never had is the user's own, and stays.
    pub(super) fn follow(&self, statement: &Statement) {
        let Some((contact, configured)) = statement.contact().zip(self.configured.as_ref()) else {
            return;
        };
        let has_moved = contact.former.contains(configured) && contact.dns != *configured;
        let to = has_moved.then(|| contact.dns.clone());
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        if *moved != to {
            if let Some(to) = &to {
                tracing::info!(%configured, %to, "the ring's DNS is at another address, as its owner has stated: that one is asked; `resolver` in ringway.toml may say so");
            }
            *moved = to;
            *self.current() = None;
        }
    }

    pub(super) async fn resolver(&self) -> Result<TokioResolver, DirectoryError> {
        let now = Instant::now();
        let known = self.current().as_ref().map(|current| {
            let fresh = current.until.is_none_or(|until| now < until);
            (current.resolver.clone(), fresh)
        });
        if let Some((resolver, true)) = known {
            return Ok(resolver);
        }
        let server = self.server();
        let is_named = server
            .as_ref()
            .is_some_and(|server| server.name().is_some());
        let until = is_named.then(|| now + NAME_SERVER_RESOLVED);
        let resolver = match (resolver_at(server.as_ref()).await, known) {
            (Ok(resolver), _) => resolver,
            // What the name stood for a moment ago may answer still.
            (Err(error), Some((resolver, _))) => {
                tracing::debug!(%error, "the DNS server's host name is not found");
                resolver
            }
            (Err(error), None) => return Err(error),
        };
        *self.current() = Some(Current {
            resolver: resolver.clone(),
            until,
        });
        Ok(resolver)
    }

    /// The system's servers are read again for the next question, and a host name is looked up.
    pub(super) fn forget(&self) {
        let address = self.server().and_then(|server| server.address());
        if address.is_none() {
            *self.current() = None;
        }
    }
}

/// A resolver that asks `server` where that is now, or those of the system.
pub(crate) async fn resolver_at(
    server: Option<&Endpoint>,
) -> Result<TokioResolver, DirectoryError> {
    let Some(server) = server else {
        return resolver(&[]);
    };
    let found = server.resolve().await;
    let found = found
        .map_err(|error| DirectoryError::Resolver(format!("{server} is not found: {error}")))?;
    resolver(&found.all())
}

/// A resolver that asks these servers, or those of the system if there are none.
pub(crate) fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, DirectoryError> {
    let failed = |error: NetError| DirectoryError::Resolver(error.to_string());
    let mut builder = if servers.is_empty() {
        TokioResolver::builder_tokio().map_err(failed)?
    } else {
        let servers = servers.iter().map(|server| {
            let mut udp = ConnectionConfig::udp();
            udp.port = server.port();
            let mut tcp = ConnectionConfig::tcp();
            tcp.port = server.port();
            NameServerConfig::new(server.ip(), true, vec![udp, tcp])
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    options.timeout = Duration::from_secs(2);
    options.attempts = 2;
    // Our own cache knows better: a certificate is valid until it is revoked, an absence only
    // briefly.
    options.cache_size = 0;
    builder.build().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::statement::{Contact, Parameters, Serials};

    fn stated(contact: Option<&Contact>) -> Statement {
        let owner = Identity::generate().unwrap();
        let (parameters, serials) = (Parameters::default(), Serials::default());
        Statement::issue_with_contact(&owner, 2, parameters, serials, contact)
    }

    #[tokio::test]
    async fn only_the_owners_earlier_servers_are_followed() {
        let [old, older, new, own] = [
            "192.0.2.1:53",
            "192.0.2.2:53",
            "ring.example.org:53",
            "127.0.0.1:53",
        ]
        .map(|text| text.parse::<Endpoint>().unwrap());
        let contact = Contact {
            dns: new.clone(),
            enrol: old.clone(),
            former: vec![old.clone(), older.clone()],
        };
        for (configured, asked) in [
            (Some(&old), Some(&new)),
            (Some(&older), Some(&new)),
            (Some(&new), Some(&new)),
            (Some(&own), Some(&own)),
            (None, None),
        ] {
            let resolving = Resolving::new(configured.cloned()).unwrap();
            resolving.follow(&stated(Some(&contact)));
            assert_eq!(resolving.server().as_ref(), asked);
        }
        // Back at the first address.
        let back = Contact {
            dns: old.clone(),
            former: vec![new, old.clone()],
            ..contact.clone()
        };
        let resolving = Resolving::new(Some(old.clone())).unwrap();
        resolving.follow(&stated(Some(&contact)));
        resolving.follow(&stated(Some(&back)));
        assert_eq!(resolving.server(), Some(old));
    }
}
