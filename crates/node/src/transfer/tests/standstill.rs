//! Content that stands still: it goes on where it stopped while there is room, and makes way for others.

use super::*;
use crate::limits::ACTIVE_RECEIVES_PER_MEMBER;
use crate::transfer::patience::Patience;

/// Far longer than what is always given.
const STANDSTILL: Duration = Duration::from_secs(1);

fn patience(with_room: Duration) -> Patience {
    Patience {
        always: STANDSTILL / 5,
        with_room,
        look: STANDSTILL / 20,
    }
}

/// Transfers that stand still for as long as a test takes while there is room.
fn patient() -> Bench {
    bench_with(true, patience(2 * PATIENCE))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_still_goes_on_by_the_same_connection_while_there_is_room() {
    let bench = patient();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s"), vec![1; 3_000_000]).unwrap();
    let source = Source::open(&folder.path().join("s"), &folder.path().join("s.tree")).unwrap();
    let connection = bench.connect().await;
    let (mut sink, mut answers) = connection.open_bi().await.unwrap();
    let offer = Frame::Offer(Offer {
        id: [3; 16].into(),
        file: "f.bin".to_owned(),
        size: source.size,
        hash: (*source.hash.as_bytes()).into(),
    });
    offer.write(&mut sink).await.unwrap();
    let Frame::Accept { missing, .. } = Frame::read(&mut answers).await.unwrap() else {
        panic!("not accepted");
    };
    let mut bytes = Vec::new();
    source
        .encode(&from_wire(&missing).unwrap(), &mut bytes)
        .unwrap();
    // Neither part ends where a block does.
    let (before, after) = bytes.split_at(1_000_001);
    sink.write_all(before).await.unwrap();
    tokio::time::sleep(STANDSTILL).await;
    assert_eq!(bench.transfers.list().remove(0).state, "active");
    sink.write_all(after).await.unwrap();
    sink.finish().unwrap();
    let answer = timeout(PATIENCE, Frame::read(&mut answers)).await.unwrap();
    assert!(matches!(answer, Ok(Frame::Finished)), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_still_makes_way_once_half_of_the_places_are_taken() {
    let bench = patient();
    let mut held = Vec::new();
    for id in 0..ACTIVE_RECEIVES_PER_MEMBER {
        let connection = bench.connect().await;
        let (sink, answer) = offer(&connection, id.try_into().unwrap()).await;
        let accepted = matches!(answer, Frame::Accept { .. });
        assert!(accepted, "{answer:?}");
        held.push((connection, sink));
    }
    let active = || {
        let all = bench.transfers.list();
        all.iter().filter(|each| each.state == "active").count()
    };
    eventually("half of them make way", || {
        active() <= ACTIVE_RECEIVES_PER_MEMBER / 2
    })
    .await;
    tokio::time::sleep(STANDSTILL).await;
    assert!(active() > 0, "there is room for half of them");
    let (_sink, answer) = offer(&bench.connect().await, 1_000).await;
    assert!(matches!(answer, Frame::Accept { .. }), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_waits_for_who_takes_nothing_and_ends_the_attempt_when_it_is_time() {
    for (with_room, goes_on) in [(2 * PATIENCE, true), (STANDSTILL, false)] {
        let bench = bench_with(true, patience(with_room));
        let (id, connection, _sink, _stream) = accepted(&bench, 40 << 20).await;
        let status = || bench.transfers.status(&id).unwrap().0;
        if goes_on {
            tokio::time::sleep(STANDSTILL).await;
            assert_eq!(status().state, "active");
            assert!(connection.close_reason().is_none());
        } else {
            let reason = || status().reason.unwrap_or_default();
            eventually("it waits", || reason() == "the peer takes nothing").await;
        }
    }
}
