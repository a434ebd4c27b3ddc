//! Databases and queues, and what resembles them.

use ringway_gateway::Confidence::{Certain, Likely};

use super::{is, tcp, unknown};
use crate::hex;

#[test]
fn relational_databases_by_how_sessions_open() {
    let greeting = |protocol: u8, zero: u8| {
        let body = [
            &[protocol][..],
            b"8.0.1\0\x07\0\0\0abcdefgh",
            &[zero],
            &[9; 5],
        ]
        .concat();
        let length = u8::try_from(body.len()).unwrap();
        [&[length, 0, 0, 0][..], &body].concat()
    };
    is(&tcp(&[b"", &greeting(10, 0)]), "mysql", Certain);
    unknown(&tcp(&[b"", &greeting(11, 0)]));
    unknown(&tcp(&[b"", &greeting(10, 1)]));
    unknown(&tcp(&[b"", &greeting(10, 0)[..20]]));
    is(
        &tcp(&[b"\0\0\0\x14\0\x03\0\0user\0abcde\0\0"]),
        "postgresql",
        Certain,
    );
    is(&tcp(&[&hex("00000008 04d2162f")]), "postgresql", Certain);
    unknown(&tcp(&[b"\0\0\0\x14\0\x03\0\x01user\0abcde\0\0"]));
    unknown(&tcp(&[b"\0\0\0\x14\0\x03\0\0uses\0abcde\0\0"]));
    unknown(&tcp(&[&hex("00000009 04d2162f 00")]));
    let opening = hex("1201001a 00000000 00 000b 0006 01 0011 0001 ff 100000000000 00");
    is(&tcp(&[&opening]), "mssql", Certain);
    unknown(&tcp(&[&hex(
        "1201001a 00000000 00 000c 0006 01 0011 0001 ff 100000000000 00",
    )]));
    unknown(&tcp(&[&hex(
        "1201001a 00000000 00 000b 0007 01 0011 0001 ff 100000000000 00",
    )]));
    unknown(&tcp(&[&hex(
        "1203001a 00000000 00 000b 0006 01 0011 0001 ff 100000000000 00",
    )]));
}

#[test]
fn stores_by_lengths_and_commands() {
    let message = |code: &str, flags: &str, document: &str| {
        let tail = hex("10 68656c6c6f00 01000000 00");
        [
            hex("26000000 01000000 00000000"),
            hex(code),
            hex(flags),
            hex(document),
            tail,
        ]
        .concat()
    };
    is(
        &tcp(&[&message("dd070000", "00000000 00", "11000000")]),
        "mongodb",
        Certain,
    );
    unknown(&tcp(&[&message("de070000", "00000000 00", "11000000")]));
    unknown(&tcp(&[&message("dd070000", "00010000 00", "11000000")]));
    unknown(&tcp(&[&message("dd070000", "00000000 00", "31000000")]));
    is(&tcp(&[b"*1\r\n$4\r\nping\r\n"]), "redis", Certain);
    unknown(&tcp(&[b"*1\r\n$5\r\nping\r\n"]));
    unknown(&tcp(&[b"*1\r\n$4\r\npong\r\n"]));
    unknown(&tcp(&[b"*0\r\n$4\r\nping\r\n"]));
    let stored = tcp(&[b"set a 0 0 1\r\nb\r\n", b"STORED\r\n"]);
    is(&stored, "memcached", Certain);
    is(&tcp(&[b"set a 0 0 1\r\nb\r\n"]), "memcached", Likely);
    unknown(&tcp(&[b"set a b\r\n", b"OK\r\n"]));
    unknown(&tcp(&[b"", b"STORED\r\n"]));
}

#[test]
fn queues_by_repeated_numbers_and_ended_frames() {
    let request = hex("00000011 0012 0000 00000007 0007");
    let request = [request, b"someone".to_vec()].concat();
    is(&tcp(&[&request]), "kafka", Likely);
    is(
        &tcp(&[&request, &hex("00000008 00000007 00000000")]),
        "kafka",
        Certain,
    );
    is(
        &tcp(&[&request, &hex("00000008 00000008 00000000")]),
        "kafka",
        Likely,
    );
    unknown(&tcp(&[&[
        hex("00000011 0112 0000 00000007 0007"),
        b"someone".to_vec(),
    ]
    .concat()]));
    unknown(&tcp(&[&[
        hex("00000011 0012 0000 00000007 0007"),
        vec![7; 7],
    ]
    .concat()]));
    is(&tcp(&[b"AMQP\0\0\x09\x01"]), "amqp", Certain);
    is(&tcp(&[b"AMQP\0\x01\0\0"]), "amqp", Certain);
    unknown(&tcp(&[b"AMQP\0\0\x08\x01"]));
    is(
        &tcp(&[b"", &hex("01 0000 00000008 000a 000a 00090000 ce")]),
        "amqp",
        Certain,
    );
    unknown(&tcp(&[b"", &hex("01 0000 00000008 000a 000a 00090000 cf")]));
    is(&tcp(&[b"CONNECT {\"verbose\":false}\r\n"]), "nats", Certain);
    unknown(&tcp(&[b"CONNECT {\"noisy\":false}\r\n"]));
    unknown(&tcp(&[b"INFO \"server_id\":\r\n"]));
}
