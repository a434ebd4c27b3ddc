//! How a spoken invite becomes a strong key: SPAKE2, and what both sides say for it.
//!
//! ```text
//! member → authority   Hello     the invite's number, SPAKE2 share A
//! authority → member   Answer    the ring's identity and domain, SPAKE2 share B; or why not
//! member → authority   Noise IKpsk0, first message; the authority counts a try before it looks
//! authority → member   Noise IKpsk0, second message; or that the words were wrong
//! ```
//!
//! The 24 bits of three words do not stand an attack in which words are tried at leisure. Here
//! they cannot be: a share is a random point whatever the words are, so that an eavesdropper
//! learns nothing, and a participant must choose one set of words before its share leaves. The key
//! that comes of it is the same on both sides only if these were the right ones.
//! - Against the authority: the member has to show first that it has the key, in the first Noise
//!   message. Until then nothing that depends on the words but the blinded share has left the
//!   authority, and a wrong message costs the invite one of
//!   [`SPOKEN_TRIES`](crate::limits::SPOKEN_TRIES). Breaking off before teaches nothing, and costs
//!   nothing.
//! - Against the new member: one who pretends to be the authority gets that first message, and may
//!   test with it the one set of words that is in its share. `ringway join` makes one attempt for
//!   each time that it is run, and says that the code was wrong.
//!
//! The member does not know the ring's identity before. It comes in the answer, and counts only
//! because the Noise handshake succeeds. The handshake's key is that of SPAKE2, which binds the
//! protocol's name, the sides, the invite's number, the words and both shares. Its prologue is both
//! frames as they were sent and received. The ring's identity is the static key that the member
//! encrypts to. An attacker who changes a byte of it on the way, or puts its own identity there,
//! needs the words. The member's own key is that of the handshake, under the same key.
//!
//! The shares are checked to be in the group of prime order (RFC 9382 §4 asks for that, or for
//! multiplying by the cofactor; the crate does neither). The points M and N are the crate's, which
//! are those of magic-wormhole and not those of the RFC.

use std::fmt;

use curve25519_dalek::edwards::CompressedEdwardsY;
use ringway_transport::MemberId;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use zeroize::Zeroizing;

use crate::certificate::RingId;
use crate::invite::{SpokenInvite, WORDS};
use crate::limits::DOMAIN_BYTES;
use crate::zone::is_domain;

const MAGIC: &[u8; 16] = b"ringway spoken 1";
/// A side's letter and a point.
const SHARE: usize = 33;
const OFFER: u8 = 0;
const REFUSAL: u8 = 1;

type Share = [u8; SHARE];

/// What a new member with a spoken invite says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// Which invite is meant.
    pub(super) number: u32,
    share: Share,
}

impl Hello {
    fn encode(&self) -> Vec<u8> {
        [&MAGIC[..], &self.number.to_be_bytes(), &self.share].concat()
    }

    /// None if it is something else, such as the first message of an enrolment with a long invite.
    pub(super) fn decode(frame: &[u8]) -> Option<Hello> {
        let rest = frame.strip_prefix(MAGIC)?;
        let (number, share) = rest.split_first_chunk()?;
        Some(Hello {
            number: u32::from_be_bytes(*number),
            share: share.try_into().ok()?,
        })
    }
}

/// Why an invite is not taken. It is sent in the clear: an attacker in between can send it as
/// well, and gains as much as by cutting the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No invite has this number or id, or a newer one for the same name has replaced it.
    Unknown,
    /// Its time is over.
    Expired,
    /// Too many tries were wrong.
    Burnt,
    /// Somebody has become a member with it.
    Used,
    /// Too many tries at once, over all invites or from one place.
    Busy,
    /// The words are wrong; so many tries are left.
    Wrong {
        /// Tries.
        left: u8,
    },
}

