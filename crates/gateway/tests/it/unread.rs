//! What a scanner would not see as it is: it counts as unreadable, and what is scanned fails
//! closed unless the rule says otherwise.

use etherparse::{Ipv4Header, TcpHeader};
use ringway_gateway::verdict::{Event, Gateway};
use ringway_gateway::{LinkType, Packets};

use super::{at, enforcing, governed};

const SCAN: &str = "[[rule]]\nname = \"scan\"\napp = \"http\"\naction = \"scan\"\n";

/// A download whose answer has these header lines; which packets pass at once, and the events.
fn fetched(policy: &str, answer: &str) -> (Vec<bool>, Vec<Event>) {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.server(answer.as_bytes());
    stream.server(&[7; 400]);
    run(&mut governed(policy, enforcing()), &packets)
}

fn run(gateway: &mut Gateway, packets: &Packets) -> (Vec<bool>, Vec<Event>) {
    let passed = packets
        .iter()
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
        .collect();
    let events = std::iter::from_fn(|| gateway.poll_event()).collect();
    (passed, events)
}

fn is_stopped(policy: &str, answer: &str) -> bool {
    let (passed, events) = fetched(policy, answer);
    let told = events.iter().any(|event| {
        event.alert.evidence.contains("cannot be read") && event.alert.action == "blocked"
    });
    let stopped = !passed[passed.len() - 2..].contains(&true);
    assert_eq!(told, stopped, "{answer}: {events:?}");
    stopped
}

const HEADS: [&str; 5] = [
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 900\r\n\r\n",
    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-899/5000\r\nContent-Length: 900\r\n\r\n",
    "HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=b\r\n\
     Content-Length: 900\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Range: bytes 0-899/5000\r\nContent-Length: 900\r\n\r\n",
    "MZ: a file by HTTP/0.9, which has no head\r\n",
];

#[test]
fn unscannable_file_is_stopped_unless_failing_open() {
    for head in HEADS {
        assert!(is_stopped(SCAN, head), "{head}");
        let open = format!("{SCAN}failure = \"open\"\n");
        assert!(!is_stopped(&open, head), "{head}");
        // What the gateway does when it is not there is another question.
        let gateway = format!("[gateway]\nfailure = \"open\"\n{SCAN}");
        assert!(is_stopped(&gateway, head), "{head}");
    }
}

#[test]
fn content_rule_that_scans_fails_closed_too() {
    let rule =
        "[[rule]]\nname = \"types\"\napp = \"http\"\nfile_name = \"f*\"\naction = \"scan\"\n";
    for head in HEADS {
        assert!(is_stopped(rule, head), "{head}");
    }
}

#[test]
fn parts_are_scanned_alone_with_scan_parts() {
    let rule = format!("{SCAN}scan_parts = true\n");
    assert!(is_stopped(&rule, HEADS[0]));
    for head in &HEADS[1..4] {
        let (_, events) = fetched(&rule, head);
        assert!(events.is_empty(), "{head}: {events:?}");
    }
    let rule = "[[rule]]\nname = \"parts\"\napp = \"http\"\nfile_part = true\naction = \"block\"\n";
    for (head, blocked) in HEADS.iter().zip([false, true, true, true]) {
        let (passed, _) = fetched(rule, head);
        assert_eq!(passed.last() == Some(&false), blocked, "{head}");
    }
}

