//! Renewals at times that are arguments.

use std::path::Path;

use super::*;
use crate::authority::{InitOptions, MemberState};
use crate::identity::Identity;
use crate::limits::CERTIFICATE_LIFETIME;
use crate::rotation::RotationRequest;
use ringway_transport::Signer as _;
use std::time::Duration;

const DAY: u64 = 86_400;

fn init(folder: &Path, lifetime: Duration) -> Authority {
    let options = InitOptions {
        domain: "ring.test".to_owned(),
        dns: "127.0.0.1:7453".parse().unwrap(),
        enrol: "127.0.0.1:7410".parse().unwrap(),
        successors: 4,
        group: 9,
        lifetime,
    };
    Authority::init(folder, &options).unwrap()
}

struct Ring {
    authority: Authority,
    folder: tempfile::TempDir,
    start: u64,
}

impl Ring {
    fn new() -> Ring {
        Ring::with(CERTIFICATE_LIFETIME)
    }

    fn with(lifetime: Duration) -> Ring {
        let folder = tempfile::tempdir().unwrap();
        Ring {
            authority: init(&folder.path().join("owner"), lifetime),
            folder,
            start: unix_seconds(),
        }
    }

    /// A new member, a router.
    fn member(&mut self, name: &str, port: u16) -> (Identity, Certificate) {
        let identity = Identity::generate().unwrap();
        let address = Some(([192, 0, 2, 1], port).into());
        let name = name.parse().unwrap();
        let certified = self
            .authority
            .certify(name, identity.member(), address, self.start);
        let certificate = certified.unwrap();
        let admitted = self.authority.store.admit(&certificate, self.start);
        admitted.unwrap();
        (identity, certificate)
    }

    fn renew(&mut self, own: &Certificate, day: u64) -> Result<Renewed, AuthorityError> {
        let at = self.start + day * DAY;
        self.authority.renew_at(own.as_bytes(), at)
    }

