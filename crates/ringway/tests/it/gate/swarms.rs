//! One torrent of a client is refused, and its other one goes on: a BitTorrent library of others
//! (libtorrent) on both sides of a border that translates addresses.

use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use ringway_testbed::{Host, TestbedError, wait_until};

use serde_json::Value;

use super::beside::{Job, Tested, all, wrong};
use super::border::{Border, CLIENT, DEADLINE, SERVER, skipped};
use super::both::on_both;
use super::torrents::start_library;
use crate::random_bytes;

const PROGRAM: &str = "torrents.py";
const SEED_PORT: &str = "7001";
const FETCH_PORT: &str = "7002";
/// How long a transfer may take: a library tries again after a while.
const PATIENCE: Duration = DEADLINE.saturating_mul(3);
const SIZE: usize = 1 << 20;
const POLICY: &str =
    "[[rule]]\nname = \"denied\"\ninfohash = \"file:denied.txt\"\naction = \"block\"\n";

/// A running program; it ends with this.
pub(super) struct Client {
    child: Child,
    lines: Receiver<String>,
}

impl Client {
    pub(super) fn start(host: &Host, program: &str, arguments: &[&str]) -> Client {
        let (child, lines) = start_library(host, program, arguments);
        Client { child, lines }
    }

    /// What it says up to this line; `None`: it does not say it in time.
    pub(super) fn until(&self, wanted: &str) -> Option<Vec<String>> {
        let end = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).ok()?;
            let is_last = line == wanted;
            said.push(line);
            if is_last {
                return Some(said);
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Of version 2 packets have the first 20 bytes.
fn is_of(hashes: &[String], seen: &Value) -> bool {
    let seen = seen.as_str().unwrap_or("none");
    hashes.iter().any(|hash| hash.starts_with(seen))
}

/// Who was in which swarm, and as whom the outside saw it. What has just ended is written down a
/// moment later.
fn swarms_are_told(border: &Border, denied: &[String], allowed: &[String]) -> Tested {
    let state = border.path("state");
    wait_until(DEADLINE, || {
        let swarms = border.ask(&["swarms", "--state", &state]).objects()?;
        let has = |hashes: &[String]| {
            let mut swarms = swarms.iter();
            swarms.any(|swarm| is_of(hashes, &swarm["infohash"]) && swarm["hosts"][0] == CLIENT)
        };
        if has(denied) && has(allowed) {
            return Ok(());
        }
        Err(TestbedError(format!("swarms are {swarms:#?}")))
    })?;
    wait_until(DEADLINE, || {
        let mut flows = Vec::new();
        for hash in allowed {
            let words = ["swarms", "--state", &state, "--infohash", hash];
            flows.extend(border.ask(&words).objects()?);
        }
        let mut outside = flows.iter().filter_map(|flow| flow["outside"].as_str());
        if outside.any(|outside| outside.starts_with("198.51.100.1:")) {
            return Ok(());
        }
        Err(TestbedError(format!("flows are {flows:#?}")))
    })?;
    Ok(())
}

fn refused(mode: &'static str) -> Job<'static> {
    let name = format!("one refused torrent of two, {mode}");
    on_both(name.clone(), move |path| {
        let there = std::process::Command::new("/usr/bin/python3")
            .args(["-c", "import libtorrent"])
            .stderr(Stdio::null())
            .status();
        if !there.is_ok_and(|status| status.success()) {
            return Ok(skipped(&name, "python3-libtorrent"));
        }
        let Some(mut border) = Border::on(&name, path) else {
            return Ok(None);
        };
        border.masquerade()?;
        for torrent in ["denied", "allowed"] {
            let bytes = random_bytes(torrent, SIZE);
            std::fs::write(
                border.folder.path().join(torrent).with_extension("bin"),
                bytes,
            )?;
        }
        let folder = border.path("");
        let seed = Client::start(&border.server, PROGRAM, &["seed", &folder, SEED_PORT, mode]);
        let said = seed.until("ready").ok_or("no seed")?;
        let hashes = |torrent: &str| -> Vec<String> {
            let begin = format!("infohash {torrent} ");
            let lines = said.iter().filter_map(|line| line.strip_prefix(&begin));
            lines.map(str::to_owned).collect()
        };
        let (denied, allowed) = (hashes("denied"), hashes("allowed"));
        border.file("denied.txt", &format!("{}\n", denied.join("  a film\n")));
        border.up(POLICY, &["--enforce"]);
        let arguments = ["fetch", &folder, FETCH_PORT, mode, SERVER, SEED_PORT];
        let fetch = Client::start(&border.client, PROGRAM, &arguments);
        let Some(said) = fetch.until("done allowed") else {
            return wrong(border.daemon().log_text());
        };
        assert!(
            !said.iter().any(|line| line.starts_with("has denied")),
            "{said:?}"
        );
        let events = border.audit_when(|events| {
            let mut events = events.iter();
            events.any(|event| is_of(&denied, &event["ringway"]["infohash"]))
        });
        let of_rule = |event: &&Value| event["ringway"]["rule"] != "denied";
        assert!(!events.iter().any(|event| of_rule(&event)), "{events:?}");

        swarms_are_told(&border, &denied, &allowed)?;

        // What is on the list no more comes through.
        border.file("new.txt", "# nothing\n");
        std::fs::rename(
            border.folder.path().join("new.txt"),
            border.folder.path().join("denied.txt"),
        )?;
        if fetch.until("done denied").is_none() {
            return wrong(border.daemon().log_text());
        }
        let lists = &border.status()["feeds"];
        assert_eq!(lists[0]["entries"], 0, "{lists}");
        border.seen()?;
        Ok(None)
    })
}

#[test]
fn refused_torrent_leaves_the_other_one_alone() -> Tested {
    all(vec![refused("plain"), refused("utp")])
}
