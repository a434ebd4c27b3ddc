//! What a member keeps of its enrolment: with it on disk the home is a member's.

use std::net::SocketAddr;
use std::path::Path;

use super::again::Before;
use super::client::{JoinError, Joined};
use super::place::RouterPlace;
use crate::admission::Granted;
use crate::certificate::RingId;
use crate::clock::unix_seconds;
use crate::config::Config;
use crate::home;
use crate::state::{Membership, State};

/// What a home that joins knows beside the owner's grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    /// The membership that it had.
    pub(super) before: Option<&'a Before>,
    /// Where a router is to listen, as its user has said.
    pub(super) listen: Option<SocketAddr>,
}

/// Makes the home a member's; of one that was one before, all else stays.
pub(super) fn store(
    home: &Path,
    state: &State,
    Told { before, listen }: Told<'_>,
    ring: &RingId,
    granted: Granted,
) -> Result<Joined, JoinError> {
    let Granted {
        domain,
        certificate,
        mut statement,
        routers,
        dns,
    } = granted;
    certificate.check_time(unix_seconds())?;
    if before.is_none() || !home::config_path(home).exists() {
        let place = certificate.address().map(RouterPlace::advertised);
        let listen = listen.or(place.map(|place| place.listen));
        Config::write_new(home, &dns, listen)?;
    } else if let Some((from, to)) = before
        .and_then(Before::listens)
        .zip(certificate.address())
        .filter(|(from, to)| from != to)
    {
        Config::move_listen(home, from, to)?;
    }
    if let Some(before) = before
        && before.membership.statement.number() > statement.number()
    {
        statement = before.membership.statement.clone();
    }
    for router in &routers {
        state.remember_router(router)?;
    }
    let joined = Joined::of(&certificate, &domain, before.is_some());
    // With a membership on disk the member has joined.
    let membership = Membership {
        ring: *ring,
        domain,
        certificate,
        statement,
    };
    state.set_membership(&membership)?;
    // Another key takes the place of the one before; a start would do it as well.
    super::load_identity(home, &membership.certificate)?;
    Ok(joined)
}
