//! Proof that a router lies, and its certificate: two statements that it signed and that contradict
//! each other, or its accusation of another that has not signed any such thing.
//!
//! No witness is needed to judge it: [`Evidence::judge`] is a pure function of the file's bytes
//! and the ring's key.

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

const TWO_STORIES: &str = "ringway evidence 2";
const FALSE_ACCUSATION: &str = "ringway false accusation 2";

/// Kinds of earlier versions.
const EARLIER: [&str; 2] = ["ringway evidence 1", "ringway false accusation 1"];

/// What is wrong with a piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// Not the canonical form, or too long.
    #[error("this is no evidence file of Ringway")]
    Malformed,
    /// Of a version that took two copies of one home for a liar.
    #[error(
        "it is of an earlier version, by which honest routers were convicted too: it counts no more"
    )]
    Earlier,
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
    #[error("`{0}` did not sign what it is accused of: the author of this file accuses it falsely")]
    NotSigned(String),
    /// An honest member may sign both.
    #[error("the two statements of `{0}` do not contradict each other")]
    NoContradiction(String),
    /// The accused has signed both, or its certificate, without which this cannot be decided, is
    /// not in the file.
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
    #[n(6)]
    start: ByteArray<16>,
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
            start: header.start.into(),
        }
    }
}

impl From<&Said> for SignedHeader {
    fn from(said: &Said) -> SignedHeader {
        let header = Header {
            author: RingKey::from_bytes(*said.author),
            start: *said.start,
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
    /// The certificate of the accused. Not needed where the statements do not contradict each
    /// other.
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
    /// The certificate of the router it has accused, where that is what it is guilty of and where
    /// it was needed.
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

    /// The evidence that `accusation` gives against its accuser, the member of `certificate`.
    /// `accused` is the certificate of the accused: without it only an accusation whose
    /// statements do not contradict each other is shown to be false.
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
                .ok_or_else(|| not_evidence(bytes))?,
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

    /// Judges the evidence under the key of the ring's owner. The certificate's time does not
    /// matter: a lie stays one.
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
        home::create_own_folder(&folder)?;
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
        // An accusation is false if the views do not contradict, or if the accused has not signed
        // both.
        let accused = if accusation.contradicts() {
            Some(self.find_non_signer(ring, &certificate, &accusation)?)
        } else {
            None
        };
        Ok(Guilty {
            certificate,
            accused,
            proof: Proof::FalseAccusation(accusation),
        })
    }

    /// The certificate of the accused, if it has not signed both statements.
    fn find_non_signer(
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

/// Why these bytes, which are none of the present kinds, are no evidence.
fn not_evidence(bytes: &[u8]) -> NotProven {
    let mut decoder = minicbor::Decoder::new(bytes);
    let kind = decoder.array().and_then(|_| decoder.str());
    if kind.is_ok_and(|kind| EARLIER.contains(&kind)) {
        NotProven::Earlier
    } else {
        NotProven::Malformed
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
mod tests;
