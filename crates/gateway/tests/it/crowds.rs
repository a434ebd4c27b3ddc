//! Thousands of connections that keep what they have said to themselves: those that come after them
//! are known all the same.

use std::time::Duration;

use ringway_gateway::limits::MAX_UNDECIDED_PACKETS;
use ringway_gateway::policy::Action;
use ringway_gateway::verdict::{EventKind, Gateway};
use ringway_gateway::{LinkType, Packets};

use super::{at, enforcing, governed};

/// More connections than the bytes that are kept for all of them have room for.
const CROWD: u16 = 9_000;
const SCAN: &str =
    "[[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\nfailure = \"closed\"\n";
const REQUEST: &[u8] = b"GET /file.bin HTTP/1.1\r\nHost: server\r\n\r\n";

/// Takes the packets of one connection after the other; what is written down is thrown away.
fn crowd(gateway: &mut Gateway, answer: &[u8], said: &[u8]) {
    for port in 1_000..1_000 + CROWD {
        let mut packets = Packets::new();
        let client = ([10, 0, 0, 1], port).into();
        let mut stream = packets.tcp(client, at("192.0.2.1:80"));
        stream.open();
        stream.client(said);
        stream.server(answer);
        for (now, bytes) in packets.iter() {
            let _ = gateway.handle_packet(now, LinkType::RawIp, bytes);
        }
        while gateway.poll_event().is_some() || gateway.poll_injection().is_some() {}
    }
}

/// How the last connection fares: its packets' verdicts, and what was decided.
fn last(gateway: &mut Gateway, packets: &Packets) -> (Vec<bool>, Option<Action>) {
    let passed = packets
        .iter()
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
        .collect();
    let live = gateway.flows(1);
    (passed, live.first().and_then(|flow| flow.action))
}

#[test]
fn connections_that_were_stopped_hide_no_others() {
    let mut gateway = governed(SCAN, enforcing());
    crowd(&mut gateway, &[0; 14_480], REQUEST);
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.2:4000"), at("192.0.2.1:80"));
    stream.open();
    stream.client(REQUEST);
    stream.server(&[0; 14_480]);
    let (passed, action) = last(&mut gateway, &packets);
    let (before, after) = passed.split_at(4);
    assert_eq!(
        (before, after.contains(&true)),
        ([true; 4].as_slice(), false)
    );
    assert_eq!(action, Some(Action::Block));
}

#[test]
fn lasting_unnamed_connections_hide_no_others() {
    for policy in [
        "[[rule]]\nname = \"b\"\napp = \"http\"\naction = \"block\"\n",
        SCAN,
    ] {
        let mut gateway = governed(policy, enforcing());
        crowd(&mut gateway, &[1; 16_000], &[1; 8_000]);
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.2:4000"), at("192.0.2.1:80"));
        stream.open();
        // In two parts, so that somebody has to remember the first.
        let path = "x".repeat(1_000);
        let said = format!("GET /{path} HTTP/1.1\r\nHost: server\r\n\r\n");
        let (one, two) = said.as_bytes().split_at(3);
        stream.client(one);
        stream.client(two);
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n");
        for _ in 0..MAX_UNDECIDED_PACKETS {
            stream.server(&[2; 50]);
        }
        let (_, action) = last(&mut gateway, &packets);
        let expected = if policy == SCAN {
            Action::Scan
        } else {
            Action::Block
        };
        assert_eq!(action, Some(expected), "{policy}");
    }
}

/// A connection whose beginning was not seen carries what ought to be scanned.
#[test]
fn connection_joined_midway_follows_the_failure_setting() {
    for (policy, stopped) in [
        (SCAN.to_owned(), true),
        (SCAN.replace("closed", "open"), false),
    ] {
        let mut gateway = governed(&policy, enforcing());
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.2:4000"), at("192.0.2.1:80"));
        stream.open();
        stream.client(REQUEST);
        for _ in 0..MAX_UNDECIDED_PACKETS {
            stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
        }
        let passed: Vec<bool> = packets
            .iter()
            .skip(3)
            .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
            .collect();
        assert_eq!(passed.contains(&false), stopped, "{policy}");
        assert_eq!(passed.last(), Some(&!stopped), "{policy}");
        let events: Vec<_> = std::iter::from_fn(|| gateway.poll_event()).collect();
        let told = events.iter().any(|event| {
            event.kind == EventKind::Alert && event.alert.evidence.contains("from its beginning")
        });
        assert!(told, "{events:?}");
        gateway.finish(Duration::from_secs(1_000));
    }
}

/// What is left of a file after a restart names no application; the kernel still knows that the
/// connection was read.
#[test]
fn connection_read_by_earlier_run_follows_policy() {
    let fails_closed = "[gateway]\nfailure = \"closed\"\n";
    let elsewhere = SCAN.replace("app = ", "port = 81\napp = ");
    let named =
        "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
    for (policy, watched, stopped) in [
        (SCAN.to_owned(), true, true),
        (SCAN.to_owned(), false, false),
        (SCAN.replace("closed", "open"), true, false),
        (format!("{fails_closed}{named}"), true, true),
        (named.to_owned(), true, false),
        (format!("{fails_closed}default = \"audit\"\n"), true, true),
        // No rule can have asked for it.
        (elsewhere, true, false),
    ] {
        let mut gateway = governed(&policy, enforcing());
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.2:4000"), at("192.0.2.1:80"));
        stream.open();
        for _ in 0..MAX_UNDECIDED_PACKETS {
            stream.server(&[0x5a; 1_000]);
        }
        let rest = packets.iter().skip(3);
        let passed: Vec<bool> = rest
            .map(|(now, bytes)| {
                gateway.set_watched(watched);
                gateway.handle_packet(now, LinkType::RawIp, bytes).accepts()
            })
            .collect();
        assert_eq!(passed.first(), Some(&!stopped), "{policy}");
        assert_eq!(gateway.poll_injection().is_some(), stopped, "{policy}");
        assert_eq!(gateway.poll_event().is_some(), stopped, "{policy}");
        // Who calls again is heard.
        let (now, syn) = packets.iter().next().unwrap();
        gateway.set_watched(false);
        let later = now + Duration::from_secs(1_000);
        assert!(gateway.handle_packet(later, LinkType::RawIp, syn).accepts());
    }
}

/// The kernel gives pure ACKs to the queue of unknown flows.
#[test]
fn pure_acks_settle_nothing_read_by_earlier_run() {
    for (policy, settled) in [
        (SCAN.to_owned(), false),
        (SCAN.replace("closed", "open"), true),
    ] {
        let mut gateway = governed(&policy, enforcing());
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.2:4000"), at("192.0.2.1:80"));
        stream.open();
        stream.server(&[0x5a; 1_000]);
        let all: Vec<_> = packets.iter().collect();
        let (now, acknowledges) = all[2];
        let verdicts = (0..2 * MAX_UNDECIDED_PACKETS).map(|_| {
            let verdict = gateway.handle_packet(now, LinkType::RawIp, acknowledges);
            verdict.offload().is_some()
        });
        assert_eq!(verdicts.last(), Some(settled), "{policy}");
        gateway.set_watched(true);
        let (now, data) = all[3];
        let verdict = gateway.handle_packet(now, LinkType::RawIp, data);
        assert_eq!(verdict.accepts(), settled, "{policy}");
    }
}
