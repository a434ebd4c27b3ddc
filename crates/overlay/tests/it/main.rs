//! Behaviour of one member, through the public interface only. Rings of many are simulated in
//! `ringway-sim`.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]

mod bounds;
mod direct;
mod groups;
mod hostile;
mod keys;
mod lookups;
mod maintenance;
mod messages;
mod records;
mod releases;
mod routes;
mod tallies;
mod ways;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringway_overlay::{
    Chord, Config, Credentials, Event, MEMBER_LEN, Membership, Message, RingKey, SIGNATURE_LEN,
    Snapshot, Standing, Transmit,
};

#[expect(
    clippy::disallowed_methods,
    reason = "any moment will do as the start of a test"
)]
fn start() -> Instant {
    Instant::now()
}

/// The key n / 256 of the way round the ring.
fn key(n: u8) -> RingKey {
    let mut bytes = [0; 32];
    bytes[0] = n;
    RingKey::from_bytes(bytes)
}

/// The nine members around a point: four before it, five at it or after, where there is one at each
/// key.
fn around(point: &RingKey) -> Vec<RingKey> {
    let at = point.as_bytes()[0];
    (0..9)
        .map(|n| key(at.wrapping_add(n).wrapping_sub(4)))
        .collect()
}

/// Key 100 at rest in a ring that has a member at each key, with fingers whose groups are these
/// around their points, which it does not look up again.
fn in_a_full_ring(
    now: Instant,
    seed: u8,
    witness_share: f64,
    group: impl Fn(&RingKey) -> Vec<RingKey>,
) -> (Chord, Vec<Vec<RingKey>>) {
    const ME: u8 = 100;
    const MEMBERS: f64 = 256.0;
    let config = Config {
        finger_interval: Duration::from_secs(36_000),
        witness_share,
        ..Config::default()
    };
    let chord = Chord::new(key(ME), config, [seed; 32]).unwrap();
    let mut chord = chord.with_credentials(Box::new(Notary::new(key(ME))), 7);
    let state = Snapshot {
        key: key(ME),
        state: Membership::Member,
        predecessor: Some(key(ME - 1)),
        successors: (1..=3).map(|n| key(ME + n)).collect(),
    };
    let points = chord.finger_points(1.0 / MEMBERS).into_iter();
    let fingers: Vec<_> = points
        .map(|(offset, point)| (offset, group(&point)))
        .collect();
    let groups = fingers.iter().map(|(_, group)| group.clone()).collect();
    chord.restore(now, &state, fingers);
    (chord, groups)
}

/// Credentials that know the keys they were told of, and whose signatures anybody can forge who
/// wants to.
#[derive(Debug)]
struct Notary {
    me: RingKey,
    certified: Vec<RingKey>,
    refused: Vec<RingKey>,
    /// Whose certificates have gone since they were asked for last.
    gone: Arc<Mutex<Gone>>,
    stated: u8,
}

#[derive(Debug, Default)]
struct Gone {
    /// From the cache: nothing is known of them.
    evicted: Vec<RingKey>,
    /// Between two looks: they seem to be there.
    ended: Vec<RingKey>,
    /// Seconds that the date is ahead of the toy clock, which stands.
    ahead: u64,
}

impl Notary {
    fn new(me: RingKey) -> Notary {
        Notary {
            me,
            certified: (0..=255).map(key).collect(),
            refused: Vec::new(),
            gone: Arc::default(),
            stated: 0,
        }
    }

    fn is_evicted(&self, member: &RingKey) -> bool {
        let gone = self.gone.lock().unwrap();
        gone.evicted.contains(member) || gone.ended.contains(member)
    }
}

fn toy_signature(author: &RingKey, statement: &[u8]) -> [u8; SIGNATURE_LEN] {
    let mut signature = [author.as_bytes()[0]; SIGNATURE_LEN];
    for (n, byte) in statement.iter().enumerate() {
        signature[n % SIGNATURE_LEN] = signature[n % SIGNATURE_LEN].wrapping_mul(31) ^ byte;
    }
    signature
}

impl Credentials for Notary {
    fn standing(&self, member: &RingKey) -> Standing {
        if self.refused.contains(member) {
            Standing::Refused
        } else if self.gone.lock().unwrap().evicted.contains(member) {
            Standing::Unknown
        } else if self.certified.contains(member) {
            Standing::Certified
        } else {
            Standing::Unknown
        }
    }

    fn admit(&mut self, member: &RingKey, certificate: &[u8]) -> Standing {
        if certificate == member.as_bytes() {
            self.certified.push(*member);
        }
        self.standing(member)
    }

    fn certificate(&self, member: &RingKey) -> Option<Vec<u8>> {
        let known = self.certified.contains(member);
        known.then(|| member.as_bytes().to_vec())
    }

