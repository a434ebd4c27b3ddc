//! Keys that programs make themselves.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::SigningKey;
use thiserror::Error;

use super::error::Error;
use crate::member::MemberId;

/// The private key of an endpoint (Ed25519). Keep it, and others know the program again.
#[derive(Clone)]
pub struct Key(SigningKey);

impl Key {
    /// A new key.
    ///
    /// # Errors
    /// [`Error::Setup`] if the system gives no random numbers.
    pub fn generate() -> Result<Key, Error> {
        let mut secret = zeroize::Zeroizing::new([0; 32]);
        getrandom::fill(secret.as_mut()).map_err(|error| Error::Setup {
            reason: error.to_string(),
        })?;
        Ok(Key::from_bytes(&secret))
    }

    /// The key with this secret: any 32 bytes that are hard to guess.
    #[must_use]
    pub fn from_bytes(secret: &[u8; 32]) -> Key {
        Key(SigningKey::from_bytes(secret))
    }

    /// The secret. Who has it can pretend to be this program.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// What others know this program by.
    #[must_use]
    pub fn peer_key(&self) -> PeerKey {
        PeerKey(self.0.verifying_key().to_bytes())
    }

    pub(super) const fn signing(&self) -> &SigningKey {
        &self.0
    }
}

impl fmt::Debug for Key {
    /// Never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(of {:?})", self.peer_key())
    }
}

/// The public key of an endpoint: who it is. 32 bytes; as text 52 characters of a-z and 2-7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey([u8; 32]);

impl PeerKey {
    /// The key with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> PeerKey {
        PeerKey(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) const fn member(&self) -> MemberId {
        MemberId(self.0)
    }
}

impl From<MemberId> for PeerKey {
    fn from(member: MemberId) -> PeerKey {
        PeerKey(member.0)
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.member().fmt(f)
    }
}

impl fmt::Debug for PeerKey {
    /// The first eight characters: enough to tell keys apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_string();
        write!(f, "PeerKey({})", text.get(..8).unwrap_or(&text))
    }
}

impl FromStr for PeerKey {
    type Err = InvalidPeerKey;

    /// Reads the 52 characters, in either case.
    fn from_str(text: &str) -> Result<PeerKey, InvalidPeerKey> {
        let member = text.parse::<MemberId>();
        member.map(PeerKey::from).map_err(|_| InvalidPeerKey {
            text: text.chars().take(60).collect(),
        })
    }
}

/// Text that is no [`PeerKey`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is no key: it takes 52 characters of a-z and 2-7")]
pub struct InvalidPeerKey {
    text: String,
}
