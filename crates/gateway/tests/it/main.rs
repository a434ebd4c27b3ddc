//! Behaviour of the gateway's offline path: capture, packet, flow, classify.
#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod applications;
mod audit;
mod captures;
mod compare;
mod contents;
mod crowds;
mod cut;
mod evasion;
mod eve;
mod feeds;
mod floods;
mod flows;
mod forged;
mod fragments;
mod given;
mod groups;
mod inspect;
mod junk;
mod kept;
mod links;
mod made;
mod own;
mod policy;
mod queues;
mod reopened;
mod robustness;
mod signatures;
mod spared;
mod spoilt;
mod torrent_names;
mod torrents;
mod triage;
mod tunnels;
mod unread;
mod verdicts;
mod why;
mod wrong;
mod yara;

use std::net::SocketAddr;
use std::sync::Arc;

use ringway_gateway::flow::TableBounds;
use ringway_gateway::policy::Policy;
use ringway_gateway::verdict::{Gateway, Mode, Settings};
use ringway_gateway::{FlowRecord, LinkType, Packets, built_in_classifier, built_in_pipeline};

/// An address from text.
fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Client and server of most tests.
fn pair() -> (SocketAddr, SocketAddr) {
    (at("10.1.0.2:50000"), at("192.0.2.9:7000"))
}

/// A gateway with this policy and the signatures that are built in.
fn governed(policy: &str, settings: Settings) -> Gateway {
    governed_within(policy, settings, TableBounds::default())
}

fn governed_within(policy: &str, settings: Settings, bounds: TableBounds) -> Gateway {
    Gateway::new(built_in_classifier(), bounds, parsed(policy), settings)
}

/// A policy on applications of these tests.
fn parsed(policy: &str) -> Arc<Policy> {
    let known = ["bittorrent", "dcc", "edonkey", "http", "irc"].map(str::to_owned);
    Arc::new(Policy::parse(policy, &known.into()).unwrap())
}

/// As most tests have it.
fn enforcing() -> Settings {
    Settings {
        mode: Mode::Enforce,
        ..Settings::default()
    }
}

/// All flows of packets without link headers.
fn classify(packets: &Packets) -> Vec<FlowRecord> {
    let mut pipeline = built_in_pipeline();
    for (now, bytes) in packets.iter() {
        pipeline.handle_packet(now, LinkType::RawIp, bytes);
    }
    pipeline.finish();
    std::iter::from_fn(|| pipeline.poll_flow()).collect()
}

/// The only flow of packets without link headers.
fn only(packets: &Packets) -> FlowRecord {
    let mut flows = classify(packets);
    assert_eq!(flows.len(), 1, "{flows:#?}");
    flows.remove(0)
}

/// Bytes from hexadecimal text.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
        .collect()
}
