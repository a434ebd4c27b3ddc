//! By which ways a member's messages go: key 100 in a ring that has a member at each key, and
//! messages for key 205, which no finger's group reaches over: between those around 196 and 212.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ringway_overlay::limits::{ROUTE_LIFETIME, ROUTE_TIME, ROUTE_WAYS, SILENT_TIME};
use ringway_overlay::{Chord, Destination, Event, Message, RingKey, Transmit};

use crate::routes::answer_of;
use crate::{around, events, in_a_full_ring, key, sent, start};

const ME: u8 = 100;
const RECEIVER: u8 = 205;
const MESSAGES: usize = 200;
/// Resolution of time.
const STEP: Duration = Duration::from_millis(1);
/// Time after which a message that was taken on counts as lost.
const LOST: Duration = Duration::from_secs(5);
/// Rounds of messages after which a member that works again is preferred as before.
const FORGIVING: usize = 15;

/// The nine nearest members at a point but for these.
fn group_without(point: &RingKey, without: &[RingKey]) -> Vec<RingKey> {
    let mut group = around(point);
    while let Some(at) = group.iter().position(|key| without.contains(key)) {
        group.remove(at);
        let last = group.last().map_or(0, |key| key.as_bytes()[0]);
        group.push(key(last.wrapping_add(1)));
    }
    group
}

/// What those who get a message do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// Say that they have it, and no more.
    Swallow,
    /// Say nothing.
    Silent,
    /// Bring the receiver's answer.
    Carry,
}

/// The answer of the member at `target`, or of the next one after it.
fn answer_by_owner(target: &RingKey, payload: &[u8]) -> Vec<u8> {
    let first = target.as_bytes()[0];
    let owner = if *target == key(first) {
        first
    } else {
        first + 1
    };
    answer_of(owner, owner, *target, payload)
}

/// The member whose choices are looked at, its fingers' groups, and to whom it has handed messages,
/// in order.
struct Sender {
    now: Instant,
    chord: Chord,
    groups: Vec<Vec<RingKey>>,
    first_hops: Vec<RingKey>,
    /// Messages of which it knows that they have arrived.
    arrived: usize,
}

impl Sender {
    fn new(seed: u8) -> Sender {
        Sender::knowing(seed, &[])
    }

    /// One whose fingers lack these members, and have others behind them.
    fn knowing(seed: u8, without: &[RingKey]) -> Sender {
        let now = start();
        // Views are not answered here: a member asked for one would be taken for dead.
        let (chord, groups) = in_a_full_ring(now, seed, 0.0, |point| group_without(point, without));
        Sender {
            now,
            chord,
            groups,
            first_hops: Vec::new(),
            arrived: 0,
        }
    }

    fn route(&mut self) {
        let to = Destination::Member(key(RECEIVER));
        self.chord.route(self.now, to, b"hello").unwrap();
    }

    /// Lets time pass; each hop that gets the message does as `conduct` says.
    fn pass(&mut self, time: Duration, conduct: impl Fn(&RingKey) -> Conduct) {
        let end = self.now + time;
        while self.now < end {
            self.chord.handle_timeout(self.now);
            for transmit in sent(&mut self.chord) {
                if let Some(answer) = self.answer(&transmit, conduct(&transmit.to)) {
                    self.chord.handle_message(self.now, transmit.to, answer);
                }
            }
            let events = events(&mut self.chord).into_iter();
            let arrived = events.filter(|event| matches!(event, Event::RouteDone { .. }));
            self.arrived += arrived.count();
            self.now += STEP;
        }
    }

    fn answer(&mut self, transmit: &Transmit, conduct: Conduct) -> Option<Message> {
        let at = transmit.to.as_bytes()[0];
        match &transmit.message {
            Message::Ping { id } => Some(Message::Pong {
                id: *id,
                member: true,
            }),
            Message::GetState { id } => Some(Message::State {
                id: *id,
                predecessor: Some(key(at.wrapping_sub(1))),
                successors: (1..=3).map(|n| key(at.wrapping_add(n))).collect(),
            }),
            Message::GetNear { id, point } => Some(Message::Near {
                id: *id,
                members: around(point),
            }),
            Message::Own {
                id,
                target,
                payload,
                ..
            } => {
                self.first_hops.push(transmit.to);
                let id = *id;
                match conduct {
                    Conduct::Silent => None,
                    Conduct::Swallow => Some(Message::TakenOn { ids: vec![id] }),
                    Conduct::Carry => Some(Message::Reached {
                        id,
                        label: 1,
                        clock: 1,
                        payload: answer_by_owner(target, payload),
                    }),
                }
            }
            _ => None,
        }
    }

    /// The receiver is known, but gets nothing straight for a while: it has left a message
    /// unanswered.
    fn meet_in_vain(&mut self) {
        let but_receiver = |hop: &RingKey| {
            if *hop == key(RECEIVER) {
                Conduct::Silent
            } else {
                Conduct::Carry
            }
        };
        for _ in 0..2 {
            self.route();
            self.pass(ROUTE_TIME, but_receiver);
        }
        assert_eq!((self.first_hops.len(), self.arrived), (3, 2));
        self.arrived = 0;
    }

