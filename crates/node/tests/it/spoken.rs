//! Joining by a spoken invite, and what those who are in between, or guess, get for it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ringway_node::authority::InviteOptions;
use ringway_node::certificate::Role;
use ringway_node::enrol::{JoinError, JoinOptions, Joined, Refusal, join, join_with};
use ringway_node::limits::{SPOKEN_SOURCE_RATE, SPOKEN_TRIES};
use ringway_node::state::State;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::place::Place;

/// What the first frame of a member and of the authority are, by length.
const HELLO: usize = 16 + 4 + 33;

/// Where the ring's identity stands in the authority's answer, and its share.
const RING: std::ops::Range<usize> = 1..33;
const SHARE: std::ops::Range<usize> = 33..66;

fn at(place: &Place) -> JoinOptions {
    JoinOptions {
        at: Some(place.enrol.into()),
        ..JoinOptions::default()
    }
}

async fn try_join(place: &Place, home: &str, invite: &str) -> Result<Joined, JoinError> {
    join_with(&place.home(home), invite, &at(place)).await
}

/// The same invite with another last word.
fn misheard(invite: &str) -> String {
    let (code, domain) = invite.split_once('@').unwrap();
    let (rest, last) = code.rsplit_once('-').unwrap();
    let other = if last == "ragtime" { "zulu" } else { "ragtime" };
    format!("{rest}-{other}@{domain}")
}

