//! A member with credentials: its group, its view, what it believes, and whom it convicts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_overlay::limits::{MAX_ACCUSED, MAX_CONVICTED};
use ringway_overlay::{
    Accusation, Chord, Config, Event, Membership, Message, Proof, RingKey, SignedHeader, Snapshot,
    Standing, Transmit, View,
};

use crate::{Notary, events, key, sent, start};

/// The view number `number` of member `n`, which says that `group` is its group.
pub(crate) fn view(n: u8, number: u64, group: &[u8]) -> View {
    let group = group.iter().map(|n| key(*n)).collect();
    View::sign(
        &Notary::new(key(n)),
        key(n),
        ([0; 16], number),
        None,
        2_000,
        group,
    )
}

/// Key 100 in a ring of which it knows 90 and 110, with credentials.
pub(crate) fn secure(now: Instant, notary: Notary) -> Chord {
    secure_with(now, notary, 1)
}

fn secure_with(now: Instant, notary: Notary, seed: u8) -> Chord {
    let config = Config {
        group: 5,
        ..Config::default()
    };
    let chord = Chord::new(key(100), config, [seed; 32]).expect("the settings are valid");
    let mut chord = chord.with_credentials(Box::new(notary), 7);
    let state = Snapshot {
        key: key(100),
        state: Membership::Member,
        predecessor: Some(key(90)),
        successors: vec![key(110)],
    };
    chord.restore(now, &state, Vec::new());
    chord.handle_timeout(now);
    chord
}

/// Answers every open question of `chord` for a view with those of `views`, until it has none.
pub(crate) fn give_views(chord: &mut Chord, now: Instant, views: &[View]) -> Vec<RingKey> {
    let mut asked = Vec::new();
    loop {
        let questions = sent(chord).into_iter().filter_map(|t| match t.message {
            Message::GetView { id, .. } => Some((t.to, id)),
            _ => None,
        });
        let questions: Vec<(RingKey, u64)> = questions.collect();
        if questions.is_empty() {
            return asked;
        }
        for (to, id) in questions {
            asked.push(to);
            if let Some(view) = views.iter().find(|view| view.author() == to) {
                let view = view.clone();
                chord.handle_message(now, to, Message::ViewIs { id, view });
            }
        }
    }
}

fn group(chord: &Chord) -> Vec<u8> {
    chord.group().iter().map(|key| key.as_bytes()[0]).collect()
}

fn around_100() -> Vec<View> {
    vec![
        view(80, 1, &[60, 70, 80, 90, 100]),
        view(90, 1, &[70, 80, 90, 100, 110]),
        view(110, 1, &[90, 100, 110, 120, 130]),
        view(120, 1, &[100, 110, 120, 130, 140]),
    ]
}

#[test]
fn members_that_answer_form_the_stated_group() {
    let now = start();
    let mut chord = secure(now, Notary::new(key(100)));
    give_views(&mut chord, now, &around_100());
    assert_eq!(group(&chord), [80, 90, 100, 110, 120]);
    chord.handle_message(now, key(90), Message::GetView { id: 5, have: 0 });
    let later = now + Duration::from_secs(1);
    chord.handle_timeout(later);
    let announced = sent(&mut chord)
        .into_iter()
        .filter_map(|t| match t.message {
            Message::Announce { view } => Some((t.to, view)),
            _ => None,
        });
    let announced: Vec<(RingKey, View)> = announced.collect();
    assert_eq!(announced.len(), 4, "to each neighbour");
    let stated = &announced[0].1;
    assert!(stated.is_valid(&Notary::new(key(100))));
    assert_eq!(stated.group, chord.group());
    assert_eq!(stated.number() >> 32, 7, "the start it was told of");
}

#[test]
fn a_silent_member_is_not_in_the_group() {
    let now = start();
    let mut chord = secure(now, Notary::new(key(100)));
    let views: Vec<View> = around_100()
        .into_iter()
        .filter(|v| v.author() != key(110))
        .collect();
    let asked = give_views(&mut chord, now, &views);
    assert!(asked.contains(&key(110)));
    assert_eq!(group(&chord), [80, 90, 100]);
}

