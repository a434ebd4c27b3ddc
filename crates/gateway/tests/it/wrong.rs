//! Recorded captures of which earlier versions said something wrong, where they are at hand (see
//! `given`): what has to be said of each, and what must not.

use std::path::Path;

use ringway_gateway::classify::PEER_TO_PEER;
use ringway_gateway::{FlowRecord, classify_file};

use super::given;

/// Flows of a capture, by a port of either end, and what they are; `!`: what they are not.
const SAID: [(&str, u16, &str); 22] = [
    ("ack-padding.pcap", 443, "tls"),
    ("bsync.pcap", 15_365, "resilio"),
    ("bt-midway-utpex.pcap", 6_881, "bittorrent"),
    ("eth-9-nodes-several-ports.pcap", 0, "!p2p"),
    ("ethereum.pcap.pcapng", 30_303, "!p2p"),
    ("fasttrack-session.pcap", 2_133, "fasttrack"),
    ("gnutella-space-1.pcap", 6_346, "gnutella"),
    ("gnutella-space-3.pcap", 6_346, "gnutella"),
    ("hpvirtgrp.pcap.pcapng", 5_223, "!p2p"),
    ("msn-png-qng.pcap", 1_863, "msn"),
    ("nflog.pcap", 0, "!p2p"),
    ("post-32k-segment.pcap", 80, "http"),
    ("skype.289e1b.pcap", 13_021, "skype"),
    ("telegram_videocall.pcapng", 1_400, "telegram"),
    ("telegram_videocall.pcapng", 35_393, "stun"),
    ("tor-t3i3ru.pcap", 443, "tor"),
    ("vxlan.pcap", 0, "!p2p"),
    ("wa_voice.pcap", 3_478, "whatsapp"),
    ("wa_voice.pcap", 56_328, "whatsapp"),
    ("wa1-9-clients-of-one-server.pcap", 5_222, "whatsapp"),
    ("waze.pcap.pcapng", 5_222, "!p2p"),
    ("zabbix.pcap.pcapng", 10_051, "!p2p"),
];

fn flows(path: &Path) -> Vec<FlowRecord> {
    let mut flows = Vec::new();
    classify_file(path, &mut |flow| flows.push(flow)).unwrap();
    flows
}

#[test]
fn what_was_said_wrongly_is_said_rightly() {
    let Some(folder) = given::folder() else {
        return;
    };
    let mut wrong = Vec::new();
    for (file, port, said) in SAID {
        let flows = flows(&folder.join("wrong").join(file));
        let of_port =
            |flow: &&FlowRecord| port == 0 || flow.client_port == port || flow.server_port == port;
        let of_port: Vec<&FlowRecord> = flows.iter().filter(of_port).collect();
        assert!(!of_port.is_empty(), "{file} has no flow at port {port}");
        for flow in of_port {
            let right = match said {
                "!p2p" => !PEER_TO_PEER.contains(&flow.app.as_str()),
                said => flow.app == said,
            };
            if !right {
                wrong.push(format!("{file}: {flow:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is inside of the tunnel, not the tunnel.
#[test]
fn tunnels_are_entered() {
    let Some(folder) = given::folder() else {
        return;
    };
    let flows = flows(&folder.join("wrong/vxlan.pcap"));
    assert!(
        flows.iter().all(|flow| flow.server_port != 4_789),
        "{flows:?}"
    );
}
