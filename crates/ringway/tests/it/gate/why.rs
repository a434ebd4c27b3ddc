//! `ringway gate why` of a live flow: the packets that it was decided upon, as text, JSON and
//! capture.

use super::border::Border;
use super::scans::{fetch, serve};

const BLOCK: &str =
    "[[rule]]\nname = \"no-programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";

#[test]
fn blocked_flow_shows_the_request_that_decided() {
    let Some(mut border) = Border::new("why") else {
        return;
    };
    serve(&border, 8_001, b"not really a program".to_vec(), true);
    border.up(BLOCK, &["--enforce"]);
    assert!(fetch(&border, 8_001, "game.exe").is_empty());
    let flows = border.ask(&["flows", "--app", "http"]);
    let flow: serde_json::Value =
        serde_json::from_str(flows.stdout.lines().next().unwrap()).unwrap();
    let number = flow["flow_id"].to_string();
    let pcap = border.path("why.pcap");

    let control = border.path("gate.sock");
    let words = [
        "gate",
        "why",
        &number,
        "--pcap",
        &pcap,
        "--control",
        &control,
    ];
    let shown = border.program().run(words).unwrap();
    for words in [
        "block by no-programs",
        "named the application",
        "was blocked",
        "GET /game.exe",
    ] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    let json = border.ask(&["why", &number]);
    let why: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(why["action"], "block", "{why}");
    let deciding = why["trace"]
        .as_array()
        .unwrap()
        .iter()
        .find(|packet| packet["blocked"] == true);
    assert!(deciding.is_some(), "{why}");

    // Others read the capture, too.
    let named = border
        .program()
        .run(["gate", "classify", "--json", &pcap])
        .unwrap();
    assert!(
        named.stdout.contains("\"app\":\"http\""),
        "{}",
        named.stdout
    );

    let stranger = border.ask(&["why", "123456"]);
    assert_ne!(stranger.code, Some(0));
    assert!(
        stranger.stderr.contains("gate audit --flow 123456"),
        "{}",
        stranger.stderr
    );
}
