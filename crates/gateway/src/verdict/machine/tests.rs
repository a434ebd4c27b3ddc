//! Every arm of the diagram of a flow's states, each by packets that take it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::FlowState;
use crate::flow::TableBounds;
use crate::policy::{Action, Policy};
use crate::samples::TcpStream;
use crate::verdict::{Gateway, Mode, Settings, Verdict};
use crate::{LinkType, Packets, built_in_classifier};

const NO_TORRENTS: &str = "[[rule]]\nname = \"no\"\napp = \"bittorrent\"\naction = \"block\"\n";
const NO_PROGRAMS: &str =
    "[[rule]]\nname = \"no\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
/// Clients' ports.
const ONE: u16 = 50_001;
const TWO: u16 = 50_002;
const THREE: u16 = 50_003;
const ASK: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";

fn handshake() -> Vec<u8> {
    let head = b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0";
    [head.as_slice(), &[7; 20], &[9; 20]].concat()
}

fn gateway(policy: &str) -> Gateway {
    let known: BTreeSet<String> = ["http", "bittorrent"].map(str::to_owned).into();
    Gateway::new(
        built_in_classifier(),
        TableBounds::default(),
        Arc::new(Policy::parse(policy, &known).unwrap()),
        Settings {
            mode: Mode::Enforce,
            ..Settings::default()
        },
    )
}

fn stream(packets: &mut Packets, port: u16) -> TcpStream<'_> {
    packets.tcp(([10, 0, 0, 5], port).into(), ([192, 0, 2, 9], 6_881).into())
}

/// A connection from this port, with what `say` makes it say.
fn said(port: u16, say: impl FnOnce(&mut TcpStream<'_>)) -> Packets {
    let mut packets = Packets::new();
    let mut stream = stream(&mut packets, port);
    stream.open();
    say(&mut stream);
    packets
}

/// The states of the flow from this port that packets lead to, each once.
fn states(gateway: &mut Gateway, port: u16, packets: &Packets) -> Vec<&'static str> {
    let mut states = Vec::new();
    for (now, bytes) in packets.iter() {
        let _ = gateway.handle_packet(now, LinkType::RawIp, bytes);
        states.push(state(gateway, port));
    }
    states.dedup();
    states
}

fn state(gateway: &Gateway, port: u16) -> &'static str {
    let mut flows = gateway.engine.tracker.flows();
    let Some(flow) = flows.find(|flow| flow.client.port() == port) else {
        return "none";
    };
    match &flow.attachment.own.flow {
        FlowState::New => "new",
        FlowState::Classifying { kept: None } => "classifying",
        FlowState::Classifying { kept: Some(_) } => "classifying, kept",
        FlowState::Inspecting { .. } => "inspecting",
        FlowState::Decided(decided) => match decided.plan.ruling.action {
            Action::Block => "blocked",
            _ => "allowed",
        },
        FlowState::Refused => "refused",
    }
}

fn missing(gateway: &mut Gateway) -> Verdict {
    let engine = &mut gateway.engine;
    engine.env.missing(&mut engine.effects)
}

#[test]
fn ends_alone_decide_with_the_first_packet() {
    let policy = "[[rule]]\nname = \"there\"\nport = 6881\naction = \"block\"\n";
    let packets = said(ONE, |stream| stream.client(ASK));
    assert_eq!(states(&mut gateway(policy), ONE, &packets), ["blocked"]);
    assert_eq!(states(&mut gateway(""), ONE, &packets), ["allowed"]);
}

#[test]
fn a_named_flow_is_blocked_and_remembered() {
    let mut gateway = gateway(NO_TORRENTS);
    let torrent = |port| said(port, |stream| stream.client(&handshake()));
    assert_eq!(
        states(&mut gateway, ONE, &torrent(ONE)),
        ["classifying", "blocked"]
    );
    assert_eq!(states(&mut gateway, TWO, &torrent(TWO)), ["refused"]);
    let page = said(THREE, |stream| stream.client(ASK));
    let mut other = self::gateway(NO_TORRENTS);
    assert_eq!(states(&mut other, THREE, &page)[0], "classifying");
}