    /// Sends [`MESSAGES`] messages, and says who got how many of them first.
    fn shares(&mut self, conduct: impl Fn(&RingKey) -> Conduct) -> BTreeMap<RingKey, usize> {
        let mut shares = BTreeMap::new();
        for _ in 0..MESSAGES {
            self.first_hops.clear();
            self.route();
            self.pass(STEP, &conduct);
            *shares.entry(self.first_hops[0]).or_insert(0) += 1;
        }
        shares
    }

    /// The fingers whose groups `member` is in.
    fn groups_of(&self, member: &RingKey) -> BTreeSet<usize> {
        let groups = self.groups.iter().enumerate();
        let with = groups.filter(|(_, group)| group.contains(member));
        with.map(|(n, _)| n).collect()
    }
}

/// The whole groups of their first hops, not the hops alone.
#[test]
fn each_way_avoids_the_groups_of_earlier_ones() {
    for seed in 1..=20 {
        let mut sender = Sender::new(seed);
        sender.route();
        let ways = u32::try_from(ROUTE_WAYS).unwrap();
        sender.pass(ROUTE_TIME * ways, |_| Conduct::Swallow);
        let hops = sender.first_hops.clone();
        assert!(hops.len() >= ROUTE_WAYS, "seed {seed}: {hops:?}");
        for (n, hop) in hops.iter().take(ROUTE_WAYS).enumerate() {
            assert!(*hop > key(ME) && *hop < key(RECEIVER), "it comes nearer");
            assert!(!sender.groups_of(hop).is_empty());
            for before in hops.iter().take(n) {
                let shared = &sender.groups_of(hop) & &sender.groups_of(before);
                assert!(shared.is_empty(), "seed {seed}: {before} and {hop}");
            }
        }
    }
}

/// The receiver is in the group of the finger behind it, and gets the message first.
#[test]
fn the_receivers_group_is_avoided_after_direct_failure() {
    for (seed, receiver) in (1..=20).zip((0..4).cycle()) {
        let mut sender = Sender::new(seed);
        let to = Destination::Member(key(receiver));
        sender.chord.route(sender.now, to, b"hello").unwrap();
        let ways = u32::try_from(ROUTE_WAYS).unwrap();
        sender.pass(ROUTE_TIME * ways, |_| Conduct::Swallow);
        let hops = sender.first_hops.clone();
        assert!(hops.len() >= ROUTE_WAYS, "seed {seed}: {hops:?}");
        assert_eq!(hops[0], key(receiver), "seed {seed}");
        for (n, hop) in hops.iter().enumerate().take(ROUTE_WAYS).skip(1) {
            for before in hops.iter().take(n) {
                let shared = &sender.groups_of(hop) & &sender.groups_of(before);
                assert!(shared.is_empty(), "seed {seed}: {before} and {hop}");
            }
        }
    }
}

/// Points in the reach of the finger behind them go straight to who owns them only if its group is
/// as dense as the ring.
#[test]
fn a_group_with_gaps_names_no_owner() {
    let mut target = [0x80; 32];
    target[0] = 0;
    let point = RingKey::from_bytes(target);
    for (left_out, straight) in [(&[][..], true), (&[1, 2, 3, 5, 6, 7], false)] {
        let mut firsts = BTreeSet::new();
        for seed in 1..=20 {
            let without: Vec<RingKey> = left_out.iter().map(|n| key(*n)).collect();
            let mut sender = Sender::knowing(seed, &without);
            let to = Destination::Point(point);
            sender.chord.route(sender.now, to, b"hello").unwrap();
            sender.pass(STEP, |_| Conduct::Swallow);
            firsts.insert(sender.first_hops[0]);
        }
        let owner = BTreeSet::from([key(1)]);
        assert_eq!(firsts == owner, straight, "{firsts:?}");
        assert!(!firsts.contains(&key(4)), "whom liars name: {firsts:?}");
    }
}

#[test]
fn known_peers_get_messages_directly() {
    let mut sender = Sender::new(3);
    let known: BTreeSet<RingKey> = sender.groups.iter().flatten().copied().collect();
    assert!(known.len() > 30, "{known:?}");
    // Its own group it has not heard here.
    let own = around(&key(ME));
    for to in known.into_iter().filter(|to| !own.contains(to)) {
        sender.first_hops.clear();
        let destination = Destination::Member(to);
        let sent = sender.chord.route(sender.now, destination, b"hello");
        assert!(sent.is_ok(), "{sent:?}");
        sender.pass(STEP, |_| Conduct::Swallow);
        assert_eq!(sender.first_hops, [to]);
    }
}

/// A point between two members.
fn before(n: u8) -> RingKey {
    let mut target = [0x80; 32];
    target[0] = n - 1;
    RingKey::from_bytes(target)
}

/// Sends a message there, and says whom it was handed to.
fn first_hop(sender: &mut Sender, to: Destination, conduct: Conduct) -> RingKey {
    sender.first_hops.clear();
    sender.chord.route(sender.now, to, b"hello").unwrap();
    sender.pass(STEP, |_| conduct);
    sender.first_hops[0]
}

