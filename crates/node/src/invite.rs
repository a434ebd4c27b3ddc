//! An invite: what the ring owner hands to a new member, by any way that others cannot read.
//!
//! It names the ring and where to enrol, and holds a secret that works once. A [`SpokenInvite`] is
//! short enough to be read aloud.

mod spoken;
mod words;

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_transport::MemberId;
use zeroize::Zeroizing;

pub(crate) use self::spoken::{InvalidSpoken, SpokenInvite, WORDS};
use crate::certificate::{RingId, address_bytes, address_from_bytes};
use crate::endpoint::Endpoint;
use crate::limits::{DOMAIN_BYTES, INVITE_TEXT};

const PREFIX: &str = "rw1";

/// Bytes of the check at the end: one damaged invite in four billion passes.
const CHECK: usize = 4;

fn check(body: &[u8]) -> [u8; CHECK] {
    let hash = blake3::derive_key("ringway 2026 invite check", body);
    let [a, b, c, d, ..] = hash;
    [a, b, c, d]
}

/// Why a text is no invite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not a Ringway invite, or it is damaged: it must be the whole line that `ringway ring invite` printed, beginning `rw1`, or a spoken invite, which begins with a number"
)]
pub struct InvalidInvite;

#[derive(Encode, Decode)]
struct Body {
    #[n(0)]
    ring: ByteArray<32>,
    #[n(1)]
    id: ByteArray<8>,
    #[n(2)]
    secret: ByteArray<16>,
    #[n(3)]
    enrol: ByteArray<18>,
    #[n(4)]
    domain: String,
    /// Host name and port, if that is no address: `enrol` is all zeros then.
    #[n(5)]
    host: Option<String>,
}

/// Either form, as a new member gives it.
#[derive(Clone, Debug)]
pub(crate) enum AnyInvite {
    Long(Invite),
    Spoken(SpokenInvite),
}

/// Why a text is neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoInvite {
    /// It is not the long form, nor does it look like the other.
    #[error(transparent)]
    Long(#[from] InvalidInvite),
    /// It looks like a spoken one.
    #[error(transparent)]
    Spoken(#[from] InvalidSpoken),
}

impl FromStr for AnyInvite {
    type Err = NoInvite;

    fn from_str(text: &str) -> Result<AnyInvite, NoInvite> {
        let text = text.trim();
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            Ok(AnyInvite::Spoken(text.parse()?))
        } else {
            Ok(AnyInvite::Long(text.parse()?))
        }
    }
}

/// What the fuzzer tries: what is taken survives its text form.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    match std::str::from_utf8(data).map(str::parse) {
        Ok(Ok(AnyInvite::Long(invite))) => {
            let again: Result<Invite, _> = invite.to_text().parse();
            assert!(again.is_ok_and(|again| again.secret == invite.secret));
        }
        Ok(Ok(AnyInvite::Spoken(invite))) => {
            let again: Result<SpokenInvite, _> = invite.to_text().parse();
            let same = |again: SpokenInvite| {
                again.number == invite.number && again.secret() == invite.secret()
            };
            assert!(again.is_ok_and(same));
        }
        Ok(Err(_)) | Err(_) => {}
    }
}

/// An invite in the form in which it is used. Its text form is a secret.
#[derive(Clone)]
pub(crate) struct Invite {
    /// The ring's identity.
    pub(crate) ring: RingId,
    /// The ring's domain.
    pub(crate) domain: String,
    /// Where the authority enrols members.
    pub(crate) enrol: Endpoint,
    /// Names the invite to the authority.
    pub(crate) id: [u8; 8],
    secret: Zeroizing<[u8; 16]>,
}

impl fmt::Debug for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invite")
            .field("ring", &self.ring)
            .field("domain", &self.domain)
            .field("enrol", &self.enrol)
            .finish_non_exhaustive()
    }
}

impl Invite {
    /// Puts an invite together; `id` and `secret` come from the operating system's randomness.
    #[must_use]
    pub(crate) fn new(
        ring: RingId,
        domain: String,
        enrol: Endpoint,
        id: [u8; 8],
        secret: [u8; 16],
    ) -> Invite {
        Invite {
            ring,
            domain,
            enrol,
            id,
            secret: Zeroizing::new(secret),
        }
    }

    /// The pre-shared key of the enrolment's Noise handshake.
    #[must_use]
    pub(crate) fn pre_shared_key(&self) -> Zeroizing<[u8; 32]> {
        let mut material = Zeroizing::new(Vec::with_capacity(56));
        material.extend_from_slice(self.ring.as_bytes());
        material.extend_from_slice(&self.id);
        material.extend_from_slice(self.secret.as_ref());
        Zeroizing::new(blake3::derive_key(
            "ringway 2026 invite pre-shared key",
            &material,
        ))
    }

