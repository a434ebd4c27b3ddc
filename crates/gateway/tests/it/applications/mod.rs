//! What each application's messages are called, and what resembles them and is none: helpers, and a
//! file for each family.

mod behaviour;
mod bittorrent;
mod calls;
mod databases;
mod games;
mod mail;
mod media;
mod messengers;
mod network;
mod private;
mod remote;
mod services;
mod sharing;
mod things;
mod tunnels;
mod web;

use ringway_gateway::{Confidence, FlowRecord, Packets};

use crate::{at, only, pair};

/// What client and server say in turn over TCP.
pub(crate) fn tcp(messages: &[&[u8]]) -> FlowRecord {
    let (client, server) = pair();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(client, server);
    stream.open();
    for (turn, message) in messages.iter().enumerate() {
        if turn % 2 == 0 {
            stream.client(message)
        } else {
            stream.server(message)
        }
    }
    only(&packets)
}

/// What client and server say in turn over UDP, the server on this port.
pub(crate) fn udp(port: u16, messages: &[&[u8]]) -> FlowRecord {
    let (client, server) = (at("10.1.0.2:40000"), at(&format!("192.0.2.9:{port}")));
    let mut packets = Packets::new();
    for (turn, message) in messages.iter().enumerate() {
        let (from, to) = if turn % 2 == 0 {
            (client, server)
        } else {
            (server, client)
        };
        packets.udp(from, to, message);
    }
    only(&packets)
}

pub(crate) fn is(flow: &FlowRecord, app: &str, confidence: Confidence) {
    assert_eq!(
        (flow.app.as_str(), flow.confidence),
        (app, confidence),
        "{flow:?}"
    );
}

pub(crate) fn unknown(flow: &FlowRecord) {
    assert_eq!(flow.app, "unknown", "{flow:?}");
}
