//! Link headers, tags, tunnels, extension headers, fragments, and packets cut at a snap length.

use ringway_gateway::packet::{Skip, decode};
use ringway_gateway::samples::frame;
use ringway_gateway::{L4, LinkType, Packets};

use crate::{at, hex};

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
const PAYLOAD: &[u8] = b"some payload";

fn udp(v6: bool) -> Vec<u8> {
    let mut packets = Packets::new();
    if v6 {
        packets.udp(at("[2001:db8::1]:1000"), at("[2001:db8::2]:2000"), PAYLOAD);
    } else {
        packets.udp(at("192.0.2.1:1000"), at("192.0.2.2:2000"), PAYLOAD);
    }
    packets.iter().next().unwrap().1.to_vec()
}

fn ethernet(header: &str, packet: &[u8]) -> Vec<u8> {
    [&[0; 12], hex(header).as_slice(), packet].concat()
}

fn assert_whole(link: LinkType, bytes: &[u8], v6: bool) {
    let packet = decode(link, bytes).unwrap_or_else(|skip| panic!("{link:?}: {skip:?}"));
    assert_eq!((packet.l4, packet.payload), (L4::Udp, PAYLOAD));
    assert_eq!(
        (packet.source.port(), packet.destination.port()),
        (1_000, 2_000)
    );
    assert_eq!(packet.source.is_ipv6(), v6);
    assert_eq!(usize::try_from(packet.ip_len).unwrap(), udp(v6).len());
    assert!(!packet.truncated);
}

#[test]
fn every_link_type_is_taken_off() {
    for link in LINKS {
        for v6 in [false, true] {
            assert_whole(link, &frame(link, &udp(v6)), v6);
        }
        assert_eq!(LinkType::from_number(link.number().into()), Some(link));
    }
    for raw in [12, 14, 101, 228, 229] {
        assert_eq!(LinkType::from_number(raw), Some(LinkType::RawIp));
    }
}

#[test]
fn ethernet_tags_labels_and_sessions_are_stripped() {
    for header in [
        "8100 0001 0800",
        "88a8 0001 8100 0002 0800",
        "9100 0001 8100 0002 8100 0003 0800",
        "8847 00010 040 00011 140",
        "8864 11 00 0001 0022 0021",
        "0028 aaaa 03 000000 0800",
    ] {
        assert_whole(LinkType::Ethernet, &ethernet(header, &udp(false)), false);
    }
    assert_whole(
        LinkType::Ethernet,
        &ethernet("8100 0001 86dd", &udp(true)),
        true,
    );
    assert_whole(
        LinkType::Ppp,
        &[&[0x21], udp(false).as_slice()].concat(),
        false,
    );
}

#[test]
fn padding_behind_the_packet_does_not_count() {
    let padded = [frame(LinkType::Ethernet, &udp(false)), vec![0; 30]].concat();
    assert_whole(LinkType::Ethernet, &padded, false);
}

/// An IPv4 or IPv6 header around a packet.
fn tunnel(v6: bool, protocol: u8, inner: &[u8]) -> Vec<u8> {
    let length = u16::try_from(inner.len()).unwrap();
    let header = if v6 {
        [
            &[0x60, 0, 0, 0],
            length.to_be_bytes().as_slice(),
            &[protocol, 64],
            &[9; 32],
        ]
        .concat()
    } else {
        let total = (length + 20).to_be_bytes();
        [
            &[0x45, 0],
            total.as_slice(),
            &[0, 0, 0, 0, 64, protocol, 0, 0],
            &[9; 8],
        ]
        .concat()
    };
    [header.as_slice(), inner].concat()
}

#[test]
fn tunnels_are_entered_and_the_inner_packet_counts() {
    for outer_v6 in [false, true] {
        for inner_v6 in [false, true] {
            let protocol = if inner_v6 { 41 } else { 4 };
            assert_whole(
                LinkType::RawIp,
                &tunnel(outer_v6, protocol, &udp(inner_v6)),
                inner_v6,
            );
            let ether_type = if inner_v6 { "86dd" } else { "0800" };
            for gre in [
                format!("0000 {ether_type}"),
                format!("b000 {ether_type} 11111111 22222222 33333333"),
            ] {
                let inner = [hex(&gre), udp(inner_v6)].concat();
                assert_whole(LinkType::RawIp, &tunnel(outer_v6, 47, &inner), inner_v6);
            }
        }
    }
    let bridged = [hex("0000 6558"), frame(LinkType::Ethernet, &udp(false))].concat();
    assert_whole(LinkType::RawIp, &tunnel(false, 47, &bridged), false);
}

