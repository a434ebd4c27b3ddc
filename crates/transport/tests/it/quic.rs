//! QUIC on loopback: who gets in, data both ways, priorities that change.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use noq::udp::{RecvMeta, UdpSockRef, UdpSocketState};
use ringway_dtl::{Mode, Priority};
use ringway_transport::MemberId;
use ringway_transport::limits::{QUIC_CONNECTION_WINDOW, QUIC_HANDSHAKES, QUIC_STREAM_WINDOW};
use ringway_transport::quic::{
    Allow, CongestionControl, DatagramCarrier, MemberDatagram, QuicConnection, QuicEndpoint,
    QuicError, QuicOptions, RecvStream, SendStream, member_address,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::support::{key, loopback, soon, until};

fn everybody() -> Allow {
    Arc::new(|_| true)
}

fn only(member: MemberId) -> Allow {
    Arc::new(move |other| *other == member)
}

fn endpoint(key: &SigningKey, allow: Allow) -> (QuicEndpoint, SocketAddr) {
    let endpoint = QuicEndpoint::bind(loopback(), key, allow, QuicOptions::default()).unwrap();
    let address = endpoint.local_address().unwrap();
    (endpoint, address)
}

fn member(number: u16) -> MemberId {
    MemberId::from(&key(number))
}

struct Pair {
    _client: QuicEndpoint,
    _server: QuicEndpoint,
    out: QuicConnection,
    into: QuicConnection,
}

async fn pair(priority: Priority) -> Pair {
    let (client, _) = endpoint(&key(1), everybody());
    let (server, address) = endpoint(&key(2), everybody());
    let (out, into) = soon(async {
        tokio::join!(
            client.connect(address, member(2), priority),
            server.accept()
        )
    })
    .await;
    Pair {
        _client: client,
        _server: server,
        out: out.unwrap(),
        into: into.unwrap(),
    }
}

/// Echoes one stream.
async fn echo((mut send, mut receive): (SendStream, RecvStream)) {
    while let Ok(Some(chunk)) = receive.read_chunk(64 * 1024).await {
        send.write_all(&chunk).await.unwrap();
    }
    send.finish().unwrap();
}

#[tokio::test]
async fn ends_know_each_other_and_exchange_data() {
    let p = pair(Priority::NORMAL).await;
    assert_eq!(p.out.peer(), member(2));
    assert_eq!(p.into.peer(), member(1));
    assert!(p.out.remote().unwrap().ip().is_loopback());
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let echoing = p.into.clone();
    let server = tokio::spawn(async move { echo(echoing.accept_bi().await.unwrap()).await });
    let (mut send, mut receive) = p.out.open_bi().await.unwrap();
    let sending = data.clone();
    let sender = tokio::spawn(async move {
        send.write_all(&sending).await.unwrap();
        send.finish().unwrap();
        send
    });
    let back = soon(receive.read_to_end(data.len())).await.unwrap();
    assert!(back == data, "the same bytes come back");
    soon(sender).await.unwrap();
    soon(server).await.unwrap();

    let report = p.out.report();
    assert!(report.sent_bytes > 3_000_000);
    assert!(report.rtt > Duration::ZERO);
    assert!(report.window > 0 && report.pacing_rate.unwrap() > 0);
    assert!(report.queueing_delay.is_some());
    assert!(report.mtu >= 1200);
    assert_eq!(report.priority, Priority::NORMAL);

    p.out.close(7, "done");
    let closed = soon(p.into.closed()).await;
    assert!(matches!(closed, QuicError::ClosedByPeer { code: 7, ref reason } if reason == "done"));
    assert!(matches!(p.out.close_reason(), Some(QuicError::Closed)));
    assert!(matches!(
        p.into.open_bi().await,
        Err(QuicError::ClosedByPeer { .. })
    ));
}

#[tokio::test]
async fn another_key_than_expected_is_refused_and_named() {
    let (client, _) = endpoint(&key(1), everybody());
    let (server, address) = endpoint(&key(2), everybody());
    let connecting = client.connect(address, member(3), Priority::NORMAL);
    let error = soon(connecting).await.unwrap_err();
    let QuicError::WrongPeer { expected, found } = error else {
        panic!("{error}");
    };
    assert_eq!((expected, found), (member(3), member(2)));
    // The server never hands that connection out.
    let good = client.connect(address, member(2), Priority::NORMAL);
    let (good, first) = soon(async { tokio::join!(good, server.accept()) }).await;
    let good = good.unwrap();
    let (mut send, _receive) = good.open_bi().await.unwrap();
    send.write_all(b"x").await.unwrap();
    assert!(soon(first.unwrap().accept_bi()).await.is_ok());
}

#[tokio::test]
async fn unadmitted_key_is_refused_in_the_handshake() {
    let (stranger, _) = endpoint(&key(1), everybody());
    let (friend, _) = endpoint(&key(3), everybody());
    let (server, address) = endpoint(&key(2), only(member(3)));
    let refused = soon(stranger.connect(address, member(2), Priority::NORMAL)).await;
    assert!(
        matches!(refused, Err(QuicError::Refused { .. })),
        "{refused:?}"
    );
    let connecting = friend.connect(address, member(2), Priority::NORMAL);
    let (out, into) = soon(async { tokio::join!(connecting, server.accept()) }).await;
    assert_eq!(out.unwrap().peer(), member(2));
    assert_eq!(into.unwrap().peer(), member(3), "the stranger never shows");
}

#[tokio::test]
async fn unadmitted_peer_is_not_dialled() {
    let (client, _) = endpoint(&key(1), only(member(3)));
    let (_server, address) = endpoint(&key(2), everybody());
    let refused = client.connect(address, member(2), Priority::NORMAL).await;
    assert!(matches!(refused, Err(QuicError::NotAllowed { member: m }) if m == member(2)));
}

#[tokio::test]
async fn a_peer_without_a_key_is_refused() {
    use noq::crypto::rustls::QuicClientConfig;
    let (server, address) = endpoint(&key(2), everybody());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"ringway/1".to_vec()];
    let config = noq::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let client = noq::Endpoint::client(loopback()).unwrap();
    let connecting = client.connect_with(config, address, "ringway").unwrap();
    assert!(soon(connecting).await.is_err());
    let none = tokio::time::timeout(Duration::from_millis(200), server.accept()).await;
    assert!(none.is_err(), "nothing to accept");
}

