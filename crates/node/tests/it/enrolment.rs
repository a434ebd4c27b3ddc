//! Becoming a member over the network, and what does not make one.

use std::path::Path;
use std::time::Duration;

use ringway_node::authority::{InviteOptions, MemberState};
use ringway_node::certificate::Role;
use ringway_node::config::Config;
use ringway_node::directory::{Directory, DirectoryError};
use ringway_node::enrol::{JoinOptions, join, join_with};
use ringway_node::limits::{ENROL_CONNECTIONS, ENROL_TIME};
use ringway_node::state::State;
use ringway_testbed::free_address;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::place::Place;

fn directory(place: &Place, home: &str) -> Directory {
    let membership = State::open(&place.home(home))
        .unwrap()
        .membership()
        .unwrap()
        .unwrap();
    Directory::new(
        membership.ring,
        &membership.domain,
        membership.statement,
        Some(place.dns.into()),
    )
    .unwrap()
}

#[tokio::test]
async fn dns_finds_members_by_name_id_and_key() {
    let place = Place::new();
    let _serving = place.serve().await;
    let address = free_address().unwrap();
    let oslo = join(
        &place.home("oslo"),
        &place.invite("oslo", Role::Router),
        Some(address),
    )
    .await
    .unwrap();
    let alice = join(
        &place.home("alice"),
        &place.invite("alice", Role::Leaf),
        None,
    )
    .await
    .unwrap();
    assert_eq!(
        (oslo.role.as_str(), alice.role.as_str()),
        ("router", "leaf")
    );

    let directory = directory(&place, "alice");
    let mut tries = 0;
    let by_name = loop {
        // The server looks for changes a few times a second.
        match directory.find("oslo").await {
            Ok(certificate) => break certificate,
            Err(error) => assert!(tries < 100, "{error}"),
        }
        tries += 1;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert_eq!(by_name.member().to_string(), oslo.member);
    assert_eq!(by_name.address(), Some(address));
    let key = by_name.ring_key().unwrap();
    assert_eq!(
        directory.router(key).await.unwrap().member(),
        by_name.member()
    );
    assert_eq!(
        directory.find(&oslo.member).await.unwrap().member(),
        by_name.member()
    );
    let absent = directory.find("nobody").await;
    assert!(
        matches!(absent, Err(DirectoryError::Absent(..))),
        "{absent:?}"
    );
}

#[tokio::test]
async fn used_invite_serves_only_an_interrupted_join() {
    let place = Place::new();
    let _serving = place.serve().await;
    let invite = place.invite("alice", Role::Leaf);
    let first = join(&place.home("alice"), &invite, None).await.unwrap();
    let thief = join(&place.home("thief"), &invite, None).await.unwrap_err();
    assert!(thief.to_string().contains("used already"), "{thief}");
    // As if the machine had failed before the certificate was stored: the key is there, the state
    // is not.
    for file in ["state.db", "state.db-wal", "state.db-shm", "ringway.toml"] {
        std::fs::remove_file(place.home("alice").join(file)).unwrap_or_default();
    }
    let again = join(&place.home("alice"), &invite, None).await.unwrap();
    assert_eq!(again.member, first.member);
    assert_eq!(place.authority().members().unwrap().len(), 1);
}

/// The name of a member is taken: it gets no further invite.
#[tokio::test]
async fn newer_invite_withdraws_the_unused_one() {
    let place = Place::new();
    let _serving = place.serve().await;
    let lost = place.invite("alice", Role::Leaf);
    let newer = place.invite("alice", Role::Leaf);
    assert!(join(&place.home("thief"), &lost, None).await.is_err());
    join(&place.home("alice"), &newer, None).await.unwrap();
    let again = InviteOptions {
        name: "alice".to_owned(),
        role: Role::Leaf,
        valid_for: std::time::Duration::from_secs(60),
        spoken: false,
    };
    let refused = place.authority().invite(&again).unwrap_err();
    assert!(
        refused.is_usage() && refused.to_string().contains("alice"),
        "{refused}"
    );
}

#[tokio::test]
async fn expired_invite_admits_no_member() {
    let place = Place::new();
    let _serving = place.serve().await;
    let invite = place.invite_for("alice", Role::Leaf, 1);
    // Times are in whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    let late = join(&place.home("alice"), &invite, None).await.unwrap_err();
    assert!(late.to_string().contains("has expired"), "{late}");
    assert!(place.authority().members().unwrap().is_empty());
    // The name is free for the next one.
    let again = place.invite("alice", Role::Leaf);
    join(&place.home("alice"), &again, None).await.unwrap();
}

#[tokio::test]
async fn second_join_of_a_member_is_refused() {
    let place = Place::new();
    let _serving = place.serve().await;
    join(
        &place.home("alice"),
        &place.invite("alice", Role::Leaf),
        None,
    )
    .await
    .unwrap();
    let second = place.invite("bob", Role::Leaf);
    let refused = join(&place.home("alice"), &second, None).await.unwrap_err();
    assert!(
        refused.is_usage() && refused.to_string().contains("--home"),
        "{refused}"
    );
}

#[tokio::test]
async fn role_and_address_must_fit_the_invite() {
    let place = Place::new();
    let _serving = place.serve().await;
    let router = place.invite("oslo", Role::Router);
    let refused = join(&place.home("oslo"), &router, None).await.unwrap_err();
    assert!(refused.to_string().contains("--listen"), "{refused}");
    let leaf = place.invite("alice", Role::Leaf);
    let refused = join(&place.home("alice"), &leaf, Some(free_address().unwrap()))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("--listen"), "{refused}");
    let nowhere = "0.0.0.0:4000".parse().unwrap();
    let refused = join(&place.home("oslo"), &router, Some(nowhere))
        .await
        .unwrap_err();
    assert!(refused.is_usage(), "{refused}");
    // None of that has spent the invite.
    join(&place.home("oslo"), &router, Some(free_address().unwrap()))
        .await
        .unwrap();
}

