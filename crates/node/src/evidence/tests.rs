//! Who is convicted by a file, and who is not.

use proptest::prelude::*;
use ringway_overlay::View;
use ringway_transport::Signer;

use super::*;
use crate::certificate::CertificateFields;
use crate::identity::Identity;

struct Case {
    owner: Identity,
    liar: Identity,
    certificate: Certificate,
}

impl Case {
    fn new() -> Case {
        let owner = Identity::generate().unwrap();
        let liar = Identity::generate().unwrap();
        let fields = CertificateFields {
            member: liar.member(),
            name: "oslo".parse().unwrap(),
            address: Some("192.0.2.1:4000".parse().unwrap()),
            nonce: [7; 16],
            not_before: 0,
            not_after: 1,
            serial: 4,
        };
        let certificate = Certificate::issue(&owner, &fields);
        Case {
            owner,
            liar,
            certificate,
        }
    }

    /// View `number` with a content of its own.
    fn said(&self, number: u64, content: u8) -> SignedHeader {
        let header = Header {
            author: self.certificate.ring_key().unwrap(),
            start: [0; 16],
            number,
            previous: [0; 32],
            expires: 10,
            content: [content; 32],
        };
        let signature = self.liar.sign(CONTEXT, &header.statement());
        SignedHeader { header, signature }
    }

    fn judged(&self, first: &SignedHeader, second: &SignedHeader) -> Result<Guilty, NotProven> {
        let ring = self.owner.member();
        let evidence = Evidence::new(&ring, &self.certificate, first, second);
        let read = Evidence::decode(&evidence.as_bytes()).unwrap();
        assert_eq!(read, evidence);
        assert_eq!(read.ring(), ring);
        read.judge(&ring)
    }
}

#[test]
fn two_views_of_one_number_convict_their_author() {
    let case = Case::new();
    let guilty = case.judged(&case.said(5, 1), &case.said(5, 2)).unwrap();
    assert_eq!(guilty.certificate, case.certificate);
    assert!(guilty.reason().contains("two different views as number 5"));
    let guilty = case.judged(&case.said(5, 1), &case.said(6, 2)).unwrap();
    assert!(guilty.reason().contains("5 and 6"), "{}", guilty.reason());
}

#[test]
fn what_an_honest_member_signs_proves_nothing() {
    let case = Case::new();
    let oslo = "oslo".to_owned();
    let (first, later) = (case.said(5, 1), case.said(7, 2));
    let none = Err(NotProven::NoContradiction(oslo.clone()));
    assert_eq!(case.judged(&first, &first), none);
    assert_eq!(case.judged(&first, &later), none);
    let mut forged = case.said(5, 2);
    forged.signature[9] ^= 1;
    assert_eq!(
        case.judged(&first, &forged),
        Err(NotProven::NotSigned(oslo.clone()))
    );
    let mut of_another = case.said(5, 2);
    of_another.header.author = RingKey::ZERO;
    assert_eq!(
        case.judged(&first, &of_another),
        Err(NotProven::OtherAuthor(oslo))
    );
}

#[test]
fn a_certificate_of_another_ring_does_not_count() {
    let case = Case::new();
    let other = Identity::generate().unwrap().member();
    let evidence = Evidence::new(
        &other,
        &case.certificate,
        &case.said(5, 1),
        &case.said(5, 2),
    );
    assert_eq!(evidence.judge(&other), Err(NotProven::OtherRing(other)));
}

/// What the member of another certificate says of the case's.
struct Accuser {
    identity: Identity,
    certificate: Certificate,
}

impl Accuser {
    fn new(case: &Case) -> Accuser {
        let identity = Identity::generate().unwrap();
        let fields = CertificateFields {
            member: identity.member(),
            name: "rome".parse().unwrap(),
            address: Some("192.0.2.2:4000".parse().unwrap()),
            nonce: [8; 16],
            not_before: 0,
            not_after: 1,
            serial: 5,
        };
        let certificate = Certificate::issue(&case.owner, &fields);
        Accuser {
            identity,
            certificate,
        }
    }

    fn accuses(&self, first: SignedHeader, second: SignedHeader) -> Accusation {
        let mut accusation = Accusation {
            accuser: self.certificate.ring_key().unwrap(),
            first,
            second,
            signature: [0; 64],
        };
        accusation.signature = self.identity.sign(CONTEXT, &accusation.statement());
        accusation
    }

    fn judged(
        &self,
        case: &Case,
        accusation: &Accusation,
        accused: Option<&Certificate>,
    ) -> Result<Guilty, NotProven> {
        let ring = case.owner.member();
        let own = &self.certificate;
        let evidence = Evidence::of_false_accusation(&ring, own, accusation, accused);
        let bytes = evidence.as_bytes();
        assert!(bytes.len() <= EVIDENCE_BYTES, "{} bytes", bytes.len());
        assert_eq!(Evidence::decode(&bytes), Ok(evidence.clone()));
        assert_eq!(evidence.ring(), ring);
        evidence.judge(&ring)
    }
}

