//! Whom a lookup asks about what, and whom it believes: key 100 in a ring that has a member at each
//! key.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringway_overlay::limits::{MAX_LOOKUPS, MAX_RECORD_OPERATIONS, MAX_REQUESTS};
use ringway_overlay::{Chord, Event, Message, RingKey, Transmit, View};

use crate::{Notary, around, events, in_a_full_ring, key, sent, start};

const ME: u8 = 100;
/// Whose point is looked up: no group that is known at first reaches over it.
const OWNER: u8 = 205;
/// Liars name malicious members only, which stand so far from each other, and none near the point.
const BETWEEN: u8 = 32;
const FIRST: u8 = 28;
const SEEDS: u8 = 20;
/// Resolution of time.
const STEP: Duration = Duration::from_millis(1);
/// A lookup that takes longer has failed.
const LONGEST: u32 = 60_000;

/// What came of a lookup.
struct Looked {
    owner: Option<RingKey>,
    verified: bool,
    /// Who was asked who stands around which point, in order.
    asked: Vec<(RingKey, RingKey)>,
    /// Whom what was said on the way is told to, and who said it.
    told: Vec<(RingKey, RingKey)>,
}

/// Looks the owner up. Of those who are asked about a point on the way the first `liars` name
/// malicious members only.
fn look_up(seed: u8, liars: usize) -> Looked {
    look_up_and_tell(seed, liars, 0.0)
}

/// The same, notice_of this share of what was said.
fn look_up_and_tell(seed: u8, liars: usize, witness_share: f64) -> Looked {
    let mut now = start();
    let (mut chord, _) = in_a_full_ring(now, seed, witness_share, around);
    let mut target = [0x80; 32];
    target[0] = OWNER - 1;
    chord.lookup(now, RingKey::from_bytes(target)).unwrap();
    let mut before = BTreeMap::<RingKey, usize>::new();
    let mut looked = Looked {
        owner: None,
        verified: false,
        asked: Vec::new(),
        told: Vec::new(),
    };
    for _ in 0..LONGEST {
        // What follows from its end is sent afterwards.
        let ended = looked.owner.is_some();
        chord.handle_timeout(now);
        for transmit in sent(&mut chord) {
            let by = transmit.to.as_bytes()[0];
            let answer = match transmit.message {
                Message::GetNear { id, point } => {
                    looked.asked.push((transmit.to, point));
                    let before = before.entry(point).or_default();
                    *before += 1;
                    let members = if *before <= liars {
                        malicious()
                    } else {
                        around(&point)
                    };
                    Message::Near { id, members }
                }
                Message::GetView { id, .. } => Message::ViewIs { id, view: view(by) },
                Message::Ping { id } => Message::Pong { id, member: true },
                Message::GetState { id } => Message::State {
                    id,
                    predecessor: Some(key(by.wrapping_sub(1))),
                    successors: (1..=3).map(|n| key(by.wrapping_add(n))).collect(),
                },
                Message::Witness { said } => {
                    looked.told.push((transmit.to, said.header.author));
                    continue;
                }
                _ => continue,
            };
            chord.handle_message(now, transmit.to, answer);
        }
        for event in events(&mut chord) {
            if let Event::LookupDone {
                owner, verified, ..
            } = event
            {
                looked.owner = Some(owner);
                looked.verified = verified;
            }
        }
        if ended {
            return looked;
        }
        now += STEP;
    }
    looked
}

/// The group of a malicious member is of malicious ones, too.
fn view(by: u8) -> View {
    let author = key(by);
    let mut group = if by % BETWEEN == FIRST {
        malicious()
    } else {
        around(&author)
    };
    group.sort_unstable();
    View::sign(
        &Notary::new(author),
        author,
        ([0; 16], 1),
        None,
        2_000,
        group,
    )
}

fn malicious() -> Vec<RingKey> {
    let all = (0..=255).filter(|n| n % BETWEEN == FIRST);
    all.map(key).collect()
}

