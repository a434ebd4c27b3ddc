//! Encrypted peer-to-peer flows: their shape, and what their host does otherwise.

use std::time::Duration;

use ringway_gateway::Confidence::{Certain, Guess, Likely};
use ringway_gateway::{FlowRecord, Packets, samples};

use super::{is, unknown};
use crate::{at, classify};

const DHT: &[u8] = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe";
const DHT_ANSWER: &[u8] = b"d1:rd2:id20:abcdefghij0123456789e1:t2:aa1:y1:re";

/// Random bytes, other ones for each seed.
fn random(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        })
        .collect()
}

/// A conversation of random bytes with turns of these sizes.
fn encrypted(packets: &mut Packets, client: &str, server: &str, sizes: &[usize]) {
    let mut stream = packets.tcp(at(client), at(server));
    stream.open();
    for (turn, size) in sizes.iter().enumerate() {
        let seed = u64::try_from(turn * 1_000 + size).unwrap() + 17;
        let bytes = random(seed, *size);
        if turn % 2 == 0 {
            stream.client(&bytes);
        } else {
            stream.server(&bytes);
        }
    }
}

fn of(flows: &[FlowRecord], port: u16) -> &FlowRecord {
    flows.iter().find(|flow| flow.server_port == port).unwrap()
}

const KEY_EXCHANGE: [usize; 4] = [300, 200, 130, 90];

#[test]
fn key_exchange_sizes_alone_are_a_guess() {
    for (sizes, app) in [
        (KEY_EXCHANGE.as_slice(), "bittorrent"),
        (&[96, 608], "bittorrent"),
        (&[95, 200, 130], "unknown"),
        (&[300, 609, 30], "unknown"),
        (&[300, 609, 130], "shadowsocks"),
        (&[574, 1_800, 90], "shadowsocks"),
        (&[199, 1_800, 90], "unknown"),
        (&[300, 200, 40], "unknown"),
        (&[300], "unknown"),
        (&[48, 80, 191, 54], "unknown"),
        (&[2_000, 1_500, 300], "tor"),
    ] {
        let mut packets = Packets::new();
        encrypted(&mut packets, "10.0.0.1:5000", "192.0.2.1:6000", sizes);
        let flows = classify(&packets);
        is(&flows[0], app, Guess);
    }
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.1:5000"), at("192.0.2.1:6000"));
    stream.open();
    stream.client(&b"a text that is no encrypted message at all. ".repeat(5));
    stream.server(&random(1, 200));
    unknown(&classify(&packets)[0]);
}

#[test]
fn dht_contact_makes_only_that_host_likely() {
    let mut packets = Packets::new();
    encrypted(
        &mut packets,
        "10.0.0.1:5000",
        "192.0.2.1:6001",
        &KEY_EXCHANGE,
    );
    packets.udp(at("10.0.0.1:6881"), at("192.0.2.2:6002"), DHT);
    packets.udp(at("192.0.2.2:6002"), at("10.0.0.1:6881"), DHT_ANSWER);
    encrypted(
        &mut packets,
        "10.0.0.2:5000",
        "192.0.2.1:6003",
        &KEY_EXCHANGE,
    );
    let flows = classify(&packets);
    is(of(&flows, 6_001), "bittorrent", Likely);
    assert_eq!(
        of(&flows, 6_001).evidence,
        "behaviour.encrypted: random bytes: 300, then 200, then 130; the host contacts its DHT, a tracker or a peer"
    );
    is(of(&flows, 6_003), "bittorrent", Guess);
}

#[test]
fn answering_port_makes_other_clients_likely() {
    for (answered, confidence) in [(true, Likely), (false, Guess)] {
        let mut packets = Packets::new();
        packets.udp(at("10.0.0.1:6881"), at("192.0.2.2:6002"), DHT);
        if answered {
            packets.udp(at("192.0.2.2:6002"), at("10.0.0.1:6881"), DHT_ANSWER);
        }
        encrypted(
            &mut packets,
            "10.0.0.9:5000",
            "192.0.2.2:6002",
            &KEY_EXCHANGE,
        );
        let flows = classify(&packets);
        let flow = flows.iter().find(|flow| flow.client_port == 5_000).unwrap();
        is(flow, "bittorrent", confidence);
    }
}

