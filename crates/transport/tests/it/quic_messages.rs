//! The QUIC transport on loopback: messages in datagrams, beside streams on the same port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ringway_dtl::Priority;
use ringway_transport::limits::{
    QUIC_LINK_ATTEMPTS, QUIC_LINK_MTU, QUIC_LINK_SEND, QUIC_LINKS_OF_MEMBER, QUIC_PAYLOAD,
};
use ringway_transport::quic::{Allow, QuicEndpoint, QuicOptions};
use ringway_transport::{
    Address, ConnectError, Incoming, MemberId, QuicTransport, QuicTransportOptions, SendError,
    Session, StartError, Transport,
};
use tokio::sync::mpsc::{Receiver, channel};

use crate::support::{key, loopback, next, soon, until};

fn everybody() -> Allow {
    Arc::new(|_| true)
}

fn member(number: u16) -> MemberId {
    MemberId::from(&key(number))
}

fn bind(number: u16, at: SocketAddr, allow: Allow, accept: bool) -> Arc<QuicEndpoint> {
    let options = QuicOptions {
        accept,
        links: true,
        ..QuicOptions::default()
    };
    Arc::new(QuicEndpoint::bind(at, &key(number), allow, options).unwrap())
}

fn start_on(
    endpoint: &Arc<QuicEndpoint>,
    options: QuicTransportOptions,
) -> (QuicTransport, Receiver<Incoming>) {
    let (sender, receiver) = channel(4096);
    let transport = QuicTransport::start(endpoint.clone(), options, sender).unwrap();
    (transport, receiver)
}

/// The transport of the member with this key, on an endpoint of its own.
fn start(number: u16) -> (QuicTransport, Receiver<Incoming>) {
    let endpoint = bind(number, loopback(), everybody(), true);
    start_on(&endpoint, QuicTransportOptions::default())
}

fn address(transport: &QuicTransport) -> Address {
    transport.addresses()[0].address.clone()
}

async fn connect(from: &QuicTransport, to: &QuicTransport) -> Session {
    soon(from.connect(&address(to))).await.unwrap()
}

#[tokio::test]
async fn messages_and_streams_share_a_port() {
    let (there, here) = (
        bind(2, loopback(), everybody(), true),
        bind(1, loopback(), everybody(), true),
    );
    let (a, mut at_a) = start_on(&here, QuicTransportOptions::default());
    let (b, mut at_b) = start_on(&there, QuicTransportOptions::default());
    assert_eq!((a.mtu(), a.cost()), (QUIC_LINK_MTU, 15));
    let to_b = connect(&a, &b).await;
    assert_eq!(to_b.remote(), address(&b));
    to_b.send(b"there").unwrap();
    let incoming = next(&mut at_b).await;
    assert_eq!(&incoming.message[..], b"there");
    assert_eq!(incoming.session.remote(), address(&a));
    incoming.session.send(b"back").unwrap();
    assert_eq!(&next(&mut at_a).await.message[..], b"back");
    for size in [0, 1, QUIC_LINK_MTU] {
        let message: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        to_b.send(&message).unwrap();
        assert_eq!(&next(&mut at_b).await.message[..], &message[..]);
    }
    // A stream from the same port to the same port, on a connection of its own.
    let at = there.local_address().unwrap();
    let stream = soon(here.connect(at, member(2), Priority::NORMAL)).await;
    let accepted = soon(there.accept()).await.unwrap();
    assert_eq!(accepted.remote(), Some(here.local_address().unwrap()));
    let (mut send, _receive) = stream.unwrap().open_bi().await.unwrap();
    send.write_all(b"a stream").await.unwrap();
    let (_, mut receive) = soon(accepted.accept_bi()).await.unwrap();
    let mut arrived = [0; 8];
    soon(receive.read_exact(&mut arrived)).await.unwrap();
    assert_eq!(&arrived, b"a stream");
    assert_eq!((a.counters().sent, a.counters().received), (4, 1));
    assert_eq!((b.counters().sent, b.counters().received), (1, 4));
}

