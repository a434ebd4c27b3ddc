//! A request for a newer certificate that fits into a name of DNS: for members that reach their
//! ring's DNS, through whichever resolvers, and not the port at which members enrol.
//!
//! `PART.PART._renew.DOMAIN` is asked for. The parts are base32 of the serial of the certificate
//! and of the member's signature over ring and serial. Nothing stands there, and the answer says
//! so; the newer certificate comes to stand where the older one does. A request that is seen and
//! sent again renews nothing more: it names the one certificate that it is for.

use data_encoding::BASE32_NOPAD;
use ringway_transport::{MemberId, Signer};

use crate::certificate::{Certificate, RingId};

/// What stands before the ring's domain.
pub(crate) const LABEL: &str = "_renew";

const CONTEXT: &[u8] = b"ringway renewal by DNS";

/// A serial and a signature.
const BYTES: usize = 8 + 64;

/// Characters of each part; RFC 1035 §2.3.4 allows 63.
const PART: usize = 58;

/// A request, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Of the certificate that is to be renewed.
    pub(crate) serial: u64,
    signature: [u8; 64],
}

fn message(ring: &RingId, serial: u64) -> Vec<u8> {
    [ring.as_bytes().as_slice(), &serial.to_be_bytes()].concat()
}

impl Request {
    /// The request of the holder of this certificate's key.
    pub(crate) fn new(key: &impl Signer, ring: &RingId, own: &Certificate) -> Request {
        let serial = own.serial();
        Request {
            serial,
            signature: key.sign(CONTEXT, &message(ring, serial)),
        }
    }

    /// True if the member has signed it, for this ring.
    pub(crate) fn is_by(&self, member: &MemberId, ring: &RingId) -> bool {
        let message = message(ring, self.serial);
        member.verify(CONTEXT, &message, &self.signature).is_ok()
    }

    /// The name to ask for, with a final dot.
    pub(crate) fn name(&self, domain: &str) -> String {
        let bytes = [self.serial.to_be_bytes().as_slice(), &self.signature].concat();
        let text = BASE32_NOPAD.encode(&bytes).to_ascii_lowercase();
        let (first, second) = text.split_at(PART.min(text.len()));
        format!("{first}.{second}.{LABEL}.{}.", domain.trim_end_matches('.'))
    }

    /// Reads it from the labels before [`LABEL`], in either case of letters.
    pub(crate) fn of_labels(labels: [&[u8]; 2]) -> Option<Request> {
        if labels.iter().any(|label| label.len() != PART) {
            return None;
        }
        let text = labels.concat().to_ascii_uppercase();
        let bytes: [u8; BYTES] = BASE32_NOPAD.decode(&text).ok()?.try_into().ok()?;
        let (serial, signature) = bytes.split_first_chunk()?;
        Some(Request {
            serial: u64::from_be_bytes(*serial),
            signature: signature.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::certificate::CertificateFields;
    use crate::identity::Identity;

    #[test]
    fn a_request_is_bound_to_member_and_ring() {
        let [owner, member, other] = [(); 3].map(|()| Identity::generate().unwrap());
        let fields = CertificateFields {
            member: member.member(),
            name: "oslo".parse().unwrap(),
            address: None,
            nonce: [0; 16],
            not_before: 0,
            not_after: 1,
            serial: u64::MAX - 7,
        };
        let own = Certificate::issue(&owner, &fields);
        let request = Request::new(&member, &owner.member(), &own);
        let name = request.name("ring.test.");
        assert!(name.ends_with("._renew.ring.test."), "{name}");
        let labels: Vec<&str> = name.split('.').collect();
        let upper = labels[0].to_ascii_uppercase();
        let read = Request::of_labels([upper.as_bytes(), labels[1].as_bytes()]).unwrap();
        assert_eq!(read, request);
        assert!(read.is_by(&member.member(), &owner.member()));
        assert!(!read.is_by(&other.member(), &owner.member()));
        assert!(!read.is_by(&member.member(), &other.member()));
        let changed = Request {
            serial: 1,
            ..request
        };
        assert!(!changed.is_by(&member.member(), &owner.member()));
    }

    proptest! {
        #[test]
        fn any_labels_are_read_or_refused(
            first in proptest::collection::vec(any::<u8>(), 0..70), text in "[A-Za-z2-7]{116}"
        ) {
            prop_assert_eq!(Request::of_labels([&first, &first]), None);
            let (one, two) = text.as_bytes().split_at(58);
            if let Some(request) = Request::of_labels([one, two]) {
                prop_assert_eq!(request.name("a").len(), 116 + 1 + 1 + LABEL.len() + 3);
            }
        }
    }
}
