//! Members renew their certificates under what is under way: real daemons, short lifetimes.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::{ping_until_answered, program, random_bytes, transfer_when};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(240);

/// How long certificates are valid: a third of it is left when members begin to renew them, and a
/// sixth when all have tried.
const LIFETIME: &str = "120s";

const NAMES: [&str; 3] = ["oslo", "lima", "alice"];

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

fn statuses(ring: &Ring) -> [Value; 3] {
    NAMES.map(|name| ring.member(name).unwrap().status().unwrap())
}

/// Waits until all members are as wanted.
fn all_when(ring: &Ring, what: &str, wanted: impl Fn(&Value) -> bool) {
    for name in NAMES {
        let member = ring.member(name).unwrap();
        let found = wait_until(DEADLINE, || {
            let status = member.status()?;
            match wanted(&status) {
                true => Ok(()),
                false => Err(TestbedError(format!("{name}: not {what}: {status}"))),
            }
        });
        found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()));
    }
}

#[test]
fn certificates_are_renewed_during_transfer_and_authority_outage() {
    let builder = RingBuilder::new(program())
        .lifetime(LIFETIME)
        .router("oslo")
        .router("lima");
    let mut ring = builder
        .leaf_with("alice", &["--upload-limit", "128KiB"])
        .start()
        .unwrap();
    ring.wait_until_settled().unwrap();
    let before = statuses(&ring);
    let content = random_bytes("renewal", 8 << 20);
    let file = ring.folder().join("big.bin");
    fs::write(&file, &content).unwrap();
    let alice = ring.member("alice").unwrap();
    let queued = alice.call(&["send", file.to_str().unwrap(), "oslo", "--detach"]);
    let id = queued.unwrap()[0]["id"].as_str().unwrap().to_owned();

    // The first to try find no authority, say so, and go on trying.
    ring.authority.terminate().unwrap();
    let told = wait_until(DEADLINE, || {
        let told = statuses(&ring);
        match told.iter().any(|status| status["not_renewed"].is_string()) {
            true => Ok(()),
            false => Err(TestbedError("nobody says that it is time".to_owned())),
        }
    });
    told.unwrap();
    ring.start_authority().unwrap();
    let first: Vec<u64> = before
        .iter()
        .map(|status| status["serial"].as_u64().unwrap())
        .collect();
    all_when(&ring, "renewed", |status| {
        let serial = status["serial"].as_u64().unwrap();
        !first.contains(&serial) && status["not_renewed"].is_null()
    });
    // The first certificates end, and no member notices.
    let last = before.iter().map(|status| status["expires"].as_u64());
    let last = last.max().flatten().unwrap();
    wait_until(DEADLINE, || match unix_seconds() > last + 2 {
        true => Ok(()),
        false => Err(TestbedError("they are still good".to_owned())),
    })
    .unwrap();
    for name in ["oslo", "lima"] {
        ping_until_answered(&ring, "alice", name);
    }
    ping_until_answered(&ring, "lima", "oslo");
    for (name, before) in NAMES.iter().zip(&before) {
        let member = ring.member(name).unwrap();
        let status = member.status().unwrap();
        assert_eq!(status["pid"], before["pid"], "{name}");
        assert_eq!(status["ring_key"], before["ring_key"], "{name}");
        assert_eq!(status["counters"]["links_revoked"], Value::Null, "{status}");
        assert!(member.log_text().contains("certificate is renewed"));
    }
    let sent = transfer_when(&ring, "alice", &id, |transfer| transfer["state"] == "done");
    assert_eq!(sent["resumed_from"], 0, "{sent}");
    let received = transfer_when(&ring, "oslo", &id, |transfer| transfer["state"] == "done");
    assert_eq!(received["resumed_from"], 0, "{received}");
    // One entry a member, as it is no other member.
    let members = ring.owner_call(&["ring", "members"]).unwrap();
    assert_eq!(members.len(), 3, "{members:?}");
    assert!(members.iter().all(|member| member["state"] == "active"));
}
