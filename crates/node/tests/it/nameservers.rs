//! The ring on DNS servers of the owner's own: Knot and BIND updated with TSIG, and unbound, which
//! believes only what is proven.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use ringway_node::authority::{Authority, DnsServer, Fault, Publication, PublishError, TsigKey};
use ringway_node::certificate::Role;
use ringway_node::directory::{Directory, DirectoryError};
use ringway_node::enrol::join;
use ringway_node::state::State;
use ringway_testbed::{Bind, Knot, Unbound, free_address};
use tokio::net::UdpSocket;

use crate::place::Place;

const ZONE: &str = "ring.test";

/// Written past the test harness, which would swallow what a passing test prints.
fn not_tested(what: &str, needs: &str) {
    let text =
        format!("\n*** NOT TESTED: {what}: {needs} is not installed (./setup.sh --tests) ***\n");
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

async fn enrolled(place: &Place, routers: &[&str], leaves: &[&str]) {
    let serving = place.serve().await;
    for name in routers {
        let address = Some(free_address().unwrap());
        let invite = place.invite(name, Role::Router);
        join(&place.home(name), &invite, address).await.unwrap();
    }
    for name in leaves {
        let invite = place.invite(name, Role::Leaf);
        join(&place.home(name), &invite, None).await.unwrap();
    }
    serving.end().await;
}

/// What `member` knows, with `resolver` to ask.
fn directory(place: &Place, member: &str, resolver: SocketAddr) -> Directory {
    let state = State::open(&place.home(member)).unwrap();
    let membership = state.membership().unwrap().unwrap();
    let (ring, domain) = (membership.ring, membership.domain);
    Directory::new(ring, &domain, membership.statement, Some(resolver.into())).unwrap()
}

async fn publish(
    authority: &Authority,
    server: SocketAddr,
    key: &Path,
) -> Result<Publication, PublishError> {
    let server: DnsServer = server.to_string().parse().unwrap();
    let key = TsigKey::read(key).unwrap();
    authority.publish_to(&server, &key).await
}

fn fault(result: Result<Publication, PublishError>) -> Fault {
    match result {
        Err(PublishError::Server { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

/// The resolver's answer for a TXT record: its code, and whether it says that DNSSEC proves it.
async fn asked(resolver: SocketAddr, name: &str) -> (ResponseCode, bool) {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.metadata.authentic_data = true;
    message.add_query(Query::query(
        Name::from_ascii(name).unwrap(),
        RecordType::TXT,
    ));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(resolver).await.unwrap();
    socket.send(&message.to_vec().unwrap()).await.unwrap();
    let mut bytes = vec![0; 4096];
    let length = tokio::time::timeout(Duration::from_secs(30), socket.recv(&mut bytes));
    let length = length.await.unwrap().unwrap();
    let answer = Message::from_vec(&bytes[..length]).unwrap();
    (answer.response_code, answer.authentic_data)
}

/// Long enough for what is remembered as absent, here and in the resolver, to be forgotten.
async fn forget_absences() {
    tokio::time::sleep(Duration::from_secs(4)).await;
}

/// An outage of the server stops only new members.
#[tokio::test(flavor = "multi_thread")]
async fn published_signed_zone_equals_the_ring() {
    let Some(mut knot) = Knot::start(ZONE).unwrap() else {
        return not_tested("a DNSSEC-signed zone of one's own", "knot");
    };
    let place = Place::new();
    enrolled(&place, &["oslo"], &["alice", "bob"]).await;
    let old_copy = copy(&place);
    let mut authority = place.authority();
    let key = knot.key_file();

    let first = publish(&authority, knot.address, &key).await.unwrap();
    assert_eq!((first.records, first.written, first.removed), (9, 9, 0));
    assert_eq!(first.zone, ZONE);
    let again = publish(&authority, knot.address, &key).await.unwrap();
    assert_eq!((again.written, again.removed, again.updates), (0, 0, 0));

    let anchor = knot.trust_anchor().unwrap();
    let Some(unbound) = Unbound::start(ZONE, knot.address, &anchor).unwrap() else {
        return not_tested("look-ups through a validating resolver", "unbound");
    };
    let oslos = directory(&place, "oslo", unbound.address);
    let bob = oslos.find("bob").await.unwrap();
    assert_eq!(oslos.find(&bob.member().to_string()).await.unwrap(), bob);
    let alices = directory(&place, "alice", unbound.address);
    let oslo = alices.find("oslo").await.unwrap();
    let by_key = directory(&place, "bob", unbound.address);
    let by_key = by_key.router(oslo.ring_key().unwrap()).await.unwrap();
    assert_eq!(by_key, oslo);
    assert_eq!(
        asked(unbound.address, "oslo._member.ring.test.").await,
        (ResponseCode::NoError, true)
    );

    authority.revoke("bob").unwrap();
    let revoked = publish(&authority, knot.address, &key).await.unwrap();
    assert_eq!(
        (revoked.records, revoked.written, revoked.removed),
        (7, 1, 2)
    );
    forget_absences().await;
    assert_eq!(
        asked(unbound.address, "bob._member.ring.test.").await,
        (ResponseCode::NXDomain, true),
        "the absence is proven"
    );
    let absent = alices.find("bob").await;
    assert!(
        matches!(absent, Err(DirectoryError::Absent(..))),
        "{absent:?}"
    );
    assert!(oslos.refresh_statement().await.unwrap().is_some());
    assert!(
        oslos.cached(&bob.member()).is_none(),
        "revoked for whoever knew him"
    );

    // An authority restored from an old copy would bring bob back.
    let (_folder, mut old_copy) = old_copy;
    let undone = fault(publish(&old_copy, knot.address, &key).await);
    assert!(matches!(undone, Fault::Newer { .. }), "{undone}");
    let refused = old_copy.revoke("alice").unwrap_err().to_string();
    assert!(refused.contains("ring recover"), "{refused}");
    assert_eq!(old_copy.recover().unwrap().ended, ["bob"]);

    outage(&place, &mut knot, &unbound, &alices).await;
    let lying = wrong_anchor(&anchor);
    let distrustful = Unbound::start(ZONE, knot.address, &lying).unwrap().unwrap();
    let distrustful = directory(&place, "alice", distrustful.address);
    for name in ["bob", "oslo"] {
        let unproven = distrustful.find(name).await;
        assert!(
            matches!(unproven, Err(DirectoryError::Unavailable(..))),
            "{unproven:?}"
        );
    }
}

/// With the server gone nothing known is lost, nothing counts as absent, and who shows a
/// certificate is still let in.
async fn outage(place: &Place, knot: &mut Knot, unbound: &Unbound, alices: &Directory) {
    let state = State::open(&place.home("alice")).unwrap();
    let alice = state.membership().unwrap().unwrap().certificate;
    let oslos = directory(place, "oslo", unbound.address);
    knot.stop();
    forget_absences().await;
    assert!(
        alices.find("oslo").await.is_ok(),
        "what is known stays known"
    );
    for name in ["bob", "alice", "nobody"] {
        let unknown = oslos.find(name).await;
        assert!(
            matches!(unknown, Err(DirectoryError::Unavailable(..))),
            "{unknown:?}"
        );
    }
    assert!(oslos.refresh_statement().await.is_err());
    assert!(
        oslos.admit(alice.as_bytes()).is_ok(),
        "a certificate needs no DNS"
    );
    assert!(oslos.find("alice").await.is_ok());
    knot.resume().unwrap();
    let newcomer = directory(place, "oslo", unbound.address);
    let mut tries = 0;
    while let Err(error) = newcomer.find("alice").await {
        assert!(tries < 60, "{error}");
        tries += 1;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The same record with another digest: the server's signatures prove nothing by it.
fn wrong_anchor(anchor: &str) -> String {
    let (fields, digest) = anchor.trim().rsplit_once(' ').unwrap();
    let other: String = digest.chars().rev().collect();
    assert_ne!(other, digest);
    format!("{fields} {other}")
}

/// The authority's folder as it is now, opened as another authority.
fn copy(place: &Place) -> (tempfile::TempDir, Authority) {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in crate::place::files(&place.owner()) {
        let name = folder.path().join(path.file_name().unwrap());
        std::fs::write(&name, content).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&name, private).unwrap();
    }
    let authority = Authority::open(folder.path()).unwrap();
    (folder, authority)
}

#[tokio::test(flavor = "multi_thread")]
async fn knot_serves_the_zone_file() {
    let place = Place::new();
    enrolled(&place, &["oslo"], &["alice"]).await;
    let file = place.authority().zone_file().unwrap();
    let Some(knot) = Knot::start_with(ZONE, &file).unwrap() else {
        return not_tested("a zone file of the ring on a real server", "knot");
    };
    let alices = directory(&place, "alice", knot.address);
    let oslo = alices.find("oslo").await.unwrap();
    for member in [oslo.name().to_string(), oslo.member().to_string()] {
        let fresh = directory(&place, "alice", knot.address);
        assert_eq!(fresh.find(&member).await.unwrap(), oslo);
    }
    let by_key = directory(&place, "alice", knot.address);
    let by_key = by_key.router(oslo.ring_key().unwrap()).await.unwrap();
    assert_eq!(by_key, oslo);
    let absent = alices.find("nobody").await;
    assert!(
        matches!(absent, Err(DirectoryError::Absent(..))),
        "{absent:?}"
    );
    // Nothing newer than what alice was given when she joined.
    assert!(alices.refresh_statement().await.unwrap().is_none());
}

/// No command is needed after the first.
#[tokio::test(flavor = "multi_thread")]
async fn kept_server_follows_the_ring() {
    let Some(knot) = Knot::start(ZONE).unwrap() else {
        return not_tested("a DNS server that is kept current", "knot");
    };
    let place = Place::new();
    let server: DnsServer = knot.address.to_string().parse().unwrap();
    place
        .authority()
        .kept()
        .keep(&server, &knot.key_file())
        .unwrap();
    let _serving = place.serve().await;
    let invite = place.invite("alice", Role::Leaf);
    join(&place.home("alice"), &invite, None).await.unwrap();
    let answers = |code| {
        let address = knot.address;
        async move {
            let mut tries = 0;
            while asked(address, "alice._member.ring.test.").await.0 != code {
                assert!(tries < 200, "alice is still as before");
                tries += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    answers(ResponseCode::NoError).await;
    place.authority().revoke("alice").unwrap();
    answers(ResponseCode::NXDomain).await;
    let mut tries = 0;
    // Noted when the server has confirmed it, which is after it answers so.
    while place.authority().kept().all().unwrap()[0]
        .generation
        .is_none_or(|number| number < 3)
    {
        assert!(tries < 100, "{:?}", place.authority().kept().all());
        tries += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn knot_reports_a_wrong_key_or_zone() {
    let Some(knot) = Knot::start("other.test").unwrap() else {
        return not_tested("the refusals of a DNS server", "knot");
    };
    let place = Place::new();
    let authority = place.authority();
    // Knot does not sign this one.
    let unserved = fault(publish(&authority, knot.address, &knot.key_file()).await);
    let refused = Fault::Unsigned(ResponseCode::Refused).to_string();
    assert_eq!(unserved.to_string(), refused);

    let text = std::fs::read_to_string(knot.key_file()).unwrap();
    let changed = |from: &str, to: &str| {
        let path = knot.key_file().with_extension("changed");
        std::fs::copy(knot.key_file(), &path).unwrap();
        std::fs::write(&path, text.replace(from, to)).unwrap();
        path
    };
    let Some(knot_ring) = Knot::start(ZONE).unwrap() else {
        return;
    };
    let other_name = changed("id: ring-update", "id: other");
    let unknown = fault(publish(&authority, knot_ring.address, &other_name).await);
    assert!(matches!(unknown, Fault::BadKey { .. }), "{unknown}");
    // The first server's key has the same name and another secret.
    let other_secret = fault(publish(&authority, knot_ring.address, &knot.key_file()).await);
    assert!(
        matches!(other_secret, Fault::BadSignature { .. }),
        "{other_secret}"
    );
    let unreachable = fault(publish(&authority, free_address().unwrap(), &knot.key_file()).await);
    assert!(
        matches!(unreachable, Fault::Unreachable(_)),
        "{unreachable}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn large_ring_reaches_bind_in_several_updates() {
    // The ring's records stand in the zone above its domain.
    let Some(bind) = Bind::start("test").unwrap() else {
        return not_tested("updates of BIND", "bind9");
    };
    let place = Place::new();
    let names: Vec<String> = (0..40).map(|number| format!("leaf-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    enrolled(&place, &[], &names).await;
    let mut authority = place.authority();
    let key = bind.key_file();
    let first = publish(&authority, bind.address, &key).await;
    let first = first.unwrap_or_else(|error| panic!("{error}: {}", bind.log()));
    assert_eq!(
        (first.records, first.written, first.zone.as_str()),
        (82, 82, "test")
    );
    assert!(first.updates > 1, "{first:?}");
    let again = publish(&authority, bind.address, &key).await.unwrap();
    assert_eq!((again.written, again.updates), (0, 0));
    let elsewhere = Bind::start("other.example").unwrap().unwrap();
    let unserved = fault(publish(&authority, elsewhere.address, &elsewhere.key_file()).await);
    assert!(
        matches!(unserved, Fault::NotAuthoritative { .. }),
        "{unserved}"
    );
    for name in &names[..10] {
        authority.revoke(name).unwrap();
    }
    let revoked = publish(&authority, bind.address, &key).await.unwrap();
    assert_eq!(
        (revoked.written, revoked.removed, revoked.updates),
        (1, 20, 1)
    );
    let asker = directory(&place, "leaf-20", bind.address);
    assert!(asker.find("leaf-21").await.is_ok());
    let absent = asker.find("leaf-3").await;
    assert!(
        matches!(absent, Err(DirectoryError::Absent(..))),
        "{absent:?}"
    );
}

#[tokio::test]
async fn empty_answer_without_authority_denies_nothing() {
    let place = Place::new();
    enrolled(&place, &[], &["alice"]).await;
    for code in [ResponseCode::NoError, ResponseCode::NXDomain] {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let portal = tokio::spawn(async move {
            let mut bytes = [0; 2048];
            loop {
                let (length, from) = socket.recv_from(&mut bytes).await.unwrap();
                let query = Message::from_vec(&bytes[..length]).unwrap();
                let mut answer = Message::error_msg(query.id, query.op_code, code);
                answer.add_queries(query.queries.clone());
                socket
                    .send_to(&answer.to_vec().unwrap(), from)
                    .await
                    .unwrap();
            }
        });
        let found = directory(&place, "alice", address).find("nobody").await;
        assert!(
            matches!(found, Err(DirectoryError::Unavailable(..))),
            "{found:?}"
        );
        portal.abort();
    }
}