    /// The text to hand over: one line of lower-case letters and digits.
    #[must_use]
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let address = self.enrol.address();
        let body = Body {
            ring: (*self.ring.as_bytes()).into(),
            id: self.id.into(),
            secret: (*self.secret).into(),
            enrol: address.map_or([0; 18], address_bytes).into(),
            domain: self.domain.clone(),
            host: address.is_none().then(|| self.enrol.to_string()),
        };
        let mut bytes = Zeroizing::new(crate::cbor::encode(&body));
        let check = check(&bytes);
        bytes.extend_from_slice(&check);
        let encoded = Zeroizing::new(BASE32_NOPAD.encode(&bytes));
        Zeroizing::new(format!("{PREFIX}{}", encoded.to_ascii_lowercase()))
    }
}

impl FromStr for Invite {
    type Err = InvalidInvite;

    fn from_str(text: &str) -> Result<Invite, InvalidInvite> {
        let text = text.trim();
        if text.len() > INVITE_TEXT {
            return Err(InvalidInvite);
        }
        let encoded = text.strip_prefix(PREFIX).ok_or(InvalidInvite)?;
        let upper = Zeroizing::new(encoded.to_ascii_uppercase());
        let bytes = BASE32_NOPAD
            .decode(upper.as_bytes())
            .map_err(|_| InvalidInvite)?;
        let bytes = Zeroizing::new(bytes);
        let (body, found) = bytes.split_last_chunk::<CHECK>().ok_or(InvalidInvite)?;
        // Found here, a typing error costs no connection.
        if check(body) != *found {
            return Err(InvalidInvite);
        }
        let body: Body = minicbor::decode(body).map_err(|_| InvalidInvite)?;
        if body.domain.len() > DOMAIN_BYTES {
            return Err(InvalidInvite);
        }
        let ring = MemberId::new(*body.ring);
        let enrol = match &body.host {
            Some(host) => host.parse().map_err(|_| InvalidInvite)?,
            None => address_from_bytes(&body.enrol).into(),
        };
        Ok(Invite::new(
            ring,
            body.domain,
            enrol,
            *body.id,
            *body.secret,
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn invite() -> Invite {
        invite_to("192.0.2.1:4001")
    }

    fn invite_to(enrol: &str) -> Invite {
        let enrol = enrol.parse().unwrap();
        Invite::new(
            MemberId::new([3; 32]),
            "ring.example".to_owned(),
            enrol,
            [1; 8],
            [2; 16],
        )
    }

    #[test]
    fn it_survives_text_in_either_case() {
        let invite = invite();
        let text = invite.to_text();
        for shown in [
            text.to_string(),
            text.to_ascii_uppercase().replacen("RW1", "rw1", 1),
            format!(" {}\n", *text),
        ] {
            let read: Invite = shown.parse().unwrap();
            assert_eq!(read.enrol, invite.enrol);
            assert_eq!(read.pre_shared_key(), invite.pre_shared_key());
        }
    }

    #[test]
    fn host_names_survive_and_addresses_are_as_before() {
        let named = invite_to("ring.example.org:7410");
        let read: Invite = named.to_text().parse().unwrap();
        assert_eq!(read.enrol, named.enrol);
        // Versions that knew addresses only read such an invite.
        let bytes = BASE32_NOPAD.decode(
            invite().to_text()[PREFIX.len()..]
                .to_ascii_uppercase()
                .as_bytes(),
        );
        assert_eq!(bytes.unwrap()[0], 0x85, "an array of five");
        let longest = format!(
            "{}.example.org:65535",
            "a23456789.".repeat(17).trim_end_matches('.')
        );
        let mut long = invite_to(&longest);
        long.domain = longest.trim_end_matches(":65535").to_owned();
        assert!(long.to_text().parse::<Invite>().is_ok());
    }

    #[test]
    fn an_invite_with_one_other_character_is_refused() {
        let text = invite().to_text();
        for position in PREFIX.len()..text.len() {
            for other in [b'a', b'7'] {
                let mut damaged = text.as_bytes().to_vec();
                if damaged[position] != other {
                    damaged[position] = other;
                    let damaged = String::from_utf8(damaged).unwrap();
                    assert!(damaged.parse::<Invite>().is_err(), "{position}");
                }
            }
        }
    }

    #[test]
    fn debug_output_does_not_show_the_secret() {
        assert!(!format!("{:?}", invite()).contains("secret"));
    }

    proptest! {
        #[test]
        fn other_text_is_refused(text in ".{0,200}") {
            prop_assert!(text.parse::<Invite>().is_err());
        }
    }
}
