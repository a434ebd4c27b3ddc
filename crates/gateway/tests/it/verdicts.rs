//! What happens to packets by a policy: dropped, answered, left to the kernel, refused when they
//! come again.

use std::time::Duration;

use etherparse::{SlicedPacket, TransportSlice};

use ringway_gateway::policy::Action;
use ringway_gateway::verdict::{
    DecidedFlow, Event, EventKind, Gateway, Mode, Offload, Settings, Verdict,
};
use ringway_gateway::{LinkType, Packets};

use super::{at, governed, parsed};

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";

fn handshake() -> Vec<u8> {
    [
        b"\x13BitTorrent protocol".as_slice(),
        &[0; 8],
        &[7; 20],
        &[9; 20],
    ]
    .concat()
}

fn gateway(policy: &str, mode: Mode) -> Gateway {
    let settings = Settings {
        mode,
        ..Settings::default()
    };
    governed(policy, settings)
}

/// A torrent from this port: SYN, SYN+ACK, ACK, handshake, answer, and more from both sides.
fn torrent(packets: &mut Packets, port: u16) {
    let mut stream = packets.tcp(([10, 0, 0, 5], port).into(), at("192.0.2.9:6881"));
    stream.open();
    stream.client(&handshake());
    for _ in 0..6 {
        stream.server(&handshake());
        stream.client(&[1; 100]);
    }
}

/// Verdicts of all packets, `after` seconds later than they say.
fn run(gateway: &mut Gateway, packets: &Packets, after: u64) -> Vec<Verdict> {
    packets
        .iter()
        .map(|(now, bytes)| {
            gateway.handle_packet(now + Duration::from_secs(after), LinkType::RawIp, bytes)
        })
        .collect()
}

fn injections(gateway: &mut Gateway) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| gateway.poll_injection()).collect()
}

fn events(gateway: &mut Gateway) -> Vec<Event> {
    std::iter::from_fn(|| gateway.poll_event()).collect()
}

fn flows(gateway: &mut Gateway) -> Vec<DecidedFlow> {
    gateway.finish(Duration::from_secs(1_000));
    std::iter::from_fn(|| gateway.poll_flow()).collect()
}

/// Sender's and receiver's port, sequence and acknowledgement of a reset.
fn numbers(packet: &[u8]) -> (u16, u16, u32, u32) {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
        panic!("no TCP");
    };
    assert!(tcp.rst() && tcp.ack());
    (
        tcp.source_port(),
        tcp.destination_port(),
        tcp.sequence_number(),
        tcp.acknowledgment_number(),
    )
}

/// Sequence, acknowledgement and payload of a packet.
fn sent(packets: &Packets, place: usize) -> (u32, u32, u32) {
    let (_, bytes) = packets.iter().nth(place).unwrap();
    let sliced = SlicedPacket::from_ip(bytes).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
        panic!("no TCP");
    };
    let length = u32::try_from(tcp.payload().len()).unwrap();
    (tcp.sequence_number(), tcp.acknowledgment_number(), length)
}

/// Both ends get a reset.
#[test]
fn blocked_connection_is_reset_with_exact_sequence_numbers() {
    let mut gateway = gateway(BLOCK, Mode::Enforce);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    let handshake_at = packets
        .iter()
        .position(|(_, bytes)| bytes.ends_with(&handshake()))
        .unwrap();
    let verdicts = run(&mut gateway, &packets, 0);
    assert!(
        verdicts[..handshake_at]
            .iter()
            .all(|verdict| *verdict == Verdict::ACCEPT)
    );
    assert!(
        verdicts[handshake_at..]
            .iter()
            .all(|verdict| !verdict.accepts()),
        "{verdicts:?}"
    );
    let resets = injections(&mut gateway);
    let (sequence, acknowledgement, length) = sent(&packets, handshake_at);
    // To the client: the number it acknowledged. To the server: the number of the packet that it
    // did not get.
    assert_eq!(
        numbers(&resets[0]),
        (6_881, 50_000, acknowledgement, sequence + length)
    );
    assert_eq!(
        numbers(&resets[1]),
        (50_000, 6_881, sequence, acknowledgement)
    );
    // Eight packets are answered, two resets each; then the kernel is told to drop the rest by
    // itself.
    assert_eq!(resets.len(), 16);
    assert_eq!(verdicts[handshake_at + 7].offload(), None);
    assert_eq!(verdicts[handshake_at + 8].offload(), Some(Offload::Blocked));
}

