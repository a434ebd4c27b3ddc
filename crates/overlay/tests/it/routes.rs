//! Messages through a ring of three: from key 100 over key 110, which may be a malicious router,
//! to key 200.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringway_overlay::limits::{MAX_ARRIVALS_OF_PEER, MAX_ROUTED_BODY, MAX_WAITING_OF_PEER};
use ringway_overlay::{
    Chord, Config, Destination, Event, Membership, Message, RingKey, RouteError, RouteFailure,
    Snapshot,
};
use sha2::{Digest, Sha256};

use crate::{Notary, events, key, sent, start, toy_seal};

/// What becomes of a message on its way from one member to another.
pub(crate) type Fate<'a> = dyn FnMut(RingKey, RingKey, Message) -> Vec<Message> + 'a;

pub(crate) fn all_arrive(_from: RingKey, _to: RingKey, message: Message) -> Vec<Message> {
    vec![message]
}

pub(crate) struct Ring {
    pub(crate) now: Instant,
    members: BTreeMap<RingKey, Chord>,
    events: Vec<(RingKey, Event)>,
}

impl Ring {
    pub(crate) fn new(notary: impl Fn(RingKey) -> Notary) -> Ring {
        let now = start();
        let keys = [100, 110, 200].map(key);
        let mut members = BTreeMap::new();
        for (n, me) in keys.into_iter().enumerate() {
            let chord = Chord::new(me, Config::default(), [me.as_bytes()[0]; 32]).unwrap();
            let mut chord = chord.with_credentials(Box::new(notary(me)), 7);
            let state = Snapshot {
                key: me,
                state: Membership::Member,
                predecessor: Some(keys[(n + 2) % 3]),
                successors: vec![keys[(n + 1) % 3]],
            };
            chord.restore(now, &state, Vec::new());
            sent(&mut chord);
            events(&mut chord);
            members.insert(me, chord);
        }
        let events = Vec::new();
        Ring {
            now,
            members,
            events,
        }
    }

    pub(crate) fn member(&mut self, n: u8) -> &mut Chord {
        self.members.get_mut(&key(n)).unwrap()
    }

    /// Carries what there is, and lets `time` pass. `fate` decides about what belongs to routing.
    pub(crate) fn run(&mut self, time: Duration, fate: &mut Fate<'_>) {
        let end = self.now + time;
        while self.now < end {
            let mut under_way = Vec::new();
            for (from, member) in &mut self.members {
                member.handle_timeout(self.now);
                let all = sent(member).into_iter();
                under_way.extend(all.map(|transmit| (*from, transmit.to, transmit.message)));
                let all = events(member).into_iter();
                self.events.extend(all.map(|event| (*from, event)));
            }
            for (from, to, message) in under_way {
                let routing = matches!(
                    message,
                    Message::Route { .. }
                        | Message::Own { .. }
                        | Message::TakenOn { .. }
                        | Message::Reached { .. }
                        | Message::Confirm { .. }
                        | Message::Delivered { .. }
                );
                let ways = if routing {
                    fate(from, to, message)
                } else {
                    vec![message]
                };
                for message in ways {
                    let bytes = message.encode();
                    let message = Message::decode(&bytes).unwrap();
                    if let Some(member) = self.members.get_mut(&to) {
                        member.handle_message(self.now, from, message);
                    }
                }
            }
            self.now += Duration::from_millis(1);
        }
    }

    pub(crate) fn route(&mut self, to: Destination, body: &[u8]) {
        let now = self.now;
        self.member(100).route(now, to, body).unwrap();
    }

    /// The bodies that key 200 has been given.
    pub(crate) fn delivered(&self) -> Vec<&[u8]> {
        let delivered = self.events.iter().filter_map(|(who, event)| match event {
            Event::Routed { from, body, .. } => {
                assert_eq!((*who, *from), (key(200), key(100)));
                Some(body.as_slice())
            }
            _ => None,
        });
        delivered.collect()
    }

