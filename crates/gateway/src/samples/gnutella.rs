//! Gnutella: handshake, descriptors over UDP, a transfer over HTTP, and Gnutella 2's semi-reliable
//! UDP.

use super::{Sample, inside, joined, noise, outside};
use crate::packet::L4;
use crate::reader::length32;

const APP: &str = "gnutella";

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-gnutella.pcap");
    handshake(&mut sample);
    descriptors(&mut sample);
    transfer(&mut sample);
    let (client, server) = (inside(7, 6_346), outside(52, 6_346));
    sample.expect(L4::Udp, client, server, APP);
    let part = joined(&[b"GND\x02\x00\x01\x01\x01", &[0x14, 0x03], b"PI"]);
    sample.packets.udp(client, server, &part);
    sample
        .packets
        .udp(server, client, b"GND\x00\x00\x01\x01\x00");
    sample
}

fn handshake(sample: &mut Sample) {
    let mut stream = sample.tcp(inside(7, 49_500), outside(50, 6_346), APP);
    stream.client(
        b"GNUTELLA CONNECT/0.6\r\nUser-Agent: gtk-gnutella/1.2\r\nX-Ultrapeer: False\r\n\r\n",
    );
    stream.server(
        b"GNUTELLA/0.6 200 OK\r\nUser-Agent: gtk-gnutella/1.2\r\nX-Ultrapeer: True\r\n\r\n",
    );
    stream.client(b"GNUTELLA/0.6 200 OK\r\n\r\n");
    stream.client(&descriptor(0x00, 20, &[]));
    stream.close();
}

/// GUID, type, TTL 1, hops 0, little-endian length, body.
fn descriptor(kind: u8, seed: u8, body: &[u8]) -> Vec<u8> {
    joined(&[
        &noise(seed, 16),
        &[kind, 1, 0],
        &length32(body.len()).to_le_bytes(),
        body,
    ])
}

fn descriptors(sample: &mut Sample) {
    let ping = descriptor(0x00, 21, b"\xc3\x82SCP\x41\x01");
    let pong = descriptor(
        0x01,
        21,
        &joined(&[
            &[0xca, 0x18, 198, 51, 100, 51],
            &[0; 8],
            b"\xc3\x82VC\x45GTKG\x12",
        ]),
    );
    sample.udp(inside(7, 6_346), outside(51, 6_346), APP, &[&ping, &pong]);
}

fn transfer(sample: &mut Sample) {
    let body = noise(23, 4_096);
    let head = "HTTP/1.1 206 Partial Content\r\nServer: LimeWire/4.18\r\nContent-Range: bytes 0-4095/8192\r\n\
                Content-Length: 4096\r\nX-Gnutella-Content-URN: urn:sha1:PLSTHIPQGSSZTS5FJUPAKUZWUGYQYPFB\r\n\r\n";
    let mut stream = sample.tcp(inside(7, 49_501), outside(53, 6_348), APP);
    stream.client(
        b"GET /uri-res/N2R?urn:sha1:PLSTHIPQGSSZTS5FJUPAKUZWUGYQYPFB HTTP/1.1\r\nHost: 198.51.100.53:6348\r\n\
          User-Agent: LimeWire/4.18\r\nX-Queue: 0.1\r\nRange: bytes=0-4095\r\n\r\n",
    );
    stream.server(&joined(&[head.as_bytes(), &body]));
    stream.close();
}
