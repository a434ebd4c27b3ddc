//! Leaves as receivers: no member can dial them, and all reach them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};

use super::{ping_until_answered, program, random_bytes};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

/// Bytes of a file that is sent.
const SIZE: usize = 1 << 20;

/// More routers than a leaf has parents.
const ROUTERS: [&str; 5] = ["oslo", "lima", "quito", "accra", "hanoi"];

fn ring() -> Ring {
    let builder = RingBuilder::new(program());
    let builder = ROUTERS.iter().fold(builder, |b, name| b.router(name));
    let ring = builder.leaf("alice").leaf("bob").start().unwrap();
    ring.wait_until_settled().unwrap();
    ring
}

/// Sends a file and waits until it is at the peer as it was here.
fn file_arrives(ring: &Ring, name: &str, peer: &str) {
    let content = random_bytes(&format!("{name}-{peer}"), SIZE);
    let file = ring.folder().join(format!("{name}-{peer}.bin"));
    fs::write(&file, &content).unwrap();
    let sender = ring.member(name).unwrap();
    let sent = sender.call(&["send", file.to_str().unwrap(), peer]);
    let sent = sent.unwrap_or_else(|error| panic!("{error}\n{}", sender.log_text()));
    let id = sent.last().unwrap()["id"].as_str().unwrap().to_owned();
    let received = wait_until(DEADLINE, || {
        let transfer = ring.member(peer)?.transfer(&id)?;
        match transfer["state"] == "done" {
            true => Ok(transfer),
            false => Err(TestbedError(transfer.to_string())),
        }
    });
    let received = received.unwrap();
    assert_eq!(received["peer"], name);
    let path = Path::new(received["path"].as_str().unwrap());
    assert!(fs::read(path).unwrap() == content, "the file differs");
}

/// A router that has no link with the leaf, other than one that is down.
fn stranger_to(ring: &Ring, leaf: &str, down: &str) -> &'static str {
    let status = ring.member(leaf).unwrap().status().unwrap();
    let links = status["links"].as_array().cloned().unwrap_or_default();
    let linked = |name: &str| links.iter().any(|link| link["name"] == name);
    let found = ROUTERS
        .into_iter()
        .find(|name| !linked(name) && *name != down);
    found.unwrap_or_else(|| panic!("{leaf} is linked to all routers: {status}"))
}

/// One of a router's counters.
fn count(ring: &Ring, name: &str, counter: &str) -> u64 {
    let status = ring.member(name).unwrap().status().unwrap();
    status["counters"][counter].as_u64().unwrap_or_default()
}

fn count_all(ring: &Ring, counter: &str) -> u64 {
    ROUTERS.iter().map(|name| count(ring, name, counter)).sum()
}

#[test]
fn leaves_are_found_and_receive() {
    let mut ring = ring();
    a_router_that_crashes_takes_nothing_with_it(&mut ring);
    let stranger = stranger_to(&ring, "alice", "");
    // By her id, which this router has met nowhere yet, and by her name.
    let alice = ring.member("alice").unwrap().status().unwrap();
    let id = alice["member"].as_str().unwrap().to_owned();
    ping_until_answered(&ring, stranger, &id);
    ping_until_answered(&ring, stranger, "alice");
    file_arrives(&ring, stranger, "alice");
    ping_until_answered(&ring, "alice", "bob");
    file_arrives(&ring, "alice", "bob");
    file_arrives(&ring, "bob", "alice");
    let passed = count_all(&ring, "relay_packets_passed_on");
    assert!(passed > 0, "nobody passed anything on, yet they met");
    every_way_is_explained(&ring);
    a_leaf_that_crashes_is_found_where_it_is_then(&mut ring);
    a_leaf_that_is_away_is_said_to_be(&mut ring);
}

fn every_way_is_explained(ring: &Ring) {
    let found = ring.member("alice").unwrap().call(&["path", "bob"]);
    let found = found.unwrap();
    let paths = found[0]["paths"].as_array().unwrap();
    let relays = paths.iter().filter(|path| {
        let address = path["address"].as_str().unwrap();
        address.starts_with("relay://") && path["cost"] == 200
    });
    let relays: Vec<_> = relays.collect();
    assert_eq!(relays.len(), 3, "one for each parent: {}", found[0]);
    // Of a router that this member has no certificate of it knows no name.
    let named = |via: &str| ROUTERS.contains(&via);
    let mut names = relays.iter().filter_map(|path| path["via"].as_str());
    assert!(
        names.clone().count() > 0 && names.all(named),
        "{}",
        found[0]
    );
    let text = ring.member("alice").unwrap().run(&["path", "bob"]).unwrap();
    assert!(
        text.stdout.contains("relay via ") && !text.stdout.contains("relay://"),
        "{}",
        text.stdout
    );
}

/// Each leaf is known at the router that is responsible and at its successor.
fn a_router_that_crashes_takes_nothing_with_it(ring: &mut Ring) {
    let kept = wait_until(DEADLINE, || match count_all(ring, "leaves_kept") {
        all if all >= 4 => Ok(()),
        all => Err(TestbedError(format!("leaves kept in {all} places"))),
    });
    kept.unwrap();
    let keeps = |name: &&str| count(ring, name, "leaves_kept") > 0;
    let keeper = ROUTERS.into_iter().find(keeps).unwrap();
    ring.member_mut(keeper).unwrap().kill().unwrap();
    let stranger = stranger_to(ring, "bob", keeper);
    ping_until_answered(ring, stranger, "bob");
    ring.member_mut(keeper).unwrap().start().unwrap();
    ring.wait_until_settled().unwrap();
}

/// The link with where it was is no hindrance: one ping is enough.
fn a_leaf_that_crashes_is_found_where_it_is_then(ring: &mut Ring) {
    let status = ring.member("bob").unwrap().status().unwrap();
    let parents = status["parents"].as_array().cloned().unwrap_or_default();
    let parent = |name: &str| parents.iter().any(|parent| parent["name"] == name);
    let other = ROUTERS.into_iter().find(|name| !parent(name)).unwrap();
    let parent = parents[0]["name"].as_str().unwrap();
    for who in ["alice", other, parent] {
        ping_until_answered(ring, who, "bob");
        ring.member_mut("bob").unwrap().kill().unwrap();
        ring.member_mut("bob").unwrap().start().unwrap();
        let member = ring.member(who).unwrap();
        let outcome = member.run(&["ping", "bob", "--count", "1"]).unwrap();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let status = ring.member("bob").unwrap().status().unwrap();
        let count = status["parents"].as_array().unwrap().len();
        assert!((1..=3).contains(&count), "{status}");
    }
}

fn a_leaf_that_is_away_is_said_to_be(ring: &mut Ring) {
    ring.member_mut("bob").unwrap().terminate().unwrap();
    let alice = ring.member("alice").unwrap();
    let outcome = alice.run(&["ping", "bob", "--count", "1"]).unwrap();
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("`ringway node` running?"),
        "{}",
        outcome.stderr
    );
    ring.member_mut("bob").unwrap().start().unwrap();
    ping_until_answered(ring, "alice", "bob");
}