    /// How many messages are under way no more.
    pub(crate) fn ended(&self) -> usize {
        let is_end =
            |event: &Event| matches!(event, Event::RouteDone { .. } | Event::RouteFailed { .. });
        self.events
            .iter()
            .filter(|(_, event)| is_end(event))
            .count()
    }

    /// Who has it, whether that is certain, and how many ways it took.
    pub(crate) fn done(&self) -> Option<(RingKey, bool, u32)> {
        self.events.iter().find_map(|(_, event)| match event {
            Event::RouteDone {
                by,
                verified,
                tries,
                ..
            } => Some((*by, *verified, *tries)),
            _ => None,
        })
    }
}

pub(crate) const SOON: Duration = Duration::from_millis(50);
pub(crate) const LATER: Duration = Duration::from_secs(12);

pub(crate) fn to_member() -> Destination {
    Destination::Member(key(200))
}

#[test]
fn a_routed_message_arrives_and_its_sender_knows() {
    for (to, certain) in [(to_member(), true), (Destination::Point(key(150)), false)] {
        let mut ring = Ring::new(Notary::new);
        ring.route(to, b"hello");
        let mut through = 0;
        ring.run(LATER, &mut |_, to, message| {
            through += usize::from(to == key(110) && matches!(message, Message::Own { .. }));
            vec![message]
        });
        assert_eq!(ring.delivered(), [b"hello"]);
        assert_eq!(ring.done(), Some((key(200), certain, 1)));
        assert_eq!(through, 1);
    }
}

#[test]
fn nothing_is_delivered_before_its_sender_confirms() {
    let mut ring = Ring::new(Notary::new);
    ring.route(to_member(), b"hello");
    let mut lost = 2;
    ring.run(SOON, &mut |_, _, message| match message {
        Message::Confirm { .. } => Vec::new(),
        other => vec![other],
    });
    assert_eq!(ring.delivered(), [b""; 0]);
    // A confirmation that is lost comes again, because the receiver asks for it again.
    ring.run(LATER, &mut |_, to, message| match message {
        Message::Confirm { .. } if to == key(200) && lost > 0 => {
            lost -= 1;
            Vec::new()
        }
        other => vec![other],
    });
    assert_eq!(ring.delivered(), [b"hello"]);
}

#[test]
fn recorded_messages_are_not_delivered_again() {
    let mut ring = Ring::new(Notary::new);
    ring.route(to_member(), b"hello");
    let mut recorded = Vec::new();
    ring.run(SOON, &mut |from, to, message| {
        if to == key(200) {
            recorded.push((from, message.clone()));
        }
        vec![message]
    });
    assert_eq!(recorded.len(), 2);
    for (from, message) in recorded {
        let now = ring.now;
        ring.member(200).handle_message(now, from, message);
    }
    // The receiver asks whether it was sent, and its sender does not confirm it a second time.
    ring.run(LATER, &mut all_arrive);
    assert_eq!(ring.delivered(), [b"hello"]);
}

#[test]
fn a_malicious_hop_does_not_harm_the_message() {
    // Drops, alters, or answers itself.
    let drops = |_: RingKey, to: RingKey, message: Message| match message {
        Message::Own { .. } if to == key(110) => Vec::new(),
        other => vec![other],
    };
    let alters = |from: RingKey, _: RingKey, mut message: Message| {
        if let Message::Route { payload, .. } = &mut message
            && from == key(110)
        {
            *payload.last_mut().unwrap() ^= 1;
        }
        vec![message]
    };
    let swaps_confirmation = |from: RingKey, _: RingKey, mut message: Message| {
        if let Message::Confirm { payload, .. } = &mut message
            && from == key(110)
        {
            *payload.last_mut().unwrap() ^= 1;
        }
        vec![message]
    };
    let mut carried = 0;
    let swallows_what_confirms = move |from: RingKey, to: RingKey, message: Message| {
        let through = from == key(110) || to == key(110);
        match message {
            Message::Confirm { .. } if through => Vec::new(),
            // It carries the answer once, so that the sender believes that all is well.
            Message::Reached { .. } if through => {
                carried += 1;
                if carried > 2 {
                    Vec::new()
                } else {
                    vec![message]
                }
            }
            other => vec![other],
        }
    };
    let mut fates: [Box<Fate<'_>>; 4] = [
        Box::new(drops),
        Box::new(alters),
        Box::new(swaps_confirmation),
        Box::new(swallows_what_confirms),
    ];
    for (n, fate) in fates.iter_mut().enumerate() {
        let mut ring = Ring::new(Notary::new);
        ring.route(to_member(), b"hello");
        ring.run(LATER, fate);
        assert_eq!(ring.delivered(), [b"hello"], "{n}");
    }
}