#[tokio::test]
async fn forged_secret_and_foreign_invite_are_refused() {
    let place = Place::new();
    let other = Place::new();
    let _serving = place.serve().await;
    let invite = place.invite("alice", Role::Leaf);
    // One changed character: another ring, another invite, or another secret.
    for position in [20, 75, 90, 100] {
        let mut forged: Vec<u8> = invite.clone().into_bytes();
        forged[position] = if forged[position] == b'a' { b'b' } else { b'a' };
        let forged = String::from_utf8(forged).unwrap();
        let refused = join(&place.home("mallory"), &forged, None).await;
        assert!(refused.is_err(), "position {position}");
    }
    // An invite to another ring, whose authority this one is not.
    let foreign = other.invite("alice", Role::Leaf);
    assert!(join(&place.home("mallory"), &foreign, None).await.is_err());
    assert!(place.authority().members().unwrap().is_empty());
}

#[tokio::test]
async fn newer_statement_removes_a_revoked_member() {
    let place = Place::new();
    let _serving = place.serve().await;
    join(
        &place.home("alice"),
        &place.invite("alice", Role::Leaf),
        None,
    )
    .await
    .unwrap();
    join(&place.home("bob"), &place.invite("bob", Role::Leaf), None)
        .await
        .unwrap();
    let directory = directory(&place, "bob");
    let membership = State::open(&place.home("alice"))
        .unwrap()
        .membership()
        .unwrap()
        .unwrap();
    let alice = membership.certificate;
    directory.admit(alice.as_bytes()).unwrap();
    let entry = place.authority().revoke("alice").unwrap();
    assert_eq!(entry.state, MemberState::Revoked);
    let mut tries = 0;
    while directory.cached(&alice.member()).is_some() {
        assert!(tries < 100, "the revocation does not arrive");
        tries += 1;
        directory.refresh_statement().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(directory.admit(alice.as_bytes()).is_err());
    // A certificate for the same key does not come back through the back door.
    let invite = place.invite("carol", Role::Leaf);
    std::fs::remove_file(place.home("alice").join("state.db")).unwrap();
    let refused = join(&place.home("alice"), &invite, None).await.unwrap_err();
    assert!(refused.to_string().contains("revoked"), "{refused}");
}

/// One message of an enrolment, with its length in front.
async fn frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut frame = vec![0; usize::from(length)];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

/// The first message of a join with this invite, as somebody on the way records it.
async fn recorded(home: &Path, invite: &str) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = JoinOptions {
        at: Some(listener.local_addr().unwrap().into()),
        ..JoinOptions::default()
    };
    let joining = join_with(home, invite, &options);
    let recording = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        frame(&mut stream).await.unwrap()
    };
    let (failed, first) = tokio::join!(joining, recording);
    let failed = failed.unwrap_err().to_string();
    // Nothing is known of the invite by that.
    assert!(failed.contains("closed before an answer"), "{failed}");
    assert!(!failed.contains("invite"), "{failed}");
    first
}

