//! What crowds of connections keep, and what that does to others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::flow::TableBounds;
use crate::limits::{MAX_CONTENT, MAX_EARLY};
use crate::policy::{Action, Policy};
use crate::verdict::{Gateway, Mode, Scanned, Settings};
use crate::{LinkType, Packets, built_in_classifier};

/// A gateway that scans what comes over HTTP, and stops what it cannot read.
fn gateway() -> Gateway {
    governed("[[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\nfailure = \"closed\"\n")
}

fn governed(policy: &str) -> Gateway {
    let known: BTreeSet<String> = ["http", "gnutella"].map(str::to_owned).into();
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

/// Connections that say a lot before anybody knows what they are, and then stay.
#[test]
fn unknown_flows_are_bounded_and_stopped_once_named() {
    let mut gateway = gateway();
    let mut first = Packets::new();
    let mut stream = first.tcp(([10, 0, 0, 2], 4_000).into(), ([192, 0, 2, 1], 80).into());
    stream.open();
    stream.client(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
    let take = |gateway: &mut Gateway, packets: &Packets, from: usize, to: usize| {
        let some = packets.iter().skip(from).take(to.saturating_sub(from));
        some.map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
            .collect::<Vec<bool>>()
    };
    // It has opened, and says nothing for now.
    assert_eq!(take(&mut gateway, &first, 0, 3), [true; 3]);
    let mut most = 0;
    for port in 1_000..5_000_u16 {
        let mut packets = Packets::new();
        let client = ([10, 0, 0, 1], port).into();
        let mut stream = packets.tcp(client, ([192, 0, 2, 1], 7_000).into());
        stream.open();
        // Less than what makes a flow known as well as it will be (`ONE_SIDED`).
        stream.server(&[1; 40_000]);
        for (now, bytes) in packets.iter() {
            let _ = gateway.handle_packet(now, LinkType::RawIp, bytes);
            most = most.max(gateway.content_held());
        }
    }
    assert!(most > MAX_CONTENT / 2 && most <= MAX_CONTENT, "{most}");
    // It was not followed from its beginning on: the first packet that names it decides.
    assert_eq!(take(&mut gateway, &first, 3, 5), [false; 2]);
    let live = gateway.flows(1);
    assert_eq!(live[0].action, Some(Action::Block));
}

/// The flow that gives way may be the one whose packet makes the gateway look for room.
#[test]
fn a_packet_outlives_its_evicted_flow() {
    let mut gateway = governed(
        "[gateway]\nfailure = \"closed\"\n\
         [[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\nfailure = \"open\"\n",
    );
    let mut oldest = Packets::new();
    let mut stream = oldest.tcp(
        ([10, 0, 0, 2], 4_000).into(),
        ([192, 0, 2, 1], 7_000).into(),
    );
    stream.open();
    stream.client(&[1; 1_000]);
    let (last, opening) = (oldest.iter().last().unwrap(), oldest.iter().take(3));
    for (now, bytes) in opening {
        assert!(gateway.handle_packet(now, LinkType::RawIp, bytes).accepts());
    }
    let is_full = |gateway: &Gateway| gateway.content_held() + MAX_EARLY > MAX_CONTENT;
    for port in 1_000..5_000_u16 {
        let mut packets = Packets::new();
        let client = ([10, 0, 0, 1], port).into();
        let mut stream = packets.tcp(client, ([192, 0, 2, 1], 7_000).into());
        stream.open();
        stream.server(&[1; 40_000]);
        for (now, bytes) in packets.iter() {
            if !is_full(&gateway) {
                let _ = gateway.handle_packet(now, LinkType::RawIp, bytes);
            }
        }
    }
    assert!(is_full(&gateway));
    assert!((gateway.handle_packet(last.0, LinkType::RawIp, last.1)).accepts());
    assert_eq!(gateway.flows_missing(), 0);
}

/// Downloads that wait behind gaps for ever must not keep the gateway from reading others.
#[test]
fn full_connections_leave_room_for_new_ones() {
    let mut gateway = gateway();
    let mut ask = |port: u16, missing: bool| {
        let mut packets = Packets::new();
        let client = ([10, 0, 0, 1], port).into();
        let mut stream = packets.tcp(client, ([192, 0, 2, 1], 80).into());
        stream.open();
        stream.client(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        let size = if missing { 1_000_000 } else { 100 };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
        stream.server(head.as_bytes());
        stream.server(&vec![1; size]);
        let mut held = false;
        for (number, (now, bytes)) in packets.iter().enumerate() {
            // The first bytes of the body never come.
            if !(missing && number == 5) {
                held |= gateway
                    .handle_queued(now, 1, LinkType::RawIp, bytes)
                    .is_held();
            }
        }
        held
    };
    for port in 1_000..1_270 {
        ask(port, true);
    }
    // The only packet of this one waits for its scan.
    assert!(ask(2_000, false));
}

/// A file of unknown length: what there is of it is scanned whenever it pauses, and goes on then.
#[test]
fn every_pause_of_a_file_is_noticed() {
    let mut gateway = gateway();
    let mut packets = Packets::new();
    let mut stream = packets.tcp(([10, 0, 0, 2], 4_000).into(), ([192, 0, 2, 1], 80).into());
    stream.open();
    stream.client(b"GET /a HTTP/1.0\r\nHost: h\r\n\r\n");
    stream.server(b"HTTP/1.0 200 OK\r\n\r\nfirst");
    for part in [b"again", b"third"] {
        stream.packets().wait(Duration::from_secs(2));
        stream.server(part);
    }
    let mut waited = Vec::new();
    for (token, (now, bytes)) in packets.iter().enumerate() {
        let token = u64::try_from(token).unwrap();
        if !gateway
            .handle_queued(now, token, LinkType::RawIp, bytes)
            .is_held()
        {
            continue;
        }
        assert!(gateway.is_waiting());
        for late in [30, 60, 90, 120] {
            let later = now + Duration::from_millis(late);
            gateway.handle_timeout(later);
            while let Some(job) = gateway.poll_scan() {
                gateway.handle_scanned(later, &job, &Scanned::Clean);
            }
            while let Some((token, verdict)) = gateway.poll_released() {
                waited.push((token, late, verdict.accepts()));
            }
        }
        assert!(!gateway.is_waiting());
    }
    assert_eq!(waited, [(4, 60, true), (5, 60, true), (6, 60, true)]);
}

/// Files under way have parts and windows in the making; many of them together must not have more
/// than there is room for.
#[test]
fn many_files_under_way_stay_within_the_bound() {
    let audited = "[[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\naudit = true\n";
    let mut gateway = governed(audited);
    let (mut most, mut windows, mut parts) = (0, 0, 0);
    for number in 0..12_000_u16 {
        let mut packets = Packets::new();
        let [high, low] = number.to_be_bytes();
        let client = ([10, 0, high, low], 4_000).into();
        let mut stream = packets.tcp(client, ([192, 0, 2, 1], 80).into());
        stream.open();
        stream.client(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        stream.server(&[1; 30_000]);
        for (now, bytes) in packets.iter() {
            let _ = gateway.handle_queued(now, 1, LinkType::RawIp, bytes);
            while let Some(job) = gateway.poll_scan() {
                windows += 1;
                gateway.handle_scanned(now, &job, &Scanned::Clean);
            }
            while gateway.poll_file_part().is_some() {
                parts += 1;
            }
            while gateway.poll_released().is_some() {}
            most = most.max(gateway.content_held());
        }
    }
    assert!(most <= MAX_CONTENT, "{most}");
    assert!(most > MAX_CONTENT / 3, "{most}");
    // Nothing was left out for it.
    assert!(windows > 5_000 && parts > 5_000, "{windows} {parts}");
}

/// The kernel has passed a page over HTTP, and kept the beginnings of its packets only. What
/// follows on the same connection is read all the same.
#[test]
fn reading_begins_behind_what_has_passed_unasked() {
    let policy = "[[rule]]\nname = \"n\"\napp = \"gnutella\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
                  [[rule]]\nname = \"s\"\napp = \"gnutella\"\naction = \"scan\"\nfailure = \"closed\"\n";
    let cases = [("tool.exe", false), ("song.ogg", true)];
    for ((name, passes), unasked) in cases
        .into_iter()
        .flat_map(|case| [(case, false), (case, true)])
    {
        let mut gateway = governed(policy);
        let mut packets = Packets::new();
        let mut stream = packets.tcp(([10, 0, 0, 2], 4_000).into(), ([192, 0, 2, 1], 80).into());
        stream.open();
        let filler = "x".repeat(400);
        stream.client(format!("GET /a HTTP/1.1\r\nHost: h\r\nX: {filler}\r\n\r\n").as_bytes());
        let page = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n{}",
            "y".repeat(3_000)
        );
        stream.server(page.as_bytes());
        let before = stream.packets().iter().count();
        let request = format!(
            "GET /get/1/{name} HTTP/1.1\r\nUser-Agent: LimeWire/4.12\r\nX-Queue: 0.1\r\n\r\n"
        );
        stream.client(request.as_bytes());
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
        let mut verdicts = Vec::new();
        for (token, (now, bytes)) in packets.iter().enumerate() {
            if unasked && token < before {
                let kept = bytes.len().min(40 + 256);
                gateway.handle_passed(now, LinkType::RawIp, &bytes[..kept]);
            } else {
                let token = u64::try_from(token).unwrap();
                verdicts.push(gateway.handle_queued(now, token, LinkType::RawIp, bytes));
            }
        }
        let request = verdicts[verdicts.len() - 2];
        assert_eq!(request.accepts(), passes, "{name}, {unasked}: {verdicts:?}");
        let scans = std::iter::from_fn(|| gateway.poll_scan()).count();
        assert!(scans > 0 || !passes, "{name}, {unasked}");
    }
}
