//! Distributed files, with a sender and with others that do as they like.

use super::super::distribute::{Distributed, Division, Shared};
use super::*;

/// Pieces of 256 KiB.
const PIECES: u32 = 6;

const SECRET: [u8; 16] = [9; 16];

/// A file to be sent, with its tree.
fn source(bench: &Bench) -> (Vec<u8>, Source) {
    let content: Vec<u8> = (0..PIECES << 16).flat_map(u32::to_le_bytes).collect();
    let path = bench.home.path().join("sent");
    std::fs::write(&path, &content).unwrap();
    let source = Source::open(&path, &bench.home.path().join("sent.tree")).unwrap();
    (content, source)
}

/// Offers it as one that goes to several, which is accepted.
async fn distributed(
    connection: &QuicConnection,
    source: &Source,
    others: &[MemberId],
) -> (SendStream, RecvStream) {
    let (mut sink, mut answers) = connection.open_bi().await.unwrap();
    let offer = Frame::Offer(Offer {
        id: [3; 16].into(),
        file: "f.bin".to_owned(),
        size: source.size,
        hash: (*source.hash.as_bytes()).into(),
        bundle: None,
        distributed: Some(Distributed { priority: 1.0 }),
    });
    offer.write(&mut sink).await.unwrap();
    let answer = Frame::read(&mut answers).await.unwrap();
    let takes_part = matches!(
        answer,
        Frame::Accept {
            takes_part: Some(true),
            ..
        }
    );
    assert!(takes_part, "{answer:?}");
    let shared = Frame::Shared(Shared {
        secret: SECRET.into(),
        others: others.iter().map(|other| other.0.into()).collect(),
    });
    shared.write(&mut sink).await.unwrap();
    (sink, answers)
}

fn encoded(source: &Source, piece: u32) -> Vec<u8> {
    let division = Division::of(source.size).unwrap();
    let mut content = Vec::new();
    source.encode(&division.range(piece), &mut content).unwrap();
    content
}

async fn give(sink: &mut SendStream, piece: u32, content: &[u8]) {
    let bytes = content.len().try_into().unwrap();
    Frame::Piece { piece, bytes }.write(sink).await.unwrap();
    sink.write_all(content).await.unwrap();
}

/// What comes until a frame fits; the pieces that were said to be there before it.
async fn until(answers: &mut RecvStream, fits: impl Fn(&Frame) -> bool) -> (Frame, Vec<u32>) {
    let mut has = Vec::new();
    loop {
        let frame = timeout(PATIENCE, Frame::read(answers))
            .await
            .unwrap()
            .unwrap();
        if let Frame::Has(pieces) = &frame {
            has.extend(pieces);
        }
        if fits(&frame) {
            return (frame, has);
        }
    }
}

