//! How a machine becomes a member without a connection to the authority: it writes a request, the
//! ring's owner answers with a reply, and both travel as text, by any way. Neither is a secret.
//!
//! | text | signed by | says |
//! |---|---|---|
//! | `rwq1=…`, the request | the new member's key | who wants to be what: key, name, address |
//! | `rwr1=…`, the reply | the ring's owner | to which request: certificate, statement, some routers, where DNS is |
//!
//! A signature proves who has a key, not whose key it is. So both sides compare: the owner the
//! member's id, the member the ring's identity, each with what it has learnt by another way.

use std::net::SocketAddr;

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use ringway_transport::{MemberId, Signer};

use crate::certificate::{Certificate, Name, RingId, Role, address_bytes, address_from_bytes};
use crate::endpoint::Endpoint;
use crate::identity::noise_public;
use crate::limits::{
    ADMISSION_REPLY_BYTES, ADMISSION_REQUEST_BYTES, BOOTSTRAP_ROUTERS, DOMAIN_BYTES,
};
use crate::signed::{self, Signed};
use crate::statement::Statement;
use crate::text::{from_text, to_text};

const REQUEST_PREFIX: &str = "rwq1=";
const REPLY_PREFIX: &str = "rwr1=";

/// Why a text is no request or reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// Not a request.
    #[error(
        "this is no request for admission, or it is damaged: it must be all that `ringway join --offline` printed, beginning `rwq1=`"
    )]
    NoRequest,
    /// Not a reply.
    #[error(
        "this is no reply to a request for admission, or it is damaged: it must be all that `ringway ring admit` printed, beginning `rwr1=`"
    )]
    NoReply,
    /// The signature of a request does not fit its key.
    #[error(
        "the request is not signed by the key that it names: somebody has changed it, ask the new member for another"
    )]
    RequestForged,
    /// The signature of a reply does not fit its ring.
    #[error(
        "the reply is not signed by the owner of the ring that it names: somebody has changed it, ask the owner for another"
    )]
    ReplyForged,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct RequestBody {
    #[n(0)]
    version: u8,
    #[n(1)]
    member: ByteArray<32>,
    #[n(2)]
    name: String,
    /// A router's; a leaf has none.
    #[n(3)]
    address: Option<ByteArray<18>>,
    /// Two requests of one member differ, and so a reply fits one of them only.
    #[n(4)]
    nonce: ByteArray<16>,
    #[n(5)]
    created: u64,
}

impl signed::Body for RequestBody {
    const CONTEXT: &'static [u8] = b"ringway admission request";
    const MOST: usize = ADMISSION_REQUEST_BYTES;

    fn version(&self) -> u8 {
        self.version
    }
}

/// A request whose signature has been checked: its maker has the key that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionRequest {
    body: RequestBody,
    name: Name,
    bytes: Vec<u8>,
}

impl AdmissionRequest {
    /// Signs a request; `nonce` comes from the operating system's randomness, `created` is in Unix
    /// seconds.
    #[must_use]
    pub fn new(
        member: &dyn Signer,
        name: Name,
        address: Option<SocketAddr>,
        nonce: [u8; 16],
        created: u64,
    ) -> AdmissionRequest {
        let body = RequestBody {
            version: 1,
            member: (*member.member().as_bytes()).into(),
            name: name.as_str().to_owned(),
            address: address.map(|address| address_bytes(address).into()),
            nonce: nonce.into(),
            created,
        };
        let bytes = Signed::sign(&body, member);
        AdmissionRequest { body, name, bytes }
    }

