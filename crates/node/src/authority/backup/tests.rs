//! Backups: what they hold, how they are refused, and what is restored.

use std::path::Path;

use super::*;
use crate::authority::{InitOptions, RestoreOptions, Standing};
use crate::identity::Identity;

const PASSPHRASE: &str = "correct horse battery staple";

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

fn join(authority: &mut Authority, name: &str) {
    let (member, now) = (Identity::generate().unwrap().member(), unix_seconds());
    let name = name.parse().unwrap();
    let certificate = authority.certify(name, member, None, now).unwrap();
    authority.store.admit(&certificate, now).unwrap();
}

fn key() -> (age::x25519::Identity, Lock) {
    let key = age::x25519::Identity::generate();
    let public = key.to_public().to_string().parse().unwrap();
    (key, Lock::Keys(vec![public]))
}

fn opener(key: age::x25519::Identity) -> Opener {
    Opener::Keys(vec![Box::new(key)])
}

fn sealed(backup: &Backup, lock: &Lock) -> Vec<u8> {
    let mut file = Vec::new();
    backup.seal(lock, &mut file).unwrap();
    file
}

#[test]
fn backups_come_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = init(&folder.path().join("a"));
    join(&mut authority, "alice");
    join(&mut authority, "bob");
    authority.revoke("bob").unwrap();
    let (key, lock) = key();
    let file = sealed(&authority.back_up().unwrap(), &lock);
    let backup = Sealed::read(&file[..]).unwrap().open(&opener(key)).unwrap();
    let contents = backup.contents().unwrap();
    assert_eq!((contents.members, contents.former), (1, 1));
    assert_eq!(contents.ring, authority.ring().ring);
    let copy = folder.path().join("b");
    let restored = Authority::restore(&copy, &backup, &RestoreOptions::default()).unwrap();
    assert!(!restored.fed);
    let there = Authority::open(&copy).unwrap();
    assert_eq!(there.generation().unwrap(), authority.generation().unwrap());
    assert_eq!(there.ring_id(), authority.ring_id());
    assert_eq!(there.members().unwrap().len(), 2);
    assert!(matches!(
        there.standing().unwrap(),
        Standing::Standby { .. }
    ));
    let again = Authority::restore(&copy, &backup, &RestoreOptions::default());
    assert!(matches!(again, Err(BackupError::NotEmpty(_))), "{again:?}");
}

#[test]
fn changed_or_cut_backups_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = init(&folder.path().join("a"));
    let (key, lock) = key();
    let file = sealed(&authority.back_up().unwrap(), &lock);
    let opener = opener(key);
    for cut in [1, 100, file.len() / 2] {
        let cut = &file[..file.len() - cut];
        let refused = Sealed::read(cut).and_then(|sealed| sealed.open(&opener));
        assert!(matches!(refused, Err(BackupError::Damaged)), "{refused:?}");
    }
    let mut changed = file.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    let refused = Sealed::read(&changed[..]).unwrap().open(&opener);
    assert!(matches!(refused, Err(BackupError::Damaged)), "{refused:?}");
    let refused = Sealed::read(&b"SQLite format 3"[..]);
    assert!(matches!(refused, Err(BackupError::NotABackup)));
    let other = Opener::Keys(vec![Box::new(age::x25519::Identity::generate())]);
    let refused = Sealed::read(&file[..]).unwrap().open(&other);
    assert!(matches!(refused, Err(BackupError::WrongKey)), "{refused:?}");
}

#[test]
fn only_the_passphrase_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = init(&folder.path().join("a"));
    let passphrase = |text: &str| Zeroizing::new(text.to_owned());
    let short = Lock::passphrase(passphrase("too short")).unwrap_err();
    assert!(short.is_usage(), "{short}");
    let lock = Lock::passphrase(passphrase(PASSPHRASE)).unwrap();
    let file = sealed(&authority.back_up().unwrap(), &lock);
    let sealed = Sealed::read(&file[..]).unwrap();
    assert!(sealed.is_by_passphrase());
    let wrong = sealed.open(&Opener::passphrase(&passphrase(
        "correct horse battery stable",
    )));
    assert!(
        matches!(wrong, Err(BackupError::WrongPassphrase)),
        "{wrong:?}"
    );
    let (key, _) = key();
    let wrong = sealed.open(&opener(key));
    assert!(matches!(wrong, Err(BackupError::NeedsPassphrase)));
    let opened = sealed
        .open(&Opener::passphrase(&passphrase(PASSPHRASE)))
        .unwrap();
    assert_eq!(opened.contents().unwrap().domain, "ring.test");
}

#[test]
fn backups_of_newer_versions_are_refused() {
    let envelope = Envelope {
        version: 2,
        program: "9.0",
        made: 1,
        root: [0; 32][..].into(),
        database: [][..].into(),
    };
    let bytes = minicbor::to_vec(&envelope).unwrap();
    let refused = Backup::from_bytes(&bytes);
    assert!(matches!(refused, Err(BackupError::Newer(2))), "{refused:?}");
    assert!(matches!(
        Backup::from_bytes(b"x"),
        Err(BackupError::NotABackup)
    ));
}

#[test]
fn backups_from_the_future_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut backup = init(&folder.path().join("a")).back_up().unwrap();
    backup.made += 3_600;
    let copy = folder.path().join("b");
    let refused = Authority::restore(&copy, &backup, &RestoreOptions::default());
    assert!(matches!(refused, Err(BackupError::FromTheFuture(_))));
    assert!(!copy.exists());
}