#[tokio::test]
async fn leaf_is_answered_but_advertises_no_address() {
    let (b, mut at_b) = start(2);
    let (leaf, mut at_leaf) = start_on(
        &bind(1, loopback(), everybody(), false),
        QuicTransportOptions::default(),
    );
    assert_eq!(leaf.addresses(), []);
    let to_b = connect(&leaf, &b).await;
    to_b.send(b"from a leaf").unwrap();
    next(&mut at_b).await.session.send(b"to a leaf").unwrap();
    assert_eq!(&next(&mut at_leaf).await.message[..], b"to a leaf");
}

#[tokio::test]
async fn too_large_is_refused_before_it_is_sent() {
    let ((a, _at_a), (b, mut at_b)) = (start(1), start(2));
    let to_b = connect(&a, &b).await;
    for size in [usize::from(QUIC_PAYLOAD), 1 << 20] {
        let refused = to_b.send(&vec![0; size]);
        assert!(
            matches!(refused, Err(SendError::TooLarge { size: s, mtu }) if s == size && (QUIC_LINK_MTU..usize::from(QUIC_PAYLOAD)).contains(&mtu)),
            "{refused:?}"
        );
    }
    assert_eq!(
        to_b.send_batch(&[b"one", &[0; QUIC_PAYLOAD as usize], b"two"]),
        Ok(3)
    );
    assert_eq!(a.counters().too_large, 3);
    assert_eq!(&next(&mut at_b).await.message[..], b"one");
    assert_eq!(&next(&mut at_b).await.message[..], b"two");
    let largest = vec![7; to_b.mtu()];
    to_b.send(&largest).unwrap();
    assert_eq!(next(&mut at_b).await.message.len(), largest.len());
}

#[tokio::test]
async fn full_buffer_refuses_and_counts_messages() {
    let ((a, _at_a), (b, mut at_b)) = (start(1), start(2));
    let to_b = connect(&a, &b).await;
    // Nothing leaves meanwhile: one thread does all.
    let mut sent = 0;
    while to_b.send(&[1; 1000]).is_ok() {
        sent += 1;
        assert!(sent < QUIC_LINK_SEND, "the buffer is finite");
    }
    assert!(sent > 100, "only {sent} messages fit");
    assert_eq!(to_b.send(&[1; 1000]), Err(SendError::WouldBlock));
    assert_eq!(
        (a.counters().sent, a.counters().would_block),
        (sent as u64, 2)
    );
    let batch = vec![[2; 1000].as_slice(); 10];
    assert_eq!(to_b.send_batch(&batch), Ok(0));
    assert_eq!(a.counters().would_block, 12);
    until(|| b.counters().received > 100).await;
    assert_eq!(next(&mut at_b).await.message.len(), 1000);
}

#[tokio::test]
async fn a_stranger_is_refused_on_either_side() {
    let (a, _at_a) = start(1);
    let no_member: Allow = Arc::new(|_| false);
    let (strict, mut at_strict) = start_on(
        &bind(2, loopback(), no_member.clone(), true),
        QuicTransportOptions::default(),
    );
    let refused = soon(a.connect(&address(&strict))).await.unwrap_err();
    assert!(
        matches!(&refused, ConnectError::Network { source, .. } if source.kind() == std::io::ErrorKind::ConnectionRefused),
        "{refused}"
    );
    assert!(refused.to_string().contains(&address(&strict).to_string()));
    assert_eq!(a.counters().failed, 1);
    let refused = soon(strict.connect(&address(&a))).await.unwrap_err();
    assert!(
        matches!(&refused, ConnectError::Network { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied),
        "{refused}"
    );
    assert!(at_strict.try_recv().is_err());
}

#[tokio::test]
async fn peer_admits_us_at_a_later_attempt() {
    let (a, _at_a) = start(1);
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    // As when the first attempt makes it ask DNS.
    let allow: Allow = Arc::new(move |_| counted.fetch_add(1, Ordering::Relaxed) > 0);
    let (b, mut at_b) = start_on(
        &bind(2, loopback(), allow, true),
        QuicTransportOptions::default(),
    );
    let to_b = connect(&a, &b).await;
    to_b.send(b"known now").unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"known now");
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..=QUIC_LINK_ATTEMPTS).contains(&asked), "{asked}");
}

