//! The bytes of messages.

use proptest::prelude::*;
use ringway_overlay::{Accusation, Count, Header, Message, Record, RingKey, SignedHeader, View};

use crate::Notary;

fn key() -> impl Strategy<Value = RingKey> {
    any::<[u8; 32]>().prop_map(RingKey::from_bytes)
}

fn header() -> impl Strategy<Value = SignedHeader> {
    let hash = any::<[u8; 32]>;
    let start = any::<[u8; 16]>();
    (key(), start, any::<u64>(), hash(), any::<u64>(), hash()).prop_map(
        |(author, start, number, previous, expires, content)| SignedHeader {
            header: Header {
                author,
                start,
                number,
                previous,
                expires,
                content,
            },
            signature: [author.as_bytes()[0]; 64],
        },
    )
}

fn view() -> impl Strategy<Value = View> {
    let group = proptest::collection::vec(key(), 1..=15);
    (key(), any::<u64>(), any::<u64>(), group).prop_map(|(author, number, expires, group)| {
        View::sign(
            &Notary::new(author),
            author,
            ([0; 16], number),
            None,
            expires,
            group,
        )
    })
}

fn accusation() -> impl Strategy<Value = Box<Accusation>> {
    (key(), header(), header()).prop_map(|(accuser, first, second)| {
        let credentials = Notary::new(accuser);
        Box::new(Accusation::sign(&credentials, accuser, first, second))
    })
}

fn message_of_groups() -> impl Strategy<Value = Message> {
    let id = any::<u64>;
    let certificate = || (key(), proptest::collection::vec(any::<u8>(), 0..=480));
    prop_oneof![
        (id(), key()).prop_map(|(id, point)| Message::GetNear { id, point }),
        (id(), proptest::collection::vec(key(), 1..=16))
            .prop_map(|(id, members)| Message::Near { id, members }),
        (id(), id()).prop_map(|(id, have)| Message::GetView { id, have }),
        (id(), view()).prop_map(|(id, view)| Message::ViewIs { id, view }),
        id().prop_map(|id| Message::Unchanged { id }),
        view().prop_map(|view| Message::Announce { view }),
        header().prop_map(|said| Message::Witness { said }),
        accusation().prop_map(|accusation| Message::Evidence { accusation }),
        accusation().prop_map(|accusation| Message::FalseAccusation { accusation }),
        (id(), proptest::collection::vec(key(), 1..=2))
            .prop_map(|(id, members)| Message::GetCertificates { id, members }),
        (id(), proptest::collection::vec(certificate(), 0..=2))
            .prop_map(|(id, certificates)| Message::Certificates { id, certificates }),
    ]
}

