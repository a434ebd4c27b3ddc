//! [`Credentials`]: what the overlay has to know about members but cannot know by itself.

use std::fmt;
use std::time::Instant;

use crate::key::RingKey;

/// Bytes of a member's id.
pub const MEMBER_LEN: usize = 32;

/// Bytes of a signature.
pub const SIGNATURE_LEN: usize = 64;

/// Whether a key belongs to a router that the ring's owner has admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The owner's certificate for it is at hand, and neither revoked nor expired.
    Certified,
    /// There is no such certificate, or it is revoked or expired. The key is never used.
    Refused,
    /// Nothing is known yet. A member that names the key is asked to prove it.
    Unknown,
}

/// What a member holds of the ring owner's certificates, and its own signing key.
///
/// The caller gives it to [`Chord::with_credentials`](crate::Chord::with_credentials). None of it
/// may block: what has to be fetched is [`Standing::Unknown`] until it is there.
pub trait Credentials: fmt::Debug + Send {
    /// Whether `member` is a router of this ring.
    fn standing(&self, member: &RingKey) -> Standing;

    /// Takes in what another member says is the certificate of `member`, and gives the key's
    /// standing then.
    fn admit(&mut self, member: &RingKey, certificate: &[u8]) -> Standing;

    /// The certificate of `member`, to prove it to others. At most 512 bytes.
    fn certificate(&self, member: &RingKey) -> Option<Vec<u8>>;

    /// Signs `statement` with this member's own key.
    fn sign(&self, statement: &[u8]) -> [u8; SIGNATURE_LEN];

    /// Whether `member` signed `statement`. None for a member without a certificate: then that is
    /// not known. The certificate is looked up once for both: one that ends in between must not
    /// make a genuine signature look forged.
    fn verify(
        &self,
        member: &RingKey,
        statement: &[u8],
        signature: &[u8; SIGNATURE_LEN],
    ) -> Option<bool>;

    /// Encrypts and authenticates `content` from this member to `to`, so that only the two of them
    /// can read or make it: at most 41 bytes more. None for a member without a certificate. A
    /// nonce, if it takes one, is the caller's business.
    fn seal(&mut self, to: &RingKey, content: &[u8]) -> Option<Vec<u8>>;

    /// What `from` has sealed for this member; none if it has not, or if it is no member.
    fn open(&mut self, from: &RingKey, sealed: &[u8]) -> Option<Vec<u8>>;

    /// Who signed `statement`, if `certificate` is the ring owner's for its signer, router or not,
    /// and is neither revoked nor expired.
    fn author(
        &self,
        certificate: &[u8],
        statement: &[u8],
        signature: &[u8; SIGNATURE_LEN],
    ) -> Option<[u8; MEMBER_LEN]>;

    /// Whether a member whose certificate was right once is still one, as far as is known. It must
    /// be quick.
    fn is_member(&self, member: &[u8; MEMBER_LEN]) -> bool;

    /// Takes in a statement of the ring's owner: true if it is genuine, and newer than any before.
    /// Most that come are not new: it must be quick to find that out.
    fn take_statement(&mut self, statement: &[u8]) -> bool;

    /// The time at `now` in seconds since 1970, for statements that expire.
    fn unix_time(&self, now: Instant) -> u64;
}