#[test]
fn endless_nesting_ends() {
    let mut packet = udp(false);
    for _ in 0..20 {
        packet = tunnel(false, 4, &packet);
    }
    assert_eq!(decode(LinkType::RawIp, &packet), Err(Skip::TooDeep));
    let tags = "8100 0001 ".repeat(20) + "0800";
    assert_eq!(
        decode(LinkType::Ethernet, &ethernet(&tags, &udp(false))),
        Err(Skip::TooDeep)
    );
}

/// An IPv6 packet with extension headers before its UDP.
fn extended(first: u8, extensions: &str) -> Vec<u8> {
    let mut packet = udp(true);
    let extensions = hex(extensions);
    let length = u16::try_from(packet.len() - 40 + extensions.len()).unwrap();
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet[6] = first;
    packet.splice(40..40, extensions);
    packet
}

#[test]
fn extension_headers_are_passed_over() {
    let packet = extended(0, "3c00 010400000000 1100 010400000000");
    let decoded = decode(LinkType::RawIp, &packet).unwrap();
    assert_eq!((decoded.payload, decoded.source.port()), (PAYLOAD, 1_000));
    assert_eq!(usize::try_from(decoded.ip_len).unwrap(), packet.len());
}

/// Later ones are counted.
#[test]
fn only_first_fragments_have_ports() {
    let mut first = udp(false);
    first[6] = 0x20;
    let packet = decode(LinkType::RawIp, &first).unwrap();
    assert_eq!((packet.payload, packet.truncated), (PAYLOAD, true));
    let mut later = udp(false);
    later[7] = 100;
    assert_eq!(decode(LinkType::RawIp, &later), Err(Skip::LaterFragment));
    assert!(
        decode(LinkType::RawIp, &extended(44, "1100 0001 00000001"))
            .unwrap()
            .truncated
    );
    assert_eq!(
        decode(LinkType::RawIp, &extended(44, "1100 0500 00000001")),
        Err(Skip::LaterFragment)
    );
}

#[test]
fn truncated_packet_is_used_or_counted_by_reason() {
    let mut packets = Packets::new();
    packets
        .tcp(at("192.0.2.1:1000"), at("192.0.2.2:2000"))
        .client(PAYLOAD);
    let whole = frame(LinkType::Ethernet, packets.iter().next().unwrap().1);
    for cut in 0..whole.len() {
        match decode(LinkType::Ethernet, &whole[..cut]) {
            Err(Skip::TruncatedLink) => assert!(cut < 14, "{cut}"),
            Err(Skip::TruncatedIp) => assert!((14..34).contains(&cut), "{cut}"),
            Err(Skip::TruncatedTransport) => assert!((34..54).contains(&cut), "{cut}"),
            Err(skip) => panic!("{cut}: {skip:?}"),
            Ok(packet) => {
                assert!(
                    packet.truncated && packet.payload.len() == cut - 54,
                    "{cut}"
                );
                assert_eq!(usize::try_from(packet.ip_len).unwrap(), whole.len() - 14);
            }
        }
    }
}

#[test]
fn other_traffic_is_counted_by_reason() {
    let mut icmp = udp(false);
    icmp[9] = 1;
    let mut version = udp(false);
    version[0] = 0x75;
    let mut offset = {
        let mut packets = Packets::new();
        packets
            .tcp(at("192.0.2.1:1000"), at("192.0.2.2:2000"))
            .client(PAYLOAD);
        packets.iter().next().unwrap().1.to_vec()
    };
    offset[32] = 0x10;
    let mut short = udp(false);
    short[25] = 3;
    for (bytes, reason) in [
        (icmp, Skip::OtherProtocol),
        (version, Skip::MalformedIp),
        (offset, Skip::MalformedTransport),
        (short, Skip::MalformedTransport),
    ] {
        assert_eq!(decode(LinkType::RawIp, &bytes), Err(reason));
    }
    assert_eq!(
        decode(LinkType::Ethernet, &ethernet("0806", &[0; 28])),
        Err(Skip::NotIp)
    );
}
