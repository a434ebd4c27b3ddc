//! The ring owner's signed, numbered statement about the whole ring: its parameters and who is revoked.
//!
//! A higher number replaces a lower one; nothing else does, so an old statement that somebody replays
//! cannot bring a revoked member back.

use std::collections::BTreeSet;

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_transport::Signer;

use crate::cbor::encode;
use crate::certificate::RingId;
use crate::limits::{REVOCATIONS, STATEMENT_BYTES};

const CONTEXT: &[u8] = b"ringway ring statement";

/// Why bytes are not a valid statement of a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// Not the canonical encoding, or past a bound.
    #[error("the ring statement is not in the canonical form")]
    Malformed,
    /// Not signed by this ring's owner.
    #[error("the ring owner did not sign this ring statement")]
    BadSignature,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Body {
    #[n(0)]
    version: u8,
    #[n(1)]
    ring: ByteArray<32>,
    #[n(2)]
    number: u64,
    #[n(3)]
    successors: u8,
    #[n(4)]
    revoked: BTreeSet<u64>,
}

#[derive(Encode, Decode)]
struct Signed {
    #[n(0)]
    body: Body,
    #[n(1)]
    signature: ByteArray<64>,
}

/// A statement whose signature has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    body: Body,
    bytes: Vec<u8>,
}

impl Statement {
    /// Signs a statement. `revoked` are serials of certificates that have not expired by themselves.
    #[must_use]
    pub fn issue(
        owner: &dyn Signer,
        number: u64,
        successors: u8,
        revoked: BTreeSet<u64>,
    ) -> Statement {
        let ring = (*owner.member().as_bytes()).into();
        let body = Body {
            version: 1,
            ring,
            number,
            successors,
            revoked,
        };
        let signature = owner.sign(CONTEXT, &encode(&body)).into();
        let bytes = encode(&Signed {
            body: body.clone(),
            signature,
        });
        Statement { body, bytes }
    }

    /// Checks form, bounds and signature.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn decode(bytes: &[u8], ring: &RingId) -> Result<Statement, StatementError> {
        if bytes.len() > STATEMENT_BYTES {
            return Err(StatementError::Malformed);
        }
        let signed: Signed = minicbor::decode(bytes).map_err(|_| StatementError::Malformed)?;
        let body = signed.body.clone();
        if encode(&signed) != bytes || body.version != 1 || body.revoked.len() > REVOCATIONS {
            return Err(StatementError::Malformed);
        }
        if *body.ring != *ring.as_bytes() {
            return Err(StatementError::BadSignature);
        }
        ring.verify(CONTEXT, &encode(&body), &signed.signature)
            .map_err(|_| StatementError::BadSignature)?;
        let bytes = bytes.to_vec();
        Ok(Statement { body, bytes })
    }

    /// The number of what may be a statement: nothing about it has been checked.
    pub(crate) fn number_of(bytes: &[u8]) -> Option<u64> {
        if bytes.len() > STATEMENT_BYTES {
            return None;
        }
        let signed: Signed = minicbor::decode(bytes).ok()?;
        Some(signed.body.number)
    }

    /// The canonical bytes, as published.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Counts the owner's statements.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.body.number
    }

    /// Length of every router's successor list (r).
    #[must_use]
    pub fn successors(&self) -> usize {
        usize::from(self.body.successors)
    }

    /// True if the certificate with this serial is revoked.
    #[must_use]
    pub fn revokes(&self, serial: u64) -> bool {
        self.body.revoked.contains(&serial)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::Identity;

    #[test]
    fn it_survives_a_round_trip_and_every_changed_bit_is_noticed() {
        let owner = Identity::generate().unwrap();
        let statement = Statement::issue(&owner, 9, 3, BTreeSet::from([4, 7]));
        let decoded = Statement::decode(statement.as_bytes(), &owner.member()).unwrap();
        assert_eq!(decoded, statement);
        assert!(decoded.revokes(4) && decoded.revokes(7) && !decoded.revokes(5));
        for index in 0..statement.as_bytes().len() {
            let mut bytes = statement.as_bytes().to_vec();
            bytes[index] ^= 1;
            assert!(
                Statement::decode(&bytes, &owner.member()).is_err(),
                "byte {index}"
            );
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_statement(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let ring = RingId::new([1; 32]);
            prop_assert!(Statement::decode(&bytes, &ring).is_err());
        }
    }
}
