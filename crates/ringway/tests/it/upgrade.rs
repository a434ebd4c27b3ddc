//! This build beside the release before, which `testbed/loop/older.sh` builds from the history.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_testbed::{Program, Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::trinity::{leave, network, tally, window};
use super::{not_tested, ping_until_answered, program, random_bytes, transfer_when};

/// The release before.
const OLDER: &str = "0.2.0";

/// Bytes of the files that are sent.
const SIZE: usize = 1 << 20;

/// The program of the release before; none, and a line about it, where it was not built.
fn older_or_skip(test: &str) -> Option<Program> {
    let target = Path::new(env!("CARGO_BIN_EXE_ringway"))
        .ancestors()
        .nth(2)
        .unwrap();
    let path: PathBuf = target.join(format!("older/ringway-{OLDER}"));
    if path.exists() {
        return Some(Program::new(&path));
    }
    not_tested(&format!(
        "{test}: {} is not there: `make older` builds it from the history",
        path.display()
    ));
    None
}

fn file_arrives(ring: &Ring, from: &str, to: &str) {
    let (sender, receiver) = (ring.member(from).unwrap(), ring.member(to).unwrap());
    let file = ring.folder().join(format!("{from}-to-{to}"));
    let bytes = random_bytes(&format!("{from} {to}"), SIZE);
    fs::write(&file, &bytes).unwrap();
    let sent = sender.call(&["send", file.to_str().unwrap(), to, "--detach"]);
    let id = sent.unwrap()[0]["id"].as_str().unwrap().to_owned();
    transfer_when(ring, from, &id, |transfer| transfer["state"] == "done");
    let name = file.file_name().unwrap();
    let arrived = fs::read(receiver.home.join("inbox").join(name));
    assert_eq!(arrived.unwrap(), bytes, "{from} to {to}");
}

