//! WireGuard, Syncthing, libp2p, Tor, Ringway.

use ringway_gateway::Confidence::{Certain, Guess, Likely};
use ringway_gateway::{LinkType, Packets, built_in_pipeline};

use super::web::{client_hello, hello_with, records};
use super::{is, tcp, udp, unknown};
use crate::{at, hex};

/// Bytes as of a key.
fn key(seed: u8, count: usize) -> Vec<u8> {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        })
        .collect()
}

#[test]
fn wireguard_by_lengths_and_indices() {
    let begin = [hex("01000000 11223344"), key(1, 140)].concat();
    let answer = [hex("02000000 55667788 11223344"), key(2, 80)].concat();
    is(&udp(51_820, &[&begin]), "wireguard", Likely);
    is(&udp(51_820, &[&begin, &answer]), "wireguard", Certain);
    let other = [hex("02000000 55667788 11223345"), key(2, 80)].concat();
    is(&udp(51_820, &[&begin, &other]), "wireguard", Likely);
    unknown(&udp(51_820, &[&begin[..147]]));
    unknown(&udp(
        51_820,
        &[&[hex("01000000 11223344"), vec![0; 140]].concat()],
    ));

    let data = |counter: u8| {
        [
            hex("04000000 55667788"),
            vec![counter, 0, 0, 0, 0, 0, 0, 0],
            key(3, 32),
        ]
        .concat()
    };
    let (one, two, three) = (data(1), data(2), data(3));
    is(&udp(51_820, &[&one]), "wireguard", Guess);
    is(
        &udp(51_820, &[&one, b"", &two, b"", &three]),
        "wireguard",
        Likely,
    );
    unknown(&udp(51_820, &[&one[..47]]));
}

#[test]
fn syncthing_discovery_relays_and_its_protocol_in_tls() {
    let announcement = [hex("2ea7d90b 0a20"), key(4, 32), b"\x12\x05tcp:/".to_vec()].concat();
    is(&udp(21_027, &[&announcement]), "syncthing", Certain);
    is(&udp(21_027, &[&hex("2ea7d90b 0b20")]), "syncthing", Likely);
    unknown(&udp(21_027, &[&hex("2ea7d90c 0a20")]));
    is(
        &tcp(&[&hex("9e79bc40 00000000 00000000")]),
        "syncthing",
        Certain,
    );
    unknown(&tcp(&[&hex("9e79bc40 00000000 00000001 00")]));
    unknown(&tcp(&[&hex("9e79bc40 00000009 00000000")]));
    let flow = tcp(&[&records(&hello_with("syncthing", &[b"bep/1.0"]), 10_000)]);
    is(&flow, "syncthing", Certain);
    assert!(
        flow.evidence
            .starts_with("syncthing.alpn: ClientHello, with the application protocol bep/1.0"),
        "{}",
        flow.evidence
    );
    is(
        &tcp(&[&records(&hello_with("a.example", &[b"h2", b"bep"]), 10_000)]),
        "tls",
        Certain,
    );
}

#[test]
fn libp2p_by_multistream_select() {
    let flow = tcp(&[b"\x13/multistream/1.0.0\n\x0b/tls/1.0.0\n"]);
    is(&flow, "libp2p", Certain);
    assert!(
        flow.evidence.contains("multistream-select"),
        "{}",
        flow.evidence
    );
    unknown(&tcp(&[b"\x13/multistream/2.0.0\n"]));
    unknown(&tcp(&[b"/multistream/1.0.0\n"]));
}

#[test]
fn tor_offers_a_random_name_and_no_protocol() {
    let name = "www.q4cyamnc6mtokjurvdclt.com";
    is(
        &tcp(&[&records(&client_hello(name, 0), 10_000)]),
        "tor",
        Likely,
    );
    is(
        &tcp(&[&records(&hello_with(name, &[b"h2"]), 10_000)]),
        "tls",
        Certain,
    );
    is(
        &tcp(&[&records(&client_hello("www.wikipedia.com", 0), 10_000)]),
        "tls",
        Certain,
    );
}

fn initiation() -> Vec<u8> {
    [hex("01 11223344"), vec![0; 16], key(5, 96 + 260)].concat()
}

#[test]
fn ringways_handshakes_over_udp_and_tcp() {
    let answer = [hex("02 55667788 11223344"), key(6, 48 + 260)].concat();
    is(&udp(7_946, &[&initiation()]), "ringway", Likely);
    is(&udp(7_946, &[&initiation(), &answer]), "ringway", Certain);
    let cookie = [hex("05 11223344"), key(7, 32)].concat();
    is(&udp(7_946, &[&initiation(), &cookie]), "ringway", Certain);
    let other = [hex("02 55667788 11223345"), key(6, 48 + 260)].concat();
    is(&udp(7_946, &[&initiation(), &other]), "ringway", Likely);
    unknown(&udp(7_946, &[&answer]));
    unknown(&udp(7_946, &[&initiation()[..150]]));
    unknown(&udp(7_946, &[&[hex("01 11223344"), vec![0; 400]].concat()]));

    let framed = |packet: &[u8]| {
        [
            &u16::try_from(packet.len()).unwrap().to_be_bytes()[..],
            packet,
        ]
        .concat()
    };
    is(
        &tcp(&[&framed(&initiation()), &framed(&answer)]),
        "ringway",
        Certain,
    );
    let data = |counter: u8| {
        [
            hex("03 55667788 00000001 000000"),
            vec![counter],
            key(counter, 40),
        ]
        .concat()
    };
    let said = [framed(&data(1)), framed(&data(2)), framed(&data(3))].concat();
    is(&tcp(&[&said]), "ringway", Likely);
    unknown(&tcp(&[&said[..60]]));
}

/// By their certificates, or by an address that the gateway was given.
#[test]
fn ringway_members_are_named_where_known() {
    let certificate = [
        hex("828a01 5820"),
        key(8, 32),
        hex("5820"),
        vec![0; 32],
        key(9, 100),
    ]
    .concat();
    let open = [hex("11 11223344"), vec![0; 112], vec![0; 4], certificate].concat();
    let flow = udp(7_946, &[&open]);
    is(&flow, "ringway", Certain);
    assert_eq!(
        flow.details.member.as_deref(),
        Some("a".repeat(52).as_str())
    );

    let mut packets = Packets::new();
    packets.udp(at("10.0.0.1:7946"), at("192.0.2.1:7946"), &initiation());
    let mut pipeline = built_in_pipeline();
    pipeline
        .surroundings()
        .know_member(at("10.0.0.1:7946"), "oslo");
    for (now, bytes) in packets.iter() {
        pipeline.handle_packet(now, LinkType::RawIp, bytes);
    }
    pipeline.finish();
    let flow = pipeline.poll_flow().unwrap();
    assert_eq!(flow.details.member.as_deref(), Some("oslo"));
}

#[test]
fn ringway_over_web_sockets_needs_the_subprotocol() {
    let ask = |protocol: &str| {
        format!(
            "GET /ring HTTP/1.1\r\nHost: r.example\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
        )
    };
    let flow = tcp(&[ask("ringway").as_bytes()]);
    is(&flow, "ringway", Certain);
    assert_eq!(flow.details.host.as_deref(), Some("r.example"));
    is(&tcp(&[ask("ringways").as_bytes()]), "http", Certain);
}
