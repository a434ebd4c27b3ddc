//! The TCP transport on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ringway_transport::limits::TCP_MTU;
use ringway_transport::{
    Address, ConnectError, Incoming, SendError, TcpOptions, TcpTransport, Transport,
};
use tokio::sync::mpsc::{Receiver, channel};

use crate::support::{loopback, next, soon, until};

fn start_with(queue: usize, options: TcpOptions) -> (TcpTransport, Receiver<Incoming>) {
    let (sender, receiver) = channel(queue);
    let options = TcpOptions {
        listen: Some(loopback()),
        ..options
    };
    (TcpTransport::start(options, sender).unwrap(), receiver)
}

fn start(queue: usize) -> (TcpTransport, Receiver<Incoming>) {
    start_with(queue, TcpOptions::default())
}

fn address(transport: &TcpTransport) -> SocketAddr {
    transport.local_address().unwrap()
}

#[tokio::test]
async fn messages_go_both_ways_from_a_leaf() {
    let (b, mut at_b) = start(16);
    let (sender, mut at_leaf) = channel(16);
    let leaf = TcpTransport::start(TcpOptions::default(), sender).unwrap();
    assert_eq!(leaf.addresses(), []);
    let to_b = leaf.connect(&b.addresses()[0].address).await.unwrap();
    to_b.send(b"there").unwrap();
    let there = next(&mut at_b).await;
    assert_eq!(&there.message[..], b"there");
    there.session.send(b"back").unwrap();
    assert_eq!(&next(&mut at_leaf).await.message[..], b"back");
    for size in [0, 1, 4095, 4096, TCP_MTU] {
        let message: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        to_b.send(&message).unwrap();
        assert_eq!(&next(&mut at_b).await.message[..], &message[..]);
    }
    assert_eq!(leaf.counters().sent, 6);
    assert_eq!(b.counters().received, 6);
}

#[tokio::test]
async fn too_large_is_refused_before_it_is_sent() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(16));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    for size in [TCP_MTU + 1, 1 << 20] {
        let refused = to_b.send(&vec![0; size]);
        assert_eq!(refused, Err(SendError::TooLarge { size, mtu: TCP_MTU }));
    }
    assert_eq!(a.counters().too_large, 2);
    to_b.send(b"fits").unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"fits");
}

#[tokio::test]
async fn a_full_queue_drops_and_counts() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(2));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    for number in 0..10_u8 {
        to_b.send(&[number]).unwrap();
    }
    until(|| b.counters().queue_full == 8).await;
    assert_eq!(&next(&mut at_b).await.message[..], [0]);
    assert_eq!(&next(&mut at_b).await.message[..], [1]);
}

#[tokio::test]
async fn slow_reader_costs_messages_but_blocks_no_sender() {
    let listener = std::net::TcpListener::bind(loopback()).unwrap();
    let (a, _at_a) = start(16);
    let there = Address::Tcp(listener.local_addr().unwrap());
    let session = a.connect(&there).await.unwrap();
    let (mut peer, _) = listener.accept().unwrap();

    // The peer reads nothing: sending goes on, without waiting, until messages are dropped.
    let mut sent: u32 = 0;
    let mut dropped: u32 = 0;
    while dropped < 1000 {
        let mut message = vec![0; 8000];
        message[..4].copy_from_slice(&(sent + dropped).to_be_bytes());
        match session.send(&message) {
            Ok(()) => sent += 1,
            Err(SendError::WouldBlock) => dropped += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(sent < 100_000, "the system's buffers are finite");
    }
    assert_eq!(a.counters().would_block, u64::from(dropped));

    // Then it reads: every message that was taken is whole and in order, and new ones pass.
    let reader = tokio::task::spawn_blocking(move || {
        let mut last = None;
        let mut frame = vec![0; 2 + 8000];
        for _ in 0..sent {
            peer.read_exact(&mut frame).unwrap();
            assert_eq!(frame[..2], 8000_u16.to_be_bytes());
            let number = u32::from_be_bytes(frame[2..6].try_into().unwrap());
            assert!(last.is_none_or(|last| number > last));
            last = Some(number);
        }
        peer.read_exact(&mut frame[..7]).unwrap();
        assert_eq!(&frame[..7], b"\0\x05again");
    });
    until(|| session.send(b"again").is_ok()).await;
    soon(reader).await.unwrap();
}

#[tokio::test]
async fn batch_is_sent_in_part_and_rest_counted() {
    let listener = std::net::TcpListener::bind(loopback()).unwrap();
    let (a, _at_a) = start(16);
    let there = Address::Tcp(listener.local_addr().unwrap());
    let session = a.connect(&there).await.unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let messages: Vec<Vec<u8>> = (0..4000_u32)
        .map(|number| [&number.to_be_bytes()[..], &[0; 7996]].concat())
        .collect();
    let batch: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let gone = session.send_batch(&batch).unwrap();
    assert!(gone < batch.len(), "the system's buffers are finite");
    let counted = a.counters();
    assert_eq!(counted.sent, gone as u64);
    assert_eq!(counted.would_block, (batch.len() - gone) as u64);
    let reader = tokio::task::spawn_blocking(move || {
        let mut frame = vec![0; 2 + 8000];
        for number in 0..gone {
            peer.read_exact(&mut frame).unwrap();
            assert_eq!(frame[2..6], (number as u32).to_be_bytes());
        }
        peer
    });
    drop(soon(reader).await.unwrap());
    until(|| session.is_closed()).await;
    assert_eq!(session.send_batch(&batch), Err(SendError::Closed));
}

#[tokio::test]
async fn garbage_ends_its_own_connection_only() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(16));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    let mut stranger = TcpStream::connect(address(&b)).unwrap();
    stranger
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    until(|| b.counters().malformed == 1).await;
    let mut rest = Vec::new();
    stranger
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let ended = tokio::task::spawn_blocking(move || stranger.read_to_end(&mut rest));
    // Closed with unread bytes: an end or a reset, but no answer.
    assert!(!matches!(soon(ended).await.unwrap(), Ok(1..)));
    let mut cut = TcpStream::connect(address(&b)).unwrap();
    cut.write_all(&[0x10, 0x00, 1, 2, 3]).unwrap();
    drop(cut);
    until(|| b.counters().failed == 1).await;
    to_b.send(b"still here").unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"still here");
}

