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

struct TestRing {
    folder: tempfile::TempDir,
    dns: SocketAddr,
    enrol: SocketAddr,
    _stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Drop for TestRing {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl TestRing {
    async fn new() -> TestRing {
        let folder = tempfile::tempdir().unwrap();
        let (dns, enrol) = (free_address().unwrap(), free_address().unwrap());
        let options = InitOptions {
            domain: "ring.test".to_owned(),
            dns: dns.into(),
            enrol: enrol.into(),
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
        TestRing {
            folder,
            dns,
            enrol,
            _stop: stop,
            serving,
        }
    }

    fn locator(&self) -> Locator {
        Locator::new("ring.test", Some(self.dns.into()))
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
    async fn reply(&self, shown: &Identity, ring: &Membership, request: &[u8]) -> Option<String> {
        reply_to(self, Exchange::Rotation, shown, &ring.ring, request).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asked_member_rotates_despite_lost_replies() {
    let ring_at = TestRing::new().await;
    let (state, rotation) = ring_at.joined("alice").await;
    let resolver = ring_at.locator();
    let refused = rotation.ask(&resolver).await.unwrap_err();
    assert!(refused.to_string().contains("not asked"), "{refused}");
    ring_at.ask("alice");
    let lost = rotation.ask(&resolver).await.unwrap();
    // As after a crash: all that is there is the key that it had made.
    let home = ring_at.folder.path().join("alice");
    let again = Rotation::begin(&home, rotation.membership.clone()).unwrap();
    let reply = again.ask(&resolver).await.unwrap();
    assert_eq!(reply.certificate, lost.certificate);
    let rotated = again.adopt(&state, &reply).unwrap();
    assert_eq!(rotated.name, "alice");
    assert!(rotated.serial > rotated.replaces);
    // It is the member's key now, and can be changed again.
    ring_at.ask("alice");
    let (state, membership) = membership(&home).unwrap();
    assert_eq!(membership.certificate, reply.certificate);
    let next = Rotation::begin(&home, membership).unwrap();
    let reply = next.ask(&resolver).await.unwrap();
    next.adopt(&state, &reply).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copied_requests_gain_nothing_without_the_key() {
    let ring_at = TestRing::new().await;
    let (_, alice) = ring_at.joined("alice").await;
    let (_, mallory) = ring_at.joined("mallory").await;
    ring_at.ask("alice");
    let ring = &alice.membership;
    let request = alice.request();
    // Copied, and shown by another member, by the new key alone, or without a key.
    let stranger = Identity::generate().unwrap();
    for shown in [&mallory.old, &alice.new, &stranger] {
        let reply = ring_at.reply(shown, ring, request.as_bytes()).await;
        assert_eq!(reply, None);
    }
    // Signed by another key than the one that it names.
    let own = &alice.membership.certificate;
    let forged = RotationRequest::new(&mallory.old, &stranger, &ring.ring, own, unix_seconds());
    let reply = ring_at.reply(&mallory.old, ring, forged.as_bytes()).await;
    assert!(reply.unwrap().contains("no member's"));
    let mut changed = request.as_bytes().to_vec();
    changed[60] ^= 1;
    assert_eq!(ring_at.reply(&alice.old, ring, &changed).await, None);
    assert_eq!(ring_at.reply(&alice.old, ring, b"nonsense").await, None);
    let members = ring_at.authority().members().unwrap();
    assert!(members.iter().all(|m| m.state == MemberState::Active));

    // Alice herself is not kept from it. A peer that repeats her request afterwards has to have
    // her key, and gets what she got.
    assert!(alice.ask(&ring_at.locator()).await.is_ok());
    let reply = ring_at.reply(&mallory.old, ring, request.as_bytes()).await;
    assert_eq!(reply, None);
    let reply = ring_at.reply(&alice.old, ring, request.as_bytes()).await;
    assert_eq!(reply.as_deref(), Some("granted"));
    let thief = RotationRequest::new(&alice.old, &stranger, &ring.ring, own, unix_seconds());
    let reply = ring_at.reply(&alice.old, ring, thief.as_bytes()).await;
    assert!(reply.unwrap().contains("stolen"));
    let active = ring_at.authority().members().unwrap();
    let active = active.iter().filter(|m| m.state == MemberState::Active);
    assert_eq!(active.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_member_learns_it() {
    let ring_at = TestRing::new().await;
    let (_, alice) = ring_at.joined("alice").await;
    ring_at.ask("alice");
    ring_at.authority().revoke("alice").unwrap();
    let refused = alice.ask(&ring_at.locator()).await.unwrap_err();
    assert!(refused.to_string().contains("revoked"), "{refused}");
}

/// The authority's reply about this certificate to the holder of this key.
async fn renewal_reply(ring_at: &TestRing, shown: &Identity, own: &Certificate) -> Option<String> {
    let ring = ring_at.authority().ring_id();
    reply_to(ring_at, Exchange::Renewal, shown, &ring, own.as_bytes()).await
}

/// What the authority answers to a request, by a handshake with this key.
async fn reply_to(
    ring_at: &TestRing,
    exchange: Exchange,
    shown: &Identity,
    ring: &RingId,
    request: &[u8],
) -> Option<String> {
    let stream = TcpStream::connect(ring_at.enrol).await.unwrap();
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
async fn only_key_holders_renew_a_certificate() {
    let ring_at = TestRing::new().await;
    let (_, alice) = ring_at.joined("alice").await;
    let (_, mallory) = ring_at.joined("mallory").await;
    let own = &alice.membership.certificate;
    let reply = renewal_reply(&ring_at, &alice.old, own).await;
    assert!(reply.unwrap().contains("not over yet"));
    let stranger = Identity::generate().unwrap();
    for shown in [&mallory.old, &stranger] {
        assert_eq!(renewal_reply(&ring_at, shown, own).await, None);
    }
    // Nor does another message of the same handshake pass for it.
    let ring = &alice.membership;
    assert_eq!(ring_at.reply(&alice.old, ring, own.as_bytes()).await, None);
    ring_at.authority().revoke("alice").unwrap();
    let reply = renewal_reply(&ring_at, &alice.old, own).await;
    assert!(reply.unwrap().contains("revoked"));
}
