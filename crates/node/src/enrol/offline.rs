//! The new member's side of an admission by file.

use std::net::SocketAddr;
use std::path::Path;

use super::again::{Before, JoiningKey, key_of};
use super::client::{JoinError, Joined};
use super::place::RouterPlace;
use super::store::{Told, store};
use crate::admission::{AdmissionReply, AdmissionRequest};
use crate::certificate::{Name, RingId};
use crate::clock::unix_seconds;
use crate::home;
use crate::identity::IdentityError;
use crate::state::State;

/// Makes the request of the machine whose home is `home`: a router's if it listens somewhere, or is
/// reached somewhere (`advertise`). The home keeps a copy: only a reply to that is taken.
///
/// # Errors
/// When the home is a member's already, the name is none, or the address is none that others can
/// reach.
pub fn request(
    home: &Path,
    name: &str,
    listen: Option<SocketAddr>,
    advertise: Option<SocketAddr>,
) -> Result<AdmissionRequest, JoinError> {
    let name: Name = name.parse()?;
    let place = RouterPlace::of(listen, advertise)?;
    home::create_own_folder(home)?;
    let before = Before::of(home, &State::open(home)?)?;
    let identity = JoiningKey::begin(home, before.as_ref())?.identity;
    let listen = place.map(|place| place.advertised);
    let listen = listen.or(before.as_ref().and_then(Before::listens));
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(IdentityError::Random)?;
    let request = AdmissionRequest::new(&identity, name, listen, nonce, unix_seconds());
    home::write_private(&home::request_path(home), request.as_bytes())?;
    Ok(request)
}

/// Takes the owner's reply in: with it the machine is a member of `ring`, which must be the one
/// that the reply is from.
///
/// # Errors
/// See [`JoinError`]; nothing has been stored then.
pub fn complete(home: &Path, reply: &AdmissionReply, ring: &RingId) -> Result<Joined, JoinError> {
    if reply.ring() != *ring {
        return Err(JoinError::OtherRing {
            reply: reply.ring().to_string(),
        });
    }
    let path = home::request_path(home);
    let pending = match home::read_private(&path) {
        Ok(bytes) => AdmissionRequest::decode(&bytes)?,
        Err(error) if error.is_missing() => {
            let home = home.display().to_string();
            return Err(JoinError::NoRequest { home });
        }
        Err(error) => return Err(error.into()),
    };
    let state = State::open(home)?;
    let before = Before::of(home, &state)?;
    let before = before.as_ref();
    let _lock = before.map(|_| home::lock(home)).transpose()?;
    if let Some(before) = before {
        before.check_ring(home, ring)?;
    }
    let certified = reply.granted.certificate.member();
    if !reply.answers(&pending) || certified != pending.member() {
        return Err(JoinError::OtherRequest);
    }
    if key_of(home, certified)?.is_none() {
        return Err(JoinError::OtherRequest);
    }
    // Where its user said that it listens is not kept: at its own address, or at all.
    let told = Told {
        before,
        listen: None,
    };
    let joined = store(home, &state, told, ring, reply.granted.clone())?;
    // It has done its work; were it to stay, a later reply to it would still find a member here.
    std::fs::remove_file(&path).ok();
    Ok(joined)
}
