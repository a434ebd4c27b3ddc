//! Conversations of whole members: their engines with real databases, and a network that loses,
//! repeats and reorders.

mod attacks;
mod crashes;
mod rate;
mod receipts;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::engine::{Engine, Input, Kin, MessageError, Moment, Output, Own};
use super::record::{Epoch, Holder, Message, MessageId, Standing, Stored};
use super::store::{MessageStore, Wanted};
use super::wire::{Frame, Noted};
use crate::certificate::{Certificate, CertificateFields, RingId};
use crate::config::MessagesConfig;
use crate::identity::Identity;
use ringway_transport::Signer as _;

/// What the owner has stated of keys.
#[derive(Debug, Default)]
struct Stated {
    /// Serials, and those that take their places.
    next: Vec<(u64, u64)>,
    lost: Vec<u64>,
}

impl Kin for Stated {
    fn succeeds(&self, serial: u64, certificate: &Certificate) -> bool {
        self.next.contains(&(serial, certificate.serial()))
    }

    fn has_lost(&self, holder: &Holder) -> bool {
        self.lost.contains(&holder.serial)
    }
}

fn certificate(owner: &Identity, of: &Identity, name: &str, serial: u64) -> Certificate {
    let fields = CertificateFields {
        member: of.member(),
        name: name.parse().unwrap(),
        address: None,
        nonce: [0; 16],
        not_before: 0,
        not_after: u64::MAX,
        serial,
    };
    Certificate::issue(owner, &fields)
}

/// A member with its database, which outlives its engine.
struct Side {
    home: tempfile::TempDir,
    identity: Identity,
    certificate: Certificate,
    ring: RingId,
    rules: MessagesConfig,
    engine: Option<Engine>,
    chance: u64,
}

impl Side {
    fn new(owner: &Identity, name: &str, serial: u64) -> Side {
        let identity = Identity::generate().unwrap();
        let mut side = Side {
            home: tempfile::tempdir().unwrap(),
            certificate: certificate(owner, &identity, name, serial),
            identity,
            ring: owner.member(),
            rules: MessagesConfig::default(),
            engine: None,
            chance: serial << 32,
        };
        side.restart();
        side
    }

    /// Whatever was not on the disk is gone.
    fn restart(&mut self) {
        self.engine = None;
        let path = self.home.path().join("messages.db");
        let store = MessageStore::open(&path, self.ring).unwrap();
        let own = Own {
            identity: self.identity.clone(),
            ring: self.ring,
            rules: self.rules.clone(),
        };
        self.engine = Some(Engine::new(store, own).unwrap());
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().unwrap()
    }

    /// A round; gives the frames that leave.
    fn round(&mut self, now: Instant, kin: &Stated, inputs: Vec<Input>) -> Vec<Vec<u8>> {
        let chance = &mut self.chance;
        let mut random = || -> Epoch {
            *chance += 1;
            let hash = blake3::hash(&chance.to_be_bytes());
            hash.as_bytes()[..16].try_into().unwrap()
        };
        let mut moment = Moment {
            now,
            unix: 1_000,
            random: &mut random,
        };
        let engine = self.engine.as_mut().unwrap();
        let mut frames = Vec::new();
        for output in engine.round(&mut moment, kin, inputs).unwrap() {
            match output {
                Output::Transmit(_, _, frame) => frames.push(frame),
                Output::Sent(answer, sent) => drop(answer.send(sent)),
                Output::SentAll(answer, sent) => drop(answer.send(sent)),
                Output::Done(answer, done) => drop(answer.send(done)),
                Output::Changed => {}
            }
        }
        frames
    }

    fn list(&mut self, unread: bool) -> Vec<Stored> {
        let wanted = Wanted {
            unread,
            most: 100_000,
            ..Wanted::default()
        };
        self.engine().store().list(&wanted).unwrap()
    }

    fn bodies(&mut self, outgoing: bool) -> Vec<Vec<u8>> {
        let all = self.list(false).into_iter();
        let all = all.filter(|stored| stored.outgoing == outgoing);
        all.map(|stored| stored.message.body).collect()
    }

