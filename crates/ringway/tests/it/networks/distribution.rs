//! One file for many members behind one line: it crosses that about once.

use std::fs;

use ringway_testbed::{Line, Network, Ring, TestbedError, wait_until};
use serde_json::Value;

use super::{DEADLINE, Lan, started};
use crate::{random_bytes, transfer_when};

/// Receivers.
const LAB: usize = 10;

/// Bytes of the file.
const FILE: usize = 24 << 20;

/// Bits per second of the sender's line, and bytes that wait for it.
const RATE: (u64, usize) = (24_000_000, 256 << 10);

/// Files' worth of bytes that may cross the line, with all that belongs to them.
const MOST: f64 = 1.3;

fn names() -> Vec<String> {
    (1..=LAB).map(|n| format!("lab-{n}")).collect()
}

/// Bytes that have left by the depot's line.
fn crossed(lan: &Lan) -> f64 {
    let interface = lan.link("depot").first_interface();
    let words = ["ip", "-s", "-j", "link", "show", "dev", interface];
    let shown = lan.host("depot").check(&words).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown[0]["stats64"]["tx"]["bytes"].as_f64().unwrap()
}

/// Queues a file for all of the lab: its content, and the transfer to each.
fn queue(ring: &Ring, file: &str, more: &[&str]) -> (Vec<u8>, Vec<(String, String)>) {
    let content = random_bytes(file, FILE);
    let path = ring.folder().join(file);
    fs::write(&path, &content).unwrap();
    let arguments = ["send", path.to_str().unwrap(), "--to", "lab-*", "--detach"];
    let arguments: Vec<&str> = arguments.iter().chain(more).copied().collect();
    let queued = ring.member("depot").unwrap().call(&arguments).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let sent = queued
        .iter()
        .map(|sent| (text(&sent["peer"]), text(&sent["id"])));
    (content, sent.collect())
}

/// The file is there, as a whole; what `transfers` shows of it there.
fn arrives(ring: &Ring, (name, id): &(String, String), content: &[u8]) -> Value {
    let received = transfer_when(ring, name, id, |transfer| transfer["state"] == "done");
    let path = received["path"].as_str().unwrap();
    assert!(fs::read(path).unwrap() == content, "{name}'s file differs");
    received
}

/// Each has a link with each other one: what is measured then is the file.
fn linked(ring: &Ring, names: &[&str]) {
    for name in names {
        wait_until(DEADLINE, || {
            let pongs = ring
                .member("depot")?
                .call(&["ping", name, "--count", "1"])?;
            match pongs[0]["rtt_ms"].is_number() {
                true => Ok(()),
                false => Err(TestbedError(format!("{name}: {pongs:?}"))),
            }
        })
        .unwrap();
    }
}

#[test]
fn ten_receivers_take_a_file_once() {
    let Some(network) = Network::or_skip("a file for ten members").unwrap() else {
        return;
    };
    let all = names();
    let mut names: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut lan = Lan::new(network, &names, &Line::plain());
    let depot = lan.network.host("depot").unwrap();
    let line = Line::plain().delay_ms(10).rate(RATE.0, RATE.1);
    let link = lan
        .network
        .attach(&depot, &lan.switch, "10.77.0.200/24", &line);
    lan.links.push(link.unwrap());
    lan.hosts.push(depot);
    names.push("depot");
    let mut ring = started(lan.routers(&names));
    linked(&ring, &names[..LAB]);
    let files = crosses_about_once(&lan, &ring);
    eprintln!("{files:.3} files for {LAB} receivers crossed the line");
    let files = others_finish_when_one_dies(&lan, &mut ring);
    eprintln!("{files:.3} files crossed the line, while one died");
    direct_crosses_for_each(&lan, &ring);
}

/// How many files' worth that is.
fn crosses_about_once(lan: &Lan, ring: &Ring) -> f64 {
    let before = crossed(lan);
    let (content, sent) = queue(ring, "image.iso", &[]);
    assert_eq!(sent.len(), LAB);
    let received: Vec<Value> = sent
        .iter()
        .map(|sent| arrives(ring, sent, &content))
        .collect();
    for (_, id) in &sent {
        transfer_when(ring, "depot", id, |transfer| transfer["state"] == "done");
    }
    let files = (crossed(lan) - before) / FILE as f64;
    assert!(files < MOST, "{files} files crossed the line");
    for received in received {
        let givers = received["givers"].as_array().unwrap();
        let by = |giver: &Value| giver["peer"].as_str().map(str::to_owned).unwrap();
        let names: Vec<String> = givers.iter().map(by).collect();
        assert!(
            names.iter().any(|name| name.starts_with("lab-")),
            "{received}"
        );
        let bytes = givers.iter().filter_map(|giver| giver["bytes"].as_u64());
        assert!(bytes.sum::<u64>() >= FILE as u64, "{received}");
    }
    files
}

/// What it had alone goes to others, and it goes on itself when it is back.
fn others_finish_when_one_dies(lan: &Lan, ring: &mut Ring) -> f64 {
    let before = crossed(lan);
    let (content, sent) = queue(ring, "second.iso", &[]);
    let (name, id) = &sent[3];
    let third = FILE as u64 / 3;
    transfer_when(ring, name, id, |transfer| {
        transfer["bytes"].as_u64() >= Some(third)
    });
    ring.member_mut(name).unwrap().kill().unwrap();
    for sent in sent.iter().filter(|(other, _)| other != name) {
        arrives(ring, sent, &content);
    }
    let files = (crossed(lan) - before) / FILE as f64;
    ring.member_mut(name).unwrap().start().unwrap();
    arrives(ring, &sent[3], &content);
    files
}

/// As it is without distribution: none learns of another.
fn direct_crosses_for_each(lan: &Lan, ring: &Ring) {
    let before = crossed(lan);
    let content = random_bytes("third", 2 << 20);
    let path = ring.folder().join("third.bin");
    fs::write(&path, &content).unwrap();
    let arguments = [
        "send",
        path.to_str().unwrap(),
        "--to",
        "lab-1",
        "--to",
        "lab-2",
    ];
    let arguments: Vec<&str> = arguments.into_iter().chain(["--direct"]).collect();
    let sent = ring.member("depot").unwrap().call(&arguments).unwrap();
    for sent in &sent {
        let text = |key: &str| sent[key].as_str().unwrap().to_owned();
        let received = arrives(ring, &(text("peer"), text("id")), &content);
        assert!(received.get("givers").is_none(), "{received}");
    }
    let files = (crossed(lan) - before) / content.len() as f64;
    assert!(files > 1.9, "{files} files crossed the line");
}
