//! Members whose membership has ended join again in the same home: real daemons.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::{ping_until_answered, program, random_bytes, transfer_when};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(240);

fn config(ring: &Ring, name: &str) -> PathBuf {
    ring.folder().join(name).join("ringway.toml")
}

/// Adds to a member's configuration what no `join` writes.
fn mark(ring: &Ring, name: &str) -> String {
    let path = config(ring, name);
    let text = fs::read_to_string(&path).unwrap() + "\n# mine\n";
    fs::write(&path, &text).unwrap();
    text
}

/// Waits until there is no daemon, and gives what the next start says.
fn ended(ring: &mut Ring, name: &str) -> String {
    let gone = wait_until(DEADLINE, || match ring.member(name)?.status() {
        Ok(status) => Err(TestbedError(status.to_string())),
        Err(_) => Ok(()),
    });
    gone.unwrap();
    ring.member_mut(name).unwrap().kill().unwrap();
    let member = ring.member(name).unwrap();
    let started = member.run(&["node"]).unwrap();
    assert_ne!(started.code, Some(0));
    started.stderr
}

/// A file that takes its time, on its way from alice to oslo, and one that is there already.
fn send(ring: &Ring) -> [String; 2] {
    let ids = [("small.bin", 1 << 10), ("big.bin", 6 << 20)].map(|(name, size)| {
        let file = ring.folder().join(name);
        fs::write(&file, random_bytes(name, size)).unwrap();
        let alice = ring.member("alice").unwrap();
        let sent = alice.call(&["send", file.to_str().unwrap(), "oslo", "--detach"]);
        sent.unwrap()[0]["id"].as_str().unwrap().to_owned()
    });
    transfer_when(ring, "alice", &ids[0], |it| it["state"] == "done");
    let moves = |it: &Value| it["state"] == "active" && it["bytes"].as_u64() > Some(0);
    transfer_when(ring, "oslo", &ids[1], moves);
    ids
}

fn goes_on(ring: &Ring, [done, big]: &[String; 2]) {
    transfer_when(ring, "alice", big, |it| it["state"] == "done");
    transfer_when(ring, "oslo", big, |it| it["state"] == "done");
    let history = ring.member("alice").unwrap().transfer(done).unwrap();
    assert_eq!(history["state"], "done");
    ping_until_answered(ring, "alice", "oslo");
    ping_until_answered(ring, "oslo", "alice");
}

#[test]
fn revoked_member_rejoins_and_its_files_resume() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let builder = builder.leaf_with("alice", &["--upload-limit", "256KiB"]);
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let ids = send(&ring);
    let text = mark(&ring, "alice");
    let key = fs::read(ring.folder().join("alice/identity.key")).unwrap();
    let refused = ring.join_again("lima").unwrap_err().to_string();
    assert!(refused.contains("belongs to a member"), "{refused}");

    ring.owner_call(&["ring", "revoke", "alice"]).unwrap();
    let told = ended(&mut ring, "alice");
    assert!(told.contains("same --home"), "{told}");
    let lost = |it: &Value| it["state"] == "failed";
    transfer_when(&ring, "oslo", &ids[1], lost);
    let joined = ring.join_again("alice").unwrap();
    assert_eq!(
        (&joined["again"], &joined["name"]),
        (&true.into(), &"alice".into())
    );
    assert_eq!(fs::read_to_string(config(&ring, "alice")).unwrap(), text);
    // The old key is worth nothing.
    assert_ne!(
        fs::read(ring.folder().join("alice/identity.key")).unwrap(),
        key
    );
    ring.member_mut("alice").unwrap().start().unwrap();
    goes_on(&ring, &ids);
}

#[test]
fn members_with_expired_certificates_rejoin_with_their_keys() {
    let builder = RingBuilder::new(program())
        .lifetime("90s")
        .router("oslo")
        .router("lima");
    let builder = builder.leaf_with("alice", &["--upload-limit", "256KiB"]);
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let ids = send(&ring);
    let own = ["alice", "lima"].map(|name| ring.member(name).unwrap().status().unwrap());
    for name in ["alice", "lima"] {
        ring.member_mut(name).unwrap().terminate().unwrap();
    }
    let text = mark(&ring, "lima");
    let over = wait_until(DEADLINE, || {
        let members = ring.owner_call(&["ring", "members"])?;
        let expired = members.iter().filter(|it| it["state"] == "expired");
        match expired.count() {
            2 => Ok(()),
            _ => Err(TestbedError(format!("{members:?}"))),
        }
    });
    over.unwrap();
    for (name, before) in ["lima", "alice"].into_iter().zip(own.iter().rev()) {
        let told = ended(&mut ring, name);
        assert!(
            told.contains("run out") && told.contains("same --home"),
            "{told}"
        );
        let joined = ring.join_again(name).unwrap();
        assert_eq!(
            (&joined["again"], &joined["name"]),
            (&true.into(), &name.into())
        );
        assert_eq!(joined["member"], before["member"]);
        assert_eq!(joined["ring_key"], before["ring_key"]);
        ring.member_mut(name).unwrap().start().unwrap();
    }
    assert_eq!(fs::read_to_string(config(&ring, "lima")).unwrap(), text);
    goes_on(&ring, &ids);
    ping_until_answered(&ring, "lima", "oslo");
    let members = ring.owner_call(&["ring", "members"]).unwrap();
    assert_eq!(members.len(), 3, "{members:?}");
}
