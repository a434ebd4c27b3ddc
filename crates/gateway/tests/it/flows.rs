//! Flows: who is client, what is counted, when a flow begins and ends, and the table's bounds.

use std::time::Duration;

use ringway_gateway::classify::Bounds;
use ringway_gateway::flow::TableBounds;
use ringway_gateway::{Classifier, FlowRecord, LinkType, Packets, Pipeline, SignatureSet, limits};

use crate::{at, classify, only, pair};

fn ports(flow: &FlowRecord) -> (u16, u16) {
    (flow.client_port, flow.server_port)
}

#[test]
fn syn_sender_is_client_at_any_ports() {
    let mut packets = Packets::new();
    packets.tcp(at("10.0.0.1:80"), at("10.0.0.2:50000")).open();
    assert_eq!(ports(&only(&packets)), (80, 50_000));
}

/// It is the receiver of a SYN-ACK, or else the end with the higher port.
#[test]
fn client_is_inferred_midway() {
    let mut whole = Packets::new();
    let mut stream = whole.tcp(at("10.0.0.1:7000"), at("10.0.0.2:50000"));
    stream.open();
    stream.server(b"data");
    let bytes: Vec<Vec<u8>> = whole.iter().map(|(_, bytes)| bytes.to_vec()).collect();
    for (from, expected) in [(1, (7_000, 50_000)), (3, (50_000, 7_000))] {
        let mut rest = Packets::new();
        bytes[from..]
            .iter()
            .for_each(|bytes| rest.push(bytes.clone()));
        assert_eq!(ports(&only(&rest)), expected, "from packet {from}");
    }
}

#[test]
fn first_udp_sender_is_client_unless_service_port() {
    for (from, to, expected) in [
        ("10.0.0.1:2000", "10.0.0.2:50000", (2_000, 50_000)),
        ("10.0.0.1:53", "10.0.0.2:50000", (50_000, 53)),
        ("10.0.0.1:68", "10.0.0.2:67", (68, 67)),
        ("10.0.0.1:50000", "10.0.0.2:53", (50_000, 53)),
    ] {
        let mut packets = Packets::new();
        packets.udp(at(from), at(to), b"x");
        assert_eq!(ports(&only(&packets)), expected);
    }
}

#[test]
fn counters_cover_both_directions_by_ip_length() {
    let (client, server) = pair();
    let mut packets = Packets::new();
    packets.udp(client, server, &[1; 100]);
    packets.udp(server, client, &[1; 10]);
    let flow = only(&packets);
    assert_eq!((flow.packets, flow.bytes), (2, 20 + 8 + 100 + 20 + 8 + 10));
    let total: usize = packets.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(flow.bytes, u64::try_from(total).unwrap());
}

#[test]
fn reopened_closed_tuple_is_a_new_flow() {
    let (client, server) = pair();
    for close in [true, false] {
        let mut packets = Packets::new();
        let mut stream = packets.tcp(client, server);
        stream.open();
        stream.client(b"GET / HTTP/1.1\r\n\r\n");
        if close {
            stream.close();
        } else {
            stream.reset();
        }
        stream.renumber(90_000, 800_000);
        stream.open();
        stream.client(b"\x13BitTorrent protocol");
        let apps: Vec<String> = classify(&packets)
            .into_iter()
            .map(|flow| flow.app)
            .collect();
        assert_eq!(apps, ["http", "bittorrent"], "closed orderly: {close}");
    }
}

#[test]
fn repeated_syns_and_late_packets_keep_their_flow() {
    let (client, server) = pair();
    let mut made = Packets::new();
    let mut stream = made.tcp(client, server);
    stream.open();
    stream.client(b"late");
    stream.reset();
    let at = |place: usize| made.iter().nth(place).unwrap().1.to_vec();
    let mut packets = Packets::new();
    // SYN, answer and their repetitions; then all else, the end before the last data.
    for place in [0, 0, 1, 0, 1, 2, 4, 3] {
        packets.push(at(place));
    }
    assert_eq!(only(&packets).packets, 8);
}

