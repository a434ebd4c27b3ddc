//! Nothing from outside makes the pipeline panic or keep more than its bounds.

use std::time::Duration;

use proptest::prelude::*;
use ringway_gateway::{
    CaptureReader, LinkType, Packets, SignatureSet, built_in_pipeline, classify_reader, samples,
};

use crate::{at, only, pair};

const LINKS: [LinkType; 8] = [
    LinkType::Null,
    LinkType::Ethernet,
    LinkType::Ppp,
    LinkType::RawIp,
    LinkType::Loop,
    LinkType::LinuxCooked,
    LinkType::Nflog,
    LinkType::LinuxCooked2,
];

/// First bytes that lead deep into the checks.
const HEADS: [&[u8]; 48] = [
    b"",
    b"\x13BitTorrent protocol",
    b"d1:ad2:id20:",
    b"d1:",
    b"\xe3",
    b"\xc5\x01",
    b"\xe4\x29",
    b"GNUTELLA CONNECT/0.6\r\n",
    b"GND\x00\x00\x01",
    b"GET /get/1/",
    b"GET / HTTP/1.1\r\n",
    b"\x16\x03\x01\x00\x30\x01\x00\x00\x2c\x03\x03",
    b"\xc3\x00\x00\x00\x01\x08",
    b"\x41\x00",
    b"\x00\x00\x00\x05\x04",
    b"\x12\x34\x01\x00\x00\x01",
    b"GET /.hash=0123456789abcdef0123456789abcdef01234567/",
    b"GIVE 1234567",
    b"\x27\0\0\0\xa9\x80KaZaA",
    b"$Lock a Pk=b|$ADCGET file ",
    b"HSUP ADBASE AD",
    b"URES ",
    b"\x09\0\0\0\x01\x01\0\0\0",
    b"\x05\0\0\0\0",
    b"\x30\0\0\0\x01\0\0\0\x02\0\0\0",
    b"VER 1 MSNP8\r\nMSG 1 N 9\r\n",
    b"USR a@b 1\r\n",
    b"NICK a\r\nUSER a 0 * :a\r\n:a PRIVMSG b :\x01DCC SEND ",
    b"<?xml ?><stream:stream to='",
    b"<iq><streamhost host='1.2.3.4' port='",
    b"\x05\x01\0\x05\x01\0\x03\x28",
    b"\xef\x0a",
    b"\xef\x7f\xff\xff\xff",
    b"\xee\xee\xee\xee",
    b"ED\0\x01\0\0\x04\x08\x09\x08\x02WA\x05\x02\0\x01\x03\x12",
    b"\0\x01\0\x46",
    b"\x13\x37\xca\xfe",
    b"\x01\0\0\0",
    b"\x04\0\0\0",
    b"\x2e\xa7\xd9\x0b\x0a\x20",
    b"\x9e\x79\xbc\x40\0\0\0\x02",
    b"\x13/multistream/1.0.0\n",
    b"\x81\xfe\xff\xff",
    b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x01\x11\x22\x33\x44\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x11\x11\x22\x33\x44",
    b"\x01\x20\x01\x11\x22\x33\x44",
    b"\xc0\x00\x00\x00\x01\x08\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x40\x80",
];

fn payload() -> impl Strategy<Value = Vec<u8>> {
    (
        prop::sample::select(HEADS.to_vec()),
        prop::collection::vec(any::<u8>(), 0..300),
    )
        .prop_map(|(head, tail)| [head, &tail].concat())
}

proptest! {
    #[test]
    fn random_files_never_panic(head in prop::sample::select(vec![
        vec![], vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0],
        vec![0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0],
    ]), tail in prop::collection::vec(any::<u8>(), 0..600)) {
        let file = [head, tail].concat();
        drop(classify_reader("random", file.as_slice(), &mut |_| {}));
    }

    #[test]
    fn changed_samples_never_panic(which in 0_usize..9, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let (name, mut file) = samples::captures().swap_remove(which);
        for (place, value) in changes {
            let place = place.index(file.len());
            file[place] = value;
        }
        drop(classify_reader(name, file.as_slice(), &mut |_| {}));
    }

    #[test]
    fn random_signature_files_never_panic(lines in prop::collection::vec(prop::sample::select(vec![
        "[[signature]]", "name = \"a\"", "application = \"b\"", "l4 = \"tcp\"", "confidence = \"guess\"",
        "[[signature.pattern]]", "refines = [\"tls\"]", "hosts = [\"a.\"]", "alpn = [\"x\"]", "hex = \"0\"", "text = \"é\"", "at = 99999999999", "at = -1", "check = \"x\"", "= é",
    ]), 0..12)) {
        let text = lines.join("\n");
        if let Err(error) = SignatureSet::parse(&text) {
            prop_assert!(error.line <= lines.len() + 1, "{}", error);
        }
    }

    #[test]
    fn random_packets_never_panic(link in prop::sample::select(LINKS.to_vec()), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut pipeline = built_in_pipeline();
        pipeline.handle_packet(Duration::ZERO, link, &bytes);
        pipeline.finish();
        prop_assert_eq!(pipeline.counters().packets, 1);
    }

    #[test]
    fn random_payloads_make_one_flow_whatever_they_hold(tcp in any::<bool>(), port in prop::sample::select(vec![53_u16, 80, 443, 5353, 7000]), payloads in prop::collection::vec(payload(), 1..12)) {
        let (client, server) = (at("10.0.0.1:40000"), at(&format!("192.0.2.1:{port}")));
        let mut packets = Packets::new();
        if tcp {
            let mut stream = packets.tcp(client, server);
            stream.open();
            for (turn, payload) in payloads.iter().enumerate() {
                if turn % 2 == 0 { stream.client(payload) } else { stream.server(payload) }
            }
        } else {
            for (turn, payload) in payloads.iter().enumerate() {
                let (from, to) = if turn % 2 == 0 { (client, server) } else { (server, client) };
                packets.udp(from, to, payload);
            }
        }
        let flow = only(&packets);
        prop_assert!(flow.evidence.len() < 1_024);
        prop_assert!(flow.details.host.is_none_or(|host| host.len() <= 255));
    }

    #[test]
    fn random_datagrams_are_never_called_peer_to_peer_for_certain(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 20..200), 16)) {
        let (client, server) = pair();
        let mut packets = Packets::new();
        for (turn, payload) in payloads.iter().enumerate() {
            let (from, to) = if turn % 2 == 0 { (client, server) } else { (server, client) };
            packets.udp(from, to, payload);
        }
        let flow = only(&packets);
        prop_assert!(flow.app == "unknown" || flow.confidence != ringway_gateway::Confidence::Certain, "{:?}", flow);
    }
}

#[test]
fn reordered_segments_with_gaps_stay_within_the_prefix() {
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    for part in (0..64_u32).rev() {
        stream.renumber(1_001 + part * 1_400, 500_001);
        stream.client(&[7; 1_400]);
    }
    let mut pipeline = built_in_pipeline();
    for (now, bytes) in packets.iter() {
        pipeline.handle_packet(now, LinkType::RawIp, bytes);
    }
    pipeline.finish();
    assert_eq!(pipeline.poll_flow().unwrap().packets, 67);
}

#[test]
fn failing_reader_is_reported_with_name_and_offset() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no medium"))
        }
    }
    let error = CaptureReader::new("tape.pcap", Broken)
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("tape.pcap at byte 0") && error.contains("no medium"),
        "{error}"
    );
}
