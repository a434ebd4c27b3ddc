//! Any messages, in any order, at any time: nothing panics, grows without bound, or spins.

use std::time::Duration;

use proptest::prelude::*;
use ringway_overlay::{
    Accusation, Chord, Count, Credentials as _, Destination, Membership, Message, Record, RingKey,
    SignedHeader, View, between,
};

use crate::{Notary, chord, key, member, sent, start};

#[derive(Clone, Debug)]
enum Act {
    Receive(u8, Message),
    /// Answers the latest request to anyone, from the member that was asked.
    Answer(Message),
    Unreachable(u8),
    Lookup(u8),
    Get(u8),
    Put(Record),
    Count(u8, u64),
    Tally(u8),
    Route(u8),
    Leave,
    Resume(u8),
    Pass(u64),
}

fn any_key() -> impl Strategy<Value = RingKey> {
    (0..=15_u8).prop_map(|n| key(n * 16 + 4))
}

/// Signed by its author or by another, of few numbers, so that some contradict each other.
fn any_view() -> impl Strategy<Value = View> {
    let group = proptest::collection::vec(any_key(), 1..16);
    (any_key(), any_key(), 0..4_u64, group, any::<bool>()).prop_map(
        |(author, signer, number, mut group, own)| {
            group.push(author);
            group.sort_unstable();
            group.dedup();
            let signer = if own { author } else { signer };
            View::sign(
                &Notary::new(signer),
                author,
                ([0; 16], number),
                None,
                2_000,
                group,
            )
        },
    )
}

fn any_header() -> impl Strategy<Value = SignedHeader> {
    any_view().prop_map(|view| view.signed)
}

/// Of anybody by anybody, signed by the accuser or by another.
fn any_accusation() -> impl Strategy<Value = Box<Accusation>> {
    (
        any_key(),
        any_key(),
        any::<bool>(),
        any_header(),
        any_header(),
    )
        .prop_map(|(accuser, signer, own, first, second)| {
            let signer = if own { accuser } else { signer };
            let accusation = Accusation::sign(&Notary::new(signer), accuser, first, second);
            Box::new(accusation)
        })
}

fn any_message_of_groups() -> impl Strategy<Value = Message> {
    let id = 0..4_u64;
    let one = || proptest::collection::vec(any_key(), 1..16);
    let certificate = any_key().prop_map(|key| (key, key.as_bytes().to_vec()));
    prop_oneof![
        (id.clone(), any_key()).prop_map(|(id, point)| Message::GetNear { id, point }),
        (id.clone(), one()).prop_map(|(id, members)| Message::Near { id, members }),
        (id.clone(), 0..4_u64).prop_map(|(id, have)| Message::GetView { id, have }),
        (id.clone(), any_view()).prop_map(|(id, view)| Message::ViewIs { id, view }),
        id.clone().prop_map(|id| Message::Unchanged { id }),
        any_view().prop_map(|view| Message::Announce { view }),
        any_header().prop_map(|said| Message::Witness { said }),
        any_accusation().prop_map(|accusation| Message::Evidence { accusation }),
        any_accusation().prop_map(|accusation| Message::FalseAccusation { accusation }),
        (id.clone(), proptest::collection::vec(any_key(), 1..3))
            .prop_map(|(id, members)| Message::GetCertificates { id, members }),
        (id, proptest::collection::vec(certificate, 0..3))
            .prop_map(|(id, certificates)| Message::Certificates { id, certificates }),
    ]
}

/// Of a certified author or of none, signed by it or by another, good for a while or over.
fn any_record() -> impl Strategy<Value = Record> {
    let text = |most| proptest::collection::vec(0..4_u8, 0..most);
    let who = (any_key(), any_key(), any::<bool>());
    (who, text(3), text(40), 0..4_u64, 900..2_000_u64).prop_map(
        |((author, signer, own), name, value, number, expires)| {
            let signer = if own { author } else { signer };
            let statement = Record::statement(&name, &value, number, expires);
            Record {
                certificate: author.as_bytes().to_vec(),
                signature: Notary::new(signer).sign(&statement),
                name,
                value,
                number,
                expires,
            }
        },
    )
}

fn any_count() -> impl Strategy<Value = (RingKey, Count)> {
    let who = (any_key(), any_key(), any::<bool>(), any_key());
    (who, 0..4_u64, 900..2_000_u64).prop_map(|((author, signer, own, point), count, expires)| {
        let signer = if own { author } else { signer };
        let statement = Count::statement(&author, &point, count, expires);
        let signature = Notary::new(signer).sign(&statement);
        let count = Count {
            author,
            count,
            expires,
            signature,
        };
        (point, count)
    })
}

