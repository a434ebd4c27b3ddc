//! How a member gets another key: it makes one, signs a request with both keys, and the ring's
//! owner answers with a certificate for the new one under the same name.
//!
//! | text | signed by | says |
//! |---|---|---|
//! | `rwk1=…`, the request | the old key and the new one | which certificate is to be replaced, and by whose |
//! | `rwn1=…`, the reply | (all that it holds is the owner's) | the new certificate, and the statement that ends the old one |
//!
//! Neither is a secret. The old key's signature shows that the member wants it, the new key's that
//! no member is given a key that is another's. A request names the certificate that it replaces:
//! once that has ended, the request is worth nothing but to its maker, who gets the same answer
//! again. The reply needs no signature of its own: a new certificate stands in DNS as well.

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use ringway_transport::{MemberId, Signer};

use crate::cbor::encode;
use crate::certificate::{Certificate, RingId};
use crate::identity::noise_public;
use crate::limits::{ROTATION_REPLY_BYTES, ROTATION_REQUEST_BYTES};
use crate::statement::Statement;
use crate::text::{from_text, to_text};

const OLD_CONTEXT: &[u8] = b"ringway rotation, old key";
const NEW_CONTEXT: &[u8] = b"ringway rotation, new key";
const REQUEST_PREFIX: &str = "rwk1=";
const REPLY_PREFIX: &str = "rwn1=";

/// Why a text is no request for a new certificate, or no reply to one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RotationError {
    /// Not a request.
    #[error(
        "this is no request for a new certificate, or it is damaged: it must be all that `ringway rotate --offline` printed, beginning `rwk1=`"
    )]
    NoRequest,
    /// Not a reply.
    #[error(
        "this is no reply to a request for a new certificate, or it is damaged: it must be all that `ringway ring rotate` printed, beginning `rwn1=`"
    )]
    NoReply,
    /// A signature of a request does not fit its key.
    #[error(
        "the request is not signed by both keys that it names: somebody has changed it, ask the member for another"
    )]
    RequestForged,
    /// A signature in a reply does not fit its ring.
    #[error(
        "the reply holds something that the owner of this member's ring did not sign: somebody has changed it, or it is another ring's; ask the owner for another"
    )]
    ReplyForged,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct RequestBody {
    #[n(0)]
    version: u8,
    #[n(1)]
    ring: ByteArray<32>,
    /// The key that the member has now.
    #[n(2)]
    member: ByteArray<32>,
    /// Of the certificate that it has now.
    #[n(3)]
    serial: u64,
    /// The key that it is to have.
    #[n(4)]
    next: ByteArray<32>,
    #[n(5)]
    created: u64,
}

#[derive(Encode, Decode)]
struct SignedRequest {
    #[n(0)]
    body: RequestBody,
    #[n(1)]
    by_old: ByteArray<64>,
    #[n(2)]
    by_new: ByteArray<64>,
}

/// A request whose signatures have been checked: its maker has both keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationRequest {
    body: RequestBody,
    bytes: Vec<u8>,
}

impl RotationRequest {
    /// Signs a request of the member with the key `old`, whose certificate is `own`; `created` is
    /// in Unix seconds.
    #[must_use]
    pub fn new(
        old: &dyn Signer,
        new: &dyn Signer,
        ring: &RingId,
        own: &Certificate,
        created: u64,
    ) -> RotationRequest {
        let body = RequestBody {
            version: 1,
            ring: (*ring.as_bytes()).into(),
            member: (*old.member().as_bytes()).into(),
            serial: own.serial(),
            next: (*new.member().as_bytes()).into(),
            created,
        };
        let text = encode(&body);
        let bytes = encode(&SignedRequest {
            body: body.clone(),
            by_old: old.sign(OLD_CONTEXT, &text).into(),
            by_new: new.sign(NEW_CONTEXT, &text).into(),
        });
        RotationRequest { body, bytes }
    }

