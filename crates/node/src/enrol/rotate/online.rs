//! Another key by the enrolment port: a real authority on loopback, honest members and others.

use std::time::Duration;

use minicbor::bytes::ByteVec;
use ringway_testbed::free_address;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::authority::{Authority, InitOptions, InviteOptions, MemberState, Server};
use crate::certificate::{RingId, Role};
use crate::enrol::known::KnownAnswer;
use crate::enrol::{self, channel};

struct Place {
    folder: tempfile::TempDir,
    dns: SocketAddr,
    enrol: SocketAddr,
    _stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Place {
    async fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (dns, enrol) = (free_address().unwrap(), free_address().unwrap());
        let options = InitOptions {
            domain: "ring.test".to_owned(),
            dns,
            enrol,
            successors: 3,
            group: 9,
            lifetime: crate::limits::CERTIFICATE_LIFETIME,
        };
        let owner = folder.path().join("owner");
        let server = Server::bind(Authority::init(&owner, &options).unwrap());
        let server = server.await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or_default() };
            server.run(stopped).await.unwrap();
        });
        Place {
            folder,
            dns,
            enrol,
            _stop: stop,
            serving,
        }
    }

    fn authority(&self) -> Authority {
        Authority::open(&self.folder.path().join("owner")).unwrap()
    }

    fn ask(&self, name: &str) {
        let week = Duration::from_secs(7 * 86_400);
        self.authority().ask_rotation(name, week).unwrap();
    }

    /// A leaf that has joined, and is to have another key.
    async fn joined(&self, name: &str) -> (State, Rotation) {
        let options = InviteOptions {
            name: name.to_owned(),
            role: Role::Leaf,
            valid_for: Duration::from_secs(600),
            spoken: false,
        };
        let invite = self.authority().invite(&options).unwrap().to_string();
        let home = self.folder.path().join(name);
        enrol::join(&home, &invite, None).await.unwrap();
        let (state, membership) = membership(&home).unwrap();
        let rotation = Rotation::begin(&home, membership).unwrap();
        (state, rotation)
    }

    /// The authority's reply to these bytes, from the holder of this key.
    async fn told(&self, shown: &Identity, ring: &Membership, request: &[u8]) -> Option<String> {
        told(self, Exchange::Rotation, shown, &ring.ring, request).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_asked_changes_its_key_and_may_lose_the_answer() {
    let place = Place::new().await;
    let (state, rotation) = place.joined("alice").await;
    let resolver = Some(place.dns);
    let refused = rotation.ask(resolver).await.unwrap_err();
    assert!(refused.to_string().contains("not asked"), "{refused}");
    place.ask("alice");
    let lost = rotation.ask(resolver).await.unwrap();
    // As after a crash: all that is there is the key that it had made.
    let home = place.folder.path().join("alice");
    let again = Rotation::begin(&home, rotation.membership.clone()).unwrap();
    let reply = again.ask(resolver).await.unwrap();
    assert_eq!(reply.certificate, lost.certificate);
    let rotated = again.adopt(&state, &reply).unwrap();
    assert_eq!(rotated.name, "alice");
    assert!(rotated.serial > rotated.replaces);
    // It is the member's key now, and can be changed again.
    place.ask("alice");
    let (state, membership) = membership(&home).unwrap();
    assert_eq!(membership.certificate, reply.certificate);
    let next = Rotation::begin(&home, membership).unwrap();
    let reply = next.ask(resolver).await.unwrap();
    next.adopt(&state, &reply).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_not_the_key_gets_nothing_with_a_request_that_has() {
    let place = Place::new().await;
    let (_, alice) = place.joined("alice").await;
    let (_, mallory) = place.joined("mallory").await;
    place.ask("alice");
    let ring = &alice.membership;
    let request = alice.request();
    // Copied, and shown by another member, by the new key alone, or without a key.
    let stranger = Identity::generate().unwrap();
    for shown in [&mallory.old, &alice.new, &stranger] {
        let told = place.told(shown, ring, request.as_bytes()).await;
        assert_eq!(told, None);
    }
    // Signed by another key than the one that it names.
    let own = &alice.membership.certificate;
    let forged = RotationRequest::new(&mallory.old, &stranger, &ring.ring, own, unix_seconds());
    let told = place.told(&mallory.old, ring, forged.as_bytes()).await;
    assert!(told.unwrap().contains("no member's"));
    let mut changed = request.as_bytes().to_vec();
    changed[60] ^= 1;
    assert_eq!(place.told(&alice.old, ring, &changed).await, None);
    assert_eq!(place.told(&alice.old, ring, b"nonsense").await, None);
    let members = place.authority().members().unwrap();
    assert!(members.iter().all(|m| m.state == MemberState::Active));

    // Alice herself is not kept from it. A peer that repeats her request afterwards has to have
    // her key, and gets what she got.
    assert!(alice.ask(Some(place.dns)).await.is_ok());
    let told = place.told(&mallory.old, ring, request.as_bytes()).await;
    assert_eq!(told, None);
    let told = place.told(&alice.old, ring, request.as_bytes()).await;
    assert_eq!(told.as_deref(), Some("granted"));
    let thief = RotationRequest::new(&alice.old, &stranger, &ring.ring, own, unix_seconds());
    let told = place.told(&alice.old, ring, thief.as_bytes()).await;
    assert!(told.unwrap().contains("stolen"));
    let active = place.authority().members().unwrap();
    let active = active.iter().filter(|m| m.state == MemberState::Active);
    assert_eq!(active.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_member_learns_it() {
    let place = Place::new().await;
    let (_, alice) = place.joined("alice").await;
    place.ask("alice");
    place.authority().revoke("alice").unwrap();
    let refused = alice.ask(Some(place.dns)).await.unwrap_err();
    assert!(refused.to_string().contains("revoked"), "{refused}");
}

/// The authority's reply about this certificate to the holder of this key.
async fn told_of_renewal(place: &Place, shown: &Identity, own: &Certificate) -> Option<String> {
    let ring = place.authority().ring_id();
    told(place, Exchange::Renewal, shown, &ring, own.as_bytes()).await
}

/// What the authority answers to a request, by a handshake with this key.
async fn told(
    place: &Place,
    exchange: Exchange,
    shown: &Identity,
    ring: &RingId,
    request: &[u8],
) -> Option<String> {
    let stream = TcpStream::connect(place.enrol).await.unwrap();
    let channel = channel::connect_known(stream, shown, ring, exchange).await;
    let mut channel = channel.ok()?;
    let request = ByteVec::from(request.to_vec());
    channel.send(&request).await.ok()?;
    match channel.receive().await.ok()? {
        KnownAnswer::Granted { .. } => Some("granted".to_owned()),
        KnownAnswer::Refused { reason } => Some(reason),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_holder_of_its_key_renews_a_certificate() {
    let place = Place::new().await;
    let (_, alice) = place.joined("alice").await;
    let (_, mallory) = place.joined("mallory").await;
    let own = &alice.membership.certificate;
    let told = told_of_renewal(&place, &alice.old, own).await;
    assert!(told.unwrap().contains("not over yet"));
    let stranger = Identity::generate().unwrap();
    for shown in [&mallory.old, &stranger] {
        assert_eq!(told_of_renewal(&place, shown, own).await, None);
    }
    // Nor does another message of the same handshake pass for it.
    let ring = &alice.membership;
    assert_eq!(place.told(&alice.old, ring, own.as_bytes()).await, None);
    place.authority().revoke("alice").unwrap();
    let told = told_of_renewal(&place, &alice.old, own).await;
    assert!(told.unwrap().contains("revoked"));
}