/// The refusal ends with its time.
#[test]
fn blocked_peer_is_refused_from_any_port() {
    let mut gateway = gateway(BLOCK, Mode::Enforce);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    run(&mut gateway, &packets, 0);
    injections(&mut gateway);
    let mut again = Packets::new();
    torrent(&mut again, 50_001);
    assert!(
        run(&mut gateway, &again, 30)
            .iter()
            .all(|verdict| !verdict.accepts())
    );
    assert!(
        injections(&mut gateway).is_empty(),
        "a refused connection is not answered"
    );
    let mut late = Packets::new();
    torrent(&mut late, 50_002);
    let verdicts = run(&mut gateway, &late, 90);
    assert!(
        verdicts[0].accepts() && !verdicts[3].accepts(),
        "looked at anew, and blocked again"
    );
    let kinds: Vec<(EventKind, u16)> = events(&mut gateway)
        .iter()
        .map(|event| (event.kind, event.src_port))
        .collect();
    assert_eq!(
        kinds,
        [
            (EventKind::Alert, 50_000),
            (EventKind::Drop, 50_001),
            (EventKind::Alert, 50_002)
        ]
    );
}

#[test]
fn many_refused_attempts_are_one_event() {
    let mut gateway = gateway(BLOCK, Mode::Enforce);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    run(&mut gateway, &packets, 0);
    injections(&mut gateway);
    let told = |gateway: &mut Gateway| -> Vec<(u16, Option<u64>)> {
        let events = events(gateway);
        let drops = events.iter().filter(|event| event.kind == EventKind::Drop);
        drops
            .map(|event| (event.src_port, event.attempts))
            .collect()
    };
    for port in 50_001..=50_040 {
        let mut again = Packets::new();
        torrent(&mut again, port);
        run(&mut gateway, &again, 5);
    }
    assert_eq!(told(&mut gateway), [(50_001, Some(1))]);
    // When no peer is refused any more, the rest is told, also without another attempt.
    gateway.handle_timeout(packets.iter().next().unwrap().0 + Duration::from_secs(70));
    assert_eq!(told(&mut gateway), [(50_040, Some(39))]);
    gateway.report_rest();
    assert!(told(&mut gateway).is_empty());
}