#[test]
fn views_that_do_not_hold_together_are_ignored() {
    let now = start();
    let expired = {
        let group = vec![key(90), key(100), key(110)];
        View::sign(
            &Notary::new(key(110)),
            key(110),
            ([0; 16], 1),
            None,
            0,
            group,
        )
    };
    let mut forged = view(110, 1, &[90, 100, 110]);
    forged.signed.signature[0] ^= 1;
    let mut other_content = view(110, 1, &[90, 100, 110]);
    other_content.group.pop();
    let unordered = view(110, 1, &[110, 90, 100, 95]);
    let without_author = view(110, 1, &[90, 100, 120]);
    let of_another = view(120, 1, &[100, 110, 120]);
    let all = [
        expired,
        forged,
        other_content,
        unordered,
        without_author,
        of_another,
    ];
    for (n, bad) in all.into_iter().enumerate() {
        let mut chord = secure(now, Notary::new(key(100)));
        let ids = sent(&mut chord)
            .into_iter()
            .filter_map(|t| match t.message {
                Message::GetView { id, .. } if t.to == key(110) => Some(id),
                _ => None,
            });
        let ids: Vec<u64> = ids.collect();
        assert_eq!(ids.len(), 1);
        let before = chord.counters().malformed;
        chord.handle_message(
            now,
            key(110),
            Message::ViewIs {
                id: ids[0],
                view: bad,
            },
        );
        assert_eq!(chord.counters().malformed, before + 1, "number {n}");
        assert_eq!(group(&chord), [100], "number {n}");
    }
}

#[test]
fn the_refused_are_never_asked() {
    let now = start();
    let mut notary = Notary::new(key(100));
    notary.refused = vec![key(80), key(120)];
    let mut chord = secure(now, notary);
    let asked = give_views(&mut chord, now, &around_100());
    assert!(!asked.contains(&key(80)) && !asked.contains(&key(120)));
    assert!(group(&chord).iter().all(|n| ![80, 120].contains(n)));
}

#[test]
fn two_signed_stories_convict_their_author() {
    let now = start();
    let mut chord = secure(now, Notary::new(key(100)));
    give_views(&mut chord, now, &around_100());
    events(&mut chord);
    // The same number, another group: a stranger was told so, and passes it on.
    let other = view(110, 1, &[90, 100, 110, 130, 140]).signed;
    chord.handle_message(now, key(200), Message::Witness { said: other });
    let proof = convicted_by(&mut chord).expect("it is convicted");
    assert_eq!(proof.guilty(), key(110));
    assert!(matches!(proof, Proof::TwoStories { first, second } if first.contradicts(&second)));
    assert!(!group(&chord).contains(&110));
    let told = sent(&mut chord)
        .into_iter()
        .filter(|t| matches!(t.message, Message::Evidence { .. }));
    let told: Vec<RingKey> = told.map(|t| t.to).collect();
    assert!(told.contains(&key(90)) && !told.contains(&key(110)));
    // From now on it is as if it were not there.
    // It is shown why, once a minute.
    let minute = now + Duration::from_secs(60);
    for (at, shown) in [(now, 1), (now, 0), (minute, 1)] {
        chord.handle_message(at, key(110), Message::Ping { id: 1 });
        let answers = sent(&mut chord);
        let shows = |t: &&Transmit| matches!(&t.message, Message::Evidence { accusation } if accusation.accused() == t.to);
        let count = answers.iter().filter(shows).count();
        assert_eq!((count, answers.len()), (shown, shown));
    }
    assert_eq!(chord.counters().from_convicted, 3);
}

/// By what the member has convicted somebody since this was last asked.
fn convicted_by(chord: &mut Chord) -> Option<Proof> {
    let events = events(chord).into_iter();
    let mut proofs = events.filter_map(|event| match event {
        Event::Convicted { member, proof } => {
            assert_eq!(proof.guilty(), member);
            Some(*proof)
        }
        _ => None,
    });
    proofs.next()
}

/// What member `accuser` says of the author of `first`.
fn accusation(accuser: u8, first: SignedHeader, second: SignedHeader) -> Box<Accusation> {
    let credentials = Notary::new(key(accuser));
    let accusation = Accusation::sign(&credentials, key(accuser), first, second);
    Box::new(accusation)
}

/// Two views of 200 that contradict each other.
fn two_stories() -> (SignedHeader, SignedHeader) {
    let story = |group: &[u8]| view(200, 3, group).signed;
    (story(&[200, 210]), story(&[190, 200]))
}

