//! A gateway between two ports of a bridge.

use super::border::{Border, file_of};
use super::scans::{fetch, serve};
use super::web;
use crate::random_bytes;

const POLICY: &str = "[classes.bulk]\nrate = \"16 Mbit/s\"\n\n[[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\n[[rule]]\nname = \"films\"\napp = \"http\"\nport = 80\naction = \"shape\"\nclass = \"bulk\"\n\n[[rule]]\nname = \"rest\"\napp = \"http\"\naction = \"scan\"\naudit = true\nfailure = \"closed\"\n";

#[test]
fn bridged_files_are_filtered_scanned_and_shaped() {
    let Some(mut border) = Border::bridged("a bridge") else {
        return;
    };
    let body = random_bytes("bridged", 1 << 20);
    let needle = b"a needle in the hay";
    let mut infected = body.clone();
    infected[500_000..500_000 + needle.len()].copy_from_slice(needle);
    serve(&border, 8_001, body.clone(), true);
    serve(&border, 8_002, infected, true);
    web::serve(&border, web::ENOUGH);
    let rules = border.file(
        "own.yar",
        "rule Needle { strings: $a = \"a needle in the hay\" condition: $a }",
    );
    border.up(
        POLICY,
        &["--enforce", "--bridged", "--yara", rules.to_str().unwrap()],
    );
    assert!(
        fetch(&border, 8_001, "clean.bin") == body,
        "{}",
        border.status()
    );
    assert!(fetch(&border, 8_002, "infected.bin").len() < body.len());
    assert!(fetch(&border, 8_001, "game.exe").is_empty());
    let events = border.audit_when(|events| {
        let files = events.iter().filter(|event| file_of(event).is_object());
        files.count() == 3
    });
    let found = |event: &serde_json::Value| event["ringway"]["found"] == "Needle";
    let named = |event: &serde_json::Value| file_of(event)["filename"] == "game.exe";
    assert!(
        events.iter().any(found) && events.iter().any(named),
        "{events:?}"
    );
    let status = border.status();
    assert_eq!(status["resets_failed"], 0, "{status}");
    assert!(status["resets"].as_u64() >= Some(4), "{status}");
    // What frames of its own leave by takes none in: no protocol, and not among those that get
    // packets.
    let sockets = border.gateway.check(&["cat", "/proc/net/packet"]).unwrap();
    let running: Vec<&str> = sockets
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().nth(5).unwrap())
        .collect();
    assert_eq!(running, ["0"], "{sockets}");
    let mut stream = web::get(&border);
    // Past the beginning, which the class's burst and the buffers let through faster.
    web::take(&mut stream, 2 << 20);
    web::comes_by_its_class(&mut stream);
    border.daemon().terminate().unwrap();
    assert_eq!(border.traces(), "");
}
