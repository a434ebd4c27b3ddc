//! Records: small signed values that members leave in the ring, kept by the group around their
//! point.
//!
//! A record stands under the id of the member that signed it and a name of its choice: no other can
//! write under that name, or squat it. Its point on the ring follows from both, and the g members
//! around that point keep it. Newer numbers replace older ones; a record without a value says that
//! there is none any more. Each carries the ring owner's certificate of its author, so that its
//! keepers can judge it, and bound what one member leaves there.
//!
//! - `store`: what this member keeps. `keep`: what it answers, and how copies get to those who miss
//!   them. `find`: putting and getting.

mod find;
mod keep;
mod store;

pub(crate) use find::Operations;
pub(crate) use keep::{Keeping, Vicinity};

use sha2::{Digest, Sha256};

use crate::credentials::{Credentials, MEMBER_LEN, SIGNATURE_LEN};
use crate::key::RingKey;
use crate::limits::{MAX_CERTIFICATE, MAX_RECORD_LIFETIME, MAX_RECORD_NAME, MAX_RECORD_VALUE};

const CONTEXT: &[u8] = b"ringway record 1";
const POINT: &[u8] = b"ringway record point 1";

/// A value that a member has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The ring owner's certificate of the author. At most 480 bytes.
    pub certificate: Vec<u8>,
    /// What the author calls it. 1 to 64 bytes.
    pub name: Vec<u8>,
    /// At most 400 bytes. Empty: there is no such record any more.
    pub value: Vec<u8>,
    /// Goes up with each record of this author and name.
    pub number: u64,
    /// Seconds since 1970 after which no member keeps it.
    pub expires: u64,
    /// By the author, of the [`statement`](Self::statement).
    pub signature: [u8; SIGNATURE_LEN],
}

impl Record {
    /// The bytes that the author signs.
    #[must_use]
    pub fn statement(name: &[u8], value: &[u8], number: u64, expires: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(CONTEXT);
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&expires.to_be_bytes());
        // Hashes, so that no part of the name can pass for one of the value.
        bytes.extend_from_slice(&Sha256::digest(name));
        bytes.extend_from_slice(&Sha256::digest(value));
        bytes
    }

    /// Where the record `name` of a member stands on the ring.
    #[must_use]
    pub fn point(author: &[u8; MEMBER_LEN], name: &[u8]) -> RingKey {
        RingKey::point(&[POINT, author.as_slice(), name].concat())
    }

    /// Who signed it, if its parts are within bounds, its author is a member, and the signature is
    /// right.
    #[must_use]
    pub fn author(&self, credentials: &dyn Credentials) -> Option<[u8; MEMBER_LEN]> {
        let fits = (1..=MAX_RECORD_NAME).contains(&self.name.len())
            && self.value.len() <= MAX_RECORD_VALUE
            && self.certificate.len() <= MAX_CERTIFICATE;
        let statement = Record::statement(&self.name, &self.value, self.number, self.expires);
        fits.then(|| credentials.author(&self.certificate, &statement, &self.signature))?
    }

    /// Whether it counts at `unix` seconds: neither past its time nor meant to stay for longer than
    /// any may.
    #[must_use]
    pub fn is_current(&self, unix: u64) -> bool {
        let latest = unix.saturating_add(MAX_RECORD_LIFETIME.as_secs());
        (unix..=latest).contains(&self.expires)
    }

    /// Whether it replaces another one of the same author and name. Of two with one number
    /// everybody keeps the same.
    #[must_use]
    pub fn is_newer_than(&self, other: &Record) -> bool {
        (self.number, &self.value, self.expires) > (other.number, &other.value, other.expires)
    }
}

/// Why a record cannot be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// This member is not in the ring.
    #[error("this member is not in the ring yet; wait for the event Joined")]
    NotMember,
    /// Too many run.
    #[error("{0} records are being put or looked for already; wait until one ends")]
    TooMany(usize),
    /// It is not one that others would keep.
    #[error(
        "the record is too long, expired, not signed by a member, or meant to stay for too long"
    )]
    Invalid,
}