#[tokio::test]
async fn idle_connection_stays_while_its_session_is_held() {
    let idle = Duration::from_millis(500);
    let options = QuicTransportOptions {
        idle,
        ..QuicTransportOptions::default()
    };
    let (b, mut at_b) = start_on(&bind(2, loopback(), everybody(), true), options);
    let (a, mut at_a) = start(1);
    let session = connect(&a, &b).await;
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
    assert_eq!(session.send(b"x"), Err(SendError::Closed));
    assert_eq!(session.send_batch(&[b"x"]), Err(SendError::Closed));
}

#[tokio::test]
async fn more_connections_than_allowed_are_refused() {
    let options = QuicTransportOptions {
        connections: 2,
        ..QuicTransportOptions::default()
    };
    let (b, mut at_b) = start_on(&bind(9, loopback(), everybody(), true), options);
    let others: Vec<_> = (1..4).map(start).collect();
    for (other, _queue) in &others[..2] {
        connect(other, &b).await.send(b"in").unwrap();
        next(&mut at_b).await;
    }
    // Closed at once, before or after `connect` has returned.
    match soon(others[2].0.connect(&address(&b))).await {
        Ok(third) => until(|| third.is_closed()).await,
        Err(error) => assert!(error.to_string().contains("too many"), "{error}"),
    }
    assert_eq!(b.counters().refused, 1);
    // Outgoing connections count too.
    let refused = b.connect(&address(&others[0].0)).await;
    assert!(matches!(refused, Err(ConnectError::Busy { limit: 2, .. })));
}