/// For the authority's log.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unknown => f.write_str("there is none of this number or id"),
            Refusal::Expired => f.write_str("its time is over"),
            Refusal::Burnt => f.write_str("it was tried too often"),
            Refusal::Used => f.write_str("it is used already"),
            Refusal::Busy => f.write_str("too many wrong ones were received lately"),
            Refusal::Wrong { left } => write!(f, "the words are wrong, tries left: {left}"),
        }
    }
}

impl Refusal {
    pub(super) fn encode(self) -> [u8; 3] {
        let (kind, left) = match self {
            Refusal::Unknown => (0, 0),
            Refusal::Expired => (1, 0),
            Refusal::Burnt => (2, 0),
            Refusal::Used => (3, 0),
            Refusal::Busy => (4, 0),
            Refusal::Wrong { left } => (5, left),
        };
        [REFUSAL, kind, left]
    }

    /// None if it is something else; no message of a Noise handshake is as short.
    pub(super) fn decode(frame: &[u8]) -> Option<Refusal> {
        match frame {
            [REFUSAL, 0, 0] => Some(Refusal::Unknown),
            [REFUSAL, 1, 0] => Some(Refusal::Expired),
            [REFUSAL, 2, 0] => Some(Refusal::Burnt),
            [REFUSAL, 3, 0] => Some(Refusal::Used),
            [REFUSAL, 4, 0] => Some(Refusal::Busy),
            [REFUSAL, 5, left] => Some(Refusal::Wrong { left: *left }),
            _ => None,
        }
    }
}

/// What the authority claims of itself. It is not proven yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The ring's identity.
    pub(super) ring: RingId,
    /// The ring's domain.
    pub(super) domain: String,
    share: Share,
}

impl Offer {
    fn encode(&self) -> Vec<u8> {
        let domain = self.domain.as_bytes();
        [&[OFFER][..], self.ring.as_bytes(), &self.share, domain].concat()
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Offer> {
        let rest = frame.strip_prefix(&[OFFER])?;
        let (ring, rest) = rest.split_first_chunk::<32>()?;
        let (share, domain) = rest.split_first_chunk::<SHARE>()?;
        let domain = std::str::from_utf8(domain).ok()?;
        if domain.len() > DOMAIN_BYTES || !is_domain(domain) {
            return None;
        }
        Some(Offer {
            ring: MemberId::new(*ring),
            domain: domain.to_owned(),
            share: *share,
        })
    }
}

/// What the Noise handshake after it is made with.
pub(super) struct Agreed {
    /// The same on both sides if both had the same words.
    pub(super) key: Zeroizing<[u8; 32]>,
    /// All that was said so far.
    pub(super) prologue: Vec<u8>,
}

impl Agreed {
    fn new(secret: &[u8], hello: &[u8], answer: &[u8]) -> Agreed {
        let key = blake3::derive_key("ringway 2026 spoken invite pre-shared key", secret);
        Agreed {
            key: Zeroizing::new(key),
            // The first has a fixed length, so that there is one way to read it.
            prologue: [hello, answer].concat(),
        }
    }
}

/// The new member's side, after its hello.
pub(super) struct Newcomer {
    pake: Spake2<Ed25519Group>,
    /// The frame to send.
    pub(super) hello: Vec<u8>,
}

impl Newcomer {
    /// None does not happen: a share has a fixed length.
    pub(super) fn start(invite: &SpokenInvite) -> Option<Newcomer> {
        let (member, authority) = sides(invite.number);
        let password = Password::new(invite.secret());
        let (pake, share) = Spake2::start_a(&password, &member, &authority);
        let share = share.try_into().ok()?;
        let number = invite.number;
        let hello = Hello { number, share }.encode();
        Some(Newcomer { pake, hello })
    }

