//! Whose keys are accepted.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::key::PeerKey;
use crate::member::MemberId;
use crate::quic::{Allow, Expected};

/// Whose keys are accepted. A peer has to prove its key in any case.
#[derive(Clone)]
#[non_exhaustive]
pub enum Trust {
    /// Every key: look at [`Connection::peer_key`](super::Connection::peer_key).
    Anyone,
    /// One of these.
    Keys(BTreeSet<PeerKey>),
    /// Those that the function says yes to. It is called in every handshake, before the peer has
    /// proved that the key is its own: it must not block, and should remember nothing.
    Ask(Arc<dyn Fn(&PeerKey) -> bool + Send + Sync>),
}

impl Trust {
    /// No key: for an endpoint that accepts no connections.
    #[must_use]
    pub const fn none() -> Trust {
        Trust::Keys(BTreeSet::new())
    }

    /// Those that the function says yes to: [`Trust::Ask`].
    pub fn ask(accepts: impl Fn(&PeerKey) -> bool + Send + Sync + 'static) -> Trust {
        Trust::Ask(Arc::new(accepts))
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Trust::Keys(keys) if keys.is_empty())
    }

    fn accepts(&self, key: &PeerKey) -> bool {
        match self {
            Trust::Anyone => true,
            Trust::Keys(keys) => keys.contains(key),
            Trust::Ask(accepts) => accepts(key),
        }
    }

    pub(super) fn allow(self) -> Allow {
        Arc::new(move |member: &MemberId| self.accepts(&PeerKey::from(*member)))
    }

    pub(super) fn expected(self) -> Expected {
        let only = match &self {
            Trust::Keys(keys) if keys.len() == 1 => keys.first().copied(),
            _ => None,
        };
        match only {
            Some(key) => Expected::Member(key.member()),
            None => Expected::Anybody(self.allow()),
        }
    }
}

impl From<PeerKey> for Trust {
    fn from(key: PeerKey) -> Trust {
        Trust::from_iter([key])
    }
}

impl<const N: usize> From<[PeerKey; N]> for Trust {
    fn from(keys: [PeerKey; N]) -> Trust {
        Trust::from_iter(keys)
    }
}

impl FromIterator<PeerKey> for Trust {
    fn from_iter<I: IntoIterator<Item = PeerKey>>(keys: I) -> Trust {
        Trust::Keys(keys.into_iter().collect())
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Anyone => f.write_str("Anyone"),
            Trust::Keys(keys) => f.debug_tuple("Keys").field(keys).finish(),
            Trust::Ask(_) => f.write_str("Ask"),
        }
    }
}
