//! The ring owner's statement that a key is a member: who, under which name, as what, until when.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_overlay::RingKey;
use ringway_transport::{MemberId, Signer};

use crate::clock::date_of;
use crate::limits::{CERTIFICATE_BYTES, NAME_BYTES};
use crate::signed::{self, Signed};

/// What a member is to its ring.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Has a position in the ring and an address that others can reach.
    #[n(0)]
    Router,
    /// Has no position; is reached through its parents.
    #[n(1)]
    Leaf,
}

impl Role {
    /// `router` or `leaf`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Router => "router",
            Role::Leaf => "leaf",
        }
    }
}

/// The ring's identity: the Ed25519 key of its owner.
pub type RingId = MemberId;

/// A member's name: one DNS label of lower-case letters, digits and inner hyphens, at most 32
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a text is no member name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a member name: use 1 to 32 lower-case letters, digits and inner hyphens")]
pub struct InvalidName(String);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Name, InvalidName> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let hyphen_outside = text.starts_with('-') || text.ends_with('-');
        if text.is_empty()
            || text.len() > NAME_BYTES
            || hyphen_outside
            || !text.bytes().all(allowed)
        {
            let shown: String = text.chars().take(64).collect();
            return Err(InvalidName(shown));
        }
        Ok(Name(text.to_owned()))
    }
}

/// Why bytes are not a valid certificate of a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not the canonical encoding.
    #[error("the certificate is not in the canonical form")]
    Malformed,
    /// Signed for another ring.
    #[error("the certificate belongs to another ring")]
    OtherRing,
    /// The owner's signature does not fit.
    #[error("the ring owner did not sign this certificate")]
    BadSignature,
    /// The role and the address contradict each other.
    #[error("a router needs an address and a leaf has none")]
    RoleWithoutAddress,
    /// Not valid at this time.
    #[error(
        "the certificate of {name} is valid from {} to {}, and now it is {}: check the clock, or ask the ring owner for a new one",
        date_of(*.from),
        date_of(*.until),
        date_of(*.now)
    )]
    NotValidNow {
        /// The member's name.
        name: String,
        /// First second of validity.
        from: u64,
        /// First second after it.
        until: u64,
        /// The time used.
        now: u64,
    },
}

/// The signed fields, in their canonical order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Body {
    #[n(0)]
    version: u8,
    #[n(1)]
    ring: ByteArray<32>,
    #[n(2)]
    member: ByteArray<32>,
    #[n(3)]
    name: String,
    #[n(4)]
    role: Role,
    #[n(5)]
    address: Option<ByteArray<18>>,
    #[n(6)]
    nonce: ByteArray<16>,
    #[n(7)]
    not_before: u64,
    #[n(8)]
    not_after: u64,
    #[n(9)]
    serial: u64,
}

impl signed::Body for Body {
    const CONTEXT: &'static [u8] = CONTEXT;
    const MOST: usize = CERTIFICATE_BYTES;

    fn version(&self) -> u8 {
        self.version
    }
}

/// Separates certificates from everything else that a ring owner signs.
pub(crate) const CONTEXT: &[u8] = b"ringway certificate";

/// What the ring owner puts into a certificate.
#[derive(Clone, Debug)]
pub struct CertificateFields {
    /// The member's key.
    pub member: MemberId,
    /// Its name in the ring.
    pub name: Name,
    /// Where a router listens; none for a leaf.
    pub address: Option<SocketAddr>,
    /// The owner's random number, which places a router on the ring.
    pub nonce: [u8; 16],
    /// First second of validity, Unix time.
    pub not_before: u64,
    /// First second after it, Unix time.
    pub not_after: u64,
    /// Counts the owner's certificates; revocations name it.
    pub serial: u64,
}

/// A certificate whose signature has been checked. A clone is cheap: each packet of the ring asks
/// for some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate(Arc<Checked>);

#[derive(Debug, PartialEq, Eq)]
struct Checked {
    body: Body,
    name: Name,
    ring_key: Option<RingKey>,
    bytes: Vec<u8>,
}

impl Certificate {
    /// Signs `fields` with the owner's key.
    #[must_use]
    pub fn issue(owner: &dyn Signer, fields: &CertificateFields) -> Certificate {
        let role = if fields.address.is_some() {
            Role::Router
        } else {
            Role::Leaf
        };
        let body = Body {
            version: 1,
            ring: (*owner.member().as_bytes()).into(),
            member: (*fields.member.as_bytes()).into(),
            name: fields.name.as_str().to_owned(),
            role,
            address: fields.address.map(|address| address_bytes(address).into()),
            nonce: fields.nonce.into(),
            not_before: fields.not_before,
            not_after: fields.not_after,
            serial: fields.serial,
        };
        let bytes = Signed::sign(&body, owner);
        Certificate::checked(body, fields.name.clone(), bytes)
    }

    fn checked(body: Body, name: Name, bytes: Vec<u8>) -> Certificate {
        let address = body.address.as_ref();
        let ring_key = address
            .map(|address| RingKey::derive(&body.ring, &body.nonce, address_from_bytes(address)));
        Certificate(Arc::new(Checked {
            body,
            name,
            ring_key,
            bytes,
        }))
    }

    /// Checks the form, the ring and the owner's signature; not the time: see
    /// [`Certificate::check_time`].
    ///
    /// # Errors
    /// The first check that failed.
    pub fn decode(bytes: &[u8], ring: &RingId) -> Result<Certificate, CertificateError> {
        let signed = Signed::<Body>::decode(bytes).ok_or(CertificateError::Malformed)?;
        // Before the signature: a certificate of another ring is no forgery.
        if *signed.unverified().ring != *ring.as_bytes() {
            return Err(CertificateError::OtherRing);
        }
        let forged = |_| CertificateError::BadSignature;
        let body = signed.verify(ring).map_err(forged)?;
        if body.address.is_some() != (body.role == Role::Router) {
            return Err(CertificateError::RoleWithoutAddress);
        }
        let name = body.name.parse().map_err(|_| CertificateError::Malformed)?;
        Ok(Certificate::checked(body, name, bytes.to_vec()))
    }

