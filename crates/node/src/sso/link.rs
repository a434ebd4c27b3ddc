//! A join link: what tells a new member which ring it joins, where the invite does not.
//!
//! It holds the ring's public key, its domain and where it enrols, and no secret. It may stand on a
//! page that everybody reads. It has to come unchanged: who puts another in its place makes people
//! join another ring.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_transport::MemberId;

use crate::admission::{dns_of, host_of};
use crate::certificate::{RingId, address_bytes};
use crate::endpoint::Endpoint;
use crate::limits::{DOMAIN_BYTES, INVITE_TEXT};
use crate::zone;

const PREFIX: &str = "rwl1";

/// Bytes of the check at the end: one damaged link in four billion passes.
const CHECK: usize = 4;

/// Why a text is no join link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no join link, or it is damaged: it must be the whole line that `ringway ring link` printed, beginning `rwl1`"
)]
pub struct InvalidLink;

#[derive(Encode, Decode)]
struct Body {
    #[n(0)]
    ring: ByteArray<32>,
    #[n(1)]
    enrol: ByteArray<18>,
    #[n(2)]
    domain: String,
    /// Host name and port, if that is no address: `enrol` is all zeros then.
    #[n(3)]
    host: Option<String>,
}

/// Which ring to join, and where. No secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinLink {
    /// The ring's identity: the other side has to prove that it has this key.
    pub ring: RingId,
    /// The ring's domain. Its DNS says where the authority is if it is not at `enrol` any more.
    pub domain: String,
    /// Where the authority enrols.
    pub enrol: Endpoint,
}

impl JoinLink {
    /// True for a text that is meant to be a join link, damaged or not.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        let text = text.trim();
        text.get(..PREFIX.len())
            .is_some_and(|first| first.eq_ignore_ascii_case(PREFIX))
    }
}

fn check(body: &[u8]) -> [u8; CHECK] {
    let [a, b, c, d, ..] = blake3::derive_key("ringway 2026 join link check", body);
    [a, b, c, d]
}

impl fmt::Display for JoinLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = crate::cbor::encode(&Body {
            ring: (*self.ring.as_bytes()).into(),
            enrol: self.enrol.address().map_or([0; 18], address_bytes).into(),
            domain: self.domain.clone(),
            host: host_of(&self.enrol),
        });
        let check = check(&bytes);
        bytes.extend_from_slice(&check);
        let encoded = BASE32_NOPAD.encode(&bytes).to_ascii_lowercase();
        write!(f, "{PREFIX}{encoded}")
    }
}

impl FromStr for JoinLink {
    type Err = InvalidLink;

    fn from_str(text: &str) -> Result<JoinLink, InvalidLink> {
        let text = text.trim();
        if text.len() > INVITE_TEXT || !JoinLink::is_meant(text) {
            return Err(InvalidLink);
        }
        let encoded = text.get(PREFIX.len()..).ok_or(InvalidLink)?;
        let decoded = BASE32_NOPAD.decode(encoded.to_ascii_uppercase().as_bytes());
        let bytes = decoded.map_err(|_| InvalidLink)?;
        let (body, found) = bytes.split_last_chunk::<CHECK>().ok_or(InvalidLink)?;
        if check(body) != *found {
            return Err(InvalidLink);
        }
        let body: Body = minicbor::decode(body).map_err(|_| InvalidLink)?;
        // It is shown, and asked for in DNS.
        if body.domain.len() > DOMAIN_BYTES || !zone::is_domain(&body.domain) {
            return Err(InvalidLink);
        }
        Ok(JoinLink {
            ring: MemberId::new(*body.ring),
            domain: body.domain,
            enrol: dns_of(&body.enrol, body.host.as_deref()).ok_or(InvalidLink)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link() -> JoinLink {
        JoinLink {
            ring: MemberId::new([3; 32]),
            domain: "ring.example".to_owned(),
            enrol: "192.0.2.1:7410".parse().unwrap(),
        }
    }

    #[test]
    fn link_survives_text_in_either_case() {
        let text = link().to_string();
        let mut named = link();
        named.enrol = "authority.example.org:7410".parse().unwrap();
        assert_eq!(named.to_string().parse(), Ok(named));
        for shown in [text.clone(), text.to_uppercase(), format!(" {text}\n")] {
            assert!(JoinLink::is_meant(&shown));
            assert_eq!(shown.parse(), Ok(link()));
        }
    }

    #[test]
    fn link_with_another_character_is_refused() {
        let text = link().to_string();
        for position in 0..text.len() {
            for other in [b'a', b'7'] {
                let mut damaged = text.as_bytes().to_vec();
                if damaged[position] != other {
                    damaged[position] = other;
                    let damaged = String::from_utf8(damaged).unwrap();
                    assert_eq!(damaged.parse::<JoinLink>(), Err(InvalidLink), "{position}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn other_text_is_no_link(text in ".{0,200}") {
            prop_assert!(text.parse::<JoinLink>().is_err());
        }
    }
}