    fn standings(&mut self) -> Vec<Standing> {
        let all = self.list(false).into_iter();
        all.map(|stored| stored.standing).collect()
    }
}

type Sent = oneshot::Receiver<Result<Stored, MessageError>>;

fn send(to: &Certificate, id: u64, body: &[u8]) -> (Input, Sent) {
    let (answer, sent) = oneshot::channel();
    let hash = blake3::hash(&[&id.to_be_bytes(), to.as_bytes()].concat());
    let message = Message {
        id: MessageId(hash.as_bytes()[..16].try_into().unwrap()),
        created: id,
        body: body.to_vec(),
        attached: Vec::new(),
    };
    let input = Input::Send {
        to: to.clone(),
        message,
        priority: 1.0,
        answer,
    };
    (input, sent)
}

fn frames(from: &Certificate, frames: Vec<Vec<u8>>) -> Vec<Input> {
    let frame = |frame| Input::Frame(from.clone(), frame);
    frames.into_iter().map(frame).collect()
}

/// Two members of one ring.
struct Pair {
    owner: Identity,
    a: Side,
    b: Side,
    kin: Stated,
    now: Instant,
}

impl Pair {
    fn new() -> Pair {
        let owner = Identity::generate().unwrap();
        Pair {
            a: Side::new(&owner, "a", 1),
            b: Side::new(&owner, "b", 2),
            kin: Stated::default(),
            now: Instant::now(),
            owner,
        }
    }

    fn send(&mut self, id: u64, body: &[u8]) -> (Vec<Vec<u8>>, Result<Stored, MessageError>) {
        let (input, mut sent) = send(&self.b.certificate, id, body);
        let left = self.a.round(self.now, &self.kin, vec![input]);
        (left, sent.try_recv().unwrap())
    }

    /// Lets both talk over a network without faults until neither has anything to say.
    fn settle(&mut self, first: Vec<Vec<u8>>) {
        let mut to_b = first;
        for _ in 0..1_000 {
            let to_a = self
                .b
                .round(self.now, &self.kin, frames(&self.a.certificate, to_b));
            to_b = self
                .a
                .round(self.now, &self.kin, frames(&self.b.certificate, to_a));
            if to_b.is_empty() {
                return;
            }
        }
        panic!("they talk for ever");
    }

    /// As [`settle`](Pair::settle), where the receiver speaks first.
    fn settle_back(&mut self, first: Vec<Vec<u8>>) {
        let first = frames(&self.b.certificate, first);
        let left = self.a.round(self.now, &self.kin, first);
        if !left.is_empty() {
            self.settle(left);
        }
    }

    /// Lets the time come at which what waits is sent again.
    fn later(&mut self) -> Vec<Vec<u8>> {
        self.now += Duration::from_secs(61);
        self.a.round(self.now, &self.kin, Vec::new())
    }

    fn mark_read(&mut self, upto: MessageId) -> Vec<Vec<u8>> {
        let (answer, mut done) = oneshot::channel();
        let peer = self.b.engine().store().peer("a").unwrap().unwrap();
        let read = Input::MarkRead { peer, upto, answer };
        let left = self.b.round(self.now, &self.kin, vec![read]);
        done.try_recv().unwrap().unwrap();
        left
    }
}

#[test]
fn message_is_signed_for_and_read() {
    let mut pair = Pair::new();
    let (left, sent) = pair.send(1, b"one");
    assert_eq!(sent.unwrap().standing, Standing::Pending);
    pair.settle(left);
    assert_eq!(pair.a.standings(), [Standing::Signed]);
    let received = pair.b.list(true);
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].number, received[0].peer.as_str()), (1, "a"));
    let receipt = pair.mark_read(received[0].message.id);
    pair.a
        .round(pair.now, &pair.kin, frames(&pair.b.certificate, receipt));
    assert_eq!(pair.a.standings(), [Standing::Read]);
    assert!(pair.b.list(true).is_empty());
}