    /// Checks form and signature.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn decode(bytes: &[u8]) -> Result<AdmissionRequest, AdmissionError> {
        let malformed = AdmissionError::NoRequest;
        let signed = Signed::<RequestBody>::decode(bytes).ok_or_else(|| malformed.clone())?;
        let body = signed.unverified();
        let name = body.name.parse().map_err(|_| malformed.clone())?;
        let member = MemberId::new(*body.member);
        // A key of small order could be had by many.
        if noise_public(&member).is_none() {
            return Err(malformed);
        }
        let forged = |_| AdmissionError::RequestForged;
        let body = signed.verify(&member).map_err(forged)?;
        let bytes = bytes.to_vec();
        Ok(AdmissionRequest { body, name, bytes })
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// As [`AdmissionRequest::decode`].
    pub fn parse(text: &str) -> Result<AdmissionRequest, AdmissionError> {
        let bytes = from_text(text, REQUEST_PREFIX).ok_or(AdmissionError::NoRequest)?;
        AdmissionRequest::decode(&bytes)
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

    /// The new member's key.
    #[must_use]
    pub fn member(&self) -> MemberId {
        MemberId::new(*self.body.member)
    }

    /// The name that it wants.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Where it listens, if it is to be a router.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let bytes = self.body.address.as_ref()?;
        Some(address_from_bytes(bytes))
    }

    /// What it wants to be.
    #[must_use]
    pub fn role(&self) -> Role {
        match self.body.address {
            Some(_) => Role::Router,
            None => Role::Leaf,
        }
    }

    /// When it was made, Unix seconds by its maker's clock.
    #[must_use]
    pub fn created(&self) -> u64 {
        self.body.created
    }

    fn hash(&self) -> [u8; 32] {
        *blake3::hash(&self.bytes).as_bytes()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct ReplyBody {
    #[n(0)]
    version: u8,
    #[n(1)]
    ring: ByteArray<32>,
    #[n(2)]
    domain: String,
    /// BLAKE3 of the request.
    #[n(3)]
    request: ByteArray<32>,
    #[n(4)]
    certificate: ByteVec,
    #[n(5)]
    statement: ByteVec,
    #[n(6)]
    routers: Vec<ByteVec>,
    /// Where the ring's DNS is answered.
    #[n(7)]
    dns: ByteArray<18>,
    /// The same as host name and port, if it is no address: `dns` is all zeros then.
    #[n(8)]
    dns_host: Option<String>,
}

impl signed::Body for ReplyBody {
    const CONTEXT: &'static [u8] = b"ringway admission reply";
    const MOST: usize = ADMISSION_REPLY_BYTES;

    fn version(&self) -> u8 {
        self.version
    }
}

/// Host name and port, if a place is no address.
pub(crate) fn host_of(place: &Endpoint) -> Option<String> {
    place.name().map(|_| place.to_string())
}

/// Where DNS is answered, of a reply's two fields for it: the host's name counts if there is one.
pub(crate) fn dns_of(address: &[u8; 18], host: Option<&str>) -> Option<Endpoint> {
    match host {
        Some(host) => host.parse().ok(),
        None => Some(address_from_bytes(address).into()),
    }
}

/// What the owner gives to a new member.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) domain: String,
    pub(crate) certificate: Certificate,
    pub(crate) statement: Statement,
    pub(crate) routers: Vec<Certificate>,
    pub(crate) dns: Endpoint,
}

/// A reply of which everything is signed by the owner of the ring that it names. Whether that is
/// the right ring, its reader must know.
#[derive(Clone, Debug)]
pub struct AdmissionReply {
    ring: RingId,
    request: [u8; 32],
    pub(crate) granted: Granted,
    bytes: Vec<u8>,
}

impl AdmissionReply {
    /// The owner's signed reply to `request`.
    #[must_use]
    pub(crate) fn new(
        owner: &dyn Signer,
        request: &AdmissionRequest,
        granted: Granted,
    ) -> AdmissionReply {
        let body = ReplyBody {
            version: 1,
            ring: (*owner.member().as_bytes()).into(),
            domain: granted.domain.clone(),
            request: request.hash().into(),
            certificate: granted.certificate.as_bytes().to_vec().into(),
            statement: granted.statement.as_bytes().to_vec().into(),
            routers: granted
                .routers
                .iter()
                .map(|router| router.as_bytes().to_vec().into())
                .collect(),
            dns: granted.dns.address().map_or([0; 18], address_bytes).into(),
            dns_host: host_of(&granted.dns),
        };
        AdmissionReply {
            ring: owner.member(),
            request: request.hash(),
            granted,
            bytes: Signed::sign(&body, owner),
        }
    }

