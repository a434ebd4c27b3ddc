#![no_main]
//! Messages through the ring, at a member that is their target or on their way: nothing that comes
//! makes it panic or grow.

use std::time::{Duration, Instant};

use ringway_overlay::{
    Chord, Config, Credentials, Destination, MEMBER_LEN, Membership, Message, RingKey,
    SIGNATURE_LEN, Snapshot, Standing,
};

/// Believes everything, so that the bytes below the seals are reached.
#[derive(Debug)]
struct Gullible;

impl Credentials for Gullible {
    fn standing(&self, _: &RingKey) -> Standing {
        Standing::Certified
    }

    fn admit(&mut self, _: &RingKey, _: &[u8]) -> Standing {
        Standing::Certified
    }

    fn certificate(&self, _: &RingKey) -> Option<Vec<u8>> {
        None
    }

    fn sign(&self, _: &[u8]) -> [u8; SIGNATURE_LEN] {
        [0; SIGNATURE_LEN]
    }

    fn verify(&self, _: &RingKey, _: &[u8], _: &[u8; SIGNATURE_LEN]) -> Option<bool> {
        Some(true)
    }

    fn seal(&mut self, _: &RingKey, content: &[u8]) -> Option<Vec<u8>> {
        Some(content.to_vec())
    }

    fn open(&mut self, _: &RingKey, sealed: &[u8]) -> Option<Vec<u8>> {
        Some(sealed.to_vec())
    }

    fn author(&self, _: &[u8], _: &[u8], _: &[u8; SIGNATURE_LEN]) -> Option<[u8; MEMBER_LEN]> {
        None
    }

    fn is_member(&self, _: &[u8; MEMBER_LEN]) -> bool {
        true
    }

    fn take_statement(&mut self, _: &[u8]) -> bool {
        false
    }

    fn unix_time(&self, _: Instant) -> u64 {
        1_000
    }
}

fn key(n: u8) -> RingKey {
    RingKey::from_bytes([n; 32])
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else {
        return;
    };
    let mut now = Instant::now();
    let chord = Chord::new(key(100), Config::default(), [1; 32]).unwrap();
    let mut chord = chord.with_credentials(Box::new(Gullible), 1);
    let state = Snapshot {
        key: key(100),
        state: Membership::Member,
        predecessor: Some(key(90)),
        successors: vec![key(110), key(200)],
    };
    chord.restore(now, &state, Vec::new());
    let own = chord.route(now, Destination::Member(key(200)), b"body");
    assert!(own.is_ok());
    let (mut sent, mut told): (Vec<(RingKey, u64)>, u64) = (Vec::new(), 0);
    for part in rest.chunks(usize::from(*choice).max(8)) {
        while let Some(transmit) = chord.poll_transmit() {
            if let Message::Reached { clock, .. } | Message::Delivered { clock, .. } =
                transmit.message
            {
                told = clock;
            }
            if let Message::Route { id, .. }
            | Message::Own { id, .. }
            | Message::Reached { label: id, .. } = transmit.message
            {
                sent.push((transmit.to, id));
            }
        }
        while chord.poll_event().is_some() {}
        let Some((kind, payload)) = part.split_first() else {
            continue;
        };
        let payload = payload.to_vec();
        let (from, id) = sent.last().copied().unwrap_or((key(110), 1));
        let (target, hops_left) = (key(if kind & 64 == 0 { 100 } else { 150 }), kind >> 4);
        let message = match kind % 6 {
            0 => Message::Route {
                id,
                target,
                hops_left,
                payload,
            },
            1 => Message::TakenOn { ids: vec![id] },
            2 => Message::Reached {
                id,
                label: id,
                clock: id,
                payload,
            },
            3 => Message::Own {
                id,
                target,
                hops_left,
                clock: told,
                payload,
            },
            4 => Message::Delivered { id, clock: id },
            _ => Message::Confirm { id, payload },
        };
        chord.handle_message(now, from, message);
        now += Duration::from_millis(u64::from(*kind) * 4);
        chord.handle_timeout(now);
    }
});
