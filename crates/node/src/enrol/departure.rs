//! What a member says to the authority that grants it nothing: that it leaves, and that it is
//! there.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::known::{AskError, Asking, Exchange};
use super::locate::Locator;
use crate::certificate::{Certificate, RingId};
use crate::identity::Identity;

/// What a member reports of itself.
#[derive(Debug, Encode, Decode)]
pub(super) struct Report {
    /// Its certificate.
    #[n(0)]
    pub(super) certificate: ByteVec,
    /// Version of its program.
    #[n(1)]
    pub(super) version: String,
}

/// Tells the authority that this member leaves the ring for good.
pub(crate) async fn depart(
    locator: &Locator,
    identity: &Identity,
    ring: &RingId,
    own: &Certificate,
) -> Result<(), AskError> {
    let asking = Asking {
        locator,
        ring,
        identity,
    };
    let granted = asking.ask(Exchange::Departure, own.as_bytes()).await;
    granted.map(|_| ())
}

/// Tells it that this member is there, and by which version of the program.
pub(crate) async fn report(
    locator: &Locator,
    identity: &Identity,
    ring: &RingId,
    own: &Certificate,
) -> Result<(), AskError> {
    let asking = Asking {
        locator,
        ring,
        identity,
    };
    let report = Report {
        certificate: own.as_bytes().to_vec().into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let report = crate::cbor::encode(&report);
    let granted = asking.ask(Exchange::Report, &report).await;
    granted.map(|_| ())
}
