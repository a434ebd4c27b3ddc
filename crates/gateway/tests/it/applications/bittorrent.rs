//! BitTorrent: peers, trackers, DHT, uTP, HTTP, WebTorrent.

use ringway_gateway::Confidence::{Certain, Guess, Likely};
use ringway_gateway::Packets;

use super::{is, tcp, udp, unknown};
use crate::{at, classify, hex, only, pair};

const HANDSHAKE: &[u8] =
    b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbb";

#[test]
fn bittorrent_handshake_from_either_side_and_in_parts() {
    let flow = tcp(&[HANDSHAKE]);
    is(&flow, "bittorrent", Certain);
    assert!(
        flow.evidence.starts_with("bittorrent.handshake: byte 19"),
        "{}",
        flow.evidence
    );
    is(&tcp(&[b"", HANDSHAKE]), "bittorrent", Certain);
    is(&tcp(&[&HANDSHAKE[..20]]), "bittorrent", Likely);
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    stream.client_in_parts(HANDSHAKE, 15);
    is(&only(&packets), "bittorrent", Certain);
    unknown(&tcp(&[&HANDSHAKE[1..]]));
    unknown(&tcp(&[b"\x13BitTorrent protocoll"
        .map(|byte| byte ^ 1)
        .as_slice()]));
}

#[test]
fn reordered_or_altered_segments_hide_no_handshake() {
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    for (from, to) in [(30, 68), (10, 30), (0, 10)] {
        stream.renumber(1_001 + u32::try_from(from).unwrap(), 500_001);
        stream.client(&HANDSHAKE[from..to]);
    }
    is(&only(&packets), "bittorrent", Certain);

    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    stream.client(&HANDSHAKE[..10]);
    stream.renumber(1_001, 500_001);
    stream.client(&[&[b'x'; 10], &HANDSHAKE[10..]].concat());
    is(&only(&packets), "bittorrent", Certain);
}

#[test]
fn bittorrent_picked_up_midway_by_its_messages() {
    let have = hex("00000005 04 00000007");
    let request = hex("0000000d 06 00000001 00000000 00004000");
    let chain = [have.as_slice(), &request, &[0; 4], &request].concat();
    let (client, server) = pair();
    let mut packets = Packets::new();
    packets.tcp(client, server).client(&chain);
    is(&only(&packets), "bittorrent", Likely);
    unknown(&tcp(&[&[have.as_slice(), &request].concat()]));
    unknown(&tcp(&[&[0; 200]]));
}

#[test]
fn dht_needs_whole_bencoding_with_node_id() {
    let ping = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe";
    is(&udp(6_881, &[ping]), "bittorrent", Certain);
    is(
        &udp(6_881, &[b"d1:rd2:id20:abcdefghij0123456789e1:t2:aa1:y1:re"]),
        "bittorrent",
        Certain,
    );
    is(
        &udp(6_881, &[b"d1:eli201e5:Errore1:t2:aa1:y1:ee"]),
        "bittorrent",
        Likely,
    );
    unknown(&udp(6_881, &[&ping[..ping.len() - 1]]));
    unknown(&udp(6_881, &[b"d1:ad2:id3:abce1:q4:ping1:t2:aa1:y1:qe"]));
    unknown(&udp(6_881, &[b"d4:spam4:eggse"]));
    let long = [
        b"d1:ad2:id20:abcdefghij0123456789e1:q5000:".as_slice(),
        &[b'x'; 5_000],
        b"1:t2:aa1:y1:qe",
    ]
    .concat();
    assert!(udp(6_881, &[&long]).evidence.len() < 400);
    unknown(&udp(
        6_881,
        &[b"d1:ad2:id20:abcdefghij0123456789e1:q4:\x1b[2J1:t2:aa1:y1:qe"],
    ));
}

#[test]
fn bittorrent_trackers_and_local_discovery() {
    is(
        &udp(6_969, &[&hex("00000417 27101980 00000000 11223344")]),
        "bittorrent",
        Certain,
    );
    unknown(&udp(6_969, &[&hex("00000417 27101980 00000001 11223344")]));
    let search = b"BT-SEARCH * HTTP/1.1\r\nPort: 1\r\nInfohash: ED4F1085E885F98F9A69B70EE89EB988B8FD9115\r\n\r\n";
    is(&udp(6_771, &[search]), "bittorrent", Certain);
    unknown(&udp(6_771, &[b"BT-SEARCH * HTTP/1.1\r\nPort: 1\r\n\r\n"]));
}

#[test]
fn torrent_requests_outrank_http_and_keep_the_host() {
    let announce = b"GET /announce?info_hash=%aa7i%c4S%0d%de%06%24%18s%da%d4%3a%b5%cc%ec%2c%e6%22&peer_id=-TR2940-chho92c56pul HTTP/1.1\r\nHost: t.example\r\n\r\n";
    let flow = tcp(&[announce]);
    is(&flow, "bittorrent", Certain);
    assert_eq!(flow.details.host.as_deref(), Some("t.example"));
    let hash = "a".repeat(20);
    for (target, app, confidence) in [
        (format!("/scrape?info_hash={hash}"), "bittorrent", Certain),
        (
            format!("/seed?info_hash={hash}&piece=3"),
            "bittorrent",
            Certain,
        ),
        (
            format!("/announce?info_hash={hash}a&port=1"),
            "http",
            Certain,
        ),
        (format!("/search?info_hash={hash}"), "http", Certain),
        ("/announce".to_owned(), "http", Certain),
    ] {
        is(
            &tcp(&[format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()]),
            app,
            confidence,
        );
    }
    is(
        &tcp(&[b"GET /f HTTP/1.1\r\nHost: h\r\nUser-Agent: qBittorrent/4.5\r\n\r\n"]),
        "bittorrent",
        Likely,
    );
    is(
        &tcp(&[b"GET /f HTTP/1.1\r\nHost: h\r\nUser-Agent: Mozilla/5.0 BitTorrent/1\r\n\r\n"]),
        "http",
        Certain,
    );
}

