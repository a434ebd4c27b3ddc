//! A BitTorrent library of others (libtorrent) on both sides of the border.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ringway_testbed::Host;
use serde_json::Value;

use super::beside::{
    BRIEFLY, Job, SLOW, Tested, all, comes_at, dropped, every, refused, slowed, stays_blocked,
    up_to_shape, wrong,
};
use super::border::{Border, DEADLINE, SERVER, skipped};
use super::both::{Compared, GatePath, on_both};
use super::clients::{GUESSED, RESTART_AFTER};
use crate::random_bytes;

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"p2p\"\naction = \"block\"\n";
const SEED_PORT: &str = "7001";
const SHORT: usize = 1 << 20;
/// More than comes while a class is measured.
const LONG: usize = 24 << 20;

/// Starts a program of the testbed with this library, and takes its lines.
pub(super) fn start_library(
    host: &Host,
    script: &str,
    arguments: &[&str],
) -> (Child, Receiver<String>) {
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testbed/programs");
    let mut child = host
        .command("/usr/bin/python3")
        .arg(format!("{programs}/{script}"))
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
    (child, lines)
}

/// A running program; it ends with this.
struct Torrent {
    child: Child,
    lines: Receiver<String>,
}

impl Torrent {
    fn start(host: &Host, arguments: &[&str]) -> Torrent {
        let (child, lines) = start_library(host, "torrent.py", arguments);
        let torrent = Torrent { child, lines };
        assert!(
            torrent.says("ready", DEADLINE),
            "the BitTorrent program did not start"
        );
        torrent
    }

    /// Whether it says this within the time, whatever it says before.
    fn says(&self, wanted: &str, time: Duration) -> bool {
        let end = Instant::now() + time;
        let left = || end.saturating_duration_since(Instant::now());
        while let Ok(line) = self.lines.recv_timeout(left()) {
            if line == wanted {
                return true;
            }
        }
        false
    }

    /// What it has said since it was asked last.
    fn said(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }
}

impl Drop for Torrent {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A border with a file of this size to seed. `None`: something is missing here, and stderr says
/// so.
fn border(test: &str, size: usize, path: GatePath) -> Option<Border> {
    let there = std::process::Command::new("/usr/bin/python3")
        .args(["-c", "import libtorrent"])
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        return skipped(test, "python3-libtorrent");
    }
    let border = Border::on(test, path)?;
    std::fs::write(
        border.folder.path().join("file.bin"),
        random_bytes("torrent", size),
    )
    .unwrap();
    Some(border)
}

fn seed_and_fetch(border: &Border, mode: &str) -> (Torrent, Torrent) {
    let folder = border.path("");
    let seed = Torrent::start(&border.server, &["seed", &folder, SEED_PORT, mode]);
    (seed, fetch(border, mode))
}

fn fetch(border: &Border, mode: &str) -> Torrent {
    let arguments = ["fetch", &border.path(""), "7002", mode, SERVER, SEED_PORT];
    Torrent::start(&border.client, &arguments)
}

/// How much of the file there is, where it says so; all of it, where it says anything else.
fn bytes_of(line: &str) -> u64 {
    let bytes = line
        .strip_prefix("has ")
        .and_then(|bytes| bytes.parse().ok());
    bytes.unwrap_or(u64::MAX)
}