#[test]
fn answered_syn_in_open_connection_begins_new_flow() {
    let (client, server) = pair();
    let mut made = Packets::new();
    let mut stream = made.tcp(client, server);
    stream.open();
    stream.renumber(77_000, 88_000);
    stream.open();
    assert_eq!(classify(&made).len(), 2);
    let mut packets = Packets::new();
    for place in [0, 1, 2, 3] {
        packets.push(made.iter().nth(place).unwrap().1.to_vec());
    }
    assert_eq!(only(&packets).packets, 4);
}

#[test]
fn packet_after_idle_time_begins_new_flow() {
    let (client, server) = pair();
    for (idle, flows) in [
        (limits::UDP_IDLE - Duration::from_secs(1), 1),
        (limits::UDP_IDLE * 2, 2),
    ] {
        let mut packets = Packets::new();
        packets.udp(client, server, b"x");
        packets.wait(idle);
        packets.udp(client, server, b"x");
        assert_eq!(classify(&packets).len(), flows, "{idle:?}");
    }
    for (close, idle, flows) in [
        (false, limits::TCP_IDLE - Duration::from_secs(1), 1),
        (false, limits::TCP_IDLE * 2, 2),
        (true, limits::TCP_CLOSED * 2, 2),
    ] {
        let mut packets = Packets::new();
        let mut stream = packets.tcp(client, server);
        stream.open();
        if close {
            stream.close();
        }
        stream.packets().wait(idle);
        stream.client(b"x");
        assert_eq!(classify(&packets).len(), flows, "closed {close}, {idle:?}");
    }
}

#[test]
fn time_that_runs_backwards_counts_as_standing_still() {
    let server = at("10.0.0.2:5000");
    let mut pipeline = ringway_gateway::built_in_pipeline();
    for (seconds, client) in [
        (100_000, "10.0.0.1:1"),
        (0, "10.0.0.1:2"),
        (100_000, "10.0.0.1:1"),
        (100_001, "10.0.0.1:1"),
    ] {
        let mut packets = Packets::starting_at(Duration::from_secs(seconds));
        packets.udp(at(client), server, b"x");
        for (now, bytes) in packets.iter() {
            pipeline.handle_packet(now, LinkType::RawIp, bytes);
        }
    }
    assert_eq!(
        pipeline.live_flows(),
        2,
        "the flow of the early packet is not idle"
    );
}

fn small(flows: usize) -> Pipeline {
    let classifier = Classifier::new(&SignatureSet::built_in(), Bounds::default()).unwrap();
    Pipeline::new(
        classifier,
        TableBounds {
            flows,
            ..TableBounds::default()
        },
    )
}

#[test]
fn full_table_evicts_the_longest_idle_flow() {
    let mut packets = Packets::new();
    for port in [1, 2, 3, 1, 4] {
        packets.udp(
            at(&format!("10.0.0.1:{}", 2_000 + port)),
            at("10.0.0.2:5000"),
            b"x",
        );
    }
    let mut pipeline = small(3);
    let mut ended = Vec::new();
    for (now, bytes) in packets.iter() {
        pipeline.handle_packet(now, LinkType::RawIp, bytes);
        ended.extend(std::iter::from_fn(|| pipeline.poll_flow()).map(|flow| flow.client_port));
        assert!(pipeline.live_flows() <= 3);
    }
    assert_eq!(ended, [2_002], "2001 was used again, so 2002 is the oldest");
    assert_eq!(pipeline.counters().evicted, 1);
    pipeline.finish();
    let rest: Vec<u16> = std::iter::from_fn(|| pipeline.poll_flow())
        .map(|flow| flow.client_port)
        .collect();
    assert_eq!(rest, [2_001, 2_003, 2_004]);
}

