//! What a routed message carries from end to end, and its bytes: CBOR arrays of definite length.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::as_conversions,
        clippy::arithmetic_side_effects
    )
)]

use minicbor::{Decoder, Encoder};
use sha2::{Digest as _, Sha256};

use crate::key::RingKey;
use crate::limits::{MAX_CERTIFICATE, MAX_PAYLOAD};
use crate::wire::{DecodeError, Encoded, read_fixed, read_key, read_length};

pub(super) const DIGEST_LEN: usize = 32;

/// Of what is sent where.
pub(super) type Digest = [u8; DIGEST_LEN];

/// The first crossing: who sends what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) origin: RingKey,
    /// The sender's number for the message.
    pub(super) number: u64,
    /// The sender's certificate, for a receiver that has none.
    pub(super) certificate: Option<Vec<u8>>,
    /// Whether `body` is a [`Secret::Body`], sealed for the receiver.
    pub(super) sealed: bool,
    pub(super) body: Vec<u8>,
}

/// The second: who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) author: RingKey,
    pub(super) certificate: Option<Vec<u8>>,
    /// A [`Secret::Answer`], sealed for the sender.
    pub(super) sealed: Vec<u8>,
}

/// What is sealed from one end for the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Secret {
    /// The message itself.
    Body(Vec<u8>),
    /// The receiver has it.
    Answer(Proof),
    /// The sender has sent it.
    Confirm(Proof),
}

/// What both ends must agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// The sender's number for the message.
    pub(super) number: u64,
    /// The receiver's, which no other member could know before.
    pub(super) challenge: u64,
    /// Of the target and the body, as it was carried.
    pub(super) digest: Digest,
}

/// The digest of a message's target and its body, as it is carried.
pub(super) fn digest(target: &RingKey, body: &[u8]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"ringway routed message");
    hash.update(target.as_bytes());
    hash.update(body);
    hash.finalize().into()
}

/// Writes to a vector, which cannot fail.
fn written(write: impl FnOnce(&mut Encoder<Vec<u8>>) -> Encoded) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    match write(&mut encoder) {
        Ok(()) => encoder.into_writer(),
        Err(_) => Vec::new(),
    }
}

fn certificate(e: &mut Encoder<Vec<u8>>, certificate: Option<&[u8]>) -> Encoded {
    match certificate {
        Some(bytes) => e.bytes(bytes)?,
        None => e.null()?,
    };
    Ok(())
}

fn read_certificate(d: &mut Decoder<'_>) -> Result<Option<Vec<u8>>, DecodeError> {
    if d.datatype()? == minicbor::data::Type::Null {
        d.null()?;
        return Ok(None);
    }
    let bytes = d.bytes()?;
    if bytes.len() > MAX_CERTIFICATE {
        return Err(DecodeError::CertificateLength(bytes.len()));
    }
    Ok(Some(bytes.to_vec()))
}

fn read_rest(d: &mut Decoder<'_>) -> Result<Vec<u8>, DecodeError> {
    let bytes = d.bytes()?;
    if bytes.len() > MAX_PAYLOAD {
        return Err(DecodeError::PartLength(bytes.len()));
    }
    Ok(bytes.to_vec())
}

/// Nothing may follow.
fn ended<T>(d: &Decoder<'_>, bytes: &[u8], value: T) -> Result<T, DecodeError> {
    match bytes.len().saturating_sub(d.position()) {
        0 => Ok(value),
        rest => Err(DecodeError::TrailingBytes(rest)),
    }
}