#[tokio::test]
async fn garbage_does_not_disturb_the_endpoint() {
    let (client, _) = endpoint(&key(1), everybody());
    let (server, address) = endpoint(&key(2), everybody());
    let stranger = std::net::UdpSocket::bind(loopback()).unwrap();
    for round in 0..500_usize {
        let garbage: Vec<u8> = (0..round * 2 + 1)
            .map(|n| ((n * 7919 + round * 104_729) % 256) as u8)
            .collect();
        stranger.send_to(&garbage, address).unwrap();
        let mut initial = vec![0xc3, 0, 0, 0, 1, 8];
        initial.extend_from_slice(&garbage);
        initial.resize(1200, 0);
        stranger.send_to(&initial, address).unwrap();
    }
    let connecting = client.connect(address, member(2), Priority::NORMAL);
    let (out, into) = soon(async { tokio::join!(connecting, server.accept()) }).await;
    assert!(out.is_ok() && into.is_some());
}

#[tokio::test]
async fn silent_address_is_an_error_in_time() {
    let (client, _) = endpoint(&key(1), everybody());
    let silent = std::net::UdpSocket::bind(loopback()).unwrap();
    let there = silent.local_addr().unwrap();
    let refused = soon(client.connect(there, member(2), Priority::NORMAL)).await;
    assert!(matches!(refused, Err(QuicError::TimedOut)), "{refused:?}");
}

