//! What the overlay has to know of certificates, from this member's directory.

mod seal;

use std::sync::Arc;
use std::time::Instant;

use ringway_overlay::{Credentials, MEMBER_LEN, Record, RingKey, SIGNATURE_LEN, Standing};
use ringway_transport::{MemberId, Signer};

use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::directory::Directory;
use crate::identity::Identity;
use seal::Seals;

/// What routers sign their statements of the overlay with.
pub(crate) const CONTEXT: &[u8] = b"ringway overlay statement";

/// A router's own key, and the certificates that it has seen.
#[derive(Debug)]
pub(crate) struct RouterCredentials {
    identity: Identity,
    own: Certificate,
    directory: Arc<Directory>,
    seals: Seals,
}

impl RouterCredentials {
    pub(crate) fn new(
        identity: Identity,
        own: Certificate,
        directory: Arc<Directory>,
    ) -> RouterCredentials {
        RouterCredentials {
            identity,
            own,
            directory,
            seals: Seals::default(),
        }
    }

    fn of(&self, member: &RingKey) -> Option<Certificate> {
        if self.own.ring_key().as_ref() == Some(member) {
            return Some(self.directory.own(&self.own));
        }
        self.directory.cached_router(member)
    }
}

impl Credentials for RouterCredentials {
    fn standing(&self, member: &RingKey) -> Standing {
        if self.of(member).is_some() {
            Standing::Certified
        } else if self.directory.has_ended_router(member) {
            Standing::Refused
        } else {
            Standing::Unknown
        }
    }

    fn admit(&mut self, member: &RingKey, certificate: &[u8]) -> Standing {
        match self.directory.admit(certificate) {
            Ok(certificate) if certificate.ring_key().as_ref() == Some(member) => {
                Standing::Certified
            }
            // A certificate of another key proves nothing about this one.
            Ok(_) | Err(_) => self.standing(member),
        }
    }

    fn certificate(&self, member: &RingKey) -> Option<Vec<u8>> {
        Some(self.of(member)?.as_bytes().to_vec())
    }

    fn sign(&self, statement: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.identity.sign(CONTEXT, statement)
    }

    fn verify(
        &self,
        member: &RingKey,
        statement: &[u8],
        signature: &[u8; SIGNATURE_LEN],
    ) -> Option<bool> {
        let author = self.of(member)?.member();
        Some(author.verify(CONTEXT, statement, signature).is_ok())
    }

    fn seal(&mut self, to: &RingKey, content: &[u8]) -> Option<Vec<u8>> {
        let member = self.of(to)?.member();
        self.seals.seal(&self.identity, &member, content)
    }

    fn open(&mut self, from: &RingKey, sealed: &[u8]) -> Option<Vec<u8>> {
        let member = self.of(from)?.member();
        self.seals.open(&self.identity, &member, sealed)
    }

    fn author(
        &self,
        certificate: &[u8],
        statement: &[u8],
        signature: &[u8; SIGNATURE_LEN],
    ) -> Option<[u8; MEMBER_LEN]> {
        let author = signer(&self.directory, certificate, statement, signature)?;
        Some(*author.as_bytes())
    }

    fn is_member(&self, member: &[u8; MEMBER_LEN]) -> bool {
        !self.directory.has_ended(&MemberId::new(*member))
    }

    fn take_statement(&mut self, statement: &[u8]) -> bool {
        self.directory.take_statement(statement)
    }

    fn unix_time(&self, _now: Instant) -> u64 {
        unix_seconds()
    }
}

/// The member that has signed a statement of the overlay, by its certificate.
fn signer(
    directory: &Directory,
    certificate: &[u8],
    statement: &[u8],
    signature: &[u8; SIGNATURE_LEN],
) -> Option<MemberId> {
    let member = directory.admit(certificate).ok()?.member();
    let genuine = member.verify(CONTEXT, statement, signature).is_ok();
    genuine.then_some(member)
}

