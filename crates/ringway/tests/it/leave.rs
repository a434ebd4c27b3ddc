//! Members that leave their ring for good.

use std::fs;

use ringway_testbed::{Ring, RingBuilder};
use serde_json::Value;

use super::program;

fn entry(ring: &Ring, name: &str) -> Value {
    let members = ring.owner_call(&["ring", "members"]).unwrap();
    let named = |member: &&Value| member["name"] == name;
    members.iter().rfind(named).unwrap().clone()
}

#[test]
fn a_running_member_leaves_its_name_free() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    let home = ring.folder().join("alice");
    fs::create_dir_all(home.join("inbox")).unwrap();
    fs::write(home.join("inbox/kept"), "kept").unwrap();
    let alice = ring.member("alice").unwrap();
    let asked = alice.run(&["leave"]).unwrap();
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    let left = alice.call(&["leave", "--yes"]).unwrap().remove(0);
    assert_eq!(
        (&left["name"], &left["told"]),
        (&"alice".into(), &true.into())
    );
    // By the time that the command says so.
    for secret in ["identity.key", "state.db"] {
        assert!(
            !home.join(secret).exists(),
            "{secret}: {}",
            alice.log_text()
        );
    }
    assert_eq!(fs::read_to_string(home.join("inbox/kept")).unwrap(), "kept");
    let before = entry(&ring, "alice");
    assert_eq!(before["state"], "left", "{before}");
    // Another takes the name, in the same home.
    ring.member_mut("alice").unwrap().terminate().unwrap();
    ring.join_again("alice").unwrap();
    let after = entry(&ring, "alice");
    assert_eq!(after["state"], "active");
    assert_ne!(after["member"], before["member"]);
    assert_eq!(after["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        after["heard"].as_u64() >= after["since"].as_u64(),
        "{after}"
    );
}

#[test]
fn a_member_leaves_without_daemon_or_authority() {
    let builder = RingBuilder::new(program()).absent_router("oslo");
    let mut ring = builder
        .absent_leaf("alice")
        .absent_leaf("bob")
        .start()
        .unwrap();
    let alice = ring.member("alice").unwrap();
    let left = alice.call(&["leave", "--yes"]).unwrap().remove(0);
    assert_eq!(left["told"], true);
    let home = ring.folder().join("alice");
    assert!(!home.join("identity.key").exists() && !home.join("state.db").exists());
    assert!(home.join("ringway.toml").exists());
    assert_eq!(entry(&ring, "alice")["state"], "left");
    let again = alice.run(&["leave", "--yes"]).unwrap();
    assert_eq!(again.code, Some(2), "{again:?}");

    ring.authority.terminate().unwrap();
    let bob = ring.member("bob").unwrap();
    let refused = bob.run(&["leave", "--yes"]).unwrap();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("ring revoke bob"),
        "{}",
        refused.stderr
    );
    assert!(ring.folder().join("bob/identity.key").exists());
    let left = bob
        .call(&["leave", "--yes", "--offline"])
        .unwrap()
        .remove(0);
    assert_eq!(left["told"], false);
    assert!(!ring.folder().join("bob/identity.key").exists());
    assert_eq!(entry(&ring, "bob")["state"], "active");
}

#[test]
fn members_with_files_under_way_stay() {
    let builder = RingBuilder::new(program()).router("oslo").leaf("alice");
    let ring = builder.absent_leaf("bob").start().unwrap();
    ring.wait_until_settled().unwrap();
    let file = ring.folder().join("report");
    fs::write(&file, vec![7; 10_000]).unwrap();
    let alice = ring.member("alice").unwrap();
    alice
        .call(&["send", "--detach", file.to_str().unwrap(), "bob"])
        .unwrap();
    let refused = alice.run(&["leave", "--yes"]).unwrap();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(entry(&ring, "alice")["state"], "active");
    let left = alice
        .call(&["leave", "--yes", "--force"])
        .unwrap()
        .remove(0);
    assert_eq!(left["given_up"], 1);
    assert_eq!(entry(&ring, "alice")["state"], "left");
}
