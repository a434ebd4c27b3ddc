//! Proof that a router lies, and its certificate: two statements that it signed and that contradict each other, or its accusation of another that has not
//! signed any such thing.
//!
//! Nobody's word is needed to judge it: [`Evidence::judge`] is a pure function of the file's bytes and the ring's key.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use ringway_overlay::{Accusation, Header, Proof, RingKey, SignedHeader};
use ringway_transport::MemberId;

use crate::cbor::encode;
use crate::certificate::{Certificate, RingId};
use crate::credentials::CONTEXT;
use crate::home::{self, HomeError};
use crate::limits::{EVIDENCE_BYTES, EVIDENCE_FILES};

const TWO_STORIES: &str = "ringway evidence 1";
const FALSE_ACCUSATION: &str = "ringway false accusation 1";

/// What is wrong with a piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// Not the canonical form, or too long.
    #[error("this is no evidence file of Ringway")]
    Malformed,
    /// The certificate is not of this ring's owner.
    #[error("a certificate in it is not signed by the owner of ring {0}")]
    OtherRing(RingId),
    /// A leaf has no view.
    #[error("`{0}` is no router")]
    NoRouter(String),
    /// Somebody else is the author.
    #[error("a statement is not by the accused, `{0}`")]
    OtherAuthor(String),
    /// A signature does not verify.
    #[error("`{0}` did not sign what it is accused of: whoever made this file accuses it falsely")]
    NotSigned(String),
    /// An honest member may sign both.
    #[error("the two statements of `{0}` do not contradict each other")]
    NoContradiction(String),
    /// The accused has signed both, or its certificate, without which nobody can say, is not in the file.
    #[error("what `{0}` accuses another of is not shown to be false")]
    NotFalse(String),
}

/// Why evidence could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] HomeError),
    /// It proves nothing.
    #[error("{}: {reason}", path.display())]
    NotProven {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: NotProven,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Said {
    #[n(0)]
    author: ByteArray<32>,
    #[n(1)]
    number: u64,
    #[n(2)]
    previous: ByteArray<32>,
    #[n(3)]
    expires: u64,
    #[n(4)]
    content: ByteArray<32>,
    #[n(5)]
    signature: ByteArray<64>,
}

impl From<&SignedHeader> for Said {
    fn from(said: &SignedHeader) -> Said {
        let SignedHeader { header, signature } = said;
        Said {
            author: (*header.author.as_bytes()).into(),
            number: header.number,
            previous: header.previous.into(),
            expires: header.expires,
            content: header.content.into(),
            signature: (*signature).into(),
        }
    }
}

impl From<&Said> for SignedHeader {
    fn from(said: &Said) -> SignedHeader {
        let header = Header {
            author: RingKey::from_bytes(*said.author),
            number: said.number,
            previous: *said.previous,
            expires: said.expires,
            content: *said.content,
        };
        SignedHeader {
            header,
            signature: *said.signature,
        }
    }
}

/// Two statements of one router.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Stories {
    #[n(0)]
    kind: String,
    #[n(1)]
    ring: ByteArray<32>,
    #[n(2)]
    certificate: ByteVec,
    #[n(3)]
    first: Said,
    #[n(4)]
    second: Said,
}

/// A router's accusation of another.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct FalseAccusation {
    #[n(0)]
    kind: String,
    #[n(1)]
    ring: ByteArray<32>,
    /// The accuser's.
    #[n(2)]
    certificate: ByteVec,
    #[n(3)]
    first: Said,
    #[n(4)]
    second: Said,
    /// The accuser's.
    #[n(5)]
    signature: ByteArray<64>,
    /// The certificate of the accused. Not needed where the statements do not contradict each other.
    #[n(6)]
    accused: Option<ByteVec>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    Stories(Stories),
    FalseAccusation(FalseAccusation),
}

/// A piece of evidence. What it claims is proven only by [`Evidence::judge`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    body: Body,
}

/// Who is proven to lie, by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guilty {
    /// The certificate of the liar.
    pub certificate: Certificate,
    /// The certificate of whoever it has accused, where that is what it is guilty of and where it was needed.
    pub accused: Option<Certificate>,
    /// What it has signed.
    pub proof: Proof,
}

