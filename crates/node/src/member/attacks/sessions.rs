//! Floods of handshakes over real sockets, and sessions of members that are revoked.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::limits::{STRANGER_BURST, STRANGER_HANDSHAKES};
use crate::statement::Statement;

/// Bytes that the attackers have sent and received.
#[derive(Default)]
struct Moved {
    sent: AtomicU64,
    received: AtomicU64,
    stop: AtomicBool,
}

/// Sends handshakes from 200 addresses, thousands a second, and answers nothing.
async fn flood(to: SocketAddr, moved: Arc<Moved>) {
    let mut sockets = Vec::new();
    for last in 1..=200 {
        let host = Ipv4Addr::new(127, 0, 7, last);
        sockets.push(UdpSocket::bind((host, 0)).await.unwrap());
    }
    let (mut number, mut buffer) = (0_u32, [0; 2048]);
    while !moved.stop.load(Ordering::Relaxed) {
        for socket in &sockets {
            number += 1;
            let mut packet = vec![1];
            packet.extend(number.to_be_bytes());
            packet.extend([0; 16]);
            packet.extend(number.to_be_bytes().repeat(80));
            if socket.try_send_to(&packet, to).is_ok() {
                let bytes = u64::try_from(packet.len()).unwrap();
                moved.sent.fetch_add(bytes, Ordering::Relaxed);
            }
            while let Ok(size) = socket.try_recv(&mut buffer) {
                let bytes = u64::try_from(size).unwrap();
                moved.received.fetch_add(bytes, Ordering::Relaxed);
            }
            if number.is_multiple_of(20) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// A flood of handshakes costs bounded work and excludes none.
#[tokio::test]
async fn handshake_flood_costs_bounded_work_and_excludes_none() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut bob = Puppet::new(&mut owner, "bob").await;
    bob.link_to(&oslo).await;
    let start = Instant::now();
    let moved = Arc::new(Moved::default());
    let flood = tokio::spawn(flood(oslo.address, Arc::clone(&moved)));
    while oslo.counter("link_cookies_sent").await < 200 {
        assert!(start.elapsed() < SOON, "the flood does not arrive");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Strangers get in, one after the other, and a member with a link notices nothing.
    for number in 0..5 {
        let mut alice = Puppet::new(&mut owner, "alice").await;
        alice.link_to(&oslo).await;
        bob.echo(&oslo, 10 + number).await;
    }
    moved.stop.store(true, Ordering::Relaxed);
    flood.await.unwrap();
    let read = oslo.counter("link_handshakes_read").await;
    let seconds = u64::try_from(start.elapsed().as_millis()).unwrap() / 1_000 + 1;
    let most = u64::from(STRANGER_BURST) + u64::from(STRANGER_HANDSHAKES) * seconds + 10;
    assert!(read <= most, "{read} were read in {seconds} s");
    let cookies = oslo.counter("link_cookies_sent").await;
    assert!(cookies > 200, "{cookies}");
    let (sent, received) = (&moved.sent, &moved.received);
    let (sent, received) = (
        sent.load(Ordering::Relaxed),
        received.load(Ordering::Relaxed),
    );
    assert!(
        received > 0 && received * 4 < sent,
        "{received} bytes for {sent}"
    );
    assert_eq!(oslo.counter("links_revoked").await, 0);
}

/// The sessions of a revoked member end at once.
#[tokio::test]
async fn sessions_of_revoked_member_end_at_once() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    let serial = owner.serial;
    let mut alice = Puppet::new(&mut owner, "alice").await;
    mallory.link_to(&oslo).await;
    alice.link_to(&oslo).await;
    // What mallory has sealed with good keys, and an initiation that it has made, are still to be
    // sent.
    mallory.say(&oslo, LinkMessage::Echo(77));
    let now = Instant::now();
    let (_, sealed) = mallory.links.poll_transmit(now).unwrap();
    let revoked = BTreeSet::from([serial]);
    let statement = Statement::issue(&owner.identity, 2, 2, revoked);
    let bytes = statement.as_bytes().to_vec();
    alice.say(&oslo, LinkMessage::Statement(bytes.into()));
    // An echo may overtake what came with it; a second one cannot.
    for number in [5, 6] {
        alice.echo(&oslo, number).await;
    }
    assert_eq!(oslo.counter("links_revoked").await, 1);
    let status = oslo.handle.status().await.unwrap();
    let names: Vec<_> = status.links.iter().map(|link| link.name.clone()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let before = oslo.counter("link_packets_unknown_session").await;
    mallory.socket.send_to(&sealed, oslo.address).await.unwrap();
    let answer = mallory.run(Duration::from_secs(1), |message| {
        *message == LinkMessage::EchoReply(77)
    });
    assert_eq!(answer.await, None);
    let after = oslo.counter("link_packets_unknown_session").await;
    assert!(after > before, "the session is known no more");
    // Nor does it get another one.
    let refused = oslo.counter("link_handshakes_refused").await;
    let now = Instant::now();
    let address = vec![Address::Udp(oslo.address)];
    mallory.links.connect(now, &oslo.certificate, address);
    mallory.run(Duration::from_secs(2), |_| false).await;
    assert!(!mallory.links.is_up(&oslo.certificate.member()));
    assert!(oslo.counter("link_handshakes_refused").await > refused);
}
