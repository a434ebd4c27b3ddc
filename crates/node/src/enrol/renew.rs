//! The member's side of a renewal: the key is the same, and so is all else but the time.

use super::known::{AskError, Asking, Exchange};
use super::locate::Locator;
use crate::certificate::{Certificate, CertificateError, RingId};
use crate::clock::unix_seconds;
use crate::identity::Identity;

/// Why there is no newer certificate yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenewError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the newer certificate does not fit this member ({0})")]
    Unfit(&'static str),
}

/// Asks the authority for a newer certificate than `own`.
pub(crate) async fn renew(
    locator: &Locator,
    identity: &Identity,
    ring: &RingId,
    own: &Certificate,
) -> Result<Certificate, RenewError> {
    let asking = Asking {
        locator,
        ring,
        identity,
    };
    let grant = asking.ask(Exchange::Renewal, own.as_bytes()).await?;
    let newer = Certificate::decode(&grant, ring)?;
    check_renewed(own, &newer, unix_seconds())?;
    Ok(newer)
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
