//! Packets that somebody sends in another host's name: they are dropped by themselves, and no
//! host is refused, named or remembered for them.

use std::time::Duration;

use etherparse::{PacketBuilder, TcpHeader};
use ringway_gateway::verdict::{Event, Gateway, Mode, Settings};
use ringway_gateway::{Confidence, LinkType, Packets};

use super::{at, governed};

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const VICTIM: &str = "10.0.0.5";
const SERVER: &str = "192.0.2.53";

fn gateway() -> Gateway {
    let settings = Settings {
        mode: Mode::Enforce,
        ..Settings::default()
    };
    governed(BLOCK, settings)
}

fn handshake() -> Vec<u8> {
    [
        b"\x13BitTorrent protocol".as_slice(),
        &[0; 8],
        &[7; 20],
        &[9; 20],
    ]
    .concat()
}

const DHT: &[u8] = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe";
const DNS: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01";
const DNS_ANSWER: &[u8] = b"\x12\x34\x81\x80\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01";

/// One segment without a connection.
fn segment(from: &str, to: &str, flags: fn(&mut TcpHeader), payload: &[u8]) -> Vec<u8> {
    let (from, to) = (at(from), at(to));
    let mut tcp = TcpHeader::new(from.port(), to.port(), 77_000, 64_240);
    flags(&mut tcp);
    let (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) = (from.ip(), to.ip())
    else {
        panic!("no IPv4");
    };
    let mut bytes = Vec::new();
    PacketBuilder::ipv4(source.octets(), destination.octets(), 64)
        .tcp_header(tcp)
        .write(&mut bytes, payload)
        .unwrap();
    bytes
}

fn pushes(tcp: &mut TcpHeader) {
    (tcp.ack, tcp.psh) = (true, true);
    tcp.acknowledgment_number = 4_242;
}

fn run(gateway: &mut Gateway, packets: &Packets) -> Vec<bool> {
    packets
        .iter()
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
        .collect()
}

fn events(gateway: &mut Gateway) -> Vec<Event> {
    std::iter::from_fn(|| gateway.poll_event()).collect()
}

