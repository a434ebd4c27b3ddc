//! Content that stands still: it goes on where it stopped while there is room, and makes way for
//! others.

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
    bench_with(true, patience(2 * PATIENCE), None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_transfers_keep_their_connection() {
    let bench = patient();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s"), vec![1; 3_000_000]).unwrap();
    let source = Source::open(&folder.path().join("s"), &folder.path().join("s.tree")).unwrap();
    let connection = bench.connect().await;
    let (mut sink, mut answers, missing) = offer_source(&connection, &source).await;
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
async fn stalled_transfers_make_way_for_others() {
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
    let half = ACTIVE_RECEIVES_PER_MEMBER / 2;
    eventually("half of them make way", || active() <= half).await;
    tokio::time::sleep(STANDSTILL).await;
    assert_eq!(active(), half, "and no more than that");
    let (_sink, answer) = offer(&bench.connect().await, 1_000).await;
    assert!(matches!(answer, Frame::Accept { .. }), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capped_senders_keep_their_connection() {
    for (with_room, goes_on) in [(2 * PATIENCE, true), (STANDSTILL, false)] {
        // A block takes a minute.
        let bench = bench_with(true, patience(with_room), Some(1000));
        let (id, connection, _sink, _stream) = accepted(&bench, 40 << 20).await;
        let status = || bench.transfers.status(&id).unwrap().0;
        let limit = || status().limited_by;
        if goes_on {
            eventually("it is held back", || limit() == Some(LimitedBy::Capped)).await;
            tokio::time::sleep(STANDSTILL).await;
            assert_eq!(limit(), Some(LimitedBy::Capped));
            assert!(connection.close_reason().is_none());
        } else {
            let reason = || status().reason.unwrap_or_default();
            let limit = "the upload limit leaves nothing to it";
            eventually("it waits", || reason() == limit).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_takes_nothing_times_out() {
    let bench = patient();
    let (id, _connection, _sink, _stream) = accepted(&bench, 40 << 20).await;
    let reason = || bench.transfers.status(&id).unwrap().0.reason;
    let taken = Some("the peer takes nothing".to_owned());
    eventually("it waits", || reason() == taken).await;
}
