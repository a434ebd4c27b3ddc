//! Telegram, WhatsApp, Discord, Skype, and applications by the names of their hosts.

use ringway_gateway::Confidence::{Certain, Guess, Likely};
use ringway_gateway::Packets;

use super::web::{client_hello, records};
use super::{is, tcp, udp, unknown};
use crate::{at, classify, hex};

/// An unencrypted request of MTProto's key exchange.
fn request() -> Vec<u8> {
    [
        vec![0; 8],
        vec![9; 8],
        hex("14000000 f18e7ebe"),
        vec![7; 16],
    ]
    .concat()
}

#[test]
fn telegram_in_the_clear_transports() {
    let abridged = [vec![0xef, 10], request()].concat();
    let flow = tcp(&[&abridged]);
    is(&flow, "telegram", Certain);
    assert!(flow.evidence.contains("abridged"), "{}", flow.evidence);
    let intermediate = [hex("eeeeeeee 28000000"), request()].concat();
    is(&tcp(&[&intermediate]), "telegram", Certain);
    let encrypted = [hex("eeeeeeee 38000000"), vec![7; 56]].concat();
    is(&tcp(&[&encrypted]), "telegram", Likely);
    unknown(&tcp(&[&encrypted[..40]]));
    unknown(&tcp(&[&[vec![0xef, 3], vec![7; 12]].concat()]));
    unknown(&tcp(&[&[hex("eeeeee00 28000000"), request()].concat()]));
}

#[test]
fn telegrams_reflectors() {
    let ask = [
        vec![7; 16],
        vec![0xff; 12],
        hex("feffffff 0102030405060708"),
    ]
    .concat();
    is(&udp(521, &[&ask]), "telegram", Likely);
    unknown(&udp(521, &[&[0xff; 40]]));
    unknown(&udp(521, &[&ask[..39]]));
}

#[test]
fn whatsapp_by_prologue_and_key() {
    let key = [hex("00 0024 12 22 0a 20"), vec![7; 32]].concat();
    let plain = [b"WA\x06\x05".as_slice(), &key].concat();
    is(&tcp(&[&plain]), "whatsapp", Certain);
    let routed = [
        b"ED\0\x01\0\0\x04\x08\x09\x08\x02WA\x05\x02".as_slice(),
        &key,
    ]
    .concat();
    is(&tcp(&[&routed]), "whatsapp", Certain);
    is(&tcp(&[&routed[..15]]), "whatsapp", Likely);
    is(&tcp(&[&plain[..4]]), "whatsapp", Guess);
    unknown(&tcp(&[b"WAIT for it"]));
    unknown(&tcp(&[b"ED\0\x01\xff\xff\xff"]));
    // From the server it is none.
    unknown(&tcp(&[b"", &plain]));
}

/// A datagram of IP discovery.
fn discovery(kind: u8, source: u32, address: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0, kind, 0, 70][..], &source.to_be_bytes(), address].concat();
    bytes.resize(74, 0);
    bytes
}

#[test]
fn discords_ip_discovery_and_pings() {
    let ask = discovery(1, 77, b"");
    let answer = discovery(2, 77, b"203.0.113.9");
    is(&udp(50_001, &[&ask]), "discord", Likely);
    is(&udp(50_001, &[&ask, &answer]), "discord", Certain);
    is(
        &udp(50_001, &[&ask, &discovery(2, 78, b"203.0.113.9")]),
        "discord",
        Likely,
    );
    unknown(&udp(50_001, &[&discovery(2, 77, b"somewhere")]));
    unknown(&udp(50_001, &[&discovery(1, 77, b"x")]));
    unknown(&udp(50_001, &[&ask[..73]]));
    let ping = hex("1337cafe 05000000");
    is(&udp(50_004, &[&ping]), "discord", Guess);
    is(&udp(50_004, &[&ping, &ping]), "discord", Likely);
    is(
        &udp(50_004, &[&ping, &hex("1337cafe 06000000")]),
        "discord",
        Guess,
    );
}