fn message_of_routes() -> impl Strategy<Value = Message> {
    let id = any::<u64>;
    let payload = || proptest::collection::vec(any::<u8>(), 1..=1_040);
    prop_oneof![
        (id(), key(), any::<u8>(), payload()).prop_map(|(id, target, hops_left, payload)| {
            Message::Route {
                id,
                target,
                hops_left,
                payload,
            }
        }),
        proptest::collection::vec(id(), 1..=64).prop_map(|ids| Message::TakenOn { ids }),
        (id(), key(), any::<u8>(), id(), payload()).prop_map(
            |(id, target, hops_left, clock, payload)| Message::Own {
                id,
                target,
                hops_left,
                clock,
                payload,
            }
        ),
        (id(), id(), id(), payload()).prop_map(|(id, label, clock, payload)| Message::Reached {
            id,
            label,
            clock,
            payload
        }),
        (id(), payload()).prop_map(|(id, payload)| Message::Confirm { id, payload }),
        (id(), id()).prop_map(|(id, clock)| Message::Delivered { id, clock }),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let bytes = |least, most| proptest::collection::vec(any::<u8>(), least..=most);
    let parts = (bytes(0, 480), bytes(1, 64), bytes(0, 400));
    let rest = (any::<u64>(), any::<u64>(), any::<[u8; 32]>());
    (parts, rest).prop_map(
        |((certificate, name, value), (number, expires, half))| Record {
            certificate,
            name,
            value,
            number,
            expires,
            signature: [half, half].concat().try_into().expect("64 bytes"),
        },
    )
}

fn count() -> impl Strategy<Value = Count> {
    let parts = (key(), any::<u64>(), any::<u64>(), any::<[u8; 32]>());
    parts.prop_map(|(author, count, expires, half)| Count {
        author,
        count,
        expires,
        signature: [half, half].concat().try_into().expect("64 bytes"),
    })
}

fn message_of_tallies() -> impl Strategy<Value = Message> {
    let id = any::<u64>;
    let counts = proptest::collection::vec(count(), 0..=8);
    prop_oneof![
        (id(), key(), count()).prop_map(|(id, point, count)| Message::Count { id, point, count }),
        (id(), key(), proptest::option::of(key()))
            .prop_map(|(id, point, after)| Message::GetTally { id, point, after }),
        (id(), counts).prop_map(|(id, counts)| Message::Tally { id, counts }),
    ]
}

fn message_of_records() -> impl Strategy<Value = Message> {
    let id = any::<u64>;
    let points = |least| proptest::collection::vec(key(), least..=16);
    let offered = proptest::collection::vec((key(), any::<u64>()), 1..=16);
    prop_oneof![
        (id(), record()).prop_map(|(id, record)| Message::Store { id, record }),
        (id(), id()).prop_map(|(id, number)| Message::Stored { id, number }),
        (id(), key()).prop_map(|(id, point)| Message::Fetch { id, point }),
        (id(), proptest::option::of(record()))
            .prop_map(|(id, record)| Message::Fetched { id, record }),
        (id(), offered).prop_map(|(id, records)| Message::Offer { id, records }),
        (id(), points(0)).prop_map(|(id, points)| Message::Wanted { id, points }),
        proptest::collection::vec(any::<u8>(), 1..=1_000)
            .prop_map(|statement| Message::Statement { statement }),
        message_of_tallies(),
        message_of_routes(),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let id = any::<u64>;
    let some_keys = || proptest::collection::vec(key(), 1..=16);
    prop_oneof![
        message_of_groups(),
        message_of_records(),
        id().prop_map(|id| Message::Ping { id }),
        (id(), any::<bool>()).prop_map(|(id, member)| Message::Pong { id, member }),
        id().prop_map(|id| Message::GetState { id }),
        (
            id(),
            proptest::option::of(key()),
            proptest::collection::vec(key(), 0..=16)
        )
            .prop_map(|(id, predecessor, successors)| Message::State {
                id,
                predecessor,
                successors
            }),
        id().prop_map(|id| Message::Pending { id }),
        id().prop_map(|id| Message::NotMember { id }),
        Just(Message::Notify),
        Just(Message::StabiliseSoon),
        (id(), key()).prop_map(|(id, target)| Message::FindOwner { id, target }),
        (id(), some_keys()).prop_map(|(id, owners)| Message::Owner { id, owners }),
        (id(), some_keys()).prop_map(|(id, candidates)| Message::Closer { id, candidates }),
        Just(Message::Leaving),
    ]
}

proptest! {
    #[test]
    fn every_message_round_trips_within_its_bound(message in message()) {
        let bytes = message.encode();
        prop_assert!(bytes.len() <= 1_100);
        prop_assert_eq!(Message::decode(&bytes).unwrap(), message);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1_200)) {
        drop(Message::decode(&bytes));
    }

    #[test]
    fn damaged_messages_never_panic_and_never_pass_the_end(
        message in message(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = message.encode();
        let place = place.index(bytes.len());
        let whole = bytes.clone();
        bytes[place] = byte;
        drop(Message::decode(&bytes));
        let cut = cut.index(whole.len());
        prop_assert!(Message::decode(&whole[..cut]).is_err());
    }
}
