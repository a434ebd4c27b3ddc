//! Where a ring enrols, for a new member that knows nothing but the ring's domain.
//!
//! `_enrol.DOMAIN` is a TXT record as all others of the ring are, so that every server that has
//! those has it too. An SRV record would need a name with an address record beside it, which
//! owners' servers do not take from us. It is not signed, and need not be: a false answer leads to
//! a host that does not know the words of the invite.

use std::net::SocketAddr;

use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{RData, RecordType};

use crate::certificate::address_from_bytes;
use crate::directory;
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
}

/// Asks `server`, or the system's resolver.
pub(super) async fn locate(
    domain: &str,
    server: Option<SocketAddr>,
) -> Result<SocketAddr, LocateError> {
    let resolver = directory::resolver(server).map_err(|e| LocateError::Dns(e.to_string()))?;
    let name = RecordName::Enrol.qualified(domain);
    let lookup = resolver.lookup(name, RecordType::TXT).await;
    let lookup = lookup.map_err(|error| match error {
        NetError::Dns(DnsError::NoRecordsFound(_)) => LocateError::Absent(domain.to_owned()),
        error => LocateError::Dns(error.to_string()),
    })?;
    let records = lookup.answers().iter();
    let mut ours = records.filter_map(|record| match &record.data {
        RData::TXT(txt) => zone::from_txt(txt.txt_data.iter().map(AsRef::as_ref)),
        _ => None,
    });
    let content: Option<[u8; 18]> = ours.find_map(|content| content.try_into().ok());
    Ok(address_from_bytes(&content.ok_or(LocateError::Foreign)?))
}
