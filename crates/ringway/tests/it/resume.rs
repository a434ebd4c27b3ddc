//! A transfer goes on where it stopped, whichever end was killed.

use std::fs;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::{program, random_bytes, transfer_when};

/// Bytes of the file; at the sender's limit it takes several seconds.
const SIZE: usize = 24 << 20;

/// Bytes that have arrived when somebody is killed.
const ARRIVED: u64 = 6 << 20;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(180);

#[test]
fn after_the_sender_was_killed() {
    killed_in_the_middle("alice");
}

#[test]
fn after_the_receiver_was_killed() {
    killed_in_the_middle("oslo");
}

fn killed_in_the_middle(victim: &str) {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .router("lima")
        .router("quito");
    let mut ring = builder
        .leaf_with("alice", &["--upload-limit", "4MiB"])
        .start()
        .unwrap();
    ring.wait_until_settled().unwrap();
    let content = random_bytes(victim, SIZE);
    let file = ring.folder().join("big.bin");
    fs::write(&file, &content).unwrap();
    let queued = ring
        .member("alice")
        .unwrap()
        .call(&["send", file.to_str().unwrap(), "oslo", "--detach"])
        .unwrap();
    let id = queued[0]["id"].as_str().unwrap().to_owned();
    wait_for(&ring, "oslo", &id, |transfer| {
        transfer["bytes"].as_u64() >= Some(ARRIVED)
    });

    ring.member_mut(victim).unwrap().kill().unwrap();
    ring.member_mut(victim).unwrap().start().unwrap();

    let sent = wait_for(&ring, "alice", &id, |transfer| transfer["state"] == "done");
    let received = wait_for(&ring, "oslo", &id, |transfer| transfer["state"] == "done");
    let resumed = received["resumed_from"].as_u64().unwrap();
    assert!(resumed > 0, "it began anew: {received}");
    assert!(
        sent["resumed_from"].as_u64() > Some(0),
        "the sender sent all of it again: {sent}"
    );
    assert!(
        fs::read(received["path"].as_str().unwrap()).unwrap() == content,
        "the file differs"
    );
    assert_eq!(received["blake3"], blake3::hash(&content).to_hex().as_str());
}

#[test]
fn absent_receiver_drops_a_cancelled_transfer() {
    cancelled_while_the_receiver_is_off(false);
}

#[test]
fn cancellation_survives_a_restart_of_the_sender() {
    cancelled_while_the_receiver_is_off(true);
}

fn cancelled_while_the_receiver_is_off(restarts: bool) {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder
        .leaf_with("alice", &["--upload-limit", "1MiB"])
        .start()
        .unwrap();
    ring.wait_until_settled().unwrap();
    let file = ring.folder().join("big.bin");
    fs::write(&file, random_bytes("big", SIZE)).unwrap();
    let alice = ring.member("alice").unwrap();
    let queued = alice.call(&["send", file.to_str().unwrap(), "oslo", "--detach"]);
    let id = queued.unwrap()[0]["id"].as_str().unwrap().to_owned();
    wait_for(&ring, "oslo", &id, |transfer| {
        transfer["bytes"].as_u64() > Some(0)
    });

    ring.member_mut("oslo").unwrap().kill().unwrap();
    ring.member("alice")
        .unwrap()
        .call(&["cancel", &id])
        .unwrap();
    if restarts {
        ring.member_mut("alice").unwrap().kill().unwrap();
        ring.member_mut("alice").unwrap().start().unwrap();
    }
    ring.member_mut("oslo").unwrap().start().unwrap();

    let ended = transfer_when(&ring, "oslo", &id, |transfer| transfer["state"] == "failed");
    let reason = ended["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("given it up"), "{ended}");
    let parts = ring.folder().join("oslo/inbox/.partial");
    let gone = wait_until(DEADLINE, || {
        match fs::read_dir(&parts).map(Iterator::count) {
            Ok(0) => Ok(()),
            left => Err(TestbedError(format!("parts are left: {left:?}"))),
        }
    });
    gone.unwrap();
}

/// Waits until the transfer at this member is as wanted; fails at once if it is given up.
fn wait_for(ring: &Ring, name: &str, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let member = ring.member(name).unwrap();
    let found = wait_until(DEADLINE, || {
        let transfer = member.transfer(id)?;
        assert_ne!(
            transfer["state"],
            "failed",
            "{transfer}\n{}",
            member.log_text()
        );
        if wanted(&transfer) {
            Ok(transfer)
        } else {
            Err(TestbedError(transfer.to_string()))
        }
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}