/// Pairs that an honest 200 may have signed, or has not.
fn no_contradictions() -> [(SignedHeader, SignedHeader); 4] {
    let (a, b) = two_stories();
    let mut forged = b;
    forged.signature[5] ^= 1;
    let later = view(200, 5, &[190, 200]).signed;
    let others = view(210, 3, &[200, 210]).signed;
    [(a, a), (a, forged), (a, later), (a, others)]
}

#[test]
fn evidence_convinces_each_member_that_checks_it() {
    let now = start();
    let (first, second) = two_stories();
    let mut chord = secure(now, Notary::new(key(100)));
    let accusation = accusation(90, first, second);
    chord.handle_message(now, key(90), Message::Evidence { accusation });
    let proof = convicted_by(&mut chord);
    assert_eq!(proof, Some(Proof::TwoStories { first, second }));
    // It tells the others in its own name.
    let mut told = sent(&mut chord)
        .into_iter()
        .filter_map(|t| match t.message {
            Message::Evidence { accusation } => Some(accusation),
            _ => None,
        });
    let said = told.next().expect("it tells others");
    assert_eq!(said.accuser, key(100));
    assert_eq!((said.first, said.second), (first, second));
    let mut other = secure(now, Notary::new(key(100)));
    other.recall(now, Proof::TwoStories { first, second });
    assert_eq!(other.convicted().count(), 1);
}

#[test]
fn no_member_convicts_itself() {
    let now = start();
    let mut chord = secure(now, Notary::new(key(100)));
    let (first, second) = (view(100, 3, &[100]).signed, view(100, 3, &[90, 100]).signed);
    let accusation = accusation(90, first, second);
    chord.handle_message(now, key(90), Message::Evidence { accusation });
    assert_eq!(chord.convicted().count(), 0);
    let accusation = accusation_of_me(100);
    chord.handle_message(now, key(90), Message::FalseAccusation { accusation });
    assert_eq!(chord.convicted().count(), 0);
}

/// Of 100, who has signed nothing of it.
fn accusation_of_me(accuser: u8) -> Box<Accusation> {
    let (mut first, mut second) = two_stories();
    (first.header.author, second.header.author) = (key(100), key(100));
    accusation(accuser, first, second)
}

#[test]
fn false_accusers_are_convicted_and_all_are_notified() {
    let now = start();
    let of_others = no_contradictions().map(|(first, second)| accusation(90, first, second));
    for (n, accusation) in of_others
        .into_iter()
        .chain([accusation_of_me(90)])
        .enumerate()
    {
        let mut chord = secure(now, Notary::new(key(100)));
        sent(&mut chord);
        let evidence = Message::Evidence {
            accusation: accusation.clone(),
        };
        chord.handle_message(now, key(90), evidence);
        let proof = convicted_by(&mut chord);
        assert_eq!(
            proof,
            Some(Proof::FalseAccusation(*accusation)),
            "number {n}"
        );
        assert_eq!(chord.counters().malformed, 1, "number {n}");
        let told = sent(&mut chord).into_iter();
        let mut told = told.filter(|t| matches!(t.message, Message::FalseAccusation { .. }));
        let told = told.next().expect("the others are told");
        // A member that receives it, from any other, finds the same.
        let mut other = secure(now, Notary::new(key(100)));
        other.handle_message(now, key(110), told.message);
        assert_eq!(convicted_by(&mut other), proof, "number {n}");
        // And no member needs to be notified again after a start.
        let mut later = secure(now, Notary::new(key(100)));
        later.recall(now, proof.expect("it is convicted"));
        assert_eq!(later.convicted().count(), 1, "number {n}");
    }
}

#[test]
fn an_accusation_in_another_name_convicts_no_member() {
    let now = start();
    for (first, second) in no_contradictions() {
        let mut chord = secure(now, Notary::new(key(100)));
        let mut accusation = accusation(90, first, second);
        accusation.accuser = key(110);
        for from in [90, 110] {
            let accusation = accusation.clone();
            chord.handle_message(now, key(from), Message::Evidence { accusation });
        }
        let again = Message::FalseAccusation { accusation };
        chord.handle_message(now, key(90), again);
        assert_eq!(chord.convicted().count(), 0);
        assert_eq!(chord.counters().malformed, 3);
    }
}

