//! Events as EVE: each kind validates against Suricata's own schema, with one object beside it.
//!
//! The schema is Suricata's and under its licence, so it is not kept here. Where it is not found
//! the keys of each kind are compared with those that the reference names, and that is said loudly.

mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_gateway::accounting::{Asked, EndReason, Ends, FlowAccount};
use ringway_gateway::audit::Digester;
use ringway_gateway::classify::Details;
use ringway_gateway::eve::{EveKind, FlowLog, Sensor, StatsLog};
use ringway_gateway::flow::Count;
use ringway_gateway::policy::{Action, Policy};
use ringway_gateway::quota::{Passed, Subject};
use ringway_gateway::service::GatewayStatus;
use ringway_gateway::verdict::{Event, EventKind, Mode, Scanned, Settings};
use ringway_gateway::{Confidence, LinkType, Packets};
use serde_json::Value;

use super::contents::{VIRUS, download, length};
use super::{at, governed};

/// Suricata's schema, if it is at hand: `$RINGWAY_EVE_SCHEMA`, or a file in `shared/data` beside
/// the repository.
fn suricata() -> Option<Value> {
    let beside = "../../../shared/data/suricata-eve-schema.json";
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join(beside);
    let file = std::env::var_os("RINGWAY_EVE_SCHEMA").map_or(beside, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(&file) else {
        // Written past the test harness, which would swallow what a passing test prints.
        let text = "\n*** NOT TESTED: no schema of Suricata's events. Set RINGWAY_EVE_SCHEMA to its schema.json. ***\n";
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        return None;
    };
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema["properties"]["ringway"] = serde_json::json!({"type": "object"});
    Some(schema)
}

/// Events of these packets under this policy.
fn events(policy: &str, mode: Mode, packets: &Packets) -> Vec<Event> {
    let mut gateway = governed(
        policy,
        Settings {
            mode,
            names: true,
            ..Settings::default()
        },
    );
    let (mut digester, mut events) = (Digester::default(), Vec::new());
    for (token, (now, bytes)) in (1..).zip(packets.iter()) {
        gateway.handle_queued(now, token, LinkType::RawIp, bytes);
        while let Some(job) = gateway.poll_scan() {
            let found = job.bytes.windows(VIRUS.len()).any(|part| part == VIRUS);
            let scanned = if found {
                Scanned::Found("virus".to_owned())
            } else {
                Scanned::Clean
            };
            gateway.handle_scanned(now, &job, &scanned);
        }
        events.extend(std::iter::from_fn(|| gateway.poll_event()));
        while let Some(part) = gateway.poll_file_part() {
            events.extend(digester.take(part).0);
        }
    }
    gateway.report_rest();
    events.extend(std::iter::from_fn(|| gateway.poll_event()));
    events
}

fn torrents() -> Packets {
    let handshake = [b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat();
    let mut packets = Packets::starting_at(Duration::from_secs(1_795_982_400));
    for port in [50_000, 50_001] {
        let mut stream = packets.tcp(([10, 0, 0, 5], port).into(), at("192.0.2.9:6881"));
        stream.open();
        stream.client(&handshake);
        stream.client(b"more");
    }
    // One side alone: anybody may have sent it.
    let query = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe";
    packets.udp(at("10.0.0.6:6881"), at("192.0.2.9:6881"), query);
    packets.udp(at("10.0.0.6:6881"), at("192.0.2.9:6881"), query);
    packets
}

fn chat() -> Packets {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6667"));
    stream.open();
    stream.client(b"NICK alice\r\nUSER alice 0 * :Alice\r\n");
    stream.server(b":irc.example 001 alice :Welcome\r\n");
    stream.client(b"PRIVMSG #birds :good morning\r\n");
    packets
}

fn flow() -> FlowLog {
    let account = account();
    let lives = FlowAccount {
        ended: None,
        ..account.clone()
    };
    assert_eq!(FlowLog::of(lives), None);
    let mut flow = FlowLog::of(account).unwrap();
    flow.sensor = sensor();
    flow
}

/// A host has used up what a rule gives it in a day.
fn passed() -> Event {
    let text = "[classes.slow]\nrate = \"1 Mbit/s\"\n[[rule]]\nname = \"office\"\nport = 443\n\
        action = \"allow\"\nquota = \"95 MiB/day\"\nover = \"slow\"\n";
    let policy = Policy::parse(text, &BTreeSet::new()).unwrap();
    let passed = Passed {
        rule: "office".to_owned(),
        subject: Subject::Host([10, 0, 0, 5].into()),
        quota: policy.quota_of("office").unwrap(),
        used: 100_091_390,
        resets: Duration::from_secs(1_796_083_200),
    };
    let at = Duration::from_secs(1_795_982_460);
    let mut event = Event::of_quota(at, &passed, &account(), &policy, Mode::Enforce);
    event.sensor = sensor();
    event
}

fn account() -> FlowAccount {
    let count = |packets, bytes| Count { packets, bytes };
    FlowAccount {
        flow_id: (1 << 53) - 1,
        ends: Ends {
            protocol: 6,
            client: at("10.0.0.5:50000"),
            server: at("192.0.2.9:443"),
        },
        asked: Asked::Yes,
        app: "tls".to_owned(),
        confidence: Some(Confidence::Certain),
        named: ringway_gateway::accounting::Named::Itself,
        answered: true,
        details: Details::default(),
        torrents: Vec::new(),
        torrent_names: Vec::new(),
        action: Some(Action::Audit),
        rule: Some("office".to_owned()),
        class: Some("bulk".to_owned()),
        over_quota: false,
        host: [10, 0, 0, 5].into(),
        outside: None,
        to_server: count(10, 900),
        to_client: count(1_736, 100_090_490),
        before: [count(0, 0); 2],
        exact: true,
        began: Duration::from_secs(1_795_982_400),
        ended: Some(Duration::from_millis(1_795_982_461_500)),
        reason: Some(EndReason::Closed),
        kernel: None,
    }
}

fn sensor() -> Sensor {
    Sensor {
        host: Some("gate-1".into()),
        in_iface: Some("lan0".into()),
    }
}

fn names_of_protocols() -> [(&'static str, Details); 3] {
    let name = || Some("www.example.org".to_owned());
    let sni = Details {
        sni: name(),
        ..Details::default()
    };
    let query = Details {
        query: name(),
        ..Details::default()
    };
    [("tls", sni.clone()), ("quic", sni), ("dns", query)]
}

/// At least one event of each kind, and of each thing that a kind is used for.
fn written() -> Vec<(&'static str, Value)> {
    let mut written = Vec::new();
    let mut of = |what, policy, mode, packets: &Packets| {
        for mut event in events(policy, mode, packets) {
            event.sensor = sensor();
            written.push((what, serde_json::to_value(&event).unwrap()));
        }
    };
    let block = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
    of("blocked", block, Mode::Enforce, &torrents());
    of("observed", block, Mode::Observe, &torrents());
    let body = [&[7; 3_000], VIRUS].concat();
    let file = download("tools/Setup.EXE", &length(&body), &body);
    let names = "[[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
    of("file refused", names, Mode::Enforce, &file);
    let scan = "[[rule]]\nname = \"scan\"\napp = \"http\"\naction = \"scan\"\naudit = true\n";
    of("file found bad", scan, Mode::Enforce, &file);
    let audit = "[[rule]]\nname = \"log\"\napp = \"http\"\naction = \"audit\"\n";
    of("file passed", audit, Mode::Enforce, &file);
    let talk = "[[rule]]\nname = \"talk\"\napp = \"irc\"\naction = \"audit\"\naudit_text = true\n";
    of("message", talk, Mode::Enforce, &chat());
    let mut named = events(audit, Mode::Enforce, &file).swap_remove(0);
    assert_eq!(named.kind, EventKind::Names);
    for (app, names) in names_of_protocols() {
        named.names = names;
        named.app = app.to_owned();
        written.push((app, serde_json::to_value(&named).unwrap()));
    }
    written.push(("quota", serde_json::to_value(passed()).unwrap()));
    written.push(("flow", serde_json::to_value(flow()).unwrap()));
    let status = GatewayStatus {
        packets: 7,
        ..GatewayStatus::default()
    };
    let stats = StatsLog {
        at: Duration::from_secs(1_795_982_400),
        sensor: &sensor(),
        uptime: 30,
        packets: 7,
        dropped: 2,
        flows: 1,
        evicted: 0,
        ours: &status,
    };
    written.push(("stats", serde_json::to_value(stats).unwrap()));
    written
}

#[test]
fn each_kind_validates_against_suricatas_schema() {
    let written = written();
    let kinds: BTreeSet<&str> = written
        .iter()
        .map(|(_, event)| event["event_type"].as_str().unwrap())
        .collect();
    let all = EveKind::ALL.map(EveKind::name);
    assert!(all.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    let Some(schema) = suricata() else {
        return;
    };
    for (what, event) in &written {
        let faults = schema::faults(&schema, event);
        assert!(faults.is_empty(), "{what}: {faults:#?}\n{event:#}");
    }
    // That the check can fail.
    let mut wrong = written[0].1.clone();
    wrong["alert"]["severity"] = "high".into();
    wrong["alert"]["policy"] = "block".into();
    wrong["timestamp"] = "2026-11-29T20:00:00.000000Z".into();
    assert_eq!(schema::faults(&schema, &wrong).len(), 3);
}

/// The keys of each kind's own object, as the reference has them.
#[test]
fn kinds_have_the_keys_that_are_documented() {
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, event) in written() {
        for (name, part) in event.as_object().unwrap() {
            let part = part.get(0).unwrap_or(part);
            let of = keys.entry(name.clone()).or_default();
            of.extend(
                part.as_object()
                    .into_iter()
                    .flat_map(|part| part.keys().cloned()),
            );
        }
    }
    let page = include_str!("../../../../../docs/reference/events.md");
    for (name, keys) in keys {
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
        for key in keys {
            let whole = format!("`{name}.{key}`");
            let documented = page.contains(&format!("`{key}`")) || page.contains(&whole);
            // The figures are those of `gate status`, and are described there.
            assert!(documented || name == "ringway", "{whole} is not documented");
        }
    }
}

#[test]
fn quota_that_is_used_up_is_an_alert() {
    let event = serde_json::to_value(passed()).unwrap();
    assert_eq!(
        (&event["event_type"], &event["src_ip"]),
        (&"alert".into(), &"10.0.0.5".into())
    );
    assert_eq!(event["alert"]["action"], "allowed");
    let quota = &event["ringway"]["quota"];
    assert_eq!(
        (&quota["per"], &quota["of"]),
        (&"host".into(), &"10.0.0.5".into())
    );
    assert_eq!(
        (&quota["over"], &quota["period"]),
        (&"slow".into(), &"day".into())
    );
    assert_eq!(quota["quota"], 95 << 20);
    assert_eq!(quota["resets"], "2026-12-01T00:00:00Z");
}

#[test]
fn alerts_say_what_happened_to_flows_and_contents() {
    let written = written();
    let one = |what: &str, kind: &str| {
        let mut events = written
            .iter()
            .filter(|(name, event)| *name == what && event["event_type"] == kind);
        events
            .next()
            .map(|(_, event)| event)
            .unwrap_or_else(|| panic!("{what}: no {kind}"))
    };
    let ours = |event: &Value, keys: [&str; 3]| keys.map(|key| event["ringway"][key].clone());
    let blocked = one("blocked", "alert");
    assert_eq!(blocked["alert"]["action"], "blocked");
    assert_eq!(blocked["alert"]["severity"], 1);
    assert_eq!(blocked["app_proto"], "bittorrent");
    assert_eq!(blocked["host"], "gate-1");
    assert!(blocked["community_id"].as_str().unwrap().starts_with("1:"));
    assert_eq!(one("observed", "alert")["alert"]["action"], "allowed");
    assert_eq!(one("observed", "alert")["ringway"]["policy"], "block");
    let refused = one("file refused", "alert");
    assert_eq!(
        ours(refused, ["content", "action", "rule"]),
        ["stopped", "blocked", "programs"]
    );
    assert_eq!(refused["files"][0]["state"], "TRUNCATED");
    let found = written
        .iter()
        .find(|(_, event)| event["ringway"]["found"].is_string());
    let found = &found.unwrap().1;
    assert_eq!(found["event_type"], "alert");
    assert_eq!(
        ours(found, ["content", "action", "found"]),
        ["partly", "blocked", "virus"]
    );
    assert!(found["ringway"]["delivered"].as_u64().unwrap() > 0);
    let passed = one("file passed", "fileinfo");
    assert_eq!(
        ours(passed, ["content", "action", "policy"]),
        ["delivered", "allowed", "audit"]
    );
    assert_eq!(passed["fileinfo"]["state"], "CLOSED");
    assert_eq!(passed["fileinfo"]["sha256"].as_str().unwrap().len(), 64);
    assert!(passed["alert"].is_null());
    assert_eq!(passed["http"]["hostname"], "h");
    // Its sender is its source, as Suricata has it; of what a rule refuses it is the client.
    assert_eq!(passed["ringway"]["sender"], "server");
    assert_eq!(
        [&passed["src_ip"], &passed["dest_ip"]],
        [&refused["dest_ip"], &refused["src_ip"]]
    );
    assert_eq!(passed["src_port"], refused["dest_port"]);
    let message = written
        .iter()
        .find(|(_, event)| event["ringway"]["message"].is_object());
    let message = &message.unwrap().1;
    assert_eq!(message["event_type"], "alert");
    assert_eq!(message["ringway"]["message"]["text"], "good morning");
    let refusals = one("blocked", "drop");
    assert!(refusals["ringway"]["attempts"].as_u64().unwrap() >= 1);
}
