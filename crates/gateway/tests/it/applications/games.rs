//! Games and currencies, and what resembles them.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::{is, tcp, udp, unknown};
use crate::hex;

#[test]
fn engines_by_texts_outside_of_a_game() {
    let asks = b"\xff\xff\xff\xffTSource Engine Query\0";
    is(&udp(27_015, &[asks]), "source", Certain);
    is(
        &udp(27_015, &[b"\xff\xff\xff\xffU\x01\x02\x03\x04"]),
        "source",
        Likely,
    );
    is(
        &udp(
            27_015,
            &[
                b"\xff\xff\xff\xffU\x01\x02\x03\x04",
                b"\xff\xff\xff\xffD\x00",
            ],
        ),
        "source",
        Certain,
    );
    unknown(&udp(27_015, &[b"", b"\xff\xff\xff\xffD\x00"]));
    unknown(&udp(27_015, &[b"\xff\xff\xff\xffTSource Engine Quest\0"]));
    is(
        &udp(27_960, &[b"\xff\xff\xff\xffgetinfo xxx"]),
        "quake",
        Certain,
    );
    unknown(&udp(27_960, &[b"\xff\xff\xff\xffgetnothing"]));
}

#[test]
fn libraries_by_their_fixed_bytes() {
    let magic = hex("00ffff00fefefefefdfdfdfd12345678");
    is(
        &udp(19_132, &[&[&[1][..], &[7; 8], &magic, &[8; 8]].concat()]),
        "raknet",
        Certain,
    );
    unknown(&udp(
        19_132,
        &[&[&[1][..], &[7; 7], &magic, &[8; 8]].concat()],
    ));
    unknown(&udp(
        19_132,
        &[&[&[3][..], &[7; 8], &magic, &[8; 8]].concat()],
    ));
    is(
        &udp(
            27_018,
            &[&[b"VS01\0\0\x01\x04".to_vec(), vec![0; 28]].concat()],
        ),
        "steam",
        Certain,
    );
    unknown(&udp(
        27_018,
        &[&[b"VS01\x01\0\x01\x04".to_vec(), vec![0; 28]].concat()],
    ));
    is(&tcp(&[b"\x04\0\0\0VT01abcd"]), "steam", Certain);
    unknown(&tcp(&[b"\x04\0\0\x01VT01abcd"]));
    let flow = tcp(&[b"\x10\0\xf9\x05\x09a.example\x63\xdd\x02"]);
    is(&flow, "minecraft", Certain);
    assert_eq!(flow.details.host.as_deref(), Some("a.example"));
    unknown(&tcp(&[b"\x11\0\xf9\x05\x09a.example\x63\xdd\x02\0"]));
    unknown(&tcp(&[b"\x10\0\xf9\x05\x09a.example\x63\xdd\x04"]));
    let begins = hex("000000ff 00000000 11223344 499602d2 ffffffff");
    is(&udp(22_101, &[&begins]), "genshin", Certain);
    unknown(&udp(
        22_101,
        &[&hex("000000ff 00000000 11223344 499602d3 ffffffff")],
    ));
}

#[test]
fn currencies_by_their_messages() {
    let version = |network: &str| {
        [
            hex(network),
            b"version\0\0\0\0\0".to_vec(),
            hex("04000000 11223344 01020304"),
        ]
        .concat()
    };
    is(&tcp(&[&version("f9beb4d9")]), "bitcoin", Certain);
    unknown(&tcp(&[&version("f9beb4da")]));
    unknown(&tcp(&[&[
        hex("f9beb4d9"),
        b"ver\0ion\0\0\0\0\0".to_vec(),
        vec![0; 8],
    ]
    .concat()]));
    let ping = |kind: u8, length: u8| {
        [
            &[7; 96][..],
            &[1, kind, 0xc0 | length],
            &[4, 0xc1, 0x80, 0x84, 1, 2, 3, 4],
        ]
        .concat()
    };
    is(&udp(30_303, &[&ping(1, 8)]), "ethereum", Certain);
    unknown(&udp(30_303, &[&ping(7, 8)]));
    unknown(&udp(30_303, &[&ping(1, 9)]));
    let opens = |length: u8, first: u8, more: usize| {
        [&[1, length, first][..], &vec![7; 0x100 + more - 1]].concat()
    };
    let (asks, answers) = (opens(0x33, 4, 0x33), opens(0x02, 4, 0x02));
    is(&tcp(&[&asks]), "ethereum", Guess);
    is(&tcp(&[&asks, &answers]), "ethereum", Certain);
    // The answer's side goes on at once.
    is(
        &tcp(&[&asks, &[answers, vec![9; 48]].concat()]),
        "ethereum",
        Certain,
    );
    unknown(&tcp(&[&opens(0x33, 3, 0x33)]));
    unknown(&tcp(&[&opens(0x33, 4, 0x34)]));
    let levin = |version: &str| {
        [
            hex("0121010101010101 0000000000000000 01 e9030000 00000000 01000000"),
            hex(version),
        ]
        .concat()
    };
    is(&tcp(&[&levin("01000000")]), "monero", Certain);
    unknown(&tcp(&[&levin("02000000")]));
    is(
        &tcp(&[b"{\"id\":1,\"method\":\"mining.subscribe\",\"params\":[]}\n"]),
        "stratum",
        Certain,
    );
    is(
        &tcp(&[b"{\"id\":1,\"method\":\"login\",\"params\":{\"login\":\"a\",\"pass\":\"b\",\"agent\":\"c\"}}\n"]),
        "stratum",
        Certain,
    );
    unknown(&tcp(&[
        b"{\"id\":1,\"method\":\"subscribe\",\"params\":[]}\n",
    ]));
}
