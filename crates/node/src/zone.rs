//! Where a ring's records stand in DNS, and their text form.
//!
//! | name | TXT record |
//! |---|---|
//! | `_ring.DOMAIN` | the owner's statement |
//! | `_enrol.DOMAIN` | where members enrol: the IPv6 or mapped IPv4 address, and the port; or `host=NAME:PORT`. Not signed: for those who do not know the owner's key yet |
//! | `NAME._member.DOMAIN` | that member's certificate |
//! | `ID._id.DOMAIN` | the same, by member id in base32 |
//! | `KEY._key.DOMAIN` | the same, by the first 14 bytes of a router's ring key in hex |

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ringway_overlay::RingKey;
use ringway_transport::MemberId;

use crate::certificate::{Certificate, Name};
use crate::limits::{DOMAIN_BYTES, STATEMENT_BYTES};

const PREFIX: &str = "rw1=";

/// What a record is looked up by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RecordName {
    /// The owner's statement.
    Ring,
    /// Where members enrol.
    Enrol,
    /// A certificate by member name.
    Member(Name),
    /// A certificate by member id.
    Id(MemberId),
    /// A router's certificate by ring key.
    Key(RingKey),
}

impl RecordName {
    /// The name below the ring's domain, without a final dot.
    #[must_use]
    pub(crate) fn relative(&self) -> String {
        match self {
            RecordName::Ring => "_ring".to_owned(),
            RecordName::Enrol => "_enrol".to_owned(),
            RecordName::Member(name) => format!("{name}._member"),
            RecordName::Id(id) => format!("{id}._id"),
            RecordName::Key(key) => {
                let (hash, _address) = key.as_bytes().split_at(14);
                format!("{}._key", HEXLOWER.encode(hash))
            }
        }
    }

    /// The fully qualified name, with the final dot.
    #[must_use]
    pub(crate) fn qualified(&self, domain: &str) -> String {
        format!("{}.{}.", self.relative(), domain.trim_end_matches('.'))
    }
}

/// True if a ring's domain can be this text: labels of letters, digits and hyphens, and perhaps a
/// final dot.
#[must_use]
pub(crate) fn is_domain(text: &str) -> bool {
    let trimmed = text.strip_suffix('.').unwrap_or(text);
    let label_is_good = |label: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        let hyphen_outside = label.starts_with('-') || label.ends_with('-');
        (1..=63).contains(&label.len()) && !hyphen_outside && label.bytes().all(allowed)
    };
    trimmed.len() <= DOMAIN_BYTES && trimmed.split('.').all(label_is_good)
}

/// Why no ring's records can be found below a domain that is reserved for another use; none if they
/// can.
#[must_use]
pub(crate) fn reserved(domain: &str) -> Option<&'static str> {
    let domain = domain.trim_end_matches('.').to_ascii_lowercase();
    let last = domain.rsplit('.').next().unwrap_or_default();
    match last {
        // RFC 6761 §6.3.
        "localhost" => Some(
            "resolvers take `localhost` for the machine itself and ask nobody (RFC 6761): use a domain of yours, such as ring.example.org, or one below `test` or `internal` for a ring of your own machines",
        ),
        // RFC 6762 §3.
        "local" => Some(
            "names below `local` are looked up by multicast on the local network and not in DNS (RFC 6762): use a domain of yours, or one below `internal`",
        ),
        // RFC 6761 §6.4.
        "invalid" => Some(
            "resolvers answer that nothing exists below `invalid` (RFC 6761): use a domain of yours, or one below `test`",
        ),
        // RFC 7686 §2; RFC 9476 §2.
        "onion" | "alt" => Some(
            "names below `onion` and `alt` are not looked up in DNS (RFC 7686, RFC 9476): use a domain of yours",
        ),
        // A top-level domain of digits would be an address (RFC 3696 §2).
        _ if last.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some("it looks like an address: use a name, such as ring.example.org")
        }
        _ => None,
    }
}

/// The names under which a certificate stands.
#[must_use]
pub(crate) fn names_of(certificate: &Certificate) -> Vec<RecordName> {
    let mut names = vec![
        RecordName::Member(certificate.name().clone()),
        RecordName::Id(certificate.member()),
    ];
    names.extend(certificate.ring_key().map(RecordName::Key));
    names
}

/// Text form of a record: strings of at most 255 bytes (RFC 1035 §3.3.14), to be joined by the
/// reader.
#[must_use]
pub(crate) fn to_txt(content: &[u8]) -> Vec<String> {
    let text = format!("{PREFIX}{}", BASE64URL_NOPAD.encode(content));
    let mut strings = Vec::new();
    let mut rest = text.as_str();
    while rest.len() > 255 {
        let (head, tail) = rest.split_at(255);
        strings.push(head.to_owned());
        rest = tail;
    }
    strings.push(rest.to_owned());
    strings
}

/// The content of a record, or none if it is not one of ours.
#[must_use]
pub(crate) fn from_txt<'a>(strings: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for string in strings {
        text.extend_from_slice(string);
        if text.len() > 2 * STATEMENT_BYTES {
            return None;
        }
    }
    let encoded = text.strip_prefix(PREFIX.as_bytes())?;
    BASE64URL_NOPAD.decode(encoded).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_survive_the_text_form(content in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let strings = to_txt(&content);
            prop_assert!(strings.iter().all(|s| s.len() <= 255));
            prop_assert_eq!(from_txt(strings.iter().map(String::as_bytes)), Some(content));
        }

        #[test]
        fn foreign_records_are_ignored(text in ".{0,300}") {
            prop_assume!(!text.starts_with(PREFIX));
            prop_assert_eq!(from_txt([text.as_bytes()].into_iter()), None);
        }
    }

    #[test]
    fn reserved_names_are_no_zones() {
        for domain in [
            "localhost",
            "ring.localhost",
            "office.LOCAL.",
            "ring.invalid",
            "a.onion",
            "192.0.2.1",
        ] {
            assert!(is_domain(domain) && reserved(domain).is_some(), "{domain}");
        }
        for domain in [
            "ring.test",
            "ring.internal",
            "home.arpa",
            "local.example.org",
            "ring.example.org",
            "ring",
        ] {
            assert_eq!(reserved(domain), None, "{domain}");
        }
    }

    #[test]
    fn labels_fit_into_dns() {
        let key = RingKey::from_bytes([0xab; 32]);
        let id = MemberId::new([0xcd; 32]);
        for name in [
            RecordName::Key(key),
            RecordName::Id(id),
            RecordName::Ring,
            RecordName::Enrol,
        ] {
            let text = name.qualified("ring.example");
            assert!(text.ends_with(".ring.example."), "{text}");
            assert!(text.split('.').all(|label| label.len() <= 63), "{text}");
        }
    }
}
