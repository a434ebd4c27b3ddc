//! Tunnels and distant machines: IPsec, OpenVPN, L2TP, PPTP, tinc, Tailscale, ZeroTier, Nebula;
//! SSH, RDP, VNC, Telnet, NoMachine, Citrix.

use super::{Sample, inside, joined, noise, outside};

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-tunnels.pcap");
    ipsec(&mut sample);
    openvpn(&mut sample);
    dialled(&mut sample);
    meshes(&mut sample);
    others(&mut sample);
    sample
}

/// The first message of IKE version 2: proposals, a key, a nonce.
fn ike(initiator: &[u8], responder: &[u8], flags: u8) -> Vec<u8> {
    let payloads = joined(&[
        &[34, 0, 0, 36],
        &noise(120, 32),
        &[40, 0, 0, 40, 0, 31, 0, 0],
        &noise(121, 32),
        &[0, 0, 0, 36],
        &noise(122, 32),
    ]);
    let head = [33, 0x20, 34, flags, 0, 0, 0, 0, 0, 0, 0, 140];
    joined(&[initiator, responder, &head, &payloads])
}

fn ipsec(sample: &mut Sample) {
    let (one, other) = (noise(123, 8), noise(124, 8));
    let (client, server) = (inside(14, 500), outside(130, 500));
    sample.udp(
        client,
        server,
        "ipsec",
        &[&ike(&one, &[0; 8], 0x08), &ike(&one, &other, 0x20)],
    );

    let packet = |number: u8| joined(&[&[0x7e, 1, 2, 3, 0, 0, 0, number], &noise(125, 96)]);
    let (client, server) = (inside(14, 4_500), outside(130, 4_500));
    let packets = [packet(1), packet(1), packet(2), packet(2), packet(3)];
    let packets = packets.each_ref().map(Vec::as_slice);
    sample.udp(client, server, "ipsec", &packets);
}

fn openvpn(sample: &mut Sample) {
    let session = noise(126, 8);
    let open = joined(&[&[0x38], &session, &[0; 5]]);
    let answer = joined(&[&[0x40], &noise(127, 8), &[1, 0, 0, 0, 0], &session, &[0; 4]]);
    let (client, server) = (inside(14, 50_100), outside(131, 1_194));
    sample.udp(client, server, "openvpn", &[&open, &answer]);

    // With a signature of SHA-1, a number and the time.
    let signed = joined(&[
        &[0x38],
        &session,
        &noise(128, 20),
        &[0, 0, 0, 1],
        b"\x6a\x1b\x2c\x3d",
        &[0; 5],
    ]);
    let (client, server) = (inside(14, 50_101), outside(132, 1_194));
    sample.udp(client, server, "openvpn", &[&signed]);

    let mut stream = sample.tcp(inside(14, 50_102), outside(131, 443), "openvpn");
    stream.client(&joined(&[&[0, 14], &open]));
    stream.server(&joined(&[&[0, 26], &answer]));
    stream.close();
}

fn dialled(sample: &mut Sample) {
    let control = joined(&[
        b"\xc8\x02\x00\x24\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x80\x08\x00\x00\x00\x00\x00\x01",
        b"\x80\x08\x00\x00\x00\x02\x01\x00",
        b"\x80\x08\x00\x00\x00\x09\x12\x34",
    ]);
    sample.udp(inside(14, 1_701), outside(133, 1_701), "l2tp", &[&control]);

    let mut request = joined(&[
        b"\x00\x9c\x00\x01\x1a\x2b\x3c\x4d\x00\x01\x00\x00\x01\x00\x00\x00",
        &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1],
        b"gateway",
    ]);
    request.resize(156, 0);
    let mut stream = sample.tcp(inside(14, 50_103), outside(134, 1_723), "pptp");
    stream.client(&request);
    stream.close();
}

