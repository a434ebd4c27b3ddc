//! The WebSocket transport on loopback, bare and behind nginx.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ringway_testbed::{Nginx, WebServer, free_port};
use ringway_transport::limits::{WS_HEAD_BYTES, WS_MTU, WS_QUEUE};
use ringway_transport::{
    Address, ConnectError, Incoming, SendError, StartError, Transport, WsOptions, WsTransport,
};
use tokio::sync::mpsc::{Receiver, channel};

use crate::support::{loopback, next, skipped, soon, until};

fn start_with(queue: usize, options: WsOptions) -> (WsTransport, Receiver<Incoming>) {
    let (sender, receiver) = channel(queue);
    (WsTransport::start(options, sender).unwrap(), receiver)
}

/// A server at `/ring`.
fn server() -> WsOptions {
    WsOptions {
        listen: Some(loopback()),
        path: "/ring".to_owned(),
        ..WsOptions::default()
    }
}

fn start(queue: usize) -> (WsTransport, Receiver<Incoming>) {
    start_with(queue, server())
}

fn leaf() -> (WsTransport, Receiver<Incoming>) {
    start_with(16, WsOptions::default())
}

fn address(transport: &WsTransport) -> SocketAddr {
    transport.local_address().unwrap()
}

#[tokio::test]
async fn messages_go_both_ways_from_a_leaf() {
    let ((b, mut at_b), (leaf, mut at_leaf)) = (start(16), leaf());
    assert_eq!(leaf.addresses(), []);
    let there = b.addresses()[0].address.clone();
    assert_eq!(there.to_string(), format!("ws://{}/ring", address(&b)));
    let to_b = leaf.connect(&there).await.unwrap();
    assert_eq!(to_b.remote(), there);
    to_b.send(b"there").unwrap();
    let incoming = next(&mut at_b).await;
    assert_eq!(&incoming.message[..], b"there");
    let remote = incoming.session.remote().to_string();
    assert!(remote.starts_with("ws://127.0.0.1:"), "{remote}");
    incoming.session.send(b"back").unwrap();
    assert_eq!(&next(&mut at_leaf).await.message[..], b"back");
    for size in [0, 1, 125, 126, 4096, WS_MTU] {
        let message: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        to_b.send(&message).unwrap();
        assert_eq!(&next(&mut at_b).await.message[..], &message[..]);
        incoming.session.send(&message).unwrap();
        assert_eq!(&next(&mut at_leaf).await.message[..], &message[..]);
    }
    let size = WS_MTU + 1;
    let refused = to_b.send(&vec![0; size]);
    assert_eq!(refused, Err(SendError::TooLarge { size, mtu: WS_MTU }));
    assert_eq!((leaf.counters().sent, leaf.counters().too_large), (7, 1));
    assert_eq!(b.counters().received, 7);
}

/// Sends raw bytes and returns all that comes back until the end.
async fn ask(to: SocketAddr, request: Vec<u8>) -> String {
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(to).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(&request).unwrap();
        let mut answer = Vec::new();
        // A reset after the answer is an end, too.
        stream.read_to_end(&mut answer).ok();
        String::from_utf8_lossy(&answer).into_owned()
    });
    soon(asked).await.unwrap()
}

fn request(path: &str, subprotocol: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    )
    .into_bytes()
}

#[tokio::test]
async fn everything_but_our_websocket_gets_404() {
    let (b, _at_b) = start(16);
    let endless = vec![b'x'; WS_HEAD_BYTES + 2048];
    for wrong in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"GET /ring HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"\0\x01\x02\r\n\r\n".to_vec(),
        request("/other", "ringway"),
        request("/ring", "chat"),
        endless,
    ] {
        let answer = ask(address(&b), wrong).await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
    assert_eq!(b.counters().malformed, 6);
    // A silent client is not waited for.
    let silent = ask(address(&b), b"GET /ring".to_vec()).await;
    assert_eq!(silent, "");
    assert_eq!(b.counters().timed_out, 1);
}

#[tokio::test]
async fn malformed_frames_end_only_their_own_connection() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(16));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    let masked = |first: u8, length: &[u8]| [&[first][..], length, &[0; 4], b"text"].concat();
    let too_long = (WS_MTU as u64 + 1).to_be_bytes();
    for (number, frame) in [
        masked(0x81, &[0x84]),                                   // text
        masked(0x82, &[&[0xff][..], &too_long].concat()),        // longer than the MTU
        masked(0x82, &[&[0xff][..], &[0xff; 8]].concat()),       // absurdly long
        masked(0xf2, &[0x84]),                                   // reserved bits
        [&[0x82, 0x04][..], b"bare"].concat(),                   // not masked
        [masked(0x02, &[0x84]), masked(0x02, &[0x84])].concat(), // a message within a message
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = [request("/ring", "ringway"), frame].concat();
        let answer = ask(address(&b), bytes).await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{number}: {answer}");
        let expected = number as u64 + 1;
        until(|| b.counters().malformed == expected).await;
    }
    to_b.send(b"still here").unwrap();
    assert_eq!(&next(&mut at_b).await.message[..], b"still here");
    assert_eq!(b.counters().received, 1);
}

