//! A member's id (its public key), and signatures that are bound to a context.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD_NOCASE;
use ed25519_dalek::{SigningKey, VerifyingKey};
use thiserror::Error;

/// An Ed25519 signature, 64 bytes (RFC 8032 §5.1.6).
pub type Signature = [u8; 64];

/// A member's id: its Ed25519 public key, 32 bytes.
///
/// Any 32 bytes may be held; whether they are a key shows when a signature is verified.
/// Written as 52 characters of lower-case base32 without padding (RFC 4648 §6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub [u8; 32]);

impl MemberId {
    /// The id with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the public key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Checks that this member signed `message` in `context`.
    ///
    /// Strict verification (no small-order keys, no malleable signatures), so that all members
    /// agree on what is signed.
    ///
    /// # Errors
    /// [`BadSignature`] if the id is no key or the signature is not its own over this.
    pub fn verify(
        &self,
        context: &'static [u8],
        message: &[u8],
        signature: &Signature,
    ) -> Result<(), BadSignature> {
        self.verify_bytes(&signed_bytes(context, message), signature)
    }

    /// Verifies bytes without a context: TLS has its own (RFC 8446 §4.4.3).
    pub(crate) fn verify_bytes(
        &self,
        bytes: &[u8],
        signature: &Signature,
    ) -> Result<(), BadSignature> {
        VerifyingKey::from_bytes(&self.0)
            .and_then(|key| {
                key.verify_strict(bytes, &ed25519_dalek::Signature::from_bytes(signature))
            })
            .map_err(|_| BadSignature { member: *self })
    }
}

impl From<&SigningKey> for MemberId {
    fn from(key: &SigningKey) -> Self {
        Self(key.verifying_key().to_bytes())
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD_NOCASE.encode(&self.0).to_ascii_lowercase())
    }
}

impl fmt::Debug for MemberId {
    /// The first eight characters: enough to tell members apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_string();
        write!(f, "MemberId({})", text.get(..8).unwrap_or(&text))
    }
}

impl FromStr for MemberId {
    type Err = InvalidMemberId;

    /// Reads 52 base32 characters, in either case.
    fn from_str(text: &str) -> Result<Self, InvalidMemberId> {
        let bytes = (text.len() == 52)
            .then(|| BASE32_NOPAD_NOCASE.decode(text.as_bytes()).ok())
            .flatten();
        bytes
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| InvalidMemberId {
                text: text.chars().take(60).collect(),
            })
    }
}

/// Signs on behalf of one member. The private key stays behind it.
pub trait Signer: Send + Sync {
    /// The member that signs.
    fn member(&self) -> MemberId;

    /// Signs `message` in `context`: an Ed25519 signature over [`signed_bytes`].
    fn sign(&self, context: &'static [u8], message: &[u8]) -> Signature;
}

impl Signer for SigningKey {
    fn member(&self) -> MemberId {
        MemberId::from(self)
    }

    fn sign(&self, context: &'static [u8], message: &[u8]) -> Signature {
        ed25519_dalek::Signer::sign(self, &signed_bytes(context, message)).to_bytes()
    }
}

/// The bytes that are signed: the context's length (two bytes, big endian), the context, the
/// message.
///
/// The length in front keeps a signature for one purpose from being one for another.
/// Contexts are literals shorter than 65 536 bytes.
pub fn signed_bytes(context: &'static [u8], message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(context.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes(), context, message].concat()
}

/// Signs bytes without a context, for TLS.
pub(crate) fn sign_bytes(key: &SigningKey, bytes: &[u8]) -> Signature {
    ed25519_dalek::Signer::sign(key, bytes).to_bytes()
}

/// A signature that its claimed signer did not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the signature is not by member {member}; discard the message that carries it")]
pub struct BadSignature {
    /// The claimed signer.
    pub member: MemberId,
}

/// Text that is no member id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is no member id: it takes 52 characters of a-z and 2-7")]
pub struct InvalidMemberId {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    #[test]
    fn signature_binds_signer_context_and_message() {
        let (a, b) = (key(1), key(2));
        let signature = Signer::sign(&a, b"context", b"message");
        let me = a.member();
        assert!(me.verify(b"context", b"message", &signature).is_ok());
        assert!(me.verify(b"context", b"massage", &signature).is_err());
        assert!(me.verify(b"contex", b"tmessage", &signature).is_err());
        assert!(
            b.member()
                .verify(b"context", b"message", &signature)
                .is_err()
        );
    }

    #[test]
    fn text_is_lower_case_and_52_long() {
        let text = key(1).member().to_string();
        assert_eq!(text.len(), 52);
        assert_eq!(text, text.to_lowercase());
        assert!(text.to_uppercase().parse::<MemberId>().is_ok());
        // The last character carries one bit; others would be a second spelling of the same id.
        let zero = MemberId([0; 32]).to_string();
        assert!(format!("{}b", &zero[..51]).parse::<MemberId>().is_err());
    }

    proptest! {
        #[test]
        fn text_round_trips(bytes: [u8; 32]) {
            let id = MemberId(bytes);
            prop_assert_eq!(id.to_string().parse::<MemberId>().unwrap(), id);
        }

        #[test]
        fn other_text_is_refused_not_fatal(text in ".{0,80}") {
            if let Ok(id) = text.parse::<MemberId>() {
                prop_assert_eq!(id.to_string(), text.to_lowercase());
            }
        }
    }
}