    /// Checks form and signatures.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn decode(bytes: &[u8]) -> Result<RotationRequest, RotationError> {
        let malformed = RotationError::NoRequest;
        if bytes.len() > ROTATION_REQUEST_BYTES {
            return Err(malformed);
        }
        let signed: SignedRequest = minicbor::decode(bytes).map_err(|_| malformed.clone())?;
        if encode(&signed) != bytes || signed.body.version != 1 {
            return Err(malformed);
        }
        let request = RotationRequest {
            body: signed.body,
            bytes: bytes.to_vec(),
        };
        let (old, new) = (request.member(), request.next());
        // A key of small order could be had by many.
        if old == new || noise_public(&old).is_none() || noise_public(&new).is_none() {
            return Err(malformed);
        }
        let text = encode(&request.body);
        let forged = |_| RotationError::RequestForged;
        old.verify(OLD_CONTEXT, &text, &signed.by_old)
            .map_err(forged)?;
        new.verify(NEW_CONTEXT, &text, &signed.by_new)
            .map_err(forged)?;
        Ok(request)
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// As [`RotationRequest::decode`].
    pub fn parse(text: &str) -> Result<RotationRequest, RotationError> {
        let bytes = from_text(text, REQUEST_PREFIX).ok_or(RotationError::NoRequest)?;
        RotationRequest::decode(&bytes)
    }

    /// The text to hand over, one line.
    #[must_use]
    pub fn to_text(&self) -> String {
        to_text(REQUEST_PREFIX, &self.bytes)
    }

    /// The canonical bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The ring that is asked.
    #[must_use]
    pub fn ring(&self) -> RingId {
        MemberId::new(*self.body.ring)
    }

    /// The key that the member has now.
    #[must_use]
    pub fn member(&self) -> MemberId {
        MemberId::new(*self.body.member)
    }

    /// Serial of the certificate that it has now.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.body.serial
    }

    /// The key that it is to have.
    #[must_use]
    pub fn next(&self) -> MemberId {
        MemberId::new(*self.body.next)
    }

    /// When it was made, Unix seconds by its maker's clock.
    #[must_use]
    pub fn created(&self) -> u64 {
        self.body.created
    }
}

#[derive(Encode, Decode)]
struct ReplyBody {
    #[n(0)]
    certificate: ByteVec,
    #[n(1)]
    statement: ByteVec,
}

/// What the owner gives to a member with a new key. Both are the owner's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationReply {
    /// For the new key.
    pub certificate: Certificate,
    /// It says that the certificate for the old one was replaced.
    pub statement: Statement,
}