#[test]
fn known_peers_around_a_point_give_its_owner() {
    let owner = key(RECEIVER);
    let point = Destination::Point(before(RECEIVER));
    for (met, straight) in [
        (&[201, 202, 203, 204, 205, 206, 207, 208, 209][..], true),
        (&[195, 197, 199, 201, 203, 205, 208, 211, 214], false),
        (&[202, 203, 204, 205, 206, 207], false),
    ] {
        let mut firsts = BTreeSet::new();
        for seed in 1..=20 {
            let mut sender = Sender::new(seed);
            assert_ne!(first_hop(&mut sender, point, Conduct::Swallow), owner);
            for n in met {
                let member = Destination::Member(key(*n));
                first_hop(&mut sender, member, Conduct::Carry);
            }
            assert_eq!(sender.arrived, met.len());
            firsts.insert(first_hop(&mut sender, point, Conduct::Swallow));
        }
        assert_eq!(
            firsts == BTreeSet::from([owner]),
            straight,
            "{met:?}: {firsts:?}"
        );
    }
}

#[test]
fn known_peers_get_direct_messages_until_silent() {
    let receiver = key(RECEIVER);
    let to = Destination::Member(receiver);
    let mut sender = Sender::new(5);
    assert_ne!(first_hop(&mut sender, to, Conduct::Carry), receiver);
    assert_eq!(first_hop(&mut sender, to, Conduct::Carry), receiver);
    assert_eq!(first_hop(&mut sender, to, Conduct::Silent), receiver);
    sender.pass(LOST, |_| Conduct::Silent);
    // An answer through others does not say that it can be reached.
    for _ in 0..2 {
        assert_ne!(first_hop(&mut sender, to, Conduct::Carry), receiver);
    }
    sender.pass(SILENT_TIME, |_| Conduct::Carry);
    assert_eq!(first_hop(&mut sender, to, Conduct::Carry), receiver);
    // After a second time in a row it is no acquaintance any more, and others have to bring an
    // answer first.
    for conduct in [Conduct::Silent, Conduct::Swallow] {
        assert_eq!(first_hop(&mut sender, to, conduct), receiver);
        sender.pass(ROUTE_LIFETIME, |_| conduct);
        sender.pass(SILENT_TIME, |_| Conduct::Carry);
    }
    assert_ne!(first_hop(&mut sender, to, Conduct::Carry), receiver);
    assert_eq!(first_hop(&mut sender, to, Conduct::Carry), receiver);
}

/// Where no hop answers in time, more copies would make it worse.
#[test]
fn hops_after_silent_ones_have_more_time() {
    for (silent, copies) in [(0, 4), (6, 1)] {
        let mut sender = Sender::new(7);
        sender.meet_in_vain();
        sender.shares(|_| Conduct::Carry);
        for _ in 0..silent {
            sender.route();
        }
        // Until all of theirs has been tried.
        sender.pass(ROUTE_LIFETIME, |_| Conduct::Silent);
        sender.first_hops.clear();
        sender.route();
        sender.pass(ROUTE_TIME / 8, |_| Conduct::Silent);
        let handed = sender.first_hops.len();
        assert!(
            if silent == 0 {
                handed >= copies
            } else {
                handed == copies
            },
            "{silent}: {handed}"
        );
    }
}

#[test]
fn hops_without_answers_get_fewer_messages() {
    for bad in [Conduct::Swallow, Conduct::Silent] {
        let mut sender = Sender::new(7);
        sender.meet_in_vain();
        let before = sender.shares(|_| Conduct::Carry);
        assert!(before.len() == 9, "it has a choice of nine: {before:?}");
        let bad_hop = *before.keys().next().unwrap();
        let conduct = |hop: &RingKey| if *hop == bad_hop { bad } else { Conduct::Carry };
        sender.shares(conduct);
        // Some seconds later it is known what was taken on and lost.
        sender.pass(LOST, conduct);
        let after = sender.shares(conduct);
        let of_bad = after.get(&bad_hop).copied().unwrap_or(0);
        let of_others = (after.values().sum::<usize>() - of_bad) / 8;
        assert!(
            of_bad * 4 <= of_others && before[&bad_hop] * 2 >= of_others,
            "{bad:?}: {of_bad} beside {of_others} of each other, at first {before:?}"
        );
        let honest = before.keys().filter(|key| **key != bad_hop);

        assert!(honest.clone().all(|key| after.contains_key(key)));
        // Once it brings answers it is chosen as often as any other again.
        for _ in 0..FORGIVING {
            sender.shares(|_| Conduct::Carry);
        }
        let forgiven = sender.shares(|_| Conduct::Carry);

        let of_others = honest.map(|key| forgiven.get(key).copied().unwrap_or(0));
        let of_others = of_others.sum::<usize>() / 8;
        let of_bad = forgiven.get(&bad_hop).copied().unwrap_or(0);
        assert!(
            of_bad * 3 >= of_others,
            "{bad:?}: {of_bad} beside {of_others} of each other"
        );
        sender.pass(LOST, |_| Conduct::Carry);
        assert_eq!(sender.arrived, (4 + FORGIVING) * MESSAGES);
    }
}