#[test]
fn of_three_who_are_asked_two_may_lie() {
    let mut misled = 0;
    for seed in 1..=SEEDS {
        let truly = look_up(seed, 0);
        assert_eq!((truly.owner, truly.verified), (Some(key(OWNER)), true));
        assert!(truly.asked.len() > 3, "more than one step is asked");
        let among_liars = look_up(seed, 2);
        let found = (among_liars.owner, among_liars.verified);
        assert_eq!(found, (Some(key(OWNER)), true), "seed {seed}");
        // Neither where it goes on nor whom it asks there is for them to say.
        assert_eq!(among_liars.asked, truly.asked, "seed {seed}");
        let by_liars_alone = look_up(seed, usize::MAX);
        misled += usize::from(by_liars_alone.owner != Some(key(OWNER)));
    }
    assert!(misled > 0, "where all lie somebody is misled");
}

#[test]
fn views_met_by_lookups_reach_their_authors_neighbours() {
    let (mut all, mut some) = (0, 0);
    for seed in 1..=SEEDS {
        assert_eq!(look_up_and_tell(seed, 0, 0.0).told, []);
        let told = look_up_and_tell(seed, 0, 1.0).told;
        assert!(!told.is_empty());
        for (to, author) in &told {
            assert!(to != author && *to != key(ME));
            // The lookup's last group has nine members, the author among them.
            let apart = to.as_bytes()[0].wrapping_sub(author.as_bytes()[0]);
            assert!(apart <= 8 || apart >= 248, "{to} of {author}");
        }
        all += told.len();
        some += look_up_and_tell(seed, 0, 0.5).told.len();
    }
    assert!((all / 4..all).contains(&some), "{some} of {all}");
}

/// It has no request of its own to wait for: it goes on once those of others have ended, and does
/// not wait for its time limit.
#[test]
fn a_lookup_without_room_goes_on_later() {
    let mut now = start();
    let (mut chord, _) = in_a_full_ring(now, 1, 0.0, around);
    // Until it knows its group.
    for _ in 0..1_000 {
        chord.handle_timeout(now);
        sent(&mut chord)
            .iter()
            .for_each(|asked| answer(&mut chord, now, asked));
        now += STEP;
    }
    // Within the own group: its eight others are asked at once.
    let near = |n: usize| {
        let mut point = [u8::try_from(n % 256).unwrap(); 32];
        (point[0], point[1]) = (ME - 3, u8::try_from(n / 256).unwrap());
        RingKey::from_bytes(point)
    };
    for n in 0..MAX_RECORD_OPERATIONS {
        chord.get(now, near(n)).unwrap();
    }
    for n in 1..MAX_LOOKUPS {
        chord.lookup(now, near(n)).unwrap();
    }
    let mut open = views_asked(&mut chord);
    // Each answer names two more around the point, who are asked.
    while open.len() < MAX_REQUESTS {
        let first = open.iter().position(|transmit| transmit.to == key(ME - 3));
        answer(&mut chord, now, &open.remove(first.unwrap()));
        open.extend(views_asked(&mut chord));
    }
    let last = chord.lookup(now, near(0)).unwrap();
    assert_eq!(views_asked(&mut chord), []);
    while !open.is_empty() {
        for transmit in std::mem::take(&mut open) {
            answer(&mut chord, now, &transmit);
            open.extend(views_asked(&mut chord));
        }
    }
    let ends = events(&mut chord);
    let done = |event: &Event| matches!(event, Event::LookupDone { id, .. } if *id == last);
    assert!(ends.iter().any(done), "{}", ends.len());
}

fn views_asked(chord: &mut Chord) -> Vec<Transmit> {
    let asks = |transmit: &Transmit| matches!(transmit.message, Message::GetView { .. });
    sent(chord).into_iter().filter(asks).collect()
}

/// Answers as an honest member does that is asked when it is at rest.
fn answer(chord: &mut Chord, now: Instant, asked: &Transmit) {
    let (author, by) = (asked.to, asked.to.as_bytes()[0]);
    let answer = match asked.message {
        Message::GetNear { id, point } => Message::Near {
            id,
            members: around(&point),
        },
        Message::GetView { id, .. } => Message::ViewIs {
            id,
            view: View::sign(
                &Notary::new(author),
                author,
                ([0; 16], 1),
                None,
                2_000,
                around(&author),
            ),
        },
        Message::Ping { id } => Message::Pong { id, member: true },
        Message::GetState { id } => Message::State {
            id,
            predecessor: Some(key(by.wrapping_sub(1))),
            successors: (1..=3).map(|n| key(by.wrapping_add(n))).collect(),
        },
        _ => return,
    };
    chord.handle_message(now, author, answer);
}
