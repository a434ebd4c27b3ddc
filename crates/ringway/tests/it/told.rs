//! What a member's log tells of files and links, at the level that it has without options.

use std::fs;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};

use super::{program, transfer_when};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

/// The line of the member's log that has all of these.
fn line(ring: &Ring, name: &str, parts: &[&str]) -> String {
    let member = ring.member(name).unwrap();
    let found = wait_until(DEADLINE, || {
        let log = member.log_text();
        let mut lines = log.lines();
        let line = lines.find(|line| parts.iter().all(|part| line.contains(part)));
        line.map(str::to_owned).ok_or(TestbedError(log))
    });
    found.unwrap_or_else(|error| panic!("{parts:?}: {error}"))
}

fn send(ring: &Ring, text: &str, ends: &str) {
    let file = ring.folder().join("a \u{1b}[2J file.txt");
    fs::write(&file, text).unwrap();
    let member = ring.member("oslo").unwrap();
    let words = ["send", file.to_str().unwrap(), "lima", "--detach"];
    let queued = member.call(&words).unwrap();
    let id = queued[0]["id"].as_str().unwrap().to_owned();
    transfer_when(ring, "oslo", &id, |transfer| transfer["state"] == ends);
}

#[test]
fn log_tells_of_files_and_links() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    line(
        &ring,
        "oslo",
        &["INFO", "a link is up member=\"lima\" address=\"udp://"],
    );
    send(&ring, "twelve bytes", "done");
    let hash = format!("hash=\"{}\"", blake3::hash(b"twelve bytes").to_hex());
    let inbox = ring.member("lima").unwrap().home.join("inbox");
    let inbox = format!("path=\"{}", inbox.display());
    let came = line(
        &ring,
        "lima",
        &["a file was received from=\"oslo\"", &hash, &inbox],
    );
    assert!(
        came.contains("size=12") && !came.contains('\u{1b}'),
        "{came}"
    );
    line(
        &ring,
        "oslo",
        &["a file was sent to=\"lima\"", "size=12", &hash, "path=\"/"],
    );
    let lima = ring.member_mut("lima").unwrap();
    let file = lima.home.join("ringway.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("from = [\"*\"]", "from = []")).unwrap();
    lima.reload().unwrap();
    line(&ring, "lima", &["the configuration was loaded again"]);
    send(&ring, "not taken", "failed");
    let reason = "reason=\"lima takes no files from oslo\"";
    line(
        &ring,
        "lima",
        &[
            "a file was refused from=\"oslo\"",
            "size=9",
            "hash=",
            reason,
        ],
    );
    line(
        &ring,
        "oslo",
        &["a file was not sent to=\"lima\"", "size=9"],
    );
    ring.member_mut("lima").unwrap().terminate().unwrap();
    let reason = "reason=\"the other member has ended it\"";
    line(&ring, "oslo", &["a link has ended member=\"lima\"", reason]);
    line(
        &ring,
        "lima",
        &["a link has ended member=\"oslo\" reason=\"this member stops\""],
    );
}
