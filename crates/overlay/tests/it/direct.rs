//! Messages that come straight from their sender: from key 100 to key 200, which it has met.

use std::sync::{Arc, Mutex};

use ringway_overlay::limits::{DIRECT_TIME, ROUTE_LIFETIME};
use ringway_overlay::{Message, RingKey};

use crate::routes::{LATER, Ring, SOON, all_arrive, to_member};
use crate::{Gone, Notary, key};

/// What two messages that went before leave behind.
const BEFORE: [&[u8]; 2] = [b"first", b"second"];
const ALL: [&[u8]; 3] = [b"first", b"second", b"third"];

/// A ring in which 200 has answered 100 through 110, and then by itself.
fn acquainted() -> Ring {
    let mut ring = Ring::new(Notary::new);
    ring.route(to_member(), b"first");
    ring.run(SOON, &mut all_arrive);
    let said = exchange(&mut ring, b"second");
    let kinds = &said.iter().map(|(_, message)| message).collect::<Vec<_>>()[..];
    // Nothing is known of its time yet.
    let [
        Message::Own { clock: 0, .. },
        Message::Reached { .. },
        Message::Confirm { .. },
    ] = kinds
    else {
        panic!("{said:?}")
    };
    assert_eq!(ring.delivered(), BEFORE);
    ring
}

/// Sends a message, and gives what was said for it, by whom.
fn exchange(ring: &mut Ring, body: &[u8]) -> Vec<(RingKey, Message)> {
    ring.route(to_member(), body);
    let mut said = Vec::new();
    ring.run(SOON, &mut |from, _, message| {
        said.push((from, message.clone()));
        vec![message]
    });
    said
}

#[test]
fn a_direct_message_crosses_twice() {
    let mut ring = acquainted();
    let said = exchange(&mut ring, b"third");
    let [
        (asks, Message::Own { .. }),
        (says, Message::Delivered { .. }),
    ] = &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!((*asks, *says), (key(100), key(200)));
    assert_eq!(ring.delivered(), ALL);
    assert_eq!(ring.ended(), 3);
}

#[test]
fn a_lost_confirmation_leads_to_one_delivery() {
    for lost in 1..=2 {
        let mut ring = acquainted();
        ring.route(to_member(), b"third");
        let mut left = lost;
        ring.run(LATER, &mut |_, _, message| match message {
            Message::Delivered { .. } | Message::Reached { .. } if left > 0 => {
                left -= 1;
                Vec::new()
            }
            other => vec![other],
        });
        assert_eq!(left, 0);
        assert_eq!(ring.delivered(), ALL);
        assert_eq!(ring.ended(), 3);
    }
}

#[test]
fn a_copy_is_delivered_once() {
    for by in [100, 110] {
        let mut ring = acquainted();
        let said = exchange(&mut ring, b"third");
        let now = ring.now;
        let copy = said[0].1.clone();
        ring.member(200).handle_message(now, key(by), copy);
        ring.run(LATER, &mut all_arrive);
        assert_eq!(ring.delivered(), ALL, "{by}");
    }
}

/// A malicious router may have anybody carry what looks like that one's own message.
#[test]
fn a_carried_message_is_not_its_carriers_own() {
    let mut ring = acquainted();
    let said = exchange(&mut ring, b"third");
    let Message::Own {
        target, payload, ..
    } = said[0].1.clone()
    else {
        panic!("{said:?}")
    };
    // The number, of eight bytes, is another one.
    let mut payload = payload;
    payload[36] ^= 1;
    let now = ring.now;
    for (from, to, id) in [(110, 100, 7), (100, 200, 8)] {
        let (payload, hops_left) = (payload.clone(), 9);
        let message = Message::Route {
            id,
            target,
            hops_left,
            payload,
        };
        ring.member(to).handle_message(now, key(from), message);
    }
    let mut own = 0;
    ring.run(LATER, &mut |_, _, message| {
        own += usize::from(matches!(message, Message::Own { .. }));
        vec![message]
    });
    assert_eq!(own, 0);
    assert_eq!(ring.delivered(), ALL);
}

/// Sends a third message that the network keeps: as it is, and as others carry it.
fn held_back(ring: &mut Ring) -> (Message, Message) {
    ring.route(to_member(), b"third");
    let mut held = None;
    ring.run(SOON, &mut |_, _, message| {
        held.get_or_insert(message);
        Vec::new()
    });
    let own = held.unwrap();
    let Message::Own {
        target,
        hops_left,
        payload,
        ..
    } = own.clone()
    else {
        panic!("{own:?}")
    };
    let carried = Message::Route {
        id: 7,
        target,
        hops_left,
        payload,
    };
    (own, carried)
}

