//! Folders, several files, standard input and several members, by real programs.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use ringway_testbed::{Ring, RingBuilder};
use serde_json::Value;

use super::{not_tested, program, random_bytes, transfer_when};

/// Small files in the folder and bytes of each, and bytes of the large one behind them; at the
/// sender's limit it takes seconds.
const SMALL: usize = 2_000;
const SMALL_BYTES: usize = 5_000;
const LARGE: usize = 24 << 20;

/// Bytes that have arrived when the receiver is killed, in the middle of the small files; and when
/// the sender is, in the large one.
const IN_SMALL: u64 = 5_000_000;
const IN_LARGE: u64 = 12_000_000;

/// A user that no account has.
const OTHER: u32 = 61_235;

fn ring() -> Ring {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .router("lima")
        .router("lab-1");
    let builder = builder.leaf_with("alice", &["--upload-limit", "2MiB"]);
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    ring
}

fn inbox(ring: &Ring, name: &str) -> PathBuf {
    ring.member(name).unwrap().home.join("inbox")
}

#[test]
fn folders_and_several_files_arrive() {
    let mut ring = ring();
    folder_goes_on_after_a_kill(&mut ring);
    several_go_to_all_that_a_pattern_means(&ring);
    standard_input_arrives_under_its_name(&ring);
    folder_is_handed_over(&ring);
    odd_names_are_said(&ring);
    mistakes_change_nothing(&ring);
}

fn small(number: usize) -> Vec<u8> {
    random_bytes(&number.to_string(), SMALL_BYTES)
}

fn make_folder(folder: &Path) -> PathBuf {
    let root = folder.join("photos");
    fs::create_dir_all(root.join("many")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    for number in 0..SMALL {
        fs::write(root.join(format!("many/{number}")), small(number)).unwrap();
    }
    fs::write(root.join("z.bin"), random_bytes("large", LARGE)).unwrap();
    fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("many/7", root.join("seven")).unwrap();
    symlink("/etc/passwd", root.join("outside")).unwrap();
    root
}

fn folder_goes_on_after_a_kill(ring: &mut Ring) {
    let root = make_folder(ring.folder());
    let alice = ring.member("alice").unwrap();
    let queued = alice.call(&["send", root.to_str().unwrap(), "oslo", "--detach"]);
    let queued = queued.unwrap().remove(0);
    assert_eq!(queued["kind"], "folder", "{queued}");
    let id = queued["id"].as_str().unwrap().to_owned();
    for (killed, bytes) in [("oslo", IN_SMALL), ("alice", IN_LARGE)] {
        let there = transfer_when(ring, "oslo", &id, |transfer| {
            transfer["bytes"].as_u64() >= Some(bytes)
        });
        assert_ne!(there["state"], "done", "too fast for this test: {there}");
        ring.member_mut(killed).unwrap().kill().unwrap();
        ring.member_mut(killed).unwrap().start().unwrap();
    }
    let sent = transfer_when(ring, "alice", &id, |transfer| transfer["state"] == "done");
    // What was there was not sent again.
    assert!(sent["resumed_from"].as_u64() >= Some(IN_SMALL), "{sent}");
    assert_eq!(sent["entries"].as_u64(), u64::try_from(SMALL + 6).ok());
    assert!(
        sent["notes"].to_string().contains("photos/outside"),
        "{sent}"
    );
    let received = transfer_when(ring, "oslo", &id, |transfer| transfer["state"] == "done");
    let arrived = inbox(ring, "oslo").join("photos");
    assert_eq!(received["path"], arrived.to_str().unwrap());
    assert!(fs::read(arrived.join("z.bin")).unwrap() == random_bytes("large", LARGE));
    for number in 0..SMALL {
        let content = fs::read(arrived.join(format!("many/{number}"))).unwrap();
        assert!(content == small(number), "{number}");
    }
    let facts = fs::metadata(arrived.join("run.sh")).unwrap();
    assert_eq!(facts.mode() & 0o777, 0o755);
    let mine = fs::metadata(root.join("run.sh")).unwrap();
    assert_eq!(facts.modified().unwrap(), mine.modified().unwrap());
    assert_eq!(
        fs::read_link(arrived.join("seven")).unwrap(),
        Path::new("many/7")
    );
    assert!(arrived.join("empty").is_dir());
    assert!(fs::symlink_metadata(arrived.join("outside")).is_err());
    let parts = fs::read_dir(inbox(ring, "oslo").join(".partial")).unwrap();
    assert_eq!(parts.count(), 0);
}

fn several_go_to_all_that_a_pattern_means(ring: &Ring) {
    let (one, two) = (ring.folder().join("one.txt"), ring.folder().join(".two"));
    fs::write(&one, "1").unwrap();
    fs::write(&two, "2").unwrap();
    let alice = ring.member("alice").unwrap();
    let arguments = [
        "send",
        one.to_str().unwrap(),
        two.to_str().unwrap(),
        "--to",
        "l*",
    ];
    let sent = alice.call(&arguments).unwrap();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[0]["group"].is_string() && sent[0]["group"] == sent[1]["group"]);
    let peers: Vec<&Value> = sent.iter().map(|transfer| &transfer["peer"]).collect();
    assert_eq!(peers, ["lab-1", "lima"]);
    for name in ["lab-1", "lima"] {
        let read = |file: &str| fs::read_to_string(inbox(ring, name).join(file)).unwrap();
        assert_eq!(
            (read("one.txt"), read("two")),
            ("1".to_owned(), "2".to_owned())
        );
    }
}

