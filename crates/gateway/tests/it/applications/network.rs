//! What networks run on, and what resembles it.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::{is, tcp, udp, unknown};
use crate::hex;

#[test]
fn ntp_by_the_time_that_is_repeated() {
    let message = |head: &str, asked: u8, sent: u8| {
        [
            hex(head),
            vec![0; 20],
            vec![asked; 8],
            vec![3; 8],
            vec![sent; 8],
        ]
        .concat()
    };
    let ask = message("230006ec", 0, 5);
    is(&udp(123, &[&ask]), "ntp", Likely);
    is(
        &udp(123, &[&ask, &message("240106ec", 5, 6)]),
        "ntp",
        Certain,
    );
    is(
        &udp(123, &[&ask, &message("240106ec", 4, 6)]),
        "ntp",
        Likely,
    );
    is(&udp(1_123, &[&ask]), "ntp", Guess);
    // A stratum and a version that do not exist, a length that is none.
    unknown(&udp(123, &[&message("231106ec", 0, 5)]));
    unknown(&udp(123, &[&message("2b0006ec", 0, 5)]));
    unknown(&udp(123, &[&ask[..47]]));
    unknown(&udp(123, &[&[&ask[..], &[0]].concat()]));
}

#[test]
fn dhcp_by_its_number_and_options() {
    let mut discover = hex("01010600 11223344");
    discover.resize(236, 0);
    let with = |options: &str| [discover.clone(), hex(options)].concat();
    is(
        &udp(67, &[&with("63825363 3d0101 350101 ff")]),
        "dhcp",
        Certain,
    );
    unknown(&udp(67, &[&with("63825362 350101 ff")]));
    unknown(&udp(67, &[&with("63825363 350113 ff")]));
    unknown(&udp(67, &[&with("63825363 3d01")]));
    let solicit = hex("01123456 0001 000a 00030001 010203040506 0008 0002 0000");
    is(&udp(547, &[&solicit]), "dhcp", Certain);
    unknown(&udp(547, &[&solicit[..solicit.len() - 1]]));
    unknown(&udp(547, &[&hex("01123456 0008 0002 0000")]));
}

#[test]
fn ssdp_and_discovery_of_services_by_their_texts() {
    is(
        &udp(
            1_900,
            &[b"M-SEARCH * HTTP/1.1\r\nMAN: \"ssdp:discover\"\r\n\r\n"],
        ),
        "ssdp",
        Certain,
    );
    is(
        &udp(1_900, &[b"M-SEARCH * HTTP/1.1\r\n\r\n"]),
        "ssdp",
        Likely,
    );
    is(
        &udp(50_000, &[b"HTTP/1.1 200 OK\r\nST: a\r\nUSN: b\r\n\r\n"]),
        "ssdp",
        Certain,
    );
    unknown(&udp(50_000, &[b"HTTP/1.1 200 OK\r\nServer: b\r\n\r\n"]));
    unknown(&udp(
        1_900,
        &[b"M-SEARCH a HTTP/1.1\r\nMAN: \"ssdp:discover\"\r\n\r\n"],
    ));
    let probe =
        |name: &str| format!("<s:Envelope xmlns:d=\"http://schemas.xmlsoap.org/ws/{name}\"/>");
    is(
        &udp(3_702, &[probe("2005/04/discovery").as_bytes()]),
        "wsd",
        Certain,
    );
    unknown(&udp(3_702, &[probe("2005/04/addressing").as_bytes()]));
    let find = hex("0201000020 0000 000000 1234 0002 656e 0000 0008 736572766963653a 00000000");
    is(&udp(427, &[&find]), "slp", Certain);
    unknown(&udp(427, &[&find[..31]]));
    let mut other = find.clone();
    other[14] = 7;
    unknown(&udp(427, &[&other]));
}

/// A name in NetBIOS's letters.
fn name() -> Vec<u8> {
    [&[32][..], &b"EGFC".repeat(8), &[0]].concat()
}

