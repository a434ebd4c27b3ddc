//! Packets of nothing in front of what matters: a flow that nothing has named is looked at for
//! longer, and decided once more when it is named after all.

use std::time::Duration;

use ringway_gateway::samples::TcpStream;
use ringway_gateway::verdict::{EventKind, Gateway, Offload, Verdict};
use ringway_gateway::{Confidence, LinkType, Packets};

use super::triage::assert_sound;
use super::{at, enforcing, governed, only};

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const DHT: &[u8] = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe";
const DHT_ANSWER: &[u8] = b"d1:rd2:id20:mnopqrstuvwxyz123456e1:t2:aa1:y1:re";

fn handshake() -> Vec<u8> {
    let head = b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0";
    [head.as_slice(), &[7; 20], &[9; 20]].concat()
}

/// Bytes without any form, other ones for each number.
fn junk(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0] | 0x80
    };
    (0..600).map(|_| next()).collect()
}

fn stream(packets: &mut Packets) -> TcpStream<'_> {
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:7000"));
    stream.open();
    stream
}

/// So many segments of nothing each way, and then a torrent.
fn torrent_behind(each: u64) -> Packets {
    let mut packets = Packets::new();
    let mut stream = stream(&mut packets);
    for number in 1..=each {
        stream.client(&junk(number));
        stream.server(&junk(1_000 + number));
    }
    stream.client(&handshake());
    stream.server(&handshake());
    for _ in 0..20 {
        stream.client(b"\0\0\0\x01\x02");
        stream.server(&[0; 500]);
    }
    packets
}

fn datagrams_behind(each: u64) -> Packets {
    let (client, server) = (at("10.0.0.5:50000"), at("192.0.2.9:7000"));
    let mut packets = Packets::new();
    for number in 1..=each {
        packets.udp(client, server, &junk(number));
        packets.udp(server, client, &junk(1_000 + number));
    }
    packets.udp(client, server, DHT);
    packets.udp(server, client, DHT_ANSWER);
    packets
}

fn run(gateway: &mut Gateway, packets: &Packets) -> Vec<Verdict> {
    packets
        .iter()
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes))
        .collect()
}

#[test]
fn application_behind_ten_packets_is_named() {
    for packets in [torrent_behind(10), datagrams_behind(10)] {
        let flow = only(&packets);
        assert_eq!(
            (flow.app.as_str(), flow.confidence),
            ("bittorrent", Confidence::Certain)
        );
    }
    // It is a bound, not a cure.
    assert_eq!(only(&torrent_behind(40)).app, "unknown");
}

#[test]
fn the_kernel_asks_about_it_by_then() {
    for (name, packets) in [("tcp", torrent_behind(10)), ("udp", datagrams_behind(10))] {
        let packets = packets
            .iter()
            .map(|(now, bytes)| (now, LinkType::RawIp, bytes));
        assert_sound(name, packets, false);
    }
}

#[test]
fn it_is_decided_once_more_and_stopped() {
    let mut gateway = governed(BLOCK, enforcing());
    let packets = torrent_behind(10);
    let verdicts = run(&mut gateway, &packets);
    let at = (packets.iter())
        .position(|(_, bytes)| bytes.ends_with(&handshake()))
        .unwrap();
    assert!(verdicts[..at].iter().all(|verdict| verdict.accepts()));
    // The kernel leaves it here until then, and marks it as nothing that is read.
    assert!(
        verdicts[..at]
            .iter()
            .all(|verdict| verdict.offload().is_none())
    );
    assert!(
        verdicts[at..].iter().all(|verdict| !verdict.accepts()),
        "{verdicts:?}"
    );
    assert!(gateway.poll_injection().is_some());
    let events: Vec<_> = std::iter::from_fn(|| gateway.poll_event()).collect();
    assert_eq!(events[0].kind, EventKind::Alert);
    assert_eq!(events[0].alert.action, "blocked");
    gateway.finish(Duration::from_secs(1_000));
    let flow = gateway.poll_flow().unwrap();
    assert_eq!(
        (flow.record.app.as_str(), flow.rule.as_str()),
        ("bittorrent", "no-torrents")
    );
}

#[test]
fn datagrams_are_stopped_too() {
    let mut gateway = governed(BLOCK, enforcing());
    let verdicts = run(&mut gateway, &datagrams_behind(10));
    let (answer, before) = verdicts.split_last().unwrap();
    assert!(before[..20].iter().all(|verdict| verdict.accepts()));
    assert!(!answer.accepts());
}

#[test]
fn unnamed_flow_is_offloaded_in_the_end() {
    let mut gateway = governed(BLOCK, enforcing());
    let mut packets = Packets::new();
    let mut stream = stream(&mut packets);
    for number in 1..=60 {
        stream.client(&junk(number));
        stream.server(&junk(1_000 + number));
    }
    let verdicts = run(&mut gateway, &packets);
    assert_eq!(verdicts.last().unwrap().offload(), Some(Offload::Allowed));
    let asked = |verdict: &&Verdict| verdict.offload().is_none();
    assert_eq!(verdicts.iter().filter(asked).count(), 3 + 2 * 32 - 2);
}

#[test]
fn a_rule_on_unknown_decides_at_once() {
    let policy = "[[rule]]\nname = \"nothing-unnamed\"\napp = \"unknown\"\naction = \"block\"\n";
    let mut gateway = governed(policy, enforcing());
    let verdicts = run(&mut gateway, &torrent_behind(10));
    let first = verdicts
        .iter()
        .position(|verdict| !verdict.accepts())
        .unwrap();
    assert!(first <= 3 + 16, "{first}");
}

/// What is read from its beginning cannot be read any more: the rule's failure decides.
#[test]
fn page_is_unreadable_for_content_rules() {
    let policy = "[[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\nfailure = \"closed\"\n";
    let mut gateway = governed(policy, enforcing());
    let mut packets = Packets::new();
    let mut stream = stream(&mut packets);
    for number in 1..=10 {
        stream.client(&junk(number));
        stream.server(&junk(1_000 + number));
    }
    stream.client(b"GET /game.exe HTTP/1.1\r\nHost: h\r\n\r\n");
    let verdicts = run(&mut gateway, &packets);
    assert!(!verdicts.last().unwrap().accepts(), "{verdicts:?}");
}
