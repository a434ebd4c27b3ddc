//! Homes whose membership has ended, and new invites.

use std::time::Duration;

use ringway_node::admission::AdmissionRequest;
use ringway_node::authority::MemberState;
use ringway_node::certificate::Role;
use ringway_node::enrol::{self, JoinError, Joined, join};

use crate::place::Place;

/// A leaf that was revoked and has not heard of it.
async fn revoked(place: &Place) -> Joined {
    let invite = place.invite("alice", Role::Leaf);
    let joined = join(&place.home("alice"), &invite, None).await.unwrap();
    assert!(!joined.again);
    place.authority().revoke("alice").unwrap();
    joined
}

/// Joins again as soon as the home may know, from DNS, that its membership is over.
async fn again(place: &Place, invite: &str) -> Result<Joined, JoinError> {
    loop {
        match join(&place.home("alice"), invite, None).await {
            Err(JoinError::AlreadyMember { .. }) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            joined => return joined,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn home_learns_its_revocation_from_dns() {
    let place = Place::new();
    let _serving = place.serve().await;
    let before = revoked(&place).await;
    let config = std::fs::read(place.home("alice").join("ringway.toml")).unwrap();
    let invite = place.invite("alice", Role::Leaf);
    let joined = again(&place, &invite).await.unwrap();
    assert!(joined.again && joined.member != before.member);
    let kept = std::fs::read(place.home("alice").join("ringway.toml")).unwrap();
    assert_eq!(kept, config);
    // Now it is a good one, which joins nothing.
    let key = || std::fs::read(place.home("alice").join("identity.key")).unwrap();
    let key_before = key();
    let refused = join(&place.home("alice"), &invite, None).await.unwrap_err();
    assert!(
        matches!(refused, JoinError::AlreadyMember { .. }),
        "{refused}"
    );
    assert_eq!(key(), key_before);
    let members = place.authority().members().unwrap();
    let states: Vec<MemberState> = members.iter().map(|member| member.state).collect();
    assert_eq!(states, [MemberState::Revoked, MemberState::Active]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_joins_its_own_ring_only() {
    let (place, other) = (Place::new(), Place::new());
    let (_serving, _other) = (place.serve().await, other.serve().await);
    let before = revoked(&place).await;
    let invite = other.invite("alice", Role::Leaf);
    let refused = again(&place, &invite).await.unwrap_err();
    assert!(
        matches!(refused, JoinError::OtherRingsHome { .. }),
        "{refused}"
    );
    // The invite is not spent, and the home is as it was.
    assert_eq!(other.authority().invites().open().unwrap().len(), 1);
    assert!(other.authority().members().unwrap().is_empty());
    let invite = place.invite("alice", Role::Leaf);
    let joined = again(&place, &invite).await.unwrap();
    assert_ne!(joined.member, before.member);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_joins_again_by_files() {
    let place = Place::new();
    let _serving = place.serve().await;
    let before = revoked(&place).await;
    // Whatever comes of it, the home has asked DNS.
    let bad = place.invite("bob", Role::Router);
    again(&place, &bad).await.unwrap_err();
    let request = enrol::request(&place.home("alice"), "alice", None, None).unwrap();
    let request = AdmissionRequest::parse(&request.to_text()).unwrap();
    assert_ne!(request.member().to_string(), before.member);
    let admitted = place.authority().admit(&request).unwrap();
    let ring = place.authority().ring().ring.parse().unwrap();
    let joined = enrol::complete(&place.home("alice"), &admitted.reply, &ring).unwrap();
    assert!(joined.again);
    assert_eq!(joined.member, request.member().to_string());
    let key = ringway_node::identity::Identity::load(&place.home("alice").join("identity.key"));
    let id = ringway_transport::Signer::member(&key.unwrap());
    assert_eq!(id.to_string(), joined.member);
}