#[test]
fn netbios_by_names_in_its_letters() {
    let asks = [hex("123401100001000000000000"), name(), hex("00200001")].concat();
    is(&udp(137, &[&asks]), "netbios", Certain);
    let mut other = asks.clone();
    other[20] = b'Q';
    unknown(&udp(137, &[&other]));
    unknown(&udp(
        137,
        &[&[&asks[..asks.len() - 4], &hex("00050001")].concat()],
    ));
    let told = [hex("11021234 0a000011 008a 0044 0000"), name(), name()].concat();
    is(&udp(138, &[&told]), "netbios", Certain);
    unknown(&udp(
        138,
        &[&[hex("11021234 0a000011 008b 0044 0000"), name(), name()].concat()],
    ));
    let session = [hex("81000044"), name(), name()].concat();
    is(&tcp(&[&session]), "netbios", Certain);
    unknown(&tcp(&[&[hex("81000045"), name(), name()].concat()]));
}

#[test]
fn smb_and_afp_by_their_headers() {
    let negotiate = [hex("00000040 fe534d42 4000"), vec![0; 58]].concat();
    is(&tcp(&[&negotiate]), "smb", Certain);
    is(
        &tcp(&[&[hex("00000040 ff534d42 7200"), vec![0; 58]].concat()]),
        "smb",
        Certain,
    );
    unknown(&tcp(&[
        &[hex("00000040 fe534d42 4100"), vec![0; 58]].concat()
    ]));
    unknown(&tcp(&[
        &[hex("01000040 fe534d42 4000"), vec![0; 58]].concat()
    ]));
    unknown(&tcp(&[
        &[hex("00000010 ff534d42 7200"), vec![0; 10]].concat()
    ]));
    let (asks, told) = (
        hex("0003000100000000 00000000 00000000"),
        hex("0103000100000000 00000002 00000000 abcd"),
    );
    is(&tcp(&[&asks]), "afp", Guess);
    is(&tcp(&[&asks, &told]), "afp", Certain);
    unknown(&tcp(&[b"", &told]));
}

#[test]
fn calls_of_programs_by_version_and_number() {
    let call = |version: u8, program: u32| {
        [
            hex("12345678 00000000 000000"),
            vec![version],
            program.to_be_bytes().to_vec(),
            hex("00000003 00000000"),
            vec![0; 16],
        ]
        .concat()
    };
    is(&udp(2_049, &[&call(2, 100_003)]), "nfs", Certain);
    is(&udp(800, &[&call(2, 100_026)]), "sunrpc", Certain);
    is(
        &tcp(&[&[hex("80000028"), call(2, 100_003)].concat()]),
        "nfs",
        Certain,
    );
    unknown(&udp(2_049, &[&call(3, 100_003)]));
    unknown(&udp(2_049, &[&call(2, 99_999)]));
    unknown(&udp(2_049, &[&call(2, 100_003)[..36]]));
    unknown(&tcp(&[&[hex("00000028"), call(2, 100_003)].concat()]));
    // The port of which program is asked for.
    let asks = |program: u32| {
        let mut bytes = call(2, 100_000);
        bytes[23] = 3;
        [bytes, program.to_be_bytes().to_vec(), vec![0; 12]].concat()
    };
    is(&udp(111, &[&asks(100_005)]), "nfs", Certain);
    is(&udp(111, &[&asks(100_026)]), "sunrpc", Certain);
}

#[test]
fn directories_by_lengths_that_fit_into_each_other() {
    let ticket = hex("6a 12 30 10 a103020105 a20302010a a4 04 30020500");
    is(&udp(88, &[&ticket]), "kerberos", Certain);
    is(&udp(1_088, &[&ticket]), "kerberos", Likely);
    unknown(&udp(
        88,
        &[&hex("6a 12 30 10 a103020104 a20302010a a4 04 30020500")],
    ));
    unknown(&udp(
        88,
        &[&hex("6a 12 30 10 a103020105 a20302010b a4 04 30020500")],
    ));
    unknown(&udp(88, &[&[&ticket[..], &[0]].concat()]));
    let bind = hex("30 0c 020101 60 07 020103 0400 8000");
    is(&tcp(&[&bind]), "ldap", Certain);
    unknown(&tcp(&[&hex("30 0c 020101 60 07 020103 0400 8100")]));
    unknown(&tcp(&[&hex("30 0c 020101 5f 07 020103 0400 8000")]));
    unknown(&tcp(&[&bind[..10]]));
}

