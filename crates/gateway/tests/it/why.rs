//! What is kept of a flow to say why it got what it got.

use std::time::Duration;

use ringway_gateway::flow::TableBounds;
use ringway_gateway::policy::Action;
use ringway_gateway::verdict::{Gateway, Why};
use ringway_gateway::{LinkType, Packets};

use super::{at, enforcing, governed_within};

const REQUEST: &[u8] = b"GET /game.exe HTTP/1.1\r\nHost: server\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";

fn gateway(policy: &str, first_serial: u64) -> Gateway {
    let bounds = TableBounds {
        first_serial,
        ..TableBounds::default()
    };
    governed_within(policy, enforcing(), bounds)
}

fn exchange() -> Packets {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.2:4000"), at("192.0.2.1:80"));
    stream.open();
    stream.client(REQUEST);
    stream.server(ANSWER);
    packets
}

fn run(gateway: &mut Gateway, packets: &Packets) {
    for (now, bytes) in packets.iter() {
        let _ = gateway.handle_packet(now, LinkType::RawIp, bytes);
    }
}

/// Numbers of the packets that named, decided and blocked the flow.
fn deeds(why: &Why) -> [Vec<u64>; 3] {
    let those = |did: fn(&ringway_gateway::verdict::TraceStep) -> bool| {
        let packets = why.trace.iter().filter(|packet| did(&packet.step));
        packets.map(|packet| packet.number).collect()
    };
    [
        those(|deed| deed.named),
        those(|deed| deed.decided),
        those(|deed| deed.blocked),
    ]
}

#[test]
fn naming_and_blocking_packets_are_kept() {
    let policy =
        "[[rule]]\nname = \"p\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
    let mut gateway = gateway(policy, 1 << 44);
    let packets = exchange();
    run(&mut gateway, &packets);
    let serial = gateway.flows(1)[0].flow_id;
    assert_eq!(serial, 1 << 44);
    let why = gateway.why(serial).unwrap();
    assert_eq!((why.flow.action, why.over), (Some(Action::Block), false));
    assert_eq!(deeds(&why), [vec![4], vec![4], vec![4]]);
    let kept = &why.trace[3];
    assert!(kept.from_client && kept.missing == 0);
    assert_eq!(&kept.data[kept.payload_at..], REQUEST);
    let whole: Vec<&[u8]> = packets.iter().map(|(_, bytes)| bytes).collect();
    for packet in &why.trace {
        let number = usize::try_from(packet.number).unwrap();
        assert_eq!(packet.data, whole[number - 1]);
    }
    // It reads itself again.
    let json = serde_json::to_string(&why).unwrap();
    assert_eq!(serde_json::from_str::<Why>(&json).unwrap(), why);
}

#[test]
fn ended_flow_is_known_and_unused_number_not() {
    let mut gateway = gateway(
        "[[rule]]\nname = \"n\"\napp = \"http\"\naction = \"allow\"\n",
        0,
    );
    run(&mut gateway, &exchange());
    assert!(gateway.why(7).is_none());
    gateway.finish(Duration::from_secs(1_000));
    let why = gateway.why(0).unwrap();
    assert!(why.over);
    assert_eq!(why.flow.record.app, "http");
    assert_eq!(why.trace.len(), 5);
}