/// If all are in use, further ones are refused.
#[tokio::test]
async fn past_the_bound_unused_connections_make_room() {
    let (b, mut at_b) = start_with(
        16,
        TcpOptions {
            connections: 2,
            ..TcpOptions::default()
        },
    );
    let (a, _at_a) = start(16);
    let there = b.addresses()[0].address.clone();
    let first = a.connect(&there).await.unwrap();
    let second = a.connect(&there).await.unwrap();
    let mut held = Vec::new();
    for session in [&first, &second] {
        session.send(b"in").unwrap();
        held.push(next(&mut at_b).await.session);
    }
    let third = a.connect(&there).await.unwrap();
    until(|| b.counters().refused == 1).await;
    until(|| third.is_closed()).await;
    assert_eq!(third.send(b"x"), Err(SendError::Closed));
    // Outgoing connections count too.
    let refused = b.connect(&a.addresses()[0].address).await;
    assert!(matches!(refused, Err(ConnectError::Busy { limit: 2, .. })));
    // B does not use the first one any more.
    held.remove(0);
    let fourth = a.connect(&there).await.unwrap();
    until(|| first.is_closed()).await;
    fourth.send(b"in time").unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"in time");
    held[0].send(b"unharmed").unwrap();
    assert!(!second.is_closed());
    // A place that is free again is given again.
    drop((first, a));
    let (c, _at_c) = start(16);
    soon(async {
        loop {
            let session = c.connect(&there).await.unwrap();
            if session.send(b"c").is_ok()
                && let Ok(Some(incoming)) =
                    tokio::time::timeout(Duration::from_millis(200), at_b.recv()).await
            {
                assert_eq!(&incoming.message[..], b"c");
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn idle_connection_stays_while_its_session_is_held() {
    let idle = Duration::from_millis(500);
    let options = TcpOptions {
        idle,
        ..TcpOptions::default()
    };
    let (b, mut at_b) = start_with(16, options.clone());
    let (a, mut at_a) = start(16);
    let session = a.connect(&b.addresses()[0].address).await.unwrap();
    session.send(b"hello").unwrap();
    let held = next(&mut at_b).await.session;
    tokio::time::sleep(idle * 3).await;
    held.send(b"still open").unwrap();
    assert_eq!(&next(&mut at_a).await.message[..], b"still open");
    assert_eq!(b.counters().timed_out, 0);
    // Not associated any more: it times out, and the other side sees it.
    drop(held);
    until(|| b.counters().timed_out == 1).await;
    until(|| session.is_closed()).await;
}

#[tokio::test]
async fn error_names_an_address_without_listener() {
    let gone = std::net::TcpListener::bind(loopback()).unwrap();
    let there = Address::Tcp(gone.local_addr().unwrap());
    drop(gone);
    let (a, _at_a) = start(1);
    let error = a.connect(&there).await.unwrap_err();
    assert!(matches!(error, ConnectError::Network { .. }));
    assert!(error.to_string().contains(&there.to_string()));
    let udp = Address::Udp(there.socket().unwrap());
    let refused = a.connect(&udp).await;
    assert!(matches!(refused, Err(ConnectError::NotAccepted { .. })));
}

#[tokio::test]
async fn dropping_closes_listener_and_connections() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(16));
    let port = address(&b);
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    to_b.send(b"x").unwrap();
    next(&mut at_b).await;
    drop(b);
    until(|| to_b.is_closed()).await;
    until(|| TcpStream::connect(port).is_err()).await;
}
