//! Recorded captures with labels, where they are at hand: `$RINGWAY_CAPTURES`, or `shared/captures`
//! beside the project.
//!
//! The labels come from another classifier. They bind here for peer-to-peer applications only; how
//! the others compare is printed (`cargo test -- given --nocapture`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ringway_gateway::classify::PEER_TO_PEER;
use ringway_gateway::{FlowRecord, classify_file};

/// Captures in which peer-to-peer applications do speak.
const WITH_PEERS: [&str; 6] = [
    "bittorrent.pcap",
    "bittorrent_utp.pcap",
    "bt-http.pcapng",
    "bt_search.pcap",
    "edonkey.pcap",
    "gnutella_first_half.pcap",
];

/// Flows whose label says something else, and what they are here. Named in
/// docs/reference/classification.md with who is right; a new difference belongs there first.
const DIFFERING: [&str; 28] = [
    "6in4tunnel.pcap IMAPS [2604:a880:1:20::224:b001]:993 [2001:470:1f17:13f:6d69:c72:7313:616f]:35610: tls",
    "6in4tunnel.pcap IMAPS [2604:a880:1:20::224:b001]:993 [2001:470:1f17:13f:6d69:c72:7313:616f]:56381: tls",
    "Oscar.pcap TLS 10.30.29.3:63357 178.237.24.249:443: unknown",
    "cloudflare-warp.pcap Jabber 10.8.0.1:42344 159.138.85.48:5223: unknown",
    "cloudflare-warp.pcap TLS 10.158.134.93:40454 216.58.196.68:443: unknown",
    "cloudflare-warp.pcap TLS 10.158.134.93:55512 142.251.42.106:443: unknown",
    "dtls_certificate_fragments.pcap DTLS.Discord 192.168.1.26:43594 104.153.87.149:50001: dtls",
    "genshin-impact.pcap GenshinImpact 192.168.2.100:39686 49.51.181.168:80: unknown",
    "genshin-impact.pcap GenshinImpact 192.168.2.100:39822 49.51.190.178:80: unknown",
    "genshin-impact.pcap GenshinImpact 192.168.2.100:45246 49.51.181.168:10012: unknown",
    "gtp_false_positive.pcapng GTP 119.185.190.173:2123 66.86.98.114:50140: unknown",
    "gtp_false_positive.pcapng GTP 50.7.111.134:17000 103.225.103.159:2123: unknown",
    "jabber.pcap Jabber 192.168.2.100:34070 160.44.201.102:5223: unknown",
    "jabber.pcap Jabber 192.168.2.100:34218 160.44.201.102:5223: unknown",
    "jabber.pcap Jabber 192.168.2.100:37614 160.44.201.102:5223: unknown",
    "jabber.pcap Jabber 192.168.2.100:41420 160.44.201.102:5223: unknown",
    "jabber.pcap Jabber 192.168.2.100:58388 160.44.201.102:5223: unknown",
    "ookla.pcap Ookla 192.168.1.192:51156 89.96.108.170:8080: unknown",
    "ookla.pcap Ookla 192.168.1.7:51215 46.44.253.187:8080: unknown",
    "ookla.pcap TLS.Ookla 192.168.1.128:35830 89.96.108.170:8080: tls",
    "portable_executable.pcap DNS 64.227.107.71:53 172.16.99.10:49652: unknown",
    "tcp_scan.pcapng HTTP 192.168.1.178:56272 192.168.1.2:80: unknown",
    "tcp_scan.pcapng RDP 192.168.1.178:43067 192.168.1.2:3389: unknown",
    "tcp_scan.pcapng SMBv23 192.168.1.178:56274 192.168.1.2:445: unknown",
    "tcp_scan.pcapng TLS 192.168.1.178:56273 192.168.1.2:443: unknown",
    "tls_client_certificate_with_missing_server_one.pcapng TLS.AnyDesk 195.181.174.176:443 192.168.1.128:48260: tls",
    "tls_unidirectional.pcap TLS 192.168.2.198:50548 192.168.2.1:443: unknown",
    "windscribe.pcapng TLS.Windscribe 192.168.12.156:42192 107.161.86.132:443: tls",
];