/// Others have carried it, and their answer is late.
#[test]
fn a_direct_copy_replaces_a_routed_one() {
    let mut ring = acquainted();
    ring.route(to_member(), b"third");
    let (mut own, mut answer) = (None, None);
    ring.run(SOON * 13, &mut |from, to, message| match message {
        Message::Own { .. } if to == key(200) => {
            own.get_or_insert(message);
            Vec::new()
        }
        Message::Reached { .. } if to == key(100) => {
            answer.get_or_insert((from, message));
            Vec::new()
        }
        other => vec![other],
    });
    assert_eq!(ring.delivered(), BEFORE);
    let now = ring.now;
    ring.member(200).handle_message(now, key(100), own.unwrap());
    let (carrier, answer) = answer.unwrap();
    assert_eq!(carrier, key(110));
    ring.member(100).handle_message(now, carrier, answer);
    ring.run(LATER, &mut |_, _, message| match message {
        Message::Delivered { .. } => Vec::new(),
        other => vec![other],
    });
    assert_eq!(ring.delivered(), ALL);
}

#[test]
fn a_confirmed_message_is_not_delivered_directly_again() {
    let mut ring = acquainted();
    let (own, carried) = held_back(&mut ring);
    let now = ring.now;
    ring.member(200).handle_message(now, key(110), carried);
    // The receiver asks straight, at last.
    ring.run(SOON * 30, &mut |_, _, message| match message {
        Message::Own { .. } => Vec::new(),
        other => vec![other],
    });
    assert_eq!(ring.delivered(), ALL);
    let now = ring.now;
    ring.member(200).handle_message(now, key(100), own);
    ring.run(LATER, &mut all_arrive);
    assert_eq!(ring.delivered(), ALL);
}

#[test]
fn what_was_held_back_is_confirmed_first() {
    for (held, crossings) in [(DIRECT_TIME - SOON * 4, 2), (DIRECT_TIME + SOON * 21, 3)] {
        let mut ring = acquainted();
        ring.run(held, &mut all_arrive);
        assert_eq!(exchange(&mut ring, b"third").len(), crossings, "{held:?}");
        assert_eq!(ring.delivered(), ALL);
    }
}

/// Its receiver may have forgotten meanwhile that it has the message.
#[test]
fn after_sleep_nothing_old_is_confirmed() {
    for (slept, arrives) in [
        (ROUTE_LIFETIME.as_secs(), true),
        (ROUTE_LIFETIME.as_secs() + 1, false),
    ] {
        let asleep = Arc::new(Mutex::new(Gone::default()));
        let mut ring = Ring::new(|me| {
            let mut notary = Notary::new(me);
            if me == key(100) {
                notary.gone = Arc::clone(&asleep);
            }
            notary
        });
        ring.route(to_member(), b"first");
        ring.run(SOON, &mut |_, to, message| match message {
            Message::Reached { .. } if to == key(100) => Vec::new(),
            other => vec![other],
        });
        asleep.lock().unwrap().ahead = slept;
        ring.run(LATER, &mut all_arrive);
        assert_eq!(ring.delivered().len(), usize::from(arrives), "{slept}");
        assert_eq!(ring.done().is_some(), arrives);
        assert_eq!(ring.ended(), 1);
    }
}

#[test]
fn only_the_receiver_confirms_a_delivery() {
    let mut ring = Ring::new(Notary::new);
    ring.route(to_member(), b"first");
    let mut handed = None;
    ring.run(SOON, &mut |_, to, message| match message {
        Message::Own { id, .. } if to == key(110) => {
            handed = Some(id);
            Vec::new()
        }
        other => vec![other],
    });
    let (now, id, clock) = (ring.now, handed.unwrap(), 1);
    // Neither he who was handed it, nor the receiver by a number that another was given.
    for by in [110, 200] {
        let said = Message::Delivered { id, clock };
        ring.member(100).handle_message(now, key(by), said);
    }
    assert_eq!(ring.member(100).counters().unsolicited, 2);
    assert_eq!(ring.done(), None);
    ring.run(LATER, &mut all_arrive);
    assert_eq!(ring.delivered(), [b"first"]);
    let by = ring.done().map(|(by, verified, _)| (by, verified));
    assert_eq!(by, Some((key(200), true)));
}
