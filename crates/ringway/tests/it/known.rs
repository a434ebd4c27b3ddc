//! Whom a member knows: `ringway members`, suggestions for wrong names, completion.

use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::{ping_until_answered, program};

fn ring() -> Ring {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let ring = builder.leaf("alice").absent_leaf("bob").start().unwrap();
    ring.wait_until_settled().unwrap();
    ring
}

/// The member `wanted` as `name` knows it, once that is as it should be.
fn known_when(ring: &Ring, name: &str, wanted: &str, is: impl Fn(&Value) -> bool) -> Value {
    let member = ring.member(name).unwrap();
    let found = wait_until(Duration::from_secs(120), || {
        let all = member.call(&["members"])?;
        let found = all.iter().find(|known| known["name"] == wanted);
        match found.filter(|known| is(known)) {
            Some(known) => Ok(known.clone()),
            None => Err(TestbedError(format!("{all:?}"))),
        }
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

fn completed(ring: &Ring, name: &str, words: &[&str]) -> Vec<String> {
    let home = &ring.member(name).unwrap().home;
    let mut command = program().command(["--", "ringway", "--home"]);
    command.arg(home).args(words).env("COMPLETE", "fish");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text
        .lines()
        .map(|line| line.split('\t').next().unwrap_or(line).to_owned());
    names.collect()
}

#[test]
fn members_list_whom_they_know() {
    let ring = ring();
    ping_until_answered(&ring, "alice", "oslo");
    let release = env!("CARGO_PKG_VERSION");
    let oslo = known_when(&ring, "alice", "oslo", |known| known["release"] == release);
    assert_eq!(oslo["schema"], "ringway.known-member/1");
    assert_eq!(
        (&oslo["role"], &oslo["reachable"]),
        (&"router".into(), &true.into())
    );
    assert!(
        oslo["heard"].is_u64() && oslo["link_version"] == 3,
        "{oslo}"
    );
    let own = known_when(&ring, "alice", "alice", |_| true);
    assert_eq!(own["this"], true);
    // One that has never run is known to the owner only.
    let names = |name: &str| -> Vec<String> {
        let all = ring.member(name).unwrap().call(&["members"]).unwrap();
        all.iter()
            .map(|known| known["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(!names("alice").contains(&"bob".to_owned()));

    let shown = ring.owner_call(&["ring", "directory", "members"]).unwrap();
    assert_eq!(shown[0]["directory"], "members");
    let bob = known_when(&ring, "lima", "bob", |_| true);
    assert_eq!(bob["known_from"], serde_json::json!(["owner"]));
    assert_eq!(bob["role"], "leaf");
    ring.owner_call(&["ring", "revoke", "bob"]).unwrap();
    assert_eq!(names("oslo"), ["alice", "lima", "oslo"]);

    let lima = ring.member("lima").unwrap();
    let text = lima.run(&["members"]).unwrap().stdout;
    assert!(
        text.contains("LAST HEARD") && text.contains("this member"),
        "{text}"
    );
    wrong_names_lead_to_right_ones(&ring);
    shells_complete_names(&ring);
}

fn wrong_names_lead_to_right_ones(ring: &Ring) {
    let lima = ring.member("lima").unwrap();
    let file = ring.folder().join("file");
    std::fs::write(&file, "text").unwrap();
    let file = file.to_str().unwrap();
    for command in [
        &["ping", "olso"][..],
        &["path", "olso"],
        &["route", "olso"],
        &["get", "olso", "printer"],
        &["send", file, "olso"],
    ] {
        let wrong = lima.run(command).unwrap();
        assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
        assert!(
            wrong.stderr.contains("did you mean `oslo`?"),
            "{}",
            wrong.stderr
        );
    }
    let wrong = lima.run(&["ping", "nowhere"]).unwrap().stderr;
    assert!(wrong.contains("`ringway members` lists"), "{wrong}");
    let owners = lima.run(&["ring", "members"]).unwrap();
    assert!(
        owners.stderr.contains("`ringway members`"),
        "{}",
        owners.stderr
    );
}

fn shells_complete_names(ring: &Ring) {
    assert_eq!(completed(ring, "lima", &["ping", "os"]), ["oslo"]);
    assert_eq!(completed(ring, "lima", &["send", "file", "a"]), ["alice"]);
    let commands = completed(ring, "lima", &["memb"]);
    assert_eq!(commands, ["members"]);
}
