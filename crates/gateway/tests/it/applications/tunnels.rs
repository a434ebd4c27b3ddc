//! IPsec, OpenVPN, L2TP, PPTP, tinc, Tailscale, ZeroTier, Nebula, and what resembles them.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::{is, tcp, udp, unknown};
use crate::hex;

/// A message of IKE: version and exchange, flags, type of the first payload, payloads.
fn ike(version: u8, exchange: u8, first: u8, payloads: &[u8]) -> Vec<u8> {
    let length = u32::try_from(28 + payloads.len()).unwrap();
    [
        &hex("0102030405060708 0000000000000000")[..],
        &[first, version, exchange, 8 * (version >> 5), 0, 0, 0, 0],
        &length.to_be_bytes(),
        payloads,
    ]
    .concat()
}

#[test]
fn ipsec_by_the_payloads_of_ike() {
    let payloads = hex("22 00 0008 01020304 00 00 0006 0102");
    let good = ike(0x20, 34, 33, &payloads);
    is(&udp(500, &[&good]), "ipsec", Certain);
    is(&udp(40_500, &[&good]), "ipsec", Certain);
    is(
        &udp(4_500, &[&[vec![0; 4], good.clone()].concat()]),
        "ipsec",
        Certain,
    );
    is(&udp(500, &[&ike(0x10, 2, 1, &payloads)]), "ipsec", Certain);
    // A wrong length, an unknown exchange, another version, payloads that end too late.
    unknown(&udp(500, &[&good[..good.len() - 1]]));
    unknown(&udp(500, &[&ike(0x20, 99, 33, &payloads)]));
    unknown(&udp(500, &[&ike(0x30, 34, 33, &payloads)]));
    unknown(&udp(
        500,
        &[&ike(
            0x20,
            34,
            33,
            &hex("22 00 0009 01020304 00 00 0006 0102"),
        )],
    ));
    unknown(&udp(500, &[&ike(0x20, 34, 33, &hex("00 00 0004 00"))]));
}

#[test]
fn esp_by_its_numbers_on_its_port() {
    let packet = |number: u8| [hex("7e010203 000000"), vec![number], vec![9; 40]].concat();
    let (one, two, three) = (packet(1), packet(2), packet(3));
    is(
        &udp(4_500, &[&one, b"", &two, b"", &three]),
        "ipsec",
        Likely,
    );
    is(&udp(4_500, &[&one]), "ipsec", Guess);
    unknown(&udp(4_501, &[&one, b"", &two, b"", &three]));
    unknown(&udp(4_500, &[&hex("00000001 00000001"), b""]));
}

#[test]
fn openvpn_by_the_session_that_is_answered() {
    let session = hex("a1b2c3d4e5f60718");
    let open = [vec![0x38], session.clone(), vec![0; 5]].concat();
    let answer =
        |session: &[u8]| [&[0x40][..], &[7; 8], &[1, 0, 0, 0, 0], session, &[0; 4]].concat();
    is(&udp(1_194, &[&open]), "openvpn", Likely);
    is(&udp(1_194, &[&open, &answer(&session)]), "openvpn", Certain);
    is(&udp(1_194, &[&open, &answer(&[9; 8])]), "openvpn", Likely);
    unknown(&udp(1_194, &[&answer(&session)]));
    // One byte more, another key, no session, a number that is not the first.
    unknown(&udp(1_194, &[&[&open[..], &[0]].concat()]));
    unknown(&udp(1_194, &[&[&[0x39], &open[1..]].concat()]));
    unknown(&udp(1_194, &[&[&[0x38], &[0; 13][..]].concat()]));
    unknown(&udp(1_194, &[&[&open[..13], &[1]].concat()]));
    let signed = |number: u8| {
        let number = [0, 0, 0, number];
        [&open[..9], &[5; 20], &number, &[6; 4], &[0; 5]].concat()
    };
    is(&udp(1_194, &[&signed(1)]), "openvpn", Likely);
    unknown(&udp(1_194, &[&signed(2)]));
    let framed = [&[0, 14], &open[..]].concat();
    let answered = [&[0, 26], &answer(&session)[..]].concat();
    is(&tcp(&[&framed, &answered]), "openvpn", Certain);
    unknown(&tcp(&[&[&[0, 15], &open[..]].concat()]));
}

