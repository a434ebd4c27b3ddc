//! HTTP, TLS, QUIC, DNS.

use ringway_gateway::Confidence::{Certain, Guess, Likely};
use ringway_gateway::Packets;

use super::{is, tcp, udp, unknown};
use crate::{at, classify, hex, only, pair};

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
    is(
        &tcp(&[b"OPTIONS rtsp://h/ RTSP/1.0\r\n\r\n"]),
        "rtsp",
        Likely,
    );
    unknown(&tcp(&[b"GET me a coffee\r\n"]));
    unknown(&tcp(&[b"HTTP/1.x maybe\r\n"]));
}

#[test]
fn http_split_between_lines_yields_the_host() {
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
pub(super) fn client_hello(name: &str, padding: usize) -> Vec<u8> {
    hello(name, padding, &[])
}

/// A ClientHello with a server name and application protocols.
pub(super) fn hello_with(name: &str, protocols: &[&[u8]]) -> Vec<u8> {
    hello(name, 0, protocols)
}

fn hello(name: &str, padding: usize, protocols: &[&[u8]]) -> Vec<u8> {
    let counted = |bytes: &[u8]| {
        [
            &u16::try_from(bytes.len()).unwrap().to_be_bytes()[..],
            bytes,
        ]
        .concat()
    };
    let host = [&[0][..], &counted(name.as_bytes())].concat();
    let padding = [&[0, 21][..], &counted(&vec![0; padding])].concat();
    let listed: Vec<u8> = protocols
        .iter()
        .flat_map(|name| [&[u8::try_from(name.len()).unwrap()], *name].concat())
        .collect();
    let offered = if protocols.is_empty() {
        Vec::new()
    } else {
        [&[0, 16][..], &counted(&counted(&listed))].concat()
    };
    let extensions = [padding, vec![0, 0], counted(&counted(&host)), offered].concat();
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

pub(super) fn records(message: &[u8], size: usize) -> Vec<u8> {
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

/// Split over segments and records.
#[test]
fn split_client_hello_yields_the_server_name() {
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
fn quic_needs_known_version_and_fitting_lengths() {
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
    // Small segments, which make up no whole packet, are data.
    let mut stream = packets.tcp(at("10.1.0.3:50000"), server);
    stream.open();
    stream.client(&[0x25; 69]);
    let spoken = classify(&packets).pop().unwrap();
    unknown(&spoken);
    assert!(spoken.evidence.starts_with("no signature"), "{spoken:?}");
}

#[test]
fn encrypted_quic_hello_yields_the_server_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for path in ringway_gateway::samples::write(folder.path()).unwrap() {
        ringway_gateway::classify_file(&path, &mut |flow| {
            if flow.evidence.contains("long header") {
                names.push((flow.app, flow.details.sni));
            }
        })
        .unwrap();
    }
    let name = |app: &str| (app.to_owned(), None);
    let expected = [
        ("quic".to_owned(), Some("quic.example.com".to_owned())),
        name("libp2p"),
        name("ringway"),
    ];
    assert_eq!(names, expected);
}
