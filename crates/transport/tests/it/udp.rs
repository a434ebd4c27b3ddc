//! The UDP transport on loopback.

use std::net::SocketAddr;

use ringway_transport::limits::UDP_LARGEST;
use ringway_transport::{
    Address, ConnectError, Incoming, SendError, Transport, UdpOptions, UdpTransport,
};
use tokio::sync::mpsc::{Receiver, channel};

use crate::support::{loopback, next, skipped, soon, until};

fn start(queue: usize) -> (UdpTransport, Receiver<Incoming>) {
    let (sender, receiver) = channel(queue);
    let options = UdpOptions {
        listen: Some(loopback()),
        ..UdpOptions::default()
    };
    (UdpTransport::start(options, sender).unwrap(), receiver)
}

#[tokio::test]
async fn messages_go_both_ways() {
    let ((a, mut at_a), (b, mut at_b)) = (start(16), start(16));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    to_b.send(b"there").unwrap();
    let there = next(&mut at_b).await;
    assert_eq!(&there.message[..], b"there");
    assert_eq!(there.session.remote(), Address::Udp(a.local_address()));
    there.session.send(b"back").unwrap();
    assert_eq!(&next(&mut at_a).await.message[..], b"back");
    let largest = vec![7; UDP_LARGEST];
    to_b.send(&largest).unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], &largest[..]);
    assert_eq!(a.counters().sent, 2);
    assert_eq!(a.counters().sent_bytes, 5 + UDP_LARGEST as u64);
    assert_eq!(b.counters().received, 2);
}

#[tokio::test]
async fn a_leaf_is_answered_but_advertises_nothing() {
    let (b, mut at_b) = start(16);
    let (sender, mut at_leaf) = channel(16);
    let leaf = UdpTransport::start(UdpOptions::default(), sender).unwrap();
    assert_eq!(leaf.addresses(), []);
    let session = leaf.connect(&b.addresses()[0].address).await.unwrap();
    session.send(b"from a leaf").unwrap();
    let there = next(&mut at_b).await;
    assert!(there.session.remote().is_dialable());
    there.session.send(b"to a leaf").unwrap();
    let back = next(&mut at_leaf).await;
    assert_eq!(&back.message[..], b"to a leaf");
    assert_eq!(back.session.remote(), Address::Udp(b.local_address()));
}

#[tokio::test]
async fn too_large_is_refused_on_both_sides() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(16));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    let refused = to_b.send(&vec![0; UDP_LARGEST + 1]);
    assert_eq!(
        refused,
        Err(SendError::TooLarge {
            size: UDP_LARGEST + 1,
            mtu: UDP_LARGEST
        })
    );
    assert_eq!(a.counters().too_large, 1);
    let stranger = std::net::UdpSocket::bind(loopback()).unwrap();
    for garbage in [
        vec![0xff; UDP_LARGEST + 1],
        vec![0; 9_100],
        b"short".to_vec(),
    ] {
        stranger.send_to(&garbage, b.local_address()).unwrap();
    }
    assert_eq!(&next(&mut at_b).await.message[..], b"short");
    assert_eq!(b.counters().malformed, 2);
}

#[tokio::test]
async fn a_full_queue_drops_and_counts() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(2));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    for number in 0..10_u8 {
        to_b.send(&[number]).unwrap();
    }
    until(|| b.counters().queue_full == 8).await;
    assert_eq!(b.counters().received, 2);
    assert_eq!(&next(&mut at_b).await.message[..], [0]);
    assert_eq!(&next(&mut at_b).await.message[..], [1]);
    to_b.send(b"room again").unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"room again");
}

#[tokio::test]
async fn foreign_addresses_are_not_accepted() {
    let (a, _at_a) = start(1);
    let socket: SocketAddr = "192.0.2.1:7000".parse().unwrap();
    assert!(a.accepts(&Address::Udp(socket)));
    for address in [
        Address::Tcp(socket),
        Address::Udp("192.0.2.1:0".parse().unwrap()),
        Address::Udp("[2001:db8::1]:7000".parse().unwrap()),
    ] {
        assert!(!a.accepts(&address), "{address}");
        let refused = a.connect(&address).await;
        assert!(matches!(refused, Err(ConnectError::NotAccepted { .. })));
    }
}

#[tokio::test]
async fn what_is_advertised_is_what_was_configured() {
    let outside: SocketAddr = "203.0.113.5:7000".parse().unwrap();
    let advertised = |listen: &str, advertise: Vec<SocketAddr>| {
        let options = UdpOptions {
            listen: Some(listen.parse().unwrap()),
            advertise,
            cost: 3,
        };
        let transport = UdpTransport::start(options, channel(1).0).unwrap();
        let addresses = transport.addresses();
        assert!(
            addresses
                .iter()
                .all(|d| d.cost == 3 && d.mtu as usize == UDP_LARGEST)
        );
        addresses.into_iter().map(|d| d.address).collect::<Vec<_>>()
    };
    assert_eq!(
        advertised("0.0.0.0:0", vec![]),
        [],
        "no host answers at 0.0.0.0"
    );
    assert_eq!(
        advertised("0.0.0.0:0", vec![outside]),
        [Address::Udp(outside)]
    );
    assert_eq!(
        advertised("127.0.0.1:0", vec![outside]),
        [Address::Udp(outside)]
    );
    assert_eq!(advertised("127.0.0.1:0", vec![]).len(), 1);
}

