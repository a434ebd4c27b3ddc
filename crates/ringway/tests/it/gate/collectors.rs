//! Events as a collector of Suricata's reads them: FEVER, which Debian has. It stands between a
//! sensor and those who keep events, parses each, and adds up flows and names by itself.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use ringway_testbed::Running;
use serde_json::Value;

use super::beside::{Tested, until, wrong};
use super::border::{Border, CLIENT, SERVER, skipped};
use super::scans::{fetch, serve};
use crate::random_bytes;

const POLICY: &str = "[[rule]]\nname = \"none\"\napp = \"http\"\nfile_name = \"*.exe\"\n\
    action = \"block\"\n[[rule]]\nname = \"seen\"\napp = \"http\"\naction = \"audit\"\n";
const KINDS: &str = "alert,drop,flow,fileinfo,http";
const PORT: u16 = 8_001;

/// FEVER, which listens at this socket and keeps to itself what it makes of the events. `None`: it
/// is not installed.
fn fever(border: &Border, socket: &str) -> Tested<Option<Running>> {
    if Command::new("fever").arg("version").output().is_err() {
        return Ok(skipped("events at a collector", "fever"));
    }
    let mut command = Command::new("fever");
    command.args(["run", "--verbose", "--dummy", "--metrics-enable"]);
    // Whatever comes is read, however much at once.
    command.args([
        "--in-buffer-drop=false",
        "--out-socket",
        "",
        "--in-socket",
        socket,
    ]);
    command.args(["--flushtime", "1s", "--flowreport-interval", "1s"]);
    command.args(["--flowreport-nocompress", "--mgmt-socket"]);
    command.arg(border.path("fever-mgmt.sock"));
    let log = border.folder.path().join("fever.log");
    Ok(Some(Running::start(command, &log)?))
}

/// How many events of each kind it has parsed: it says so every ten seconds, for those since.
fn parsed(log: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for part in log.split([',', ' ', '"']) {
        let Some((kind, count)) = part.strip_prefix("count.").and_then(|s| s.split_once('='))
        else {
            continue;
        };
        *counts.entry(kind.to_owned()).or_default() += count.parse::<u64>().unwrap_or(0);
    }
    counts
}

/// Bytes from the server that it has added up for flows to this port.
fn added_up(log: &str) -> u64 {
    let tuple = format!("{CLIENT}_{SERVER}_{PORT}");
    let reports = log.lines().filter_map(|line| {
        let line = line.replace("\\\"", "\"");
        let begin = line.find("{\"sensor-id\"")?;
        let text = line.get(begin..)?.split("\" domain=").next()?;
        serde_json::from_str::<Value>(text).ok()
    });
    let bytes =
        reports.filter_map(|report| report["tuples"][&tuple]["total_bytes_toclient"].as_u64());
    bytes.sum()
}

/// The same of a file of events.
fn written(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.filter_map(Result::ok).collect()
}

#[test]
fn collector_parses_every_kind_and_adds_up_flows() -> Tested {
    let Some(mut border) = Border::new("events at a collector") else {
        return Ok(());
    };
    let (socket, file) = (border.path("fever.sock"), border.path("eve.json"));
    let Some(fever) = fever(&border, &socket)? else {
        return Ok(());
    };
    let log = || fever.log_text();
    until("no socket of the collector", log, || {
        fs::exists(&socket).unwrap_or(false)
    })?;
    serve(&border, PORT, random_bytes("collector", 300_000), true);
    let reader = format!("unix:{socket}");
    border.up(
        POLICY,
        &[
            "--enforce",
            "--eve",
            &reader,
            "--eve",
            &file,
            "--eve-types",
            KINDS,
        ],
    );
    fetch(&border, PORT, "film.mpg");
    fetch(&border, PORT, "game.exe");
    // A new connection that matches the blocked one.
    fetch(&border, PORT, "game.exe");
    let of = |kind: &str| {
        let events = written(&file);
        let found = events
            .into_iter()
            .filter(|event| event["event_type"] == kind);
        found.collect::<Vec<_>>()
    };
    let all = ["alert", "flow", "fileinfo", "http"];
    until("not every kind was written", log, || {
        all.iter().all(|kind| !of(kind).is_empty())
    })?;
    border.daemon().terminate()?;

    let alike = || {
        all.iter().all(|kind| {
            let count = u64::try_from(of(kind).len()).unwrap_or(u64::MAX);
            parsed(&log()).get(*kind) == Some(&count)
        })
    };
    until("the collector has not parsed what was written", log, alike)?;
    let flows = of("flow");
    let to_port = flows.iter().filter(|event| event["dest_port"] == PORT);
    let bytes: u64 = to_port
        .filter_map(|event| event["flow"]["bytes_toclient"].as_u64())
        .sum();
    until("the collector adds up otherwise", log, || {
        added_up(&log()) == bytes
    })?;
    match bytes > 300_000 && !log().contains("level=error") {
        true => Ok(()),
        false => wrong(format!("{bytes} bytes: {}", log())),
    }
}
