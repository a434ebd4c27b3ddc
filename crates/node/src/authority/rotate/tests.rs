//! Requests for another key, honest ones and others.

use ringway_transport::Signer as _;

use super::*;
use crate::authority::{InitOptions, MemberState};
use crate::identity::Identity;
use crate::statement::Statement;

const WEEK: Duration = Duration::from_secs(7 * 86_400);

struct Ring {
    authority: Authority,
    _folder: tempfile::TempDir,
}

impl Ring {
    fn new() -> Ring {
        let folder = tempfile::tempdir().unwrap();
        let options = InitOptions {
            domain: "ring.test".to_owned(),
            dns: "127.0.0.1:7453".parse().unwrap(),
            enrol: "127.0.0.1:7410".parse().unwrap(),
            successors: 4,
            group: 9,
            lifetime: crate::limits::CERTIFICATE_LIFETIME,
        };
        let authority = Authority::init(folder.path(), &options).unwrap();
        Ring {
            authority,
            _folder: folder,
        }
    }

    /// A new member, a router.
    fn member(&mut self, name: &str, port: u16) -> (Identity, Certificate) {
        let identity = Identity::generate().unwrap();
        let address = Some(([192, 0, 2, 1], port).into());
        let now = unix_seconds();
        let certificate = self
            .authority
            .certify(name.parse().unwrap(), identity.member(), address, now)
            .unwrap();
        self.authority.store.admit(&certificate, now).unwrap();
        (identity, certificate)
    }

    fn request(&self, old: &Identity, own: &Certificate, new: &Identity) -> RotationRequest {
        RotationRequest::new(old, new, &self.authority.ring_id(), own, unix_seconds())
    }

    fn statement(&self) -> Statement {
        self.authority.statement().unwrap()
    }

    fn ask(&mut self, name: &str) {
        self.authority.ask_rotation(name, WEEK).unwrap();
    }
}

fn fresh() -> Identity {
    Identity::generate().unwrap()
}

fn refused(result: Result<Rotated, AuthorityError>, words: &str) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn an_asked_member_rotates_and_keeps_its_role() {
    let mut ring = Ring::new();
    let (old, own) = ring.member("oslo", 1);
    let before = ring.statement();
    assert!(!before.asks(own.serial()));
    ring.ask("oslo");
    let asked = ring.statement();
    assert!(asked.number() > before.number() && asked.asks(own.serial()));

    let new = fresh();
    let request = ring.request(&old, &own, &new);
    let rotated = ring.authority.rotate_asked(&request).unwrap();
    let certificate = &rotated.certificate;
    assert!(!rotated.again && rotated.replaces == own.serial());
    assert_eq!(certificate.member(), new.member());
    assert_eq!(
        (certificate.name(), certificate.address()),
        (own.name(), own.address())
    );
    assert_ne!(certificate.ring_key(), own.ring_key());
    let statement = ring.statement();
    assert_eq!(rotated.reply.statement, statement);
    assert!(statement.number() > asked.number() && statement.revokes(own.serial()));
    assert_eq!(statement.heir(own.serial()), Some(certificate.serial()));
    assert!(!statement.asks(own.serial()) && !statement.asks(certificate.serial()));
    // The zone has the one and not the other.
    let records = ring.authority.zone().unwrap().records;
    let published: Vec<&[u8]> = records.iter().map(|(_, content)| &content[..]).collect();
    assert!(published.contains(&certificate.as_bytes()));
    assert!(!published.contains(&own.as_bytes()));

    let members = ring.authority.members().unwrap();
    let states: Vec<_> = members.iter().map(|m| (m.state, m.replaced_by)).collect();
    assert_eq!(
        states,
        [
            (MemberState::Replaced, Some(certificate.serial())),
            (MemberState::Active, None)
        ]
    );
}

#[test]
fn only_the_same_request_is_answered_again() {
    let mut ring = Ring::new();
    let (old, own) = ring.member("oslo", 1);
    let (lima, _) = ring.member("lima", 2);
    ring.ask("oslo");
    let new = fresh();
    let request = ring.request(&old, &own, &new);
    let first = ring.authority.rotate_asked(&request).unwrap();
    let generation = ring.authority.generation().unwrap();
    let second = ring.authority.rotate_asked(&request).unwrap();
    assert!(second.again);
    assert_eq!(second.certificate, first.certificate);
    assert_eq!(ring.authority.generation().unwrap(), generation);

    // A thief of the old key comes too late, by any way.
    let thief = ring.request(&old, &own, &fresh());
    refused(ring.authority.rotate_asked(&thief), "stolen");
    refused(ring.authority.rotate(&thief, "oslo"), "stolen");
    let member = ring.request(&old, &own, &lima);
    refused(ring.authority.rotate_asked(&member), "stolen");
    // Nor can it name the new certificate as its own.
    let forged = ring.request(&old, &first.certificate, &fresh());
    refused(ring.authority.rotate(&forged, "oslo"), "no member's");
    // To go back to the old key is none either.
    let back = ring.request(&new, &first.certificate, &old);
    refused(ring.authority.rotate(&back, "oslo"), "member's already");
}

