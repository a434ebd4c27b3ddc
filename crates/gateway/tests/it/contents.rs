//! Files and messages inside flows: names that may not pass, windows that wait for their scan,
//! virus and receiver.

use std::collections::HashMap;

use std::time::Duration;

use etherparse::{SlicedPacket, TransportSlice};
use ringway_gateway::audit::Digester;

use ringway_gateway::verdict::{Event, EventKind, Gateway, Mode, ScanJob, Scanned, Settings};
use ringway_gateway::{Confidence, LinkType, Packets};

use super::{at, enforcing, governed};

const NAMES: &str =
    "[[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
const AUDIT: &str = "[[rule]]\nname = \"log\"\napp = \"http\"\naction = \"audit\"\n";
const SCAN: &str = "[[rule]]\nname = \"scan\"\napp = \"http\"\naction = \"scan\"\naudit = true\n";
/// What the scanner of these tests takes for a virus.
pub(super) const VIRUS: &[u8] = b"X5O!P%@AP[4-PZX54(P^)7CC)7}-NOT-QUITE-EICAR";
const WINDOW: usize = 8_192;
const SEGMENT: usize = 1_000;

fn gateway(policy: &str, mode: Mode) -> Gateway {
    let settings = Settings {
        mode,
        scan_window: WINDOW,
        ..Settings::default()
    };
    governed(policy, settings)
}

/// A download: request, then an answer in segments.
pub(super) fn download(name: &str, head: &str, body: &[u8]) -> Packets {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    let answer = [format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes(), body].concat();
    for segment in answer.chunks(SEGMENT) {
        stream.server(segment);
    }
    packets
}

/// What arrives at the receiver of the server's bytes when the scanner answers after some more
/// packets have come.
struct Run {
    arrived: Vec<u8>,
    held_at_once: usize,
    windows: Vec<ScanJob>,
    resets: usize,
    events: Vec<Event>,
}

fn payload(packet: &[u8]) -> (u16, u32, Vec<u8>) {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
        panic!("no TCP");
    };
    (
        tcp.source_port(),
        tcp.sequence_number(),
        tcp.payload().to_vec(),
    )
}

/// The server's bytes in the order of their numbers, as the receiver reads them; a gap ends it.
fn received(pieces: Vec<(u32, Vec<u8>)>) -> Vec<u8> {
    let mut arrived = Vec::new();
    let mut server: Vec<(u32, Vec<u8>)> = pieces
        .into_iter()
        .map(|(_, bytes)| payload(&bytes))
        .filter(|(port, _, payload)| *port == 80 && !payload.is_empty())
        .map(|(_, sequence, payload)| (sequence, payload))
        .collect();
    server.sort_unstable_by_key(|(sequence, _)| *sequence);
    let mut next = server.first().map(|(sequence, _)| *sequence);
    for (sequence, payload) in server {
        if next != Some(sequence) {
            break;
        }
        next = Some(sequence.wrapping_add(u32::try_from(payload.len()).unwrap()));
        arrived.extend(payload);
    }
    arrived
}

