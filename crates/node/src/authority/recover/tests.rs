//! A folder that is put back as it was before.

use std::path::Path;
use std::sync::Arc;

use ringway_transport::MemberId;

use super::*;
use crate::authority::{InitOptions, MemberState};
use crate::directory::Directory;
use crate::identity::Identity;
use ringway_transport::Signer as _;

fn init(folder: &Path) -> Authority {
    let options = InitOptions {
        domain: "ring.test".to_owned(),
        dns: "127.0.0.1:7453".parse().unwrap(),
        enrol: "127.0.0.1:7410".parse().unwrap(),
        successors: 4,
        group: 9,
        lifetime: crate::limits::CERTIFICATE_LIFETIME,
    };
    Authority::init(folder, &options).unwrap()
}

fn join(authority: &mut Authority, name: &str) -> Certificate {
    let (member, now) = (Identity::generate().unwrap().member(), unix_seconds());
    let name = name.parse().unwrap();
    let certificate = authority.certify(name, member, None, now).unwrap();
    authority.store.admit(&certificate, now).unwrap();
    certificate
}

/// What the folder holds now. No authority may have it open.
fn back_up(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

fn refused(result: Result<impl std::fmt::Debug, AuthorityError>) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains("ring recover"), "{error}");
}

/// A folder restored from a backup, and what was done after that.
struct Restored {
    authority: Authority,
    _folder: tempfile::TempDir,
    /// A member of before, revoked since.
    alice: Certificate,
    /// One that has joined since.
    carol: Certificate,
    /// The last statement.
    lost: Statement,
}

fn restored() -> Restored {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = init(folder.path());
    let alice = join(&mut authority, "alice");
    join(&mut authority, "bob");
    drop(authority);
    let backup = back_up(folder.path());
    let mut authority = Authority::open(folder.path()).unwrap();
    let carol = join(&mut authority, "carol");
    authority.revoke("alice").unwrap();
    let lost = authority.statement().unwrap();
    let authority = Authority::open(backup.path()).unwrap();
    Restored {
        authority,
        _folder: backup,
        alice,
        carol,
        lost,
    }
}

#[test]
fn numbers_after_a_restoration_exceed_all_before() {
    let Restored {
        mut authority,
        carol,
        lost,
        ..
    } = restored();
    let dora = join(&mut authority, "dora");
    assert!(dora.serial() > carol.serial());
    let revoked = authority.revoke("bob").unwrap();
    assert_eq!(revoked.state, MemberState::Revoked);
    let statement = authority.statement().unwrap();
    assert!(statement.number() > lost.number());
    assert!(statement.revokes(revoked.serial) && !statement.revokes(dora.serial()));
}

#[test]
fn numbers_of_older_rings_leap_to_now() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = init(folder.path());
    let older = "UPDATE ring SET serial = 7, generation = 9, zone = 9";
    authority.store.connection.execute_batch(older).unwrap();
    let before = authority.zone().unwrap();
    let certificate = join(&mut authority, "alice");
    let after = authority.zone().unwrap();
    assert!(time_of(certificate.serial()).is_some() && time_of(after.generation).is_some());
    // RFC 1982 §3.2: later, and not by half of all numbers or more.
    let step = after.serial.wrapping_sub(before.serial);
    assert!((1..1 << 31).contains(&step), "{step}");
}

#[test]
fn changes_wait_for_the_recovery() {
    let Restored {
        mut authority,
        alice,
        carol,
        lost,
        ..
    } = restored();
    authority.check_current().unwrap();
    let nothing = authority.recover().unwrap_err().to_string();
    assert!(nothing.contains("ring serve"), "{nothing}");
    let old = authority.statement().unwrap();
    let mut bring = |statement: &Statement, certificate: &Certificate| {
        let (statement, certificate) = (statement.as_bytes(), certificate.as_bytes());
        authority.take_brought(statement, certificate).unwrap()
    };
    assert_eq!(bring(&old, &alice), Brought::Known);
    assert_eq!(bring(&lost, &alice), Brought::News);
    assert_eq!(bring(&lost, &carol), Brought::News);
    refused(authority.revoke("bob"));
    let member = MemberId::new([7; 32]);
    let certified = authority.certify("dora".parse().unwrap(), member, None, unix_seconds());
    refused(certified);
    let recovered = authority.recover().unwrap();
    assert_eq!(recovered.ended, ["alice"]);
    assert_eq!(recovered.members, ["carol"]);
    assert_eq!(recovered.unknown, 0);
    let statement = authority.statement().unwrap();
    assert_eq!(statement.number(), recovered.statement);
    assert!(statement.number() > lost.number() && statement.revokes(alice.serial()));
    authority.revoke("carol").unwrap();
    let lost = authority.take_brought(lost.as_bytes(), carol.as_bytes());
    assert_eq!(lost.unwrap(), Brought::Known);
}

