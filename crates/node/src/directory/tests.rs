//! Whose certificate counts, where there are several.

use ringway_transport::Signer as _;

use super::*;
use crate::certificate::CertificateFields;
use crate::identity::Identity;
use crate::statement::{Parameters, Serials};

fn certificate(owner: &Identity, member: u8, serial: u64) -> Certificate {
    of(owner, MemberId::new([member; 32]), "oslo", serial)
}

fn of(owner: &Identity, member: MemberId, name: &str, serial: u64) -> Certificate {
    let fields = CertificateFields {
        member,
        name: name.parse().unwrap(),
        address: None,
        nonce: [0; 16],
        not_before: 0,
        not_after: u64::MAX,
        serial,
    };
    Certificate::issue(owner, &fields)
}

fn directory(owner: &Identity) -> Directory {
    let statement = Statement::issue(owner, 1, 3, [].into());
    let server = Some("127.0.0.1:1".parse().unwrap());
    Directory::new(owner.member(), "ring.test", statement, server).unwrap()
}

#[tokio::test]
async fn cached_certificates_count_until_they_expire() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let (member, now) = (MemberId::new([1; 32]), unix_seconds());
    let fields = CertificateFields {
        member,
        name: "oslo".parse().unwrap(),
        address: None,
        nonce: [0; 16],
        not_before: 0,
        not_after: now + 4,
        serial: 4,
    };
    let short = Certificate::issue(&owner, &fields);
    directory.admit(short.as_bytes()).unwrap();
    assert!(!directory.has_ended(&member));
    while unix_seconds() < now + 4 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(directory.cached(&member), None);
    assert!(directory.has_ended(&member));
    let refused = directory.admit(short.as_bytes()).unwrap_err();
    assert!(matches!(refused, DirectoryError::Invalid(..)), "{refused}");
    // Asked for by name it is asked about again, and no server answers.
    let failed = directory.find("oslo").await.unwrap_err();
    assert!(
        matches!(failed, DirectoryError::Unavailable(..)),
        "{failed}"
    );
}

#[tokio::test]
async fn older_certificates_take_no_newer_names() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let (old, new) = (certificate(&owner, 1, 4), certificate(&owner, 2, 5));
    // This member does not know of the rotation: both are good to it.
    directory.admit(new.as_bytes()).unwrap();
    directory.admit(old.as_bytes()).unwrap();
    assert_eq!(directory.find("oslo").await.unwrap(), new);
    let again = certificate(&owner, 2, 3);
    directory.admit(again.as_bytes()).unwrap();
    assert_eq!(directory.cached(&new.member()), Some(new));
}

#[tokio::test]
async fn the_old_id_finds_a_rotated_member() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let (old, new) = (certificate(&owner, 1, 4), certificate(&owner, 2, 5));
    directory.admit(old.as_bytes()).unwrap();
    let serials = Serials {
        replaced: [(4, 5)].into(),
        ..Serials::default()
    };
    directory.set_statement(Statement::issue_with(
        &owner,
        2,
        Parameters::default(),
        serials.clone(),
    ));
    assert!(directory.cached(&old.member()).is_none());
    // DNS does not answer, and that revokes no member.
    let id = old.member().to_string();
    let failed = directory.find(&id).await.unwrap_err();
    assert!(
        matches!(failed, DirectoryError::Unavailable(..)),
        "{failed}"
    );
    directory.admit(new.as_bytes()).unwrap();
    assert_eq!(directory.find(&id).await.unwrap(), new);
    assert!(directory.succeeds(4, &new) && !directory.succeeds(5, &new));

    let revoked = [5].into();
    directory.set_statement(Statement::issue_with(
        &owner,
        3,
        Parameters::default(),
        Serials { revoked, ..serials },
    ));
    let failed = directory.find(&id).await.unwrap_err();
    assert!(matches!(failed, DirectoryError::Revoked(_)), "{failed}");
}

#[test]
fn eviction_keeps_names_of_others() {
    let owner = Identity::generate().unwrap();
    let mut known = Known::default();
    known.insert(certificate(&owner, 1, 4));
    known.insert(certificate(&owner, 2, 5));
    known.drop_oldest();
    let name: Name = "oslo".parse().unwrap();
    assert_eq!(known.id_by_name.get(&name), Some(&MemberId::new([2; 32])));
}

#[test]
fn missing_newer_certificates_are_looked_up_seldom() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let (member, now) = (MemberId::new([1; 32]), unix_seconds());
    let fields = CertificateFields {
        member,
        name: "oslo".parse().unwrap(),
        address: None,
        nonce: [0; 16],
        not_before: now - 20_000,
        not_after: now + 1_000,
        serial: (now - 20_000) * 1_000_000,
    };
    let old = Certificate::issue(&owner, &fields);
    directory.admit(old.as_bytes()).unwrap();
    let start = Instant::now();
    assert_eq!(directory.ageing(start, now), [member]);
    // DNS has the same one still.
    directory.admit(old.as_bytes()).unwrap();
    assert_eq!(directory.ageing(start, now), []);
    let later = start + std::time::Duration::from_secs(1_000 / 16 + 1);
    assert_eq!(directory.ageing(later, now), [member]);
}

