//! Records: what one member puts, all others get, also when those who keep it have gone.

use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::program;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

const ROUTERS: [&str; 4] = ["oslo", "lima", "quito", "accra"];

fn put(ring: &Ring, name: &str, arguments: &[&str]) -> Value {
    let member = ring.member(name).unwrap();
    let stored = member.call(&[&["put"], arguments].concat());
    stored.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))[0].clone()
}

/// Waits until a member gets this value.
fn gets(ring: &Ring, name: &str, peer: &str, record: &str, value: &str) -> Value {
    let member = ring.member(name).unwrap();
    let found = wait_until(DEADLINE, || {
        let found = member.call(&["get", peer, record])?;
        match found[0]["value"] == value {
            true => Ok(found[0].clone()),
            false => Err(TestbedError(found[0].to_string())),
        }
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

#[test]
fn what_one_member_puts_every_other_gets() {
    let builder = RingBuilder::new(program());
    let builder = ROUTERS.iter().fold(builder, |b, name| b.router(name));
    let mut ring = builder.leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();

    let stored = put(&ring, "oslo", &["printer", "ipp://192.0.2.7/queue"]);
    assert_eq!(stored["schema"], "ringway.stored/1");
    assert!(stored["copies"].as_u64().unwrap() >= 3, "{stored}");
    put(&ring, "alice", &["note", "from a leaf", "--for", "1h"]);
    for name in ROUTERS {
        gets(&ring, name, "oslo", "printer", "ipp://192.0.2.7/queue");
        gets(&ring, name, "alice", "note", "from a leaf");
    }
    let found = gets(&ring, "alice", "oslo", "printer", "ipp://192.0.2.7/queue");
    assert_eq!(found["schema"], "ringway.record/1");
    assert_eq!(found["value_hex"].as_str().unwrap().len(), 42);
    put(&ring, "oslo", &["printer", "moved"]);
    let newer = gets(&ring, "alice", "oslo", "printer", "moved");
    assert!(newer["number"].as_u64() > found["number"].as_u64());

    // Text goes out as it came in.
    let plain = ring
        .member("lima")
        .unwrap()
        .run(&["get", "oslo", "printer"]);
    assert_eq!(plain.unwrap().stdout, "moved");
    mistakes_are_told(&ring);
    everybody_restarts_and_it_is_there_again(&mut ring);

    put(&ring, "oslo", &["printer", "--remove"]);
    let gone = ring
        .member("alice")
        .unwrap()
        .run(&["get", "oslo", "printer"]);
    let gone = gone.unwrap();
    assert_eq!(gone.code, Some(1), "{}", gone.stdout);
    assert!(
        gone.stderr.contains("no record `printer`"),
        "{}",
        gone.stderr
    );

    ring.owner_call(&["ring", "revoke", "alice"]).unwrap();
    let lima = ring.member("lima").unwrap();
    let refused = wait_until(DEADLINE, || {
        let outcome = lima.run(&["get", "alice", "note"])?;
        match outcome.code {
            Some(0) => Err(TestbedError(outcome.stdout)),
            _ => Ok(outcome),
        }
    });
    let refused = refused.unwrap();
    assert!(refused.stderr.contains("alice"), "{}", refused.stderr);
}

fn mistakes_are_told(ring: &Ring) {
    let long = "x".repeat(401);
    let name = "n".repeat(65);
    for (arguments, code, told) in [
        (vec!["get", "oslo", "nothing"], 1, "no record `nothing`"),
        (vec!["get", "nobody", "printer"], 2, "nobody"),
        (vec!["put", "printer", &long], 2, "401 bytes"),
        (vec!["put", "printer", ""], 2, "--remove"),
        (vec!["put", &name, "value"], 2, "1 to 64 bytes"),
        (vec!["put", "printer", "x", "--for", "31d"], 2, "30 days"),
        (vec!["put", "printer"], 2, "VALUE"),
    ] {
        let outcome = ring.member("lima").unwrap().run(&arguments).unwrap();
        assert_eq!(
            outcome.code,
            Some(code),
            "{arguments:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains(told),
            "{arguments:?}: {}",
            outcome.stderr
        );
    }
}

/// Routers keep others' records in memory, and their own on disk.
fn everybody_restarts_and_it_is_there_again(ring: &mut Ring) {
    for name in ROUTERS.into_iter().chain(["alice"]) {
        ring.member_mut(name).unwrap().kill().unwrap();
    }
    for name in ROUTERS.into_iter().chain(["alice"]) {
        ring.member_mut(name).unwrap().start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    gets(ring, "lima", "oslo", "printer", "moved");
    gets(ring, "oslo", "alice", "note", "from a leaf");
}