#[test]
fn rotation_needs_the_owners_wish_in_time() {
    let mut ring = Ring::new();
    let (old, own) = ring.member("oslo", 1);
    let request = ring.request(&old, &own, &fresh());
    refused(ring.authority.rotate_asked(&request), "not asked");
    ring.authority
        .store
        .ask_rotation(own.serial(), unix_seconds() - 1)
        .unwrap();
    assert!(!ring.statement().asks(own.serial()));
    refused(ring.authority.rotate_asked(&request), "not asked");
    for out_of_range in [0, 366 * 86_400] {
        let within = Duration::from_secs(out_of_range);
        let error = ring.authority.ask_rotation("oslo", within).unwrap_err();
        assert!(error.is_usage(), "{error}");
    }
    let error = ring.authority.ask_rotation("nobody", WEEK).unwrap_err();
    assert!(
        error.is_usage() && error.to_string().contains("nobody"),
        "{error}"
    );
    assert!(ring.statement().heir(own.serial()).is_none());
}

#[test]
fn a_request_is_bound_to_maker_and_ring() {
    let mut ring = Ring::new();
    let (old, own) = ring.member("oslo", 1);
    let (other, others) = ring.member("lima", 2);
    ring.ask("oslo");
    ring.ask("lima");
    let new = fresh();
    // For another's name.
    let request = ring.request(&old, &own, &new);
    refused(ring.authority.rotate(&request, "lima"), "by `oslo`");
    // For another's certificate, with one's own key; or with an unknown key.
    let request = ring.request(&old, &others, &new);
    refused(ring.authority.rotate_asked(&request), "no member's");
    let request = ring.request(&fresh(), &own, &new);
    refused(ring.authority.rotate_asked(&request), "no member's");
    // To a key that another has.
    let request = ring.request(&old, &own, &other);
    refused(ring.authority.rotate_asked(&request), "member's already");
    // In another ring.
    let foreign = fresh().member();
    let request = RotationRequest::new(&old, &new, &foreign, &own, unix_seconds());
    refused(ring.authority.rotate_asked(&request), "another ring");
    // Too old.
    let long_ago = unix_seconds() - ADMISSION_AGE.as_secs() - 1;
    let request = RotationRequest::new(&old, &new, &ring.authority.ring_id(), &own, long_ago);
    refused(
        ring.authority.rotate(&request, "oslo"),
        "older than 30 days",
    );
    let members = ring.authority.members().unwrap();
    assert!(members.iter().all(|m| m.state == MemberState::Active));
}

#[test]
fn a_revoked_member_gets_no_other_key() {
    let mut ring = Ring::new();
    let (old, own) = ring.member("oslo", 1);
    ring.ask("oslo");
    let new = fresh();
    let request = ring.request(&old, &own, &new);
    ring.authority.revoke("oslo").unwrap();
    assert!(!ring.statement().asks(own.serial()));
    refused(ring.authority.rotate_asked(&request), "revoked");
    refused(ring.authority.rotate(&request, "oslo"), "revoked");
    let error = ring.authority.ask_rotation("oslo", WEEK).unwrap_err();
    assert!(error.to_string().contains("revoked already"), "{error}");

    // Nor does one that was revoked after its key had changed get its certificate again.
    let (old, own) = ring.member("lima", 2);
    let request = ring.request(&old, &own, &fresh());
    let rotated = ring.authority.rotate(&request, "lima").unwrap();
    ring.authority.revoke("lima").unwrap();
    refused(ring.authority.rotate(&request, "lima"), "revoked");
    let statement = ring.statement();
    assert!(statement.revokes(own.serial()) && statement.revokes(rotated.certificate.serial()));
    assert_eq!(statement.heir(own.serial()), None);
    // The name is free, and its next holder succeeds no certificate.
    let (_, next) = ring.member("lima", 3);
    assert_ne!(ring.statement().heir(own.serial()), Some(next.serial()));
}

#[test]
fn a_key_is_changed_again_and_again() {
    let mut ring = Ring::new();
    let (mut old, first) = ring.member("oslo", 1);
    let mut own = first.clone();
    for _ in 0..3 {
        let new = fresh();
        let request = ring.request(&old, &own, &new);
        own = ring.authority.rotate(&request, "oslo").unwrap().certificate;
        old = new;
    }
    let statement = ring.statement();
    assert_eq!(statement.heir(first.serial()), Some(own.serial()));
    assert_eq!(ring.authority.revoke("oslo").unwrap().serial, own.serial());
}

#[test]
fn rings_of_earlier_versions_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let old = Store::before_spoken(&folder.path().join("authority.db"));
    let (root, member) = (
        Identity::load_or_create(&folder.path().join("root.key")).unwrap(),
        fresh(),
    );
    let fields = CertificateFields {
        member: member.member(),
        name: "oslo".parse().unwrap(),
        address: None,
        nonce: [0; 16],
        not_before: 0,
        not_after: u64::from(u32::MAX),
        serial: 1,
    };
    let own = Certificate::issue(&root, &fields);
    old.execute_batch(
        "INSERT INTO ring VALUES (1, 'ring.test', '127.0.0.1:53', '127.0.0.1:7410', 4, 1, 1);",
    )
    .unwrap();
    old.execute(
        "INSERT INTO members VALUES (1, 'oslo', ?1, NULL, ?2, 0, ?3, NULL)",
        params![&member.member().as_bytes()[..], own.as_bytes(), u32::MAX],
    )
    .unwrap();
    drop(old);
    let mut authority = Authority::open(folder.path()).unwrap();
    let request = RotationRequest::new(
        &member,
        &fresh(),
        &authority.ring_id(),
        &own,
        unix_seconds(),
    );
    assert_eq!(authority.rotate(&request, "oslo").unwrap().replaces, 1);
}