impl Offer {
    pub(super) fn encode(&self) -> Vec<u8> {
        written(|e| {
            e.array(5)?.bytes(self.origin.as_bytes())?;
            e.u64(self.number)?;
            certificate(e, self.certificate.as_deref())?;
            e.bool(self.sealed)?.bytes(&self.body)?;
            Ok(())
        })
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Offer, DecodeError> {
        let mut d = Decoder::new(bytes);
        read_length(&mut d, 5, 5)?;
        let offer = Offer {
            origin: read_key(&mut d)?,
            number: d.u64()?,
            certificate: read_certificate(&mut d)?,
            sealed: d.bool()?,
            body: read_rest(&mut d)?,
        };
        ended(&d, bytes, offer)
    }
}

impl Answer {
    pub(super) fn encode(&self) -> Vec<u8> {
        written(|e| {
            e.array(3)?.bytes(self.author.as_bytes())?;
            certificate(e, self.certificate.as_deref())?;
            e.bytes(&self.sealed)?;
            Ok(())
        })
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Answer, DecodeError> {
        let mut d = Decoder::new(bytes);
        read_length(&mut d, 3, 3)?;
        let answer = Answer {
            author: read_key(&mut d)?,
            certificate: read_certificate(&mut d)?,
            sealed: read_rest(&mut d)?,
        };
        ended(&d, bytes, answer)
    }
}

mod kind {
    pub(super) const BODY: u8 = 0;
    pub(super) const ANSWER: u8 = 1;
    pub(super) const CONFIRM: u8 = 2;
}

impl Secret {
    pub(super) fn encode(&self) -> Vec<u8> {
        written(|e| match self {
            Secret::Body(body) => {
                e.array(2)?.u8(kind::BODY)?.bytes(body)?;
                Ok(())
            }
            Secret::Answer(proof) => write_proof(e, kind::ANSWER, proof),
            Secret::Confirm(proof) => write_proof(e, kind::CONFIRM, proof),
        })
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Secret, DecodeError> {
        let mut d = Decoder::new(bytes);
        let fields = read_length(&mut d, 2, 4)?;
        let secret = match (d.u8()?, fields) {
            (kind::BODY, 2) => Secret::Body(read_rest(&mut d)?),
            (kind::ANSWER, 4) => Secret::Answer(read_proof(&mut d)?),
            (kind::CONFIRM, 4) => Secret::Confirm(read_proof(&mut d)?),
            (other, _) => return Err(DecodeError::UnknownKind(other)),
        };
        ended(&d, bytes, secret)
    }
}

fn write_proof(e: &mut Encoder<Vec<u8>>, kind: u8, proof: &Proof) -> Encoded {
    e.array(4)?.u8(kind)?.u64(proof.number)?;
    e.u64(proof.challenge)?.bytes(&proof.digest)?;
    Ok(())
}

fn read_proof(d: &mut Decoder<'_>) -> Result<Proof, DecodeError> {
    Ok(Proof {
        number: d.u64()?,
        challenge: d.u64()?,
        digest: read_fixed(d)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = RingKey> {
        any::<[u8; 32]>().prop_map(RingKey::from_bytes)
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..300)
    }

    fn proof() -> impl Strategy<Value = Proof> {
        any::<(u64, u64, [u8; 32])>().prop_map(|(number, challenge, digest)| Proof {
            number,
            challenge,
            digest,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (origin, number, certificate) in (key(), any::<u64>(), proptest::option::of(bytes())),
            (sealed, body, proof) in (any::<bool>(), bytes(), proof()),
        ) {
            let offer = Offer { origin, number, certificate: certificate.clone(), sealed, body: body.clone() };
            prop_assert_eq!(Offer::decode(&offer.encode()).unwrap(), offer);
            let answer = Answer { author: origin, certificate, sealed: body.clone() };
            prop_assert_eq!(Answer::decode(&answer.encode()).unwrap(), answer);
            for secret in [Secret::Body(body), Secret::Answer(proof.clone()), Secret::Confirm(proof)] {
                prop_assert_eq!(Secret::decode(&secret.encode()).unwrap(), secret);
            }
        }

        #[test]
        fn damage_is_no_panic(bytes in bytes()) {
            drop((Offer::decode(&bytes), Answer::decode(&bytes), Secret::decode(&bytes)));
        }
    }

    #[test]
    fn a_body_is_not_taken_for_a_proof() {
        let body = Secret::Body(vec![2; 8]);
        let mut bytes = body.encode();
        bytes[1] = kind::CONFIRM;
        assert!(Secret::decode(&bytes).is_err());
        bytes[1] = kind::BODY;
        bytes.push(0);
        assert!(matches!(
            Secret::decode(&bytes),
            Err(DecodeError::TrailingBytes(1))
        ));
    }

    #[test]
    fn the_digest_depends_on_target_and_body() {
        let (here, there) = (RingKey::point(b"here"), RingKey::point(b"there"));
        assert_ne!(digest(&here, b"body"), digest(&there, b"body"));
        assert_ne!(digest(&here, b"body"), digest(&here, b"bodi"));
    }
}
