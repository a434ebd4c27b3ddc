//! The endpoints of QUIC: one on a UDP port of its own, one whose datagrams links carry.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ringway_transport::MemberId;
use ringway_transport::quic::{
    Allow, DatagramCarrier, QuicEndpoint, QuicError, QuicOptions, SharedCoupling,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::config::{NodeConfig, TransportName};
use crate::directory::Directory;
use crate::identity::Identity;
use crate::limits::LOOKED_UP;

/// QUIC for where no UDP passes: its datagrams are messages over links.
pub(super) fn bind_over_links(
    config: &NodeConfig,
    identity: &Identity,
    directory: &Arc<Directory>,
    coupling: Option<SharedCoupling>,
) -> Result<(QuicEndpoint, DatagramCarrier), QuicError> {
    let known = Arc::clone(directory);
    let allow = Arc::new(move |member: &MemberId| known.cached(member).is_some());
    let options = QuicOptions {
        congestion: config.algorithm.congestion(),
        coupling,
        ..QuicOptions::default()
    };
    QuicEndpoint::over_messages(identity.signing_key(), allow, options)
}

/// Lets in those who are known to be members. Of others DNS is asked, so that the next attempt
/// may succeed: a member's first packet to us may come over QUIC.
fn allow_known(directory: &Arc<Directory>) -> Allow {
    let directory = Arc::clone(directory);
    let slots = Arc::new(Semaphore::new(LOOKED_UP));
    Arc::new(move |member: &MemberId| {
        if directory.cached(member).is_some() {
            return true;
        }
        let slot = Arc::clone(&slots).try_acquire_owned();
        let (Ok(slot), Ok(runtime)) = (slot, Handle::try_current()) else {
            return false;
        };
        let (directory, member) = (Arc::clone(&directory), *member);
        runtime.spawn(async move {
            if let Err(error) = directory.find(&member.to_string()).await {
                tracing::debug!(%member, %error, "somebody unknown wants to connect");
            }
            drop(slot);
        });
        false
    })
}

/// A router's QUIC port is the one after its address; if that is taken the system chooses, as for a
/// leaf.
pub(super) fn bind_quic(
    config: &NodeConfig,
    identity: &Identity,
    listen: Option<SocketAddr>,
    directory: &Arc<Directory>,
    coupling: Option<&SharedCoupling>,
) -> Result<QuicEndpoint, QuicError> {
    let allow = allow_known(directory);
    let serves_quic = config.transports.contains(&TransportName::Quic);
    let accept = listen.is_some() && serves_quic;
    let options = || QuicOptions {
        accept,
        links: serves_quic,
        congestion: config.algorithm.congestion(),
        coupling: coupling.cloned(),
        ..QuicOptions::default()
    };
    let key = identity.signing_key();
    let Some(listen) = listen else {
        let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
        let any_v4 = SocketAddr::from(([0, 0, 0, 0], 0));
        return QuicEndpoint::bind(any, key, Arc::clone(&allow), options())
            .or_else(|_| QuicEndpoint::bind(any_v4, key, allow, options()));
    };
    let any_port = SocketAddr::new(listen.ip(), 0);
    let chosen = config
        .quic
        .unwrap_or_else(|| quic_port(listen).unwrap_or(any_port));
    QuicEndpoint::bind(chosen, key, Arc::clone(&allow), options()).or_else(|error| {
        if config.quic.is_some() {
            return Err(error);
        }
        tracing::info!(%error, "the system chooses the QUIC port");
        QuicEndpoint::bind(any_port, key, allow, options())
    })
}

/// The port after a router's own.
pub(super) fn quic_port(address: SocketAddr) -> Option<SocketAddr> {
    let port = address.port().checked_add(1)?;
    Some(SocketAddr::new(address.ip(), port))
}
