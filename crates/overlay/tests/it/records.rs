//! What a member keeps for others, and what it does not.

use std::time::Instant;

use ringway_overlay::{
    Chord, Config, Credentials as _, Membership, Message, Record, RecordError, RingKey, Snapshot,
};

use crate::{Notary, key, sent, start};

/// Key 100 between 90 and 110.
fn secure(now: Instant) -> Chord {
    let chord = Chord::new(key(100), Config::default(), [1; 32]).expect("the settings are valid");
    let mut chord = chord.with_credentials(Box::new(Notary::new(key(100))), 7);
    let state = Snapshot {
        key: key(100),
        state: Membership::Member,
        predecessor: Some(key(90)),
        successors: vec![key(110)],
    };
    chord.restore(now, &state, Vec::new());
    chord
}

/// A record of member `n`; the toy clock of these tests stands at second 1 000.
fn record(n: u8, value: &str, number: u64, expires: u64) -> Record {
    let (name, value) = (b"name".to_vec(), value.as_bytes().to_vec());
    let statement = Record::statement(&name, &value, number, expires);
    Record {
        certificate: key(n).as_bytes().to_vec(),
        signature: Notary::new(key(n)).sign(&statement),
        name,
        value,
        number,
        expires,
    }
}

/// The number that `chord` says it has after being told to keep `record`.
fn stored(chord: &mut Chord, now: Instant, record: &Record) -> u64 {
    let record = record.clone();
    chord.handle_message(now, key(90), Message::Store { id: 1, record });
    let answer = sent(chord).into_iter().find_map(|t| match t.message {
        Message::Stored { number, .. } => Some(number),
        _ => None,
    });
    answer.expect("it answers")
}

fn fetched(chord: &mut Chord, now: Instant, point: RingKey) -> Option<Record> {
    chord.handle_message(now, key(90), Message::Fetch { id: 2, point });
    let answer = sent(chord).into_iter().find_map(|t| match t.message {
        Message::Fetched { record, .. } => Some(record),
        _ => None,
    });
    answer.expect("it answers")
}

#[test]
fn a_genuine_record_is_kept_and_given_out() {
    let now = start();
    let mut chord = secure(now);
    let good = record(5, "value", 3, 2_000);
    assert_eq!(stored(&mut chord, now, &good), 3);
    assert_eq!(stored(&mut chord, now, &record(5, "old", 2, 2_000)), 3);
    let point = Record::point(key(5).as_bytes(), b"name");
    assert_eq!(fetched(&mut chord, now, point), Some(good));
    let elsewhere = Record::point(key(6).as_bytes(), b"name");
    assert_eq!(fetched(&mut chord, now, elsewhere), None);
}

#[test]
fn unsigned_or_endless_records_are_not_kept() {
    let now = start();
    let mut chord = secure(now);
    let good = record(5, "value", 3, 2_000);
    let forged = [
        Record {
            value: b"other".to_vec(),
            ..good.clone()
        },
        Record {
            name: b"other".to_vec(),
            ..good.clone()
        },
        Record {
            number: 4,
            ..good.clone()
        },
        Record {
            expires: 2_001,
            ..good.clone()
        },
        Record {
            certificate: key(6).as_bytes().to_vec(),
            ..good.clone()
        },
        Record {
            certificate: b"nobody".to_vec(),
            ..good
        },
        // Past its time, and for ever.
        record(5, "value", 3, 999),
        record(5, "value", 3, u64::MAX),
    ];
    for record in forged {
        assert_eq!(stored(&mut chord, now, &record), 0, "{record:?}");
        assert_eq!(chord.put(now, record), Err(RecordError::Invalid));
    }
    assert_eq!(chord.records_kept(), 0);
}

#[test]
fn outside_the_ring_nothing_is_put_or_kept() {
    let now = start();
    let chord = Chord::new(key(100), Config::default(), [1; 32]).expect("the settings are valid");
    let mut chord = chord.with_credentials(Box::new(Notary::new(key(100))), 7);
    let good = record(5, "value", 3, 2_000);
    assert_eq!(chord.put(now, good.clone()), Err(RecordError::NotMember));
    assert_eq!(chord.get(now, key(1)), Err(RecordError::NotMember));
    assert_eq!(stored(&mut chord, now, &good), 0);
}

#[test]
fn only_what_is_missed_is_wanted() {
    let now = start();
    let mut chord = secure(now);
    stored(&mut chord, now, &record(5, "value", 3, 2_000));
    let has = Record::point(key(5).as_bytes(), b"name");
    let misses = Record::point(key(6).as_bytes(), b"name");
    for (number, wanted) in [(3, vec![misses]), (4, vec![has, misses])] {
        let records = vec![(has, number), (misses, 1)];
        chord.handle_message(now, key(90), Message::Offer { id: 3, records });
        let answer = sent(&mut chord).into_iter().find_map(|t| match t.message {
            Message::Wanted { points, .. } => Some(points),
            _ => None,
        });
        assert_eq!(answer, Some(wanted));
    }
}