/// A receiver that does not say what it has read signs for it all the same.
#[test]
fn read_receipts_can_be_off() {
    let mut pair = Pair::new();
    pair.b.rules.receipts = false;
    pair.b.restart();
    let (left, _) = pair.send(1, b"one");
    pair.settle(left);
    let id = pair.b.list(true)[0].message.id;
    let said = pair.mark_read(id);
    assert!(said.is_empty());
    let (left, _) = pair.send(2, b"two");
    pair.settle(left);
    assert_eq!(pair.a.standings(), [Standing::Signed; 2]);
}

#[test]
fn refused_message_fails_with_the_reason() {
    let mut pair = Pair::new();
    pair.b.rules.from = vec!["oslo".to_owned()];
    pair.b.restart();
    let (left, _) = pair.send(1, b"one");
    pair.settle(left);
    let failed = pair.a.list(false);
    assert_eq!(failed[0].standing, Standing::Failed);
    assert!(
        failed[0]
            .reason
            .as_ref()
            .unwrap()
            .contains("takes no messages")
    );
    // Once it is allowed the next ones arrive, and the order stays.
    let rules = MessagesConfig::default();
    pair.b.round(pair.now, &pair.kin, vec![Input::Rules(rules)]);
    let (left, _) = pair.send(2, b"two");
    pair.settle(left);
    assert_eq!(pair.b.bodies(false), [b"two"]);
}

/// Beyond its bound a receiver takes nothing, and the sender keeps it until there is room.
#[test]
fn full_receiver_loses_nothing() {
    let mut pair = Pair::new();
    let body = vec![7; 60_000];
    let mut left = Vec::new();
    let count = 300;
    let mut accepted = 0;
    for id in 0..count {
        let (frames, sent) = pair.send(id, &body);
        left.extend(frames);
        match sent {
            Ok(_) => accepted += 1,
            // The sender has bounds as well.
            Err(MessageError::Full(_)) => {
                pair.settle(std::mem::take(&mut left));
            }
            Err(error) => panic!("{error}"),
        }
    }
    pair.settle(left);
    for _ in 0..3 {
        let again = pair.later();
        pair.settle(again);
    }
    let taken = pair.b.list(true);
    assert!(taken.len() < accepted, "{} of {accepted}", taken.len());
    let waiting = pair.a.engine().pending();
    assert_eq!(waiting + taken.len(), accepted);
    // There is room at once when they were read.
    let receipt = pair.mark_read(taken.last().unwrap().message.id);
    let left = pair
        .a
        .round(pair.now, &pair.kin, frames(&pair.b.certificate, receipt));
    let left = if left.is_empty() {
        pair.a.round(pair.now, &pair.kin, Vec::new())
    } else {
        left
    };
    pair.settle(left);
    assert_eq!(pair.a.engine().pending(), 0);
}

/// A conversation is with the member, whatever key it has.
#[test]
fn conversation_goes_on_with_the_next_key() {
    let mut pair = Pair::new();
    let (left, _) = pair.send(1, b"one");
    pair.settle(left);
    // The sender has another key.
    let next = Identity::generate().unwrap();
    let before = pair.a.certificate.clone();
    pair.a.certificate = certificate(&pair.owner, &next, "a", 3);
    pair.a.identity = next;
    pair.a.restart();
    let (left, _) = pair.send(2, b"two");
    let said = pair
        .b
        .round(pair.now, &pair.kin, frames(&pair.a.certificate, left));
    assert!(said.is_empty(), "it may be another: the owner has not said");
    pair.kin.next.push((before.serial(), 3));
    let again = pair.later();
    pair.settle(again);
    assert_eq!(pair.b.bodies(false), [b"one", b"two"]);
    let numbers: Vec<u64> = pair
        .b
        .list(false)
        .iter()
        .map(|stored| stored.number)
        .collect();
    assert_eq!(numbers, [1, 2]);
    // The receiver has another key as well.
    let next = Identity::generate().unwrap();
    pair.b.certificate = certificate(&pair.owner, &next, "b", 4);
    pair.b.identity = next;
    pair.b.restart();
    pair.kin.next.push((2, 4));
    let (left, _) = pair.send(3, b"three");
    pair.settle(left);
    assert_eq!(pair.b.bodies(false).len(), 3);
    assert_eq!(pair.a.standings(), [Standing::Signed; 3]);
}