/// Runs packets through the gateway; a scan takes as long as `lag` packets.
fn run(gateway: &mut Gateway, packets: &Packets, lag: usize, ends: bool) -> Run {
    let mut digester = Digester::default();
    let mut out = Run {
        arrived: Vec::new(),
        held_at_once: 0,
        windows: Vec::new(),
        resets: 0,
        events: Vec::new(),
    };
    let mut pieces: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut waiting: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut scans: Vec<(usize, ScanJob)> = Vec::new();
    let all: Vec<(Duration, Vec<u8>)> = packets
        .iter()
        .map(|(now, bytes)| (now, bytes.to_vec()))
        .collect();
    let last = all.last().map_or(Duration::ZERO, |(now, _)| *now);
    let idle = (0..400_u32).map(|tick| (last + Duration::from_millis(10) * tick, Vec::new()));
    let turns = all.into_iter().chain(idle.take(if ends { 400 } else { 0 }));
    for (turn, (now, bytes)) in turns.enumerate() {
        if !bytes.is_empty() {
            let token = u64::try_from(turn).unwrap();
            let verdict = gateway.handle_queued(now, token, LinkType::RawIp, &bytes);
            if verdict.is_held() {
                waiting.insert(token, bytes);
            } else if verdict.accepts() {
                pieces.push((payload(&bytes).1, bytes));
            }
        }
        gateway.handle_timeout(now);
        while let Some(job) = gateway.poll_scan() {
            out.windows.push(job.clone());
            scans.push((turn + lag, job));
        }
        out.held_at_once = out.held_at_once.max(waiting.len());
        let (due, later): (Vec<_>, Vec<_>) = scans.into_iter().partition(|(at, _)| *at <= turn);
        scans = later;
        for (_, job) in due {
            let found = job.bytes.windows(VIRUS.len()).any(|part| part == VIRUS);
            let scanned = if found {
                Scanned::Found("virus".to_owned())
            } else {
                Scanned::Clean
            };
            gateway.handle_scanned(now, &job, &scanned);
        }
        while let Some((token, verdict)) = gateway.poll_released() {
            let bytes = waiting.remove(&token).unwrap();
            if verdict.accepts() {
                pieces.push((payload(&bytes).1, bytes));
            }
        }
        while gateway.poll_injection().is_some() {
            out.resets += 1;
        }
        while let Some(part) = gateway.poll_file_part() {
            let (event, failed) = digester.take(part);
            assert!(failed.is_none(), "{failed:?}");
            out.events.extend(event);
        }
        out.events
            .extend(std::iter::from_fn(|| gateway.poll_event()));
    }
    assert!(
        !ends || waiting.is_empty(),
        "{} packets wait for ever",
        waiting.len()
    );
    out.arrived = received(pieces);
    out
}

pub(super) fn length(body: &[u8]) -> String {
    format!("Content-Length: {}\r\n", body.len())
}

fn noise(size: usize) -> Vec<u8> {
    (0..size).map(|place| (place * 31 % 251) as u8).collect()
}

#[test]
fn blocked_file_name_never_reaches_the_server() {
    let mut gateway = gateway(NAMES, Mode::Enforce);
    let body = noise(3_000);
    let packets = download("tools/Setup.EXE", &length(&body), &body);
    let run = run(&mut gateway, &packets, 0, true);
    assert!(run.arrived.is_empty() && run.resets >= 2);
    let kinds: Vec<EventKind> = run.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::FileInfo]);
    let event = serde_json::to_value(&run.events[0]).unwrap();
    assert_eq!(event["files"][0]["filename"], "Setup.EXE");
    assert_eq!(event["alert"]["signature"], "programs");
    assert_eq!(event["alert"]["action"], "blocked");
}

