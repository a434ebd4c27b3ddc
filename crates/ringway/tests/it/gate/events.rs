//! Events as EVE on a live gateway: to a file that is renamed, to readers at sockets, and over a
//! restart.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::beside::{Tested, until, wrong};
use super::border::{Border, DEADLINE};
use super::both::on_each;
use super::scans::{fetch, serve};
use crate::random_bytes;

const AUDIT: &str = "[[rule]]\nname = \"seen\"\napp = \"http\"\naction = \"audit\"\n";

/// The lines that a reader at this socket gets.
fn reader(path: &str) -> Tested<Receiver<String>> {
    let listener = UnixListener::bind(path)?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                sender.send(line).ok();
            }
        }
    });
    Ok(lines)
}

/// The events of a file so far; half a line is none.
fn events(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn one<'a>(events: &'a [Value], kind: &str) -> Option<&'a Value> {
    events.iter().find(|event| event["event_type"] == kind)
}

/// Each kind is there, with what it has to say of a download.
fn complete(first: &[Value]) -> Tested {
    let flow = one(first, "flow").map(|event| &event["flow"]);
    if flow.is_none_or(|flow| flow["bytes_toclient"].as_u64() < Some(300_000)) {
        return wrong(format!("not all is counted: {flow:#?}"));
    }
    for kind in ["alert", "fileinfo", "http"] {
        let Some(event) = one(first, kind) else {
            return wrong(format!("no {kind}: {first:#?}"));
        };
        let known = event["host"] == "gate-1" && event["flow_id"].as_u64() > Some(1 << 40);
        if !known || event["http"]["hostname"].is_null() {
            return wrong(format!("{event:#}"));
        }
    }
    // The alert came of a packet, and its interface is one of the border's.
    let by = one(first, "alert").map(|event| event["in_iface"].clone());
    if !by.is_some_and(|by| by.is_string()) {
        return wrong(format!("no interface: {first:#?}"));
    }
    Ok(())
}

#[test]
fn eve_goes_to_files_and_sockets() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("EVE", path) else {
            return Ok(());
        };
        serve(&border, 8_001, random_bytes("eve", 300_000), true);
        let (eve, socket, log) = (
            border.path("eve.json"),
            border.path("reader.sock"),
            border.path("log.sock"),
        );
        let lines = reader(&socket)?;
        let syslog = UnixDatagram::bind(&log)?;
        syslog.set_read_timeout(Some(DEADLINE))?;
        let places = [format!("unix:{socket}"), format!("syslog:{log}")];
        let arguments = [
            ["--eve", &eve],
            ["--eve", &places[0]],
            ["--eve", &places[1]],
            ["--eve-types", "alert,fileinfo,flow,http"],
            ["--sensor", "gate-1"],
        ];
        let arguments = arguments.concat();
        border.up(AUDIT, &arguments);
        fetch(&border, 8_001, "first.bin");
        let written = || format!("{:#?}", events(&eve));
        until("no file in EVE", written, || {
            one(&events(&eve), "fileinfo").is_some()
        })?;
        until("no flow in EVE", written, || {
            one(&events(&eve), "flow").is_some()
        })?;
        let first = events(&eve);
        complete(&first)?;
        let line = lines.recv_timeout(DEADLINE)?;
        serde_json::from_str::<Value>(&line)?;
        let mut message = [0; 8_192];
        let length = syslog.recv(&mut message)?;
        let message = String::from_utf8_lossy(&message[..length]).into_owned();
        if !message.contains(" gate-1 ringway ") {
            return wrong(message);
        }
        fs::rename(&eve, border.path("eve.json.older"))?;
        fetch(&border, 8_001, "second.bin");
        until("no new file", written, || {
            one(&events(&eve), "fileinfo").is_some()
        })?;
        let before = first.iter().filter_map(|event| event["flow_id"].as_u64());
        let last = before.max();
        border.daemon().terminate()?;
        border.up(AUDIT, &arguments);
        fs::remove_file(&eve)?;
        fetch(&border, 8_001, "third.bin");
        until("no file after a restart", written, || {
            one(&events(&eve), "fileinfo").is_some()
        })?;
        let after = events(&eve);
        let numbers = || after.iter().map(|event| event["flow_id"].as_u64());
        match numbers().all(|number| number > last) {
            true => Ok(()),
            false => wrong(format!(
                "numbers again: {last:?}, {:?}",
                numbers().collect::<Vec<_>>()
            )),
        }
    })
}
