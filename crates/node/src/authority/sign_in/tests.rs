//! What the authority keeps of people that have signed in.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::authority::{InitOptions, MemberState};
use crate::certificate::Name;
use crate::identity::Identity;
use crate::rotation::RotationRequest;
use crate::sso::Person;
use ringway_transport::Signer as _;

const DAY: u64 = 86_400;

fn authority(folder: &std::path::Path) -> Authority {
    let options = InitOptions {
        domain: "ring.test".to_owned(),
        dns: SocketAddr::from(([127, 0, 0, 1], 7453)).into(),
        enrol: SocketAddr::from(([127, 0, 0, 1], 7410)).into(),
        successors: 4,
        group: 9,
        lifetime: Duration::from_secs(30 * DAY),
    };
    Authority::init(&folder.join("owner"), &options).unwrap()
}

fn asked(member: &Identity, name: &str, again: Option<u64>) -> SignedIn {
    let name: Name = name.parse().unwrap();
    SignedIn {
        person: Person {
            issuer: "https://sso.example.org".to_owned(),
            subject: "1".to_owned(),
            shown: "ada@example.org".to_owned(),
            user: "ada".to_owned(),
            groups: vec!["a, b".to_owned(), "\"c\"".to_owned()],
        },
        member: member.member(),
        address: None,
        name,
        machines: 5,
        again: again.map(Duration::from_secs),
    }
}

#[test]
fn groups_are_kept_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = authority(folder.path());
    let own = Identity::load_or_create(&folder.path().join("key")).unwrap();
    authority
        .enrol_signed_in(&asked(&own, "ada-laptop", None))
        .unwrap();
    let entry = authority.members().unwrap()[0].sso.clone().unwrap();
    assert_eq!(entry.groups, ["a, b", "\"c\""]);
    assert_eq!(entry.until, None);
}

#[test]
fn nothing_outlasts_a_sign_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = authority(folder.path());
    let own = Identity::load_or_create(&folder.path().join("key")).unwrap();
    let (enrolled, until) = authority
        .enrol_signed_in(&asked(&own, "ada-laptop", Some(7 * DAY)))
        .unwrap();
    let certificate = enrolled.certificate;
    assert_eq!(Some(certificate.not_after()), until);
    let ends = certificate.not_after();
    let member = own.member();
    // As long as there is no other sign-in, no certificate is renewed.
    let renewed_until = |authority: &Authority, now| {
        let (store, lasting) = (&authority.store, authority.store.options().ends(now));
        store.persons().renewed_until(&member, ends, now, lasting)
    };
    let refused = renewed_until(&authority, ends - DAY).unwrap_err();
    assert!(refused.to_string().contains("sign in again"), "{refused}");
    authority
        .enrol_signed_in(&asked(&own, "ada-laptop", Some(60 * DAY)))
        .unwrap();
    let now = unix_seconds();
    let lasting = renewed_until(&authority, now).unwrap();
    assert_eq!(lasting, now + 30 * DAY);
    let near = now + 40 * DAY;
    let until = authority.store.persons().ends(&member).unwrap();
    assert_eq!(renewed_until(&authority, near).ok(), until);
}

#[test]
fn changed_keys_stay_the_persons() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = authority(folder.path());
    let [own, next] =
        ["key", "next"].map(|key| Identity::load_or_create(&folder.path().join(key)).unwrap());
    let (enrolled, until) = authority
        .enrol_signed_in(&asked(&own, "ada-laptop", Some(7 * DAY)))
        .unwrap();
    let request = RotationRequest::new(
        &own,
        &next,
        &authority.ring_id(),
        &enrolled.certificate,
        unix_seconds(),
    );
    let rotated = authority.rotate(&request, "ada-laptop").unwrap();
    assert_eq!(Some(rotated.certificate.not_after()), until);
    let members = authority.members().unwrap();
    let active = members
        .iter()
        .find(|entry| entry.state == MemberState::Active)
        .unwrap();
    assert_eq!(active.sso.as_ref().unwrap().person, "ada@example.org");
    assert_eq!(
        authority.store.persons().ends(&next.member()).unwrap(),
        until
    );
}
