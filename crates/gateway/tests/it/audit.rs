//! The audit: what is appended is found, by what it was asked for, and forgotten when its time is
//! over.

use std::os::unix::fs::PermissionsExt as _;

use std::time::Duration;

use ringway_gateway::audit::{AuditError, AuditStore, Search};

use ringway_gateway::verdict::{Event, Settings};
use ringway_gateway::{LinkType, Packets};

use super::{at, governed};

/// Events of torrents from these ports, a second apart.
fn events(ports: std::ops::Range<u16>) -> Vec<Event> {
    let text = "[[rule]]\nname = \"r\"\napp = \"bittorrent\"\naction = \"audit\"\n";
    let mut gateway = governed(text, Settings::default());
    for port in ports {
        let mut packets = Packets::starting_at(Duration::from_secs(1_000 + u64::from(port)));
        let mut stream = packets.tcp(([10, 0, 0, 5], port).into(), at("192.0.2.9:6881"));
        stream.open();
        stream.client(&[b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat());
        for (now, bytes) in packets.iter() {
            gateway.handle_packet(now, LinkType::RawIp, bytes);
        }
    }
    std::iter::from_fn(|| gateway.poll_event()).collect()
}

/// What is looked for among ten events, and how many there are.
fn cases() -> [(Search, usize); 7] {
    let all = || Search {
        most: 100,
        ..Search::default()
    };
    [
        (
            Search {
                app: Some("bittorrent".to_owned()),
                ..all()
            },
            10,
        ),
        (
            Search {
                app: Some("http".to_owned()),
                ..all()
            },
            0,
        ),
        (
            Search {
                rule: Some("r".to_owned()),
                ..all()
            },
            10,
        ),
        (
            Search {
                address: Some("192.0.2.9".to_owned()),
                ..all()
            },
            10,
        ),
        (
            Search {
                address: Some("10.0.0.6".to_owned()),
                ..all()
            },
            0,
        ),
        (
            Search {
                since: Some(Duration::from_secs(1_006)),
                ..all()
            },
            5,
        ),
        (
            Search {
                flow: Some(3),
                ..all()
            },
            1,
        ),
    ]
}

#[test]
fn events_are_found_by_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.db");
    let mut store = AuditStore::open(&file).unwrap();
    store.append(&events(1..11)).unwrap();
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Read by another process while the gateway writes.
    let reader = AuditStore::read(&file).unwrap();
    let count = |search: Search| reader.search(&search).unwrap().len();
    for (search, expected) in cases() {
        assert_eq!(count(search.clone()), expected, "{search:?}");
    }
}

#[test]
fn the_latest_are_told_when_few_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = AuditStore::open(&folder.path().join("audit.db")).unwrap();
    store.append(&events(1..11)).unwrap();
    let two = store
        .search(&Search {
            most: 2,
            ..Search::default()
        })
        .unwrap();
    let ports: Vec<bool> = ["\"src_port\":9,", "\"src_port\":10,"]
        .iter()
        .zip(&two)
        .map(|(port, body)| body.contains(port))
        .collect();
    assert_eq!(ports, [true, true], "{two:?}");
}

#[test]
fn expired_events_are_forgotten_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.db");
    let mut store = AuditStore::open(&file).unwrap();
    store.append(&events(1..11)).unwrap();
    drop(store);
    let mut store = AuditStore::open(&file).unwrap();
    // None before their time.
    assert_eq!(store.forget_before(Duration::from_secs(1_008)).unwrap(), 0);
    let search = Search {
        most: 100,
        ..Search::default()
    };
    assert_eq!(store.search(&search).unwrap().len(), 3);
}

#[test]
fn bound_in_bytes_evicts_the_oldest_events() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.db");
    let mut store = AuditStore::open(&file).unwrap();
    let bound = 400_000;
    let mut forgotten = 0;
    for batch in 0..40 {
        let from = 1 + batch * 100;
        store.append(&events(from..from + 100)).unwrap();
        forgotten += store.shrink_to(bound).unwrap();
    }
    let search = Search {
        most: 10_000,
        ..Search::default()
    };
    let left = store.search(&search).unwrap();
    assert!(forgotten > 0 && !left.is_empty());
    assert_eq!(u64::try_from(left.len()).unwrap() + forgotten, 4_000);
    assert!(
        left.last().unwrap().contains("\"flow_id\""),
        "the latest stay"
    );
    drop(store);
    let size = std::fs::metadata(&file).unwrap().len();
    assert!(size < 2 * bound, "{size}");
}

#[test]
fn what_is_no_audit_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.db");
    assert!(matches!(
        AuditStore::read(&missing),
        Err(AuditError::Database(..))
    ));
    let text = folder.path().join("text.db");
    std::fs::write(
        &text,
        "this is no database, and it is longer than a header of one",
    )
    .unwrap();
    assert!(matches!(
        AuditStore::open(&text),
        Err(AuditError::Database(..))
    ));
    assert!(matches!(
        AuditStore::open(folder.path()),
        Err(AuditError::File(..))
    ));
}