#[test]
fn skype_is_never_more_than_a_guess() {
    let datagram = |id: &str, kind: &str| [hex(id), hex(kind), vec![0x9c; 20]].concat();
    let exchange = [
        datagram("b1c2", "02"),
        datagram("b1c2", "03"),
        datagram("d7a5", "02"),
        datagram("d7a5", "0d"),
    ];
    let said: Vec<&[u8]> = exchange.iter().map(Vec::as_slice).collect();
    is(&udp(33_033, &said), "skype", Guess);
    unknown(&udp(33_033, &said[..2]));
    // One identifier for all: a connection's.
    unknown(&udp(33_033, &said[..2].repeat(2)));
}

/// Names that only look alike do not.
#[test]
fn known_hosts_make_a_flow_likely() {
    let hello = |name: &str| records(&client_hello(name, 0), 10_000);
    for (name, app) in [
        ("discord.com", "discord"),
        ("gateway.discord.gg", "discord"),
        ("MMG.WhatsApp.net", "whatsapp"),
        ("web.telegram.org", "telegram"),
        ("edge.skype.com", "skype"),
        ("relays.syncthing.net", "syncthing"),
        ("x.ipfs.dweb.link", "ipfs"),
        ("reseed.i2pgit.org", "i2p"),
        ("tracker.openwebtorrent.com", "bittorrent"),
    ] {
        let flow = tcp(&[&hello(name)]);
        is(&flow, app, Likely);
        assert_eq!(flow.details.sni.as_deref(), Some(name));
        assert!(
            flow.evidence.contains(".hosts: ClientHello, to a host of"),
            "{}",
            flow.evidence
        );
    }
    for name in [
        "notdiscord.com",
        "discord.com.example",
        "com",
        "whatsapp.net.",
        "a.example",
    ] {
        let flow = tcp(&[&hello(name)]);
        let expected = if name == "whatsapp.net." {
            "whatsapp"
        } else {
            "tls"
        };
        assert_eq!(flow.app, expected, "{name}");
    }
    let request = b"GET / HTTP/1.1\r\nHost: web.telegram.org:8080\r\n\r\n";
    is(&tcp(&[request]), "telegram", Likely);
}

