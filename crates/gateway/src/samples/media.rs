//! Calls: DTLS, RTP, SIP, H.323, MGCP, TeamSpeak.

use super::{Sample, inside, joined, noise, outside};

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-media.pcap");
    dtls(&mut sample);
    rtp(&mut sample);
    arranged(&mut sample);
    conferences(&mut sample);
    sample
}

/// Of Zoom the sound behind its two headers, of Teams what it asks a relay.
fn conferences(sample: &mut Sample) {
    let packet = |number: u8| {
        joined(&[
            b"\x05\x00\x00\x00\x00\x00\x00\x04\x0f",
            &[0; 18],
            &[0x90, 0x6e, 7, number],
            b"\x00\x00\x11\x22\x5a\x6b\x7c\x8e",
            &noise(number, 60),
        ])
    };
    let packets: Vec<Vec<u8>> = [20, 21, 22, 23, 24]
        .iter()
        .flat_map(|&number| [packet(number), packet(number)])
        .collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    sample.udp(inside(16, 50_126), outside(156, 8_801), "zoom", &packets);
    let allocate = joined(&[
        b"\x00\x03\x00\x08\x21\x12\xa4\x42",
        &noise(139, 12),
        b"\x80\x70\x00\x04\x00\x00\x00\x03",
    ]);
    sample.udp(
        inside(16, 50_127),
        outside(157, 3_478),
        "teams",
        &[&allocate],
    );
}

fn dtls(sample: &mut Sample) {
    // A ClientHello with no session, no cookie, one cipher, no compression.
    let hello = joined(&[
        b"\xfe\xfd",
        &noise(140, 32),
        b"\x00\x00\x00\x02\xc0\x2b\x01\x00",
    ]);
    let handshake = joined(&[b"\x01\x00\x00\x2a\x00\x00\x00\x00\x00\x00\x00\x2a", &hello]);
    let record = joined(&[
        b"\x16\xfe\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x36",
        &handshake,
    ]);
    let (client, server) = (inside(16, 50_120), outside(150, 50_120));
    sample.udp(client, server, "dtls", &[&record]);
}

fn rtp(sample: &mut Sample) {
    let packet = |number: u8| {
        joined(&[
            &[0x80, 0x6f, 0x12, number],
            &[0, 0, number, 0],
            b"\x5a\x6b\x7c\x8d",
            &noise(number, 80),
        ])
    };
    let packets: Vec<Vec<u8>> = [10, 11, 12, 13, 14]
        .iter()
        .flat_map(|&number| [packet(number), packet(number)])
        .collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    sample.udp(inside(16, 50_122), outside(151, 50_122), "rtp", &packets);

    let report = joined(&[
        b"\x80\xc8\x00\x06\x5a\x6b\x7c\x8d",
        &[0; 20],
        b"\x81\xca\x00\x04\x5a\x6b\x7c\x8d\x01\x08one@home\x00\x00",
    ]);
    sample.udp(inside(16, 50_123), outside(151, 50_123), "rtp", &[&report]);
}

fn arranged(sample: &mut Sample) {
    let invite = b"INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.16:5060;branch=z9hG4bK1\r\n\
        From: <sip:alice@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: 1@10.0.0.16\r\nCSeq: 1 INVITE\r\n\r\n";
    let trying = b"SIP/2.0 100 Trying\r\nVia: SIP/2.0/UDP 10.0.0.16:5060;branch=z9hG4bK1\r\nCSeq: 1 INVITE\r\n\r\n";
    let (client, server) = (inside(16, 5_060), outside(152, 5_060));
    sample.udp(client, server, "sip", &[invite, trying]);
    let mut stream = sample.tcp(inside(16, 50_124), outside(152, 5_060), "sip");
    stream.client(invite);
    stream.server(trying);
    stream.close();

    // What it can carry, H.323's own part, in a message of 31 bytes.
    let setup = joined(&[
        b"\x03\x00\x00\x1f\x08\x02\x12\x34\x05\x04\x03\x88\x93\xa5",
        b"\x7e\x00\x0e\x05",
        &noise(141, 13),
    ]);
    let mut stream = sample.tcp(inside(16, 50_125), outside(153, 1_720), "h323");
    stream.client(&setup);
    stream.close();

    let (client, server) = (inside(16, 2_427), outside(154, 2_427));
    let restart = b"RSIP 1201 *@gateway.example MGCP 1.0\r\nRM: restart\r\n";
    sample.udp(client, server, "mgcp", &[restart, b"200 1201 OK\r\n"]);

    let start = joined(&[b"TS3INIT1\x00\x65\x00\x00\x88", &noise(142, 21)]);
    let (client, server) = (inside(16, 50_126), outside(155, 9_987));
    sample.udp(client, server, "teamspeak", &[&start]);
}
