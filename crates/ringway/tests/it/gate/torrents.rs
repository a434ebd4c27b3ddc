//! A real BitTorrent program on both sides of the border.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ringway_testbed::Host;

use super::border::{Border, DEADLINE, SERVER, skipped};
use crate::random_bytes;

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"p2p\"\naction = \"block\"\n";
const SEED_PORT: &str = "7001";
/// How long what is blocked is watched: the program tries again every two seconds.
const WATCHED: Duration = Duration::from_secs(60);

/// A running program; it ends with this.
struct Torrent {
    child: Child,
    lines: Receiver<String>,
}

impl Torrent {
    fn start(host: &Host, arguments: &[&str]) -> Torrent {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../testbed/programs/torrent.py"
        );
        let mut child = host
            .command("/usr/bin/python3")
            .arg(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                sender.send(line).ok();
            }
        });
        let torrent = Torrent { child, lines };
        assert!(
            torrent.says("ready", DEADLINE),
            "the BitTorrent program did not start"
        );
        torrent
    }

    /// Whether it says this within the time.
    fn says(&self, wanted: &str, time: Duration) -> bool {
        self.lines
            .recv_timeout(time)
            .is_ok_and(|line| line == wanted)
    }
}

impl Drop for Torrent {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A border with a file to seed. `None`: something is missing here, and stderr says so.
fn border(test: &str) -> Option<Border> {
    let there = std::process::Command::new("/usr/bin/python3")
        .args(["-c", "import libtorrent"])
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        return skipped(test, "python3-libtorrent");
    }
    let border = Border::new(test)?;
    std::fs::write(
        border.folder.path().join("file.bin"),
        random_bytes("torrent", 1 << 20),
    )
    .unwrap();
    Some(border)
}

fn seed_and_fetch(border: &Border, mode: &str) -> (Torrent, Torrent) {
    let folder = border.path("");
    let seed = Torrent::start(&border.server, &["seed", &folder, SEED_PORT, mode]);
    let arguments = ["fetch", &folder, "7002", mode, SERVER, SEED_PORT];
    let fetch = Torrent::start(&border.client, &arguments);
    (seed, fetch)
}

fn blocked(mode: &str) {
    let Some(mut border) = border(&format!("a blocked torrent, {mode}")) else {
        return;
    };
    border.up(BLOCK, &["--enforce"]);
    let (_seed, fetch) = seed_and_fetch(&border, mode);
    assert!(
        !fetch.says("done", WATCHED),
        "the torrent came through\n{}",
        border.daemon().log_text()
    );
    let events = border.audit_when(|events| {
        events
            .iter()
            .any(|event| event["alert"]["signature"] == "no-torrents")
    });
    for event in events {
        assert_eq!(event["alert"]["action"], "blocked", "{event}");
    }
}

#[test]
fn plain_torrents_are_blocked_and_stay_blocked() {
    blocked("plain");
}

#[test]
fn torrents_over_utp_are_blocked_and_stay_blocked() {
    blocked("utp");
}

#[test]
fn allowed_torrents_come_through_an_enforcing_gateway() {
    for mode in ["plain", "encrypted", "utp"] {
        let Some(mut border) = border(&format!("an allowed torrent, {mode}")) else {
            return;
        };
        border.up(&BLOCK.replace("p2p", "edonkey"), &["--enforce"]);
        let (_seed, fetch) = seed_and_fetch(&border, mode);
        assert!(
            fetch.says("done", DEADLINE),
            "{mode}: {}",
            border.daemon().log_text()
        );
        assert_eq!(border.status()["dropped"], 0);
    }
}

#[test]
fn an_observed_torrent_comes_through_and_is_written_down() {
    let Some(mut border) = border("an observed torrent") else {
        return;
    };
    border.up(BLOCK, &[]);
    let (_seed, fetch) = seed_and_fetch(&border, "plain");
    assert!(fetch.says("done", DEADLINE));
    let events = border.audit_when(|events| !events.is_empty());
    let flow = events[0]["flow_id"].to_string();
    let why = border.ask(&["why", &flow]).objects().unwrap().remove(0);
    assert_eq!(
        (&why["rule"], &why["action"]),
        (&"no-torrents".into(), &"block".into())
    );
    assert!(
        why["evidence"]
            .as_str()
            .unwrap()
            .contains("bittorrent.handshake"),
        "{why}"
    );
    assert_eq!(events[0]["app_proto"], "bittorrent");
    assert_eq!(events[0]["alert"]["action"], "allowed");
    assert_eq!(events[0]["alert"]["policy"], "block");
}

#[test]
fn encrypted_torrents_are_blocked_where_the_policy_acts_on_guesses() {
    let Some(mut border) = border("a blocked torrent, encrypted") else {
        return;
    };
    // Nothing but its shape tells of it here: the host speaks to no tracker and to one peer only.
    let policy = BLOCK.replace("action", "confidence = \"guess\"\naction");
    border.up(&policy, &["--enforce"]);
    let (_seed, fetch) = seed_and_fetch(&border, "encrypted");
    assert!(
        !fetch.says("done", WATCHED),
        "the torrent came through\n{}",
        border.daemon().log_text()
    );
    let events = border.audit_when(|events| !events.is_empty());
    assert_eq!(events[0]["app_proto"], "bittorrent");
}
