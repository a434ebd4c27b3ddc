//! Whose counts a router keeps, and what it gives out.

use std::time::Instant;

use ringway_overlay::{
    Chord, Config, Count, Credentials as _, Membership, Message, RingKey, Snapshot, TallyError,
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

fn point() -> RingKey {
    Count::point(b"mail/192.0.2.0/24")
}

/// What `author` has counted; the toy clock of these tests stands at second 1 000.
fn count(author: u8, count: u64, expires: u64) -> Count {
    let author = key(author);
    let statement = Count::statement(&author, &point(), count, expires);
    Count {
        author,
        count,
        expires,
        signature: Notary::new(author).sign(&statement),
    }
}

/// What `chord` says it has of the author after `from` has left this with it.
fn left(chord: &mut Chord, now: Instant, from: u8, count: Count) -> u64 {
    let message = Message::Count {
        id: 1,
        point: point(),
        count,
    };
    chord.handle_message(now, key(from), message);
    let answer = sent(chord).into_iter().find_map(|t| match t.message {
        Message::Stored { number, .. } => Some(number),
        _ => None,
    });
    answer.expect("it answers")
}

fn tally(chord: &mut Chord, now: Instant, after: Option<RingKey>) -> Vec<Count> {
    let message = Message::GetTally {
        id: 2,
        point: point(),
        after,
    };
    chord.handle_message(now, key(90), message);
    let answer = sent(chord).into_iter().find_map(|t| match t.message {
        Message::Tally { counts, .. } => Some(counts),
        _ => None,
    });
    answer.expect("it answers")
}

#[test]
fn the_largest_count_of_its_author_is_kept() {
    let now = start();
    let mut chord = secure(now);
    assert_eq!(left(&mut chord, now, 90, count(90, 7, 2_000)), 7);
    assert_eq!(left(&mut chord, now, 90, count(90, 5, 2_000)), 7);
    assert_eq!(left(&mut chord, now, 110, count(110, 9, 2_000)), 9);
    let both = [count(90, 7, 2_000), count(110, 9, 2_000)];
    assert_eq!(tally(&mut chord, now, None), both);
    assert_eq!(tally(&mut chord, now, Some(key(90))), both[1..]);
    assert_eq!(chord.counts_kept(), 2);
}

/// Not another's, nor what the author has not signed, nor what has ended or would stay for too
/// long.
#[test]
fn counts_that_are_not_their_senders_are_refused() {
    let now = start();
    let mut chord = secure(now);
    assert_eq!(left(&mut chord, now, 110, count(90, 7, 2_000)), 0);
    let forged = Count {
        count: 1_000_000,
        ..count(90, 7, 2_000)
    };
    assert_eq!(left(&mut chord, now, 90, forged), 0);
    assert_eq!(left(&mut chord, now, 90, count(90, 7, 999)), 0);
    let long = 1_001 + 26 * 3_600;
    assert_eq!(left(&mut chord, now, 90, count(90, 7, long)), 0);
    assert!(tally(&mut chord, now, None).is_empty());
    let refused = chord.count(now, point(), 1, long);
    assert_eq!(refused, Err(TallyError::Invalid));
}

/// A member of another release is answered in its place: it keeps nothing.
#[test]
fn questions_about_tallies_have_an_answer_without_them() {
    let ask = Message::GetTally {
        id: 4,
        point: point(),
        after: None,
    };
    let answer = ask.answer_without_tallies().expect("a question");
    assert_eq!(answer.answers(), Some(4));
    assert_eq!(answer.answer_without_tallies(), None);
    assert!(ask.is_of_tallies() && !Message::Ping { id: 1 }.is_of_tallies());
}