/// Labels of which the first part says less.
const WHOLE: [(&str, &str); 7] = [
    ("TLS.CloudflareWarp", "cloudflare-warp"),
    ("TLS.DingTalk", "dingtalk"),
    ("TLS.FacebookMessenger", "facebook-messenger"),
    ("TLS.Ookla", "speedtest"),
    ("TLS.AnyDesk", "anydesk"),
    ("TLS.Windscribe", "windscribe"),
    ("NetBIOS.SMBv23", "smb"),
];

#[derive(Debug)]
pub(crate) struct Label {
    file: String,
    l4: String,
    ends: [SocketAddr; 2],
    pub(crate) label: String,
    /// What the flow is called here instead, and why; only own captures say so.
    pub(crate) called: Option<(String, String)>,
}

pub(crate) fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let folder = std::env::var_os("RINGWAY_CAPTURES").map_or(beside, PathBuf::from);
    let found = folder.join("labels.tsv").is_file();
    if !found {
        // Written past the test harness, which would swallow what a passing test prints.
        let text = "\n*** NOT TESTED: no recorded captures. Set RINGWAY_CAPTURES to a folder with labels.tsv and given/. ***\n";
        std::io::stderr().write_all(text.as_bytes()).unwrap();
    }
    found.then_some(folder)
}

fn flows(folder: &Path) -> Vec<(String, FlowRecord)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder.join("given"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let mut flows = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        classify_file(&path, &mut |flow| flows.push((name.clone(), flow))).unwrap();
    }
    flows
}

pub(crate) fn labels(folder: &Path) -> Vec<Label> {
    let text = std::fs::read_to_string(folder.join("labels.tsv")).unwrap();
    text.lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let end = |at: usize| {
                SocketAddr::new(
                    fields[at].parse::<IpAddr>().unwrap(),
                    fields[at + 1].parse().unwrap(),
                )
            };
            Label {
                file: fields[0].into(),
                l4: fields[1].into(),
                ends: [end(2), end(4)],
                label: fields[6].into(),
                called: fields
                    .get(7)
                    .map(|app| ((*app).to_owned(), fields[8].to_owned())),
            }
        })
        .collect()
}

pub(crate) fn is_of(label: &Label, file: &str, flow: &FlowRecord) -> bool {
    let client = SocketAddr::new(flow.client_ip, flow.client_port);
    let server = SocketAddr::new(flow.server_ip, flow.server_port);
    label.file == file
        && label.l4 == flow.l4.name()
        && (label.ends == [client, server] || label.ends == [server, client])
}

/// What a label should be called here; `None` where we have no name for it.
fn expected(label: &str) -> Option<&'static str> {
    let first = label.split('.').next().unwrap_or_default();
    for (word, app) in [
        ("BitTorrent", "bittorrent"),
        ("Discord", "discord"),
        ("TeamsCall", "teams"),
    ] {
        if label.contains(word) {
            return Some(app);
        }
    }
    if let Some((_, app)) = WHOLE.iter().find(|(whole, _)| *whole == label) {
        return Some(app);
    }
    Some(match first {
        "WhatsApp" => "whatsapp",
        "Telegram" => "telegram",
        "Jabber" => "xmpp",
        "IRC" => "irc",
        "Syncthing" => "syncthing",
        "NoMachine" => "nomachine",
        "Tailscale" => "tailscale",
        "eDonkey" => "edonkey",
        "Gnutella" => "gnutella",
        "HTTP" => "http",
        "TLS" => "tls",
        "DNS" => "dns",
        "MDNS" => "mdns",
        "QUIC" => "quic",
        "AFP" => "afp",
        "AMQP" => "amqp",
        "DCERPC" => "dcerpc",
        "DHCP" => "dhcp",
        "DNScrypt" => "dnscrypt",
        "DTLS" => "dtls",
        "Dropbox" => "dropbox",
        "FINS" => "fins",
        "GenshinImpact" => "genshin",
        "HAProxy" => "haproxy",
        "HSRP" => "hsrp",
        "IEC62056" => "dlms",
        "IMAPS" => "imap",
        "Kafka" => "kafka",
        "MGCP" => "mgcp",
        "NFS" => "nfs",
        "Nats" => "nats",
        "NetBIOS" => "netbios",
        "NetFlow" => "netflow",
        "OICQ" => "qq",
        "Ookla" => "speedtest",
        "OpenFlow" => "openflow",
        "PFCP" => "pfcp",
        "POP3" => "pop3",
        "POPS" => "pop3",
        "RDP" => "rdp",
        "RTMP" => "rtmp",
        "SMBv23" => "smb",
        "SMTP" => "smtp",
        "SSDP" => "ssdp",
        "STUN" => "stun",
        "Service_Location_Protocol" => "slp",
        "Spotify" => "spotify",
        "TuyaLP" => "tuya",
        "Usenet" => "nntp",
        "GTP" => "gtp",
        "Teredo" => "teredo",
        _ => return None,
    })
}

