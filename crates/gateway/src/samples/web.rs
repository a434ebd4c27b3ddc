//! What a border sees most: names, web pages, encrypted connections; and a flow of no known kind.

use super::{Sample, inside, joined, noise, outside};
use crate::classify::quic_initial;
use crate::packet::L4;

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-web.pcap");
    let (client, resolver) = (inside(8, 40_053), outside(53, 53));
    let question = b"\x03www\x07example\x03com\x00\x00\x01\x00\x01";
    let query = joined(&[
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00",
        question,
    ]);
    let address = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x04\xc6\x33\x64\x50";
    let answer = joined(&[
        b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00",
        question,
        address,
    ]);
    sample.udp(client, resolver, "dns", &[&query, &answer]);

    let announced = joined(&[
        b"\x00\x00\x84\x00\x00\x00\x00\x01\x00\x00\x00\x00",
        b"\x04_ipp\x04_tcp\x05local\x00\x00\x0c\x00\x01\x00\x00\x11\x94\x00\x02\xc0\x0c",
    ]);
    let (client, group) = (inside(8, 5_353), ([224, 0, 0, 251], 5_353).into());
    sample.expect(L4::Udp, client, group, "mdns");
    sample.packets.udp(client, group, &announced);

    let mut stream = sample.tcp(inside(8, 49_600), outside(80, 80), "http");
    stream.client(
        b"GET /index.html HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Example/1\r\n\r\n",
    );
    stream.server(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
    stream.close();

    let mut stream = sample.tcp(inside(8, 49_601), outside(43, 443), "tls");
    stream.client(&client_hello("www.example.com", &[b"h2", b"http/1.1"]));
    stream.server(&server_hello());
    stream.client(&joined(&[&[23, 3, 3, 0, 40], &noise(31, 40)]));
    stream.close();

    let (client, server) = (inside(8, 49_603), outside(45, 443));
    sample.udp(
        client,
        server,
        "quic",
        &[&quic_hello("quic.example.com", &[b"h3"])],
    );

    let mut stream = sample.tcp(inside(8, 49_602), outside(44, 7_777), "unknown");
    stream.client(&noise(32, 90));
    stream.server(&noise(33, 300));
    stream.close();
    sample
}

/// Two bytes of length, then the bytes.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    joined(&[&length.to_be_bytes(), bytes])
}

/// A record with one handshake message.
fn handshake_record(kind: u8, body: &[u8]) -> Vec<u8> {
    let message = joined(&[&[kind, 0], &counted(body)]);
    joined(&[&[22, 3, 1], &counted(&message)])
}

/// A ClientHello in a record.
pub(super) fn client_hello(name: &str, protocols: &[&[u8]]) -> Vec<u8> {
    handshake_record(1, &hello_body(name, protocols))
}

/// A client's first datagram over QUIC, with its hello.
pub(super) fn quic_hello(name: &str, protocols: &[&[u8]]) -> Vec<u8> {
    let message = joined(&[&[1, 0], &counted(&hello_body(name, protocols))]);
    // A CRYPTO frame from offset 0; the length takes two bytes.
    let length = u16::try_from(message.len()).unwrap_or(0) | 0x4000;
    let frame = joined(&[&[6, 0], &length.to_be_bytes(), &message]);
    quic_initial(1, &noise(37, 8), &frame, 1_200).unwrap_or_default()
}

/// RFC 8446 §4.1.2 with the extensions that matter: server name (RFC 6066), application protocols
/// (RFC 7301), and supported versions.
fn hello_body(name: &str, protocols: &[&[u8]]) -> Vec<u8> {
    let host = joined(&[&[0], &counted(name.as_bytes())]);
    let server_name = joined(&[&[0, 0], &counted(&counted(&host))]);
    let listed: Vec<u8> = protocols
        .iter()
        .flat_map(|name| joined(&[&[u8::try_from(name.len()).unwrap_or(0)], name]))
        .collect();
    let offered = joined(&[&[0, 16], &counted(&counted(&listed))]);
    let versions = joined(&[&[0, 43], &counted(&[2, 3, 4])]);
    let extensions = counted(&joined(&[
        if name.is_empty() { &[] } else { &server_name },
        if protocols.is_empty() { &[] } else { &offered },
        &versions,
    ]));
    let suites = counted(&[0x13, 0x01, 0x13, 0x02]);
    joined(&[
        &[3, 3],
        &noise(34, 32),
        &[32],
        &noise(35, 32),
        &suites,
        &[1, 0],
        &extensions,
    ])
}

fn server_hello() -> Vec<u8> {
    let versions = joined(&[&[0, 43], &counted(&[3, 4])]);
    let body = joined(&[
        &[3, 3],
        &noise(36, 32),
        &[32],
        &noise(35, 32),
        &[0x13, 0x01, 0],
        &counted(&versions),
    ]);
    handshake_record(2, &body)
}