#[test]
fn eviction_compares_tcp_and_udp_flows() {
    for tcp_first in [true, false] {
        let mut packets = Packets::new();
        let server = at("10.0.0.2:5000");
        for tcp in [tcp_first, !tcp_first] {
            if tcp {
                packets.tcp(at("10.0.0.1:6"), server).client(b"x");
            } else {
                packets.udp(at("10.0.0.1:17"), server, b"x");
            }
        }
        packets.udp(at("10.0.0.1:18"), server, b"x");
        let mut pipeline = small(2);
        for (now, bytes) in packets.iter() {
            pipeline.handle_packet(now, LinkType::RawIp, bytes);
        }
        let ended = pipeline.poll_flow().unwrap();
        assert_eq!(ended.l4.name(), if tcp_first { "tcp" } else { "udp" });
    }
}

#[test]
fn flood_bounds_the_table_and_loses_no_record() {
    let mut pipeline = small(100);
    let mut records = 0;
    for round in 0..20_u32 {
        let mut packets = Packets::starting_at(Duration::from_secs(round.into()));
        for host in 0..200_u32 {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + round * 200 + host);
            packets
                .tcp((address, 4_000).into(), at("192.0.2.1:80"))
                .client(&[9; 50]);
        }
        for (now, bytes) in packets.iter() {
            pipeline.handle_packet(now, LinkType::RawIp, bytes);
            records += std::iter::from_fn(|| pipeline.poll_flow()).count();
            assert!(pipeline.live_flows() <= 100);
        }
    }
    pipeline.finish();
    records += std::iter::from_fn(|| pipeline.poll_flow()).count();
    assert_eq!(records, 4_000);
}

/// A SYN without options from each of a million addresses.
fn flood(
    pipeline: &mut Pipeline,
    numbers: std::ops::Range<u32>,
    on_record: &mut impl FnMut(FlowRecord),
) {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.1:4000"), at("192.0.2.9:7000"));
    stream.open();
    let mut syn = packets.iter().next().unwrap().1.to_vec();
    for number in numbers {
        syn[12..16].copy_from_slice(&(0x0b00_0000 | number).to_be_bytes());
        // A hundred thousand in a second.
        let now = Duration::from_secs(10) + Duration::from_micros(10) * number;
        pipeline.handle_packet(now, LinkType::RawIp, &syn);
        while let Some(flow) = pipeline.poll_flow() {
            on_record(flow);
        }
        assert!(pipeline.live_flows() <= limits::MAX_FLOWS);
    }
}

