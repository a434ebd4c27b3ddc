//! QUIC connections with other members, straight or over a link, and the services that are asked
//! for over them.
//!
//! The member that opens a stream writes one [`frame`] first. Its kind says which service the
//! stream is for: each has a range of kinds of its own and registers itself ([`StreamService`]).
//!
//! | kinds | service |
//! |---|---|
//! | 0 to 19 | transfers |
//! | 20 to 29 | services of members |
//! | 30 to 39 | messages |

mod accept;
mod dial;
pub(crate) mod frame;
mod race;
mod slot;

use std::sync::{Arc, Mutex, PoisonError};

use ringway_transport::quic::QuicEndpoint;

pub(crate) use self::accept::{Opened, Serving, StreamService};
pub(crate) use self::dial::DialError;
pub(crate) use self::race::RaceError;
use crate::member::MemberHandle;

/// Codes with which connections are closed, whichever service they are for.
pub(crate) mod code {
    /// Nothing is wrong.
    pub(crate) const DONE: u32 = 0;
    /// The peer did wrong.
    pub(crate) const FAILED: u32 = 1;
    /// The sender gives its transfer up.
    pub(crate) const GIVEN_UP: u32 = 2;
    /// The membership has ended.
    pub(crate) const REVOKED: u32 = 3;
    /// More connections of one member than it may have.
    pub(crate) const TOO_MANY: u32 = 4;
}

/// Both QUIC endpoints of a member, and what is served over them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    endpoint: Arc<QuicEndpoint>,
    /// The endpoint whose connections go over links, whatever transport those use.
    over_links: Arc<QuicEndpoint>,
    member: MemberHandle,
    services: Mutex<Vec<Arc<dyn StreamService>>>,
}

impl Connections {
    pub(crate) fn new(
        [endpoint, over_links]: [Arc<QuicEndpoint>; 2],
        member: MemberHandle,
    ) -> Connections {
        let inner = Inner {
            endpoint,
            over_links,
            member,
            services: Mutex::default(),
        };
        Connections {
            inner: Arc::new(inner),
        }
    }

    /// Streams whose first frame is of its kinds go to `service` from now on.
    pub(crate) fn register(&self, service: Arc<dyn StreamService>) {
        let services = self.inner.services.lock();
        services
            .unwrap_or_else(PoisonError::into_inner)
            .push(service);
    }

    /// Which service a stream is for.
    fn service_for(&self, kind: u32) -> Option<Arc<dyn StreamService>> {
        let services = self.inner.services.lock();
        let services = services.unwrap_or_else(PoisonError::into_inner);
        let found = services
            .iter()
            .find(|service| service.kinds().contains(&kind));
        found.map(Arc::clone)
    }
}
