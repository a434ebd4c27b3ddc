//! Telegram, WhatsApp, Discord, Skype, and applications by the names of their hosts.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::web::{client_hello, records};
use super::{is, tcp, udp, unknown};
use crate::hex;

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

#[test]
fn hosts_make_a_flow_likely_and_look_alikes_do_not() {
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
