//! Whose certificate counts, where there are several.

use ringway_transport::Signer as _;

use super::*;
use crate::certificate::CertificateFields;
use crate::identity::Identity;
use crate::statement::Serials;

fn certificate(owner: &Identity, member: u8, serial: u64) -> Certificate {
    let fields = CertificateFields {
        member: MemberId::new([member; 32]),
        name: "oslo".parse().unwrap(),
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
async fn an_older_certificate_takes_no_name_from_a_newer_one() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let (old, new) = (certificate(&owner, 1, 4), certificate(&owner, 2, 5));
    // This member has not heard of the rotation: both are good to it.
    directory.admit(new.as_bytes()).unwrap();
    directory.admit(old.as_bytes()).unwrap();
    assert_eq!(directory.find("oslo").await.unwrap(), new);
    let again = certificate(&owner, 2, 3);
    directory.admit(again.as_bytes()).unwrap();
    assert_eq!(directory.cached(&new.member()), Some(new));
}

#[tokio::test]
async fn whoever_has_another_key_is_found_by_the_old_id_too() {
    let owner = Identity::generate().unwrap();
    let directory = directory(&owner);
    let (old, new) = (certificate(&owner, 1, 4), certificate(&owner, 2, 5));
    directory.admit(old.as_bytes()).unwrap();
    let serials = Serials {
        replaced: [(4, 5)].into(),
        ..Serials::default()
    };
    directory.set_statement(Statement::issue_with(&owner, 2, 3, serials.clone()));
    assert!(directory.cached(&old.member()).is_none());
    // DNS does not answer, and that revokes nobody.
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
        3,
        Serials { revoked, ..serials },
    ));
    let failed = directory.find(&id).await.unwrap_err();
    assert!(matches!(failed, DirectoryError::Revoked(_)), "{failed}");
}

#[test]
fn what_gives_way_takes_no_name_along_that_is_anothers() {
    let owner = Identity::generate().unwrap();
    let mut known = Known::default();
    known.insert(certificate(&owner, 1, 4));
    known.insert(certificate(&owner, 2, 5));
    known.drop_oldest();
    let name: Name = "oslo".parse().unwrap();
    assert_eq!(known.id_by_name.get(&name), Some(&MemberId::new([2; 32])));
}