/// Names that no rule asks for pass before it.
#[test]
fn later_request_on_same_connection_is_judged() {
    let mut gateway = gateway(NAMES, Mode::Enforce);
    let body = noise(3_000);
    let packets = download("a.txt", &length(&body), &body);
    assert!(
        run(&mut gateway, &packets, 0, true)
            .arrived
            .ends_with(&body)
    );
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50001"), at("192.0.2.9:80"));
    stream.open();
    for name in ["a.txt", "b.txt", "c.exe"] {
        stream.client(format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    let run = run(&mut gateway, &packets, 0, true);
    assert_eq!(
        run.arrived.len(),
        2 * 40,
        "{}",
        String::from_utf8_lossy(&run.arrived)
    );
}

#[test]
fn clean_files_arrive_whole_after_any_scan_delay() {
    for lag in [0, 1, 7, 40] {
        for size in [0, 1, 100, WINDOW - 1, WINDOW, WINDOW + 1, 5 * WINDOW + 17] {
            let body = noise(size);
            let chunked = [format!("{size:x}\r\n").as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
            let ways = [
                (length(&body), body.clone()),
                (
                    "Transfer-Encoding: chunked\r\n".to_owned(),
                    if size == 0 {
                        b"0\r\n\r\n".to_vec()
                    } else {
                        chunked
                    },
                ),
                (String::new(), body.clone()),
            ];
            for (head, bytes) in ways {
                let mut gateway = gateway(SCAN, Mode::Enforce);
                let packets = download("a.bin", &head, &bytes);
                let run = run(&mut gateway, &packets, lag, true);
                assert!(
                    run.arrived.ends_with(&bytes),
                    "{lag} {size} {head}: {} arrived",
                    run.arrived.len()
                );
                let scanned: usize = run
                    .windows
                    .iter()
                    .map(|job| job.bytes.len() - job.repeated)
                    .sum();
                assert_eq!(scanned, size, "{lag} {head}");
            }
        }
    }
}

#[test]
fn a_virus_at_any_place_never_arrives_whole() {
    let size = 3 * WINDOW + 500;
    let boundaries = [WINDOW, 2 * WINDOW, 3 * WINDOW];
    let around = boundaries
        .iter()
        .flat_map(|boundary| (boundary - VIRUS.len() - 1)..=(boundary + 1));
    for place in around.chain([0, 1, size - VIRUS.len()]) {
        let mut body = noise(size);
        body[place..place + VIRUS.len()].copy_from_slice(VIRUS);
        for head in [length(&body), String::new()] {
            let mut gateway = gateway(SCAN, Mode::Enforce);
            let packets = download("a.bin", &head, &body);
            let run = run(&mut gateway, &packets, 3, true);
            let whole = head.len() + body.len();
            assert!(run.arrived.len() < whole, "{place} {head}");
            assert!(!run.arrived.ends_with(&body[size - 1..]) || run.arrived.len() < whole);
            assert!(run.resets >= 2, "{place} {head}: {} resets", run.resets);
            assert!(run.events.iter().any(|event| {
                event
                    .fileinfo
                    .as_ref()
                    .is_some_and(|file| file.found.as_deref() == Some("virus"))
            }));
        }
    }
}

#[test]
fn a_whole_file_is_told_with_its_hash() {
    let mut gateway = gateway(SCAN, Mode::Enforce);
    let body = b"hello world";
    let run = run(
        &mut gateway,
        &download("greeting.txt", &length(body), body),
        0,
        true,
    );
    let files: Vec<_> = run
        .events
        .iter()
        .filter_map(|event| event.fileinfo.clone())
        .collect();
    assert_eq!(files.len(), 1, "{:?}", run.events);
    assert_eq!(files[0].filename.as_deref(), Some("greeting.txt"));
    assert_eq!(files[0].size, Some(11));
    assert_eq!(
        files[0].sha256.as_deref(),
        Some("b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9")
    );
}

#[test]
fn one_waiting_flow_delays_no_others() {
    let mut gateway = gateway(SCAN, Mode::Enforce);
    let body = noise(4 * WINDOW);
    let packets = download("a.bin", &length(&body), &body);
    let run = run(&mut gateway, &packets, usize::MAX / 2, false);
    assert!(run.held_at_once > 10, "{}", run.held_at_once);
    let mut others = Packets::new();
    let mut stream = others.tcp(at("10.0.0.6:50000"), at("192.0.2.9:443"));
    stream.open();
    stream.client(b"\x16\x03\x01");
    for (now, bytes) in others.iter() {
        assert!(gateway.handle_packet(now, LinkType::RawIp, bytes).accepts());
    }
}

#[test]
fn failed_scan_follows_the_failure_setting() {
    let body = noise(3 * WINDOW);
    let packets = download("a.bin", &length(&body), &body);
    for (failure, passes) in [("open", true), ("closed", false)] {
        let policy = format!("{SCAN}failure = \"{failure}\"\n");
        let mut gateway = gateway(&policy, Mode::Enforce);
        let mut verdicts = Vec::new();
        for (turn, (now, bytes)) in packets.iter().enumerate() {
            let token = u64::try_from(turn).unwrap();
            verdicts.push(gateway.handle_queued(now, token, LinkType::RawIp, bytes));
            while let Some(job) = gateway.poll_scan() {
                gateway.handle_scanned(now, &job, &Scanned::Failed("gone".to_owned()));
            }
        }
        let released: Vec<bool> = std::iter::from_fn(|| gateway.poll_released())
            .map(|(_, verdict)| verdict.accepts())
            .collect();
        assert!(
            released.iter().all(|passed| *passed == passes) && !released.is_empty(),
            "{failure}"
        );
        assert_eq!(
            verdicts.last().unwrap().accepts(),
            passes,
            "{failure}: {verdicts:?}"
        );
        let events: Vec<Event> = std::iter::from_fn(|| gateway.poll_event()).collect();
        assert!(
            events
                .iter()
                .any(|event| event.alert.evidence.contains("gone"))
        );
    }
}

#[test]
fn observing_holds_nothing_and_tells_what_it_found() {
    let mut gateway = gateway(SCAN, Mode::Observe);
    let mut body = noise(2 * WINDOW);
    body[100..100 + VIRUS.len()].copy_from_slice(VIRUS);
    let run = run(
        &mut gateway,
        &download("a.bin", &length(&body), &body),
        2,
        true,
    );
    assert!(run.arrived.ends_with(&body));
    assert_eq!((run.held_at_once, run.resets), (0, 0));
    let found = run.events.iter().any(|event| {
        event.alert.action == "allowed"
            && event
                .fileinfo
                .as_ref()
                .is_some_and(|file| file.found.is_some())
    });
    assert!(found, "{:?}", run.events);
}

#[test]
fn file_in_transit_is_held_once_enforcing_begins() {
    let mut body = noise(4 * WINDOW);
    let place = body.len() - VIRUS.len();
    body[place..].copy_from_slice(VIRUS);
    let whole = download("a.bin", &length(&body), &body);
    let (mut first, mut second) = (Packets::new(), Packets::new());
    for (place, (_, bytes)) in whole.iter().enumerate() {
        let half = if place < 20 { &mut first } else { &mut second };
        half.push(bytes.to_vec());
    }
    let mut gateway = gateway(SCAN, Mode::Observe);
    let observed = run(&mut gateway, &first, 2, false);
    assert_eq!(observed.held_at_once, 0);
    gateway.set_mode(Mode::Enforce);
    let enforced = run(&mut gateway, &second, 2, true);
    assert!(enforced.held_at_once > 0 && enforced.resets > 0);
    assert!(!enforced.arrived.ends_with(VIRUS));
}

#[test]
fn retransmission_of_held_packet_is_held_too() {
    let mut gateway = gateway(SCAN, Mode::Enforce);
    let body = noise(500);
    let packets = download("a.bin", &length(&body), &body);
    let mut last = None;
    for (turn, (now, bytes)) in packets.iter().enumerate() {
        let verdict =
            gateway.handle_queued(now, u64::try_from(turn).unwrap(), LinkType::RawIp, bytes);
        if payload(bytes).0 == 80 && !payload(bytes).2.is_empty() {
            assert!(
                verdict.is_held(),
                "the only packet of a file goes on unscanned"
            );
            last = Some((now, bytes));
        }
    }
    let (now, bytes) = last.unwrap();
    assert!(
        gateway
            .handle_queued(now, 99, LinkType::RawIp, bytes)
            .is_held()
    );
    let job = gateway.poll_scan().unwrap();
    gateway.handle_scanned(now, &job, &Scanned::Clean);
    let released =
        std::iter::from_fn(|| gateway.poll_released()).filter(|(_, verdict)| verdict.accepts());
    assert_eq!(released.count(), 2);
}

#[test]
fn altered_retransmission_carries_the_first_bytes() {
    let mut gateway = gateway(NAMES, Mode::Enforce);
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    let all: Vec<_> = packets
        .iter()
        .map(|(now, bytes)| (now, bytes.to_vec()))
        .collect();
    for (now, bytes) in &all {
        assert!(
            gateway
                .handle_packet(*now, LinkType::RawIp, bytes)
                .accepts()
        );
    }
    let (now, mut other) = all.last().unwrap().clone();
    let place = other.windows(5).position(|part| part == b"a.txt").unwrap();
    other[place..place + 5].copy_from_slice(b"b.exe");
    assert!(
        gateway
            .handle_packet(now, LinkType::RawIp, &other)
            .accepts()
    );
    let rewritten = gateway.take_rewritten().unwrap();
    assert!(
        rewritten.starts_with(b"GET /a.txt"),
        "{}",
        String::from_utf8_lossy(&rewritten)
    );
}

/// Which of a file's packets go on at once, when the second of them comes last; and which are let
/// go then.
fn behind_a_gap(fast_pass: bool) -> (Vec<bool>, Vec<(u64, bool)>) {
    let settings = Settings {
        mode: Mode::Enforce,
        fast_pass,
        ..Settings::default()
    };
    let mut gateway = governed(AUDIT, settings);
    let body = vec![7; 5 * SEGMENT];
    let head = format!("Content-Length: {}\r\n", body.len());
    let packets = download("a.bin", &head, &body);
    let mut all: Vec<(Duration, Vec<u8>)> = packets
        .iter()
        .map(|(now, bytes)| (now, bytes.to_vec()))
        .collect();
    let (last, _) = all[all.len() - 1];
    // The handshake, the request, the beginning of the answer; then what is late.
    let late = all.remove(5);
    all.push((last, late.1));
    let mut at_once = Vec::new();
    for (token, (now, bytes)) in (0..).zip(&all) {
        let verdict = gateway.handle_queued(*now, token, LinkType::RawIp, bytes);
        at_once.push(verdict.accepts());
    }
    let released = std::iter::from_fn(|| gateway.poll_released())
        .map(|(token, verdict)| (token, verdict.accepts()))
        .collect();
    (at_once, released)
}

#[test]
fn packets_behind_gap_wait_only_without_fast_pass() {
    let (at_once, released) = behind_a_gap(true);
    assert!(at_once.iter().all(|pass| *pass), "{at_once:?}");
    assert_eq!(released, []);

    let (at_once, released) = behind_a_gap(false);
    let waited: Vec<u64> = (0..)
        .zip(&at_once)
        .filter(|(_, pass)| !**pass)
        .map(|(token, _)| token)
        .collect();
    // All of the file behind the gap, in its order; the packet that fills it does not wait.
    assert_eq!(waited, [5, 6, 7, 8]);
    let all: Vec<(u64, bool)> = waited.into_iter().map(|token| (token, true)).collect();
    assert_eq!(released, all);
}

const CHAT: &str = "[[rule]]\nname = \"word\"\napp = [\"irc\", \"dcc\"]\nkeyword = \"nightingale\"\naction = \"block\"\n\
    [[rule]]\nname = \"talk\"\napp = [\"irc\", \"dcc\"]\naction = \"scan\"\naudit_text = true\n";

/// Of the chat itself nothing is asked.
const FILES: &str = "[[rule]]\nname = \"files\"\napp = \"dcc\"\naction = \"scan\"\n";

fn opening(packets: &mut Packets, lines: &[&[u8]]) {
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6667"));
    stream.open();
    stream.client(b"NICK kea\r\nUSER kea 0 * :Kea\r\n");
    stream.server(b":irc.example 001 kea :Welcome\r\n");
    for line in lines {
        stream.client(line);
    }
}

#[test]
fn keyword_stops_chat_and_earlier_messages_are_audited() {
    let mut gateway = governed(CHAT, enforcing());
    let mut packets = Packets::new();
    opening(
        &mut packets,
        &[
            b"PRIVMSG #birds :good morning\r\n",
            b"PRIVMSG #birds :project NIGHTINGALE is late\r\n",
            b"PRIVMSG #birds :anybody there?\r\n",
        ],
    );
    let verdicts: Vec<bool> = packets
        .iter()
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
        .collect();
    let blocked: Vec<usize> = (0..verdicts.len())
        .filter(|place| !verdicts[*place])
        .collect();
    assert_eq!(
        blocked,
        [verdicts.len() - 2, verdicts.len() - 1],
        "{verdicts:?}"
    );
    let events: Vec<Event> = std::iter::from_fn(|| gateway.poll_event()).collect();
    let texts: Vec<(String, Option<String>)> = events
        .iter()
        .filter_map(|event| {
            Some((
                event.alert.signature.clone(),
                event.message.as_ref()?.text.clone(),
            ))
        })
        .collect();
    // The rule on the word keeps no texts.
    assert_eq!(
        texts,
        [
            ("talk".to_owned(), Some("good morning".to_owned())),
            ("word".to_owned(), None)
        ]
    );
}

#[test]
fn announced_file_is_scanned_from_its_first_packet() {
    for policy in [CHAT, FILES] {
        announced_file(&mut governed(policy, enforcing()));
    }
}

fn announced_file(gateway: &mut Gateway) {
    let mut packets = Packets::new();
    // 198.51.100.7 as a number, as DCC writes it.
    opening(
        &mut packets,
        &[b"PRIVMSG owl :\x01DCC SEND song.ogg 3325256711 5000 700\x01\r\n"],
    );
    let mut file = noise(700);
    file[300..300 + VIRUS.len()].copy_from_slice(VIRUS);
    let mut transfer = packets.tcp(at("10.0.0.8:40000"), at("198.51.100.7:5000"));
    transfer.open();
    transfer.server(&file);
    let mut held = Vec::new();
    let mut last = Duration::ZERO;
    for (turn, (now, bytes)) in packets.iter().enumerate() {
        let token = u64::try_from(turn).unwrap();
        if gateway
            .handle_queued(now, token, LinkType::RawIp, bytes)
            .is_held()
        {
            held.push(token);
        }
        last = now;
    }
    assert_eq!(held.len(), 1, "the file's only packet waits");
    let job = gateway.poll_scan().unwrap();
    assert_eq!(
        (job.name.as_deref(), job.bytes.as_slice(), job.last),
        (Some("song.ogg"), file.as_slice(), true)
    );
    gateway.handle_scanned(last, &job, &Scanned::Found("virus".to_owned()));
    let (token, verdict) = gateway.poll_released().unwrap();
    assert!(token == held[0] && !verdict.accepts());
    let events: Vec<Event> = std::iter::from_fn(|| gateway.poll_event()).collect();
    assert!(
        events
            .iter()
            .any(|event| event.app == "dcc" && event.kind == EventKind::FileInfo)
    );
    let flow = gateway
        .flows(9)
        .into_iter()
        .find(|flow| flow.record.server_port == 5_000)
        .unwrap();
    let told = (flow.record.app.as_str(), flow.record.confidence);
    assert_eq!(
        told,
        ("dcc", Confidence::Certain),
        "{}",
        flow.record.evidence
    );
}

#[test]
fn offer_behind_others_in_one_packet_is_read() {
    let offer = |words: &str| format!(":b!u@h PRIVMSG owl :\x01DCC {words}\x01\r\n");
    let (other, song) = (
        offer("SEND a.ogg 3325256712 5000 700"),
        offer("SEND song.ogg 3325256711 5000 700"),
    );
    let (begun, rest) = song.split_at(song.len() - 9);
    let said: [Vec<String>; 6] = [
        vec![song.clone()],
        vec![format!("{other}{song}")],
        vec![format!("{}{song}", offer("SEND"))],
        // The end of one that makes no sense is the beginning of the next one.
        vec![format!(
            ":b!u@h PRIVMSG owl :\x01DCC x{}",
            &song[song.find('\x01').unwrap()..]
        )],
        vec![format!("{other}{begun}"), rest.to_owned()],
        vec![
            other[..20].to_owned(),
            format!("{}{begun}", &other[20..]),
            rest.to_owned(),
        ],
    ];
    for said in said {
        let policy = "[[rule]]\nname = \"files\"\napp = \"dcc\"\naction = \"block\"\n";
        let mut gateway = governed(policy, enforcing());
        let mut packets = Packets::new();
        let mut chat = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6667"));
        chat.open();
        chat.client(b"NICK owl\r\nUSER owl 0 * :Owl\r\n");
        chat.server(b":irc.example 001 owl :Welcome\r\n");
        for piece in &said {
            chat.server(piece.as_bytes());
        }
        let mut file = packets.tcp(at("10.0.0.8:40000"), at("198.51.100.7:5000"));
        file.open();
        file.server(&noise(700));
        let passed: Vec<bool> = packets
            .iter()
            .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
            .collect();
        assert_eq!(passed.last(), Some(&false), "{said:?}");
    }
}

/// A client that offers files has a port for each, and its kernel gives out ports again.
#[test]
fn reannounced_port_of_blocked_file_is_accepted() {
    let offer: &[u8] = b"PRIVMSG owl :\x01DCC SEND song.ogg 3325256711 5000 700\x01\r\n";
    for (again, passes) in [(true, true), (false, false)] {
        let mut gateway = governed(FILES, enforcing());
        announced_file(&mut gateway);
        let mut packets = Packets::new();
        let mut talk = packets.tcp(at("10.0.0.6:50000"), at("192.0.2.9:6667"));
        talk.open();
        talk.client(b"NICK tui\r\nUSER tui 0 * :Tui\r\n");
        talk.server(b":irc.example 001 tui :Welcome\r\n");
        if again {
            talk.client(offer);
        }
        packets
            .tcp(at("10.0.0.8:40001"), at("198.51.100.7:5000"))
            .open();
        let verdicts = packets
            .iter()
            .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts());
        let verdicts: Vec<bool> = verdicts.collect();
        assert_eq!(verdicts[verdicts.len() - 3], passes, "{verdicts:?}");
    }
}

#[test]
fn certain_application_outweighs_an_announcement() {
    let policy = "[[rule]]\nname = \"torrents\"\napp = \"bittorrent\"\naction = \"block\"\n\
        [[rule]]\nname = \"talk\"\napp = [\"irc\", \"dcc\"]\naction = \"audit\"\n";
    let mut gateway = governed(policy, enforcing());
    let mut packets = Packets::new();
    opening(
        &mut packets,
        &[b"PRIVMSG owl :\x01DCC SEND song.ogg 3325256711 5000 700\x01\r\n"],
    );
    let mut torrent = packets.tcp(at("10.0.0.8:40000"), at("198.51.100.7:5000"));
    torrent.open();
    torrent.client(&[b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat());
    let verdicts: Vec<bool> = packets
        .iter()
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
        .collect();
    assert_eq!(
        verdicts.last(),
        Some(&false),
        "a torrent passed for a chat's file"
    );
}

#[test]
fn observing_changes_no_bytes() {
    let mut gateway = gateway(NAMES, Mode::Observe);
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    let all: Vec<_> = packets
        .iter()
        .map(|(now, bytes)| (now, bytes.to_vec()))
        .collect();
    for (now, bytes) in &all {
        gateway.handle_packet(*now, LinkType::RawIp, bytes);
    }
    let (now, mut other) = all.last().unwrap().clone();
    let place = other.windows(5).position(|part| part == b"a.txt").unwrap();
    other[place..place + 5].copy_from_slice(b"b.exe");
    assert!(
        gateway
            .handle_packet(now, LinkType::RawIp, &other)
            .accepts()
    );
    assert_eq!(gateway.take_rewritten(), None);
}

/// A range of a file whose length is told, in chunks: which data is the last is known only when the
/// closing chunk comes.
#[test]
fn chunked_range_holds_its_last_data() {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(b"GET /part.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=0-699\r\n\r\n");
    stream.server(
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-699/1000000\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let mut body = noise(700);
    body[650..650 + VIRUS.len()].copy_from_slice(VIRUS);
    stream.server(&[b"2bc\r\n".as_slice(), &body].concat());
    stream.server(b"\r\n0\r\n\r\n");
    let run = run(
        &mut gateway(&format!("{SCAN}scan_parts = true\n"), Mode::Enforce),
        &packets,
        0,
        true,
    );
    let whole = run.arrived.windows(VIRUS.len()).any(|part| part == VIRUS);
    assert!(!whole && run.resets >= 2, "{:?}", run.events);
}

/// Both ends were told that the first connection is over; its client may use the port again.
#[test]
fn reused_port_of_blocked_connection_is_judged_again() {
    let mut gateway = gateway(NAMES, Mode::Enforce);
    let body = noise(3_000);
    let blocked = download("Setup.exe", &length(&body), &body);
    let first = run(&mut gateway, &blocked, 0, false);
    assert!(first.arrived.is_empty() && first.resets >= 2);
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.renumber(77_000, 99_000);
    stream.open();
    stream.client(b"GET /note.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.server(
        &[
            b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n".as_slice(),
            &body,
        ]
        .concat(),
    );
    let second = run(&mut gateway, &packets, 0, false);
    assert_eq!(second.resets, 0);
    assert!(second.arrived.ends_with(&body));
}