/// The victim asks the server by DNS and opens a web page there, each over the port that the forged
/// packet named, and over others: all of it passes.
fn is_served(gateway: &mut Gateway, after: &Packets, ports: &[u16]) {
    let begin = after.iter().last().unwrap().0 + Duration::from_secs(1);
    let mut packets = Packets::starting_at(begin);
    for (number, port) in ports.iter().enumerate() {
        let client = format!("{VICTIM}:{}", 40_000 + number);
        let server = format!("{SERVER}:{port}");
        packets.udp(at(&client), at(&server), DNS);
        packets.udp(at(&server), at(&client), DNS_ANSWER);
        let mut stream = packets.tcp(at(&client), at(&server));
        stream.open();
        stream.client(b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n");
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        stream.close();
    }
    let passed = run(gateway, &packets);
    assert!(passed.iter().all(|pass| *pass), "{passed:?}");
}

/// No host is said to be a user of anything, for sure.
fn assert_no_blame(gateway: &mut Gateway) {
    gateway.report_rest();
    for event in events(gateway) {
        assert!(!event.alert.answered, "{event:?}");
        assert_eq!(event.alert.confidence, Confidence::Guess, "{event:?}");
    }
}

/// What is forged is dropped; the victim is served by the same server, and not blamed.
fn assert_harmless(forged: &Packets, dropped: &[bool]) {
    let mut gateway = gateway();
    let passed = run(&mut gateway, forged);
    let expected: Vec<bool> = dropped.iter().map(|drop| !drop).collect();
    assert_eq!(passed, expected);
    is_served(&mut gateway, forged, &[53, 80, 6_881]);
    assert_no_blame(&mut gateway);
    assert!(
        gateway.poll_injection().is_none(),
        "a reset may hit a connection that the victim has"
    );
}

#[test]
fn datagram_in_victims_name_blocks_only_itself() {
    for port in [53, 80, 6_881] {
        let mut packets = Packets::new();
        let server = format!("{SERVER}:{port}");
        packets.udp(at(&format!("{VICTIM}:50000")), at(&server), DHT);
        packets.udp(at(&format!("{VICTIM}:50000")), at(&server), DHT);
        assert_harmless(&packets, &[true, true]);
    }
}

#[test]
fn outside_datagram_makes_its_receiver_no_client() {
    for port in [53, 80, 6_881] {
        let mut packets = Packets::new();
        let server = format!("{SERVER}:{port}");
        packets.udp(at(&server), at(&format!("{VICTIM}:50000")), DHT);
        assert_harmless(&packets, &[true]);
    }
}

/// From inside and from outside.
#[test]
fn segment_without_handshake_blocks_only_itself() {
    for port in [53, 80, 6_881] {
        let (victim, server) = (format!("{VICTIM}:50000"), format!("{SERVER}:{port}"));
        for (from, to) in [(&victim, &server), (&server, &victim)] {
            let mut packets = Packets::new();
            packets.push(segment(from, to, pushes, &handshake()));
            assert_harmless(&packets, &[true]);
        }
    }
}

#[test]
fn reset_of_unknown_connection_is_no_answer() {
    let (victim, server) = (format!("{VICTIM}:50000"), format!("{SERVER}:80"));
    let mut packets = Packets::new();
    packets.push(segment(&victim, &server, pushes, b"?"));
    packets.push(segment(&server, &victim, |tcp| tcp.rst = true, &[]));
    packets.push(segment(&victim, &server, pushes, &handshake()));
    let mut gateway = gateway();
    run(&mut gateway, &packets);
    is_served(&mut gateway, &packets, &[80]);
    assert_no_blame(&mut gateway);
}

/// The server answers a forged SYN, to the victim: who forged it does not know the answer's number.
#[test]
fn an_answer_that_was_not_received_proves_nothing() {
    let (victim, server) = (format!("{VICTIM}:50000"), format!("{SERVER}:80"));
    let mut packets = Packets::new();
    packets.push(segment(&victim, &server, |tcp| tcp.syn = true, &[]));
    let answers = |tcp: &mut TcpHeader| {
        (tcp.syn, tcp.ack) = (true, true);
        tcp.acknowledgment_number = 77_001;
        tcp.sequence_number = 900_000;
    };
    packets.push(segment(&server, &victim, answers, &[]));
    let goes_on = |tcp: &mut TcpHeader| {
        pushes(tcp);
        tcp.sequence_number = 77_001;
    };
    packets.push(segment(&victim, &server, goes_on, &handshake()));
    assert_harmless(&packets, &[false, false, true]);
}

/// The victim and the server do talk, by DNS; then comes a forged datagram between the same ports.
#[test]
fn an_answer_to_something_else_proves_nothing() {
    let (victim, server) = (format!("{VICTIM}:50000"), format!("{SERVER}:5300"));
    let mut packets = Packets::new();
    // Nothing that a signature knows.
    packets.udp(at(&victim), at(&server), b"one question");
    packets.udp(at(&server), at(&victim), b"an answer");
    packets.udp(at(&victim), at(&server), DHT);
    packets.udp(at(&victim), at(&server), b"another question");
    packets.udp(at(&server), at(&victim), b"another answer");
    assert_harmless(&packets, &[false, false, true, false, false]);
}

/// What is learned of a host makes its other flows likely: not from what has no answer.
#[test]
fn one_packet_taints_no_other_flows() {
    let mut gateway = gateway();
    let mut packets = Packets::new();
    packets.udp(at(&format!("{VICTIM}:50000")), at("198.51.100.7:6881"), DHT);
    let mut stream = packets.tcp(at(&format!("{VICTIM}:50001")), at("198.51.100.9:443"));
    stream.open();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let random: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    })
    .take(150)
    .collect();
    stream.client(&random);
    stream.server(&random[7..]);
    stream.client(&random[9..]);
    stream.server(&random[11..]);
    let passed = run(&mut gateway, &packets);
    assert!(passed[1..].iter().all(|pass| *pass), "{passed:?}");
}

/// Who speaks and is answered is refused at once when he comes again.
#[test]
fn who_is_answered_is_refused_when_he_reconnects() {
    let mut gateway = gateway();
    let mut packets = Packets::new();
    for port in [50_000, 50_001] {
        let client = format!("{VICTIM}:{port}");
        let mut stream = packets.tcp(at(&client), at(&format!("{SERVER}:6881")));
        stream.open();
        stream.client(&handshake());
    }
    let passed = run(&mut gateway, &packets);
    let expected = [true, true, true, false, false, false, false, false];
    assert_eq!(passed, expected);
    let events = events(&mut gateway);
    assert!(events[0].alert.answered && events[0].alert.confidence == Confidence::Certain);
}
