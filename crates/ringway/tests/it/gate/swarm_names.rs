//! Names of torrents, as a BitTorrent library of others (libtorrent) shows them across a border: by
//! metadata for a magnet link, and in a `.torrent` file by HTTP. What a peer makes up is no name.

use std::fs::File;
use std::process::Stdio;

use ringway_testbed::{TestbedError, wait_until};
use serde_json::Value;

use super::beside::{Job, Tested, all, wrong};
use super::border::{Border, CLIENT, DEADLINE, SERVER, skipped};
use super::both::on_both;
use super::swarms::Client;

const PROGRAM: &str = "magnet.py";
const SEED_PORT: &str = "7001";
const FETCH_PORT: &str = "7002";
const LIE_PORT: &str = "7003";
/// Two pieces of metadata, of 20 bytes for each 16 KiB of content.
const LONG: u64 = 20 << 20;
const SHORT: u64 = 1 << 16;
const ALL: &str = "[gateway]\nnames = \"all\"\n";
/// A rule about torrents has their names looked for, too.
const RULE: &str = "[[rule]]\nname = \"denied\"\naction = \"block\"\n\
    infohash = \"0123456789abcdef0123456789abcdef01234567\"\n";

/// The infohashes that a program has said of a torrent.
fn hashes(said: &[String], name: &str) -> Vec<String> {
    let begin = format!("infohash {name} ");
    let lines = said.iter().filter_map(|line| line.strip_prefix(&begin));
    lines.map(str::to_owned).collect()
}

/// Waits until the torrent is in the table, with this name or without any.
fn is_shown(border: &Border, hashes: &[String], name: Option<&str>) -> Tested {
    let state = border.path("state");
    wait_until(DEADLINE, || {
        let swarms = border.ask(&["swarms", "--state", &state]).objects()?;
        let mut of = swarms.iter().filter(|swarm| {
            let seen = swarm["infohash"].as_str().unwrap_or("none");
            hashes.iter().any(|hash| hash.starts_with(seen)) && swarm["hosts"][0] == CLIENT
        });
        if of.any(|swarm| swarm["name"].as_str() == name) {
            return Ok(());
        }
        Err(TestbedError(format!("no {name:?} in {swarms:#?}")))
    })?;
    Ok(())
}

fn named(mode: &'static str, policy: &'static str) -> Job<'static> {
    let name = format!("names of torrents, {mode}");
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
        for (file, size) in [("A film.bin", LONG), ("A book.bin", SHORT)] {
            File::create(border.folder.path().join(file))?.set_len(size)?;
        }
        let folder = border.path("");
        let seed = Client::start(&border.server, PROGRAM, &["seed", &folder, SEED_PORT, mode]);
        let said = seed.until("ready").ok_or("no seed")?;
        let lies = Client::start(&border.server, PROGRAM, &["lie", &folder, LIE_PORT, mode]);
        let lie = hashes(&lies.until("ready").ok_or("no liar")?, "lie");
        let (film, book) = (hashes(&said, "A film"), hashes(&said, "A book"));
        border.up(policy, &["--enforce"]);

        let magnet = |hash: &str, port| format!("magnet:?xt=urn:btih:{hash}@{port}");
        let links = [
            magnet(&film[0], SEED_PORT),
            format!("http://{SERVER}:8080/A%20book.torrent@{SEED_PORT}"),
            magnet(&lie[0], LIE_PORT),
        ];
        let mut words = vec!["fetch", &folder, FETCH_PORT, mode, SERVER];
        words.extend(links.iter().map(String::as_str));
        let fetch = Client::start(&border.client, PROGRAM, &words);
        let (link, _) = links[0].rsplit_once('@').ok_or("no port")?;
        if fetch.until(&format!("metadata {link}")).is_none() {
            return wrong(border.daemon().log_text());
        }
        is_shown(&border, &film, Some("A film.bin"))?;
        // The packets of HTTP come to the gateway where all flows are named.
        if policy == ALL {
            is_shown(&border, &book, Some("A book.bin"))?;
        }
        if mode == "plain" {
            if lies.until("lied").is_none() {
                return wrong(border.daemon().log_text());
            }
            is_shown(&border, &lie, None)?;
        }
        let shown = border.ask(&["swarms", "--state", &border.path("state")]);
        let lied = |swarm: &Value| swarm["name"] == "A lie.bin";
        assert!(!shown.objects()?.iter().any(lied));
        border.seen()?;
        Ok(None)
    })
}

#[test]
fn torrents_are_called_by_their_metadata() -> Tested {
    all(vec![named("plain", ALL), named("utp", RULE)])
}