    /// Checks form and signatures; not the times.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn decode(bytes: &[u8]) -> Result<AdmissionReply, AdmissionError> {
        let malformed = AdmissionError::NoReply;
        let signed = Signed::<ReplyBody>::decode(bytes).ok_or_else(|| malformed.clone())?;
        // Verified below by the key that the body names. Which ring that has to be the user says.
        let body = signed.unverified();
        let too_much = body.domain.len() > DOMAIN_BYTES || body.routers.len() > BOOTSTRAP_ROUTERS;
        if too_much {
            return Err(malformed);
        }
        let ring = MemberId::new(*body.ring);
        let forged = |_| AdmissionError::ReplyForged;
        let body = signed.verify(&ring).map_err(forged)?;
        let certificate = |bytes: &[u8]| {
            Certificate::decode(bytes, &ring).map_err(|_| AdmissionError::ReplyForged)
        };
        let granted = Granted {
            domain: body.domain.clone(),
            certificate: certificate(&body.certificate)?,
            statement: Statement::decode(&body.statement, &ring)
                .map_err(|_| AdmissionError::ReplyForged)?,
            routers: body
                .routers
                .iter()
                .map(|router| certificate(router))
                .collect::<Result<_, _>>()?,
            dns: dns_of(&body.dns, body.dns_host.as_deref()).ok_or(malformed)?,
        };
        Ok(AdmissionReply {
            ring,
            request: *body.request,
            granted,
            bytes: bytes.to_vec(),
        })
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// As [`AdmissionReply::decode`].
    pub fn parse(text: &str) -> Result<AdmissionReply, AdmissionError> {
        let bytes = from_text(text, REPLY_PREFIX).ok_or(AdmissionError::NoReply)?;
        AdmissionReply::decode(&bytes)
    }

    /// The text to hand back, one line.
    #[must_use]
    pub fn to_text(&self) -> String {
        to_text(REPLY_PREFIX, &self.bytes)
    }

    /// The canonical bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The ring whose owner has signed it.
    #[must_use]
    pub fn ring(&self) -> RingId {
        self.ring
    }

    /// The ring's domain.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.granted.domain
    }