#[test]
fn a_right_accusation_makes_no_false_accuser() {
    let now = start();
    let (first, second) = two_stories();
    let right = accusation(90, first, second);
    let said = Message::FalseAccusation { accusation: right };
    let mut chord = secure(now, Notary::new(key(100)));
    chord.handle_message(now, key(110), said.clone());
    assert_eq!(chord.convicted().count(), 0);
    assert_eq!(chord.counters().malformed, 1);
    // Without a valid certificate of its author a signature cannot be verified: nothing follows.
    let mut notary = Notary::new(key(100));
    notary.refused = vec![key(200)];
    let mut chord = secure(now, notary);
    let mut forged = first;
    forged.header.number += 1;
    for (first, second) in [(first, second), (first, forged)] {
        let accusation = accusation(90, first, second);
        chord.handle_message(now, key(90), Message::Evidence { accusation });
    }
    chord.handle_message(now, key(110), said);
    assert_eq!(chord.convicted().count(), 0);
    assert_eq!(chord.counters().malformed, 0);
}

/// Of the accused and, if the accusation is false, of the accuser.
#[test]
fn convictions_wait_for_unknown_certificates() {
    let now = start();
    for (accuses, guilty) in [(two_stories(), 200), (no_contradictions()[1], 210)] {
        let mut notary = Notary::new(key(100));
        notary
            .certified
            .retain(|known| ![key(200), key(210)].contains(known));
        let mut chord = secure(now, notary);
        sent(&mut chord);
        let accuser = if guilty == 200 { 90 } else { 210 };
        let accusation = accusation(accuser, accuses.0, accuses.1);
        let said = match guilty {
            200 => Message::Evidence { accusation },
            _ => Message::FalseAccusation { accusation },
        };
        chord.handle_message(now, key(90), said);
        let mut asked_for = Vec::new();
        while let Some((id, members)) = certificates_asked_of(&mut chord, key(90)) {
            assert_eq!(chord.convicted().count(), 0);
            let certificates = members.iter().map(|key| (*key, key.as_bytes().to_vec()));
            let certificates = certificates.collect();
            chord.handle_message(now, key(90), Message::Certificates { id, certificates });
            asked_for.extend(members);
        }
        let expected = match guilty {
            200 => vec![key(200)],
            _ => vec![key(200), key(210)],
        };
        assert_eq!(asked_for, expected);
        let convicted: Vec<RingKey> = chord.convicted().map(|(member, _)| member).collect();
        assert_eq!(convicted, [key(guilty)]);
    }
}

/// A certificate can end, by the clock or by a statement, between the look at the member's standing
/// and the look at its signature.
#[test]
fn a_certificate_ending_meanwhile_makes_no_false_accuser() {
    let now = start();
    let (first, second) = two_stories();
    let right = accusation(90, first, second);
    let notary = Notary::new(key(100));
    notary.gone.lock().unwrap().ended.push(key(200));
    let mut chord = secure(now, notary);
    let accusation = right.clone();
    chord.handle_message(now, key(90), Message::Evidence { accusation });
    let said = Message::FalseAccusation { accusation: right };
    chord.handle_message(now, key(110), said);
    assert_eq!(chord.convicted().count(), 0);
    assert_eq!(chord.counters().malformed, 0);
}

/// Convicted members are not used, so their certificates are the first to be forgotten.
#[test]
fn a_convicted_members_certificate_is_requested_once() {
    let now = start();
    let (first, second) = two_stories();
    let notary = Notary::new(key(100));
    let gone = Arc::clone(&notary.gone);
    let mut chord = secure(now, notary);
    chord.recall(now, Proof::TwoStories { first, second });
    assert_eq!(chord.convicted().count(), 1);
    gone.lock().unwrap().evicted.push(key(200));
    sent(&mut chord);
    let accusation = accusation(90, first, second);
    chord.handle_message(now, key(110), Message::FalseAccusation { accusation });
    let asked = certificates_asked_of(&mut chord, key(110));
    let (id, members) = asked.expect("the accused's certificate is asked for");
    assert_eq!(members, [key(200)]);
    let nothing = Message::Certificates {
        id,
        certificates: Vec::new(),
    };
    chord.handle_message(now, key(110), nothing);
    assert_eq!(certificates_asked_of(&mut chord, key(110)), None);
    assert_eq!(chord.convicted().count(), 1);
}