/// Who carries a message may bring another one under its number first, so that the true one would
/// wait behind it.
#[test]
fn a_reused_number_hides_no_message() {
    let mut ring = Ring::new(Notary::new);
    ring.route(Destination::Point(key(150)), b"hello");
    ring.run(LATER, &mut |_, to, message| {
        let mut other = message.clone();
        match &mut other {
            Message::Route { payload, .. } if to == key(200) => {
                *payload.last_mut().unwrap() ^= 1;
                vec![other, message]
            }
            _ => vec![message],
        }
    });
    assert_eq!(ring.delivered(), [b"hello"]);
    assert_eq!(ring.done(), Some((key(200), false, 1)));
}

/// What `author` would answer to the message for `target` in `payload`, sealed by `sealer` for key
/// 100.
pub(crate) fn answer_of(author: u8, sealer: u8, target: RingKey, payload: &[u8]) -> Vec<u8> {
    let mut d = minicbor::Decoder::new(payload);
    d.array().unwrap();
    d.bytes().unwrap();
    let number = d.u64().unwrap();
    d.skip().unwrap();
    d.bool().unwrap();
    let digest = Sha256::new()
        .chain_update(b"ringway routed message")
        .chain_update(target.as_bytes())
        .chain_update(d.bytes().unwrap())
        .finalize();
    let mut secret = minicbor::Encoder::new(Vec::new());
    secret.array(4).unwrap().u8(1).unwrap();
    secret.u64(number).unwrap().u64(9).unwrap();
    secret.bytes(&digest).unwrap();
    let sealed = toy_seal(&key(sealer), &key(100), &secret.into_writer());
    let mut answer = minicbor::Encoder::new(Vec::new());
    answer.array(3).unwrap();
    answer.bytes(key(author).as_bytes()).unwrap();
    answer.null().unwrap().bytes(&sealed).unwrap();
    answer.into_writer()
}

/// The first hop answers itself: as `author`, sealed by `sealer`. What the sender believes.
fn hijacked(to: Destination, author: u8, sealer: u8) -> Option<(RingKey, bool, u32)> {
    let mut ring = Ring::new(Notary::new);
    ring.route(to, b"hello");
    let mut forged = None;
    ring.run(SOON, &mut |_, to, message| match message {
        Message::Own {
            id,
            target,
            payload,
            ..
        } if to == key(110) => {
            forged = Some((id, answer_of(author, sealer, target, &payload)));
            Vec::new()
        }
        other => vec![other],
    });
    let (id, payload) = forged.expect("the message went to the first hop");
    let now = ring.now;
    let answer = Message::Reached {
        id,
        label: 1,
        clock: 1,
        payload,
    };
    ring.member(100).handle_message(now, key(110), answer);
    ring.run(LATER, &mut all_arrive);
    ring.done()
}

#[test]
fn only_the_receivers_own_answer_is_believed() {
    let (_, _, genuine) = hijacked(to_member(), 200, 200).unwrap();
    assert_eq!(genuine, 1, "the test makes answers as members do");
    for (author, sealer) in [(110, 110), (200, 110), (250, 250)] {
        let (by, verified, _) = hijacked(to_member(), author, sealer).unwrap();
        assert_eq!((by, verified), (key(200), true), "{author} {sealer}");
    }
    // Who claims a point is believed, and it is said that this is not certain.
    let (by, verified, _) = hijacked(Destination::Point(key(150)), 110, 110).unwrap();
    assert_eq!((by, verified), (key(110), false));
}

