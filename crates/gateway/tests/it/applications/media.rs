//! DTLS, RTP, SIP, H.323, MGCP, TeamSpeak, and what resembles them.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::{is, tcp, udp, unknown};
use crate::hex;

/// A record of DTLS: kind, epoch, number, contents.
fn record(kind: u8, epoch: u8, number: u8, contents: &[u8]) -> Vec<u8> {
    let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
    let head = [kind, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, number];
    [&head, &length[..], contents].concat()
}

#[test]
fn dtls_by_handshakes_that_fill_their_records() {
    let hello = |length: u8| {
        let head = [1, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, length];
        [&head[..], &[0xfe, 0xfd], &[7; 8]].concat()
    };
    is(
        &udp(5_000, &[&record(22, 0, 0, &hello(10))]),
        "dtls",
        Certain,
    );
    // A fragment of more than there is, another version, a record that is cut, a kind that is none.
    unknown(&udp(5_000, &[&record(22, 0, 0, &hello(11))]));
    let mut other = record(22, 0, 0, &hello(10));
    other[2] = 0xfb;
    unknown(&udp(5_000, &[&other]));
    unknown(&udp(5_000, &[&record(22, 0, 0, &hello(10))[..30]]));
    unknown(&udp(5_000, &[&record(26, 0, 0, &hello(10))]));
    let (one, two) = (record(23, 1, 1, &[9; 40]), record(23, 1, 2, &[9; 40]));
    is(&udp(5_000, &[&one]), "dtls", Guess);
    is(&udp(5_000, &[&one, b"", &two]), "dtls", Likely);
}

#[test]
fn rtp_by_numbers_that_count_on() {
    let packet = |number: u8, source: u8| {
        [
            hex("806f 12"),
            vec![number],
            hex("00000000 5a6b7c"),
            vec![source; 40],
        ]
        .concat()
    };
    let said = |numbers: [u8; 4], sources: [u8; 4]| {
        let packets: Vec<Vec<u8>> = (0..4).map(|at| packet(numbers[at], sources[at])).collect();
        let mut turns: Vec<&[u8]> = Vec::new();
        for one in &packets {
            turns.extend([one.as_slice(), b""]);
        }
        udp(40_002, &turns)
    };
    is(&said([1, 2, 3, 4], [7; 4]), "rtp", Likely);
    is(&said([1, 3, 4, 9], [7; 4]), "rtp", Likely);
    unknown(&said([1, 2, 3, 3], [7; 4]));
    unknown(&said([1, 9, 5, 2], [7; 4]));
    unknown(&said([1, 2, 3, 4], [1, 2, 3, 4]));
}

#[test]
fn rtcp_by_lengths_that_fill_the_datagram() {
    let report = hex("80c80006 5a6b7c8d 0000000000000000 00000000 00000000 00000000");
    let names = hex("81ca0003 5a6b7c8d 01066f6e6540 6100");
    let both = [report.clone(), names].concat();
    is(&udp(40_003, &[&both]), "rtp", Certain);
    is(&udp(40_003, &[&report]), "rtp", Guess);
    unknown(&udp(40_003, &[&both[..both.len() - 1]]));
    unknown(&udp(
        40_003,
        &[&[&report[..], &[0x81, 0xd8, 0, 0]].concat()],
    ));
}

#[test]
fn sip_by_its_lines() {
    let request = b"REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP a\r\n\r\n";
    is(&udp(5_060, &[request]), "sip", Certain);
    is(&tcp(&[request]), "sip", Certain);
    is(
        &udp(5_060, &[b"SIP/2.0 200 OK\r\nv: SIP/2.0/UDP a\r\n\r\n"]),
        "sip",
        Certain,
    );
    is(
        &udp(5_060, &[b"BYE sip:a@example.com SIP/2.0\r\n\r\n"]),
        "sip",
        Likely,
    );
    unknown(&udp(5_060, &[b"REGISTER sip:example.com SIP/3.0\r\n\r\n"]));
    unknown(&udp(5_060, &[b"register sip:example.com SIP/2.0\r\n\r\n"]));
    unknown(&udp(5_060, &[b"SIP/2.0 2x0 OK\r\n\r\n"]));
    is(
        &tcp(&[b"OPTIONS /sip: HTTP/1.1\r\nHost: a\r\n\r\n"]),
        "http",
        Certain,
    );
}

#[test]
fn h323_by_elements_that_fill_its_messages() {
    let setup = hex("0300 0015 08 02 1234 05 04 03 8893a5 7e 0004 05 010203");
    is(&tcp(&[&setup]), "h323", Certain);
    let mut other = setup.clone();
    other[16] = 5;
    unknown(&tcp(&[&other]));
    // Q.931 of something else, and a message of X.224.
    unknown(&tcp(&[&hex(
        "0300 0015 08 02 1234 05 04 03 8893a5 7e 0004 04 010203",
    )]));
    unknown(&tcp(&[&hex(
        "0300 0015 07 02 1234 05 04 03 8893a5 7e 0004 05 010203",
    )]));
}

#[test]
fn mgcp_and_teamspeak_by_their_beginnings() {
    let restart = b"RSIP 1201 *@gateway.example MGCP 1.0\r\nRM: restart\r\n";
    is(&udp(2_427, &[restart]), "mgcp", Certain);
    unknown(&udp(2_427, &[b"RSIP 1201 *@gateway.example MGCQ 1.0\r\n"]));
    unknown(&udp(2_427, &[b"RSIP x *@gateway.example MGCP 1.0\r\n"]));
    unknown(&udp(2_427, &[b"XSIP 1201 *@gateway.example MGCP 1.0\r\n"]));
    is(
        &udp(9_987, &[b"TS3INIT1\0\x65\0\0\x88\0\0\0\0"]),
        "teamspeak",
        Certain,
    );
    unknown(&udp(9_987, &[b"TS3INIT2\0\x65\0\0\x88\0\0\0\0"]));
}

#[test]
fn zooms_media_behind_its_two_headers() {
    let packet = |kind: u8, before: usize, number: u8| {
        let headers = [
            vec![5, 0, 0, 0, 0, 0, 0, 4],
            vec![kind],
            vec![0; before - 1],
        ]
        .concat();
        let rtp = [vec![0x90, 0x6e, 7, number], vec![3; 8], vec![9; 40]].concat();
        [headers, rtp].concat()
    };
    let flow = |port, kind, before| {
        let packets = [1, 2, 3, 4].map(|number| packet(kind, before, number));
        let turns: Vec<&[u8]> = packets
            .iter()
            .flat_map(|packet| [&packet[..], b""])
            .collect();
        udp(port, &turns)
    };
    for (kind, before) in [(13, 27), (15, 19), (16, 24)] {
        is(&flow(8_801, kind, before), "zoom", Likely);
        unknown(&flow(8_801, kind, before + 1));
    }
    unknown(&flow(8_811, 15, 19));
}