#[test]
fn accusers_asked_for_certificates_are_bounded() {
    let now = start();
    let mut notary = Notary::new(key(100));
    notary.certified.retain(|known| *known != key(200));
    let mut chord = secure(now, notary);
    sent(&mut chord);
    let (first, second) = two_stories();
    let accuse = |chord: &mut Chord, accuser: u8| {
        let accusation = accusation(accuser, first, second);
        chord.handle_message(now, key(accuser), Message::Evidence { accusation });
        certificates_asked_of(chord, key(accuser)).map(|(id, _)| id)
    };
    let most = u8::try_from(MAX_ACCUSED).unwrap();
    let asked: Vec<_> = (1..=most).map(|by| accuse(&mut chord, by)).collect();
    assert!(asked.iter().all(Option::is_some), "{asked:?}");
    assert_eq!(accuse(&mut chord, most + 1), None);
    // An accuser that has answered makes room, also if it does not know.
    let nothing = Message::Certificates {
        id: asked[0].unwrap(),
        certificates: Vec::new(),
    };
    chord.handle_message(now, key(1), nothing);
    assert!(accuse(&mut chord, most + 1).is_some());
    assert_eq!(accuse(&mut chord, most + 2), None);
    assert_eq!(chord.convicted().count(), 0);
}

#[test]
fn past_the_bound_no_more_members_are_convicted() {
    let now = start();
    let liars: Vec<RingKey> = (0..=MAX_CONVICTED).map(liar).collect();
    let mut notary = Notary::new(key(100));
    notary.certified.splice(..0, liars.iter().copied());
    let mut chord = secure(now, notary);
    for liar in &liars {
        let story = |group: &[RingKey]| {
            let (notary, group) = (Notary::new(*liar), group.to_vec());
            View::sign(&notary, *liar, ([0; 16], 3), None, 2_000, group).signed
        };
        let (first, second) = (story(&[key(200), *liar]), story(&[*liar, key(210)]));
        chord.recall(now, Proof::TwoStories { first, second });
        sent(&mut chord);
        events(&mut chord);
    }
    assert_eq!(chord.convicted().count(), MAX_CONVICTED);
    let mut answers = |member: &RingKey| {
        chord.handle_message(now, *member, Message::Ping { id: 1 });
        let mut sent = sent(&mut chord).into_iter();
        sent.any(|t| t.to == *member && matches!(t.message, Message::Pong { .. }))
    };
    assert!(!answers(&liars[0]));
    assert!(answers(&liars[MAX_CONVICTED]));
}

/// One of more members than there are keys of one byte.
fn liar(n: usize) -> RingKey {
    let mut bytes = [7; 32];
    bytes[1..3].copy_from_slice(&u16::try_from(n).unwrap().to_be_bytes());
    RingKey::from_bytes(bytes)
}

/// The question for certificates that the member has just sent to `to`.
fn certificates_asked_of(chord: &mut Chord, to: RingKey) -> Option<(u64, Vec<RingKey>)> {
    let mut questions = sent(chord).into_iter().filter_map(|t| match t.message {
        Message::GetCertificates { id, members } if t.to == to => Some((id, members)),
        _ => None,
    });
    questions.next()
}

#[test]
fn statements_contradict_by_number_or_by_chain() {
    let notary = Notary::new(key(1));
    let sign = |number, previous: Option<&View>, group: &[u8]| {
        let group = group.iter().map(|n| key(*n)).collect();
        View::sign(&notary, key(1), ([0; 16], number), previous, 2_000, group)
    };
    let first = sign(1, None, &[1, 2]);
    let second = sign(2, Some(&first), &[1, 3]);
    let other_first = sign(1, None, &[1, 4]);
    assert!(!first.signed.contradicts(&first.signed));
    assert!(!first.signed.contradicts(&second.signed));
    assert!(first.signed.contradicts(&other_first.signed));
    assert!(
        other_first.signed.contradicts(&second.signed),
        "second follows another"
    );
    assert!(
        second.signed.contradicts(&other_first.signed),
        "in either order"
    );
    // Two copies of one home, or a machine that was set back: no lie.
    let group = vec![key(1), key(4)];
    let copy = View::sign(&notary, key(1), ([1; 16], 1), None, 2_000, group.clone());
    assert!(!first.signed.contradicts(&copy.signed));
    let copy = View::sign(&notary, key(1), ([1; 16], 2), Some(&first), 2_000, group);
    assert!(!first.signed.contradicts(&copy.signed));
    let third = sign(3, Some(&second), &[1]);
    assert!(
        !other_first.signed.contradicts(&third.signed),
        "what is between is unknown"
    );
    // A new start begins a chain of its own.
    let last = sign((7 << 32) - 1, None, &[1, 2]);
    let restarted = sign(7 << 32, None, &[1, 3]);
    assert!(!last.signed.contradicts(&restarted.signed));
}