fn any_message_of_tallies() -> impl Strategy<Value = Message> {
    let id = 0..4_u64;
    let counts = proptest::collection::vec(any_count(), 0..9);
    let after = proptest::option::of(any_key());
    prop_oneof![
        (id.clone(), any_count()).prop_map(|(id, (point, count))| Message::Count {
            id,
            point,
            count
        }),
        (id.clone(), any_key(), after).prop_map(|(id, point, after)| Message::GetTally {
            id,
            point,
            after
        }),
        (id, counts).prop_map(|(id, counts)| Message::Tally {
            id,
            counts: counts.into_iter().map(|(_, count)| count).collect(),
        }),
    ]
}

fn any_message_of_records() -> impl Strategy<Value = Message> {
    let id = 0..4_u64;
    let points = proptest::collection::vec(any_key(), 0..16);
    let offered = proptest::collection::vec((any_key(), 0..4_u64), 1..16);
    let statement = proptest::collection::vec(any::<u8>(), 1..8);
    prop_oneof![
        (id.clone(), any_record()).prop_map(|(id, record)| Message::Store { id, record }),
        (id.clone(), 0..4_u64).prop_map(|(id, number)| Message::Stored { id, number }),
        (id.clone(), any_key()).prop_map(|(id, point)| Message::Fetch { id, point }),
        (id.clone(), proptest::option::of(any_record()))
            .prop_map(|(id, record)| Message::Fetched { id, record }),
        (id.clone(), offered).prop_map(|(id, records)| Message::Offer { id, records }),
        (id, points).prop_map(|(id, points)| Message::Wanted { id, points }),
        statement.prop_map(|statement| Message::Statement { statement }),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        any_message_of_rings(),
        any_message_of_groups(),
        any_message_of_records(),
        any_message_of_tallies(),
        any_message_of_routes()
    ]
}

/// The first crossing of a message, whose body may be sealed by anybody for anybody.
fn any_offer() -> impl Strategy<Value = Vec<u8>> {
    let body = proptest::collection::vec(any::<u8>(), 0..40);
    (any_key(), 0..4_u64, any::<bool>(), body).prop_map(|(origin, number, sealed, body)| {
        let mut offer = minicbor::Encoder::new(Vec::new());
        offer.array(5).unwrap().bytes(origin.as_bytes()).unwrap();
        offer.u64(number).unwrap().bytes(origin.as_bytes()).unwrap();
        offer.bool(sealed).unwrap().bytes(&body).unwrap();
        offer.into_writer()
    })
}

fn any_message_of_routes() -> impl Strategy<Value = Message> {
    let id = 0..4_u64;
    let junk = || proptest::collection::vec(any::<u8>(), 1..60);
    let payload = || prop_oneof![any_offer(), junk()];
    prop_oneof![
        (id.clone(), any_key(), 0..3_u8, payload()).prop_map(|(id, target, hops_left, payload)| {
            Message::Route {
                id,
                target,
                hops_left,
                payload,
            }
        }),
        proptest::collection::vec(id.clone(), 1..3).prop_map(|ids| Message::TakenOn { ids }),
        (id.clone(), any_key(), 0..3_u8, payload()).prop_map(|(id, target, hops_left, payload)| {
            Message::Own {
                id,
                target,
                hops_left,
                clock: id,
                payload,
            }
        }),
        (id.clone(), id.clone(), payload()).prop_map(|(id, label, payload)| Message::Reached {
            id,
            label,
            clock: label,
            payload
        }),
        (id.clone(), payload()).prop_map(|(id, payload)| Message::Confirm { id, payload }),
        id.prop_map(|id| Message::Delivered { id, clock: id }),
    ]
}