#[test]
fn labelled_peer_to_peer_flows_are_named_so() {
    let Some(folder) = folder() else { return };
    let flows = flows(&folder);
    let mut checked = 0;
    for label in labels(&folder) {
        let ours: Vec<&FlowRecord> = flows
            .iter()
            .filter(|(file, flow)| is_of(&label, file, flow))
            .map(|(_, flow)| flow)
            .collect();
        let name = |label: &Label| format!("{} {:?} {}", label.file, label.ends, label.label);
        // HSRP and DHCP repeat within one label; a missing flow would be an error of ours all the
        // same.
        assert!(!ours.is_empty(), "no flow for {}", name(&label));
        let Some(app) = expected(&label.label).filter(|app| PEER_TO_PEER.contains(app)) else {
            continue;
        };
        for flow in ours {
            assert_eq!(flow.app, app, "{}: {flow:?}", name(&label));
            checked += 1;
        }
    }
    assert!(
        checked >= 29,
        "only {checked} peer-to-peer flows were compared"
    );
}

#[test]
fn gnutella_is_found_where_it_is_spoken() {
    let Some(folder) = folder() else { return };
    let flows = flows(&folder);
    let spoken =
        |flow: &FlowRecord| flow.client_port == 28_681 || flow.evidence.starts_with("gnutella");
    let ours: Vec<&FlowRecord> = flows
        .iter()
        .filter(|(file, flow)| file == "gnutella_first_half.pcap" && spoken(flow))
        .map(|(_, flow)| flow)
        .collect();
    assert!(ours.len() >= 150, "{}", ours.len());
    for flow in ours {
        assert_eq!(flow.app, "gnutella", "{flow:?}");
    }
}

#[test]
fn other_captures_have_no_peer_to_peer_flows() {
    let Some(folder) = folder() else { return };
    let mut others = 0;
    for (file, flow) in flows(&folder) {
        if !WITH_PEERS.contains(&file.as_str()) {
            others += 1;
            assert!(
                !PEER_TO_PEER.contains(&flow.app.as_str()),
                "{file}: {flow:?}"
            );
        }
    }
    assert!(others > 300, "{others}");
}

#[test]
fn other_labels_are_compared_and_printed() {
    let Some(folder) = folder() else { return };
    let flows = flows(&folder);
    let mut agreed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut differing = BTreeSet::new();
    for label in labels(&folder) {
        let Some(app) = expected(&label.label) else {
            continue;
        };
        for (_, flow) in flows
            .iter()
            .filter(|(file, flow)| is_of(&label, file, flow))
        {
            if flow.app == app {
                *agreed.entry(app).or_default() += 1;
            } else {
                let [one, other] = label.ends;
                let name = format!("{} {} {one} {other}: {}", label.file, label.label, flow.app);
                println!("{name} ({})", flow.evidence);
                differing.insert(name);
            }
        }
    }
    println!("same name: {agreed:?}");
    let expected: BTreeSet<String> = DIFFERING.map(str::to_owned).into();
    assert_eq!(differing, expected);
}
