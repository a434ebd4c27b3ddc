//! Caps on what transfers send, in all and by one interface: kept, shown, and no matter to those
//! that leave by another.

use std::fs;
use std::time::{Duration, Instant};

use ringway_testbed::{Ring, RingBuilder};
use serde_json::{Value, json};

use super::{program, random_bytes, transfer_when};

/// Bytes a second.
const CAP: u64 = 2 << 20;

/// Two routers on loopback, one of which has these caps: that of the process, and tables of
/// interfaces.
fn ring(upload: u64, interfaces: &str) -> Ring {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .absent_router("lima");
    let mut ring = builder.start().unwrap();
    let lima = ring.member_mut("lima").unwrap();
    lima.configure("[\"udp\", \"tcp\", \"quic\"]", interfaces)
        .unwrap();
    // `ringway join` has written one, and a key may be there once only.
    let file = lima.home.join("ringway.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, after) = text.split_once("\nupload = 0\n").unwrap();
    fs::write(&file, format!("{before}\nupload = {upload}\n{after}")).unwrap();
    lima.start().unwrap();
    ring.wait_until_settled().unwrap();
    ring
}

fn queue(ring: &Ring, size: usize, priority: &str) -> String {
    let file = ring.folder().join(format!("capped-{priority}.bin"));
    fs::write(&file, random_bytes("capped", size)).unwrap();
    let member = ring.member("lima").unwrap();
    let arguments = ["send", file.to_str().unwrap(), "oslo", "--detach"];
    let arguments = [&arguments[..], &["--priority", priority]].concat();
    let queued = member.call(&arguments).unwrap();
    queued[0]["id"].as_str().unwrap().to_owned()
}

/// What a command prints for people.
fn shown(ring: &Ring, command: &str) -> String {
    let home = &ring.member("lima").unwrap().home;
    super::run(&["--home", home.to_str().unwrap(), command]).stdout
}

/// The note of `ringway transfers` on a transfer.
fn note(ring: &Ring, id: &str) -> String {
    let text = shown(ring, "transfers");
    let line = text.lines().find(|line| line.starts_with(&id[..8]));
    // Columns are at least two spaces apart, and behind the note there is only the path.
    let columns = line.into_iter().flat_map(|line| line.rsplit("  "));
    let mut columns = columns.map(str::trim).filter(|column| !column.is_empty());
    let note = columns.nth(1);
    note.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Looks at a transfer under the only cap that there is: it keeps to it and says whose cap it is.
/// The rate is one over a time.
fn keeps_to_its_cap(ring: &Ring, capped_by: &str) {
    let id = queue(ring, 128 << 20, "1");
    let held = transfer_when(ring, "lima", &id, |transfer| {
        transfer["limited_by"] == "capped"
    });
    assert_eq!(held["capped_by"], capped_by, "{held}");
    let arrived = || {
        let transfer = transfer_when(ring, "oslo", &id, |transfer| transfer["bytes"].is_u64());
        (Instant::now(), transfer["bytes"].as_f64().unwrap())
    };
    transfer_when(ring, "oslo", &id, |transfer| {
        transfer["bytes"].as_u64() > Some(1 << 20)
    });
    let (begin, before) = arrived();
    // A rate needs a time to be measured in.
    std::thread::sleep(Duration::from_secs(6));
    let (end, after) = arrived();
    let rate = (after - before) / (end - begin).as_secs_f64();
    let part = rate / CAP as f64;
    // A busy machine may be slower; a tenth is for what was under way.
    assert!((0.7..=1.1).contains(&part), "{part} of the cap");
    let (interface, named, of) = match capped_by {
        "all" => (Value::Null, String::new(), String::new()),
        name => (name.into(), format!("{name} "), format!(" of {name}")),
    };
    let status = ring.member("lima").unwrap().status().unwrap();
    let caps = json!([{ "interface": interface, "upload": CAP, "transfers": 1 }]);
    assert_eq!(status["caps"], caps);
    assert_eq!(note(ring, &id), format!("upload limit{of}"));
    let text = shown(ring, "status");
    let line = text.lines().find(|line| line.starts_with("upload limit"));
    let wanted = format!(" {named}2.00 MiB/s (1 transfer)");
    assert!(line.is_some_and(|line| line.ends_with(&wanted)), "{text}");
    // One of priority 0 gets nothing beside it.
    let behind = queue(ring, 4 << 20, "0");
    let held = transfer_when(ring, "lima", &behind, |transfer| {
        transfer["limited_by"] == "behind-others"
    });
    assert_eq!(held["capped_by"], capped_by, "{held}");
    let wanted = format!("upload limit{of}: others come first");
    assert_eq!(note(ring, &behind), wanted);
}

#[test]
fn interface_keeps_to_its_cap_and_reports_it() {
    let caps = format!("[[interface]]\nname = \"lo\"\nupload = {CAP}\n");
    keeps_to_its_cap(&ring(0, &caps), "lo");
}

#[test]
fn process_keeps_to_its_cap_and_reports_it() {
    keeps_to_its_cap(&ring(CAP, ""), "all");
}

#[test]
fn cap_of_one_interface_leaves_others_alone() {
    let ring = ring(0, "[[interface]]\nname = \"elsewhere\"\nupload = 1\n");
    let id = queue(&ring, 8 << 20, "1");
    let done = transfer_when(&ring, "lima", &id, |transfer| transfer["state"] == "done");
    assert!(done["rate"].as_f64() > Some(1e5), "{done}");
}