/// A request does not ask for what could not be scanned, and keeps its length.
#[test]
fn scanned_requests_accept_no_codings() {
    let asked = "GET /f HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br\r\nA: b\r\n\r\n";
    let plain = "GET /f HTTP/1.1\r\nHost: h\r\nAccept-Encoding:         \r\nA: b\r\n\r\n";
    for (policy, changed) in [
        (SCAN.to_owned(), true),
        (SCAN.replace("scan\"\n", "audit\"\n"), false),
    ] {
        let mut gateway = governed(&policy, enforcing());
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
        stream.open();
        stream.client(asked.as_bytes());
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
        stream.client(asked.as_bytes());
        // What looks like a head in a file that goes up stays as it is.
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
        stream.client(
            format!(
                "POST /f HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
                asked.len()
            )
            .as_bytes(),
        );
        stream.client(asked.as_bytes());
        let mut rewritten = Vec::new();
        for (now, bytes) in packets.iter() {
            gateway.handle_packet(now, LinkType::RawIp, bytes);
            rewritten.extend(gateway.take_rewritten());
        }
        let expected = if changed { vec![plain; 2] } else { Vec::new() };
        let rewritten: Vec<&str> = rewritten
            .iter()
            .map(|bytes| std::str::from_utf8(bytes).unwrap())
            .collect();
        assert_eq!(rewritten, expected, "{policy}");
    }
}

/// Receivers differ in whether an urgent byte is part of the file.
#[test]
fn an_urgent_byte_makes_a_file_unreadable() {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nabc");
    let last = packets.iter().last().unwrap();
    let (now, mut urgent) = (last.0, last.1.to_vec());
    let header = usize::from(Ipv4Header::from_slice(&urgent).unwrap().0.ihl()) * 4;
    let mut tcp = TcpHeader::from_slice(&urgent[header..]).unwrap().0;
    (tcp.urg, tcp.urgent_pointer) = (true, 1);
    tcp.sequence_number += 42;
    urgent.splice(header..header + tcp.header_len(), tcp.to_bytes());
    let mut gateway = governed(SCAN, enforcing());
    run(&mut gateway, &packets);
    assert!(
        !gateway
            .handle_packet(now, LinkType::RawIp, &urgent)
            .accepts()
    );
    let events: Vec<Event> = std::iter::from_fn(|| gateway.poll_event()).collect();
    assert!(events[0].alert.evidence.contains("urgent"), "{events:?}");
}

/// A script may be executed line by line while it is fetched: its beginning waits together.
#[test]
fn hold_first_keeps_a_files_beginning_together() {
    let rule = format!("{SCAN}hold_first = \"8 KiB\"\n");
    for (policy, waits) in [(SCAN.to_owned(), false), (rule, true)] {
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
        stream.open();
        stream.client(b"GET /install.sh HTTP/1.1\r\nHost: h\r\n\r\n");
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\necho first");
        stream.server(&[b'a'; 1_000]);
        stream.server(&[b'b'; 1_000]);
        let mut gateway = governed(&policy, enforcing());
        let (passed, _) = run(&mut gateway, &packets);
        assert_eq!(passed[4..] == [false; 3], waits, "{policy}: {passed:?}");
    }
}

/// Routes may be asymmetric: the gateway sees one direction only.
#[test]
fn one_way_file_is_unreadable() {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n");
    for _ in 0..4 {
        stream.server(&[7; 1_000]);
    }
    stream.client(b"GET /other HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.close();
    for client_only in [true, false] {
        for failure in ["closed", "open"] {
            let policy = format!("{SCAN}failure = \"{failure}\"\n");
            let mut gateway = governed(&policy, enforcing());
            let mut passed = 0;
            for (now, bytes) in packets.iter() {
                let from_client = bytes[12..16] == [10, 0, 0, 5];
                if from_client != client_only {
                    continue;
                }
                let verdict = gateway.handle_packet(now, LinkType::RawIp, bytes);
                let data = bytes.len() > 41;
                passed += usize::from(data && verdict.accepts());
            }
            let events: Vec<Event> = std::iter::from_fn(|| gateway.poll_event()).collect();
            assert_eq!(passed > 0, failure == "open", "{client_only}: {events:?}");
            let told = |event: &Event| event.alert.evidence.contains("cannot be read");
            assert!(
                events.iter().any(told),
                "{client_only}, {failure}: {events:?}"
            );
        }
    }
}