/// One that ends makes room for the next.
#[tokio::test]
async fn connections_past_the_bound_are_refused() {
    let (client, _) = endpoint(&key(1), everybody());
    let options = QuicOptions {
        connections: 2,
        ..QuicOptions::default()
    };
    let server = QuicEndpoint::bind(loopback(), &key(2), everybody(), options).unwrap();
    let address = server.local_address().unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        let connecting = client.connect(address, member(2), Priority::NORMAL);
        let (out, into) = soon(async { tokio::join!(connecting, server.accept()) }).await;
        held.push((out.unwrap(), into.unwrap()));
    }
    let refused = soon(client.connect(address, member(2), Priority::NORMAL)).await;
    assert!(
        matches!(refused, Err(QuicError::Refused { .. })),
        "{refused:?}"
    );
    assert_eq!(server.refused(), 1);
    let out = soon(server.connect(address, member(2), Priority::NORMAL)).await;
    assert!(matches!(out, Err(QuicError::Busy { limit: 2 })), "{out:?}");
    held.pop();
    soon(async {
        while client
            .connect(address, member(2), Priority::NORMAL)
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_priority_changes_while_data_flows() {
    let p = pair(Priority::SCAVENGER).await;
    let reading = p.into.clone();
    tokio::spawn(async move {
        let (_send, mut receive) = reading.accept_bi().await.unwrap();
        while let Ok(Some(_)) = receive.read_chunk(1 << 20).await {}
    });
    let (mut send, _receive) = p.out.open_bi().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sender = tokio::spawn(async move {
        let chunk = vec![0; 64 * 1024];
        while !stopped.load(Ordering::Relaxed) {
            send.write_all(&chunk).await.unwrap();
        }
    });
    let four = Priority::new(4.0).unwrap();
    for (priority, mode) in [
        (Priority::SCAVENGER, Mode::Scavenger),
        (four, Mode::Flows),
        (Priority::SCAVENGER, Mode::Scavenger),
        (Priority::NORMAL, Mode::Flows),
    ] {
        p.out.set_priority(priority);
        assert_eq!(p.out.priority(), priority);
        until(|| p.out.report().mode == Some(mode)).await;
        let sent = p.out.report().sent_bytes;
        until(|| p.out.report().sent_bytes > sent + 200_000).await;
    }
    // Each side has its own: the other end's is as it was.
    assert_eq!(p.into.priority(), Priority::NORMAL);
    stop.store(true, Ordering::Relaxed);
    soon(sender).await.unwrap();
}

/// noq 1.4 ends the connection when too many pieces of a stream wait for their reader; the stream
/// window keeps full datagrams below that.
#[tokio::test]
async fn lagging_reader_slows_the_sender_without_loss() {
    let p = pair(Priority::NORMAL).await;
    let (mut sinks, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (mut send, _) = soon(p.out.open_bi()).await.unwrap();
        soon(send.write_all(&[1; 1000])).await.unwrap();
        sinks.push(send);
        receivers.push(soon(p.into.accept_bi()).await.unwrap().1);
    }
    let mut senders = Vec::new();
    for mut send in sinks {
        senders.push(tokio::spawn(async move {
            for _ in 0..80 {
                send.write_all(&[1; 50_000]).await.unwrap();
            }
            send.finish().unwrap();
        }));
    }
    // No task reads: the streams fill the connection's window together, and wait.
    let window = u64::from(QUIC_CONNECTION_WINDOW);
    assert!(window < 3 * u64::from(QUIC_STREAM_WINDOW));
    until(|| p.out.report().sent_bytes > window).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(p.out.report().sent_bytes < window * 3 / 2);
    assert!(p.out.close_reason().is_none());
    let mut readers = Vec::new();
    for mut receive in receivers {
        readers.push(tokio::spawn(async move {
            receive.read_to_end(5_000_000).await.unwrap().len()
        }));
    }
    for reader in readers {
        assert_eq!(soon(reader).await.unwrap(), 80 * 50_000 + 1000);
    }
    for sender in senders {
        soon(sender).await.unwrap();
    }
}

#[tokio::test]
async fn connections_have_priorities_of_their_own() {
    let (client, _) = endpoint(&key(1), everybody());
    let (server, address) = endpoint(&key(2), everybody());
    let first = client.connect(address, member(2), Priority::SCAVENGER);
    let second = client.connect(address, member(2), Priority::NORMAL);
    let (first, second) = soon(async { tokio::join!(first, second) }).await;
    let (first, second) = (first.unwrap(), second.unwrap());
    first.set_priority(Priority::new(9.0).unwrap());
    assert_eq!(second.priority(), Priority::NORMAL);
    assert!(server.accept().await.is_some());
}

#[tokio::test]
async fn the_stacks_own_cubic_serves_as_a_yardstick() {
    let options = QuicOptions {
        congestion: CongestionControl::Cubic,
        ..QuicOptions::default()
    };
    let client = QuicEndpoint::bind(loopback(), &key(1), everybody(), options).unwrap();
    let (server, address) = endpoint(&key(2), everybody());
    let connecting = client.connect(address, member(2), Priority::NORMAL);
    let (out, into) = soon(async { tokio::join!(connecting, server.accept()) }).await;
    let (out, into) = (out.unwrap(), into.unwrap());
    let echoing = into.clone();
    tokio::spawn(async move { echo(echoing.accept_bi().await.unwrap()).await });
    let (mut send, mut receive) = out.open_bi().await.unwrap();
    send.write_all(b"hello").await.unwrap();
    send.finish().unwrap();
    assert_eq!(soon(receive.read_to_end(100)).await.unwrap(), b"hello");
    assert_eq!(out.report().mode, None, "no controller of ours");
    drop(into);
}

#[tokio::test]
async fn closing_the_endpoint_ends_connections_and_accept() {
    let p = pair(Priority::NORMAL).await;
    p._server.close(3, "bye");
    assert!(soon(p._server.accept()).await.is_none());
    assert!(matches!(
        soon(p.out.closed()).await,
        QuicError::ClosedByPeer { code: 3, .. }
    ));
    soon(p._server.wait_idle()).await;
}

/// Carries datagrams from one side to the other; a share of them is lost.
fn carry(mut from: DatagramCarrier, to: mpsc::Sender<MemberDatagram>, sender: MemberId, lost: u32) {
    tokio::spawn(async move {
        let _incoming = from.incoming;
        let mut count = 0_u32;
        while let Some(datagram) = from.outgoing.recv().await {
            count += 1;
            if lost > 0 && count.is_multiple_of(lost) {
                continue;
            }
            let bytes = datagram.bytes;
            let arrived = MemberDatagram {
                member: sender,
                bytes,
            };
            if to.try_send(arrived).is_err() && to.is_closed() {
                return;
            }
        }
    });
}

#[tokio::test]
async fn streams_travel_over_lossy_messages() {
    let over = |number| {
        QuicEndpoint::over_messages(&key(number), everybody(), QuicOptions::default()).unwrap()
    };
    let ((a, at_a), (b, at_b)) = (over(1), over(2));
    let (to_a, to_b) = (at_a.incoming.clone(), at_b.incoming.clone());
    carry(at_a, to_b, member(1), 50);
    carry(at_b, to_a, member(2), 50);
    let address = member_address(&member(2));
    let connecting = a.connect(address, member(2), Priority::NORMAL);
    let (out, into) = soon(async { tokio::join!(connecting, b.accept()) }).await;
    let (out, into) = (out.unwrap(), into.unwrap());
    assert_eq!(into.peer(), member(1));
    let (mut send, _answers) = out.open_bi().await.unwrap();
    let sending = tokio::spawn(async move {
        send.write_all(&[7; 3_000_000]).await.unwrap();
        send.finish().unwrap();
    });
    everything_arrives(&into, 3_000_000).await;
    soon(sending).await.unwrap();
    assert!(out.report().lost > 0);
    assert!(
        out.report().mtu > 2_000,
        "larger datagrams were found to pass"
    );
}

async fn everything_arrives(into: &QuicConnection, size: usize) {
    let (_sink, mut receive) = soon(into.accept_bi()).await.unwrap();
    let got = soon(receive.read_to_end(size + 1)).await.unwrap();
    assert_eq!(got.len(), size);
}

#[tokio::test]
async fn half_open_handshakes_keep_no_peer_out() {
    let (server, address) = endpoint(&key(2), everybody());
    let (attacker, _) = endpoint(&key(3), everybody());
    let attacker = Arc::new(attacker);
    let recorder = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let recorded = recorder.local_addr().unwrap();
    let mut halves = Vec::new();
    // More than may be under way. Each is begun by somebody else, who then says nothing more.
    for _ in 0..2 * QUIC_HANDSHAKES {
        let attacker = Arc::clone(&attacker);
        let beginning = tokio::spawn(async move {
            let begun = attacker.connect(recorded, member(9), Priority::NORMAL);
            drop(tokio::time::timeout(Duration::from_millis(50), begun).await);
        });
        let socket = std::net::UdpSocket::bind(loopback()).unwrap();
        let mut first = [0; 2048];
        let size = soon(recorder.recv(&mut first)).await.unwrap();
        socket.send_to(&first[..size], address).unwrap();
        // A ClientHello with a post-quantum key share takes two datagrams.
        let more = tokio::time::timeout(Duration::from_millis(5), recorder.recv(&mut first));
        if let Ok(size) = more.await {
            socket.send_to(&first[..size.unwrap()], address).unwrap();
        }
        halves.push((socket, beginning));
    }
    let (client, _) = endpoint(&key(1), everybody());
    let (out, into) = soon(async {
        tokio::join!(
            client.connect(address, member(2), Priority::NORMAL),
            server.accept()
        )
    })
    .await;
    assert_eq!(out.unwrap().peer(), member(2));
    assert_eq!(into.unwrap().peer(), member(1));
    let sizes = halves.iter().map(|(socket, _)| {
        socket.set_nonblocking(true).unwrap();
        let mut answer = [0; 2048];
        std::iter::from_fn(|| socket.recv(&mut answer).ok()).count()
    });
    assert!(sizes.max() > Some(0), "the server has begun handshakes");
}

/// Relays between `server` and the client that writes to it first; what has come from there, as
/// reads and as datagrams.
///
/// On loopback, Linux hands over in one read what left in one system call, to a receiver that asks
/// for that, and joins nothing else. So the reads are the sender's system calls, of which no
/// program keeps count: noq's `udp_tx.ios` is always 0.
async fn counting_relay(server: SocketAddr) -> (SocketAddr, Arc<[AtomicU64; 2]>) {
    let front = UdpSocket::bind(loopback()).await.unwrap();
    let behind = UdpSocket::bind(loopback()).await.unwrap();
    let address = front.local_addr().unwrap();
    let counts = Arc::new([const { AtomicU64::new(0) }; 2]);
    let counted = counts.clone();
    // Asks for UDP_GRO, which Linux has had since 5.0.
    let state = UdpSocketState::new(UdpSockRef::from(&front)).unwrap();
    assert!(state.gro_segments().get() > 1);
    tokio::spawn(async move {
        let (mut ahead, mut back) = (vec![0; 65_536], vec![0; 65_536]);
        let mut client = None;
        loop {
            let mut meta = [RecvMeta::default()];
            tokio::select! {
                read = front.async_io(Interest::READABLE, || {
                    let mut buffers = [IoSliceMut::new(&mut ahead)];
                    state.recv(UdpSockRef::from(&front), &mut buffers, &mut meta)
                }) => {
                    assert_eq!(read.unwrap(), 1);
                    counted[0].fetch_add(1, Ordering::Relaxed);
                    client = Some(meta[0].addr);
                    for datagram in ahead[..meta[0].len].chunks(meta[0].stride) {
                        counted[1].fetch_add(1, Ordering::Relaxed);
                        behind.send_to(datagram, server).await.ok();
                    }
                }
                read = behind.recv(&mut back) => {
                    front.send_to(&back[..read.unwrap()], client.unwrap()).await.ok();
                }
            }
        }
    });
    (address, counts)
}

/// Segmentation offload: the system cuts what QUIC hands over at once into datagrams. A system call
/// for each would be most of the work of a fast transfer.
#[tokio::test]
async fn bulk_leaves_in_fewer_system_calls_than_datagrams() {
    let (client, _) = endpoint(&key(1), everybody());
    let (server, address) = endpoint(&key(2), everybody());
    let (relay, counts) = counting_relay(address).await;
    let connecting = client.connect(relay, member(2), Priority::NORMAL);
    let (out, into) = soon(async { tokio::join!(connecting, server.accept()) }).await;
    let (out, into) = (out.unwrap(), into.unwrap());
    let (mut send, _answers) = out.open_bi().await.unwrap();
    let size = 10_000_000;
    let sending = tokio::spawn(async move {
        send.write_all(&vec![7; size]).await.unwrap();
        send.finish().unwrap();
    });
    everything_arrives(&into, size).await;
    soon(sending).await.unwrap();
    let [reads, datagrams] = [&counts[0], &counts[1]].map(|count| count.load(Ordering::Relaxed));
    assert!(datagrams > 1000);
    assert!(
        reads * 2 < datagrams,
        "{reads} system calls for {datagrams} datagrams"
    );
}