#[test]
fn a_named_stranger_has_to_be_proven() {
    let now = start();
    let mut notary = Notary::new(key(100));
    let stranger = key(115);
    notary.certified.retain(|known| *known != stranger);
    assert_eq!(
        ringway_overlay::Credentials::standing(&notary, &stranger),
        Standing::Unknown
    );
    let mut chord = secure(now, notary);
    give_views(&mut chord, now, &around_100());
    events(&mut chord);
    chord.lookup(now, key(200)).expect("it is in the ring");
    let mut proofs = 0;
    for _ in 0..20 {
        for transmit in sent(&mut chord) {
            let answer = match transmit.message {
                Message::GetNear { id, .. } => {
                    let members = vec![key(110), stranger, key(120)];
                    Message::Near { id, members }
                }
                Message::GetCertificates { id, members } => {
                    assert_eq!(members, [stranger]);
                    proofs += 1;
                    let certificates = vec![(stranger, stranger.as_bytes().to_vec())];
                    Message::Certificates { id, certificates }
                }
                Message::GetView { id, .. } => {
                    let n = transmit.to.as_bytes()[0];
                    let view = view(n, 5, &[110, 115, 120]);
                    if ![110, 115, 120].contains(&n) {
                        continue;
                    }
                    Message::ViewIs { id, view }
                }
                _ => continue,
            };
            chord.handle_message(now, transmit.to, answer);
        }
    }
    assert!(proofs >= 1);
    let found = events(&mut chord)
        .into_iter()
        .find_map(|event| match event {
            Event::LookupDone { group, .. } => Some(group),
            _ => None,
        });
    assert!(found.is_some_and(|group| group.contains(&stranger)));
}

/// Answers everything: around any point with `liars`, of whom each says that these are its group.
fn lie(chord: &mut Chord, now: Instant, liars: &[u8]) {
    for _ in 0..100 {
        for transmit in sent(chord) {
            let from = transmit.to;
            let answer = match transmit.message {
                Message::GetNear { id, .. } => {
                    let members = liars.iter().map(|n| key(*n)).collect();
                    Message::Near { id, members }
                }
                Message::GetView { id, .. } => {
                    let n = from.as_bytes()[0];
                    if !liars.contains(&n) {
                        continue;
                    }
                    let view = view(n, 9, liars);
                    Message::ViewIs { id, view }
                }
                _ => continue,
            };
            chord.handle_message(now, from, answer);
        }
    }
}

#[test]
fn an_answer_thinner_than_the_ring_is_unverified() {
    // A ring of 256; key 100 knows its neighbours and the groups around its fingers' points.
    let now = start();
    for (liars, verified) in [
        ([190, 205, 215, 225, 235], false),
        ([198, 199, 200, 201, 202], true),
    ] {
        let config = Config {
            group: 5,
            ..Config::default()
        };
        let chord = Chord::new(key(100), config, [1; 32]).expect("the settings are valid");
        let mut chord = chord.with_credentials(Box::new(Notary::new(key(100))), 7);
        let state = Snapshot {
            key: key(100),
            state: Membership::Member,
            predecessor: Some(key(99)),
            successors: vec![key(101), key(102), key(103)],
        };
        let around = |point: &RingKey| -> Vec<RingKey> {
            let n = point.as_bytes()[0];
            (0..5)
                .map(|k| key(n.wrapping_add(k).wrapping_sub(2)))
                .collect()
        };
        let points = chord.finger_points(1.0 / 256.0).into_iter();
        let fingers = points.map(|(offset, point)| (offset, around(&point)));
        chord.restore(now, &state, fingers.collect());
        chord.handle_timeout(now);
        let neighbours: Vec<View> = (97..=103_u8)
            .filter(|n| *n != 100)
            .map(|n| view(n, 1, &[n - 2, n - 1, n, n + 1, n + 2]))
            .collect();
        give_views(&mut chord, now, &neighbours);
        events(&mut chord);
        chord.lookup(now, key(200)).expect("it is in the ring");
        lie(&mut chord, now, &liars);
        let done = events(&mut chord)
            .into_iter()
            .find_map(|event| match event {
                Event::LookupDone {
                    verified,
                    questions,
                    ..
                } => Some((verified, questions)),
                _ => None,
            });
        let (called, questions) = done.expect("it ends");
        assert_eq!(called, verified, "{liars:?}");
        // One way is enough if all is well; otherwise all three are taken.
        assert!(
            (questions > 20) != verified,
            "{liars:?}: {questions} questions"
        );
    }
}

