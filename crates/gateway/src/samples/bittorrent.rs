//! BitTorrent: peer connection, tracker over HTTP and UDP, DHT, uTP, local discovery.

use super::{Sample, inside, joined, noise, outside};
use crate::packet::L4;
use crate::reader::length32;

const APP: &str = "bittorrent";

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-bittorrent.pcap");
    tracker_http(&mut sample);
    tracker_udp(&mut sample);
    dht(&mut sample);
    peer(&mut sample);
    utp(&mut sample);
    local_discovery(&mut sample);
    web_torrent(&mut sample);
    sample
}

fn info_hash() -> Vec<u8> {
    noise(1, 20)
}

fn handshake(peer_id: &[u8]) -> Vec<u8> {
    joined(&[
        b"\x13BitTorrent protocol",
        &[0, 0, 0, 0, 0, 0x10, 0, 5],
        &info_hash(),
        peer_id,
    ])
}

/// Length, id, body.
fn message(id: u8, body: &[u8]) -> Vec<u8> {
    joined(&[
        &length32(body.len().saturating_add(1)).to_be_bytes(),
        &[id],
        body,
    ])
}

fn tracker_http(sample: &mut Sample) {
    let hash: String = info_hash()
        .iter()
        .map(|byte| format!("%{byte:02x}"))
        .collect();
    let request = format!(
        "GET /announce?info_hash={hash}&peer_id=-XX0001-abcdefghijkl&port=51413&uploaded=0&downloaded=0&left=1048576\
         &compact=1&event=started HTTP/1.1\r\nHost: tracker.example.org\r\nUser-Agent: Example/1\r\n\r\n"
    );
    let body = b"d8:intervali1800e5:peers6:\xc6\x33\x64\x07\x1a\xe1e";
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nContent-Type: text/plain\r\n\r\n",
        body.len()
    );
    let mut stream = sample.tcp(inside(5, 49_301), outside(80, 80), APP);
    stream.client(request.as_bytes());
    stream.server(&joined(&[head.as_bytes(), body]));
    stream.close();
}

fn tracker_udp(sample: &mut Sample) {
    // BEP 15: the protocol's number, the action `connect`, and a transaction that returns below.
    let connect = joined(&[
        &[0, 0, 4, 0x17, 0x27, 0x10, 0x19, 0x80],
        &[0; 4],
        b"\x11\x22\x33\x44",
    ]);
    let connected = joined(&[&[0; 4], b"\x11\x22\x33\x44", &noise(2, 8)]);
    let announce = joined(&[
        &noise(2, 8),
        &[0, 0, 0, 1],
        b"\x11\x22\x33\x45",
        &info_hash(),
        b"-XX0001-abcdefghijkl",
        &[0; 24],
        &[0, 0, 0, 2],
        &[0; 4],
        &noise(3, 4),
        &[0xff; 4],
        &[0xc8, 0xd5],
    ]);
    let peers = joined(&[
        &[0, 0, 0, 1],
        b"\x11\x22\x33\x45",
        &[0, 0, 7, 8, 0, 0, 0, 1, 0, 0, 0, 2],
        b"\xc6\x33\x64\x07\x1a\xe1",
    ]);
    sample.udp(
        inside(5, 51_413),
        outside(81, 6_969),
        APP,
        &[&connect, &connected, &announce, &peers],
    );
}

fn dht(sample: &mut Sample) {
    // BEP 5: a query and its response share the transaction `t`.
    let ping = joined(&[b"d1:ad2:id20:", &noise(4, 20), b"e1:q4:ping1:t2:aa1:y1:qe"]);
    let pong = joined(&[b"d1:rd2:id20:", &noise(5, 20), b"e1:t2:aa1:y1:re"]);
    let get = joined(&[
        b"d1:ad2:id20:",
        &noise(4, 20),
        b"9:info_hash20:",
        &info_hash(),
        b"e1:q9:get_peers1:t2:ab1:y1:qe",
    ]);
    let got = joined(&[
        b"d1:rd2:id20:",
        &noise(5, 20),
        b"5:token4:abcd6:valuesl6:\xc6\x33\x64\x07\x1a\xe1ee1:t2:ab1:y1:re",
    ]);
    sample.udp(
        inside(5, 51_413),
        outside(9, 6_881),
        APP,
        &[&ping, &pong, &get, &got],
    );
}