#[tokio::test]
async fn error_names_a_port_in_use() {
    let (a, _at_a) = start(1);
    let options = UdpOptions {
        listen: Some(a.local_address()),
        ..UdpOptions::default()
    };
    let error = UdpTransport::start(options, channel(1).0).unwrap_err();
    assert!(error.to_string().contains(&a.local_address().to_string()));
}

#[tokio::test]
async fn dropping_frees_the_port() {
    let (a, _at_a) = start(1);
    let port = a.local_address();
    drop(a);
    until(|| std::net::UdpSocket::bind(port).is_ok()).await;
}

#[tokio::test]
async fn a_batch_arrives_whole_and_in_order() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(512));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    // Runs of one size, a shorter end, an empty message, and two that are too large.
    let sizes = [
        &[1_200; 70][..],
        &[9, 9, 4, 7, 0, 0, 9_000, 12_000, 8, UDP_LARGEST, UDP_LARGEST],
        &[300; 70],
    ]
    .concat();
    let numbered = |(number, size): (usize, &usize)| vec![number as u8; *size];
    let messages: Vec<Vec<u8>> = sizes.iter().enumerate().map(numbered).collect();
    let batch: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    assert_eq!(to_b.send_batch(&batch), Ok(batch.len()));
    let fitting: Vec<&&[u8]> = batch.iter().filter(|m| m.len() <= UDP_LARGEST).collect();
    for message in &fitting {
        let incoming = next(&mut at_b).await;
        assert_eq!(&incoming.message[..], **message);
        assert_eq!(incoming.session.remote(), Address::Udp(a.local_address()));
    }
    let bytes: usize = fitting.iter().map(|message| message.len()).sum();
    let (sent, received) = (a.counters(), b.counters());
    assert_eq!((sent.sent, sent.sent_bytes), (149, bytes as u64));
    assert_eq!(
        (received.received, received.received_bytes),
        (149, bytes as u64)
    );
    assert_eq!((sent.too_large, sent.failed, received.malformed), (2, 0, 0));
    assert_eq!(to_b.send_batch(&[]), Ok(0));
}

#[tokio::test]
async fn every_sender_of_many_is_told_apart() {
    let (b, mut at_b) = start(4096);
    let there = b.addresses()[0].address.clone();
    // More than sessions are kept for, and each comes more than once.
    let mut senders = Vec::new();
    for _ in 0..300 {
        let socket = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
        socket.connect(there.socket().unwrap()).await.unwrap();
        senders.push(socket);
    }
    for round in [1, 2] {
        for sender in &senders {
            sender.send(&[round]).await.unwrap();
            let incoming = next(&mut at_b).await;
            let remote = Address::Udp(sender.local_addr().unwrap());
            assert_eq!(incoming.session.remote(), remote);
            incoming.session.send(b"you").unwrap();
            let mut answer = [0; 8];
            assert_eq!(soon(sender.recv(&mut answer)).await.unwrap(), 3);
        }
    }
}

#[tokio::test]
async fn too_long_datagrams_of_a_train_are_malformed() {
    let (b, mut at_b) = start(16);
    let stranger = std::net::UdpSocket::bind(loopback()).unwrap();
    let state = noq::udp::UdpSocketState::new((&stranger).into()).unwrap();
    if state.max_gso_segments().get() < 4 {
        skipped(
            "a train with too long datagrams",
            "a kernel that sends trains",
        );
        return;
    }
    let train = vec![7; 3 * (UDP_LARGEST + 1) + 20];
    let transmit = noq::udp::Transmit {
        destination: b.local_address(),
        ecn: None,
        contents: &train,
        segment_size: Some(UDP_LARGEST + 1),
        src_ip: None,
    };
    state.try_send((&stranger).into(), &transmit).unwrap();
    assert_eq!(next(&mut at_b).await.message.len(), 20);
    assert_eq!((b.counters().malformed, b.counters().received), (3, 1));
}

#[tokio::test]
async fn full_queue_takes_part_of_a_batch() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(3));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    let messages: Vec<[u8; 1]> = (0..10).map(|number| [number]).collect();
    let batch: Vec<&[u8]> = messages.iter().map(|message| &message[..]).collect();
    assert_eq!(to_b.send_batch(&batch), Ok(10));
    until(|| b.counters().queue_full == 7).await;
    for number in 0..3_u8 {
        assert_eq!(&next(&mut at_b).await.message[..], [number]);
    }
}
