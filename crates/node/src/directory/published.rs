//! The owner's statement as one DNS server gives it, whatever is known here: to tell whether the
//! ring's zone is found.

use hickory_resolver::proto::rr::RecordType;

use super::{DirectoryError, record_of, resolver_at};
use crate::certificate::RingId;
use crate::endpoint::Endpoint;
use crate::statement::Statement;
use crate::zone::RecordName;

/// Asks `server`, or the system's resolver, for the owner's statement of the ring at `domain`. It
/// takes at most some seconds.
///
/// # Errors
/// When there is no answer, no record, or what it gives is not signed by the owner.
pub async fn published(
    ring: &RingId,
    domain: &str,
    server: Option<&Endpoint>,
) -> Result<Statement, DirectoryError> {
    let record = RecordName::Ring;
    let failed = |reason: String| DirectoryError::Unavailable(record.relative(), reason);
    let name = record.qualified(domain);
    let lookup = resolver_at(server).await?;
    let lookup = lookup.lookup(name, RecordType::TXT).await;
    let lookup = lookup.map_err(|error| failed(error.to_string()))?;
    let bytes = record_of(&lookup);
    let bytes = bytes.ok_or_else(|| failed("what stands there is no record of a ring".into()))?;
    Statement::decode(&bytes, ring).map_err(|error| failed(error.to_string()))
}