/// A STUN message of this type with these attributes, padded as RFC 8489 says.
fn stun(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (attribute, value) in attributes {
        body.extend(attribute.to_be_bytes());
        body.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let length = u16::try_from(body.len()).unwrap();
    let mut bytes = [kind.to_be_bytes(), length.to_be_bytes()].concat();
    bytes.extend(hex("2112a442 00112233445566778899aabb"));
    bytes.extend(body);
    bytes
}

#[test]
fn stun_by_its_cookie_and_lengths() {
    let request = stun(1, &[(0x8022, b"a client"), (0x0020, &[7; 8])]);
    let flow = udp(3_478, &[&request, &stun(0x0101, &[])]);
    is(&flow, "stun", Likely);
    assert!(flow.evidence.contains("Binding request"), "{flow:?}");
    is(&udp(3_478, &[&stun(1, &[])]), "stun", Likely);
    is(&tcp(&[&request]), "stun", Likely);
    // Another number, a wrong length, an attribute that is longer than the message.
    unknown(&udp(3_478, &[&[&request[..4], &[1; 32]].concat()]));
    unknown(&udp(3_478, &[&request[..request.len() - 4]]));
    unknown(&udp(3_478, &[&[request.as_slice(), &[0; 4]].concat()]));
    let mut long = stun(1, &[(0x8022, b"four")]);
    long[23] = 200;
    unknown(&udp(3_478, &[&long]));
}

#[test]
fn a_better_name_replaces_stun() {
    let ask = discovery(1, 77, b"");
    let answer = discovery(2, 77, b"203.0.113.9");
    is(
        &udp(50_001, &[&stun(1, &[]), b"", &ask, &answer]),
        "discord",
        Certain,
    );
}

#[test]
fn calls_by_their_relays() {
    let asked = stun(3, &[(0x4000, &[9; 100])]);
    is(
        &udp(3_478, &[&asked, &stun(0x0103, &[])]),
        "whatsapp",
        Likely,
    );
    // As it is sent: the last attribute without its padding.
    let mut unpadded = stun(3, &[(0x4000, &[9; 102])]);
    unpadded.truncate(unpadded.len() - 2);
    unpadded[3] -= 2;
    is(&udp(3_478, &[&unpadded]), "whatsapp", Likely);
    let realm = stun(0x0113, &[(0x0014, b"telegram.org")]);
    is(&udp(1_400, &[&stun(3, &[]), &realm]), "telegram", Likely);
    let other = stun(0x0113, &[(0x0014, b"nottelegram.org")]);
    is(&udp(1_400, &[&stun(3, &[]), &other]), "stun", Likely);
}

/// What goes to and fro between a caller's port and this server.
fn exchange(packets: &mut Packets, server: &str, messages: [&[u8]; 2]) {
    let [ask, answer] = messages;
    packets.udp(at("10.1.0.2:40000"), at(server), ask);
    packets.udp(at(server), at("10.1.0.2:40000"), answer);
}

#[test]
fn calls_between_peers_by_their_relays_port() {
    let binding = [stun(1, &[(0x0008, &[7; 20])]), stun(0x0101, &[])];
    let binding = [binding[0].as_slice(), &binding[1]];
    let relay = [stun(3, &[(0x4000, &[9; 100])]), stun(0x0103, &[])];
    let mut packets = Packets::new();
    exchange(&mut packets, "192.0.2.9:3478", [&relay[0], &relay[1]]);
    exchange(&mut packets, "198.51.100.7:32704", binding);
    let flows = classify(&packets);
    assert_eq!(flows.len(), 2);
    for flow in &flows {
        is(flow, "whatsapp", Likely);
    }
    // What has no answer says nothing of other flows.
    let mut packets = Packets::new();
    packets.udp(at("10.1.0.2:40000"), at("192.0.2.9:3478"), &relay[0]);
    exchange(&mut packets, "198.51.100.7:32704", binding);
    let flows = classify(&packets);
    let peers = flows
        .iter()
        .find(|flow| flow.server_port == 32_704)
        .unwrap();
    is(peers, "stun", Likely);
}

/// Requests like Skype's from one port, each to another endpoint.
fn requests(identifiers: impl Iterator<Item = u16>) -> Vec<ringway_gateway::FlowRecord> {
    let mut packets = Packets::new();
    for (place, identifier) in identifiers.enumerate() {
        let mut bytes = identifier.to_be_bytes().to_vec();
        bytes.extend(hex("02 d2fcfb780ea6d56433dd749d497204d3"));
        let server = at(&format!("192.0.2.{}:{}", place + 1, 40_000 + place));
        packets.udp(at("10.1.0.2:13021"), server, &bytes);
    }
    classify(&packets)
}

#[test]
fn skype_by_requests_across_one_ports_flows() {
    for flow in &requests((0..12).map(|step| 0x9b90 + 2 * step)) {
        is(flow, "skype", Guess);
    }
    for flow in &requests((0..7).map(|step| 0x9b90 + 2 * step)) {
        unknown(flow);
    }
    // Identifiers at random, or falling.
    for flow in &requests((0..12).map(|step| 0x9b90 - 2 * step)) {
        unknown(flow);
    }
    for flow in &requests((0..12_u16).map(|step| 0x8181_u16.wrapping_mul(step + 1) | 0x8080)) {
        unknown(flow);
    }
}

#[test]
fn teams_by_the_version_in_stun() {
    let message = |value: &str| {
        let attribute = [hex("8070 0004"), hex(value)].concat();
        [hex("0003 0008 2112a442"), vec![7; 12], attribute].concat()
    };
    let version = message("00000003");
    is(&udp(3_478, &[&version]), "teams", Likely);
    is(&udp(3_478, &[&message("01000003")]), "stun", Likely);
    is(&udp(3_478, &[&message("00000000")]), "stun", Likely);
}

#[test]
fn relays_channels_by_numbered_rtp() {
    let packet = |channel: &str, number: u8| {
        let rtp = [hex("806f 12"), vec![number], vec![9; 28]].concat();
        [hex(channel), hex("0020"), rtp].concat()
    };
    let said = |channel| [10, 11, 12, 13].map(|number| packet(channel, number));
    let from_client = |packets: [Vec<u8>; 4]| {
        let turns: Vec<&[u8]> = packets
            .iter()
            .flat_map(|packet| [&packet[..], b""])
            .collect();
        udp(3_478, &turns)
    };
    is(&from_client(said("4001")), "stun", Likely);
    // No channel has this number, and three packets are not enough.
    unknown(&from_client(said("5001")));
    let mut three = said("4001");
    three[3] = three[2].clone();
    unknown(&from_client(three));
}