    fn refused(&mut self, own: &Certificate, day: u64, words: &str) {
        let error = self.renew(own, day).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn renewal_begins_at_two_thirds_of_validity() {
    let mut ring = Ring::new();
    let (_, own) = ring.member("oslo", 1);
    let number = ring.authority.generation().unwrap();
    ring.refused(&own, 243, "not over yet");
    assert_eq!(ring.authority.generation().unwrap(), number);

    let renewed = ring.renew(&own, 250).unwrap();
    let newer = &renewed.certificate;
    assert!(!renewed.again && newer.serial() > own.serial());
    let same = |c: &Certificate| (c.member(), c.name().clone(), c.address(), c.ring_key());
    assert_eq!(same(newer), same(&own));
    assert_eq!(newer.not_after(), ring.start + (250 + 365) * DAY);
    assert!(ring.authority.generation().unwrap() > number);

    // The answer may be lost on its way, and the newer one is not renewed at once.
    let again = ring.renew(&own, 251).unwrap();
    assert!(again.again && again.certificate == *newer);
    ring.refused(newer, 260, "not over yet");
    let members = ring.authority.members().unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!(
        (members[0].serial, members[0].state),
        (newer.serial(), MemberState::Active)
    );
    // And so on, for as long as it lives.
    let third = ring.renew(newer, 500).unwrap().certificate;
    assert!(third.serial() > newer.serial());
}

#[test]
fn a_revocation_ends_both_certificates() {
    let mut ring = Ring::new();
    let (_, own) = ring.member("oslo", 1);
    let newer = ring.renew(&own, 250).unwrap().certificate;
    assert!(!ring.authority.statement().unwrap().revokes(own.serial()));
    ring.authority.revoke("oslo").unwrap();
    let statement = ring.authority.statement().unwrap();
    assert!(statement.revokes(own.serial()) && statement.revokes(newer.serial()));
    for shown in [&own, &newer] {
        ring.refused(shown, 250, "revoked");
    }
}

#[test]
fn one_that_has_ended_is_not_renewed() {
    let mut ring = Ring::new();
    let (_, own) = ring.member("oslo", 1);
    ring.refused(&own, 366, "run out");
    let (stranger, _) = Ring::new().member("oslo", 1);
    let foreign = Ring::new().member("oslo", 1).1;
    ring.refused(&foreign, 250, "no certificate of this ring");
    assert!(ring.authority.store.knows_member(&own.member()).unwrap());
    let stranger = stranger.member();
    assert!(!ring.authority.store.knows_member(&stranger).unwrap());
}

#[test]
fn a_change_of_the_key_follows_renewals() {
    // So short that a certificate of a time to come is valid now: owners change keys by the clock.
    let mut ring = Ring::with(Duration::from_secs(400));
    let later = ring.start + 280;
    let (old, own) = ring.member("oslo", 1);
    let new = Identity::generate().unwrap();
    // The request was written before the renewal.
    let id = ring.authority.ring_id();
    let request = RotationRequest::new(&old, &new, &id, &own, ring.start);
    let newer = ring.authority.renew_at(own.as_bytes(), later);
    let newer = newer.unwrap().certificate;
    let rotated = ring.authority.rotate(&request, "oslo").unwrap();
    assert_eq!(rotated.replaces, newer.serial());
    let last = rotated.certificate.serial();
    let statement = ring.authority.statement().unwrap();
    for before in [&own, &newer] {
        assert_eq!(statement.heir(before.serial()), Some(last));
        let refused = ring.authority.renew_at(before.as_bytes(), later);
        assert!(refused.unwrap_err().to_string().contains("another key"));
    }
    // Those who had business with the old key find the member by its newest certificate.
    let rotated = rotated.certificate;
    let newest = ring.authority.renew_at(rotated.as_bytes(), later + 1);
    let newest = newest.unwrap().certificate;
    let statement = ring.authority.statement().unwrap();
    for before in [&own, &newer] {
        assert_eq!(statement.heir(before.serial()), Some(newest.serial()));
    }
    assert!(!statement.revokes(last));
}

/// A copy of the authority's folder, as a backup has it.
fn copy(ring: &Ring, name: &str) -> Authority {
    let to = ring.folder.path().join(name);
    std::fs::create_dir(&to).unwrap();
    let from = ring.folder.path().join("owner");
    ring.authority
        .store
        .connection
        .execute("VACUUM INTO ?1", [to.join("authority.db").to_str()])
        .unwrap();
    std::fs::copy(from.join("root.key"), to.join("root.key")).unwrap();
    let owners_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(to.join("authority.db"), owners_only).unwrap();
    Authority::open(&to).unwrap()
}

#[test]
fn a_restored_authority_learns_of_renewals_from_members() {
    let mut ring = Ring::new();
    let (_, own) = ring.member("oslo", 1);
    let mut asked = copy(&ring, "asked");
    let mut brought = copy(&ring, "brought");
    let mut revoking = copy(&ring, "revoking");
    let newer = ring.renew(&own, 250).unwrap().certificate;

    // By one that asks for the next one.
    let at = ring.start + 260 * DAY;
    let refused = asked.renew_at(newer.as_bytes(), at).unwrap_err();
    assert!(refused.to_string().contains("not over yet"), "{refused}");
    assert_eq!(asked.members().unwrap()[0].serial, newer.serial());

    // By one that brings the owner's statement and its certificate.
    let statement = brought.statement().unwrap();
    let bring = brought.take_brought(statement.as_bytes(), newer.as_bytes());
    bring.unwrap();
    assert_eq!(brought.members().unwrap()[0].serial, newer.serial());

    // One that was revoked there meanwhile stays so.
    revoking.revoke("oslo").unwrap();
    let refused = revoking.renew_at(newer.as_bytes(), at).unwrap_err();
    assert!(refused.to_string().contains("revoked"), "{refused}");
}

#[test]
fn the_owner_is_warned_in_the_last_month() {
    let mut ring = Ring::new();
    let (_, own) = ring.member("oslo", 1);
    let soon = |authority: &Authority, at: u64| {
        let members = authority.store.members(&authority.ring_id(), at);
        members.unwrap()[0].expires_soon
    };
    let start = ring.start;
    assert!(!soon(&ring.authority, start + 334 * DAY));
    assert!(soon(&ring.authority, start + 336 * DAY));
    assert!(!soon(&ring.authority, start + 366 * DAY), "it has ended");
    ring.renew(&own, 340).unwrap();
    assert!(!soon(&ring.authority, start + 341 * DAY));
}

#[test]
fn an_expired_member_returns_by_invite_only() {
    let mut ring = Ring::new();
    let (identity, own) = ring.member("oslo", 1);
    let later = ring.start + 400 * DAY;
    let mut come = |name: &str, address, at| {
        let (name, ends) = (
            name.parse().unwrap(),
            ring.authority.store.options().ends(at),
        );
        let authority = &mut ring.authority;
        let back = authority.recertify(&name, identity.member(), address, at, ends)?;
        let back = back.unwrap();
        ring.authority.store.admit_again(&back, at)?;
        Ok::<_, AuthorityError>(back.certificate)
    };
    let early = come("oslo", own.address(), ring.start + 300 * DAY).unwrap_err();
    assert!(early.to_string().contains("needs no invite"), "{early}");
    let elsewhere = Some(([192, 0, 2, 1], 2).into());
    for (name, address) in [("bergen", own.address()), ("oslo", elsewhere)] {
        let other = come(name, address, later).unwrap_err();
        assert!(matches!(other, AuthorityError::KeyIsOver(_)), "{other}");
    }
    let back = come("oslo", own.address(), later).unwrap();
    assert_eq!(
        (back.member(), back.ring_key()),
        (own.member(), own.ring_key())
    );
    assert!(back.serial() > own.serial() && back.check_time(later).is_ok());
    assert_eq!(ring.authority.members().unwrap().len(), 1);
    ring.authority.revoke("oslo").unwrap();
    assert!(ring.authority.statement().unwrap().revokes(back.serial()));
    let (name, member, ends) = (back.name(), identity.member(), back.not_after());
    let authority = &mut ring.authority;
    let over = authority.recertify(name, member, back.address(), later, ends);
    assert!(matches!(over, Err(AuthorityError::KeyIsOver(_))));
}

#[test]
fn a_dns_request_renews_its_member_once() {
    let mut ring = Ring::new();
    let (identity, own) = ring.member("oslo", 1);
    let id = ring.authority.ring_id();
    let at = ring.start + 250 * DAY;
    let request = by_dns::Request::new(&identity, &id, &own);
    let forged = by_dns::Request::new(&Identity::generate().unwrap(), &id, &own);
    assert!(
        ring.authority
            .renew_by_dns_at(&forged, at)
            .unwrap()
            .is_none()
    );
    let early = ring.authority.renew_by_dns_at(&request, ring.start + DAY);
    assert!(early.unwrap_err().to_string().contains("not over yet"));
    let renewed = ring.authority.renew_by_dns_at(&request, at).unwrap();
    let newer = renewed.unwrap().certificate;
    assert!(newer.serial() > own.serial());
    // Somebody has seen it, and sends it again.
    let number = ring.authority.generation().unwrap();
    assert!(
        ring.authority
            .renew_by_dns_at(&request, at + 200 * DAY)
            .unwrap()
            .is_none()
    );
    assert_eq!(ring.authority.generation().unwrap(), number);
}
