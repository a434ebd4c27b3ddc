//! eDonkey, Gnutella, FastTrack, Direct Connect, Soulseek.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::{is, tcp, udp, unknown};
use crate::hex;

#[test]
fn edonkey_hello_and_frames() {
    // A hello between two clients, as eMule sends it: hash with its marks, id, port, two tags, a
    // server.
    let hello = hex(
        "e3 31000000 01 10 1b42cd5b940ed779c20ab755fe256f97 01020304 3612 02000000 0201 0001 0100 78 03 0100 11 3c000000
         00000000 0000",
    );
    let flow = tcp(&[&hello]);
    is(&flow, "edonkey", Certain);
    assert!(flow.evidence.contains("eMule"), "{}", flow.evidence);
    let mut wrong = hello.clone();
    wrong[1] += 1;
    unknown(&tcp(&[&wrong]));
    let mut tags = hello.clone();
    tags[29] = 3;
    assert_ne!(tcp(&[&tags]).confidence, Certain);

    let accept = hex("e3 01000000 55");
    let request = [hex("e3 11000000 54"), vec![7; 16]].concat();
    is(&tcp(&[&request, &accept]), "edonkey", Certain);
    is(&tcp(&[&request]), "edonkey", Guess);
    is(
        &tcp(&[&[request.as_slice(), &accept].concat()]),
        "edonkey",
        Likely,
    );
    unknown(&tcp(&[&[0xe3; 50]]));
}

#[test]
fn kad_and_edonkey_datagrams() {
    let request = [hex("e4 21 02"), vec![7; 32]].concat();
    let answer = [hex("e4 29"), vec![7; 16], vec![1], vec![9; 25]].concat();
    is(&udp(4_672, &[&request]), "edonkey", Likely);
    is(&udp(4_672, &[&request, &answer]), "edonkey", Certain);
    is(&udp(4_665, &[&hex("e3 96 01020304")]), "edonkey", Guess);
    is(
        &udp(4_672, &[&hex("c5 92"), &hex("c5 93")]),
        "edonkey",
        Likely,
    );
    unknown(&udp(
        4_672,
        &[&[hex("e4 29"), vec![7; 16], vec![2], vec![9; 25]].concat()],
    ));
    // Open-ended messages count only when there are several.
    let open = [hex("e4 33"), vec![8; 40]].concat();
    unknown(&udp(4_672, &[&open]));
    unknown(&udp(4_672, &[&[0xe4; 100]]));
}

#[test]
fn gnutella_over_tcp() {
    is(
        &tcp(&[b"GNUTELLA CONNECT/0.6\r\nUser-Agent: LimeWire/4\r\n\r\n"]),
        "gnutella",
        Certain,
    );
    is(&tcp(&[b"GNUTELLA CONNECT/0.4\n\n"]), "gnutella", Certain);
    is(
        &tcp(&[b"", b"GNUTELLA/0.6 503 Busy\r\n\r\n"]),
        "gnutella",
        Certain,
    );
    is(
        &tcp(&[b"GIV 7:0123456789ABCDEF0123456789ABCDEF/song.ogg\n\n"]),
        "gnutella",
        Certain,
    );
    unknown(&tcp(&[b"GIV 7:short/song.ogg\n\n"]));
    unknown(&tcp(&[b"GNUTELLA CONNECT/now please"]));
}

#[test]
fn gnutella_transfers_over_http() {
    for (request, app, confidence) in [
        (
            "GET /uri-res/N2R?urn:sha1:PLSTHIPQGSSZTS5FJUPAKUZWUGYQYPFB HTTP/1.1\r\n\r\n",
            "gnutella",
            Likely,
        ),
        (
            "GET /get/12/song.ogg HTTP/1.1\r\nUser-Agent: BearShare 5\r\n\r\n",
            "gnutella",
            Certain,
        ),
        (
            "GET /song.ogg HTTP/1.1\r\nX-Gnutella-Content-URN: urn:sha1:A\r\n\r\n",
            "gnutella",
            Likely,
        ),
        (
            "GET /get/12/page HTTP/1.1\r\nUser-Agent: Mozilla/5.0\r\n\r\n",
            "http",
            Certain,
        ),
        (
            "GET /update HTTP/1.1\r\nUser-Agent: LimeWire/4\r\n\r\n",
            "http",
            Certain,
        ),
    ] {
        is(&tcp(&[request.as_bytes()]), app, confidence);
    }
}

