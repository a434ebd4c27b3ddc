//! What each application's messages are called, and what resembles them and is none.

use ringway_gateway::{Confidence, FlowRecord, Packets};

use crate::{at, classify, hex, only, pair};

use Confidence::{Certain, Guess, Likely};

const HANDSHAKE: &[u8] =
    b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbb";

/// What client and server say in turn over TCP.
fn tcp(messages: &[&[u8]]) -> FlowRecord {
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    for (turn, message) in messages.iter().enumerate() {
        if turn % 2 == 0 {
            stream.client(message)
        } else {
            stream.server(message)
        }
    }
    only(&packets)
}

/// What client and server say in turn over UDP, the server on this port.
fn udp(port: u16, messages: &[&[u8]]) -> FlowRecord {
    let (client, server) = (at("10.1.0.2:40000"), at(&format!("192.0.2.9:{port}")));
    let mut packets = Packets::new();
    for (turn, message) in messages.iter().enumerate() {
        let (from, to) = if turn % 2 == 0 {
            (client, server)
        } else {
            (server, client)
        };
        packets.udp(from, to, message);
    }
    only(&packets)
}

fn is(flow: &FlowRecord, app: &str, confidence: Confidence) {
    assert_eq!(
        (flow.app.as_str(), flow.confidence),
        (app, confidence),
        "{flow:?}"
    );
}

