//! Audited files: their hashes, made of parts, and the files themselves where a rule keeps them.

use std::time::Duration;

use ringway_gateway::audit::{Digester, FileStore, FileStoreBounds};

use ringway_gateway::verdict::{Event, FileEnd, Gateway, Mode, Scanned};
use ringway_gateway::{LinkType, Packets};
use tempfile::TempDir;

use super::{at, enforcing, governed};

const AUDIT: &str = "[[rule]]\nname = \"a\"\napp = \"http\"\naction = \"allow\"\naudit = true\n";
const KEEP: &str =
    "[[rule]]\nname = \"k\"\napp = \"http\"\naction = \"allow\"\naudit_file = true\n";
const SIZE: usize = 200_000;

fn body() -> Vec<u8> {
    (0..SIZE)
        .map(|place| u8::try_from(place % 251).unwrap())
        .collect()
}

const SCAN: &str = "[[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\naudit_file = true\n";

/// A download, of which the last bytes may be missing.
fn download(missing: usize) -> Packets {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.2:4000"), at("192.0.2.1:80"));
    stream.open();
    stream.client(b"GET /file.bin HTTP/1.1\r\nHost: server\r\n\r\n");
    stream.server(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes());
    stream.server(&body()[..SIZE - missing]);
    packets
}

fn store(folder: &TempDir) -> FileStore {
    let bounds = FileStoreBounds {
        file: 1 << 20,
        total: 1 << 21,
        keep: Duration::from_secs(60),
    };
    FileStore::open(folder.path(), bounds).unwrap()
}

/// Takes the packets; answers the events about files, and how many parts there were and how large
/// the largest.
fn run(
    gateway: &mut Gateway,
    digester: &mut Digester,
    packets: &Packets,
) -> (Vec<Event>, usize, usize) {
    let (mut events, mut parts, mut largest) = (Vec::new(), 0, 0);
    for (now, bytes) in packets.iter() {
        let _ = gateway.handle_packet(now, LinkType::RawIp, bytes);
        while let Some(part) = gateway.poll_file_part() {
            parts += 1;
            largest = largest.max(part.bytes.len());
            let (event, failed) = digester.take(part);
            assert!(failed.is_none(), "{failed:?}");
            events.extend(event);
        }
    }
    (events, parts, largest)
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(bytes))
}

#[test]
fn file_is_kept_by_hash_where_rule_asks() {
    for (policy, kept) in [(KEEP, true), (AUDIT, false)] {
        let folder = TempDir::new().unwrap();
        let mut digester = Digester::new(Some(store(&folder)));
        let (events, parts, largest) = run(
            &mut governed(policy, enforcing()),
            &mut digester,
            &download(0),
        );
        assert!(parts >= 3 && largest < SIZE / 2, "{parts} {largest}");
        let info = events[0].fileinfo.as_ref().unwrap();
        let hash = sha256(&body());
        assert_eq!(
            (info.sha256.as_deref(), info.stored),
            (Some(hash.as_str()), kept)
        );
        let place = folder.path().join(&hash[..2]).join(&hash);
        assert_eq!(std::fs::read(place).ok(), kept.then(body));
    }
}

#[test]
fn a_file_that_is_cut_off_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let mut digester = Digester::new(Some(store(&folder)));
    let mut gateway = governed(KEEP, enforcing());
    let (events, parts, _) = run(&mut gateway, &mut digester, &download(10));
    assert!(events.is_empty() && parts > 0);
    gateway.finish(Duration::from_secs(1_000));
    let mut ends = 0;
    while let Some(part) = gateway.poll_file_part() {
        ends += usize::from(part.end == Some(FileEnd::CutOff));
        assert!(digester.take(part).0.is_none());
    }
    assert_eq!(ends, 1);
    let partial = std::fs::read_dir(folder.path().join("partial")).unwrap();
    assert_eq!(partial.count(), 0);
}

/// What is whole counts only once all of it was found clean.
#[test]
fn infected_file_is_neither_kept_nor_reported_whole() {
    for infected in [true, false] {
        let folder = TempDir::new().unwrap();
        let mut digester = Digester::new(Some(store(&folder)));
        let mut gateway = governed(SCAN, enforcing());
        let (mut whole, mut scans) = (Vec::new(), Vec::new());
        for (token, (now, bytes)) in (0..).zip(download(0).iter()) {
            let _ = gateway.handle_queued(now, token, LinkType::RawIp, bytes);
            scans.extend(std::iter::from_fn(|| gateway.poll_scan()));
        }
        for job in scans {
            while let Some(part) = gateway.poll_file_part() {
                whole.extend(digester.take(part).0);
            }
            assert!(whole.is_empty(), "before the last window");
            let scanned = if infected && job.last {
                Scanned::Found("virus".to_owned())
            } else {
                Scanned::Clean
            };
            gateway.handle_scanned(Duration::from_secs(1), &job, &scanned);
        }
        while let Some(part) = gateway.poll_file_part() {
            whole.extend(digester.take(part).0);
        }
        let hash = sha256(&body());
        let place = folder.path().join(&hash[..2]).join(&hash);
        assert_eq!(whole.len(), usize::from(!infected));
        assert_eq!(place.exists(), !infected);
        let partial = std::fs::read_dir(folder.path().join("partial")).unwrap();
        assert_eq!(partial.count(), 0);
    }
}

#[test]
fn observing_passes_findings_and_holds_nothing() {
    let mut gateway = governed(SCAN, enforcing());
    let mut scans = Vec::new();
    let mut held = 0;
    for (token, (now, bytes)) in (0..).zip(download(0).iter()) {
        held += usize::from(
            gateway
                .handle_queued(now, token, LinkType::RawIp, bytes)
                .is_held(),
        );
        scans.extend(std::iter::from_fn(|| gateway.poll_scan()));
    }
    assert!(held > 0);
    gateway.set_mode(Mode::Observe);
    for job in scans {
        gateway.handle_scanned(
            Duration::from_secs(1),
            &job,
            &Scanned::Found("virus".to_owned()),
        );
    }
    let released: Vec<bool> = std::iter::from_fn(|| gateway.poll_released())
        .map(|(_, verdict)| verdict.accepts())
        .collect();
    assert_eq!(released, vec![true; held]);
}