#[tokio::test]
async fn one_member_does_not_take_every_place() {
    let (b, mut at_b) = start(9);
    let greedy: Vec<_> = (0..QUIC_LINKS_OF_MEMBER).map(|_| start(1)).collect();
    let mut sessions = Vec::new();
    for (transport, _queue) in &greedy {
        let session = connect(transport, &b).await;
        session.send(b"in").unwrap();
        sessions.push((next(&mut at_b).await.session, session));
    }
    let (more, _queue) = start(1);
    match soon(more.connect(&address(&b))).await {
        Ok(session) => until(|| session.is_closed()).await,
        Err(error) => assert!(error.to_string().contains("too many"), "{error}"),
    }
    assert_eq!(b.counters().refused, 1);
    let (other, _queue) = start(2);
    connect(&other, &b).await.send(b"in, too").unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"in, too");
    // Those that go make room.
    drop((sessions, greedy));
    let there = address(&b);
    soon(async {
        loop {
            let sent = more.connect(&there).await.map(|again| again.send(b"again"));
            let arrived = tokio::time::timeout(Duration::from_millis(200), at_b.recv());
            if sent.is_ok() && arrived.await.is_ok() {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn dropping_the_transport_ends_its_connections_only() {
    let (here, there) = (
        bind(1, loopback(), everybody(), true),
        bind(2, loopback(), everybody(), true),
    );
    let (a, _at_a) = start_on(&here, QuicTransportOptions::default());
    let (b, mut at_b) = start_on(&there, QuicTransportOptions::default());
    let to_b = connect(&a, &b).await;
    to_b.send(b"x").unwrap();
    next(&mut at_b).await;
    let at = there.local_address().unwrap();
    let stream = soon(here.connect(at, member(2), Priority::NORMAL)).await;
    drop(b);
    until(|| to_b.is_closed()).await;
    assert!(stream.unwrap().close_reason().is_none());
    let again = QuicTransport::start(there, QuicTransportOptions::default(), channel(1).0);
    assert!(matches!(again, Err(StartError::Option { .. })));
}

/// A member that ends without a word, as by a crash.
struct Crashing(tokio::runtime::Runtime, QuicTransport, Receiver<Incoming>);

impl Crashing {
    fn start(at: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let started = runtime.block_on(async {
            start_on(
                &bind(2, at, everybody(), true),
                QuicTransportOptions::default(),
            )
        });
        Self(runtime, started.0, started.1)
    }

    /// Gives the address at which it was.
    fn crash(self) -> SocketAddr {
        let at = address(&self.1).socket().unwrap();
        // Its tasks end first, so that none is left to say goodbye.
        self.0.shutdown_timeout(Duration::from_secs(10));
        at
    }
}

/// Waits until no more probes of the path are sent by themselves: their loss alone would have been
/// answered by a reset.
async fn quiet(session: &Session) {
    let mut before = 0;
    while session.mtu() != before {
        before = session.mtu();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_peer_ends_its_former_sessions() {
    let (a, mut at_a) = start(1);
    let mut b = tokio::task::spawn_blocking(|| Crashing::start(loopback()));
    let mut b = soon(&mut b).await.unwrap();
    let to_b = soon(a.connect(&address(&b.1))).await.unwrap();
    to_b.send(b"before").unwrap();
    let incoming = soon(b.2.recv()).await.unwrap();
    drop(incoming);
    quiet(&to_b).await;
    let crashed = tokio::task::spawn_blocking(move || Crashing::start(b.crash()));
    let mut b = soon(crashed).await.unwrap();
    assert!(!to_b.is_closed(), "it has said goodbye");
    // What is sent to the former one is answered by a reset, long before silence would show it.
    let start = std::time::Instant::now();
    until(|| to_b.send(b"anybody?") == Err(SendError::Closed)).await;
    assert!(start.elapsed() < Duration::from_secs(20));

    // The other way round: it dials us from the same address, and its former connection to us goes.
    let back = {
        let (handle, there) = (b.0.handle().clone(), address(&a));
        let transport = b.1;
        let dialled = handle.spawn(async move {
            let session = transport.connect(&there).await.unwrap();
            session.send(b"first").unwrap();
            (transport, session)
        });
        let first = next(&mut at_a).await.session;
        let (transport, session) = soon(dialled).await.unwrap();
        drop(session);
        b.1 = transport;
        first
    };
    quiet(&back).await;
    let crashed = tokio::task::spawn_blocking(move || Crashing::start(b.crash()));
    let b = soon(crashed).await.unwrap();
    assert!(!back.is_closed());
    let there = address(&a);
    let Crashing(runtime, transport, queue) = b;
    let dialled = runtime.spawn(async move {
        let session = transport.connect(&there).await.unwrap();
        session.send(b"second").unwrap();
        (transport, session)
    });
    let second = next(&mut at_a).await.session;
    assert_eq!(second.remote(), back.remote());
    until(|| back.is_closed()).await;
    assert!(!second.is_closed());
    drop((soon(dialled).await.unwrap(), queue));
    runtime.shutdown_background();
}

#[tokio::test]
async fn foreign_address_fails_and_silent_one_times_out() {
    let (a, _at_a) = start(1);
    let socket: SocketAddr = "192.0.2.1:7000".parse().unwrap();
    assert!(a.accepts(&Address::Quic(socket)));
    for address in [
        Address::Udp(socket),
        Address::Quic("192.0.2.1:0".parse().unwrap()),
        Address::Quic("[2001:db8::1]:7000".parse().unwrap()),
    ] {
        assert!(!a.accepts(&address), "{address}");
        let refused = a.connect(&address).await;
        assert!(matches!(refused, Err(ConnectError::NotAccepted { .. })));
    }
    let silent = std::net::UdpSocket::bind(loopback()).unwrap();
    let there = Address::Quic(silent.local_addr().unwrap());
    let error = soon(a.connect(&there)).await.unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains(&there.to_string()));
    assert_eq!(a.counters().timed_out, 1);
}

#[tokio::test]
async fn an_endpoint_without_links_refuses_them() {
    let (a, _at_a) = start(1);
    let options = QuicOptions::default();
    let streams = QuicEndpoint::bind(loopback(), &key(2), everybody(), options).unwrap();
    let there = Address::Quic(streams.local_address().unwrap());
    let error = soon(a.connect(&there)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Network { .. }), "{error}");
}
