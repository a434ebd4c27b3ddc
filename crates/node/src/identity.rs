//! A member's key: Ed25519 to sign with, and the X25519 key derived from it for Noise.

use std::fmt;
use std::path::Path;

use ed25519_dalek::{SigningKey, VerifyingKey};
use ringway_transport::{MemberId, Signer};
use zeroize::Zeroizing;

use crate::core_dumps;
use crate::home::{self, HomeError};

/// Why an identity could not be loaded or made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file could not be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The file is not 32 bytes.
    #[error("{path} does not hold a key of 32 bytes but {found} bytes: restore it from a backup")]
    Malformed {
        /// The file.
        path: String,
        /// Its length in bytes.
        found: usize,
    },
    /// The operating system gave no randomness.
    #[error("the operating system gave no random bytes: {0}")]
    Random(getrandom::Error),
}

/// A member's secret key. Zeroised when dropped; never printed.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.member()).finish()
    }
}

impl Identity {
    /// A new key from the operating system's randomness.
    ///
    /// # Errors
    /// When the operating system gives none.
    pub fn generate() -> Result<Identity, IdentityError> {
        core_dumps::forbid();
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(secret.as_mut()).map_err(IdentityError::Random)?;
        Ok(Identity {
            key: SigningKey::from_bytes(&secret),
        })
    }

    /// Loads the key at `path`, which only its owner may be able to read.
    ///
    /// # Errors
    /// When the file is missing, open to others, or not a key.
    pub fn load(path: &Path) -> Result<Identity, IdentityError> {
        core_dumps::forbid();
        let secret = Zeroizing::new(home::read_private(path)?);
        let Ok(bytes) = <&[u8; 32]>::try_from(secret.as_slice()) else {
            let path = path.display().to_string();
            let found = secret.len();
            return Err(IdentityError::Malformed { path, found });
        };
        Ok(Identity {
            key: SigningKey::from_bytes(bytes),
        })
    }

    /// The key with this secret.
    pub(crate) fn from_secret(secret: &[u8; 32]) -> Identity {
        core_dumps::forbid();
        let key = SigningKey::from_bytes(secret);
        Identity { key }
    }

    /// Loads the key at `path`, or makes one and stores it there if there is none.
    ///
    /// # Errors
    /// As [`Identity::load`], or when the new key cannot be stored.
    pub fn load_or_create(path: &Path) -> Result<Identity, IdentityError> {
        match Identity::load(path) {
            Err(IdentityError::Home(error)) if error.is_missing() => {
                let identity = Identity::generate()?;
                let secret = Zeroizing::new(identity.key.to_bytes());
                home::write_private(path, secret.as_ref())?;
                Ok(identity)
            }
            loaded => loaded,
        }
    }

    /// The Ed25519 key, for TLS.
    #[must_use]
    pub fn signing_key(&self) -> &SigningKey {
        &self.key
    }

    /// The X25519 secret that belongs to [`noise_public`] of this member.
    ///
    /// The conversion is that of RFC 8032 §5.1.5 step 2 and of libsodium's
    /// `crypto_sign_ed25519_sk_to_curve25519`.
    #[must_use]
    pub fn noise_secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.key.to_scalar_bytes())
    }
}

impl Signer for Identity {
    fn member(&self) -> MemberId {
        self.key.member()
    }

    fn sign(&self, context: &'static [u8], message: &[u8]) -> [u8; 64] {
        self.key.sign(context, message)
    }
}

/// The X25519 public key of `member`, or none if the id is not a point of the curve.
///
/// RFC 7748 §4.1 gives the map between the two forms of the curve.
#[must_use]
pub fn noise_public(member: &MemberId) -> Option<[u8; 32]> {
    let key = VerifyingKey::from_bytes(member.as_bytes()).ok()?;
    if key.is_weak() {
        return None;
    }
    Some(key.to_montgomery().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.key");
        let first = Identity::load_or_create(&path).unwrap();
        let second = Identity::load_or_create(&path).unwrap();
        assert_eq!(first.member(), second.member());
    }

    #[test]
    fn damaged_key_files_are_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.key");
        home::write_private(&path, b"short").unwrap();
        let refused = Identity::load_or_create(&path).unwrap_err().to_string();
        assert!(refused.contains("5 bytes"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
    }

    #[test]
    fn both_sides_derive_the_same_noise_key() {
        let identity = Identity::generate().unwrap();
        let secret = identity.noise_secret();
        let derived = curve25519_dalek::MontgomeryPoint::mul_base_clamped(*secret).to_bytes();
        assert_eq!(noise_public(&identity.member()), Some(derived));
    }

    #[test]
    fn a_weak_key_has_no_noise_form() {
        let mut small_order = [0; 32];
        small_order[0] = 1;
        assert_eq!(noise_public(&MemberId::new(small_order)), None);
    }

    #[test]
    fn debug_output_does_not_show_the_secret() {
        let identity = Identity::generate().unwrap();
        let shown = format!("{identity:?}");
        let secret = data_encoding::HEXLOWER.encode(&identity.key.to_bytes());
        assert!(!shown.contains(&secret[..8]));
    }
}