#[test]
fn l2tp_and_pptp_by_fixed_numbers_and_lengths() {
    let control = hex("c8020014 00000000 00000000 8008000000000001");
    is(&udp(1_701, &[&control]), "l2tp", Certain);
    unknown(&udp(1_701, &[&[&control[..], &[0]].concat()]));
    unknown(&udp(
        1_701,
        &[&hex("c8020014 00000000 00000000 8008000000000005")],
    ));
    let mut request = hex("009c0001 1a2b3c4d 00010000");
    request.resize(156, 0);
    is(&tcp(&[&request]), "pptp", Certain);
    let mut other = request.clone();
    other[1] = 0x9d;
    unknown(&tcp(&[&other]));
    request[7] = 0x4e;
    unknown(&tcp(&[&request]));
}

#[test]
fn tinc_by_the_lines_of_both_sides() {
    is(
        &tcp(&[b"0 branch 17.7\n", b"0 office 17\n"]),
        "tinc",
        Certain,
    );
    is(&tcp(&[b"0 branch 17.7\n"]), "tinc", Likely);
    unknown(&tcp(&[b"0 branch 18\n"]));
    unknown(&tcp(&[b"0 a branch 17\n"]));
    unknown(&tcp(&[b"1 branch 17\n"]));
}

#[test]
fn meshes_by_the_first_messages_of_their_nodes() {
    let discovery = [hex("5453f09f92ac"), vec![7; 80]].concat();
    is(&udp(41_641, &[&discovery]), "tailscale", Certain);
    unknown(&udp(41_641, &[&discovery[..79]]));
    let hello = |sender: [u8; 5]| {
        [
            &[3; 8][..],
            &[4; 5],
            &sender,
            &[0],
            &[5; 8],
            &[1, 11, 1, 10, 0, 3],
            &[6; 7],
            &[1, 2, 3, 4, 5],
            &[0],
            &[7; 64],
        ]
        .concat()
    };
    // The time before the identity has eight bytes.
    let with_time = |sender| {
        let mut bytes = hello(sender);
        bytes.insert(33, 6);
        bytes
    };
    is(
        &udp(9_993, &[&with_time([1, 2, 3, 4, 5])]),
        "zerotier",
        Certain,
    );
    unknown(&udp(9_993, &[&with_time([1, 2, 3, 4, 6])]));
    let first = [hex("10000000 00000000 00000000 00000001"), vec![8; 80]].concat();
    let second = [hex("10000000 11223344 00000000 00000002"), vec![8; 80]].concat();
    is(&udp(4_242, &[&first]), "nebula", Likely);
    is(&udp(4_242, &[&first, &second]), "nebula", Certain);
    unknown(&udp(4_242, &[&second]));
    unknown(&udp(4_242, &[&first[..60]]));
}

#[test]
fn teredo_by_its_addresses_and_lengths() {
    let packet = |prefix: &str, length: u8| {
        [
            vec![0x60, 0, 0, 0, 0, length, 59, 21],
            hex(prefix),
            vec![7; 12],
            vec![0x20, 2],
            vec![8; 14],
            vec![9; 4],
        ]
        .concat()
    };
    is(&udp(3_545, &[&packet("20010000", 4)]), "teredo", Likely);
    let shown = [hex("0000 1234 f5fffff1"), packet("20010000", 4)].concat();
    is(&udp(3_545, &[&shown]), "teredo", Likely);
    unknown(&udp(3_545, &[&packet("20010001", 4)]));
    unknown(&udp(3_545, &[&packet("20010000", 5)]));
    unknown(&udp(3_545, &[&packet("20010000", 4)[1..]]));
}

#[test]
fn socks_by_greeting_answer_and_request() {
    let request = b"\x05\x01\0\x03\x09a.example\x01\xbb";
    let flow = tcp(&[b"\x05\x01\0", b"\x05\0", request]);
    is(&flow, "socks", Certain);
    assert_eq!(flow.details.host.as_deref(), Some("a.example"));
    is(&tcp(&[b"\x05\x02\0\x02", b"\x05\x02"]), "socks", Likely);
    is(&tcp(&[b"\x05\x01\0", b"\x05\xff"]), "socks", Likely);
    unknown(&tcp(&[b"\x05\x01\0", b"\x05\x02"]));
    unknown(&tcp(&[b"\x05\x01\0"]));
    unknown(&tcp(&[b"\x05\x01\x20", b"\x05\x20", request]));
    unknown(&tcp(&[b"", b"\x05\0"]));
}