/// A connection that sends it again.
async fn replay(place: &Place, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(place.enrol).await.unwrap();
    let length = u16::try_from(first.len()).unwrap();
    stream.write_u16(length).await.unwrap();
    stream.write_all(first).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn replayed_first_messages_hold_up_no_enrolment() {
    let place = Place::new();
    let _serving = place.serve().await;
    let recorded = recorded(&place.home("alice"), &place.invite("alice", Role::Leaf)).await;
    let mut replays = Vec::new();
    for _ in 0..2 * ENROL_CONNECTIONS {
        replays.push(replay(&place, &recorded).await);
    }
    // All that are let have been answered.
    for stream in &mut replays {
        let answered = timeout(Duration::from_secs(5), frame(stream)).await;
        answered.unwrap().unwrap_or_default();
    }
    let invite = place.invite("bob", Role::Leaf);
    let home = place.home("bob");
    let joined = timeout(ENROL_TIME / 3, join(&home, &invite, None)).await;
    joined.expect("replays take all places").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn first_reply_refuses_used_or_expired_invite() {
    let place = Place::new();
    let _serving = place.serve().await;
    let used = place.invite("alice", Role::Leaf);
    join(&place.home("alice"), &used, None).await.unwrap();
    let expired = place.invite_for("bob", Role::Leaf, 1);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    for (name, invite, refusal) in [("thief", used, 3), ("bob", expired, 1)] {
        let first = recorded(&place.home(name), &invite).await;
        let answer = frame(&mut replay(&place, &first).await).await.unwrap();
        assert_eq!(answer.len(), 3, "{name}: {answer:?}");
        assert_eq!(answer[1], refusal, "{name}");
    }
}

/// What a router's user has mistyped costs no invite.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_listen_addresses_leave_the_invite_good() {
    let place = Place::new();
    let _serving = place.serve().await;
    let invite = place.invite("oslo", Role::Router);
    let home = place.home("oslo");
    let at = |listen: &str, advertise: Option<&str>| JoinOptions {
        listen: Some(listen.parse().unwrap()),
        advertise: advertise.map(|address| address.parse().unwrap()),
        ..JoinOptions::default()
    };
    for (options, words) in [
        (at("192.0.2.7:7400", None), "no address of this machine"),
        (at("0.0.0.0:7400", None), "--advertise"),
        (at("127.0.0.1:7400", Some("0.0.0.0:7400")), "--advertise"),
    ] {
        let refused = join_with(&home, &invite, &options).await.unwrap_err();
        assert!(refused.is_usage(), "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
    }
    // As behind a 1:1 NAT.
    let options = at("0.0.0.0:7400", Some("192.0.2.7:7400"));
    let joined = join_with(&home, &invite, &options).await.unwrap();
    assert_eq!(joined.address, Some("192.0.2.7:7400".parse().unwrap()));
    let config = Config::load(&home).unwrap();
    assert_eq!(config.node.listen, Some("0.0.0.0:7400".parse().unwrap()));
}