#[test]
fn unknown_senders_prove_themselves_and_revoked_ones_cannot() {
    let stranger = |me: RingKey| {
        let mut notary = Notary::new(me);
        if me == key(200) {
            notary.certified.retain(|known| *known != key(100));
        }
        notary
    };
    let mut ring = Ring::new(stranger);
    ring.route(to_member(), b"hello");
    ring.run(LATER, &mut all_arrive);
    assert_eq!(ring.delivered(), [b"hello"]);
    let revoked = |me: RingKey| {
        let mut notary = Notary::new(me);
        if me == key(200) {
            notary.refused.push(key(100));
        }
        notary
    };
    let mut ring = Ring::new(revoked);
    ring.route(to_member(), b"hello");
    ring.run(LATER, &mut all_arrive);
    assert_eq!(ring.delivered(), [b""; 0]);
    let failed = |(_, event): &(RingKey, Event)| matches!(event, Event::RouteFailed { reason, .. } if *reason == RouteFailure::NoAnswer);
    assert!(ring.events.iter().any(failed));
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let mut ring = Ring::new(Notary::new);
    let now = ring.now;
    let long = vec![0; MAX_ROUTED_BODY + 1];
    let member = ring.member(100);
    assert_eq!(
        member.route(now, to_member(), &long),
        Err(RouteError::TooLong(long.len()))
    );
    assert_eq!(
        member.route(now, Destination::Member(key(100)), b""),
        Err(RouteError::ToOneself)
    );
    let unknown = Destination::Member(RingKey::point(b"unknown"));
    assert_eq!(
        member.route(now, unknown, b""),
        Err(RouteError::NoCertificate)
    );
    let mut outside = Chord::new(key(1), Config::default(), [1; 32]).unwrap();
    assert_eq!(
        outside.route(now, to_member(), b""),
        Err(RouteError::NotMember)
    );
}

#[test]
fn the_longest_body_arrives() {
    let mut ring = Ring::new(Notary::new);
    let body = vec![7; MAX_ROUTED_BODY];
    ring.route(to_member(), &body);
    ring.run(SOON, &mut all_arrive);
    assert_eq!(ring.delivered(), [&body[..]]);
}

#[test]
fn one_neighbour_cannot_fill_the_memory() {
    let mut ring = Ring::new(Notary::new);
    // A message as key 100 makes them, whose number the neighbour changes.
    ring.route(Destination::Point(key(150)), b"");
    let mut template = None;
    ring.run(SOON, &mut |_, _, message| {
        if let Message::Own { payload, .. } = &message {
            template.get_or_insert_with(|| payload.clone());
        }
        Vec::new()
    });
    let template = template.unwrap();
    let now = ring.now;
    for n in 0..5_000_u64 {
        let mut payload = template.clone();
        // After the array's head and the sender's key comes the number, of eight bytes.
        assert_eq!(payload[35], 0x1b);
        payload[36..44].copy_from_slice(&(n | 1 << 60).to_be_bytes());
        for (to, from) in [(200, 100), (110, 100)] {
            let message = Message::Route {
                id: n,
                target: key(150),
                hops_left: 9,
                payload: payload.clone(),
            };
            ring.member(to).handle_message(now, key(from), message);
        }
    }
    let dropped = |ring: &mut Ring, n: u8| ring.member(n).counters().routed_dropped;
    let past = |most: usize| 5_000 - u64::try_from(most).unwrap();
    assert!(dropped(&mut ring, 200) >= past(MAX_ARRIVALS_OF_PEER));
    assert!(dropped(&mut ring, 110) >= past(MAX_WAITING_OF_PEER));
    // It is forgotten in time, and others get through meanwhile.
    ring.run(LATER, &mut |_, _, _| Vec::new());
    ring.route(to_member(), b"hello");
    ring.run(SOON, &mut all_arrive);
    assert_eq!(ring.delivered(), [b"hello"]);
}