/// Another member of the same name, after the first was revoked, has a conversation of its own.
#[test]
fn next_holder_of_a_name_starts_again() {
    let mut pair = Pair::new();
    let (left, _) = pair.send(1, b"one");
    pair.settle(left);
    let other = Identity::generate().unwrap();
    pair.a.certificate = certificate(&pair.owner, &other, "a", 9);
    pair.kin.lost.push(1);
    let came = send(&pair.b.certificate, 5, b"two");
    let mut stranger = Side::new(&pair.owner, "a", 9);
    std::mem::swap(&mut stranger.certificate, &mut pair.a.certificate);
    stranger.identity = other;
    stranger.certificate = certificate(&pair.owner, &stranger.identity, "a", 9);
    stranger.restart();
    let left = stranger.round(pair.now, &pair.kin, vec![came.0]);
    let receipt = pair
        .b
        .round(pair.now, &pair.kin, frames(&stranger.certificate, left));
    stranger.round(pair.now, &pair.kin, frames(&pair.b.certificate, receipt));
    assert_eq!(stranger.standings(), [Standing::Signed]);
    let numbers: Vec<u64> = pair
        .b
        .list(false)
        .iter()
        .map(|stored| stored.number)
        .collect();
    assert_eq!(numbers, [1, 1]);
}

/// What a revoked member was sent fails, and so says why.
#[test]
fn revoked_receiver_fails_what_waits() {
    let mut pair = Pair::new();
    pair.send(1, b"one").1.unwrap();
    let key = pair.a.engine().store().peer("b").unwrap().unwrap();
    let lost = Input::Lost(key, "the ring owner has revoked b".to_owned());
    pair.a.round(pair.now, &pair.kin, vec![lost]);
    assert_eq!(pair.a.standings(), [Standing::Failed]);
    assert!(pair.later().is_empty());
}

/// An old copy of the receiver's home, or of the sender's, keeps nothing from arriving.
#[test]
fn old_copies_of_homes_lose_nothing_new() {
    let copy = |side: &Side, to: &std::path::Path| {
        for file in std::fs::read_dir(side.home.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    };
    for restored in [0, 1] {
        let mut pair = Pair::new();
        let (left, _) = pair.send(1, b"one");
        pair.settle(left);
        let kept = tempfile::tempdir().unwrap();
        let side = if restored == 0 {
            &mut pair.a
        } else {
            &mut pair.b
        };
        side.engine = None;
        copy(side, kept.path());
        side.restart();
        let (left, _) = pair.send(2, b"two");
        pair.settle(left);
        let side = if restored == 0 {
            &mut pair.a
        } else {
            &mut pair.b
        };
        side.engine = None;
        for file in std::fs::read_dir(side.home.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        for file in std::fs::read_dir(kept.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), side.home.path().join(file.file_name())).unwrap();
        }
        side.chance += 1_000;
        side.restart();
        let (left, _) = pair.send(3, b"three");
        pair.settle(left);
        for _ in 0..4 {
            let again = pair.later();
            pair.settle(again);
        }
        let got = pair.b.bodies(false);
        assert_eq!(got.last().unwrap(), b"three", "{restored}");
        assert_eq!(pair.a.engine().pending(), 0);
    }
}

#[test]
fn history_is_bounded() {
    let mut pair = Pair::new();
    let most = crate::limits::MESSAGE_HISTORY;
    for id in 0..3 * u64::try_from(most).unwrap() {
        let (left, _) = pair.send(id, b"x");
        if id % 200 == 199 {
            let again = pair.later();
            pair.settle([left, again].concat());
            let last = pair.b.list(true).last().unwrap().message.id;
            let receipt = pair.mark_read(last);
            pair.a
                .round(pair.now, &pair.kin, frames(&pair.b.certificate, receipt));
        }
    }
    for side in [&mut pair.a, &mut pair.b] {
        let kept = side.list(false).len();
        assert!((most..=most * 3 / 2).contains(&kept), "{kept}");
    }
}