#[test]
fn supervision_by_its_forms() {
    let get = hex("30 17 020101 0402 6162 a0 0e 020112 020100 020100 3003 300100");
    is(&udp(161, &[&get]), "snmp", Certain);
    unknown(&udp(
        161,
        &[&hex(
            "30 17 020102 0402 6162 a0 0e 020112 020100 020100 3003 300100",
        )],
    ));
    unknown(&udp(
        161,
        &[&hex(
            "30 17 020101 0402 6162 a9 0e 020112 020100 020100 3003 300100",
        )],
    ));
    unknown(&udp(161, &[&get[..24]]));
    is(
        &udp(514, &[b"<34>1 2026-10-11T22:14:15Z host a - - -"]),
        "syslog",
        Certain,
    );
    is(
        &udp(514, &[b"<34>Oct 11 22:14:15 host a: b"]),
        "syslog",
        Certain,
    );
    is(
        &udp(5_514, &[b"<34>Oct 11 22:14:15 host a: b"]),
        "syslog",
        Likely,
    );
    is(&udp(514, &[b"<34>text of a line"]), "syslog", Guess);
    unknown(&udp(514, &[b"<192>Oct 11 22:14:15 host a: b"]));
    unknown(&udp(514, &[b"<html>text"]));
    let export = [hex("00050001"), vec![7; 68]].concat();
    is(&udp(2_055, &[&export]), "netflow", Certain);
    unknown(&udp(2_055, &[&export[..71]]));
    let export = [hex("000a0018"), vec![7; 12], hex("00020008 01000000")].concat();
    is(&udp(4_739, &[&export]), "netflow", Certain);
    unknown(&udp(
        4_739,
        &[&[hex("000a0018"), vec![7; 12], hex("00040008 01000000")].concat()],
    ));
}

#[test]
fn answers_of_radius_and_port_mapping() {
    let asks = [hex("0107 001b"), vec![7; 16], hex("0107 616263 6465")].concat();
    let told = [hex("0207 001a"), vec![8; 16], hex("0606 00000002")].concat();
    is(&udp(1_812, &[&asks]), "radius", Likely);
    is(&udp(1_812, &[&asks, &told]), "radius", Certain);
    unknown(&udp(1_812, &[&told]));
    unknown(&udp(
        1_812,
        &[&[hex("0107 001b"), vec![7; 16], hex("0108 616263 6465")].concat()],
    ));
    let answer = hex("0080 0000 00001234 cb007105");
    is(&udp(5_351, &[&[0, 0]]), "nat-pmp", Likely);
    is(&udp(5_351, &[&[0, 0], &answer]), "nat-pmp", Certain);
    unknown(&udp(5_351, &[&[0, 0, 0]]));
    unknown(&udp(5_352, &[&[0, 0], &answer]));
}

#[test]
fn requests_of_tftp_and_greetings_of_routers() {
    is(&udp(69, &[b"\0\x01boot.img\0octet\0"]), "tftp", Certain);
    is(
        &udp(69, &[b"\0\x02a\0NETASCII\0tsize\0\x30\0"]),
        "tftp",
        Certain,
    );
    unknown(&udp(69, &[b"\0\x01boot.img\0binary\0"]));
    unknown(&udp(69, &[b"\0\x01boot.img\0octet\0tsize\0"]));
    unknown(&udp(69, &[b"\0\x03boot.img\0octet\0"]));
    let hello = hex("00001003 0a640100 636973636f000000 0a000001");
    is(&udp(1_985, &[&hello]), "hsrp", Certain);
    unknown(&udp(1_985, &[&hello[..19]]));
    let greeting = hex("04000008 00000001");
    is(&tcp(&[&greeting]), "openflow", Guess);
    is(
        &udp(2_123, &[&hex("32010004 00000000 00010000")]),
        "gtp",
        Certain,
    );
    unknown(&udp(2_123, &[&hex("32010005 00000000 00010000")]));
    unknown(&udp(2_123, &[&hex("22010004 00000000 00010000")]));
    let echo = hex("40010009 00000100 03000100 05");
    is(&udp(2_123, &[&echo]), "gtp", Certain);
    unknown(&udp(2_123, &[&hex("40010009 00000100 03000200 05")]));
    unknown(&udp(2_123, &[&hex("41010009 00000100 03000100 05")]));
    let heartbeat = hex("2001000c 00000100 00600004 11223344");
    is(&udp(8_805, &[&heartbeat]), "pfcp", Certain);
    unknown(&udp(8_805, &[&hex("2001000c 00000100 00600005 11223344")]));
    unknown(&udp(8_805, &[&hex("2001000c 00000100 00000004 11223344")]));
}