impl Guilty {
    /// What it has done, in words.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.proof {
            Proof::TwoStories { first, second } => {
                let (a, b) = (first.header.number, second.header.number);
                let (start, view) = (a >> 32, a & u64::from(u32::MAX));
                if a == b {
                    format!("it signed two different views as number {view} of its start {start}")
                } else {
                    let next = b & u64::from(u32::MAX);
                    format!(
                        "its views number {view} and {next} of its start {start} do not belong to one chain"
                    )
                }
            }
            Proof::FalseAccusation(accusation) => match &self.accused {
                Some(accused) => format!(
                    "it accused {} of two views, of which {} has not signed both",
                    accused.name(),
                    accused.name()
                ),
                None => format!(
                    "it accused the router of key {} of two views that do not contradict each other",
                    accusation.accused()
                ),
            },
        }
    }
}

impl Evidence {
    /// The evidence that `first` and `second` give against the member of `certificate`.
    #[must_use]
    pub fn new(
        ring: &RingId,
        certificate: &Certificate,
        first: &SignedHeader,
        second: &SignedHeader,
    ) -> Evidence {
        let body = Stories {
            kind: TWO_STORIES.to_owned(),
            ring: (*ring.as_bytes()).into(),
            certificate: certificate.as_bytes().to_vec().into(),
            first: first.into(),
            second: second.into(),
        };
        let body = Body::Stories(body);
        Evidence { body }
    }

    /// The evidence that `accusation` gives against its accuser, the member of `certificate`. `accused` is the certificate of the accused: without
    /// it only an accusation whose statements do not contradict each other is shown to be false.
    #[must_use]
    pub fn of_false_accusation(
        ring: &RingId,
        certificate: &Certificate,
        accusation: &Accusation,
        accused: Option<&Certificate>,
    ) -> Evidence {
        let body = FalseAccusation {
            kind: FALSE_ACCUSATION.to_owned(),
            ring: (*ring.as_bytes()).into(),
            certificate: certificate.as_bytes().to_vec().into(),
            first: (&accusation.first).into(),
            second: (&accusation.second).into(),
            signature: accusation.signature.into(),
            accused: accused.map(|accused| accused.as_bytes().to_vec().into()),
        };
        let body = Body::FalseAccusation(body);
        Evidence { body }
    }

    /// Reads evidence; it proves nothing yet.
    ///
    /// # Errors
    /// [`NotProven::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Evidence, NotProven> {
        if bytes.len() > EVIDENCE_BYTES {
            return Err(NotProven::Malformed);
        }
        let stories = minicbor::decode::<Stories>(bytes).ok();
        let stories = stories.filter(|body| body.kind == TWO_STORIES);
        let accused = || minicbor::decode::<FalseAccusation>(bytes).ok();
        let body = match stories {
            Some(stories) => Body::Stories(stories),
            None => accused()
                .filter(|body| body.kind == FALSE_ACCUSATION)
                .map(Body::FalseAccusation)
                .ok_or(NotProven::Malformed)?,
        };
        let evidence = Evidence { body };
        if evidence.as_bytes() != bytes {
            return Err(NotProven::Malformed);
        }
        Ok(evidence)
    }

    /// The canonical bytes.
    #[must_use]
    pub fn as_bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::Stories(body) => encode(body),
            Body::FalseAccusation(body) => encode(body),
        }
    }

    /// The ring that the evidence says it is from.
    #[must_use]
    pub fn ring(&self) -> RingId {
        MemberId::new(match &self.body {
            Body::Stories(body) => *body.ring,
            Body::FalseAccusation(body) => *body.ring,
        })
    }

    /// Judges the evidence under the key of the ring's owner. The certificate's time does not matter: a lie stays one.
    ///
    /// # Errors
    /// What is missing for a proof.
    pub fn judge(&self, ring: &RingId) -> Result<Guilty, NotProven> {
        match &self.body {
            Body::Stories(body) => body.judge(ring),
            Body::FalseAccusation(body) => body.judge(ring),
        }
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn load(path: &Path) -> Result<Evidence, EvidenceError> {
        let mut bytes = Vec::new();
        let most = u64::try_from(EVIDENCE_BYTES).unwrap_or(u64::MAX);
        fs::File::open(path)
            .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
            .map_err(|source| HomeError::new("reading", path, source))?;
        Evidence::decode(&bytes).map_err(|reason| EvidenceError::NotProven {
            path: path.to_owned(),
            reason,
        })
    }

    /// Keeps the evidence in `home`, under the id of whom it convicts, and says where.
    pub(crate) fn keep(&self, home: &Path, guilty: &MemberId) -> Result<PathBuf, EvidenceError> {
        let folder = home::evidence_path(home);
        home::create_private_folder(&folder)?;
        let path = folder.join(format!("{guilty}.evidence"));
        home::write_private(&path, &self.as_bytes())?;
        Ok(path)
    }

    /// What is kept in `home` and can be read. Other files are passed over.
    pub(crate) fn kept(home: &Path) -> Vec<Evidence> {
        let Ok(folder) = fs::read_dir(home::evidence_path(home)) else {
            return Vec::new();
        };
        let files = folder.filter_map(Result::ok).take(EVIDENCE_FILES);
        files
            .filter_map(|file| Evidence::load(&file.path()).ok())
            .collect()
    }
}