/// Nor a flow whose handshake is complete.
#[test]
fn million_syns_displace_no_flow_with_data() {
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    stream.client(&[b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat());
    packets.tcp(at("10.1.0.3:50001"), server).open();
    packets.udp(at("10.1.0.4:50002"), server, b"x");
    let mut pipeline = ringway_gateway::built_in_pipeline();
    for (now, bytes) in packets.iter() {
        pipeline.handle_packet(now, LinkType::RawIp, bytes);
    }
    let mut records = 0_u32;
    let mut count = |flow: FlowRecord| {
        assert_eq!((flow.packets, flow.bytes), (1, 40));
        records += 1;
    };
    flood(&mut pipeline, 0..500_000, &mut count);
    let mut later = Packets::starting_at(Duration::from_secs(15));
    let mut stream = later.tcp(client, server);
    stream.renumber(1_069, 500_001);
    stream.server(b"\x13BitTorrent protocol");
    for (now, bytes) in later.iter() {
        pipeline.handle_packet(now, LinkType::RawIp, bytes);
    }
    flood(&mut pipeline, 500_000..1_000_000, &mut count);
    let displaced = u64::from(records);
    assert_eq!(pipeline.counters().evicted, displaced);
    pipeline.finish();
    let rest: Vec<FlowRecord> = std::iter::from_fn(|| pipeline.poll_flow()).collect();
    assert_eq!(displaced + u64::try_from(rest.len()).unwrap(), 1_000_003);
    assert_eq!(pipeline.counters().records_dropped, 0);
    // In the order in which they began.
    let kept: Vec<_> = rest[..3]
        .iter()
        .map(|flow| (flow.client_port, flow.packets, flow.app.as_str()))
        .collect();
    assert_eq!(
        kept,
        [
            (50_000, 5, "bittorrent"),
            (50_001, 3, "unknown"),
            (50_002, 1, "unknown")
        ]
    );
    assert_eq!(rest[0].confidence, ringway_gateway::Confidence::Certain);
}

#[test]
fn embryonic_flows_give_way_first() {
    let server = at("192.0.2.9:7000");
    let client = |port: u16| (std::net::Ipv4Addr::new(10, 0, 0, 1), 40_000 + port).into();
    let mut packets = Packets::new();
    packets.tcp(client(1), server).client(b"data");
    let mut closed = packets.tcp(client(2), server);
    closed.open();
    closed.close();
    packets.tcp(client(3), server).open();
    // A SYN and its answer, and a third packet that has none.
    let mut others = Packets::new();
    others.tcp(client(4), server).open();
    let handshake: Vec<Vec<u8>> = others.iter().map(|(_, bytes)| bytes.to_vec()).collect();
    packets.push(handshake[0].clone());
    packets.push(handshake[1].clone());
    others.tcp(client(5), server).open();
    packets.push(others.iter().last().unwrap().1.to_vec());
    // A SYN that a reset refused.
    let mut refused = Packets::new();
    let mut stream = refused.tcp(client(6), server);
    stream.open();
    stream.reset();
    let refused: Vec<Vec<u8>> = refused.iter().map(|(_, bytes)| bytes.to_vec()).collect();
    packets.push(refused[0].clone());
    packets.push(refused[3].clone());
    let mut pipeline = small(6);
    let mut ended = Vec::new();
    for port in 20..26 {
        packets.udp(client(port), server, b"x");
    }
    for (now, bytes) in packets.iter() {
        pipeline.handle_packet(now, LinkType::RawIp, bytes);
        ended.extend(
            std::iter::from_fn(|| pipeline.poll_flow()).map(|flow| flow.client_port - 40_000),
        );
    }
    assert_eq!(ended, [4, 5, 6, 1, 2, 3]);
}

#[test]
fn embryonic_flows_end_early() {
    let (client, server) = pair();
    for (idle, flows) in [
        (limits::TCP_EMBRYONIC - Duration::from_secs(1), 1),
        (limits::TCP_EMBRYONIC * 2, 2),
    ] {
        let mut whole = Packets::new();
        whole.tcp(client, server).open();
        let syn = whole.iter().next().unwrap().1.to_vec();
        let mut packets = Packets::new();
        packets.push(syn.clone());
        packets.wait(idle);
        packets.push(syn);
        assert_eq!(classify(&packets).len(), flows, "{idle:?}");
    }
}

#[test]
fn a_table_is_as_new_after_its_end() {
    let server = at("10.0.0.2:5000");
    let mut pipeline = small(3);
    for round in 0..3_u64 {
        let mut packets = Packets::starting_at(Duration::from_secs(round));
        for port in 1..=5 {
            packets.udp(at(&format!("10.0.0.1:{}", 2_000 + port)), server, b"x");
        }
        for (now, bytes) in packets.iter() {
            pipeline.handle_packet(now, LinkType::RawIp, bytes);
            assert!(pipeline.live_flows() <= 3);
        }
        pipeline.finish();
        let ended: Vec<u16> = std::iter::from_fn(|| pipeline.poll_flow())
            .map(|flow| flow.client_port)
            .collect();
        assert_eq!(ended, [2_001, 2_002, 2_003, 2_004, 2_005], "{round}");
    }
}