/// The view that `chord` states next, or its latest one.
fn stated(chord: &mut Chord, now: Instant) -> View {
    chord.handle_timeout(now);
    sent(chord);
    chord.handle_message(now, key(90), Message::GetView { id: 5, have: 0 });
    let mut views = sent(chord).into_iter().filter_map(|t| match t.message {
        Message::ViewIs { view, .. } => Some(view),
        _ => None,
    });
    views.next().expect("it has a view")
}

#[test]
fn two_copies_of_one_home_are_not_convicted() {
    let now = start();
    let later = now + Duration::from_secs(1);
    let copies = [1, 2].map(|seed| {
        let mut chord = secure_with(now, Notary::new(key(100)), seed);
        // They hear different neighbours.
        let heard = &around_100()[usize::from(seed)..];
        give_views(&mut chord, now, heard);
        stated(&mut chord, later)
    });
    assert_eq!(copies[0].number(), copies[1].number());
    assert_ne!(copies[0].group, copies[1].group);
    let mut judge = secure(now, Notary::new(key(90)));
    for view in copies {
        judge.handle_message(now, key(100), Message::Announce { view });
    }
    assert_eq!(convicted_by(&mut judge), None);
}

#[test]
fn later_views_known_elsewhere_begin_a_new_start() {
    let now = start();
    let mut chord = secure(now, Notary::new(key(100)));
    give_views(&mut chord, now, &around_100());
    let mut at = now + Duration::from_secs(1);
    let before = stated(&mut chord, at);
    // It was set back: a neighbour has a view that it does not know of.
    let have = before.number() + 3;
    chord.handle_message(at, key(90), Message::GetView { id: 6, have });
    // A neighbour that only says so, again and again, or names a number of the far future, changes
    // nothing.
    for have in [have + (3 << 32), have + (5 << 32), u64::MAX] {
        chord.handle_message(at, key(90), Message::GetView { id: 7, have });
    }
    at += Duration::from_secs(1);
    let after = stated(&mut chord, at);
    assert!(after.number() > have, "newer than what others have");
    assert_ne!(after.signed.header.start, before.signed.header.start);
    assert_eq!(after.signed.header.previous, [0; 32]);
    assert_eq!(chord.counters().started_over, 1);
    at += Duration::from_secs(70);
    chord.handle_message(
        at,
        key(90),
        Message::GetView {
            id: 8,
            have: u64::MAX,
        },
    );
    assert_eq!(chord.counters().started_over, 1);
}

#[test]
fn a_clock_step_begins_a_new_start() {
    let now = start();
    let notary = Notary::new(key(100));
    let gone = Arc::clone(&notary.gone);
    let mut chord = secure(now, notary);
    give_views(&mut chord, now, &around_100());
    let before = stated(&mut chord, now + Duration::from_secs(1));
    gone.lock().unwrap().ahead = 600;
    let after = stated(&mut chord, now + Duration::from_secs(400));
    assert_ne!(after.signed.header.start, before.signed.header.start);
    assert!(after.number() >> 32 > before.number() >> 32);
}

#[test]
fn own_conviction_is_reported_once() {
    let now = start();
    let mut chord = secure(now, Notary::new(key(100)));
    let story = |group: &[u8]| view(100, 3, group).signed;
    let (first, second) = (story(&[100, 110]), story(&[90, 100]));
    for _ in 0..2 {
        let accusation = accusation(90, first, second);
        chord.handle_message(now, key(90), Message::Evidence { accusation });
    }
    let own = events(&mut chord)
        .into_iter()
        .filter_map(|event| match event {
            Event::OwnConviction(proof) => Some(*proof),
            _ => None,
        });
    assert_eq!(
        own.collect::<Vec<_>>(),
        [Proof::TwoStories { first, second }]
    );
    assert_eq!(chord.counters().malformed, 0);
}
