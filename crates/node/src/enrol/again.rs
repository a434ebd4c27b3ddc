//! A home whose membership has ended joins again, by a new invite: configuration, history and
//! transfers stay.
//!
//! The key stays where the certificate has only run out, for those who had business with it. Else,
//! and if the authority wants it, the member gets another, beside the old one until it is a
//! member's.

use std::net::SocketAddr;
use std::path::Path;

use super::client::JoinError;
use super::load_identity;
use crate::certificate::RingId;
use crate::clock::unix_seconds;
use crate::config::Config;
use crate::directory::Directory;
use crate::home::{self, HomeError};
use crate::identity::{Identity, IdentityError};
use crate::state::{Membership, State};
use ringway_transport::{MemberId, Signer as _};

/// A membership that has ended.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) membership: Membership,
    revoked: bool,
}

impl Before {
    /// The membership of the home, if there was one. One that has not ended is refused, as far as
    /// is known here.
    pub(super) fn of(home: &Path, state: &State) -> Result<Option<Before>, JoinError> {
        let Some(membership) = state.membership()? else {
            return Ok(None);
        };
        let own = &membership.certificate;
        let statement = &membership.statement;
        let revoked = statement.revokes(own.serial()) && statement.heir(own.serial()).is_none();
        if revoked || own.not_after() <= unix_seconds() {
            let before = Before {
                membership,
                revoked,
            };
            return Ok(Some(before));
        }
        Err(JoinError::AlreadyMember {
            home: home.display().to_string(),
            name: own.name().to_string(),
            ring: membership.domain,
        })
    }

    /// As [`Before::of`]; DNS is asked whether the owner has ended it.
    pub(super) async fn look(home: &Path, state: &State) -> Result<Option<Before>, JoinError> {
        let refused = match Before::of(home, state) {
            Err(refused @ JoinError::AlreadyMember { .. }) => refused,
            known => return known,
        };
        let Some(membership) = state.membership()? else {
            return Err(refused);
        };
        let resolver = Config::load(home)?.node.resolver;
        let (ring, statement) = (membership.ring, membership.statement);
        let Ok(directory) = Directory::new(ring, &membership.domain, statement, resolver) else {
            return Err(refused);
        };
        directory.remember(state.forgotten(&ring)?);
        match directory.refresh_statement().await {
            Ok(Some(newer)) => state.set_statement(&newer, &directory.forgotten())?,
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "DNS says nothing of this member"),
        }
        Before::of(home, state)
    }

    /// Where it was reached, if it was a router.
    pub(super) fn listens(&self) -> Option<SocketAddr> {
        self.membership.certificate.address()
    }

    /// What is kept is one ring's.
    pub(super) fn check_ring(&self, home: &Path, ring: &RingId) -> Result<(), JoinError> {
        if self.membership.ring == *ring {
            return Ok(());
        }
        Err(JoinError::OtherRingsHome {
            home: home.display().to_string(),
            ring: self.membership.domain.clone(),
        })
    }
}

/// The key of a member that joins.
pub(super) struct JoiningKey<'a> {
    home: &'a Path,
    pub(super) identity: Identity,
    is_next: bool,
    made_now: bool,
}

impl JoiningKey<'_> {
    /// It is made first and kept, so that a join that was cut off can be repeated.
    pub(super) fn begin<'a>(
        home: &'a Path,
        before: Option<&Before>,
    ) -> Result<JoiningKey<'a>, IdentityError> {
        let key = |identity| JoiningKey {
            home,
            identity,
            is_next: false,
            made_now: false,
        };
        match before {
            None => Identity::load_or_create(&home::identity_path(home)).map(key),
            Some(Before { revoked: true, .. }) => JoiningKey::next(home),
            Some(before) => match load_identity(home, &before.membership.certificate)? {
                Some(identity) => Ok(key(identity)),
                None => JoiningKey::next(home),
            },
        }
    }

    fn next(home: &Path) -> Result<JoiningKey<'_>, IdentityError> {
        let path = home::next_identity_path(home);
        let made_now = !path.exists();
        Ok(JoiningKey {
            home,
            identity: Identity::load_or_create(&path)?,
            is_next: true,
            made_now,
        })
    }

    /// Another key, as the authority does not take this one; none if that would not help.
    pub(super) fn another(&self) -> Result<Option<Self>, IdentityError> {
        if self.made_now {
            return Ok(None);
        }
        if self.is_next {
            // Of a change of the key that was begun, or of an earlier membership.
            let path = home::next_identity_path(self.home);
            let removed = std::fs::remove_file(&path);
            removed.map_err(|source| HomeError::new("removing", &path, source))?;
        }
        JoiningKey::next(self.home).map(Some)
    }
}

/// The key in the home that is this member's, of the two that there may be.
pub(super) fn key_of(home: &Path, member: MemberId) -> Result<Option<Identity>, IdentityError> {
    for path in [home::identity_path(home), home::next_identity_path(home)] {
        match Identity::load(&path) {
            Ok(identity) if identity.member() == member => return Ok(Some(identity)),
            Ok(_) => {}
            Err(IdentityError::Home(error)) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