fn peer(sample: &mut Sample) {
    let block = noise(6, 16_384);
    let mut stream = sample.tcp(inside(5, 49_320), outside(7, 6_881), APP);
    stream.client(&handshake(b"-XX0001-abcdefghijkl"));
    stream.server(&handshake(b"-XX0001-mnopqrstuvwx"));
    stream.server(&message(5, &[0xff, 0xfe]));
    stream.client(&message(2, &[]));
    stream.server(&message(1, &[]));
    stream.client(&message(6, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0]));
    stream.server(&message(7, &joined(&[&[0; 8], &block])));
    stream.client(&message(4, &[0, 0, 0, 0]));
    stream.close();
}

/// Kind, connection id, sequence and acknowledgement numbers, payload.
fn utp_packet(kind: u8, id: u16, numbers: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let [sequence, acknowledged] = numbers;
    let sent_at = 1_000_000_u32.saturating_add(u32::from(sequence).saturating_mul(1_500));
    joined(&[
        &[kind << 4 | 1, 0],
        &id.to_be_bytes(),
        &sent_at.to_be_bytes(),
        &(if kind == 4 { 0_u32 } else { 20_000 }).to_be_bytes(),
        &1_048_576_u32.to_be_bytes(),
        &sequence.to_be_bytes(),
        &acknowledged.to_be_bytes(),
        payload,
    ])
}

fn utp(sample: &mut Sample) {
    let (client, server) = (inside(5, 51_413), outside(21, 6_889));
    let syn = utp_packet(4, 700, [1, 0], &[]);
    let state = utp_packet(2, 700, [9_000, 1], &[]);
    let hello = utp_packet(0, 701, [2, 8_999], &handshake(b"-XX0001-abcdefghijkl"));
    let answer = utp_packet(0, 700, [9_000, 2], &handshake(b"-XX0001-yzabcdefghij"));
    sample.udp(client, server, APP, &[&syn, &state, &hello, &answer]);
}

fn local_discovery(sample: &mut Sample) {
    let hash: String = info_hash()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    let search = format!(
        "BT-SEARCH * HTTP/1.1\r\nHost: 239.192.152.143:6771\r\nPort: 51413\r\nInfohash: {hash}\r\n\r\n\r\n"
    );
    let (client, group) = (inside(5, 6_771), ([239, 192, 152, 143], 6_771).into());
    sample.expect(L4::Udp, client, group, APP);
    sample.packets.udp(client, group, search.as_bytes());
}

/// A tracker's announcement in a masked WebSocket frame (RFC 6455 §5.2).
fn web_torrent(sample: &mut Sample) {
    let hash = "abcdefghij0123456789";
    let announce = format!(
        "{{\"numwant\":5,\"action\":\"announce\",\"info_hash\":\"{hash}\",\"peer_id\":\"-WW0001-abcdefghijkl\"}}"
    );
    // RFC 6455 §5.3: what a client sends is masked.
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let masked: Vec<u8> = announce
        .bytes()
        .zip(mask.iter().cycle())
        .map(|(byte, key)| byte ^ key)
        .collect();
    let length = u8::try_from(masked.len()).unwrap_or(0) | 0x80;
    let mut stream = sample.tcp(inside(5, 49_330), outside(82, 80), APP);
    stream.client(
        b"GET / HTTP/1.1\r\nHost: tracker.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2FtcGxlc2FtcGxlMTIzNA==\r\n\r\n",
    );
    stream.server(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    );
    stream.client(&joined(&[&[0x81, length], &mask, &masked]));
    stream.close();
}