#[test]
fn a_false_accusation_convicts_its_accuser() {
    let case = Case::new();
    let accuser = Accuser::new(&case);
    let mut forged = case.said(5, 2);
    forged.signature[9] ^= 1;
    let accusation = accuser.accuses(case.said(5, 1), forged);
    let accused = Some(&case.certificate);
    let guilty = accuser.judged(&case, &accusation, accused).unwrap();
    assert_eq!(guilty.certificate, accuser.certificate);
    assert!(
        guilty
            .reason()
            .contains("accused oslo of two views, of which oslo has not signed both")
    );
    assert_eq!(guilty.proof, Proof::FalseAccusation(accusation));
    let accusation = accuser.accuses(case.said(5, 1), case.said(7, 2));
    let guilty = accuser.judged(&case, &accusation, None).unwrap();
    assert!(guilty.reason().contains("do not contradict"));
}

#[test]
fn right_or_unsigned_accusations_convict_none() {
    let case = Case::new();
    let accuser = Accuser::new(&case);
    let rome = "rome".to_owned();
    let accused = Some(&case.certificate);
    let right = accuser.accuses(case.said(5, 1), case.said(5, 2));
    let not_false = Err(NotProven::NotFalse(rome.clone()));
    assert_eq!(accuser.judged(&case, &right, accused), not_false);
    // Without the certificate of the accused, or with another's, nothing is shown.
    let mut forged = case.said(5, 2);
    forged.signature[9] ^= 1;
    let wrong = accuser.accuses(case.said(5, 1), forged);
    assert_eq!(accuser.judged(&case, &wrong, None), not_false);
    let own = Some(&accuser.certificate);
    assert_eq!(accuser.judged(&case, &wrong, own), not_false);
    let mut unsigned = wrong;
    unsigned.signature[9] ^= 1;
    let not_signed = Err(NotProven::NotSigned(rome));
    assert_eq!(accuser.judged(&case, &unsigned, accused), not_signed);
}

#[test]
fn evidence_is_kept_and_found_again() {
    let home = tempfile::tempdir().unwrap();
    assert!(Evidence::kept(home.path()).is_empty());
    let case = Case::new();
    let ring = case.owner.member();
    let evidence = Evidence::new(&ring, &case.certificate, &case.said(5, 1), &case.said(5, 2));
    let path = evidence.keep(home.path(), &case.liar.member()).unwrap();
    fs::write(path.with_file_name("note.txt"), "no evidence").unwrap();
    assert_eq!(Evidence::kept(home.path()), std::slice::from_ref(&evidence));
    assert_eq!(Evidence::load(&path).unwrap(), evidence);
    fs::write(&path, vec![0; EVIDENCE_BYTES + 1]).unwrap();
    assert!(matches!(
        Evidence::load(&path),
        Err(EvidenceError::NotProven { .. })
    ));
}

#[test]
fn the_overlays_own_views_can_be_judged() {
    let case = Case::new();
    let author = case.certificate.ring_key().unwrap();
    let credentials = ringway_overlay_credentials(&case);
    let view = |group: Vec<RingKey>| {
        View::sign(&credentials, author, ([0; 16], 1), None, 10, group).signed
    };
    let other = RingKey::point(b"x");
    let (first, second) = (view(vec![author]), view(vec![author, other]));
    assert!(case.judged(&first, &second).is_ok());
    // And so can its accusations: here of itself, with one view that it has not signed.
    let mut forged = second;
    forged.header.expires += 1;
    let accusation = Accusation::sign(&credentials, author, first, forged);
    let ring = case.owner.member();
    let own = &case.certificate;
    let evidence = Evidence::of_false_accusation(&ring, own, &accusation, Some(own));
    assert!(evidence.judge(&ring).is_ok());
}

fn ringway_overlay_credentials(case: &Case) -> crate::credentials::RouterCredentials {
    let statement = crate::statement::Statement::issue(&case.owner, 1, 3, [].into());
    let server = Some("127.0.0.1:1".parse().unwrap());
    let ring = case.owner.member();
    let directory = crate::directory::Directory::new(ring, "ring.test", statement, server).unwrap();
    crate::credentials::RouterCredentials::new(
        case.liar.clone(),
        case.certificate.clone(),
        std::sync::Arc::new(directory),
    )
}

proptest! {
    #[test]
    fn random_bytes_are_no_evidence(bytes in proptest::collection::vec(any::<u8>(), 0..800)) {
        prop_assert!(Evidence::decode(&bytes).is_err());
    }
}

#[test]
fn evidence_of_an_earlier_version_counts_no_more() {
    let case = Case::new();
    let (first, second) = (case.said(1, 1), case.said(1, 2));
    let evidence = Evidence::new(&case.owner.member(), &case.certificate, &first, &second);
    let mut earlier = evidence.as_bytes();
    let index = earlier.iter().position(|byte| *byte == b'2').unwrap();
    assert_eq!(&earlier[index - 9..index], b"evidence ");
    earlier[index] = b'1';
    assert_eq!(Evidence::decode(&earlier), Err(NotProven::Earlier));
}
