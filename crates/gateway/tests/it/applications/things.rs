//! Devices and machines, and what resembles them.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::{is, tcp, udp, unknown};
use crate::hex;

#[test]
fn sensors_by_names_and_repeated_numbers() {
    is(
        &tcp(&[b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\x01a"]),
        "mqtt",
        Certain,
    );
    unknown(&tcp(&[b"\x10\x0d\0\x04MQTT\x06\x02\0\x3c\0\0\x01a"]));
    unknown(&tcp(&[b"\x10\x0d\0\x04MQTT\x05\x03\0\x3c\0\0\x01a"]));
    unknown(&tcp(&[b"\x10\x02\0\x04MQTT\x05\x02\0\x3c\0\0\x01a"]));
    let (get, content) = (hex("42011234abcd b474656d70"), hex("62451234abcd ff3231"));
    is(&udp(5_683, &[&get]), "coap", Likely);
    is(&udp(5_683, &[&get, &content]), "coap", Certain);
    unknown(&udp(5_684, &[&get, &content]));
    unknown(&udp(5_683, &[&hex("82011234abcd b474656d70")]));
    unknown(&udp(5_683, &[&hex("42011234abcd b574656d70")]));
    unknown(&udp(5_683, &[&hex("49011234abcd b474656d70")]));
}

#[test]
fn machines_by_lengths_numbers_and_checks() {
    let (ask, answer) = (
        hex("0007 0000 0006 01 03 0010 0001"),
        hex("0007 0000 0005 01 03 02 1234"),
    );
    is(&tcp(&[&ask]), "modbus", Guess);
    is(&tcp(&[&ask, &answer]), "modbus", Likely);
    unknown(&tcp(&[&hex("0007 0001 0006 01 03 0010 0001")]));
    unknown(&tcp(&[&hex("0007 0000 0007 01 03 0010 0001")]));
    unknown(&tcp(&[&hex("0007 0000 0006 01 70 0010 0001")]));
    let setup = hex("0300 0019 02f080 32 01 0000 0001 0008 0000 f000000100010 1e0");
    is(&tcp(&[&setup]), "s7", Certain);
    unknown(&tcp(&[&hex(
        "0300 001a 02f080 32 01 0000 0001 0008 0000 f00000010001 01e0 00",
    )]));
    unknown(&tcp(&[&hex(
        "0300 0019 02f080 31 01 0000 0001 0008 0000 f00000010001 01e0",
    )]));
    let hello = |size: &str| {
        [
            b"HELF\x20\0\0\0\0\0\0\0".to_vec(),
            hex(size),
            hex("00000100"),
        ]
        .concat()
    };
    is(&tcp(&[&hello("00000100")]), "opcua", Certain);
    unknown(&tcp(&[&hello("00010000")]));
    is(
        &tcp(&[b"FINS\0\0\0\x0c\0\0\0\0\0\0\0\0\0\0\0\0"]),
        "fins",
        Certain,
    );
    unknown(&tcp(&[b"FINS\0\0\0\x0c\0\0\0\x07\0\0\0\0\0\0\0\0"]));
    let command = hex("800002 000500 000700 11 0101 820010000001");
    is(&udp(9_600, &[&command]), "fins", Likely);
    is(
        &udp(
            9_600,
            &[&command, &hex("c00002 000700 000500 11 0101 0000")],
        ),
        "fins",
        Certain,
    );
    unknown(&udp(
        9_600,
        &[b"", &hex("c00002 000700 000500 11 0101 0000")],
    ));
    is(&tcp(&[&hex("0564 05 c0 0100 0004 e921")]), "dnp3", Certain);
    unknown(&tcp(&[&hex("0564 05 c0 0100 0004 e922")]));
    is(&tcp(&[&hex("7ea0070321930f017e")]), "dlms", Certain);
    unknown(&tcp(&[&hex("7ea0070321930f027e")]));
    unknown(&udp(4_059, &[&hex("7ea0070321930f017f")]));
    is(&tcp(&[&hex("680407000000")]), "iec104", Guess);
    is(
        &tcp(&[&hex("680407000000"), &hex("68040b000000")]),
        "iec104",
        Likely,
    );
    unknown(&tcp(&[&hex("680408000000")]));
}

#[test]
fn buildings_by_fixed_bytes_at_both_ends() {
    is(
        &udp(47_808, &[&hex("810b000c 0120ffff00ff 1008")]),
        "bacnet",
        Certain,
    );
    unknown(&udp(47_808, &[&hex("810b000d 0120ffff00ff 1008")]));
    unknown(&udp(47_808, &[&hex("810b000c 0220ffff00ff 1008")]));
    let told = hex("000055aa 00000000 00000013 00000008 01020304 0000aa55");
    is(&udp(6_667, &[&told]), "tuya", Certain);
    is(&tcp(&[&told]), "tuya", Certain);
    unknown(&udp(
        6_667,
        &[&hex(
            "000055aa 00000000 00000013 00000008 01020304 0000aa56",
        )],
    ));
    is(
        &tcp(&[b"ZBXD\x01\x04\0\0\0\0\0\0\0ping"]),
        "zabbix",
        Certain,
    );
    unknown(&tcp(&[b"ZBXD\x09\x04\0\0\0\0\0\0\0ping"]));
    let here = |key: &str| format!("{{\"{key}\": 7, \"displayname\": \"\", \"namespaces\": [1]}}");
    is(
        &udp(17_500, &[here("host_int").as_bytes()]),
        "dropbox",
        Certain,
    );
    unknown(&udp(17_500, &[here("host").as_bytes()]));
    is(&udp(57_621, &[b"SpotUdp0\x01\x02\x03"]), "spotify", Certain);
    unknown(&udp(57_621, &[b"SpotUdp1\x01\x02\x03"]));
}

#[test]
fn handshakes_and_greetings_of_streams() {
    let shake = [b"\x03\0\x01\x02\x03\0\0\0\0".to_vec(), vec![7; 1_528]].concat();
    is(&tcp(&[&shake]), "rtmp", Likely);
    is(&tcp(&[&shake, &shake]), "rtmp", Certain);
    unknown(&tcp(&[&shake[..1_500]]));
    unknown(&tcp(&[&[
        b"\x03\0\x01\x02\x03\0\0\0\x01".to_vec(),
        vec![7; 1_528],
    ]
    .concat()]));
    is(
        &tcp(&[b"HI 01234567-89ab-cdef-0123-456789abcdef\n"]),
        "speedtest",
        Certain,
    );
    unknown(&tcp(&[b"HI 01234567-89ab-cdef-0123-456789abcdeg\n"]));
    unknown(&tcp(&[b"HI there\n"]));
}