#[test]
fn no_more_is_remembered_than_the_bounds_say() {
    let owner = Identity::generate().unwrap();
    let mut known = Known::default();
    let member = |n: usize| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&n.to_be_bytes());
        MemberId::new(id)
    };
    for n in 0..=DIRECTORY_ENTRIES {
        let serial = u64::try_from(n).unwrap();
        known.insert(of(&owner, member(n), &format!("m{n}"), serial));
        // The first is used all the time, and the second never.
        assert!(known.by_id(&member(0)).is_some());
    }
    assert_eq!(known.by_id.len(), DIRECTORY_ENTRIES);
    assert_eq!(known.id_by_name.len(), DIRECTORY_ENTRIES);
    assert!(known.by_id(&member(1)).is_none());
    assert!(known.by_id(&member(DIRECTORY_ENTRIES)).is_some());

    let name = |n: usize| RecordName::Member(format!("m{n}").parse().unwrap());
    for n in 0..=ABSENT_ENTRIES {
        known.remember_absent(name(n));
        assert!(known.absent.len() <= ABSENT_ENTRIES);
    }
    assert!(known.is_absent(&name(ABSENT_ENTRIES)));
    assert!(!known.is_absent(&name(0)));

    // And not for long.
    let past = Instant::now().checked_sub(ABSENT_FOR).unwrap();
    known.absent.insert(name(ABSENT_ENTRIES), past);
    assert!(!known.is_absent(&name(ABSENT_ENTRIES)));
}

/// A new statement held back, or an old one brought, in DNS or through another member: it is
/// genuine, and counts no more.
#[test]
fn an_older_statement_revives_no_member() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let revoked = certificate(&owner, 1, 4);
    directory.admit(revoked.as_bytes()).unwrap();
    let statement = |number, serials: &[u64]| {
        let revoked = serials.iter().copied().collect();
        Statement::issue(&owner, number, 3, revoked)
    };
    let (old, new) = (statement(2, &[]), statement(3, &[4]));
    assert!(directory.take_statement(old.as_bytes()));
    assert!(directory.cached(&revoked.member()).is_some());
    assert!(directory.take_statement(new.as_bytes()));
    for again in [old, statement(3, &[])] {
        assert!(!directory.take_statement(again.as_bytes()));
        assert!(directory.replace_statement(again).is_none());
        assert_eq!(directory.statement().number(), 3);
        assert!(directory.cached(&revoked.member()).is_none());
        assert!(directory.admit(revoked.as_bytes()).is_err());
    }
    // A newer number does not help who is not the owner.
    let stranger = Identity::generate().unwrap();
    let made_up = Statement::issue(&stranger, 9, 3, [].into());
    assert!(!directory.take_statement(made_up.as_bytes()));
    assert_eq!(directory.statement().number(), 3);
}

fn stated(owner: &Identity, number: u64, revoked: &[u64]) -> Statement {
    Statement::issue(owner, number, 3, revoked.iter().copied().collect())
}

/// Serials of earlier versions name no time: what has expired cannot be distinguished from what
/// was forgotten.
#[tokio::test]
async fn a_lost_revocation_still_counts() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let old = certificate(&owner, 1, 4);
    let take = |number, revoked: &[u64]| {
        let statement = stated(&owner, number, revoked);
        assert!(directory.take_statement(statement.as_bytes()), "{number}");
    };
    take(2, &[4, 5]);
    assert!(directory.admit(old.as_bytes()).is_err() && directory.gap().is_none());
    take(3, &[5, 6]);
    assert!(directory.admit(old.as_bytes()).is_err());
    assert_eq!(directory.gap().unwrap().1.statements[0].number(), 2);
    // Known to the authority, so it has expired; nothing is lost by taking it as ended.
    directory.acknowledge(2);
    assert!(directory.gap().is_none());
    let brought = || {
        let gap = directory.gap().map(|(_, gap)| gap.statements);
        let numbers = gap.unwrap_or_default();
        let numbers = numbers.iter().map(|statement| statement.number());
        numbers.collect::<Vec<_>>()
    };
    take(4, &[6]);
    assert_eq!(brought(), [2], "it says all that is lost, and more is");
    directory.acknowledge(2);
    take(5, &[]);
    assert_eq!(brought(), [4]);
    assert!(directory.admit(old.as_bytes()).is_err());
    // As after a restart.
    let again = Directory::new(owner.member(), "ring.test", stated(&owner, 5, &[]), None).unwrap();
    let kept = directory
        .forgotten()
        .iter()
        .map(|s| (**s).clone())
        .collect();
    again.remember(kept);
    assert!(again.admit(old.as_bytes()).is_err());
    take(6, &[4, 5, 6]);
    assert!(directory.gap().is_none() && directory.forgotten().is_empty());
}

#[tokio::test]
async fn few_older_statements_are_kept() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let most = u64::try_from(FORGOTTEN_STATEMENTS).unwrap();
    for number in 2..most + 4 {
        let statement = stated(&owner, number, &[number + 100]);
        assert!(directory.take_statement(statement.as_bytes()));
        // Once it is kept it loses nothing more.
        directory.acknowledge(3);
    }
    let kept = directory.forgotten();
    let kept: Vec<u64> = kept.iter().map(|statement| statement.number()).collect();
    assert_eq!(kept, [2, 4, 5, 6]);
}