#[test]
fn gnutella_datagrams() {
    let guid = "24d5310268fc1981ffbcc6e01fdbbe03";
    let ping = hex(&format!("{guid} 00 01 00 05000000 c382514b40"));
    is(&udp(6_346, &[&ping]), "gnutella", Certain);
    is(
        &udp(6_346, &[&hex(&format!("{guid} 00 01 00 00000000"))]),
        "gnutella",
        Likely,
    );
    unknown(&udp(
        6_346,
        &[&hex(&format!("{guid} 00 01 00 06000000 c382514b40"))],
    ));
    unknown(&udp(
        6_346,
        &[&hex(&format!("{guid} 77 01 00 05000000 c382514b40"))],
    ));
    unknown(&udp(6_346, &[&[0; 23]]));
    is(
        &udp(6_346, &[b"GND\x10\x3e\x8f\x01\x01T\x0bQKRP"]),
        "gnutella",
        Likely,
    );
    is(
        &udp(6_346, &[b"GND\x02\0\x01\x01\x01PI", b"GND\0\0\x01\x01\0"]),
        "gnutella",
        Certain,
    );
    unknown(&udp(6_346, &[b"GTA5 server browser"]));
}

#[test]
fn gnutella_2_shows_itself_in_handshakes_and_packets() {
    let connect = b"GNUTELLA CONNECT/0.6\r\nAccept: application/x-gnutella2\r\nUser-Agent: Shareaza 2\r\n\r\n";
    let flow = tcp(&[connect]);
    is(&flow, "gnutella", Certain);
    assert!(
        flow.evidence.ends_with("to Gnutella 2 of shareaza"),
        "{}",
        flow.evidence
    );
    // A compound packet QKR of 11 bytes, and the same with a wrong length or an unknown name.
    let packet = |length: u8, name: &[u8]| {
        [
            b"GND\x02\0\x01\x01\x01\x54".as_slice(),
            &[length],
            name,
            &[7; 11],
        ]
        .concat()
    };
    is(&udp(6_346, &[&packet(11, b"QKR")]), "gnutella", Certain);
    is(&udp(6_346, &[&packet(12, b"QKR")]), "gnutella", Likely);
    is(&udp(6_346, &[&packet(11, b"XYZ")]), "gnutella", Likely);
}

#[test]
fn fasttrack_transfers_and_pushes() {
    const HASH: &str = "0123456789abcdef0123456789abcdef01234567";
    let lines = "X-Kazaa-Username: a\r\nX-Kazaa-Network: KaZaA\r\n";
    for (request, app, confidence) in [
        (
            format!("GET /.hash={HASH}/a HTTP/1.1\r\n{lines}\r\n"),
            "fasttrack",
            Certain,
        ),
        (
            format!("GET /.download/a HTTP/1.1\r\n{lines}\r\n"),
            "fasttrack",
            Certain,
        ),
        (
            format!("GET /.hash={HASH}/a HTTP/1.1\r\n\r\n"),
            "fasttrack",
            Likely,
        ),
        (
            "GET /.hash=0123/a HTTP/1.1\r\n\r\n".to_owned(),
            "http",
            Certain,
        ),
        (
            "GET /.supernode HTTP/1.1\r\n\r\n".to_owned(),
            "http",
            Certain,
        ),
        (
            "GET /.well-known/x HTTP/1.1\r\nX-Kaz: a\r\n\r\n".to_owned(),
            "http",
            Certain,
        ),
    ] {
        is(&tcp(&[request.as_bytes()]), app, confidence);
    }
    let flow = tcp(&[
        b"",
        format!("HTTP/1.1 206 Partial Content\r\n{lines}\r\n").as_bytes(),
    ]);
    is(&flow, "fasttrack", Certain);
    assert!(
        flow.evidence.contains("Kazaa's header lines"),
        "{}",
        flow.evidence
    );
    is(&tcp(&[b"GIVE 12345678\r\n\r\n"]), "fasttrack", Likely);
    for near in [
        b"GIVE 1234567\r\n".as_slice(),
        b"GIVE 12345678901\r\n",
        b"GIVE me 12345678\r\n",
    ] {
        unknown(&tcp(&[near]));
    }
}

#[test]
fn fasttrack_pings() {
    is(
        &udp(1_214, &[b"\x27\0\0\0\xa9\x80KaZaA\0"]),
        "fasttrack",
        Certain,
    );
    is(
        &udp(1_214, &[b"\x28\0\0\0\xa9\0\0\0\0\0\0KaZaA\0"]),
        "fasttrack",
        Likely,
    );
    unknown(&udp(1_214, &[b"\x27\0\0\0\xa9\x80KaZaA"]));
    unknown(&udp(1_214, &[b"\x30\0\0\0\xa9\x80KaZaA\0"]));
}