/// `ring serve` and `ring recover` are two processes: what one has found may be known when it
/// keeps it.
#[test]
fn what_a_recovery_has_taken_over_stays_known() {
    let Restored {
        mut authority,
        alice,
        lost,
        ..
    } = restored();
    let brought = authority.take_brought(lost.as_bytes(), alice.as_bytes());
    assert_eq!(brought.unwrap(), Brought::News);
    authority.recover().unwrap();
    assert!(!authority.store.news().keep(&lost).unwrap());
    authority.check_current().unwrap();
}

#[test]
fn late_members_are_known_after_the_recovery() {
    let Restored {
        mut authority,
        alice,
        carol,
        lost,
        ..
    } = restored();
    let brought = authority.take_brought(lost.as_bytes(), alice.as_bytes());
    assert_eq!(brought.unwrap(), Brought::News);
    authority.recover().unwrap();
    let number = authority.generation().unwrap();
    for _ in 0..2 {
        let whole = authority.statement().unwrap();
        let brought = authority.take_brought(whole.as_bytes(), carol.as_bytes());
        assert_eq!(brought.unwrap(), Brought::Known);
    }
    assert!(authority.generation().unwrap() > number);
    let revoked = authority.revoke("carol").unwrap();
    assert_eq!(revoked.serial, carol.serial());
    // One that has ended does not come back by it.
    let brought = authority.take_brought(lost.as_bytes(), alice.as_bytes());
    assert_eq!(brought.unwrap(), Brought::Known);
    assert!(authority.statement().unwrap().revokes(alice.serial()));
    let members = authority.members().unwrap();
    assert_eq!(members.len(), 3);
}

#[test]
fn ends_of_unknown_members_are_stated_again() {
    let folder = tempfile::tempdir().unwrap();
    drop(init(folder.path()));
    let backup = back_up(folder.path());
    let mut authority = Authority::open(folder.path()).unwrap();
    let alice = join(&mut authority, "alice");
    authority.revoke("alice").unwrap();
    let lost = authority.statement().unwrap();
    let mut authority = Authority::open(backup.path()).unwrap();
    let brought = authority.take_brought(lost.as_bytes(), alice.as_bytes());
    assert_eq!(brought.unwrap(), Brought::News);
    assert_eq!(authority.recover().unwrap().unknown, 1);
    assert!(authority.statement().unwrap().revokes(alice.serial()));
    let brought = authority.take_brought(lost.as_bytes(), alice.as_bytes());
    assert_eq!(brought.unwrap(), Brought::Known);
    assert!(authority.members().unwrap().is_empty());
}

/// The owner has revoked somebody else before any member came: the new statement has the highest
/// number and says less than an older one.
#[test]
fn a_newer_statement_brings_no_revoked_member_back() {
    let Restored {
        mut authority,
        alice,
        carol,
        lost,
        ..
    } = restored();
    let (ring, dns) = (authority.ring_id(), "127.0.0.1:9".parse().unwrap());
    let old = authority.statement().unwrap();
    let directory = Arc::new(Directory::new(ring, "ring.test", old, Some(dns)).unwrap());
    assert!(directory.admit(alice.as_bytes()).is_ok());
    assert!(directory.take_statement(lost.as_bytes()));
    assert!(directory.admit(alice.as_bytes()).is_err() && directory.gap().is_none());
    let bob = authority.revoke("bob").unwrap();
    let forgetful = authority.statement().unwrap();
    assert!(!forgetful.revokes(alice.serial()));
    assert!(directory.take_statement(forgetful.as_bytes()));
    assert!(directory.statement().revokes(bob.serial));
    assert!(directory.admit(alice.as_bytes()).is_err());
    let (_, gap) = directory.gap().unwrap();
    let brought: Vec<u64> = gap.statements.iter().map(|s| s.number()).collect();
    assert_eq!(brought, [lost.number()]);
    let news = authority.take_brought(gap.statements[0].as_bytes(), carol.as_bytes());
    assert_eq!(news.unwrap(), Brought::News);
    authority.recover().unwrap();
    let whole = authority.statement().unwrap();
    assert!(directory.take_statement(whole.as_bytes()));
    assert!(directory.gap().is_none());
    assert!(directory.admit(alice.as_bytes()).is_err());
    assert!(directory.admit(carol.as_bytes()).is_ok());
}

#[test]
fn what_is_brought_must_be_of_this_ring() {
    let Restored { mut authority, .. } = restored();
    let foreign = tempfile::tempdir().unwrap();
    let mut other = init(foreign.path());
    let certificate = join(&mut other, "mallory");
    let statement = other.statement().unwrap();
    for bytes in [statement.as_bytes(), b"", &[0x82]] {
        let brought = authority.take_brought(bytes, certificate.as_bytes());
        assert!(brought.is_err());
    }
    authority.check_current().unwrap();
}
