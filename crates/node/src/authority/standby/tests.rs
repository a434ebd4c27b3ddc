//! Standbys, promotions, and what becomes of the authority before.

use std::path::Path;

use ringway_transport::Signer as _;

use super::*;
use crate::authority::{Backup, BackupError, InitOptions, RestoreOptions};
use crate::certificate::Certificate;
use crate::identity::Identity;

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

/// An authority, and a standby that was fed when it had one member, `alice`.
struct Pair {
    folder: tempfile::TempDir,
    first: Authority,
    standby: Authority,
    alice: Certificate,
    backup: Backup,
}

fn feed(folder: &Path, backup: &Backup) -> Result<bool, BackupError> {
    let options = RestoreOptions {
        standby: true,
        ..RestoreOptions::default()
    };
    Ok(Authority::restore(folder, backup, &options)?.fed)
}

fn pair() -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let mut first = init(&folder.path().join("a"));
    let alice = join(&mut first, "alice");
    let backup = first.back_up().unwrap();
    let place = folder.path().join("b");
    let options = RestoreOptions {
        standby: true,
        dns: Some("127.0.0.1:8453".parse().unwrap()),
        enrol: Some("127.0.0.1:8410".parse().unwrap()),
    };
    assert!(!Authority::restore(&place, &backup, &options).unwrap().fed);
    let standby = Authority::open(&place).unwrap();
    Pair {
        folder,
        first,
        standby,
        alice,
        backup,
    }
}

#[test]
fn standbys_sign_nothing_before_promotion() {
    let Pair { mut standby, .. } = pair();
    let refused = standby.revoke("alice").unwrap_err().to_string();
    assert!(refused.contains("ring promote"), "{refused}");
    assert!(standby.zone_file().is_err() && standby.back_up().is_err());
    assert!(matches!(
        standby.recover(),
        Err(AuthorityError::Standby { .. })
    ));
    let promoted = standby.promote().unwrap();
    assert_eq!(promoted.term, 1);
    let stated = standby.statement().unwrap();
    assert_eq!(stated.contact().unwrap().enrol.port(), 8410);
    standby.revoke("alice").unwrap();
    assert!(matches!(
        standby.promote(),
        Err(AuthorityError::NothingToPromote)
    ));
}

#[test]
fn standbys_take_newer_backups_only() {
    let Pair {
        folder,
        mut first,
        standby,
        backup,
        ..
    } = pair();
    join(&mut first, "bob");
    let newer = first.back_up().unwrap();
    let place = folder.path().join("b");
    assert!(feed(&place, &newer).unwrap());
    // What has the folder open sees it.
    assert_eq!(standby.members().unwrap().len(), 2);
    let fed = Authority::open(&place).unwrap();
    let listens = fed.address().unwrap().enrol_listen;
    assert_eq!(listens.port(), 8410, "its own address stays");
    let foreign = init(&folder.path().join("c")).back_up().unwrap();
    let refused = feed(&place, &foreign);
    assert!(
        matches!(refused, Err(BackupError::OtherRing { .. })),
        "{refused:?}"
    );
    let refused = feed(&folder.path().join("a"), &backup);
    assert!(matches!(refused, Err(BackupError::Signs(_))), "{refused:?}");
}

#[test]
fn a_promotion_outruns_the_authority_before() {
    let Pair {
        mut first,
        mut standby,
        alice,
        ..
    } = pair();
    let number = standby.promote().unwrap().recovered.statement;
    // It goes on for a while.
    let bob = join(&mut first, "bob");
    first.revoke("bob").unwrap();
    let late = first.statement().unwrap();
    assert!(late.revokes(bob.serial()) && late.number() < number);
    // And is told.
    let told = standby.statement().unwrap();
    first.take_brought(told.as_bytes(), &[]).unwrap();
    let fenced = Standing::Fenced { term: 0, now: 1 };
    assert_eq!(first.standing().unwrap(), fenced);
    let refused = first.revoke("alice").unwrap_err().to_string();
    assert!(refused.contains("term 1"), "{refused}");
    assert!(matches!(
        first.recover(),
        Err(AuthorityError::Fenced { .. })
    ));
    // What it has stated meanwhile is brought to the promoted one, and not lost.
    standby
        .take_brought(late.as_bytes(), alice.as_bytes())
        .unwrap();
    assert_eq!(standby.standing().unwrap(), Standing::Old);
    let recovered = standby.recover().unwrap();
    assert_eq!(recovered.unknown, 1);
    assert!(recovered.statement > number);
    assert!(standby.statement().unwrap().revokes(bob.serial()));
}

#[test]
fn a_fenced_authority_is_fed_or_promoted() {
    let Pair {
        folder,
        mut first,
        mut standby,
        backup,
        ..
    } = pair();
    standby.promote().unwrap();
    let told = standby.statement().unwrap();
    first.take_brought(told.as_bytes(), &[]).unwrap();
    let place = folder.path().join("a");
    assert!(matches!(feed(&place, &backup), Err(BackupError::Older)));
    assert!(feed(&place, &standby.back_up().unwrap()).unwrap());
    assert!(matches!(
        first.standing().unwrap(),
        Standing::Standby { .. }
    ));
    assert_eq!(first.promote().unwrap().term, 2);
}

#[test]
fn promotion_takes_what_members_brought() {
    let Pair {
        mut first,
        mut standby,
        alice,
        ..
    } = pair();
    let carol = join(&mut first, "carol");
    first.revoke("alice").unwrap();
    let brought = first.statement().unwrap();
    standby
        .take_brought(brought.as_bytes(), carol.as_bytes())
        .unwrap();
    let promoted = standby.promote().unwrap().recovered;
    assert_eq!(promoted.ended, ["alice"]);
    assert_eq!(promoted.members, ["carol"]);
    assert!(standby.statement().unwrap().revokes(alice.serial()));
}