#[test]
fn direct_connect_in_both_dialects() {
    const HASH: &str = "LWPNACQDBZRYXW3VHJVCJ64QBZNGHOHHHZWCLNQ";
    let get = format!("$ADCGET file TTH/{HASH} 0 100|");
    let adc = format!("CGET file TTH/{HASH} 0 100\n");
    for (says, confidence) in [
        ("$Lock EXTENDEDPROTOCOL Pk=a|", Certain),
        ("$HubName a|<hub> hello|$Hello b|", Certain),
        ("$MyNick a|$Supports ADCGet|", Certain),
        ("$MyNick a|", Likely),
        (get.as_str(), Certain),
        ("$Direction Download 42|", Certain),
        ("HSUP ADBASE ADTIGR\n", Certain),
        ("ISUP ADBAS0 ADPING RMTIGR\n", Certain),
        (adc.as_str(), Certain),
        ("CGET list / 0 -1\n", Likely),
    ] {
        is(&tcp(&[says.as_bytes()]), "directconnect", confidence);
    }
    for near in [
        "$Lockheed|",
        "$100|",
        "$Lock Pk=a",
        "HSUP ADBA ADTIGR\n",
        "HSUP ADbase\n",
        "CGET cat 1 2\n",
    ] {
        unknown(&tcp(&[near.as_bytes()]));
    }
}

#[test]
fn direct_connect_search_results() {
    let id = "LWPNACQDBZRYXW3VHJVCJ64QBZNGHOHHHZWCLNQ";
    let result = format!("$SR nick a\\b.ogg\x05100 1/2\x05TTH:{id} (192.0.2.1:411)|");
    is(&udp(412, &[result.as_bytes()]), "directconnect", Certain);
    is(
        &udp(412, &[format!("URES {id} SI100\n").as_bytes()]),
        "directconnect",
        Certain,
    );
    unknown(&udp(412, &[b"$SR nick a (192.0.2.1:411)|"]));
    unknown(&udp(412, &[b"URES short SI100\n"]));
}

/// Little-endian length, bytes.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
}

#[test]
fn soulseek_to_its_server_and_between_peers() {
    let md5 = framed(&[b'a'; 32]);
    let login = |version: u32, hash: &[u8]| {
        let body = [
            &[1, 0, 0, 0][..],
            &framed(b"name"),
            &framed(b"pw"),
            &version.to_le_bytes(),
            hash,
        ];
        framed(&[body.concat().as_slice(), &[1, 0, 0, 0]].concat())
    };
    is(&tcp(&[&login(160, &md5)]), "soulseek", Certain);
    unknown(&tcp(&[&login(160, &framed(&[b'z'; 32]))]));
    unknown(&tcp(&[&login(7, &md5)]));
    let refused = framed(&[&[1, 0, 0, 0, 0][..], &framed(b"INVALIDPASS")].concat());
    is(&tcp(&[b"", &refused]), "soulseek", Certain);

    let init = |kind: &[u8], token: &[u8]| {
        framed(&[&[1][..], &framed(b"name"), &framed(kind), token].concat())
    };
    is(&tcp(&[&init(b"F", &[0; 4])]), "soulseek", Certain);
    unknown(&tcp(&[&init(b"X", &[0; 4])]));
    unknown(&tcp(&[&init(b"F", &[0; 5])]));
    let pierce = framed(&[0, 9, 9, 9, 9]);
    is(&tcp(&[&pierce]), "soulseek", Guess);
    let then = [pierce.as_slice(), &framed(&[4, 0, 0, 0])].concat();
    is(&tcp(&[&then]), "soulseek", Likely);
}

#[test]
fn hyperswarm_by_parts_and_numbers() {
    let address = hex("c0000209 41c2");
    let hash = vec![0xa7; 32];
    // Of its own kind, towards a target: find a node.
    let asks = [hex("030c 3412"), address.clone(), hex("02"), hash.clone()].concat();
    let found = |number: &str| {
        [
            hex("1304"),
            hex(number),
            address.clone(),
            hex("01"),
            address.clone(),
        ]
        .concat()
    };
    is(&udp(49_737, &[&asks]), "hyperswarm", Likely);
    is(
        &udp(49_737, &[&asks, &found("3412")]),
        "hyperswarm",
        Certain,
    );
    is(&udp(49_737, &[&asks, &found("3512")]), "hyperswarm", Likely);
    unknown(&udp(49_737, &[&found("3412")]));
    unknown(&udp(49_737, &[&asks[..42]]));
    let ping = [hex("0304 3412"), address.clone(), hex("00")].concat();
    is(&udp(49_737, &[&ping]), "hyperswarm", Guess);
    unknown(&udp(49_737, &[&[ping, hex("00")].concat()]));
    let other = [hex("030c 3412"), address, hex("09"), hash].concat();
    unknown(&udp(49_737, &[&other]));
}

#[test]
fn ppstream_by_length_and_fixed_bytes() {
    let message = |length: &str| {
        [
            hex(length),
            hex("43 1122 ff000100000000000000"),
            vec![7; 25],
        ]
        .concat()
    };
    for length in ["2800", "2400", "2200"] {
        is(&udp(17_788, &[&message(length)]), "ppstream", Certain);
    }
    unknown(&udp(17_788, &[&message("2300")]));
    unknown(&udp(17_789, &[&message("2800")]));
}
