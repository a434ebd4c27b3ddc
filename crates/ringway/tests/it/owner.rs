//! The ring owner's commands, without a running authority.

use std::path::Path;

use ringway_testbed::Outcome;
use serde_json::Value;

use super::run;

fn ring(home: &Path, arguments: &[&str]) -> Outcome {
    run(&[
        &["--json", "--home", home.to_str().unwrap(), "ring"],
        arguments,
    ]
    .concat())
}

fn object(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome.objects().unwrap().pop().unwrap()
}

#[test]
fn a_ring_is_founded_once() {
    let folder = tempfile::tempdir().unwrap();
    let founded = object(&ring(folder.path(), &["init", "ring.test"]));
    assert_eq!(founded["schema"], "ringway.ring/1");
    assert_eq!(founded["domain"], "ring.test");
    let key = folder.path().join("authority/root.key");
    let before = std::fs::read(&key).unwrap();
    let again = ring(folder.path(), &["init", "other.test"]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert_eq!(
        std::fs::read(&key).unwrap(),
        before,
        "the first ring's key stays"
    );
}

#[test]
fn invitations_differ_and_a_newer_one_withdraws_an_older() {
    let folder = tempfile::tempdir().unwrap();
    object(&ring(folder.path(), &["init", "ring.test"]));
    let first = object(&ring(folder.path(), &["invite", "oslo"]));
    let second = object(&ring(
        folder.path(),
        &["invite", "alice", "--role", "leaf", "--expires", "2h"],
    ));
    assert_eq!(first["schema"], "ringway.invite/1");
    assert_eq!(
        (&first["role"], &second["role"]),
        (&Value::from("router"), &Value::from("leaf"))
    );
    assert_ne!(first["invite"], second["invite"]);
    assert_eq!(first["withdraws"], false);
    let newer = object(&ring(folder.path(), &["invite", "oslo"]));
    assert_eq!(newer["withdraws"], true);
    assert_ne!(first["invite"], newer["invite"]);
    let listed = ring(folder.path(), &["members"]).objects().unwrap();
    let names: Vec<&Value> = listed.iter().map(|invite| &invite["name"]).collect();
    assert_eq!(
        names,
        ["alice", "oslo"],
        "each once, the one that ends first before"
    );
    object(&ring(folder.path(), &["revoke", "alice"]));
    assert_eq!(
        ring(folder.path(), &["members"]).objects().unwrap().len(),
        1
    );
    let gone = ring(folder.path(), &["revoke", "alice"]);
    assert_eq!(gone.code, Some(2), "{}", gone.stderr);
    let bad = ring(folder.path(), &["invite", "Not A Name"]);
    assert_eq!(bad.code, Some(2), "{}", bad.stderr);
}

#[test]
fn the_invitation_alone_is_on_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    run(&["--home", home, "ring", "init", "ring.test"]);
    let outcome = run(&["--home", home, "ring", "invite", "oslo"]);
    assert_eq!(outcome.stdout.lines().count(), 1, "{}", outcome.stdout);
    assert!(!outcome.stdout.trim().contains(' '), "{}", outcome.stdout);
    assert!(
        !outcome.stderr.contains(outcome.stdout.trim()),
        "the secret is not in the notes"
    );
}

#[test]
fn the_zone_goes_to_stdout_or_whole_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    object(&ring(folder.path(), &["init", "ring.test"]));
    let home = folder.path().to_str().unwrap();
    let shown = run(&["--home", home, "ring", "publish"]).stdout;
    assert!(shown.contains("SOA") && shown.contains("TXT"), "{shown}");
    let file = folder.path().join("ring.zone");
    let written = run(&[
        "--home",
        home,
        "ring",
        "publish",
        "--zone-file",
        file.to_str().unwrap(),
    ]);
    assert_eq!(
        (written.code, written.stdout.as_str()),
        (Some(0), ""),
        "{}",
        written.stderr
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), shown.trim());
    let zone = object(&run(&["--json", "--home", home, "ring", "publish"]));
    assert_eq!(zone["schema"], "ringway.zone/1");
    assert_eq!(zone["zone"].as_str().map(str::trim), Some(shown.trim()));
    let nowhere = run(&[
        "--home",
        home,
        "ring",
        "publish",
        "--zone-file",
        "/nonexistent/ring.zone",
    ]);
    assert_eq!(nowhere.code, Some(1));
}