fn standard_input_arrives_under_its_name(ring: &Ring) {
    let home = ring.member("alice").unwrap().home.clone();
    let arguments = [
        "--home",
        home.to_str().unwrap(),
        "send",
        "-",
        "lima",
        "--name",
        "dump.sql",
    ];
    let sent = program().run_with_input(arguments, "select 1;").unwrap();
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert!(
        sent.stdout.contains("sent dump.sql to lima"),
        "{}",
        sent.stdout
    );
    let arrived = fs::read(inbox(ring, "lima").join("dump.sql")).unwrap();
    assert_eq!(arrived, b"select 1;");
}

/// A daemon of another user gets what the caller may read, packed: it opens no path of theirs.
fn folder_is_handed_over(ring: &Ring) {
    if !rustix::process::geteuid().is_root() {
        return not_tested("folders for another user's daemon: it takes root");
    }
    let alice = ring.member("alice").unwrap();
    let socket = alice.home.join("control.sock");
    std::os::unix::fs::chown(&socket, Some(OTHER), None).unwrap();
    let folder = ring.folder().join("handed");
    fs::create_dir_all(folder.join("inner")).unwrap();
    fs::write(folder.join("inner/file"), "packed").unwrap();
    symlink("/etc/passwd", folder.join("outside")).unwrap();
    let sent = alice
        .run(&["send", folder.to_str().unwrap(), "--to", "lima"])
        .unwrap();
    std::os::unix::fs::chown(&socket, Some(0), None).unwrap();
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert!(sent.stderr.contains("handed/outside"), "{}", sent.stderr);
    let arrived = inbox(ring, "lima").join("handed");
    assert_eq!(fs::read(arrived.join("inner/file")).unwrap(), b"packed");
    assert!(fs::symlink_metadata(arrived.join("outside")).is_err());
}

fn odd_names_are_said(ring: &Ring) {
    let hidden = ring.folder().join(".secret");
    fs::write(&hidden, "x").unwrap();
    let link = ring.folder().join("link");
    symlink(".secret", &link).unwrap();
    let alice = ring.member("alice").unwrap();
    let sent = alice
        .run(&["send", hidden.to_str().unwrap(), "lima"])
        .unwrap();
    assert!(
        sent.stdout.contains("arrives as `secret`"),
        "{}",
        sent.stdout
    );
    let sent = alice
        .run(&["send", link.to_str().unwrap(), "lima"])
        .unwrap();
    assert!(sent.stdout.contains("sent link to lima"), "{}", sent.stdout);
    assert_eq!(fs::read(inbox(ring, "lima").join("link")).unwrap(), b"x");
}

fn mistakes_change_nothing(ring: &Ring) {
    let alice = ring.member("alice").unwrap();
    let before = alice.call(&["transfers"]).unwrap().len();
    for (arguments, word) in [
        (["send", "/etc/hostname", "--to", "lap-*"], "`lab-1`"),
        (["send", "/proc/cpuinfo", "--to", "lima"], "its size is 0"),
        (["send", "/etc/hostname", "--to", "alice"], "oneself"),
    ] {
        let refused = alice.run(&arguments).unwrap();
        assert_eq!(refused.code, Some(2), "{arguments:?} {}", refused.stderr);
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    assert_eq!(alice.call(&["transfers"]).unwrap().len(), before);
}