impl Stories {
    fn judge(&self, ring: &RingId) -> Result<Guilty, NotProven> {
        let (certificate, key) = router(&self.certificate, ring)?;
        let name = || certificate.name().to_string();
        let first = SignedHeader::from(&self.first);
        let second = SignedHeader::from(&self.second);
        for said in [&first, &second] {
            if said.header.author != key {
                return Err(NotProven::OtherAuthor(name()));
            }
            if !has_signed(&certificate, said) {
                return Err(NotProven::NotSigned(name()));
            }
        }
        if !first.contradicts(&second) {
            return Err(NotProven::NoContradiction(name()));
        }
        Ok(Guilty {
            certificate,
            accused: None,
            proof: Proof::TwoStories { first, second },
        })
    }
}

impl FalseAccusation {
    fn judge(&self, ring: &RingId) -> Result<Guilty, NotProven> {
        let (certificate, accuser) = router(&self.certificate, ring)?;
        let accusation = Accusation {
            accuser,
            first: (&self.first).into(),
            second: (&self.second).into(),
            signature: *self.signature,
        };
        let (statement, signature) = (accusation.statement(), &accusation.signature);
        if !is_signed(&certificate, &statement, signature) {
            return Err(NotProven::NotSigned(certificate.name().to_string()));
        }
        let accused = match accusation.contradicts() {
            false => None,
            true => Some(self.who_has_not_signed(ring, &certificate, &accusation)?),
        };
        Ok(Guilty {
            certificate,
            accused,
            proof: Proof::FalseAccusation(accusation),
        })
    }

    /// The certificate of the accused, if it has not signed both statements.
    fn who_has_not_signed(
        &self,
        ring: &RingId,
        accuser: &Certificate,
        accusation: &Accusation,
    ) -> Result<Certificate, NotProven> {
        let not_false = || NotProven::NotFalse(accuser.name().to_string());
        let accused = self.accused.as_ref().ok_or_else(not_false)?;
        let (certificate, key) = router(accused, ring)?;
        let said = [&accusation.first, &accusation.second];
        let signed = |said: &&SignedHeader| has_signed(&certificate, said);
        if key != accusation.accused() || said.iter().all(signed) {
            return Err(not_false());
        }
        Ok(certificate)
    }
}

/// The certificate of a router of the ring, and its key there.
fn router(certificate: &[u8], ring: &RingId) -> Result<(Certificate, RingKey), NotProven> {
    let other_ring = |_| NotProven::OtherRing(*ring);
    let certificate = Certificate::decode(certificate, ring).map_err(other_ring)?;
    let no_router = || NotProven::NoRouter(certificate.name().to_string());
    let key = certificate.ring_key().ok_or_else(no_router)?;
    Ok((certificate, key))
}

fn has_signed(certificate: &Certificate, said: &SignedHeader) -> bool {
    is_signed(certificate, &said.header.statement(), &said.signature)
}

fn is_signed(certificate: &Certificate, statement: &[u8], signature: &[u8; 64]) -> bool {
    let member = certificate.member();
    member.verify(CONTEXT, statement, signature).is_ok()
}

#[cfg(test)]
mod tests {
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
    fn a_right_accusation_or_one_that_nobody_signed_does_not() {
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
        let view =
            |group: Vec<RingKey>| View::sign(&credentials, author, 1, None, 10, group).signed;
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
        let directory =
            crate::directory::Directory::new(ring, "ring.test", statement, server).unwrap();
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
}