fn unknown(flow: &FlowRecord) {
    assert_eq!(flow.app, "unknown", "{flow:?}");
}

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
fn segments_out_of_order_or_repeated_with_other_bytes_do_not_hide_a_handshake() {
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
fn bittorrent_dht_needs_whole_bencoding_with_a_node_id() {
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
fn bittorrent_inside_http_wins_over_http_and_keeps_the_host() {
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
fn a_later_request_on_the_same_connection_can_reveal_a_tracker() {
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
fn utp_is_likely_only_when_both_sides_name_each_others_numbers() {
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
fn a_utp_guess_becomes_likely_when_its_endpoint_speaks_the_dht_elsewhere() {
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

#[test]
fn edonkey_hello_and_frames() {
    // A hello between two clients, as eMule sends it: hash with its marks, id, port, two tags, a server.
    let hello = hex(
        "e3 31000000 01 10 1b42cd5b940ed779c20ab755fe256f97 01020304 3612 02000000 0201 0001 0100 78 03 0100 11 3c000000
         00000000 0000",
    );
    let flow = tcp(&[&hello]);
    is(&flow, "edonkey", Certain);
    assert!(flow.evidence.contains("eMule"), "{}", flow.evidence);
    let mut wrong = hello.clone();
    wrong[1] += 1;
    unknown(&tcp(&[&wrong]));
    let mut tags = hello.clone();
    tags[29] = 3;
    assert_ne!(tcp(&[&tags]).confidence, Certain);

    let accept = hex("e3 01000000 55");
    let request = [hex("e3 11000000 54"), vec![7; 16]].concat();
    is(&tcp(&[&request, &accept]), "edonkey", Certain);
    is(&tcp(&[&request]), "edonkey", Guess);
    is(
        &tcp(&[&[request.as_slice(), &accept].concat()]),
        "edonkey",
        Likely,
    );
    unknown(&tcp(&[&[0xe3; 50]]));
}

#[test]
fn kad_and_edonkey_datagrams() {
    let request = [hex("e4 21 02"), vec![7; 32]].concat();
    let answer = [hex("e4 29"), vec![7; 16], vec![1], vec![9; 25]].concat();
    is(&udp(4_672, &[&request]), "edonkey", Likely);
    is(&udp(4_672, &[&request, &answer]), "edonkey", Certain);
    is(&udp(4_665, &[&hex("e3 96 01020304")]), "edonkey", Guess);
    is(
        &udp(4_672, &[&hex("c5 92"), &hex("c5 93")]),
        "edonkey",
        Likely,
    );
    unknown(&udp(
        4_672,
        &[&[hex("e4 29"), vec![7; 16], vec![2], vec![9; 25]].concat()],
    ));
    // Open-ended messages count only when there are several.
    let open = [hex("e4 33"), vec![8; 40]].concat();
    unknown(&udp(4_672, &[&open]));
    unknown(&udp(4_672, &[&[0xe4; 100]]));
}

#[test]
fn gnutella_over_tcp() {
    is(
        &tcp(&[b"GNUTELLA CONNECT/0.6\r\nUser-Agent: LimeWire/4\r\n\r\n"]),
        "gnutella",
        Certain,
    );
    is(&tcp(&[b"GNUTELLA CONNECT/0.4\n\n"]), "gnutella", Certain);
    is(
        &tcp(&[b"", b"GNUTELLA/0.6 503 Busy\r\n\r\n"]),
        "gnutella",
        Certain,
    );
    is(
        &tcp(&[b"GIV 7:0123456789ABCDEF0123456789ABCDEF/song.ogg\n\n"]),
        "gnutella",
        Certain,
    );
    unknown(&tcp(&[b"GIV 7:short/song.ogg\n\n"]));
    unknown(&tcp(&[b"GNUTELLA CONNECT/now please"]));
}

#[test]
fn gnutella_transfers_over_http() {
    for (request, app, confidence) in [
        (
            "GET /uri-res/N2R?urn:sha1:PLSTHIPQGSSZTS5FJUPAKUZWUGYQYPFB HTTP/1.1\r\n\r\n",
            "gnutella",
            Likely,
        ),
        (
            "GET /get/12/song.ogg HTTP/1.1\r\nUser-Agent: BearShare 5\r\n\r\n",
            "gnutella",
            Certain,
        ),
        (
            "GET /song.ogg HTTP/1.1\r\nX-Gnutella-Content-URN: urn:sha1:A\r\n\r\n",
            "gnutella",
            Likely,
        ),
        (
            "GET /get/12/page HTTP/1.1\r\nUser-Agent: Mozilla/5.0\r\n\r\n",
            "http",
            Certain,
        ),
        (
            "GET /update HTTP/1.1\r\nUser-Agent: LimeWire/4\r\n\r\n",
            "http",
            Certain,
        ),
    ] {
        is(&tcp(&[request.as_bytes()]), app, confidence);
    }
}

#[test]
fn gnutella_datagrams() {
    let guid = "24d5310268fc1981ffbcc6e01fdbbe03";
    let ping = hex(&format!("{guid} 00 01 00 05000000 c382514b40"));
    is(&udp(6_346, &[&ping]), "gnutella", Certain);
    is(
        &udp(6_346, &[&hex(&format!("{guid} 00 01 00 00000000"))]),
        "gnutella",
        Likely,
    );
    unknown(&udp(
        6_346,
        &[&hex(&format!("{guid} 00 01 00 06000000 c382514b40"))],
    ));
    unknown(&udp(
        6_346,
        &[&hex(&format!("{guid} 77 01 00 05000000 c382514b40"))],
    ));
    unknown(&udp(6_346, &[&[0; 23]]));
    is(
        &udp(6_346, &[b"GND\x10\x3e\x8f\x01\x01T\x0bQKRP"]),
        "gnutella",
        Likely,
    );
    is(
        &udp(6_346, &[b"GND\x02\0\x01\x01\x01PI", b"GND\0\0\x01\x01\0"]),
        "gnutella",
        Certain,
    );
    unknown(&udp(6_346, &[b"GTA5 server browser"]));
}

#[test]
fn http_messages_and_lookalikes() {
    is(
        &tcp(&[b"POST /x HTTP/1.1\r\nHost: a.example\r\n\r\n"]),
        "http",
        Certain,
    );
    is(
        &tcp(&[b"", b"HTTP/1.1 404 Not Found\r\n\r\n"]),
        "http",
        Certain,
    );
    is(
        &tcp(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]),
        "http",
        Certain,
    );
    assert_eq!(
        tcp(&[b"CONNECT h.example:443 HTTP/1.1\r\n\r\n"])
            .details
            .host
            .as_deref(),
        Some("h.example:443")
    );
    let long = format!("GET /{}", "a".repeat(100));
    is(&tcp(&[long.as_bytes()]), "http", Likely);
    unknown(&tcp(&[b"OPTIONS rtsp://h/ RTSP/1.0\r\n\r\n"]));
    unknown(&tcp(&[b"GET me a coffee\r\n"]));
    unknown(&tcp(&[b"HTTP/1.x maybe\r\n"]));
}

#[test]
fn http_split_between_its_lines_still_tells_the_host() {
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    stream.client_in_parts(
        b"GET / HTTP/1.1\r\nAccept: */*\r\nHost: late.example\r\n\r\n",
        16,
    );
    let flow = only(&packets);
    is(&flow, "http", Certain);
    assert_eq!(flow.details.host.as_deref(), Some("late.example"));
}

/// A ClientHello with a server name, and padding so that it is long.
fn client_hello(name: &str, padding: usize) -> Vec<u8> {
    let counted = |bytes: &[u8]| {
        [
            &u16::try_from(bytes.len()).unwrap().to_be_bytes()[..],
            bytes,
        ]
        .concat()
    };
    let host = [&[0][..], &counted(name.as_bytes())].concat();
    let padding = [&[0, 21][..], &counted(&vec![0; padding])].concat();
    let extensions = [padding, vec![0, 0], counted(&counted(&host))].concat();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &counted(&[0x13, 1]),
        &[1, 0],
        &counted(&extensions),
    ]
    .concat();
    [&[1, 0][..], &counted(&body)].concat()
}

fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| {
        [
            &[22, 3, 1][..],
            &u16::try_from(part.len()).unwrap().to_be_bytes(),
            part,
        ]
        .concat()
    };
    message.chunks(size).flat_map(record).collect()
}

#[test]
fn a_client_hello_split_over_segments_and_records_tells_the_server_name() {
    for (padding, record, segment) in [(0, 10_000, 1_460), (6_000, 10_000, 1_460), (500, 100, 97)] {
        let (client, server) = pair();
        let mut packets = Packets::new();
        let mut stream = packets.tcp(client, server);
        stream.open();
        stream.client_in_parts(
            &records(&client_hello("secret.example", padding), record),
            segment,
        );
        let flow = only(&packets);
        is(&flow, "tls", Certain);
        assert_eq!(
            flow.details.sni.as_deref(),
            Some("secret.example"),
            "{padding} {record} {segment}"
        );
    }
}

#[test]
fn tls_by_parts_and_midway() {
    let hello = records(&client_hello("a.example", 0), 10_000);
    is(&tcp(&[&hello[..60]]), "tls", Likely);
    let data = [hex("17 0303 0010"), vec![9; 16]].concat();
    let (client, server) = pair();
    for (count, confidence) in [(1, Guess), (3, Likely)] {
        let mut packets = Packets::new();
        packets.tcp(client, server).client(&data.repeat(count));
        is(&only(&packets), "tls", confidence);
    }
    unknown(&tcp(&[&hex("16 0301 0005 0900000100")]));
    unknown(&tcp(&[&hex("16 0305 0030 0100002c0303")]));
}

#[test]
fn quic_needs_a_known_version_and_lengths_that_fit() {
    // Initial: header form and type, version, two connection ids, empty token, length 1 182.
    let initial = |version: &str, first: &str| {
        let head = hex(&format!("{first} {version} 08 0102030405060708 00 00 449e"));
        let fill = 1_200 - head.len();
        [head, vec![9; fill]].concat()
    };
    is(&udp(443, &[&initial("00000001", "c3")]), "quic", Certain);
    is(&udp(443, &[&initial("6b3343cf", "d3")]), "quic", Certain);
    is(&udp(443, &[&initial("ff00001d", "c3")]), "quic", Certain);
    is(&udp(443, &[&initial("1a2a3a4a", "c3")]), "quic", Likely);
    unknown(&udp(443, &[&initial("00000009", "c3")]));
    unknown(&udp(443, &[&initial("00000001", "83")]));
    let mut beyond = initial("00000001", "c3");
    beyond[16..18].copy_from_slice(&[0x7f, 0xff]);
    unknown(&udp(443, &[&beyond]));
    unknown(&udp(443, &[&initial("00000001", "c3")[..600]]));
    is(
        &udp(
            443,
            &[&hex("80 00000000 00 08 0102030405060708 00000001 1a2a3a4a")],
        ),
        "quic",
        Likely,
    );
    is(
        &udp(
            443,
            &[&[hex("0d 0102030405060708"), b"Q039\x01".to_vec()].concat()],
        ),
        "quic",
        Certain,
    );
    is(
        &udp(443, &[&hex("c3 51303436 50 a33549135f4a9709 00000001 00")]),
        "quic",
        Certain,
    );
}

#[test]
fn dns_by_port_and_form() {
    let query = hex("1234 0100 0001 0000 0000 0000 03777777 07 6578616d706c65 00 0001 0001");
    for (port, app) in [(53, "dns"), (5_353, "mdns"), (5_355, "llmnr")] {
        let flow = udp(port, &[&query]);
        is(&flow, app, Certain);
        assert_eq!(flow.details.query.as_deref(), Some("www.example"));
    }
    unknown(&udp(5_300, &[&query]));
    unknown(&udp(53, &[&query[..20]]));
    let mut reserved = query.clone();
    reserved[3] = 0x40;
    unknown(&udp(53, &[&reserved]));
    unknown(&udp(53, &[&[0xff; 40]]));
    let (client, server) = (at("10.0.0.1:40000"), at("192.0.2.1:53"));
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    stream.client(&[&[0, u8::try_from(query.len()).unwrap()][..], &query].concat());
    is(&only(&packets), "dns", Certain);
}

#[test]
fn flows_without_data_say_so() {
    let (client, server) = pair();
    let mut packets = Packets::new();
    packets.tcp(client, server).open();
    let flow = only(&packets);
    unknown(&flow);
    assert_eq!(flow.evidence, "no data");
}