#[tokio::test]
async fn slow_reader_costs_messages_but_blocks_no_sender() {
    let ((a, _at_a), (b, mut at_b)) = (start(16), start(1));
    let to_b = a.connect(&b.addresses()[0].address).await.unwrap();
    // Nothing runs between the sends, so the queue fills.
    for number in 0..WS_QUEUE + 5 {
        let sent = to_b.send(&[number as u8]);
        let expected = if number < WS_QUEUE {
            Ok(())
        } else {
            Err(SendError::WouldBlock)
        };
        assert_eq!(sent, expected);
    }
    assert_eq!(a.counters().would_block, 5);
    // And the receiver's core is slow as well.
    until(|| b.counters().queue_full == WS_QUEUE as u64 - 1).await;
    assert_eq!(&next(&mut at_b).await.message[..], [0]);
    until(|| to_b.send(b"again").is_ok()).await;
    assert_eq!(&next(&mut at_b).await.message[..], b"again");
}

#[tokio::test]
async fn bound_and_idle_time_spare_held_connections() {
    let idle = Duration::from_millis(400);
    let (b, mut at_b) = start_with(
        16,
        WsOptions {
            connections: 2,
            idle,
            ..server()
        },
    );
    let (a, mut at_a) = leaf();
    let there = b.addresses()[0].address.clone();
    let first = a.connect(&there).await.unwrap();
    let second = a.connect(&there).await.unwrap();
    second.send(b"held").unwrap();
    let held = next(&mut at_b).await.session;
    // The first one is not in use: it makes room.
    let third = a.connect(&there).await.unwrap();
    until(|| b.counters().refused == 1).await;
    until(|| first.is_closed()).await;
    until(|| third.is_closed()).await;
    assert_eq!(first.send(b"x"), Err(SendError::Closed));
    tokio::time::sleep(idle * 2).await;
    held.send(b"still open").unwrap();
    assert_eq!(&next(&mut at_a).await.message[..], b"still open");
    drop(held);
    until(|| second.is_closed()).await;
    assert_eq!(b.counters().timed_out, 2);
    // Places that are free again are given again, until all ends.
    let again = a.connect(&there).await.unwrap();
    again.send(b"x").unwrap();
    next(&mut at_b).await;
    drop(b);
    until(|| again.is_closed()).await;
}

#[tokio::test]
async fn errors_say_why_dialling_or_starting_failed() {
    let (a, _at_a) = leaf();
    for refused in ["ws://224.0.0.1/", "ws://[::]/", "udp://127.0.0.1:1"] {
        let refused = refused.parse().unwrap();
        assert!(!a.accepts(&refused));
        let error = a.connect(&refused).await.unwrap_err();
        assert!(matches!(error, ConnectError::NotAccepted { .. }), "{error}");
    }
    let gone: Address = format!("ws://127.0.0.1:{}/", free_port().unwrap())
        .parse()
        .unwrap();
    let error = a.connect(&gone).await.unwrap_err();
    assert!(error.to_string().contains(&gone.to_string()), "{error}");
    for options in [
        WsOptions {
            path: "no-slash".to_owned(),
            ..server()
        },
        WsOptions {
            path: "/a?b".to_owned(),
            ..server()
        },
        WsOptions {
            extra_roots: Some("/nonexistent.pem".into()),
            ..server()
        },
    ] {
        let error = WsTransport::start(options, channel(1).0).unwrap_err();
        assert!(!matches!(error, StartError::Listen { .. }), "{error}");
    }
}

#[tokio::test]
async fn works_behind_nginx_with_tls() {
    let (b, mut at_b) = start(16);
    let port = free_port().unwrap();
    let web = WebServer {
        name: "ring.test",
        port,
        path: "/ring",
        upstream: address(&b),
    };
    let Some(nginx) = Nginx::start(&web).unwrap() else {
        skipped("works_behind_nginx_with_tls", "nginx");
        return;
    };
    until(|| TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    let (a, mut at_a) = start_with(
        16,
        WsOptions {
            extra_roots: Some(nginx.certificate()),
            ..WsOptions::default()
        },
    );
    let there = |path: &str, name: &str| -> Address {
        let text = format!("wss://127.0.0.1:{port}{path}#{name}");
        text.parse().unwrap()
    };
    let session = a.connect(&there("/ring", "ring.test")).await.unwrap();
    for size in [0, 5, WS_MTU] {
        let message = vec![7; size];
        session.send(&message).unwrap();
        let incoming = next(&mut at_b).await;
        assert_eq!(&incoming.message[..], &message[..]);
        incoming.session.send(&message).unwrap();
        assert_eq!(&next(&mut at_a).await.message[..], &message[..]);
    }
    let error = a.connect(&there("/else", "ring.test")).await.unwrap_err();
    assert!(format!("{error}").contains("404"), "{error}");
    let error = a.connect(&there("/ring", "other.test")).await.unwrap_err();
    assert!(format!("{error}").contains("certificate"), "{error}");
    // No client trusts nginx's certificate unless configured to.
    let (stranger, _queue) = leaf();
    let error = stranger.connect(&there("/ring", "ring.test")).await;
    assert!(matches!(error, Err(ConnectError::Network { .. })));
}