#[test]
fn many_peers_at_many_ports_make_it_likely() {
    for (peers, ports, confidence) in [(8, 8, Likely), (7, 7, Guess), (8, 1, Guess)] {
        let mut packets = Packets::new();
        for peer in 0..peers {
            let server = format!("192.0.2.{}:{}", peer + 1, 6_000 + peer % ports);
            let client = format!("10.0.0.1:{}", 5_000 + peer);
            encrypted(&mut packets, &client, &server, &KEY_EXCHANGE);
        }
        for flow in classify(&packets) {
            is(&flow, "bittorrent", confidence);
        }
    }
}

#[test]
fn edonkeys_obfuscation_needs_contact_with_kad() {
    let shape = [21, 19, 110, 120];
    let kad = [&[0xe4, 0x21, 2][..], &random(1, 32)].concat();
    let answer = [&[0xe4, 0x29][..], &random(1, 16), &[1], &random(2, 25)].concat();
    let mut packets = Packets::new();
    encrypted(&mut packets, "10.0.0.1:5000", "192.0.2.1:6001", &shape);
    packets.udp(at("10.0.0.1:4672"), at("192.0.2.2:6002"), &kad);
    packets.udp(at("192.0.2.2:6002"), at("10.0.0.1:4672"), &answer);
    encrypted(&mut packets, "10.0.0.2:5000", "192.0.2.1:6003", &shape);
    packets.udp(at("10.0.0.1:4672"), at("192.0.2.3:6004"), &random(3, 60));
    packets.udp(at("192.0.2.3:6004"), at("10.0.0.1:4672"), &random(4, 90));
    let flows = classify(&packets);
    is(of(&flows, 6_001), "edonkey", Likely);
    unknown(of(&flows, 6_003));
    is(of(&flows, 6_004), "edonkey", Likely);
}

/// Whatever padding either side rolls: 0 to 254 bytes each way.
#[test]
fn edonkeys_obfuscation_is_known_with_any_padding() {
    let kad = [&[0xe4, 0x21, 2][..], &random(1, 32)].concat();
    let answer = [&[0xe4, 0x29][..], &random(1, 16), &[1], &random(2, 25)].concat();
    let mut packets = Packets::new();
    packets.udp(at("10.0.0.1:4672"), at("192.0.2.2:6002"), &kad);
    packets.udp(at("192.0.2.2:6002"), at("10.0.0.1:4672"), &answer);
    let rolled = (0..=254).flat_map(|padding| [(padding, 0), (0, padding), (padding, padding)]);
    for (port, (asked, answered)) in (10_000..).zip(rolled) {
        let client = format!("10.0.0.1:{port}");
        let sizes = [12 + asked, 6 + answered, 110, 120];
        encrypted(&mut packets, &client, "192.0.2.1:6001", &sizes);
    }
    // Answers that are too short to be measured: datagrams, and a text after it.
    for (from, to, count) in [(0, 1, 40), (1, 0, 6), (0, 1, 60)] {
        let ends = ["10.0.0.1:4672", "192.0.2.4:6004"];
        packets.udp(at(ends[from]), at(ends[to]), &random(9, count));
    }
    let mut stream = packets.tcp(at("10.0.0.1:5001"), at("192.0.2.1:6003"));
    stream.open();
    stream.client(&random(5, 40));
    stream.server(&random(6, 6));
    stream.client(&b"a text that is no encrypted message. ".repeat(3));
    let flows = classify(&packets);
    unknown(of(&flows, 6_003));
    unknown(of(&flows, 6_004));
    let (known, missed): (Vec<_>, Vec<_>) = flows
        .iter()
        .filter(|flow| flow.server_port == 6_001)
        .partition(|flow| flow.app == "edonkey");
    assert!(missed.is_empty(), "{missed:#?}");
    assert_eq!(known.len(), 3 * 255);
}