fn any_message_of_rings() -> impl Strategy<Value = Message> {
    let id = 0..4_u64;
    let keys = || proptest::collection::vec(any_key(), 0..16);
    let one = || proptest::collection::vec(any_key(), 1..16);
    prop_oneof![
        id.clone().prop_map(|id| Message::Ping { id }),
        (id.clone(), any::<bool>()).prop_map(|(id, member)| Message::Pong { id, member }),
        id.clone().prop_map(|id| Message::GetState { id }),
        (id.clone(), proptest::option::of(any_key()), keys()).prop_map(
            |(id, predecessor, successors)| Message::State {
                id,
                predecessor,
                successors
            }
        ),
        id.clone().prop_map(|id| Message::Pending { id }),
        id.clone().prop_map(|id| Message::NotMember { id }),
        Just(Message::Notify),
        Just(Message::StabiliseSoon),
        (id.clone(), any_key()).prop_map(|(id, target)| Message::FindOwner { id, target }),
        (id.clone(), one()).prop_map(|(id, owners)| Message::Owner { id, owners }),
        (id, one()).prop_map(|(id, candidates)| Message::Closer { id, candidates }),
        Just(Message::Leaving),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let place = || (0..=15_u8).prop_map(|n| n * 16 + 4);
    prop_oneof![
        3 => (place(), any_message()).prop_map(|(from, message)| Act::Receive(from, message)),
        6 => any_message().prop_map(Act::Answer),
        1 => place().prop_map(Act::Unreachable),
        1 => any::<u8>().prop_map(Act::Lookup),
        1 => any::<u8>().prop_map(Act::Get),
        1 => any_record().prop_map(Act::Put),
        1 => (any::<u8>(), 0..4_u64).prop_map(|(n, count)| Act::Count(n, count)),
        1 => any::<u8>().prop_map(Act::Tally),
        1 => any::<u8>().prop_map(Act::Route),
        1 => Just(Act::Leave),
        1 => place().prop_map(Act::Resume),
        4 => (1..2_000_u64).prop_map(Act::Pass),
    ]
}

fn with_id(message: Message, id: u64) -> Message {
    match message {
        Message::Pong { member, .. } => Message::Pong { id, member },
        Message::State {
            predecessor,
            successors,
            ..
        } => Message::State {
            id,
            predecessor,
            successors,
        },
        Message::Pending { .. } => Message::Pending { id },
        Message::NotMember { .. } => Message::NotMember { id },
        Message::Owner { owners, .. } => Message::Owner { id, owners },
        Message::Closer { candidates, .. } => Message::Closer { id, candidates },
        Message::Near { members, .. } => Message::Near { id, members },
        Message::ViewIs { view, .. } => Message::ViewIs { id, view },
        Message::Unchanged { .. } => Message::Unchanged { id },
        Message::Certificates { certificates, .. } => Message::Certificates { id, certificates },
        Message::Stored { number, .. } => Message::Stored { id, number },
        Message::Fetched { record, .. } => Message::Fetched { id, record },
        Message::Wanted { points, .. } => Message::Wanted { id, points },
        Message::Tally { counts, .. } => Message::Tally { id, counts },
        Message::TakenOn { .. } => Message::TakenOn { ids: vec![id] },
        Message::Reached {
            label,
            clock,
            payload,
            ..
        } => Message::Reached {
            id,
            label,
            clock,
            payload,
        },
        Message::Confirm { payload, .. } => Message::Confirm { id, payload },
        Message::Delivered { clock, .. } => Message::Delivered { id, clock },
        other => other,
    }
}

/// The list goes clockwise from the member, without itself and within r.
fn assert_sound(chord: &Chord) {
    let me = chord.key();
    let mut after = me;
    for successor in chord.successors() {
        assert!(between(&after, successor, &me), "{:?}", chord.snapshot());
        after = *successor;
    }
    assert!(chord.successors().len() <= 3);
    assert_ne!(chord.predecessor(), Some(me));
    assert!(chord.known_members().len() <= 150);
    if chord.state() == Membership::Outside {
        assert!(chord.successors().is_empty());
    }
}

proptest! {
    #[test]
    fn nothing_breaks_a_member(
        acts in proptest::collection::vec(act(), 1..80),
        joined: bool,
        secure: bool,
    ) {
        let mut now = start();
        let mut chord = if joined { member(now, &[150, 200, 250]) } else { chord(100) };
        if secure {
            // It knows half of the keys, and has to have the others proven.
            let mut notary = Notary::new(chord.key());
            notary.certified.retain(|key| key.as_bytes()[0] & 16 == 0 || key == &chord.key());
            chord = chord.with_credentials(Box::new(notary), 1);
        }
        let mut asked = Vec::new();
        for act in acts {
            match act {
                Act::Receive(from, message) => chord.handle_message(now, key(from), message),
                Act::Answer(message) => {
                    if let Some((to, id)) = asked.pop() {
                        chord.handle_message(now, to, with_id(message, id));
                    }
                }
                Act::Unreachable(n) => chord.handle_unreachable(now, key(n)),
                Act::Lookup(n) => drop(chord.lookup(now, key(n))),
                Act::Get(n) => drop(chord.get(now, key(n))),
                Act::Put(record) => drop(chord.put(now, record)),
                Act::Count(n, count) => drop(chord.count(now, key(n), count, 1_500)),
                Act::Tally(n) => drop(chord.tally(now, key(n))),
                Act::Route(n) => {
                    let to = if n & 1 == 0 { Destination::Member(key(n | 4)) } else { Destination::Point(key(n)) };
                    _ = chord.route(now, to, &[n]);
                }
                Act::Leave => drop(chord.leave(now)),
                Act::Resume(n) => chord.resume(now, &[key(n), key(n ^ 64)]),
                Act::Pass(millis) => now += Duration::from_millis(millis),
            }
            let mut turns = 0;
            while chord.poll_timeout().is_some_and(|due| due <= now) {
                chord.handle_timeout(now);
                turns += 1;
                prop_assert!(turns <= 4, "a timer is stuck: {:?}", chord);
            }
            let transmits = sent(&mut chord);
            prop_assert!(transmits.len() <= 200);
            asked.extend(transmits.iter().filter_map(|t| Some((t.to, crate::request_id(&t.message)?))));
            while chord.poll_event().is_some() {}
            assert_sound(&chord);
        }
    }
}