    /// Checks that the certificate is valid at `now`, in Unix seconds.
    ///
    /// # Errors
    /// [`CertificateError::NotValidNow`].
    pub fn check_time(&self, now: u64) -> Result<(), CertificateError> {
        if (self.0.body.not_before..self.0.body.not_after).contains(&now) {
            return Ok(());
        }
        Err(CertificateError::NotValidNow {
            name: self.0.body.name.clone(),
            from: self.0.body.not_before,
            until: self.0.body.not_after,
            now,
        })
    }

    /// The canonical bytes, as published.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// The member's key.
    #[must_use]
    pub fn member(&self) -> MemberId {
        MemberId::new(*self.0.body.member)
    }

    /// The member's name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// Router or leaf.
    #[must_use]
    pub fn role(&self) -> Role {
        self.0.body.role
    }

    /// Where a router listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let body = &self.0.body;
        body.address.as_ref().map(|bytes| address_from_bytes(bytes))
    }

    /// A router's position (`ARCHITECTURE.md`, decision 3): 14 bytes of hash over ring, nonce and
    /// address, then the address.
    #[must_use]
    pub fn ring_key(&self) -> Option<RingKey> {
        self.0.ring_key
    }

    /// The owner's number of this certificate.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.0.body.serial
    }

    /// The owner's random number, which places a router on the ring.
    pub(crate) fn nonce(&self) -> [u8; 16] {
        *self.0.body.nonce
    }

    /// First second of validity, Unix time.
    #[must_use]
    pub fn not_before(&self) -> u64 {
        self.0.body.not_before
    }

    /// First second after its validity, Unix time.
    #[must_use]
    pub fn not_after(&self) -> u64 {
        self.0.body.not_after
    }
}

/// An IPv4 address is written as the IPv6 address that maps it.
pub(crate) fn address_bytes(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

pub(crate) fn address_from_bytes(bytes: &[u8; 18]) -> SocketAddr {
    let mut ip = [0; 16];
    ip.copy_from_slice(&bytes[..16]);
    let ip = Ipv6Addr::from(ip).to_canonical();
    SocketAddr::new(ip, u16::from_be_bytes([bytes[16], bytes[17]]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::Identity;

    fn fields(member: MemberId, address: Option<SocketAddr>) -> CertificateFields {
        CertificateFields {
            member,
            name: "oslo".parse().unwrap(),
            address,
            nonce: [7; 16],
            not_before: 100,
            not_after: 200,
            serial: 3,
        }
    }

    fn issued() -> (Identity, Certificate) {
        let owner = Identity::generate().unwrap();
        let member = Identity::generate().unwrap().member();
        let address = Some("192.0.2.1:4000".parse().unwrap());
        let certificate = Certificate::issue(&owner, &fields(member, address));
        (owner, certificate)
    }

    #[test]
    fn it_survives_and_fits_one_udp_message() {
        let (owner, certificate) = issued();
        let decoded = Certificate::decode(certificate.as_bytes(), &owner.member()).unwrap();
        assert_eq!(decoded, certificate);
        assert_eq!(decoded.address(), Some("192.0.2.1:4000".parse().unwrap()));
        assert_eq!(
            decoded.ring_key().unwrap().address(),
            decoded.address().unwrap()
        );
        assert!(certificate.as_bytes().len() <= CERTIFICATE_BYTES);
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let (owner, certificate) = issued();
        for index in 0..certificate.as_bytes().len() {
            for bit in 0..8 {
                let mut bytes = certificate.as_bytes().to_vec();
                bytes[index] ^= 1 << bit;
                assert!(
                    Certificate::decode(&bytes, &owner.member()).is_err(),
                    "byte {index} bit {bit}"
                );
            }
        }
    }

    #[test]
    fn other_rings_and_self_signed_members_are_refused() {
        let (owner, certificate) = issued();
        let other = Identity::generate().unwrap();
        let refused = Certificate::decode(certificate.as_bytes(), &other.member());
        assert_eq!(refused, Err(CertificateError::OtherRing));
        let own = Certificate::issue(&other, &fields(other.member(), None));
        let refused = Certificate::decode(own.as_bytes(), &owner.member());
        assert_eq!(refused, Err(CertificateError::OtherRing));
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let (owner, certificate) = issued();
        let mut bytes = certificate.as_bytes().to_vec();
        bytes.push(0);
        let refused = Certificate::decode(&bytes, &owner.member());
        assert_eq!(refused, Err(CertificateError::Malformed));
    }

    #[test]
    fn validity_has_a_first_and_a_last_second() {
        let (_, certificate) = issued();
        assert!(certificate.check_time(99).is_err());
        assert!(certificate.check_time(100).is_ok());
        assert!(certificate.check_time(199).is_ok());
        assert!(certificate.check_time(200).is_err());
    }

    #[test]
    fn names_are_dns_labels() {
        for good in ["a", "oslo-2", "0", &"x".repeat(32)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "Oslo",
            "a.b",
            "-a",
            "a-",
            "ü",
            "a b",
            "_x",
            &"x".repeat(33),
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_certificate(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let owner = MemberId::new([1; 32]);
            prop_assert!(Certificate::decode(&bytes, &owner).is_err());
        }
    }
}
