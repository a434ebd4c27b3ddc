//! A connection to another member: straight to an address that was tested, or else over a link,
//! whatever carries that.

use ringway_dtl::Priority;
use ringway_transport::quic::{QuicConnection, QuicError, member_address};

use super::Connections;
use crate::certificate::Certificate;
use crate::member::Unreachable;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// No way to the member is known.
    #[error("{0}")]
    Unreachable(Unreachable),
    /// There is a way, and no connection came about.
    #[error(transparent)]
    Quic(#[from] QuicError),
}

impl Connections {
    /// Connects to the member with this certificate.
    ///
    /// # Errors
    /// When it cannot be reached, or does not answer.
    pub(crate) async fn connect(
        &self,
        certificate: Certificate,
        priority: Priority,
    ) -> Result<QuicConnection, DialError> {
        let peer = certificate.member();
        let addresses = match self.inner.member.reach(certificate).await {
            Ok(addresses) => addresses,
            // There is a link, so there is a way.
            Err(Unreachable::NoQuic(_)) => Vec::new(),
            Err(error) => return Err(DialError::Unreachable(error)),
        };
        for address in addresses {
            let connecting = self.inner.endpoint.connect(address, peer, priority);
            match connecting.await {
                Ok(connection) => return Ok(connection),
                Err(error) => tracing::info!(%address, %error, "a connection goes another way"),
            }
        }
        let over_link = member_address(&peer);
        let connecting = self.inner.over_links.connect(over_link, peer, priority);
        Ok(connecting.await?)
    }
}
