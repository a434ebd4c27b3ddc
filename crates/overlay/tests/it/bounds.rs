//! What happens at the bounds, and to answers without a request.

use ringway_overlay::limits::{MAX_LOOKUPS, MAX_REQUESTS_PER_PEER};
use ringway_overlay::{LookupError, Message};

use crate::{chord, key, member, sent, start};

#[test]
fn lookups_need_a_ring_and_a_free_slot() {
    let now = start();
    assert_eq!(chord(1).lookup(now, key(9)), Err(LookupError::NotMember));
    let mut chord = member(now, &[150, 200, 250]);
    for bit in 0..u16::try_from(MAX_LOOKUPS).unwrap() {
        // All beyond this member and its successor, so that each has to be asked for.
        let target = key(210).plus_power(bit);
        assert!(chord.lookup(now, target).is_ok(), "{bit}");
    }
    assert_eq!(
        chord.lookup(now, key(9)),
        Err(LookupError::TooMany(MAX_LOOKUPS))
    );
}

/// For the rest of the second; other members still get theirs.
#[test]
fn requests_past_the_rate_get_no_answer() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    sent(&mut chord);
    for id in 0..u64::from(MAX_REQUESTS_PER_PEER) + 10 {
        chord.handle_message(now, key(7), Message::Ping { id });
    }
    assert_eq!(
        sent(&mut chord).len(),
        usize::try_from(MAX_REQUESTS_PER_PEER).unwrap()
    );
    assert_eq!(chord.counters().rate_limited, 10);
    chord.handle_message(now, key(8), Message::Ping { id: 0 });
    let later = now + std::time::Duration::from_secs(1);
    chord.handle_message(later, key(7), Message::Ping { id: 0 });
    assert_eq!(sent(&mut chord).len(), 2);
}

#[test]
fn unsolicited_and_malformed_answers_are_counted_and_ignored() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    let before = chord.snapshot();
    chord.handle_timeout(now);
    let asked = sent(&mut chord)
        .into_iter()
        .find(|t| t.to == key(150))
        .expect("the head is asked");
    let Message::GetState { id } = asked.message else {
        panic!("{asked:?}")
    };
    let state = |id| Message::State {
        id,
        predecessor: None,
        successors: vec![key(110)],
    };
    chord.handle_message(now, key(150), state(id.wrapping_add(1)));
    chord.handle_message(now, key(151), state(id));
    assert_eq!(chord.counters().unsolicited, 2);
    chord.handle_message(now, key(150), Message::Pong { id, member: false });
    chord.handle_message(now, key(100), Message::Notify);
    assert_eq!(chord.counters().malformed, 2);
    assert_eq!(chord.snapshot(), before);
    chord.handle_message(now, key(150), state(id));
    assert_ne!(chord.snapshot(), before, "the right answer still counts");
}

#[test]
fn a_claim_to_a_distant_point_is_refused() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    sent(&mut chord);
    chord.lookup(now, key(30)).expect("there is room");
    let asked = sent(&mut chord);
    let Message::FindOwner { id, .. } = asked[0].message else {
        panic!("{asked:?}")
    };
    // The target 30 does not lie between the answering 250 and 10.
    assert_eq!(asked[0].to, key(250));
    chord.handle_message(
        now,
        key(250),
        Message::Owner {
            id,
            owners: vec![key(10)],
        },
    );
    assert_eq!(chord.counters().malformed, 1);
    assert_eq!(
        sent(&mut chord)[0].to,
        key(200),
        "the next best is asked instead"
    );
}

#[test]
fn candidates_that_are_not_closer_are_not_asked() {
    let now = start();
    let mut chord = member(now, &[150, 200, 250]);
    sent(&mut chord);
    chord.lookup(now, key(30)).expect("there is room");
    let Message::FindOwner { id, .. } = sent(&mut chord)[0].message else {
        panic!("no lookup")
    };
    let candidates = vec![key(240), key(250), key(30), key(60)];
    chord.handle_message(now, key(250), Message::Closer { id, candidates });
    assert_eq!(chord.counters().malformed, 1);
    assert_eq!(sent(&mut chord)[0].to, key(200));
}