fn path_when(ring: &Ring, name: &str, peer: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let member = ring.member(name).unwrap();
    let found = wait_until(Duration::from_secs(90), || {
        let path = member.call(&["path", peer])?.remove(0);
        match wanted(&path) {
            true => Ok(path),
            false => Err(TestbedError(path.to_string())),
        }
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

/// A router and a leaf of this build in a ring of the release before, and files each way.
#[test]
fn older_ring_takes_members_of_this_build() {
    let Some(older) = older_or_skip("older_ring_takes_members_of_this_build") else {
        return;
    };
    let builder = RingBuilder::new(older).router("oslo").leaf("alice");
    let builder = builder.router("lima").running(&program());
    let builder = builder.leaf("bob").running(&program());
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    for (from, to) in [
        ("oslo", "lima"),
        ("lima", "oslo"),
        ("alice", "bob"),
        ("bob", "alice"),
    ] {
        ping_until_answered(&ring, from, to);
        file_arrives(&ring, from, to);
    }
    let path = path_when(&ring, "lima", "oslo", |path| path["linked"] == true);
    assert_eq!(path["link_version"], 2, "{path}");
    let lima = ring.member("lima").unwrap();
    each_end_of_the_control_socket_may_be_older(&ring);
    let text = lima.run(&["path", "oslo"]).unwrap().stdout;
    assert!(text.contains("an earlier build"), "{text}");
    assert!(lima.log_text().contains("a link is of an earlier version"));
}

/// Commands of one release at the daemon of the other.
fn each_end_of_the_control_socket_may_be_older(ring: &Ring) {
    let home = |name: &str| ring.member(name).unwrap().home.to_str().unwrap().to_owned();
    let (old_home, new_home) = (home("oslo"), home("lima"));
    let status = program()
        .run(["--json", "--home", &old_home, "status"])
        .unwrap();
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    let unknown = program().run(["--home", &old_home, "members"]).unwrap();
    assert_eq!(unknown.code, Some(1), "{}", unknown.stderr);
    let says = ["an earlier ringway (control protocol 1)", "restart it"];
    assert!(
        says.iter().all(|word| unknown.stderr.contains(word)),
        "{}",
        unknown.stderr
    );
    let older = older_or_skip("commands of the release before").unwrap();
    for command in ["status", "transfers"] {
        let answered = older.run(["--json", "--home", &new_home, command]).unwrap();
        assert_eq!(answered.code, Some(0), "{}", answered.stderr);
    }
}

fn copies(folder: &Path, of: &str) -> Vec<String> {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let copy = format!("{of}.v");
    names.filter(|name| name.starts_with(&copy)).collect()
}

/// State of the release before is migrated once and kept; that release refuses the newer one, and
/// harms nothing.
fn state_is_migrated_and_kept(ring: &mut Ring, older: &Program) {
    let owner = ring.folder().join("owner/authority");
    assert_eq!(copies(&owner, "authority.db").len(), 1);
    let member = ring.member_mut("oslo").unwrap();
    assert_eq!(copies(&member.home, "state.db").len(), 1);
    let log = member.log_text();
    assert!(log.contains("a copy of it is kept"), "{log}");
    member.terminate().unwrap();
    let home = member.home.to_str().unwrap().to_owned();
    let refused = older.run(["--home", &home, "node"]).unwrap();
    assert!(
        refused.code != Some(0) && refused.stderr.contains("newer version"),
        "{}",
        refused.stderr
    );
    member.start().unwrap();
    assert_eq!(copies(&member.home, "state.db").len(), 1, "migrated once");
    ring.wait_until_settled().unwrap();
}

/// One after the other gets this build: first the authority, then a router, then the rest.
#[test]
fn older_ring_is_upgraded_one_by_one() {
    let Some(older) = older_or_skip("older_ring_is_upgraded_one_by_one") else {
        return;
    };
    let builder = RingBuilder::new(older.clone())
        .router("oslo")
        .router("lima")
        .leaf("alice");
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    ring.authority.terminate().unwrap();
    ring.upgrade_owner(&program());
    ring.start_authority().unwrap();
    for name in ["oslo", "alice", "lima"] {
        let member = ring.member_mut(name).unwrap();
        member.terminate().unwrap();
        member.upgrade(&program());
        member.start().unwrap();
        ring.wait_until_settled().unwrap();
        ping_until_answered(&ring, "alice", "oslo");
        ping_until_answered(&ring, "lima", "alice");
    }
    state_is_migrated_and_kept(&mut ring, &older);
    file_arrives(&ring, "lima", "alice");
    // Links of two that have this build are of its version, once they have begun again.
    path_when(&ring, "lima", "oslo", |path| path["link_version"] == 3);
    let members = ring.owner_call(&["ring", "members"]).unwrap();
    assert_eq!(members.len(), 3, "{members:?}");
}

/// Routers of this build keep counts. One of the release before is sent none of them, so that
/// nothing is malformed to it, and it stays in the ring.
#[test]
fn counts_spare_routers_of_the_release_before() {
    let Some(older) = older_or_skip("counts_spare_routers_of_the_release_before") else {
        return;
    };
    let builder = RingBuilder::new(older).router("oslo");
    let builder = ["mx0", "mx1", "mx2"].iter().fold(builder, |builder, name| {
        builder.router(name).running(&program())
    });
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let (window, start) = window();
    for (router, count) in [("mx0", 3), ("mx1", 4), ("mx2", 5)] {
        leave(&ring, router, &[(network(1), count)], start, window);
    }
    let found = tally(&ring, "mx1", &network(1), start);
    let mut counts: Vec<u64> = found.counts.iter().map(|count| count.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [3, 4, 5], "{found:?}");
    assert_eq!(found.group, 4, "{found:?}");
    let oslo = ring.member("oslo").unwrap();
    let malformed = &oslo.status().unwrap()["counters"]["overlay_messages_malformed"];
    assert_eq!(malformed.as_u64().unwrap_or_default(), 0, "{malformed}");
    ring.wait_until_settled().unwrap();
    for (from, to) in [("oslo", "mx1"), ("mx2", "oslo")] {
        ping_until_answered(&ring, from, to);
    }
}