fn refusal(result: Result<Joined, JoinError>) -> Refusal {
    match result {
        Err(JoinError::Spoken { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

fn is_member(place: &Place, home: &str) -> bool {
    let state = State::open(&place.home(home)).unwrap();
    state.membership().unwrap().is_some()
}

/// Besides it only the ring's DNS is needed.
#[tokio::test]
async fn invite_read_aloud_is_enough_to_join() {
    let place = Place::new();
    let _serving = place.serve().await;
    let invite = place.spoken("alice", 600);
    let options = JoinOptions {
        resolver: Some(place.dns.into()),
        ..JoinOptions::default()
    };
    let typed = invite.to_ascii_uppercase().replace('-', " ");
    let alice = join_with(&place.home("alice"), &typed, &options)
        .await
        .unwrap();
    assert_eq!(
        (alice.name.as_str(), alice.ring.as_str()),
        ("alice", "ring.test")
    );
    let membership = State::open(&place.home("alice"))
        .unwrap()
        .membership()
        .unwrap();
    assert_eq!(
        membership.unwrap().ring,
        place.authority().ring().ring.parse().unwrap()
    );
    // No other machine can use it; the same one can, if it was cut off before it had its
    // certificate.
    let thief = try_join(&place, "thief", &invite).await.unwrap_err();
    assert!(thief.to_string().contains("used already"), "{thief}");
    for _ in 0..=SPOKEN_TRIES {
        for file in ["state.db", "state.db-wal", "state.db-shm", "ringway.toml"] {
            std::fs::remove_file(place.home("alice").join(file)).unwrap_or_default();
        }
        let again = try_join(&place, "alice", &invite).await.unwrap();
        assert_eq!(again.member, alice.member);
    }
    assert_eq!(place.authority().members().unwrap().len(), 1);
}

/// An invite has a long form and a spoken one, and each works.
#[tokio::test]
async fn use_of_one_form_spends_both() {
    let place = Place::new();
    let _serving = place.serve().await;
    let options = InviteOptions {
        name: "alice".to_owned(),
        role: Role::Leaf,
        valid_for: std::time::Duration::from_secs(60),
        spoken: true,
    };
    let invite = place.authority().invite(&options).unwrap();
    let (long, spoken) = (invite.to_string(), invite.spoken().unwrap());
    join(&place.home("alice"), &long, None).await.unwrap();
    let thief = try_join(&place, "thief", &spoken).await.unwrap_err();
    assert!(thief.to_string().contains("used already"), "{thief}");
}

/// They burn it for good; the long form still works.
#[tokio::test]
async fn wrong_words_burn_only_the_spoken_form() {
    let place = Place::new();
    let serving = place.serve().await;
    let options = InviteOptions {
        name: "alice".to_owned(),
        role: Role::Leaf,
        valid_for: std::time::Duration::from_secs(60),
        spoken: true,
    };
    let invite = place.authority().invite(&options).unwrap();
    let (long, spoken) = (invite.to_string(), invite.spoken().unwrap());
    let wrong = misheard(&spoken);
    for left in (1..SPOKEN_TRIES).rev() {
        let refused = refusal(try_join(&place, "mallory", &wrong).await);
        assert_eq!(refused, Refusal::Wrong { left });
    }
    // A restart forgets nothing.
    drop(serving);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let _serving = place.serve().await;
    let last = refusal(try_join(&place, "mallory", &wrong).await);
    assert_eq!(last, Refusal::Wrong { left: 0 });
    assert_eq!(
        refusal(try_join(&place, "mallory", &wrong).await),
        Refusal::Burnt
    );
    // Also for the right words.
    assert_eq!(
        refusal(try_join(&place, "alice", &spoken).await),
        Refusal::Burnt
    );
    let open = place.authority().invites().open().unwrap();
    assert!(
        open[0].burnt && open[0].wrong_tries == SPOKEN_TRIES,
        "{open:?}"
    );
    assert!(!is_member(&place, "mallory"));
    join(&place.home("alice"), &long, None).await.unwrap();
}

#[tokio::test]
async fn simultaneous_guesses_are_counted_one_by_one() {
    let place = Place::new();
    let _serving = place.serve().await;
    let wrong = misheard(&place.spoken("alice", 600));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..SPOKEN_SOURCE_RATE.burst {
        let (home, wrong) = (place.home(&format!("mallory{number}")), wrong.clone());
        let options = at(&place);
        tasks.spawn(async move { refusal(join_with(&home, &wrong, &options).await) });
    }
    let refusals = tasks.join_all().await;
    let looked_at = refusals
        .iter()
        .filter(|r| matches!(r, Refusal::Wrong { .. }))
        .count();
    assert_eq!(looked_at, usize::from(SPOKEN_TRIES), "{refusals:?}");
}

#[tokio::test]
async fn guesses_past_the_source_rate_burn_nothing() {
    let place = Place::new();
    let _serving = place.serve().await;
    let (first, second) = (place.spoken("alice", 600), place.spoken("bob", 600));
    for tried in 0..SPOKEN_SOURCE_RATE.burst {
        let wrong = if tried < 3 { &first } else { &second };
        let refused = refusal(try_join(&place, "mallory", &misheard(wrong)).await);
        assert!(matches!(refused, Refusal::Wrong { .. }), "{refused:?}");
    }
    for _ in 0..5 {
        let refused = refusal(try_join(&place, "mallory", &misheard(&second)).await);
        assert_eq!(refused, Refusal::Busy);
    }
    let open = place.authority().invites().open().unwrap();
    let bob = open.iter().find(|invite| invite.name == "bob").unwrap();
    assert_eq!((bob.wrong_tries, bob.burnt), (2, false));
}

#[tokio::test]
async fn right_ones_do_not_count_as_wrong() {
    let place = Place::new();
    let _serving = place.serve().await;
    for number in 0..2 * SPOKEN_SOURCE_RATE.burst {
        let name = format!("member{number}");
        let invite = place.spoken(&name, 600);
        try_join(&place, &name, &invite).await.unwrap();
    }
}

#[tokio::test]
async fn each_failure_says_what_it_is() {
    let place = Place::new();
    let expired = place.spoken("alice", 1);
    let unserved = try_join(&place, "alice", &expired).await.unwrap_err();
    assert!(unserved.to_string().contains("ring serve"), "{unserved}");
    let _serving = place.serve().await;
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    assert_eq!(
        refusal(try_join(&place, "alice", &expired).await),
        Refusal::Expired
    );
    let withdrawn = place.spoken("bob", 600);
    let newer = place.spoken("bob", 600);
    assert_eq!(
        refusal(try_join(&place, "bob", &withdrawn).await),
        Refusal::Unknown
    );
    let code = newer.split('@').next().unwrap().to_owned();
    let nowhere = join(&place.home("bob"), &code, None).await.unwrap_err();
    assert!(
        nowhere.is_usage() && nowhere.to_string().contains("--at"),
        "{nowhere}"
    );
    let other = try_join(&place, "bob", &format!("{code}@other.test"))
        .await
        .unwrap_err();
    assert!(
        other.is_usage() && other.to_string().contains("ring.test"),
        "{other}"
    );
    let options = JoinOptions {
        resolver: Some(place.dns.into()),
        ..JoinOptions::default()
    };
    let elsewhere = join_with(&place.home("bob"), &format!("{code}@else.test"), &options).await;
    let elsewhere = elsewhere.unwrap_err().to_string();
    assert!(
        elsewhere.contains("DNS does not say where else.test enrols"),
        "{elsewhere}"
    );
    // None of that has cost a try.
    assert!(
        place
            .authority()
            .invites()
            .open()
            .unwrap()
            .iter()
            .all(|invite| invite.wrong_tries == 0)
    );
    try_join(&place, "bob", &code).await.unwrap();
}

#[tokio::test]
async fn right_words_after_the_last_try_are_refused() {
    let place = Place::new();
    let _serving = place.serve().await;
    let invite = place.spoken("alice", 600);
    // Everything is said but the member's proof; that one waits.
    let proof = Arc::new(Semaphore::new(0));
    let options = relay(&place, Arc::new(|_, _, _| ()), Some(Arc::clone(&proof))).await;
    let (home, said) = (place.home("alice"), invite.clone());
    let waiting = tokio::spawn(async move { join_with(&home, &said, &options).await });
    // The order does not decide: it only has others try while this one is under way.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    for _ in 0..SPOKEN_TRIES {
        refusal(try_join(&place, "mallory", &misheard(&invite)).await);
    }
    proof.add_permits(1);
    assert_eq!(refusal(waiting.await.unwrap()), Refusal::Burnt);
    assert!(place.authority().members().unwrap().is_empty());
}

type Change = Arc<dyn Fn(bool, usize, &mut Vec<u8>) + Send + Sync>;

/// Somebody in between, who may change each frame: `change(from the member, its number, frame)`,
/// and holds the member's second one back.
async fn relay(place: &Place, change: Change, hold: Option<Arc<Semaphore>>) -> JoinOptions {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = JoinOptions {
        at: Some(listener.local_addr().unwrap().into()),
        ..JoinOptions::default()
    };
    let authority = place.enrol;
    tokio::spawn(async move {
        loop {
            let (member, _) = listener.accept().await.unwrap();
            let authority = TcpStream::connect(authority).await.unwrap();
            let (from_member, to_member) = member.into_split();
            let (from_authority, to_authority) = authority.into_split();
            let held = pass(
                from_member,
                to_authority,
                (true, hold.clone()),
                change.clone(),
            );
            tokio::spawn(held);
            tokio::spawn(pass(
                from_authority,
                to_member,
                (false, None),
                change.clone(),
            ));
        }
    });
    options
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    (of_member, hold): (bool, Option<Arc<Semaphore>>),
    change: Change,
) -> Option<()> {
    for number in 0.. {
        let length = from.read_u16().await.ok()?;
        let mut frame = vec![0; usize::from(length)];
        from.read_exact(&mut frame).await.ok()?;
        change(of_member, number, &mut frame);
        if let (Some(hold), 1) = (&hold, number) {
            hold.acquire().await.ok()?.forget();
        }
        to.write_u16(u16::try_from(frame.len()).unwrap())
            .await
            .ok()?;
        to.write_all(&frame).await.ok()?;
    }
    None
}

#[tokio::test]
async fn relay_learns_nothing_and_changes_are_noticed() {
    let place = Place::new();
    let mallory = Place::new();
    let _serving = place.serve().await;
    let other: ringway_transport::MemberId = mallory.authority().ring().ring.parse().unwrap();
    let put_ring = move |_: bool, number: usize, frame: &mut Vec<u8>| {
        if number == 0 && frame.len() != HELLO {
            frame[RING].copy_from_slice(other.as_bytes());
        }
    };
    let put_domain = |_: bool, number: usize, frame: &mut Vec<u8>| {
        if number == 0 && frame.len() != HELLO {
            frame.extend_from_slice(b"x");
        }
    };
    let flip_share = |of_member: bool, number: usize, frame: &mut Vec<u8>| {
        if !of_member && number == 0 {
            frame[SHARE.end - 32] ^= 1;
        }
    };
    let renumber = |of_member: bool, number: usize, frame: &mut Vec<u8>| {
        if of_member && number == 0 {
            frame[19] += 1;
        }
    };
    let changes: [(&str, Change); 4] = [
        ("ring", Arc::new(put_ring)),
        ("domain", Arc::new(put_domain)),
        ("share", Arc::new(flip_share)),
        ("number", Arc::new(renumber)),
    ];
    for (what, change) in changes {
        // A source's wrong tries are bounded, and these are some.
        let (invite, _next) = (place.spoken(what, 600), place.spoken("next", 600));
        let code = invite.split('@').next().unwrap();
        let options = relay(&place, change, None).await;
        let result = join_with(&place.home(what), code, &options).await;
        assert!(result.is_err(), "{what}: {result:?}");
        assert!(!is_member(&place, what), "{what}");
    }
    assert!(place.authority().members().unwrap().is_empty());

    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let listen = move |of_member: bool, _: usize, frame: &mut Vec<u8>| {
        record.lock().unwrap().push((of_member, frame.clone()));
    };
    let invite = place.spoken("alice", 600);
    let options = relay(&place, Arc::new(listen), None).await;
    join_with(&place.home("alice"), &invite, &options)
        .await
        .unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    replayed_to_the_authority(&place, &seen).await;
    replayed_to_a_member(&place, &invite, &seen).await;
}

type Seen = [(bool, Vec<u8>)];

fn said(seen: &Seen, by_member: bool) -> Vec<Vec<u8>> {
    let of = seen.iter().filter(|(member, _)| *member == by_member);
    of.map(|(_, frame)| frame.clone()).collect()
}

/// Everything that alice has said does not make anybody alice, nor is it answered with more than a
/// refusal.
async fn replayed_to_the_authority(place: &Place, seen: &Seen) {
    let mut stream = TcpStream::connect(place.enrol).await.unwrap();
    for frame in said(seen, true) {
        stream
            .write_u16(u16::try_from(frame.len()).unwrap())
            .await
            .unwrap();
        stream.write_all(&frame).await.unwrap();
    }
    let mut answered = Vec::new();
    stream.read_to_end(&mut answered).await.unwrap_or_default();
    let offer = 2 + said(seen, false)[0].len();
    assert_eq!(
        answered.len(),
        offer + 2 + 3,
        "an offer and a refusal: {answered:?}"
    );
}

/// Everything that the authority has said does not satisfy another run of the same invite.
async fn replayed_to_a_member(place: &Place, invite: &str, seen: &Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = JoinOptions {
        at: Some(listener.local_addr().unwrap().into()),
        ..JoinOptions::default()
    };
    let frames = said(seen, false);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for frame in frames {
            stream
                .write_u16(u16::try_from(frame.len()).unwrap())
                .await
                .unwrap();
            stream.write_all(&frame).await.unwrap();
        }
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap_or_default();
    });
    let result = join_with(&place.home("bob"), invite, &options).await;
    assert!(
        matches!(result, Err(JoinError::NotShown { .. })),
        "{result:?}"
    );
}

#[tokio::test]
async fn authority_without_the_words_gets_no_member() {
    let (place, mallory) = (Place::new(), Place::new());
    let _serving = mallory.serve().await;
    // It offers an invite of that number, with words of its own.
    let (invite, _guess) = (place.spoken("alice", 600), mallory.spoken("alice", 600));
    let result = join_with(&place.home("alice"), &invite, &at(&mallory)).await;
    assert!(matches!(refusal(result), Refusal::Wrong { .. }));
    assert!(!is_member(&place, "alice"));
    let configuration: PathBuf = place.home("alice").join("ringway.toml");
    assert!(!configuration.exists());
}