#[test]
fn i2p_needs_contact_with_its_reseed_hosts() {
    let expected = samples::expected();
    assert!(expected.iter().any(|one| one.app == "i2p"));
    let mut packets = Packets::new();
    encrypted(
        &mut packets,
        "10.0.0.1:5000",
        "192.0.2.1:6001",
        &[80, 90, 300],
    );
    unknown(&classify(&packets)[0]);
}

/// Callers' ports are no ports of peers.
#[test]
fn popular_server_is_no_peer_to_peer_host() {
    let mut packets = Packets::new();
    for caller in 0..12 {
        let client = format!("10.0.0.{}:{}", caller + 1, 50_000 + 11 * caller);
        encrypted(&mut packets, &client, "192.0.2.1:5222", &KEY_EXCHANGE);
    }
    for flow in classify(&packets) {
        is(&flow, "bittorrent", Guess);
    }
}

#[test]
fn observed_behaviour_counts_for_ten_minutes() {
    for (seconds, confidence) in [(500, Likely), (700, Guess)] {
        let mut packets = Packets::new();
        packets.udp(at("10.0.0.1:6881"), at("192.0.2.2:6002"), DHT);
        packets.udp(at("192.0.2.2:6002"), at("10.0.0.1:6881"), DHT_ANSWER);
        packets.wait(Duration::from_secs(seconds));
        encrypted(
            &mut packets,
            "10.0.0.1:5000",
            "192.0.2.1:6001",
            &KEY_EXCHANGE,
        );
        is(of(&classify(&packets), 6_001), "bittorrent", confidence);
    }
}

/// What is behind a header may be random, the protocol is not.
#[test]
fn bytes_with_a_header_are_not_random() {
    let headed = |header: &[u8], seed: u64| [header, &random(seed, 200)].concat();
    let of_length = |seed: u64, bytes: &dyn Fn(u16) -> Vec<u8>| {
        let header = bytes(203);
        headed(&header, seed)
    };
    type Turns = [Vec<u8>; 3];
    let cases: [(&str, Turns); 4] = [
        ("a word", [1, 2, 3].map(|seed| headed(b"ZBXD\x03", seed))),
        (
            "a kind and the length of all",
            [1, 2, 3]
                .map(|seed| of_length(seed, &|all| [&[0x16], &all.to_be_bytes()[..]].concat())),
        ),
        (
            "the length of the rest",
            [1, 2, 3].map(|seed| headed(&200_u16.to_be_bytes(), seed)),
        ),
        (
            "a version",
            [1, 2, 3].map(|seed| headed(&[0xd7, 0x91], seed)),
        ),
    ];
    for (name, [first, answer, more]) in cases {
        let mut packets = Packets::new();
        packets.udp(at("10.0.0.1:6881"), at("192.0.2.2:6002"), DHT);
        packets.udp(at("192.0.2.2:6002"), at("10.0.0.1:6881"), DHT_ANSWER);
        let mut stream = packets.tcp(at("10.0.0.1:5000"), at("192.0.2.1:6001"));
        stream.open();
        stream.client(&first);
        stream.server(&answer);
        stream.client(&more);
        let flows = classify(&packets);
        assert_eq!(of(&flows, 6_001).app, "unknown", "{name}");
    }
}

/// Both may agree on plain text: then the handshake stands behind the key exchange.
#[test]
fn fallback_to_plain_text_is_recognised() {
    let handshake = [b"\x13BitTorrent protocol".as_slice(), &random(9, 48)].concat();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.1:5000"), at("192.0.2.1:6001"));
    stream.open();
    stream.client(&random(1, 300));
    stream.server(&random(2, 200));
    stream.client(&random(3, 130));
    stream.server(&random(4, 14));
    stream.client(&handshake);
    is(&classify(&packets)[0], "bittorrent", Certain);
}

/// Cards and the kernel join segments to more than is kept of a stream.
#[test]
fn oversized_first_segment_is_inspected() {
    let handshake = [b"\x13BitTorrent protocol".as_slice(), &random(9, 48)].concat();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.1:5000"), at("192.0.2.1:6001"));
    stream.open();
    stream.client_in_parts(&[handshake, random(5, 17_000)].concat(), 20_000);
    is(&classify(&packets)[0], "bittorrent", Certain);
}