#[test]
fn later_request_on_connection_reveals_a_tracker() {
    let page = b"GET /index.html HTTP/1.1\r\nHost: t.example\r\nUser-Agent: Example/1\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let scrape = format!(
        "GET /scrape?info_hash={} HTTP/1.1\r\nHost: t.example\r\n\r\n",
        "a".repeat(20)
    );
    let flow = tcp(&[page, answer, scrape.as_bytes()]);
    is(&flow, "bittorrent", Certain);
    assert_eq!(flow.details.host.as_deref(), Some("t.example"));
}

/// First byte, connection id, time, sequence and acknowledgement; no extension.
fn utp(first: u8, id: u16, time: u32, numbers: [u16; 2]) -> Vec<u8> {
    let delay = if first >> 4 == 4 { 0_u32 } else { 9_000 };
    let [sequence, acknowledged] = numbers.map(u16::to_be_bytes);
    [
        &[first, 0][..],
        &id.to_be_bytes(),
        &time.to_be_bytes(),
        &delay.to_be_bytes(),
        &[0, 0x10, 0, 0],
        &sequence,
        &acknowledged,
    ]
    .concat()
}

#[test]
fn utp_needs_matching_numbers_of_both_sides() {
    let syn = utp(0x41, 700, 1_000, [5, 0]);
    is(&udp(7_001, &[&syn]), "bittorrent", Guess);
    is(
        &udp(7_001, &[&syn, &utp(0x21, 700, 2_000, [90, 5])]),
        "bittorrent",
        Likely,
    );
    is(
        &udp(7_001, &[&syn, &utp(0x21, 700, 2_000, [90, 6])]),
        "bittorrent",
        Guess,
    );
    is(
        &udp(7_001, &[&syn, &utp(0x21, 701, 2_000, [90, 5])]),
        "bittorrent",
        Guess,
    );

    let midway: Vec<Vec<u8>> = (0..4_u16)
        .flat_map(|step| {
            let time = 1_000 + u32::from(step) * 500;
            [
                utp(0x01, 31, time, [100 + step, 500 + step]),
                utp(0x21, 30, time, [501 + step, 100 + step]),
            ]
        })
        .collect();
    let midway: Vec<&[u8]> = midway.iter().map(Vec::as_slice).collect();
    is(&udp(7_001, &midway), "bittorrent", Likely);
    unknown(&udp(7_001, &midway[..2]));

    let hello = [utp(0x01, 31, 1_000, [1, 1]).as_slice(), HANDSHAKE].concat();
    is(&udp(7_001, &[&hello]), "bittorrent", Certain);
    unknown(&udp(
        7_001,
        &[&[
            0x41, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ]],
    ));
}

#[test]
fn utp_guess_becomes_likely_by_dht_contact() {
    let mut packets = Packets::new();
    packets.udp(
        at("10.0.0.1:5000"),
        at("192.0.2.1:6000"),
        &utp(0x41, 700, 1_000, [5, 0]),
    );
    packets.udp(
        at("10.0.0.1:5000"),
        at("192.0.2.2:6001"),
        b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe",
    );
    packets.udp(
        at("192.0.2.2:6001"),
        at("10.0.0.1:5000"),
        b"d1:rd2:id20:abcdefghij0123456789e1:t2:aa1:y1:re",
    );
    packets.udp(
        at("10.0.0.7:5000"),
        at("192.0.2.3:6000"),
        &utp(0x41, 700, 1_000, [5, 0]),
    );
    let flows = classify(&packets);
    is(&flows[0], "bittorrent", Likely);
    assert!(
        flows[0]
            .evidence
            .contains("10.0.0.1:5000 speaks bittorrent"),
        "{}",
        flows[0].evidence
    );
    is(&flows[2], "bittorrent", Guess);
}

/// A WebSocket frame with this first byte, masked as a client's is.
fn masked(first: u8, text: &str) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let body = text.bytes().zip(mask.iter().cycle());
    let length = 0x80 | u8::try_from(text.len()).unwrap();
    [first, length]
        .into_iter()
        .chain(mask)
        .chain(body.map(|(byte, key)| byte ^ key))
        .collect()
}

#[test]
fn web_torrents_announcements_are_read_through_their_mask() {
    let upgrade = b"GET / HTTP/1.1\r\nHost: t.example\r\nUpgrade: websocket\r\n\r\n".as_slice();
    let answer = b"HTTP/1.1 101 Switching Protocols\r\n\r\n".as_slice();
    let announce = r#"{"action":"announce","info_hash":"aaaaaaaaaaaaaaaaaaaa","peer_id":"x"}"#;
    let flow = tcp(&[upgrade, answer, &masked(0x81, announce)]);
    is(&flow, "bittorrent", Certain);
    assert!(
        flow.evidence.starts_with("bittorrent.web_socket:"),
        "{}",
        flow.evidence
    );
    let chat = r#"{"action":"say","info_hash":"no"}"#;
    for (first, text) in [(0x81, chat), (0x82, announce), (0x81, "[\"info_hash\"]")] {
        is(
            &tcp(&[upgrade, answer, &masked(first, text)]),
            "http",
            Certain,
        );
    }
    unknown(&tcp(&[b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff{"]));
}
