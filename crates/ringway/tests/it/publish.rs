//! `ringway ring publish --to`: the owner's own DNS servers.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_testbed::{Knot, Outcome, Program, RingBuilder, free_address};

use super::{not_tested, program, run};

/// As `keymgr -t ring-update hmac-sha256` writes it.
const KEY: &str = "# hmac-sha256:ring-update:c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I=\nkey:\n  - id: ring-update\n    algorithm: hmac-sha256\n    secret: c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I=\n";

fn key_file(folder: &Path, mode: u32) -> PathBuf {
    let path = folder.join("update.key");
    fs::write(&path, KEY).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn publish(home: &Path, arguments: &[&str]) -> Outcome {
    let home = home.to_str().unwrap();
    run(&[&["--home", home, "ring", "publish"], arguments].concat())
}

/// No secret is shown.
#[test]
fn key_readable_by_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(&[
        "--home",
        folder.path().to_str().unwrap(),
        "ring",
        "init",
        "ring.test",
    ]);
    let key = key_file(folder.path(), 0o644);
    let key = key.to_str().unwrap();
    let refused = publish(folder.path(), &["--to", "127.0.0.1:9", "--tsig-key", key]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("chmod 600"), "{}", refused.stderr);
    fs::write(key, KEY.replace("id:", "c2VjcmV0:")).unwrap();
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    let refused = publish(folder.path(), &["--to", "127.0.0.1:9", "--tsig-key", key]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(!refused.stderr.contains("c2Vj"), "{}", refused.stderr);
}

#[test]
fn wrong_usage_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    run(&[
        "--home",
        folder.path().to_str().unwrap(),
        "ring",
        "init",
        "ring.test",
    ]);
    for (arguments, wanted) in [
        (&["--to", "ns1:port"][..], "ns1.example.org"),
        (&["--to", "127.0.0.1:9"], "--tsig-key"),
        (&["--tsig-key", "x.key"], "--to"),
        (&["--to", "127.0.0.1:9", "--zone-file", "x"], "--zone-file"),
        (&["--forget", "127.0.0.1:9"], "no server is"),
        (
            &["--to", "127.0.0.1:9", "--tsig-key", "/nowhere/x.key"],
            "/nowhere/x.key",
        ),
    ] {
        let refused = publish(folder.path(), arguments);
        assert_eq!(refused.code, Some(2), "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(wanted), "{}", refused.stderr);
    }
}

/// Makes a ring with one member, whose daemon does not run.
fn ring(program: Program) -> ringway_testbed::Ring {
    RingBuilder::new(program)
        .absent_leaf("alice")
        .start()
        .unwrap()
}

#[test]
fn revocation_names_the_kept_server_missing_it() {
    let mut ring = ring(program());
    ring.authority.terminate().unwrap();
    let owner = ring.folder().join("owner");
    let key = key_file(&owner, 0o600);
    let absent = free_address().unwrap().to_string();
    let arguments = [
        "--to",
        &absent,
        "--tsig-key",
        key.to_str().unwrap(),
        "--keep",
    ];
    let unreached = publish(&owner, &arguments);
    assert_eq!(unreached.code, Some(1), "{}", unreached.stderr);
    assert!(
        unreached.stderr.contains("goes on trying"),
        "{}",
        unreached.stderr
    );
    let home = owner.to_str().unwrap();
    let revoked = run(&["--home", home, "ring", "revoke", "alice"]);
    assert_eq!(revoked.code, Some(1), "{}", revoked.stderr);
    assert!(
        revoked.stdout.contains("alice is revoked"),
        "{}",
        revoked.stdout
    );
    for words in ["alice is revoked, but", &absent, "still find alice"] {
        assert!(revoked.stderr.contains(words), "{}", revoked.stderr);
    }
    // It is revoked in earnest.
    let again = run(&["--home", home, "ring", "revoke", "alice"]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    let forgotten = publish(&owner, &["--forget", &absent]);
    assert_eq!(forgotten.code, Some(0), "{}", forgotten.stderr);
}

/// The response code of a DNS server's answer to a question for TXT records (RFC 1035 §4.1), and
/// how many records it gives.
fn asked(server: SocketAddr, name: &str) -> (u8, u16) {
    let mut question = vec![0x52, 0x57, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 16, 0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    socket.send_to(&question, server).unwrap();
    let mut answer = [0; 4_096];
    let size = socket.recv(&mut answer).unwrap();
    assert!(size >= 12 && answer[..2] == question[..2]);
    (answer[3] & 0x0f, u16::from_be_bytes([answer[6], answer[7]]))
}

#[test]
fn own_server_gets_ring_and_every_revocation() {
    const ABSENT: u8 = 3;
    let Some(knot) = Knot::start("bed.ringway.test").unwrap() else {
        return not_tested("a DNS server of one's own needs knot");
    };
    let mut ring = ring(program());
    ring.authority.terminate().unwrap();
    let owner = ring.folder().join("owner");
    let (server, key) = (knot.address.to_string(), knot.key_file());
    assert_eq!(
        asked(knot.address, "alice._member.bed.ringway.test").0,
        ABSENT
    );
    let key = key.to_str().unwrap();
    let kept = publish(&owner, &["--to", &server, "--tsig-key", key, "--keep"]);
    assert_eq!(kept.code, Some(0), "{}", kept.stderr);
    assert_eq!(
        asked(knot.address, "alice._member.bed.ringway.test"),
        (0, 1)
    );
    let home = owner.to_str().unwrap();
    let revoked = run(&["--home", home, "ring", "revoke", "alice"]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    assert_eq!(
        asked(knot.address, "alice._member.bed.ringway.test").0,
        ABSENT
    );
}