    /// True if it answers `request`, and grants what was asked for.
    #[must_use]
    pub fn answers(&self, request: &AdmissionRequest) -> bool {
        let certificate = &self.granted.certificate;
        self.request == request.hash()
            && certificate.member() == request.member()
            && certificate.name() == request.name()
            && certificate.address() == request.address()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::certificate::CertificateFields;
    use crate::identity::Identity;
    use crate::limits::ADMISSION_TEXT;

    fn reply(owner: &Identity, request: &AdmissionRequest, routers: usize) -> AdmissionReply {
        let certificate = |member, name: &str, address, serial| {
            let fields = CertificateFields {
                member,
                name: name.parse().unwrap(),
                address,
                nonce: [1; 16],
                not_before: 0,
                not_after: 100,
                serial,
            };
            Certificate::issue(owner, &fields)
        };
        let address = Some("192.0.2.1:7400".parse().unwrap());
        let routers = (1..=routers).map(|number| {
            let member = MemberId::new([u8::try_from(number).unwrap(); 32]);
            certificate(member, "router", address, 1)
        });
        let granted = Granted {
            domain: "ring.test".to_owned(),
            certificate: certificate(
                request.member(),
                request.name().as_str(),
                request.address(),
                9,
            ),
            statement: Statement::issue(owner, 4, 3, BTreeSet::from([2])),
            routers: routers.collect(),
            dns: "192.0.2.1:53".parse().unwrap(),
        };
        AdmissionReply::new(owner, request, granted)
    }

    fn any_request() -> impl Strategy<Value = (Identity, AdmissionRequest)> {
        let name = "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?";
        let address = proptest::option::of((any::<[u8; 4]>(), 1..u16::MAX));
        (name, address, any::<[u8; 16]>(), any::<u64>()).prop_map(
            |(name, address, nonce, created)| {
                let member = Identity::generate().unwrap();
                let name = name.parse().unwrap();
                let request = AdmissionRequest::new(
                    &member,
                    name,
                    address.map(SocketAddr::from),
                    nonce,
                    created,
                );
                (member, request)
            },
        )
    }

    proptest! {
        #[test]
        fn both_survive_text_with_broken_lines((_, request) in any_request(), routers in 0usize..=BOOTSTRAP_ROUTERS, width in 1usize..100) {
            let broken = |text: String| {
                let lines: Vec<String> = text.as_bytes().chunks(width).map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
                lines.join("\r\n ")
            };
            prop_assert!(request.as_bytes().len() <= ADMISSION_REQUEST_BYTES);
            let text = request.to_text();
            prop_assume!(broken(text.clone()).len() <= ADMISSION_TEXT);
            prop_assert_eq!(&AdmissionRequest::parse(&broken(text)).unwrap(), &request);
            let owner = Identity::generate().unwrap();
            let reply = reply(&owner, &request, routers);
            let read = AdmissionReply::parse(&reply.to_text()).unwrap();
            prop_assert_eq!(read.as_bytes(), reply.as_bytes());
            prop_assert_eq!(read.ring(), owner.member());
            prop_assert!(read.answers(&request));
        }

        #[test]
        fn random_bytes_are_neither(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in ".{0,100}") {
            prop_assert!(AdmissionRequest::decode(&bytes).is_err());
            prop_assert!(AdmissionReply::decode(&bytes).is_err());
            prop_assert!(AdmissionRequest::parse(&text).is_err() && AdmissionReply::parse(&text).is_err());
        }
    }

    fn made() -> (Identity, AdmissionRequest, AdmissionReply) {
        let (owner, member) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let name = "oslo".parse().unwrap();
        let address = Some("192.0.2.7:7400".parse().unwrap());
        let request = AdmissionRequest::new(&member, name, address, [5; 16], 1_000);
        let reply = reply(&owner, &request, 2);
        (member, request, reply)
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let (_, request, reply) = made();
        for index in 0..request.as_bytes().len() {
            let mut bytes = request.as_bytes().to_vec();
            bytes[index] ^= 1;
            assert!(AdmissionRequest::decode(&bytes).is_err(), "byte {index}");
        }
        for index in 0..reply.as_bytes().len() {
            let mut bytes = reply.as_bytes().to_vec();
            bytes[index] ^= 1;
            assert!(AdmissionReply::decode(&bytes).is_err(), "byte {index}");
        }
    }

    #[test]
    fn a_reply_answers_one_request_only() {
        let (member, request, reply) = made();
        assert!(reply.answers(&request));
        let address = request.address();
        let again = AdmissionRequest::new(&member, request.name().clone(), address, [6; 16], 1_000);
        assert!(!reply.answers(&again));
    }

    #[test]
    fn a_large_rings_reply_fits() {
        let (_, request, _) = made();
        let owner = Identity::generate().unwrap();
        let mut reply = reply(&owner, &request, BOOTSTRAP_ROUTERS);
        let revoked = (u64::MAX - 4_095..=u64::MAX).collect();
        reply.granted.statement = Statement::issue(&owner, u64::MAX, 3, revoked);
        let reply = AdmissionReply::new(&owner, &request, reply.granted);
        let text = reply.to_text();
        assert!(AdmissionReply::parse(&text).is_ok(), "{}", text.len());
    }
}