/// Who has signed a record, if it is genuine.
pub(crate) fn record_author(directory: &Directory, record: &Record) -> Option<MemberId> {
    let Record {
        name,
        value,
        number,
        expires,
        ..
    } = record;
    let statement = Record::statement(name, value, *number, *expires);
    signer(
        directory,
        &record.certificate,
        &statement,
        &record.signature,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::CertificateFields;
    use crate::statement::Statement;

    struct Ring {
        owner: Identity,
        directory: Arc<Directory>,
    }

    impl Ring {
        fn new() -> Ring {
            let owner = Identity::generate().unwrap();
            let statement = Statement::issue(&owner, 1, 3, [].into());
            let server = Some("127.0.0.1:1".parse().unwrap());
            let directory = Directory::new(owner.member(), "ring.test", statement, server).unwrap();
            let directory = Arc::new(directory);
            Ring { owner, directory }
        }

        fn router(&self, serial: u64, ending: u64) -> (Identity, Certificate) {
            let identity = Identity::generate().unwrap();
            let fields = CertificateFields {
                member: identity.member(),
                name: format!("r{serial}").parse().unwrap(),
                address: Some(format!("192.0.2.{serial}:4000").parse().unwrap()),
                nonce: [7; 16],
                not_before: 0,
                not_after: ending,
                serial,
            };
            let certificate = Certificate::issue(&self.owner, &fields);
            (identity, certificate)
        }

        fn credentials(&self, serial: u64) -> (RouterCredentials, RingKey, Certificate) {
            let (identity, own) = self.router(serial, u64::MAX);
            let key = own.ring_key().unwrap();
            let directory = Arc::clone(&self.directory);
            (
                RouterCredentials::new(identity, own.clone(), directory),
                key,
                own,
            )
        }
    }

    #[test]
    fn a_key_counts_with_its_own_certificate_only() {
        let ring = Ring::new();
        let (mut mine, me, _) = ring.credentials(1);
        let (_, other, certificate) = ring.credentials(2);
        let (_, third, _) = ring.credentials(3);
        assert_eq!(mine.standing(&me), Standing::Certified);
        assert_eq!(mine.standing(&other), Standing::Unknown);
        assert_eq!(mine.certificate(&other), None);
        assert_eq!(
            mine.admit(&third, certificate.as_bytes()),
            Standing::Unknown
        );
        assert_eq!(mine.admit(&other, b"nonsense"), Standing::Certified);
        assert_eq!(
            mine.certificate(&other),
            Some(certificate.as_bytes().to_vec())
        );
    }

    #[test]
    fn foreign_and_expired_certificates_are_not_admitted() {
        let ring = Ring::new();
        let (mut mine, _, _) = ring.credentials(1);
        let (_, foreign, certificate) = Ring::new().credentials(2);
        assert_eq!(
            mine.admit(&foreign, certificate.as_bytes()),
            Standing::Unknown
        );
        let (_, old) = ring.router(3, 10);
        let key = old.ring_key().unwrap();
        assert_ne!(mine.admit(&key, old.as_bytes()), Standing::Certified);
    }

    #[test]
    fn revoked_members_are_refused() {
        let ring = Ring::new();
        let (mut mine, _, _) = ring.credentials(1);
        let (_, other, certificate) = ring.credentials(2);
        assert_eq!(
            mine.admit(&other, certificate.as_bytes()),
            Standing::Certified
        );
        let statement = Statement::issue(&ring.owner, 2, 3, [2].into());
        ring.directory.set_statement(statement);
        assert_eq!(mine.standing(&other), Standing::Refused);
        assert_eq!(mine.certificate(&other), None);
    }

    #[test]
    fn a_signature_is_its_authors_alone() {
        let ring = Ring::new();
        let (mut mine, me, own) = ring.credentials(1);
        let (mut theirs, other, certificate) = ring.credentials(2);
        let signature = mine.sign(b"statement");
        assert_eq!(mine.verify(&me, b"statement", &signature), Some(true));
        assert_eq!(mine.verify(&me, b"statemen.", &signature), Some(false));
        theirs.admit(&me, own.as_bytes());
        mine.admit(&other, certificate.as_bytes());
        assert_eq!(theirs.verify(&me, b"statement", &signature), Some(true));
        assert_eq!(theirs.verify(&other, b"statement", &signature), Some(false));
        let (stranger, _, _) = ring.credentials(3);
        let unknown = RingKey::point(b"unknown");
        assert_eq!(stranger.verify(&unknown, b"statement", &signature), None);
    }
}