impl RotationReply {
    /// Checks form and signatures; not the times, nor whose certificate it is.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn decode(bytes: &[u8], ring: &RingId) -> Result<RotationReply, RotationError> {
        if bytes.len() > ROTATION_REPLY_BYTES {
            return Err(RotationError::NoReply);
        }
        let body: ReplyBody = minicbor::decode(bytes).map_err(|_| RotationError::NoReply)?;
        if encode(&body) != bytes {
            return Err(RotationError::NoReply);
        }
        Ok(RotationReply {
            certificate: Certificate::decode(&body.certificate, ring)
                .map_err(|_| RotationError::ReplyForged)?,
            statement: Statement::decode(&body.statement, ring)
                .map_err(|_| RotationError::ReplyForged)?,
        })
    }

    /// The canonical bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(&ReplyBody {
            certificate: self.certificate.as_bytes().to_vec().into(),
            statement: self.statement.as_bytes().to_vec().into(),
        })
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// As [`RotationReply::decode`].
    pub fn parse(text: &str, ring: &RingId) -> Result<RotationReply, RotationError> {
        let bytes = from_text(text, REPLY_PREFIX).ok_or(RotationError::NoReply)?;
        RotationReply::decode(&bytes, ring)
    }

    /// The text to hand back, one line.
    #[must_use]
    pub fn to_text(&self) -> String {
        to_text(REPLY_PREFIX, &self.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::certificate::CertificateFields;
    use crate::identity::Identity;
    use crate::limits::REVOCATIONS;
    use crate::statement::{Parameters, Serials};

    struct Made {
        owner: Identity,
        old: Identity,
        new: Identity,
    }

    impl Made {
        fn new() -> Made {
            let [owner, old, new] = [(); 3].map(|()| Identity::generate().unwrap());
            Made { owner, old, new }
        }

        fn certificate(&self, member: MemberId, serial: u64) -> Certificate {
            let fields = CertificateFields {
                member,
                name: "oslo".parse().unwrap(),
                address: Some("192.0.2.7:7400".parse().unwrap()),
                nonce: [1; 16],
                not_before: 0,
                not_after: 100,
                serial,
            };
            Certificate::issue(&self.owner, &fields)
        }

        fn request(&self, serial: u64, created: u64) -> RotationRequest {
            let own = self.certificate(self.old.member(), serial);
            RotationRequest::new(&self.old, &self.new, &self.owner.member(), &own, created)
        }

        fn reply(&self, serials: Serials) -> RotationReply {
            RotationReply {
                certificate: self.certificate(self.new.member(), 9),
                statement: Statement::issue_with(
                    &self.owner,
                    u64::MAX,
                    Parameters::default(),
                    serials,
                ),
            }
        }
    }

    fn broken(text: &str, width: usize) -> String {
        let lines: Vec<String> = text
            .as_bytes()
            .chunks(width)
            .map(|line| String::from_utf8(line.to_vec()).unwrap())
            .collect();
        lines.join("\r\n ")
    }

    proptest! {
        #[test]
        fn both_survive_text_with_broken_lines(serial in any::<u64>(), created in any::<u64>(), revoked in 0u64..50, width in 1usize..100) {
            let made = Made::new();
            let request = made.request(serial, created);
            prop_assert!(request.as_bytes().len() <= ROTATION_REQUEST_BYTES);
            let read = RotationRequest::parse(&broken(&request.to_text(), width)).unwrap();
            prop_assert_eq!(&read, &request);
            prop_assert_eq!((read.serial(), read.created()), (serial, created));
            let revoked = (0..revoked).collect();
            let reply = made.reply(Serials { revoked, ..Serials::default() });
            let read = RotationReply::parse(&broken(&reply.to_text(), width), &made.owner.member());
            prop_assert_eq!(read, Ok(reply));
        }

        #[test]
        fn random_bytes_are_neither(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in ".{0,100}") {
            let ring = RingId::new([1; 32]);
            prop_assert!(RotationRequest::decode(&bytes).is_err());
            prop_assert!(RotationReply::decode(&bytes, &ring).is_err());
            prop_assert!(RotationRequest::parse(&text).is_err() && RotationReply::parse(&text, &ring).is_err());
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let made = Made::new();
        let request = made.request(4, 1_000);
        for index in 0..request.as_bytes().len() {
            let mut bytes = request.as_bytes().to_vec();
            bytes[index] ^= 1;
            assert!(RotationRequest::decode(&bytes).is_err(), "byte {index}");
        }
        let reply = made.reply(Serials::default()).to_bytes();
        for index in 0..reply.len() {
            let mut bytes = reply.clone();
            bytes[index] ^= 1;
            let ring = made.owner.member();
            assert!(
                RotationReply::decode(&bytes, &ring).is_err(),
                "byte {index}"
            );
        }
    }

    #[test]
    fn both_keys_have_to_sign() {
        let (made, other) = (Made::new(), Identity::generate().unwrap());
        let own = made.certificate(made.old.member(), 4);
        let text = |old: &Identity, new: &Identity| {
            let honest = made.request(4, 7).body;
            let text = encode(&honest);
            encode(&SignedRequest {
                body: honest,
                by_old: old.sign(OLD_CONTEXT, &text).into(),
                by_new: new.sign(NEW_CONTEXT, &text).into(),
            })
        };
        let forged = Err(RotationError::RequestForged);
        assert!(RotationRequest::decode(&text(&made.old, &made.new)).is_ok());
        assert_eq!(RotationRequest::decode(&text(&other, &made.new)), forged);
        assert_eq!(RotationRequest::decode(&text(&made.old, &other)), forged);
        assert_eq!(RotationRequest::decode(&text(&made.new, &made.old)), forged);
        // To change a key for itself changes nothing.
        let ring = made.owner.member();
        let same = RotationRequest::new(&made.old, &made.old, &ring, &own, 7);
        let refused = RotationRequest::decode(same.as_bytes());
        assert_eq!(refused, Err(RotationError::NoRequest));
    }

    #[test]
    fn another_rings_reply_is_forged() {
        let (made, other) = (Made::new(), Made::new());
        let text = other.reply(Serials::default()).to_text();
        let refused = RotationReply::parse(&text, &made.owner.member());
        assert_eq!(refused, Err(RotationError::ReplyForged));
    }

    #[test]
    fn a_large_rings_reply_fits() {
        let made = Made::new();
        let most = u64::try_from(REVOCATIONS).unwrap();
        let revoked: BTreeSet<u64> = (u64::MAX - most..u64::MAX).collect();
        let reply = made.reply(Serials {
            revoked,
            ..Serials::default()
        });
        let text = reply.to_text();
        let ring = made.owner.member();
        assert!(RotationReply::parse(&text, &ring).is_ok(), "{}", text.len());
    }
}
