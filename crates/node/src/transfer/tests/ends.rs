//! Ends of which the other side is notified although it was away.

use super::*;
use crate::clock::unix_seconds;
use crate::connection::Connections;
use crate::transfer::record::{Direction, Phase, Record, TransferId};

/// The id that the bench's own member gives up on its next connection to the peer, which answers.
async fn given_up(bench: &Bench) -> u128 {
    let connection = timeout(PATIENCE, bench.peer.accept()).await;
    let connection = connection.unwrap().unwrap();
    let (mut sink, mut stream) = connection.accept_bi().await.unwrap();
    let Frame::GiveUp(id) = Frame::read(&mut stream).await.unwrap() else {
        panic!("something else");
    };
    Frame::GivenUp.write(&mut sink).await.unwrap();
    sink.finish().unwrap();
    connection.closed().await;
    u128::from_be_bytes(*id)
}

/// The peer gives a transfer up, and waits for the answer.
async fn give_up(bench: &Bench, id: u128) -> Frame {
    let connection = bench.connect().await;
    let (mut sink, mut answers) = connection.open_bi().await.unwrap();
    let id = id.to_be_bytes().into();
    Frame::GiveUp(id).write(&mut sink).await.unwrap();
    let answer = timeout(PATIENCE, Frame::read(&mut answers)).await;
    answer.unwrap().unwrap()
}

/// A transfer to the peer as an earlier run has left it.
fn left(bench: &Bench, id: u128, phase: Phase) {
    let record = Record {
        id: TransferId(id.to_be_bytes()),
        direction: Direction::Send,
        peer: bench.peers_certificate.member(),
        peer_serial: bench.peers_certificate.serial(),
        peer_name: "peer".to_owned(),
        path: bench.file(),
        file: "file".to_owned(),
        size: 1,
        priority: Priority::NORMAL,
        phase,
        reason: None,
        hash: Some(blake3::hash(b"what it was")),
        created: unix_seconds(),
        active: Duration::ZERO,
        moved: 0,
        offered: true,
        handed: false,
        ended: None,
        arrival: None,
        bundle: None,
    };
    bench.state.put_transfer(&record).unwrap();
}

/// The member starts again, with what is on its disk.
pub(super) fn again(bench: &Bench) -> Transfers {
    let member = bench.member.clone();
    let connections = Connections::new(bench.endpoints.clone(), member);
    let setup = Setup {
        state: Arc::clone(&bench.state),
        directory: Arc::clone(&bench.directory),
        connections: connections.clone(),
        member: bench.member.clone(),
        receive: ReceiveConfig::default(),
        caps: (None, Vec::new()),
        own_name: "me".to_owned(),
        home: bench.home.path().to_owned(),
    };
    let transfers = Transfers::start(setup).unwrap();
    connections.start();
    transfers
}

fn is_offered(bench: &Bench, id: u128) -> bool {
    let all = bench.state.transfers().unwrap();
    let record = all.iter().find(|record| record.id.0 == id.to_be_bytes());
    record.unwrap().offered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_ends_with_its_sender() {
    let bench = bench(false);
    let connection = bench.connect().await;
    let (_sink, answer) = offer(&connection, 7).await;
    assert!(matches!(answer, Frame::Accept { .. }), "{answer:?}");
    connection.close(0, "");
    let state = || bench.transfers.list().remove(0).state;
    eventually("waits", || state() == "waiting").await;
    assert_eq!(give_up(&bench, 7).await, Frame::GivenUp);
    assert_eq!(state(), "failed");
    eventually("nothing is left", || bench.parts().is_empty()).await;
    // One that is not known is given up as well.
    assert_eq!(give_up(&bench, 8).await, Frame::GivenUp);
    assert_eq!(bench.transfers.list().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_with_full_disk_ends_too() {
    let bench = bench(false);
    let connection = bench.connect().await;
    let (mut sink, mut answers) = connection.open_bi().await.unwrap();
    let offer = Frame::Offer(Offer {
        id: 7_u128.to_be_bytes().into(),
        file: "f.bin".to_owned(),
        // As much as is taken: more than is free.
        size: crate::limits::LARGEST_FILE,
        hash: [7; 32].into(),
        bundle: None,
        distributed: None,
    });
    offer.write(&mut sink).await.unwrap();
    let answer = timeout(PATIENCE, Frame::read(&mut answers)).await;
    let Frame::Refuse { try_later, .. } = answer.unwrap().unwrap() else {
        return eprintln!("SKIPPED: a full disk: a TiB is free here");
    };
    let state = || bench.transfers.list().remove(0).state;
    assert!(try_later);
    eventually("waits", || state() == "waiting").await;
    assert!(!bench.parts().is_empty());
    assert_eq!(give_up(&bench, 7).await, Frame::GivenUp);
    assert_eq!(state(), "failed");
    eventually("nothing is left", || bench.parts().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_member_ends_no_transfer() {
    let bench = bench(false);
    let connection = bench.connect().await;
    let (_sink, _) = offer(&connection, 7).await;
    let stranger = Identity::generate().unwrap();
    let certificate = issue(&bench.owner, &stranger, "mallory", 9);
    bench.directory.admit(certificate.as_bytes()).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let options = QuicOptions::default();
    let endpoint =
        QuicEndpoint::bind(any, stranger.signing_key(), Arc::new(|_| true), options).unwrap();
    let strangers = endpoint.connect(bench.at, bench.me.member(), Priority::NORMAL);
    let (mut sink, mut answers) = strangers.await.unwrap().open_bi().await.unwrap();
    let id = 7_u128.to_be_bytes().into();
    Frame::GiveUp(id).write(&mut sink).await.unwrap();
    Frame::read(&mut answers).await.unwrap();
    assert_eq!(bench.transfers.list().remove(0).state, "active");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_repeats_until_the_receiver_knows() {
    let bench = bench(true);
    let (id, connection, _sink, _stream) = accepted(&bench, 40 << 20).await;
    // The receiver is off: it receives nothing of the end of the connection.
    bench.transfers.cancel(&id).unwrap();
    drop(connection);
    let number = u128::from_str_radix(&id, 16).unwrap();
    assert_eq!(given_up(&bench).await, number);
    eventually("it is over", || !is_offered(&bench, number)).await;
    assert_eq!(bench.transfers.list().remove(0).state, "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_survives_a_restart() {
    let bench = bench(true);
    left(&bench, 7, Phase::Cancelled);
    left(&bench, 8, Phase::Done);
    let _transfers = again(&bench);
    assert_eq!(given_up(&bench).await, 7);
    eventually("it is over", || !is_offered(&bench, 7)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_changed_over_a_restart_fails() {
    let bench = bench(true);
    left(&bench, 7, Phase::Active);
    let transfers = again(&bench);
    assert_eq!(given_up(&bench).await, 7);
    assert_eq!(transfers.list().remove(0).state, "failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_offered_is_not_given_up() {
    let bench = bench(false);
    let sent = bench.send().unwrap();
    bench.transfers.cancel(&sent.id).unwrap();
    let number = u128::from_str_radix(&sent.id, 16).unwrap();
    assert!(!is_offered(&bench, number));
}
