//! A member brings the owner's statements back to an authority that was restored from a backup, and
//! its own certificate with them.

use std::net::SocketAddr;

use tokio::time::timeout;

use super::channel::{self, ChannelError};
use super::locate::{LocateError, Locator};
use super::{Bring, BringAnswer};
use crate::certificate::Certificate;
use crate::endpoint::Addresses;
use crate::limits::ENROL_TIME;
use crate::statement::Statement;

/// Why nothing could be brought.
#[derive(Debug, thiserror::Error)]
pub enum BringError {
    /// The ring's DNS does not say where the authority is.
    #[error(transparent)]
    NotLocated(#[from] LocateError),
    /// The connection, or what came over it.
    #[error("the authority at {address} did not take it: {reason}")]
    Failed {
        /// From the ring's DNS.
        address: SocketAddr,
        /// What happened.
        reason: String,
    },
}

/// Brings a statement and the member's certificate to the authority. True if that knew nothing of
/// the statement.
///
/// # Errors
/// When the authority is not found, or does not answer.
pub async fn bring(
    locator: &Locator,
    statement: &Statement,
    certificate: &Certificate,
) -> Result<bool, BringError> {
    let addresses = locator.locate().await?;
    bring_to(addresses, statement, Some(certificate)).await
}

/// As [`bring`], to an authority whose addresses are known; by one that is no member if there is no
/// certificate.
pub(crate) async fn bring_to(
    addresses: Addresses,
    statement: &Statement,
    certificate: Option<&Certificate>,
) -> Result<bool, BringError> {
    let address = addresses.first();
    let failed = |reason: String| BringError::Failed { address, reason };
    let bring = Bring {
        statement: statement.as_bytes().to_vec().into(),
        certificate: certificate
            .map_or_else(Vec::new, |own| own.as_bytes().to_vec())
            .into(),
    };
    let exchange = async {
        let stream = addresses.connect().await?;
        channel::bring(stream, &bring).await
    };
    let answered = timeout(ENROL_TIME, exchange).await;
    let answered = answered.map_err(|_| failed("no answer".to_owned()))?;
    let answer = answered.map_err(|error: ChannelError| failed(error.to_string()))?;
    Ok(matches!(answer, BringAnswer::News))
}