    /// None if no honest authority sends such an answer.
    pub(super) fn finish(self, answer: &[u8]) -> Option<(Offer, Agreed)> {
        let offer = Offer::decode(answer)?;
        let secret = finish(self.pake, &offer.share)?;
        Some((offer, Agreed::new(&secret, &self.hello, answer)))
    }
}

/// The authority's side: the frame to answer with. None if no honest member sends such a hello.
pub(super) fn answer(
    hello: &Hello,
    secret: &[u8; WORDS],
    ring: RingId,
    domain: String,
) -> Option<(Vec<u8>, Agreed)> {
    let (member, authority) = sides(hello.number);
    let password = Password::new(secret);
    let (pake, share) = Spake2::start_b(&password, &member, &authority);
    let share = share.try_into().ok()?;
    let secret = finish(pake, &hello.share)?;
    let answer = Offer {
        ring,
        domain,
        share,
    };
    let answer = answer.encode();
    let agreed = Agreed::new(&secret, &hello.encode(), &answer);
    Some((answer, agreed))
}

/// Names of the two, for the key. The ring's identity comes in by the Noise handshake.
fn sides(number: u32) -> (Identity, Identity) {
    let authority = format!("ringway spoken invite 1, authority, invite {number}");
    (
        Identity::new(b"ringway spoken invite 1, new member"),
        Identity::new(authority.as_bytes()),
    )
}

fn finish(pake: Spake2<Ed25519Group>, share: &Share) -> Option<Zeroizing<Vec<u8>>> {
    let (_side, point) = share.split_first_chunk::<1>()?;
    let point = CompressedEdwardsY::from_slice(point).ok()?.decompress()?;
    if point.is_small_order() || !point.is_torsion_free() {
        return None;
    }
    // The side is checked there: no peer can be answered with its own share.
    pake.finish(share).ok().map(Zeroizing::new)
}

/// What the fuzzer tries: decoders take only what they would write, and nothing is too hostile for
/// the rest.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    if let Some(hello) = Hello::decode(data) {
        assert_eq!(hello.encode(), data, "a hello has one form");
        answer(
            &hello,
            &[1, 2, 3],
            MemberId::new([1; 32]),
            "ring.test".to_owned(),
        );
    }
    if let Some(refusal) = Refusal::decode(data) {
        assert_eq!(&refusal.encode()[..], data, "a refusal has one form");
    }
    if let Some(offer) = Offer::decode(data) {
        assert_eq!(offer.encode(), data, "an offer has one form");
        let invite = SpokenInvite::new(7, [1, 2, 3], None);
        if let Some(newcomer) = Newcomer::start(&invite) {
            newcomer.finish(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::constants::EIGHT_TORSION;
    use curve25519_dalek::edwards::EdwardsPoint;
    use proptest::prelude::*;

    use super::*;

    const WORDS_SAID: [u8; WORDS] = [1, 2, 3];

    fn ring() -> RingId {
        MemberId::new([9; 32])
    }

    fn invite(number: u32, secret: [u8; WORDS]) -> SpokenInvite {
        SpokenInvite::new(number, secret, None)
    }

    /// What both sides have in the end, the frames changed on the way.
    fn run(
        invite: &SpokenInvite,
        hello_changed: impl Fn(&mut Vec<u8>),
        answer_changed: impl Fn(&mut Vec<u8>),
    ) -> Option<(Agreed, Agreed)> {
        let newcomer = Newcomer::start(invite).unwrap();
        let mut hello = newcomer.hello.clone();
        hello_changed(&mut hello);
        let hello = Hello::decode(&hello)?;
        let (mut frame, authority) = answer(&hello, &WORDS_SAID, ring(), "ring.test".to_owned())?;
        answer_changed(&mut frame);
        let (_, member) = newcomer.finish(&frame)?;
        Some((member, authority))
    }

    fn agree((member, authority): &(Agreed, Agreed)) -> bool {
        member.key == authority.key && member.prologue == authority.prologue
    }

    #[test]
    fn only_equal_words_and_numbers_agree() {
        let untouched = |_: &mut Vec<u8>| ();
        let run_with = |invite: &SpokenInvite| run(invite, untouched, untouched).unwrap();
        assert!(agree(&run_with(&invite(7, WORDS_SAID))));
        let wrong = run_with(&invite(7, [1, 2, 4]));
        assert_ne!(wrong.0.key, wrong.1.key);
        let again = run_with(&invite(7, WORDS_SAID));
        assert_ne!(
            again.0.key,
            run_with(&invite(7, WORDS_SAID)).0.key,
            "fresh each time"
        );
        // A member that asks for invite 7 is passed on as if it had asked for 8, where the words
        // happen to be the same.
        let renumber = |hello: &mut Vec<u8>| hello[MAGIC.len() + 3] = 8;
        let moved = run(&invite(7, WORDS_SAID), renumber, untouched).unwrap();
        assert_ne!(moved.0.key, moved.1.key);
    }

    #[test]
    fn whatever_is_changed_on_the_way_is_noticed() {
        let invite = invite(7, WORDS_SAID);
        let length = 1 + 32 + SHARE + "ring.test".len();
        for at in 0..length {
            let change = |frame: &mut Vec<u8>| frame[at] ^= 1;
            let seen = run(&invite, |_| (), change);
            assert!(seen.is_none_or(|both| !agree(&both)), "answer, byte {at}");
        }
        for at in 0..MAGIC.len() + 4 + SHARE {
            let change = |frame: &mut Vec<u8>| frame[at] ^= 1;
            let seen = run(&invite, change, |_| ());
            assert!(seen.is_none_or(|both| !agree(&both)), "hello, byte {at}");
        }
    }

    #[test]
    fn a_reflected_share_is_refused() {
        let newcomer = Newcomer::start(&invite(7, WORDS_SAID)).unwrap();
        let share = Hello::decode(&newcomer.hello).unwrap().share;
        let (ring, domain) = (ring(), "ring.test".to_owned());
        let reflected = Offer {
            ring,
            domain,
            share,
        };
        assert!(newcomer.finish(&reflected.encode()).is_none());
    }

    #[test]
    fn points_outside_of_the_group_are_refused() {
        let answer_to = |point: EdwardsPoint| {
            let mut share = [b'A'; SHARE];
            share[1..].copy_from_slice(point.compress().as_bytes());
            let hello = Hello { number: 7, share };
            answer(&hello, &WORDS_SAID, ring(), "ring.test".to_owned()).is_some()
        };
        let base = curve25519_dalek::constants::ED25519_BASEPOINT_POINT;
        assert!(answer_to(base));
        for torsion in EIGHT_TORSION {
            assert!(!answer_to(torsion), "of small order");
            let mixed = base + torsion;
            assert_eq!(
                answer_to(mixed),
                mixed == base,
                "with a part of small order"
            );
        }
    }

    #[test]
    fn a_long_invites_first_message_is_no_hello() {
        assert_eq!(Hello::decode(&[0x72; 104]), None);
    }

    proptest! {
        #[test]
        fn frames_survive_their_form(number: u32, left: u8, share: [u8; 32], ring: [u8; 32]) {
            let share: Share = [&[b'A'][..], &share].concat().try_into().unwrap();
            let hello = Hello { number, share };
            prop_assert_eq!(Hello::decode(&hello.encode()), Some(hello));
            let offer = Offer { ring: MemberId::new(ring), domain: "ring.test".to_owned(), share };
            prop_assert_eq!(Offer::decode(&offer.encode()), Some(offer));
            let refusals = [Refusal::Unknown, Refusal::Expired, Refusal::Burnt, Refusal::Used, Refusal::Busy];
            for refusal in refusals.into_iter().chain([Refusal::Wrong { left }]) {
                prop_assert_eq!(Refusal::decode(&refusal.encode()), Some(refusal));
            }
        }

        #[test]
        fn other_bytes_are_neither(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Hello::decode(&data), None);
            if let Some(offer) = Offer::decode(&data) {
                prop_assert_eq!(offer.encode(), data);
            }
        }
    }
}
