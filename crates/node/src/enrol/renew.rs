//! The member's side of a renewal: the key is the same, and so is all else but the time.

use std::io;
use std::net::SocketAddr;

use minicbor::bytes::ByteVec;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::RenewalAnswer;
use super::channel::{self, ChannelError};
use super::locate::{LocateError, locate};
use crate::certificate::{Certificate, CertificateError, RingId};
use crate::clock::unix_seconds;
use crate::identity::Identity;
use crate::limits::ENROL_TIME;
use crate::text::printable;

/// Why there is no newer certificate yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenewError {
    #[error("DNS does not say where the authority of {domain} is ({reason})")]
    NotLocated { domain: String, reason: LocateError },
    #[error(
        "the ring's authority at {address} cannot be reached ({source}): is `ringway ring serve` running there?"
    )]
    Unreachable {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "the peer at {address} is not this ring's authority, is of a build that renews nothing, or ended the connection"
    )]
    Rejected { address: SocketAddr },
    #[error("the authority at {address} did not answer within {} s", ENROL_TIME.as_secs())]
    TimedOut { address: SocketAddr },
    #[error("the ring's authority refused: {0}")]
    Refused(String),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the newer certificate does not fit this member ({0})")]
    Unfit(&'static str),
}

impl RenewError {
    /// True if the ring's DNS has not answered.
    pub(crate) fn is_silence_of_dns(&self) -> bool {
        let reason = match self {
            RenewError::NotLocated { reason, .. } => Some(reason),
            _ => None,
        };
        matches!(reason, Some(LocateError::Dns(_)))
    }
}

/// Asks the authority of `domain` for a newer certificate than `own`; `resolver` is the DNS server
/// that is asked where it is, none the system's.
pub(crate) async fn renew(
    domain: &str,
    resolver: Option<SocketAddr>,
    identity: &Identity,
    ring: &RingId,
    own: &Certificate,
) -> Result<Certificate, RenewError> {
    let address = locate(domain, resolver).await;
    let address = address.map_err(|reason| RenewError::NotLocated {
        domain: domain.to_owned(),
        reason,
    })?;
    let answered = timeout(ENROL_TIME, ask(address, identity, ring, own)).await;
    let newer = answered.map_err(|_| RenewError::TimedOut { address })??;
    check_renewed(own, &newer, unix_seconds())?;
    Ok(newer)
}

async fn ask(
    address: SocketAddr,
    identity: &Identity,
    ring: &RingId,
    own: &Certificate,
) -> Result<Certificate, RenewError> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|source| RenewError::Unreachable { address, source })?;
    let exchange = async {
        let mut channel = channel::connect_renewal(stream, identity, ring).await?;
        let shown: ByteVec = own.as_bytes().to_vec().into();
        channel.send(&shown).await?;
        channel.receive::<RenewalAnswer>().await
    };
    let answer = exchange.await.map_err(|error: ChannelError| {
        tracing::debug!(%error, "the authority was asked for a newer certificate in vain");
        RenewError::Rejected { address }
    })?;
    match answer {
        RenewalAnswer::Granted { certificate } => Ok(Certificate::decode(&certificate, ring)?),
        RenewalAnswer::Refused { reason } => Err(RenewError::Refused(printable(&reason, 200))),
    }
}

/// Whether `newer` takes the place of `own` at `now`, Unix seconds, and changes nothing but the
/// time.
pub(crate) fn check_renewed(
    own: &Certificate,
    newer: &Certificate,
    now: u64,
) -> Result<(), RenewError> {
    let same = |certificate: &Certificate| {
        let name = certificate.name().clone();
        (certificate.member(), name, certificate.address())
    };
    if same(own) != same(newer) || own.ring_key() != newer.ring_key() {
        return Err(RenewError::Unfit("it is another member's"));
    }
    if newer.serial() <= own.serial() {
        return Err(RenewError::Unfit("it is no newer one"));
    }
    Ok(newer.check_time(now)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::CertificateFields;
    use ringway_transport::Signer as _;

    #[test]
    fn only_time_and_serial_may_be_others() {
        let owner = Identity::generate().unwrap();
        let fields = CertificateFields {
            member: Identity::generate().unwrap().member(),
            name: "oslo".parse().unwrap(),
            address: Some("192.0.2.7:7400".parse().unwrap()),
            nonce: [1; 16],
            not_before: 100,
            not_after: 200,
            serial: 7,
        };
        let own = Certificate::issue(&owner, &fields);
        let renewed = CertificateFields {
            not_before: 150,
            not_after: 250,
            serial: 8,
            ..fields
        };
        let check = |fields: &CertificateFields, now| {
            check_renewed(&own, &Certificate::issue(&owner, fields), now)
        };
        assert!(check(&renewed, 160).is_ok());
        assert!(check(&renewed, 250).is_err(), "it has ended as well");
        let with = |change: &dyn Fn(&mut CertificateFields)| {
            let mut changed = renewed.clone();
            change(&mut changed);
            check(&changed, 160).is_ok()
        };
        assert!(!with(&|fields| fields.serial = 7));
        assert!(!with(&|fields| fields.name = "bergen".parse().unwrap()));
        assert!(!with(&|fields| fields.address = None));
        assert!(!with(&|fields| fields.nonce = [2; 16]));
        assert!(!with(&|fields| fields.member = owner.member()));
    }
}
