//! Private networks: WireGuard, Syncthing, libp2p and IPFS, Tor, I2P, Ringway itself.

use super::web::{client_hello, quic_hello};
use super::{Sample, inside, joined, noise, outside};
use crate::packet::L4;
use crate::reader::length32;

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-private.pcap");
    wireguard(&mut sample);
    syncthing(&mut sample);
    libp2p(&mut sample);
    hidden(&mut sample);
    ringway(&mut sample);
    sample
}

fn wireguard(sample: &mut Sample) {
    let begin = joined(&[
        &[1, 0, 0, 0],
        b"\x11\x22\x33\x44",
        &noise(101, 124),
        &[0; 16],
    ]);
    let answer = joined(&[
        &[2, 0, 0, 0],
        b"\x55\x66\x77\x88",
        b"\x11\x22\x33\x44",
        &noise(102, 80),
    ]);
    // The receiver's index is the one that the response has announced.
    let data = |counter: u64| {
        joined(&[
            &[4, 0, 0, 0],
            b"\x55\x66\x77\x88",
            &counter.to_le_bytes(),
            &noise(103, 48),
        ])
    };
    let (client, server) = (inside(12, 51_820), outside(110, 51_820));
    sample.udp(client, server, "wireguard", &[&begin, &answer, &data(0)]);
}

fn syncthing(sample: &mut Sample) {
    let announcement = joined(&[
        b"\x2e\xa7\xd9\x0b\x0a\x20",
        &noise(104, 32),
        b"\x12\x17tcp://192.168.2.10:22000",
    ]);
    let (client, everybody) = (inside(12, 42_370), ([255, 255, 255, 255], 21_027).into());
    sample.expect(L4::Udp, client, everybody, "syncthing");
    sample.packets.udp(client, everybody, &announcement);

    let mut stream = sample.tcp(inside(12, 50_000), outside(111, 22_000), "syncthing");
    stream.client(&client_hello("syncthing", &[b"bep/1.0"]));
    stream.close();

    let mut stream = sample.tcp(inside(12, 50_001), outside(112, 22_067), "syncthing");
    stream.client(b"\x9e\x79\xbc\x40\x00\x00\x00\x00\x00\x00\x00\x00");
    stream.server(b"\x9e\x79\xbc\x40\x00\x00\x00\x01\x00\x00\x00\x00");
    stream.close();
}

fn libp2p(sample: &mut Sample) {
    let hello = b"\x13/multistream/1.0.0\n\x07/noise\n";
    let mut stream = sample.tcp(inside(12, 50_010), outside(113, 4_001), "libp2p");
    stream.client(hello);
    stream.server(hello);
    stream.close();

    let (client, server) = (inside(12, 4_001), outside(114, 4_001));
    sample.udp(client, server, "libp2p", &[&quic_hello("", &[b"libp2p"])]);

    let mut stream = sample.tcp(inside(12, 50_011), outside(115, 443), "ipfs");
    stream.client(&client_hello("bafybeigdyr.ipfs.dweb.link", &[b"h2"]));
    stream.close();
}

fn hidden(sample: &mut Sample) {
    let mut stream = sample.tcp(inside(12, 50_020), outside(116, 9_001), "tor");
    stream.client(&client_hello("www.q4cyamnc6mtokjurvdclt.com", &[]));
    stream.close();

    let mut stream = sample.tcp(inside(13, 50_030), outside(117, 443), "i2p");
    stream.client(&client_hello("reseed.diva.exchange", &[]));
    stream.close();
    // The same host then speaks NTCP2 with a router.
    let mut stream = sample.tcp(inside(13, 50_031), outside(118, 17_431), "i2p");
    stream.client(&noise(105, 80));
    stream.server(&noise(106, 90));
    stream.client(&noise(107, 300));
    stream.close();
}

fn ringway(sample: &mut Sample) {
    const APP: &str = "ringway";
    let begin = joined(&[
        b"\x01\x11\x22\x33\x44",
        &[0; 16],
        &noise(108, 96),
        &noise(109, 260),
    ]);
    let answer = joined(&[
        b"\x02\x55\x66\x77\x88\x11\x22\x33\x44",
        &noise(110, 48),
        &noise(111, 260),
    ]);
    let (client, server) = (inside(12, 7_946), outside(119, 7_946));
    sample.udp(client, server, APP, &[&begin, &answer]);

    let framed = |packet: &[u8]| {
        let [_, _, high, low] = length32(packet.len()).to_be_bytes();
        joined(&[&[high, low], packet])
    };
    let mut stream = sample.tcp(inside(12, 50_040), outside(119, 7_946), APP);
    stream.client(&framed(&begin));
    stream.server(&framed(&answer));
    stream.close();

    // A build that encrypts nothing shows its certificate.
    let certificate = joined(&[
        &[0x82, 0x8a, 1, 0x58, 32],
        &noise(112, 32),
        &[0x58, 32],
        &noise(113, 32),
        &noise(114, 120),
    ]);
    let open = joined(&[
        b"\x11\x11\x22\x33\x44",
        &[0; 16],
        &[0; 96],
        &[0; 4],
        &certificate,
    ]);
    let (client, server) = (inside(12, 7_947), outside(120, 7_946));
    sample.udp(client, server, APP, &[&open]);

    let (client, server) = (inside(12, 7_948), outside(121, 7_946));
    sample.udp(
        client,
        server,
        APP,
        &[&quic_hello("", &[b"ringway-link/1"])],
    );

    let mut stream = sample.tcp(inside(12, 50_041), outside(122, 80), APP);
    stream.client(
        b"GET /ring HTTP/1.1\r\nHost: ring.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2FtcGxlc2FtcGxlMTIzNA==\r\nSec-WebSocket-Protocol: ringway\r\n\r\n",
    );
    stream.close();
}