fn meshes(sample: &mut Sample) {
    let mut stream = sample.tcp(inside(14, 50_104), outside(135, 655), "tinc");
    stream.client(b"0 branch 17.7\n");
    stream.server(b"0 office 17.7\n");
    stream.close();

    let discovery = joined(&[
        b"TS\xf0\x9f\x92\xac",
        &noise(129, 32),
        &noise(130, 24),
        &noise(131, 34),
    ]);
    let (client, server) = (inside(14, 41_641), outside(136, 41_641));
    sample.udp(client, server, "tailscale", &[&discovery]);

    let address = b"\x8a\x10\x22\x33\x44";
    let hello = joined(&[
        &noise(132, 8),
        b"\x62\x1a\x2b\x3c\x4d",
        address,
        &[0],
        &noise(133, 8),
        &[1, 11, 1, 10, 0, 3],
        &[0, 0, 1, 0x8f, 2, 3, 4, 5],
        address,
        &[0],
        &noise(134, 64),
        &[0],
    ]);
    let (client, server) = (inside(14, 9_993), outside(137, 9_993));
    sample.udp(client, server, "zerotier", &[&hello]);

    let first = joined(&[&[0x10], &[0; 14], &[1], &noise(135, 200)]);
    let second = joined(&[
        b"\x10\x00\x00\x00\x11\x22\x33\x44",
        &[0; 7],
        &[2],
        &noise(136, 200),
    ]);
    let (client, server) = (inside(14, 4_242), outside(138, 4_242));
    sample.udp(client, server, "nebula", &[&first, &second]);
}

fn others(sample: &mut Sample) {
    // From an address of Teredo to another one, with nothing inside.
    let packet = joined(&[
        b"\x60\x00\x00\x00\x00\x00\x3b\x15",
        b"\x20\x01\x00\x00\x0a\x00\x00\x01",
        &noise(137, 8),
        b"\x20\x01\x00\x00\x0a\x00\x00\x02",
        &noise(138, 8),
    ]);
    let answer = joined(&[b"\x00\x00\x12\x34\xf5\xff\xff\xf1", &packet]);
    // On a port that is not Teredo's own, where it would be entered.
    sample.udp(
        inside(14, 50_105),
        outside(139, 3_545),
        "teredo",
        &[&packet, &answer],
    );

    let mut stream = sample.tcp(inside(14, 50_106), outside(139, 1_080), "socks");
    stream.client(b"\x05\x01\x00");
    stream.server(b"\x05\x00");
    stream.client(b"\x05\x01\x00\x03\x0fwww.example.com\x01\xbb");
    stream.close();
}

pub(super) fn remote() -> Sample {
    let mut sample = Sample::new("made-remote.pcap");
    let mut stream = sample.tcp(inside(15, 50_110), outside(140, 22), "ssh");
    stream.server(b"SSH-2.0-ExampleServer_1.0\r\n");
    stream.client(b"SSH-2.0-ExampleClient_1.0\r\n");
    stream.close();

    let mut stream = sample.tcp(inside(15, 50_111), outside(141, 3_389), "rdp");
    stream.client(&joined(&[
        b"\x03\x00\x00\x2b\x26\xe0\x00\x00\x00\x00\x00",
        b"Cookie: mstshash=clerk\r\n",
        b"\x01\x00\x08\x00\x03\x00\x00\x00",
    ]));
    stream.server(b"\x03\x00\x00\x13\x0e\xd0\x00\x00\x12\x34\x00\x02\x1f\x08\x00\x02\x00\x00\x00");
    stream.close();

    let mut stream = sample.tcp(inside(15, 50_112), outside(142, 5_900), "vnc");
    stream.server(b"RFB 003.008\n");
    stream.client(b"RFB 003.008\n");
    stream.close();

    let mut stream = sample.tcp(inside(15, 50_113), outside(143, 23), "telnet");
    stream.server(b"\xff\xfd\x18\xff\xfd\x20\xff\xfd\x23\xff\xfd\x27");
    stream.client(b"\xff\xfb\x18\xff\xfc\x20\xff\xfc\x23\xff\xfb\x27");
    stream.close();

    let mut stream = sample.tcp(inside(15, 50_114), outside(144, 4_000), "nomachine");
    stream.client(b"NXSH-8.2.3\n");
    stream.server(b"NXD-8.2.3\n");
    stream.close();

    let numbered = |number: u8| joined(&[b"\x01\x00\x01\x00\x0a\x00", &[number, 0, 0, 0]]);
    let datagrams = [1, 1, 2, 2, 3].map(numbered);
    let datagrams = datagrams.each_ref().map(Vec::as_slice);
    sample.udp(
        inside(15, 50_115),
        outside(144, 4_000),
        "nomachine",
        &datagrams,
    );

    let mut stream = sample.tcp(inside(15, 50_116), outside(145, 1_494), "citrix");
    stream.server(b"\x7f\x7fICA\x00\x7f\x7fICA\x00");
    stream.close();
    sample
}