/// The program gives up after some attempts: it is started again.
fn blocked(mode: &'static str) -> Job<'static> {
    let name = format!("blocked libtorrent, {mode}");
    on_both(name.clone(), move |path| {
        // Where it is encrypted, nothing but its shape tells of it: the host speaks to no tracker
        // and to one peer only. What comes before that can be guessed is a small part.
        let guessed = mode == "encrypted";
        let (size, most) = if guessed { (LONG, GUESSED) } else { (SHORT, 0) };
        let Some(mut border) = border(&name, size, path) else {
            return Ok(None);
        };
        let policy = match guessed {
            true => BLOCK.replace("action", "confidence = \"guess\"\naction"),
            false => BLOCK.to_owned(),
        };
        border.up(&policy, &BRIEFLY);
        let (_seed, fetching) = seed_and_fetch(&border, mode);
        let fetching = RefCell::new(Some(fetching));
        let port: u16 = SEED_PORT.parse()?;
        let to_seed = |event: &Value| event["dest_port"] == port;
        stays_blocked(
            || match mode {
                "utp" => dropped(&border),
                _ => refused(&border, to_seed),
            },
            || {
                let said = fetching.borrow().as_ref().and_then(Torrent::said);
                said.filter(|line| bytes_of(line) > most)
            },
            every(RESTART_AFTER, || {
                // The port is the same one.
                fetching.take();
                fetching.replace(Some(fetch(&border, mode)));
                Ok(())
            }),
        )?;
        let events = border.audit_when(|events| {
            let mut events = events.iter().filter(|event| to_seed(event));
            events.any(|event| {
                event["ringway"]["rule"] == "no-torrents" && event["ringway"]["app"] == "bittorrent"
            })
        });
        match events
            .iter()
            .find(|event| event["ringway"]["action"] != "blocked")
        {
            None => border.seen_again(),
            Some(event) => wrong(event.to_string()),
        }
    })
}

/// Those that are blocked, and try again and again.
pub(super) fn all_blocked() -> Vec<Job<'static>> {
    ["plain", "encrypted", "utp"].map(blocked).into()
}

/// The file comes as fast as its class lets it.
fn shaped(mode: &'static str) -> Job<'static> {
    let name = format!("shaped libtorrent, {mode}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border(&name, LONG, path) else {
            return Ok(None);
        };
        let policy = match mode {
            "encrypted" => slowed("bittorrent").replace("action", "confidence = \"guess\"\naction"),
            _ => slowed("bittorrent"),
        };
        up_to_shape(&mut border, &policy);
        let (_seed, _fetch) = seed_and_fetch(&border, mode);
        comes_at(SLOW, &border, String::new)?;
        border.seen()
    })
}

/// Those that get a class of their own.
pub(super) fn all_shaped() -> Vec<Job<'static>> {
    ["plain", "encrypted", "utp"].map(shaped).into()
}

fn allowed(mode: &'static str) -> Job<'static> {
    let name = format!("an allowed torrent, {mode}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border(&name, SHORT, path) else {
            return Ok(None);
        };
        border.up(&BLOCK.replace("p2p", "edonkey"), &["--enforce"]);
        let (_seed, fetch) = seed_and_fetch(&border, mode);
        if !fetch.says("done", DEADLINE) {
            return wrong(border.daemon().log_text());
        }
        assert_eq!(border.status()["dropped"], 0);
        border.seen()
    })
}

#[test]
fn allowed_torrents_come_through_an_enforcing_gateway() -> Tested {
    all(["plain", "encrypted", "utp"].map(allowed).into())
}

#[test]
fn observed_torrent_passes_and_is_audited() -> Tested {
    all(vec![on_both("an observed torrent", observed)])
}

fn observed(path: GatePath) -> Compared {
    let Some(mut border) = border("an observed torrent", SHORT, path) else {
        return Ok(None);
    };
    border.up(BLOCK, &[]);
    let (_seed, fetch) = seed_and_fetch(&border, "plain");
    assert!(fetch.says("done", DEADLINE));
    let events = border.audit_when(|events| !events.is_empty());
    let flow = events[0]["flow_id"].to_string();
    let why = border.ask(&["why", &flow]).objects()?.remove(0);
    assert_eq!(
        (&why["rule"], &why["action"]),
        (&"no-torrents".into(), &"block".into())
    );
    let evidence = why["evidence"].as_str().unwrap_or_default();
    assert!(evidence.contains("bittorrent.handshake"), "{why}");
    assert_eq!(events[0]["ringway"]["app"], "bittorrent");
    assert_eq!(events[0]["ringway"]["action"], "allowed");
    assert_eq!(events[0]["ringway"]["policy"], "block");
    // The seed may connect to the peer that asks it before it hears that they are connected.
    let seen = border.seen()?;
    Ok(seen.map(|seen| seen.without_connections_from(SERVER)))
}
