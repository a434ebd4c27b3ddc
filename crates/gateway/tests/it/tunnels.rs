//! Tunnels over UDP: what they carry is classified, what only looks like one stays what it is.

use std::net::SocketAddr;

use ringway_gateway::Packets;

use super::{at, classify, hex};

const HTTP: &[u8] = b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n";

/// Packets of a web page, over IPv4 or IPv6.
fn page(v6: bool) -> Packets {
    let mut packets = Packets::new();
    let (client, server) = match v6 {
        true => ("[2001:db8::5]:40000", "[2001:db8::9]:80"),
        false => ("10.0.0.5:40000", "192.0.2.9:80"),
    };
    let mut stream = packets.tcp(at(client), at(server));
    stream.open();
    stream.client(HTTP);
    packets
}

/// The same packets, each in a datagram behind this header.
fn within(inner: &Packets, to: SocketAddr, header: &dyn Fn(&[u8]) -> Vec<u8>) -> Packets {
    let mut outer = Packets::new();
    for (_, packet) in inner.iter() {
        outer.udp(
            at("198.51.100.1:49152"),
            to,
            &[header(packet), packet.to_vec()].concat(),
        );
    }
    outer
}

fn ethernet(header: &str) -> Vec<u8> {
    hex(&format!("{header} 020000000001 020000000002 0800"))
}

#[test]
fn what_a_tunnel_carries_is_classified() {
    let to = |port: u16| SocketAddr::from(([203, 0, 113, 7], port));
    let length = |packet: &[u8]| u16::try_from(packet.len()).unwrap();
    type Header<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;
    let cases: [(&str, u16, bool, Header<'_>); 10] = [
        ("VXLAN", 4_789, false, &|_| ethernet("08 000000 00002a 00")),
        ("VXLAN on Linux's old port", 8_472, false, &|_| {
            ethernet("08 000000 00002a 00")
        }),
        ("Geneve with an option", 6_081, false, &|_| {
            ethernet("01 00 6558 00002a 00 01020304")
        }),
        ("Geneve without Ethernet", 6_081, true, &|_| {
            hex("00 00 86dd 00002a 00")
        }),
        ("GTP-U", 2_152, false, &|packet| {
            [
                hex("30 ff"),
                length(packet).to_be_bytes().to_vec(),
                hex("00000001"),
            ]
            .concat()
        }),
        ("GTP-U with an extension", 2_152, false, &|packet| {
            let length = (length(packet) + 8).to_be_bytes().to_vec();
            [hex("34 ff"), length, hex("00000001 0000 00 85 01 10 01 00")].concat()
        }),
        ("Teredo", 3_544, true, &|_| Vec::new()),
        ("Teredo with origin and proof", 3_544, true, &|_| {
            hex("0001 00 00 0102030405060708 00 0000 1111 01020304")
        }),
        ("CAPWAP with Ethernet", 5_247, false, &|_| {
            ethernet("00 10 00 00 0000 0000")
        }),
        ("CAPWAP with 802.11", 5_247, false, &|_| {
            hex(
                "00 10 43 00 0000 0000 8801 0000 020000000001 020000000002 020000000003 0000 0000 \
                 aaaa03000000 0800",
            )
        }),
    ];
    for (name, port, v6, header) in cases {
        let flows = classify(&within(&page(v6), to(port), header));
        let apps: Vec<&str> = flows.iter().map(|flow| flow.app.as_str()).collect();
        assert_eq!(apps, ["http"], "{name}: {flows:?}");
        assert_eq!(flows[0].server_port, 80, "{name}");
    }
}

#[test]
fn tunnel_look_alike_is_its_own_flow() {
    for (port, payload) in [
        (4_789, "00 000000 00002a 00"),
        (
            4_789,
            "08 000000 00002a 00 020000000001 020000000002 0800 45",
        ),
        (6_081, "c0 00 6558 00002a 00"),
        (2_152, "32 01 0004 00000000 00000000"),
        (2_152, "34 ff 0004 00000001 0000 00 85 00"),
        (3_544, "60"),
        (5_247, "00 08 00 00 0000 0000"),
        (5_247, "01 10 00 00 0000 0000 45"),
    ] {
        let mut packets = Packets::new();
        let to = SocketAddr::from(([203, 0, 113, 7], port));
        packets.udp(at("198.51.100.1:49152"), to, &hex(payload));
        let flows = classify(&packets);
        assert_eq!(flows.len(), 1, "{payload}");
        assert_eq!(flows[0].server_port, port, "{payload}");
    }
}