#[test]
fn another_server_port_or_client_is_not_refused() {
    let mut gateway = gateway(BLOCK, Mode::Enforce);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    run(&mut gateway, &packets, 0);
    let mut others = Packets::new();
    for (client, server) in [
        ("10.0.0.5:50001", "192.0.2.9:80"),
        ("10.0.0.6:50001", "192.0.2.9:6881"),
    ] {
        let mut stream = others.tcp(at(client), at(server));
        stream.open();
        stream.client(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert!(
        run(&mut gateway, &others, 1)
            .iter()
            .all(|verdict| verdict.accepts())
    );
}

#[test]
fn observing_passes_all_and_reports_would_be_verdicts() {
    let mut gateway = gateway(BLOCK, Mode::Observe);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    torrent(&mut packets, 50_001);
    let verdicts = run(&mut gateway, &packets, 0);
    assert!(verdicts.iter().all(|verdict| verdict.accepts()));
    assert_eq!(verdicts.last().unwrap().offload(), Some(Offload::Allowed));
    assert!(injections(&mut gateway).is_empty());
    let events = events(&mut gateway);
    assert_eq!(events.len(), 2);
    let event = serde_json::to_value(&events[0]).unwrap();
    assert_eq!(event["event_type"], "alert");
    assert_eq!(event["alert"]["action"], "allowed");
    assert_eq!(event["ringway"]["policy"], "block");
    assert_eq!(event["alert"]["signature"], "no-torrents");
    assert_eq!(event["app_proto"], "bittorrent");
    assert_eq!(event["ringway"]["packet"], 4);
    let flows = flows(&mut gateway);
    assert_eq!(
        (flows[0].action, flows[0].rule.as_str()),
        (Action::Block, "no-torrents")
    );
    assert_eq!(flows[0].decided_after, Some(4));
}

/// An encrypted download: one side says little, the other goes on.
#[test]
fn one_sided_flow_is_decided_after_46_kb() {
    let mut gateway = gateway(BLOCK, Mode::Enforce);
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6881"));
    stream.open();
    stream.client(&[0x9d; 500]);
    for _ in 0..80 {
        stream.server(&[0xe3; 1_448]);
    }
    let verdicts = run(&mut gateway, &packets, 0);
    let undecided = verdicts
        .iter()
        .take_while(|verdict| verdict.offload().is_none());
    // What opens it, what the client says, and 32 segments less the one that decides.
    assert_eq!(undecided.count(), 3 + 1 + 31);
}

#[test]
fn flows_are_shaped_and_allowed_once_for_all() {
    let policy = "[classes.slow]\nrate = \"1 Mbit/s\"\n[classes.bulk]\nrate = \"1 Mbit/s\"\n\
                  [[rule]]\nname = \"s\"\napp = \"bittorrent\"\naction = \"shape\"\nclass = \"slow\"\n";
    let mut gateway = gateway(policy, Mode::Enforce);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    let verdicts = run(&mut gateway, &packets, 0);
    // Classes stand in the order of the file, whatever their names.
    let shaped = Verdict::Accept {
        offload: Some(Offload::Shaped(0)),
    };
    assert!(
        verdicts[3..].iter().all(|verdict| *verdict == shaped),
        "{verdicts:?}"
    );
}

/// No rule on applications can reach such a flow.
#[test]
fn port_rule_decides_at_the_first_packet() {
    let policy = format!("[[rule]]\nname = \"web\"\nport = 6881\naction = \"allow\"\n{BLOCK}");
    let mut gateway = gateway(&policy, Mode::Enforce);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    let allowed = Verdict::Accept {
        offload: Some(Offload::Allowed),
    };
    assert!(
        run(&mut gateway, &packets, 0)
            .iter()
            .all(|verdict| *verdict == allowed)
    );
}

#[test]
fn allowed_flows_wait_for_names_where_asked() {
    let allowed = Verdict::Accept {
        offload: Some(Offload::Allowed),
    };
    let no_web = "[[rule]]\nname = \"no-web\"\nport = 80\naction = \"block\"\n";
    for (names, decided) in [("needed", 0), ("all", 3)] {
        let policy = format!("[gateway]\nnames = \"{names}\"\n{no_web}");
        let mut gateway = gateway(&policy, Mode::Enforce);
        let mut packets = Packets::new();
        torrent(&mut packets, 50_000);
        let verdicts = run(&mut gateway, &packets, 0);
        let waiting = verdicts.iter().take_while(|verdict| **verdict != allowed);
        assert_eq!(waiting.count(), decided, "{names}: {verdicts:?}");
        // What is blocked needs no name.
        let mut packets = Packets::new();
        packets.tcp(at("10.0.0.5:50001"), at("192.0.2.9:80")).open();
        assert!(!run(&mut gateway, &packets, 9)[0].accepts());
    }
}

#[test]
fn one_way_bulk_is_offloaded_after_64_packets() {
    let mut gateway = gateway(BLOCK, Mode::Enforce);
    let mut packets = Packets::new();
    for _ in 0..80 {
        packets.udp(at("10.0.0.5:40000"), at("192.0.2.9:9000"), &[0xa5; 900]);
    }
    let verdicts = run(&mut gateway, &packets, 0);
    assert_eq!(verdicts[62].offload(), None);
    assert_eq!(verdicts[63].offload(), Some(Offload::Allowed));
}

#[test]
fn flow_ending_undecided_reports_its_final_rule() {
    let policy = "[[rule]]\nname = \"unnamed\"\napp = \"unknown\"\naction = \"block\"\n";
    let mut gateway = gateway(policy, Mode::Enforce);
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:9000"));
    stream.open();
    assert!(
        run(&mut gateway, &packets, 0)
            .iter()
            .all(|verdict| verdict.accepts())
    );
    let flow = flows(&mut gateway).remove(0);
    assert_eq!((flow.rule.as_str(), flow.decided_after), ("unnamed", None));
}

/// Earlier flows keep the names of the rules that decided them.
#[test]
fn new_policy_governs_new_flows_only() {
    let mut gateway = gateway(BLOCK, Mode::Enforce);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    run(&mut gateway, &packets, 0);
    let text = "[[rule]]\nname = \"other\"\napp = \"bittorrent\"\naction = \"audit\"\n";
    gateway.set_policy(parsed(text));
    let mut later = Packets::new();
    torrent(&mut later, 50_001);
    run(&mut gateway, &later, 100);
    let told: Vec<(String, Action)> = flows(&mut gateway)
        .into_iter()
        .map(|flow| (flow.rule, flow.action))
        .collect();
    assert_eq!(
        told,
        [
            ("no-torrents".to_owned(), Action::Block),
            ("other".to_owned(), Action::Audit)
        ]
    );
}

#[test]
fn observed_peer_is_not_refused_once_enforcing() {
    let mut gateway = gateway(BLOCK, Mode::Observe);
    let mut packets = Packets::new();
    torrent(&mut packets, 50_000);
    run(&mut gateway, &packets, 0);
    gateway.set_mode(Mode::Enforce);
    let mut later = Packets::new();
    torrent(&mut later, 50_001);
    let verdicts = run(&mut gateway, &later, 1);
    assert!(
        verdicts[0].accepts() && !verdicts[3].accepts(),
        "{verdicts:?}"
    );
}
