//! What a message is bound to, and how long a session is used.

use super::*;

fn names() -> Names {
    Names {
        own: MemberId::new([1; 32]),
        peer: MemberId::new([2; 32]),
        local: 10,
        remote: 20,
        epoch: 3,
        initiator: true,
    }
}

/// The same session, as the other side has it.
fn mirrored(names: Names) -> Names {
    Names {
        own: names.peer,
        peer: names.own,
        local: names.remote,
        remote: names.local,
        initiator: !names.initiator,
        ..names
    }
}

/// Both directions have the same key: what distinguishes them is what messages are bound to.
fn session(now: Instant, names: Names) -> Session {
    Session::new(now, Keys::of([7; 32], [7; 32]), names)
}

/// Seals at `from`; gives what `to` makes of it, addressed as `to` wants it.
fn passes(from: Names, to: Names, change: impl Fn(&mut u32, &mut u32)) -> bool {
    let (now, bounds) = (Instant::now(), KeyBounds::default());
    let (mut from, mut to) = (session(now, from), session(now, to));
    let sealed = from.seal(now, &bounds, b"said").map(|(_, packet)| packet);
    let Some(Packet::Data {
        mut epoch,
        mut counter,
        ciphertext,
        ..
    }) = sealed.as_deref().and_then(Packet::parse)
    else {
        panic!("a data packet")
    };
    change(&mut epoch, &mut counter);
    to.open(now, &bounds, (epoch, counter), ciphertext) == Some(b"said".to_vec())
}

#[test]
fn a_message_is_bound_to_its_context() {
    let (own, peer) = (names(), mirrored(names()));
    let as_it_was = |_: &mut u32, _: &mut u32| {};
    assert!(passes(own, peer, as_it_was));
    assert!(!passes(own, own, as_it_was), "sent back to whoever sent it");
    let other = MemberId::new([9; 32]);
    for (what, wrong) in [
        (
            "sender",
            Names {
                peer: other,
                ..peer
            },
        ),
        ("receiver", Names { own: other, ..peer }),
        ("session", Names { local: 21, ..peer }),
    ] {
        assert!(!passes(own, wrong, as_it_was), "{what}");
    }
    let next = Names { epoch: 4, ..peer };
    assert!(!passes(own, next, as_it_was), "not of this epoch");
    assert!(!passes(own, next, |epoch, _| *epoch = 4), "renamed");
    assert!(!passes(own, peer, |epoch, _| *epoch = 4), "renamed");
    assert!(!passes(own, peer, |_, counter| *counter = 1), "counter");
    // Only who began the handshake differs: that changes what is done, not what is bound.
    assert!(passes(
        Names {
            initiator: false,
            ..own
        },
        peer,
        as_it_was
    ));
}

#[test]
fn a_message_is_taken_once() {
    let (now, bounds) = (Instant::now(), KeyBounds::default());
    let (mut own, mut peer) = (session(now, names()), session(now, mirrored(names())));
    for number in 0..3_u64 {
        let (counter, packet) = own.seal(now, &bounds, b"said").unwrap();
        assert_eq!(counter, number);
        let ciphertext = &packet[DATA_HEADER..];
        let position = (3, u32::try_from(number).unwrap());
        assert!(peer.open(now, &bounds, position, ciphertext).is_some());
        assert!(peer.open(now, &bounds, position, ciphertext).is_none());
    }
}

#[test]
fn exhausted_sessions_neither_send_nor_receive() {
    let (now, bounds) = (Instant::now(), KeyBounds::default());
    let (mut own, mut peer) = (session(now, names()), session(now, mirrored(names())));
    let (_, packet) = own.seal(now, &bounds, b"said").unwrap();
    let late = now + SESSION_TIME;
    assert!(own.seal(late, &bounds, b"said").is_none());
    assert!(
        peer.open(late, &bounds, (3, 0), &packet[DATA_HEADER..])
            .is_none()
    );
    own.sent = SESSION_MESSAGES - 1;
    let (counter, last) = own.seal(now, &bounds, b"said").unwrap();
    assert!(
        peer.open(
            now,
            &bounds,
            (3, SESSION_MESSAGES - 1),
            &last[DATA_HEADER..]
        )
        .is_some()
    );
    assert_eq!(counter, u64::from(SESSION_MESSAGES) - 1);
    assert!(own.seal(now, &bounds, b"said").is_none());
    own.sent = 0;
    own.sent_bytes = SESSION_BYTES;
    assert!(own.seal(now, &bounds, b"said").is_none());
    // A peer that goes on is not followed.
    let lax = KeyBounds {
        messages: u32::MAX,
        ..KeyBounds::default()
    };
    own.sent_bytes = 0;
    own.sent = SESSION_MESSAGES;
    let (_, beyond) = own.seal(now, &lax, b"said").unwrap();
    let position = (3, SESSION_MESSAGES);
    assert!(
        peer.open(now, &bounds, position, &beyond[DATA_HEADER..])
            .is_none()
    );
}

#[test]
fn the_bounds_leave_room_for_new_keys() {
    let bounds = KeyBounds::default();
    assert!(bounds.rekey_messages / 4 * 5 < bounds.messages);
    assert!(bounds.rekey_bytes / 4 * 5 < bounds.bytes);
    // The side that did not begin asks later; several handshakes by mail fit into the rest.
    assert!(bounds.mail_rekey_after / 4 * 5 + MAIL_HANDSHAKE * 4 < bounds.time);
    let idle = crate::limits::MAIL_LINK_IDLE + bounds.mail_rekey_after + MAIL_HANDSHAKE * 4;
    assert!(idle <= bounds.time, "a link that has rested still has keys");
}
