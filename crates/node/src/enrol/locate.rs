//! Where a ring enrols, for a new member that knows nothing but the ring's domain.
//!
//! `_enrol.DOMAIN` is a TXT record as all others of the ring are, so that every server that has
//! those has it too. An SRV record would need a name with an address record beside it, which
//! owners' servers do not take from us. It is not signed, and need not be: a false answer leads to
//! a host that does not know the words of the invite.

use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{RData, RecordType};

use crate::certificate::{address_bytes, address_from_bytes};
use crate::directory;
use crate::endpoint::{Addresses, Endpoint};
use crate::zone::{self, RecordName};

/// Why the place was not found.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// There is nothing of the kind, DNS says.
    #[error("there is no record _enrol.{0}")]
    Absent(String),
    /// No answer.
    #[error("{0}")]
    Dns(String),
    /// Something else stands there.
    #[error("what stands at _enrol there is no record of a ring")]
    Foreign,
    /// The system does not know the host that is named.
    #[error("its host name {0} is not found: {1}")]
    Unknown(Endpoint, std::io::Error),
}

/// How a member finds the authority of its ring.
#[derive(Clone, Debug)]
pub struct Locator {
    domain: String,
    server: Option<Endpoint>,
    stated: Option<Endpoint>,
}

impl Locator {
    /// Asks `server`, or the system's resolver, for the record `_enrol` of `domain`.
    #[must_use]
    pub fn new(domain: &str, server: Option<Endpoint>) -> Locator {
        Locator {
            domain: domain.to_owned(),
            server,
            stated: None,
        }
    }

    /// What the ring's owner has stated comes first: it is signed.
    pub(crate) fn stated(self, stated: Option<Endpoint>) -> Locator {
        Locator { stated, ..self }
    }

    /// The ring's domain.
    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// Where the authority is now.
    ///
    /// # Errors
    /// When DNS, or the system for a host name, does not say it.
    pub(super) async fn locate(&self) -> Result<Addresses, LocateError> {
        if let Some(stated) = &self.stated {
            match stated.resolve().await {
                Ok(found) => return Ok(found),
                Err(error) => tracing::debug!(%stated, %error, "the authority's host is not found"),
            }
        }
        let place = self.in_dns().await?;
        let found = place.resolve().await;
        found.map_err(|error| LocateError::Unknown(place, error))
    }

    async fn in_dns(&self) -> Result<Endpoint, LocateError> {
        let resolver = directory::resolver_at(self.server.as_ref()).await;
        let resolver = resolver.map_err(|e| LocateError::Dns(e.to_string()))?;
        let name = RecordName::Enrol.qualified(&self.domain);
        let lookup = resolver.lookup(name, RecordType::TXT).await;
        let lookup = lookup.map_err(|error| match error {
            NetError::Dns(DnsError::NoRecordsFound(_)) => LocateError::Absent(self.domain.clone()),
            error => LocateError::Dns(error.to_string()),
        })?;
        let records = lookup.answers().iter();
        let mut ours = records.filter_map(|record| match &record.data {
            RData::TXT(txt) => zone::from_txt(txt.txt_data.iter().map(AsRef::as_ref)),
            _ => None,
        });
        let content = ours.find_map(|content| from_record(&content));
        content.ok_or(LocateError::Foreign)
    }
}

/// What stands at `_enrol`: an address in 18 bytes, as versions read it that knew nothing else, or
/// the text of a host name and a port.
#[must_use]
pub(crate) fn record_of(place: &Endpoint) -> Vec<u8> {
    match place.address() {
        Some(address) => address_bytes(address).to_vec(),
        None => [HOST, place.to_string().as_bytes()].concat(),
    }
}

/// Begins the text. No address that is in use begins with these bytes (RFC 4291 §2.4).
const HOST: &[u8] = b"host=";

fn from_record(content: &[u8]) -> Option<Endpoint> {
    match content.strip_prefix(HOST) {
        Some(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        None => Some(address_from_bytes(content.try_into().ok()?).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_record_are_read() {
        for text in [
            "192.0.2.7:7410",
            "[2001:db8::7]:7410",
            "a.org:7410",
            "authority.org:53",
        ] {
            let place: Endpoint = text.parse().unwrap();
            assert_eq!(from_record(&record_of(&place)), Some(place), "{text}");
        }
        for other in [&b""[..], b"host=", b"host=nothing", &[0; 17], &[0; 19]] {
            assert_eq!(from_record(other), None);
        }
    }
}