async fn ask(bench: &Bench, secret: [u8; 16]) -> (QuicConnection, SendStream, RecvStream) {
    let connection = bench.connect().await;
    let (mut sink, answers) = connection.open_bi().await.unwrap();
    Frame::Ask(secret.into()).write(&mut sink).await.unwrap();
    (connection, sink, answers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_give_what_they_have_proven() {
    let bench = bench(false);
    let (content, source) = source(&bench);
    let connection = bench.connect().await;
    let (mut sink, mut answers) = distributed(&connection, &source, &[]).await;
    give(&mut sink, 4, &encoded(&source, 4)).await;
    let (_, has) = until(&mut answers, |frame| matches!(frame, Frame::Has(_))).await;
    assert_eq!(has, [4, 5]);

    let (_other, mut to_it, mut from_it) = ask(&bench, SECRET).await;
    let (_, has) = until(&mut from_it, |frame| matches!(frame, Frame::Has(_))).await;
    assert_eq!(has, [4, 5]);
    Frame::Get(4).write(&mut to_it).await.unwrap();
    let given = |frame: &Frame| matches!(frame, Frame::Piece { piece: 4, .. });
    let (Frame::Piece { bytes, .. }, _) = until(&mut from_it, given).await else {
        panic!("no piece");
    };
    let mut piece = vec![0; bytes.try_into().unwrap()];
    from_it.read_exact(&mut piece).await.unwrap();
    assert!(piece == encoded(&source, 4), "another piece");

    for piece in (0..PIECES).filter(|piece| *piece != 4) {
        give(&mut sink, piece, &encoded(&source, piece)).await;
    }
    until(&mut answers, |frame| *frame == Frame::Finished).await;
    let arrived = std::fs::read(bench.home.path().join("inbox/f.bin")).unwrap();
    assert!(arrived == content, "the file differs");
    // It has it, and gives it on.
    Frame::Get(0).write(&mut to_it).await.unwrap();
    until(&mut from_it, |frame| {
        matches!(frame, Frame::Piece { piece: 0, .. })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_and_the_greedy_get_nothing() {
    let bench = bench(false);
    let (_, source) = source(&bench);
    let connection = bench.connect().await;
    let (mut sink, mut answers) = distributed(&connection, &source, &[]).await;
    give(&mut sink, 0, &encoded(&source, 0)).await;
    until(&mut answers, |frame| matches!(frame, Frame::Has(_))).await;

    let (_stranger, _sink, mut refused) = ask(&bench, [8; 16]).await;
    let answer = timeout(PATIENCE, Frame::read(&mut refused)).await.unwrap();
    assert!(matches!(answer, Ok(Frame::Refuse { .. })), "{answer:?}");

    // What is not there, and more than one may ask for at once.
    for gets in [vec![1], vec![PIECES], vec![u32::MAX], vec![0; 5_000]] {
        let (greedy, mut to_it, _from_it) = ask(&bench, SECRET).await;
        for piece in gets {
            if Frame::Get(piece).write(&mut to_it).await.is_err() {
                break;
            }
        }
        let closed = timeout(PATIENCE, greedy.closed()).await.unwrap();
        let by_it = matches!(closed, QuicError::ClosedByPeer { code, .. } if code == 1);
        assert!(by_it, "{closed}");
    }
    assert!(connection.close_reason().is_none(), "the sender's goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn false_pieces_are_not_taken() {
    let bench = bench(false);
    let (_, source) = source(&bench);
    let connection = bench.connect().await;
    let (mut sink, _answers) = distributed(&connection, &source, &[]).await;
    let mut lie = encoded(&source, 2);
    let last = lie.len() - 1;
    lie[last] ^= 1;
    give(&mut sink, 2, &lie).await;
    let closed = timeout(PATIENCE, connection.closed()).await.unwrap();
    assert!(closed.to_string().contains("does not verify"), "{closed}");
    let transfer = bench.transfers.list().remove(0);
    assert_eq!(transfer.state, "waiting", "{transfer:?}");
    assert!(!bench.home.path().join("inbox/f.bin").exists());
}

/// One that is named lies; the sender gives its piece in the end, and the liar is asked no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_liar_is_asked_once() {
    let bench = bench(true);
    let (content, source) = source(&bench);
    let connection = bench.connect().await;
    let liar = bench.peers_certificate.member();
    let (mut sink, mut answers) = distributed(&connection, &source, &[liar]).await;
    for piece in 1..PIECES {
        give(&mut sink, piece, &encoded(&source, piece)).await;
        // What is on its way is asked of others as well.
        until(&mut answers, |frame| matches!(frame, Frame::Has(_))).await;
    }
    let asked = timeout(PATIENCE, bench.peer.accept())
        .await
        .unwrap()
        .unwrap();
    let (mut to_it, mut from_it) = asked.accept_bi().await.unwrap();
    let ask = Frame::read(&mut from_it).await.unwrap();
    assert_eq!(ask, Frame::Ask(SECRET.into()));
    Frame::Has(vec![0, PIECES]).write(&mut to_it).await.unwrap();
    until(&mut from_it, |frame| *frame == Frame::Get(0)).await;
    give(&mut to_it, 0, &encoded(&source, 1)).await;
    timeout(PATIENCE, asked.closed()).await.unwrap();
    until(&mut answers, |frame| *frame == Frame::Wants(vec![0, 1])).await;
    give(&mut sink, 0, &encoded(&source, 0)).await;
    until(&mut answers, |frame| *frame == Frame::Finished).await;
    let arrived = std::fs::read(bench.home.path().join("inbox/f.bin")).unwrap();
    assert!(arrived == content, "the file differs");
    let again = timeout(Duration::from_secs(1), bench.peer.accept()).await;
    assert!(again.is_err(), "the liar is asked again");
}