#[test]
fn a_read_flow_is_blocked_for_its_content() {
    let programs = said(ONE, |stream| {
        stream.client(ASK);
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
        stream.client(b"GET /b.exe HTTP/1.1\r\nHost: h\r\n\r\n");
    });
    let expected = ["classifying, kept", "inspecting", "blocked"];
    assert_eq!(states(&mut gateway(NO_PROGRAMS), ONE, &programs), expected);
    // What cannot be read is not read: another protocol, and what is not followed.
    let torrent = said(TWO, |stream| stream.client(&handshake()));
    let expected = ["classifying, kept", "allowed"];
    assert_eq!(states(&mut gateway(NO_PROGRAMS), TWO, &torrent), expected);
}

#[test]
fn unreadable_flows_follow_the_rules_failure() {
    for (failure, last) in [("open", "allowed"), ("closed", "blocked")] {
        let policy = format!("{NO_PROGRAMS}failure = \"{failure}\"\n");
        let mut gateway = gateway(&policy);
        let begun = said(ONE, |stream| {
            stream.client(ASK);
            stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nabc");
        });
        let expected = ["classifying, kept", "inspecting"];
        assert_eq!(states(&mut gateway, ONE, &begun), expected);
        // Urgent data: some receivers leave them out.
        let (now, bytes) = begun.iter().last().unwrap();
        let mut urgent = bytes.to_vec();
        urgent[20 + 13] |= 0x20;
        urgent[20 + 4..20 + 8].copy_from_slice(&{
            let number = u32::from_be_bytes(bytes[24..28].try_into().unwrap());
            let length = u32::try_from(bytes.len() - 40).unwrap();
            (number + length).to_be_bytes()
        });
        let _ = gateway.handle_packet(now, LinkType::RawIp, &urgent);
        assert_eq!(state(&gateway, ONE), last, "{failure}");
        // What an earlier run read, and this one has not from its beginning.
        let mut gateway = self::gateway(&policy);
        let (now, bytes) = begun.iter().last().unwrap();
        gateway.set_watched(true);
        let _ = gateway.handle_packet(now, LinkType::RawIp, bytes);
        let expected = if failure == "open" {
            "classifying"
        } else {
            "blocked"
        };
        assert_eq!(state(&gateway, ONE), expected, "{failure}");
    }
}

#[test]
fn what_is_named_after_all_is_decided_again() {
    let packets = said(ONE, |stream| {
        for number in 0..10 {
            stream.client(&[0x90 + number; 600]);
            stream.server(&[0xa0 + number; 600]);
        }
        stream.client(&handshake());
    });
    let expected = ["classifying", "allowed", "blocked"];
    assert_eq!(states(&mut gateway(NO_TORRENTS), ONE, &packets), expected);
}

#[test]
fn an_unanswered_flow_loses_this_packet_only() {
    let mut packets = Packets::new();
    let (client, server) = (([10, 0, 0, 5], ONE).into(), ([192, 0, 2, 9], 6_881).into());
    packets.udp(
        client,
        server,
        b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe",
    );
    assert_eq!(states(&mut gateway(NO_TORRENTS), ONE, &packets), ["new"]);
}

/// It cannot be; if it is, a policy that fails closed lets nothing go on by it.
#[test]
fn a_missing_flow_obeys_the_policys_failure() {
    let closed = format!("[gateway]\nfailure = \"closed\"\n{NO_TORRENTS}");
    for (policy, accepts) in [(NO_TORRENTS, true), (closed.as_str(), false)] {
        let mut gateway = gateway(policy);
        assert_eq!(missing(&mut gateway).accepts(), accepts, "{policy}");
        assert_eq!(gateway.flows_missing(), 1);
        gateway.set_mode(Mode::Observe);
        assert!(missing(&mut gateway).accepts());
    }
}