    fn sign(&self, statement: &[u8]) -> [u8; SIGNATURE_LEN] {
        toy_signature(&self.me, statement)
    }

    fn verify(
        &self,
        member: &RingKey,
        statement: &[u8],
        signature: &[u8; SIGNATURE_LEN],
    ) -> Option<bool> {
        let known = self.standing(member) == Standing::Certified && !self.is_evicted(member);
        known.then(|| toy_signature(member, statement) == *signature)
    }

    /// The member that sealed something is named in it, and for whom; anybody can forge it who
    /// wants to.
    fn seal(&mut self, to: &RingKey, content: &[u8]) -> Option<Vec<u8>> {
        let known = self.certified.contains(to);
        known.then(|| toy_seal(&self.me, to, content))
    }

    fn open(&mut self, from: &RingKey, sealed: &[u8]) -> Option<Vec<u8>> {
        let content = sealed.get(2..)?;
        (toy_seal(from, &self.me, content) == sealed).then(|| content.to_vec())
    }

    /// A certificate here is the key of its member.
    fn author(
        &self,
        certificate: &[u8],
        statement: &[u8],
        signature: &[u8; SIGNATURE_LEN],
    ) -> Option<[u8; MEMBER_LEN]> {
        let id = <[u8; MEMBER_LEN]>::try_from(certificate).ok()?;
        let author = RingKey::from_bytes(id);
        let signed = self.verify(&author, statement, signature)?;
        signed.then_some(id)
    }

    fn is_member(&self, member: &[u8; MEMBER_LEN]) -> bool {
        self.certified.contains(&RingKey::from_bytes(*member))
    }

    /// A statement here is its number.
    fn take_statement(&mut self, statement: &[u8]) -> bool {
        let number = statement.first().copied().unwrap_or(0);
        let newer = number > self.stated;
        self.stated = self.stated.max(number);
        newer
    }

    fn unix_time(&self, _now: Instant) -> u64 {
        1_000 + self.gone.lock().unwrap().ahead
    }
}

fn toy_seal(from: &RingKey, to: &RingKey, content: &[u8]) -> Vec<u8> {
    [&[from.as_bytes()[0], to.as_bytes()[0]], content].concat()
}

fn chord(n: u8) -> Chord {
    Chord::new(key(n), Config::default(), [n; 32]).expect("the default is valid")
}

fn sent(chord: &mut Chord) -> Vec<Transmit> {
    std::iter::from_fn(|| chord.poll_transmit()).collect()
}

fn events(chord: &mut Chord) -> Vec<Event> {
    std::iter::from_fn(|| chord.poll_event()).collect()
}

/// Key 100, a member whose list is `successors` and whose predecessor is key 50, with nothing open.
fn member(now: Instant, successors: &[u8]) -> Chord {
    let mut chord = chord(100);
    chord.join(now, &[key(50)]);
    chord.handle_timeout(now);
    let list: Vec<RingKey> = successors.iter().map(|n| key(*n)).collect();
    answer(&mut chord, now, 50, |id| Message::Owner {
        id,
        owners: list.clone(),
    });
    answer(&mut chord, now, 50, |id| Message::State {
        id,
        predecessor: None,
        successors: list.clone(),
    });
    assert_eq!(chord.successors(), list);
    events(&mut chord);
    chord
}

/// Answers the one request to member `n` that is among what was sent.
fn answer(chord: &mut Chord, now: Instant, n: u8, answer: impl FnOnce(u64) -> Message) {
    let requests = sent(chord)
        .into_iter()
        .filter(|transmit| transmit.to == key(n));
    let ids: Vec<u64> = requests
        .filter_map(|transmit| request_id(&transmit.message))
        .collect();
    assert_eq!(ids.len(), 1, "one request to member {n}");
    chord.handle_message(now, key(n), answer(ids[0]));
}

fn request_id(message: &Message) -> Option<u64> {
    match message {
        Message::Ping { id }
        | Message::GetState { id }
        | Message::FindOwner { id, .. }
        | Message::GetNear { id, .. }
        | Message::GetView { id, .. }
        | Message::GetCertificates { id, .. }
        | Message::Route { id, .. }
        | Message::Own { id, .. } => Some(*id),
        _ => None,
    }
}

/// Lets the chord's own timers run for `time`, without any answers, and gives what it sent.
fn let_pass(chord: &mut Chord, now: &mut Instant, time: Duration) -> Vec<Transmit> {
    let end = *now + time;
    let mut all = sent(chord);
    while let Some(due) = chord.poll_timeout().filter(|due| *due <= end) {
        *now = due.max(*now);
        chord.handle_timeout(*now);
        all.extend(sent(chord));
    }
    *now = end;
    all
}
